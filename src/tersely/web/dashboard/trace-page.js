// <trace-page session>: every call of a model or a tool, with its tokens, price and duration.

import { api, pages } from "./api.js";
import { copyButton, h, put } from "./dom.js";
import { clock, duration, isOpen, number, price, short } from "./format.js";
import { follow } from "./live.js";

const TYPES = { iteration: "model", final_analysis: "model, analysis", summarization: "model, summary", mcp: "tool" };

class TracePage extends HTMLElement {
  #gone = new AbortController();
  #stop = () => {};
  #shown = new Map();
  #sum = { tools: 0, calls: 0, input: 0, output: 0, price: 0, unknown: false };
  #cursor = null;

  connectedCallback() {
    this.session = this.getAttribute("session");
    document.title = "Trace · tersely";
    this.crumbs = h("p.crumbs", null, h("a", { href: "/" }, "Sessions"));
    this.sums = h("dl.facts");
    this.rows = h("ul.rows");
    const all = copyButton("Copy all as JSON", async () => {
      const found = [];
      for (const id of this.#shown.keys()) found.push(await api(`/sessions/${this.session}/trace/${id}`));
      return JSON.stringify(found, null, 2);
    });
    put(
      this,
      this.crumbs,
      h("div.page-head", null, h("h1", null, "Trace"), h("span.grow"), all),
      this.sums,
      h("div.sessions", null, h("div.row.head.trace-row", { "aria-hidden": "true" }, ["Time", "Type", "Model or tool", "Tokens in", "out", "Price", "Duration"].map((word, place) => h(place > 2 ? "span.number" : "span", null, word))), this.rows),
    );
    this.#open().catch((problem) => problem.name !== "AbortError" && put(this, this.crumbs, h("div.empty", null, h("h1", null, "Could not load the trace"), h("p", null, problem.message))));
  }

  disconnectedCallback() {
    this.#gone.abort();
    this.#stop();
    clearTimeout(this.timer);
  }

  addressed() {
    const id = /^#interaction-([\w-]+)$/.exec(location.hash)?.[1];
    const row = id && this.#shown.get(id);
    if (!row) return;
    row.querySelector("details").open = true;
    row.scrollIntoView({ block: "start" });
    row.querySelector("summary").focus({ preventScroll: true });
  }

  async #open() {
    const { signal } = this.#gone;
    const session = await api(`/sessions/${encodeURIComponent(this.session)}`, { signal });
    document.title = `Trace of ${session.title || session.alert_type} · tersely`;
    put(this.crumbs, h("a", { href: "/" }, "Sessions"), h("span", null, h("a", { href: `/sessions/${this.session}`, rel: "up" }, session.title || session.alert_type)));
    await this.#read();
    this.addressed();
    if (isOpen(session.status))
      this.#stop = follow(`session:${this.session}`, session.last_seq, (event) => {
        if (event.type !== "interaction.created") return;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.#read().catch(() => {}), 400);
      });
  }

  async #read() {
    for await (const items of pages(`/sessions/${this.session}/trace`, { limit: 100, signal: this.#gone.signal })) {
      for (const one of items) {
        if (this.#shown.has(one.id)) continue;
        const row = this.#row(one);
        this.#shown.set(one.id, row);
        this.#place(row, one);
        if (one.interaction_type === "mcp") this.#sum.tools++;
        else {
          if (one.response.outcome !== "cached") this.#sum.calls++;
          this.#sum.input += one.input_tokens;
          this.#sum.output += one.output_tokens;
          if (one.price_usd === null) this.#sum.unknown = true;
          else this.#sum.price += one.price_usd;
        }
      }
    }
    const fact = (name, value) => h("div", null, h("dt", null, name), h("dd", null, value));
    put(
      this.sums,
      fact("tool calls", number(this.#sum.tools)),
      fact("model calls", number(this.#sum.calls)),
      this.#sum.calls ? [fact("tokens in", number(this.#sum.input)), fact("tokens out", number(this.#sum.output)), fact("price", this.#sum.unknown ? `${price(this.#sum.price)} plus calls of unknown price` : price(this.#sum.price))] : null,
    );
    if (!this.#shown.size) put(this.rows, h("li.empty", null, h("p", null, "No model or tool calls yet.")));
    else this.rows.querySelector(".empty")?.remove();
  }

  /** In order of time; a call that summarizes a tool's result follows the tool call. */
  #place(row, one) {
    row.dataset.at = one.created_at;
    row.dataset.parent = one.parent_id ?? "";
    row.classList.toggle("inner", Boolean(one.parent_id));
    const rows = [...this.rows.children].filter((other) => other.dataset.at);
    const inner = one.parent_id ? rows.filter((other) => other.dataset.parent === one.parent_id) : [];
    const parent = one.parent_id && this.#shown.get(one.parent_id);
    const before = inner.filter((other) => other.dataset.at <= row.dataset.at).at(-1) ?? parent;
    if (before?.isConnected) return before.after(row);
    // The tool call is recorded after the calls that summarize its result.
    const waiting = rows.find((other) => other.dataset.parent === one.id);
    const later = waiting ?? inner[0] ?? rows.find((other) => !other.dataset.parent && other.dataset.at > row.dataset.at);
    if (later) later.before(row);
    else this.rows.append(row);
  }

  #row(one) {
    const isTool = one.interaction_type === "mcp";
    const { outcome } = one.response;
    const attempt = one.request.attempt > 1 && `attempt ${one.request.attempt}`;
    const details = h(
      "details",
      null,
      h(
        "summary.row.trace-row",
        { dataset: { stop: "" } },
        h("span", null, clock(one.created_at)),
        h("span", null, h("span.tag", { class: isTool ? "" : "good" }, TYPES[one.interaction_type] ?? one.interaction_type), one.error && h("span.tag.bad", null, outcome === "cancelled" ? "cancelled" : "error"), outcome === "cached" && h("span.tag", null, "cached"), attempt && h("span.tag", null, attempt)),
        h("span.clip", null, isTool ? h("code", null, `${one.request.server ?? ""}.${one.request.tool ?? ""}`.replace(/^\./, "")) : `${one.model}${one.provider ? ` · ${one.provider}` : ""}`),
        h("span.number", { class: isTool ? "none" : "", dataset: { label: "in" }, title: number(one.input_tokens) }, isTool ? "–" : short(one.input_tokens)),
        h("span.number", { dataset: { label: "out" }, title: number(one.output_tokens) }, isTool ? (one.response.tokens ? short(one.response.tokens) : "–") : short(one.output_tokens)),
        h("span.number", { class: isTool ? "none" : "", dataset: { label: "price" } }, isTool ? "–" : price(one.price_usd)),
        h("span.number", { dataset: { label: "duration" } }, duration(one.duration_ms)),
      ),
    );
    details.addEventListener("toggle", () => details.open && details.childElementCount === 1 && this.#unfold(details, one));
    return h("li.trace", { id: `interaction-${one.id}` }, details);
  }

  async #unfold(details, one) {
    const body = h("div.trace-body", null, h("p.quiet-words", null, "…"));
    details.append(body);
    let whole;
    try {
      whole = await api(`/sessions/${this.session}/trace/${one.id}`, { signal: this.#gone.signal });
    } catch (problem) {
      if (problem.name !== "AbortError") put(body, h("p.problem", null, problem.message));
      return;
    }
    const part = (name, value) =>
      value && (typeof value === "string" || Object.keys(value).length) ? [h("h4", null, name), h("pre.plain.tall", { tabindex: 0 }, typeof value === "string" ? value : JSON.stringify(value, null, 2))] : null;
    const { content, text, ...rest } = whole.response;
    put(
      body,
      h("div.call-actions", null, copyButton("Copy as JSON", JSON.stringify(whole, null, 2)), whole.response.handle && h("a.button.small", { href: `/sessions/${this.session}/results/${whole.response.handle}` }, "Before and after"), h("a.small", { href: `#interaction-${one.id}` }, "Link")),
      whole.error && h("p.problem", null, whole.error),
      whole.messages.length ? h("details.fold", null, h("summary", null, `${whole.messages.length} messages sent to the model`), whole.messages.map(message)) : null,
      part("Request", whole.request),
      part("Response", text ?? content),
      part("Response, other fields", rest),
    );
  }
}

function message({ role, text, ...more }) {
  const rest = Object.fromEntries(Object.entries(more).filter(([, value]) => value && (!Array.isArray(value) || value.length)));
  return h("div.message", null, h("h4", null, role), text && h("pre.plain.tall", { tabindex: 0 }, text), Object.keys(rest).length > 0 && h("pre.plain", { tabindex: 0 }, JSON.stringify(rest, null, 2)));
}

customElements.define("trace-page", TracePage);
