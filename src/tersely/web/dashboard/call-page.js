// <call-page session event> or <call-page session handle>: one tool call, with the full and the condensed result side by side.

import { api, pages } from "./api.js";
import { copyButton, h, put } from "./dom.js";
import { bytes, clock, count, duration, isOpen, lasting, number, percent, price, short } from "./format.js";
import { follow } from "./live.js";
import { title } from "./notices.js";
import { Timeline, toolName } from "./state.js";
import "./kept-text.js";

const METHODS = {
  structural: "condensed by structure, no model",
  summarized: "summarized by a model",
  partial: "summarized, with gaps",
  fallback: "no summary",
  passthrough: "passed through",
};
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"]; // types that are shown as images; others are files

class CallPage extends HTMLElement {
  #timeline = new Timeline({ keep: Infinity });
  #gone = new AbortController();
  #stop = () => {};
  #item = null;
  #session = null;
  #kept = null;

  connectedCallback() {
    this.session = this.getAttribute("session");
    this.head = h("header");
    this.after = h("section.pane.after", { "aria-labelledby": "after-title" });
    this.before = h("section.pane.before", { "aria-labelledby": "before-title" });
    this.crumbs = h("p.crumbs", null, h("a", { href: "/" }, "Sessions"), h("span", null, h("a", { href: `/sessions/${this.session}`, rel: "up" }, "Session")));
    this.others = h("div.pictures", { hidden: true });
    put(this, this.crumbs, this.head, this.others, h("div.panes", null, this.before, this.after));
    this.#open().catch((problem) => {
      if (problem.name === "AbortError") return;
      title("Tool call");
      put(this.head, h("div.empty", null, h("h1", null, problem.status === 404 ? "Not found" : "Could not load this call"), h("p", null, problem.message)));
    });
  }

  disconnectedCallback() {
    this.#gone.abort();
    this.#stop();
  }

  /** Show the lines of a fragment such as #L12-20. */
  addressed() {
    const match = /^#L(\d{1,15})(?:-(\d{1,15}))?$/.exec(location.hash);
    if (match && this.text) this.text.jump(Number(match[1]), Number(match[2] ?? match[1]));
  }

  async #open() {
    const { signal } = this.#gone;
    this.#session = await api(`/sessions/${encodeURIComponent(this.session)}`, { signal });
    put(this.crumbs, h("a", { href: "/" }, "Sessions"), h("span", null, h("a", { href: `/sessions/${this.session}`, rel: "up" }, this.#session.title || this.#session.alert_type)));
    const wanted = this.getAttribute("event");
    const handle = this.getAttribute("handle");
    for await (const items of pages(`/sessions/${this.session}/timeline`, { limit: 500, cursor: "after", signal })) {
      for (const item of items) this.#timeline.apply(item);
      this.#item = wanted ? this.#timeline.items.get(wanted) : this.#timeline.callOf(handle);
      if (this.#item?.type === "mcp_tool_summary" && this.#item.parent) this.#item = this.#item.parent;
      // Its summary may be on the next page.
      if (this.#item && (this.#item.summary || items.at(-1).sequence > this.#item.sequence + 60)) break;
    }
    if (!this.#item && !handle) throw Object.assign(new Error("This session has no such event."), { status: 404 });
    this.handle = handle ?? this.#item.metadata.handle;
    this.#draw();
    if (this.handle) await this.#openKept();
    const settled = this.#item?.summary ? this.#item.summary.status !== "streaming" : !isOpen(this.#session.status);
    if (!settled) this.#follow();
  }

  async #openKept() {
    this.text = h("kept-text", { session: this.session, handle: this.handle });
    this.beforeHead = h("div.pane-head");
    put(this.before, this.#beforeHead(), this.text);
    try {
      this.#kept = await this.text.open();
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      const file = await this.#file(this.handle);
      if (!file) put(this.before, this.#beforeHead(), h("p.problem", null, problem.message));
      else {
        // The result is not text, so there is nothing to compare.
        this.querySelector(".panes").hidden = true;
        this.#kept = file;
        this.#draw();
        this.#show([file]);
      }
      return;
    }
    // JSON on one line is shown on many.
    this.querySelector(".panes").style.setProperty("--lines", String(Math.max(this.#kept.lines, Math.round(this.#kept.bytes / 40))));
    this.#beforeHead();
    this.#draw();
    this.#beside();
    await Promise.all([this.#mark(), this.text.plotted]);
    const q = new URLSearchParams(location.search).get("q");
    if (q) this.text.find(q);
    if (/^#L\d/.test(location.hash)) this.addressed();
    else if (!q && this.text.firstOfInterest > 20) this.text.jump(this.text.firstOfInterest);
  }

  /** Mark what became of each line in the text that the model received. */
  async #mark() {
    const summary = this.#item?.summary;
    if (!summary || summary.status === "streaming") return;
    try {
      this.account = await api(`/sessions/${this.session}/results/${this.handle}/account?summary=${encodeURIComponent(summary.id)}`, { signal: this.#gone.signal });
    } catch (problem) {
      if (problem.name === "AbortError") throw problem;
      return; // The result is shown without marks.
    }
    this.text.mark(this.account);
    this.#draw();
  }

  // Images and other files

  async #file(handle) {
    for await (const found of pages(`/sessions/${this.session}/results`, { limit: 100, signal: this.#gone.signal })) {
      const file = found.find((one) => one.handle === handle);
      if (file) return file.kind === "image" || file.kind === "other" ? file : null;
    }
    return null;
  }

  /** Files that the same call returned in addition to its text. The list is newest first, so an older entry ends the search. */
  async #beside() {
    const { server, tool, called_at } = this.#kept;
    const files = [];
    try {
      for await (const found of pages(`/sessions/${this.session}/results`, { limit: 100, signal: this.#gone.signal })) {
        files.push(...found.filter((one) => one.part && (one.kind === "image" || one.kind === "other") && one.called_at === called_at && one.server === server && one.tool === tool));
        if (new Date(found.at(-1)?.created_at) < new Date(called_at)) break;
      }
    } catch {
      return; // The text is shown without them.
    }
    this.#show(files.sort((one, other) => one.part - other.part));
  }

  #show(files) {
    this.others.hidden = !files.length;
    put(
      this.others,
      files.map((file) => {
        const address = `/api/v1/sessions/${this.session}/results/${file.handle}/raw`;
        const type = file.mime_type.split(";", 1)[0].trim().toLowerCase();
        const picture = PICTURES.includes(type) && h("a", { href: address, target: "_blank", rel: "noopener" }, h("img", { src: address, alt: `Image returned by ${toolName({ server_name: file.server, tool_name: file.tool })}`, decoding: "async" }));
        return h("figure", null, picture, h("figcaption", null, h("span", null, `${type}, ${bytes(file.bytes)}`), h("code", null, file.handle), h("a", { href: address, download: "" }, "Download")));
      }),
    );
  }

  #follow() {
    this.#stop = follow(`session:${this.session}`, this.#session.last_seq, (event) => {
      const changed = this.#timeline.apply(event);
      if (!changed || (changed !== this.#item && changed !== this.#item?.summary)) return;
      if (this.#item.metadata.handle && !this.handle) {
        this.handle = this.#item.metadata.handle;
        this.#openKept();
      }
      this.#frame ||= requestAnimationFrame(() => {
        this.#frame = 0;
        this.#draw();
      });
      if (this.#item.summary && this.#item.summary.status !== "streaming") {
        this.#stop();
        if (this.text) this.#mark();
      }
    });
  }
  #frame = 0;

  #beforeHead() {
    const kept = this.#kept;
    return put(
      this.beforeHead,
      h("h2", { id: "before-title" }, "Before"),
      h("span.under", null, "result of the tool", kept ? ` · ${number(kept.tokens)} tokens, ${count(kept.lines, "line")}, ${bytes(kept.bytes)}` : ""),
    );
  }

  #draw() {
    const item = this.#item;
    const about = item?.metadata ?? { server_name: this.#kept?.server, tool_name: this.#kept?.tool, arguments: this.#kept?.arguments, original_tokens: this.#kept?.tokens };
    const summary = item?.summary;
    const outcome = summary?.metadata ?? {};
    const failed = about.is_error || item?.status === "failed";
    title(`${toolName(about)} · ${this.#session.title || this.#session.alert_type}`);
    const fact = (name, value, title) => value !== null && value !== undefined && value !== "" && h("div", { title }, h("dt", null, name), h("dd", null, value));
    const unseen = outcome.status === "fallback" || outcome.status === "partial" || outcome.summarization_fallback;
    put(
      this.head,
      h(
        "div.page-head",
        null,
        h("h1.tool-name", null, toolName(about)),
        failed && h("span.tag.bad", null, "error"),
        item?.status === "streaming" && h("span.tag", null, "running"),
        summary?.status === "streaming" && h("span.tag", null, "condensing"),
        outcome.status === "fallback" && h("span.tag.warn", null, "no summary: the model received the ", outcome.returned === "original" ? "original" : "structural text"),
        outcome.status === "partial" && h("span.tag.warn", null, "summary with gaps"),
        outcome.status !== "fallback" && outcome.summarization_fallback && h("span.tag.warn", null, "fallback model used"),
        h("span.grow"),
        item && h("a.button", { href: `/sessions/${this.session}#event-${item.id}` }, "Show in timeline"),
        this.handle && h("a.button", { href: `/api/v1/sessions/${this.session}/results/${this.handle}`, target: "_blank", rel: "noopener" }, "As JSON"),
      ),
      unseen && outcome.reason && h("p.problem.mild", null, outcome.reason),
      h(
        "dl.facts",
        null,
        about.original_tokens && outcome.summary_tokens !== undefined
          ? fact("size", `${short(about.original_tokens)} → ${short(outcome.summary_tokens)} tokens (${percent(about.original_tokens - outcome.summary_tokens, about.original_tokens)} less)`, `${number(about.original_tokens)} → ${number(outcome.summary_tokens)} tokens`)
          : fact("size", about.original_tokens ? count(about.original_tokens, "token") : null),
        fact("method", summary ? (METHODS[outcome.status] ?? outcome.status) : about.original_tokens && !failed ? "not condensed: below the threshold" : null),
        fact("model", outcome.summarization_model ? `${outcome.summarization_model}${outcome.summarization_provider ? ` (${outcome.summarization_provider})` : ""}` : null),
        this.paid && fact("price", price(this.paid.price_usd), `${count(this.paid.calls, "call")}, ${number(this.paid.input_tokens)} tokens in, ${number(this.paid.output_tokens)} out`),
        outcome.chunks ? fact("parts", `${outcome.chunks}${outcome.cache_hits ? `, ${outcome.cache_hits} from the cache` : ""}`) : null,
        fact("duration", item?.status === "streaming" ? lasting(item.at, null) : duration(about.duration_ms)),
        item && fact("called", clock(item.at, "clock", { named: true })),
        about.cleaned ? fact("removed", `${number(about.cleaned)} hidden characters`, "Escape sequences, zero-width and bidirectional characters") : null,
        this.handle && fact("kept as", h("code", null, this.handle)),
      ),
      about.arguments && Object.keys(about.arguments).length
        ? h("dl.given", { "aria-label": "Arguments" }, Object.entries(about.arguments).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, typeof value === "string" ? value : JSON.stringify(value)))))
        : null,
    );
    this.#drawAfter(item, summary, outcome, failed);
    if (outcome.summarization_model && summary.status !== "streaming") this.#pay();
  }

  #drawAfter(item, summary, outcome, failed) {
    const title = h("h2", { id: "after-title" }, "After");
    const whole = !summary && (this.handle || !failed);
    this.querySelector(".panes").classList.toggle("alone", Boolean(whole || !this.handle));
    if (whole) {
      if (!item) put(this.after);
      else if (item.status === "streaming") put(this.after, h("div.pane-head", null, title, h("span.under", null, "still running")));
      else put(this.after, h("div.pane-head", null, title, h("span.under", null, failed ? "The model received this error as it is." : "The model received the whole result.")));
      return;
    }
    const text = summary ? summary.content : item.content;
    put(
      this.after,
      h("div.pane-head", null, title, h("span.under", null, failed ? "error the model received" : "text the model received", outcome.summary_tokens ? ` · ${count(outcome.summary_tokens, "token")}` : ""), h("span.grow"), text && copyButton("Copy", text)),
      h("div.got", { tabindex: 0, role: "group", "aria-label": "Text the model received" }, h("pre", null, linked(text)), summary?.status === "streaming" && h("span.caret")),
      outcome.invented?.length ? h("p.problem.mild", null, `${outcome.unverified ? "Unverified. " : ""}Not in the source: ${outcome.invented.join(", ")}`) : null,
      outcome.derived?.length ? h("p.quiet-words", null, `Counted or summed by the model: ${outcome.derived.join(", ")}`) : null,
      outcome.cut ? h("p.quiet-words", null, "The summary was cut at its size limit.") : null,
      this.account && leftOut(this.account, this.text),
    );
  }

  async #pay() {
    if (this.paying) return;
    this.paying = true;
    const paid = { input_tokens: 0, output_tokens: 0, price_usd: 0, calls: 0 };
    try {
      for await (const found of pages(`/sessions/${this.session}/trace`, { limit: 200, signal: this.#gone.signal })) {
        for (const one of found) {
          if (one.interaction_type !== "summarization" || one.request?.handle !== this.handle) continue;
          paid.calls += one.response.outcome === "cached" ? 0 : 1;
          paid.input_tokens += one.input_tokens;
          paid.output_tokens += one.output_tokens;
          // An unknown price makes the sum unknown.
          paid.price_usd = paid.price_usd === null || one.price_usd === null ? null : paid.price_usd + one.price_usd;
        }
      }
      if (!paid.calls) return;
      this.paid = paid;
      this.#draw();
    } catch {
      // The price is optional; the page works without it.
    }
  }
}

/** Every line number in references such as "lines 12-20, 31 and 40" is a link. */
export function linked(text) {
  const parts = [];
  let from = 0;
  for (const match of (text ?? "").matchAll(/\b(?:lines?|L)\s?\d{1,9}(?:\s?[-–]\s?\d{1,9})?(?!\d|[-–:.T]\d)(?:(?:,\s?|,? and )\d{1,9}(?:\s?[-–]\s?\d{1,9})?(?!\d|[-–:.T]\d))*/g)) {
    if (parts.length > 1_000) break;
    for (const one of match[0].matchAll(/(\d{1,9})(?:\s?[-–]\s?(\d{1,9}))?/g)) {
      const at = match.index + one.index;
      parts.push(text.slice(from, at), h("a", { href: `#L${one[1]}${one[2] ? `-${one[2]}` : ""}` }, one[0]));
      from = at + one[0].length;
    }
  }
  parts.push((text ?? "").slice(from));
  return parts;
}

/** What the text does not show, by kind of line. */
function leftOut({ method, counts, left_out, folded, lines }, text) {
  const values = text.valueCounts;
  if (method === "unknown") return null;
  const total = lines.at(-1)?.last ?? 0;
  const missing = (counts.lost ?? 0) + (counts.unused ?? 0);
  const hidden = values && (values.lost ?? 0) + (values.partial ?? 0);
  const words =
    method === "model"
      ? `A model wrote this summary. It quotes ${count(counts.quoted ?? 0, "line")} and cites ${count(counts.cited ?? 0, "line")} of ${number(total)}; they are marked in the original.`
      : hidden
        ? `${number(hidden)} of ${count(Object.values(values).reduce((sum, one) => sum + one, 0), "value")}. Everything is in the original beside this.`
        : missing
          ? `${number(missing)} of ${count(total, "line")}. Everything is in the original beside this.`
          : "";
  if (!words) return h("p.quiet-words.left-out-none", null, "Nothing was left out.");
  const kinds = (list) =>
    h(
      "ul.kinds",
      null,
      merged(list).map((one) => h("li", null, h("b", null, `${number(one.count)} ×`), h("a", { href: `#L${one.lines[0][0]}`, title: `First at line ${one.lines[0][0]}` }, h("code.clip", null, one.example)))),
    );
  return h(
    "div.left-out",
    { tabindex: 0, role: "group", "aria-labelledby": "left-out-title" },
    h("h3", { id: "left-out-title" }, method === "model" ? "Quoted and cited" : "Left out", h("span.under", null, ` ${words}`)),
    values ? h("ul.kinds", null, text.lostPaths.map((one) => h("li", null, h("b", null, `${number(one.count)} ×`), h("button.path", { type: "button", onclick: () => text.reveal(one.node) }, h("code.clip", null, one.path))))) : null,
    !values && method === "structural" && left_out.length && total > 1 ? kinds(left_out) : null,
    !values && folded.length ? [h("h3", null, "Counted", h("span.under", null, " lines that one line with a count stands for")), kinds(folded.slice(0, 6))] : null,
  );
}

/** Kinds that look the same are one: what distinguishes them, e.g. the pod, is not in their example. */
function merged(kinds) {
  const found = new Map();
  for (const one of kinds) {
    const same = found.get(one.example);
    found.set(one.example, same ? { ...same, count: same.count + one.count, lines: same.lines[0][0] < one.lines[0][0] ? same.lines : one.lines } : one);
  }
  return [...found.values()].sort((one, other) => other.count - one.count);
}

customElements.define("call-page", CallPage);
