// <trace-page session>: every call of a model or a tool as a waterfall, with its tokens, price and duration.

import { api, pages } from "./api.js";
import { copyButton, h, icon, put, skeleton } from "./dom.js";
import { clock, count, duration, isOpen, lasting, number, offset, pill, price, short } from "./format.js";
import { follow } from "./live.js";
import { title } from "./notices.js";
import { axisTicks, waterfallRows } from "./waterfall.js";

const FILTERS = { "": "All", errors: "Errors", model: "Models", tool: "Tools" };
const isModel = (row) => row.call && row.call.interaction_type !== "mcp";

class TracePage extends HTMLElement {
  #gone = new AbortController();
  #stop = () => {};
  #calls = new Map();
  #unfoldedRows = new Set();
  #folded = new Set();
  #session = null;
  #filter = "";

  connectedCallback() {
    this.session = this.getAttribute("session");
    title("Waterfall");
    this.crumbs = h("p.crumbs", null, h("a", { href: "/" }, "Sessions"));
    this.head = h("div", null, skeleton(2));
    this.bar = h("div.timeline-bar");
    this.field = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter by name", autocomplete: "off", oninput: () => this.#draw() });
    this.axis = h("div.wf-axis", { "aria-hidden": "true" });
    this.rows = h("ul.rows.waterfall");
    put(this, this.crumbs, this.head, this.bar, h("div.sessions", null, this.axis, this.rows));
    this.#open().catch((problem) => problem.name !== "AbortError" && put(this, this.crumbs, h("div.empty", null, h("h1", null, "Could not load the trace"), h("p", null, problem.message))));
  }

  disconnectedCallback() {
    this.#gone.abort();
    this.#stop();
    clearTimeout(this.timer);
  }

  addressed() {
    const id = /^#(interaction-[\w-]+)$/.exec(location.hash)?.[1];
    if (!id) return;
    this.#unfoldedRows.add(id);
    this.#filter = "";
    this.field.value = "";
    this.#folded.clear();
    this.#draw();
    const row = document.getElementById(id);
    row?.scrollIntoView({ block: "start" });
    row?.querySelector("summary").focus({ preventScroll: true });
  }

  async #open() {
    const { signal } = this.#gone;
    await this.#read();
    put(this.crumbs, h("a", { href: "/" }, "Sessions"), h("span", null, h("a", { href: `/sessions/${this.session}`, rel: "up" }, this.#session.title || this.#session.alert_type)));
    title(`Waterfall of ${this.#session.title || this.#session.alert_type}`);
    this.addressed();
    if (isOpen(this.#session.status))
      this.#stop = follow(`session:${this.session}`, this.#session.last_seq, (event) => {
        if (!["interaction.created", "session.status", "stage.status"].includes(event.type)) return;
        clearTimeout(this.timer);
        this.timer = setTimeout(() => !signal.aborted && this.#read().catch(() => {}), 400);
      });
  }

  async #read() {
    const { signal } = this.#gone;
    this.#session = await api(`/sessions/${encodeURIComponent(this.session)}`, { signal });
    for await (const items of pages(`/sessions/${this.session}/trace`, { limit: 500, signal })) for (const one of items) this.#calls.set(one.id, one);
    this.#draw();
  }

  #draw() {
    const one = this.#session;
    if (!one) return;
    const rows = waterfallRows(one.stages, [...this.#calls.values()]);
    this.#drawHead(one, rows);
    const start = Math.min(...rows.map((row) => row.start));
    const total = Math.max(1, Math.max(...rows.map((row) => row.end)) - start);
    put(this.axis, h("span", null, "Call"), h("span.wf-track", null, rows.length ? axisTicks(total).map((tick) => h("i", { style: { left: `${(100 * tick) / total}%` } }, tick ? duration(tick) : "0")) : null), h("span.number", null, "Tokens"), h("span.number", null, "Price"), h("span.number", null, "Duration"));
    if (!rows.length) return put(this.rows, h("li.empty", null, h("p", null, "No model or tool calls yet.")));
    const focused = this.rows.querySelector("summary:focus")?.closest("li")?.id;
    put(this.rows, this.#wanted(rows).map((row) => this.#row(row, start, total)));
    if (focused) document.getElementById(focused)?.querySelector("summary").focus({ preventScroll: true });
  }

  /** The rows of the filter; of a folded group only its head. */
  #wanted(rows) {
    const words = this.field.value.trim().toLowerCase();
    if (this.#filter || words) {
      const fits = { "": () => true, errors: (row) => row.error, model: isModel, tool: (row) => row.kind === "tool" }[this.#filter];
      return rows.filter((row) => row.call && fits(row) && row.name.toLowerCase().includes(words)).map((row) => ({ ...row, depth: 0 }));
    }
    const found = [];
    let hidden = Infinity;
    for (const row of rows) {
      if (row.depth > hidden) continue;
      hidden = this.#folded.has(row.id) ? row.depth : Infinity;
      found.push(row);
    }
    return found;
  }

  #drawHead(one, rows) {
    const { usage } = one;
    const errors = rows.filter((row) => row.call && row.error).length;
    const cached = rows.filter((row) => row.call).reduce((sum, row) => sum + row.cached, 0);
    const fact = (name, value, title) => value && h("div", { title }, h("dt", null, name), h("dd", null, value));
    const all = copyButton("Copy all as JSON", async () => {
      const found = [];
      for (const id of this.#calls.keys()) found.push(await api(`/sessions/${this.session}/trace/${id}`));
      return JSON.stringify(found, null, 2);
    });
    put(
      this.head,
      h("div.page-head", null, h("h1", null, "Waterfall"), h("span.grow"), pill(one.status), one.started_at && h("span.took", null, lasting(one.started_at, one.ended_at)), all),
      h(
        "dl.facts",
        null,
        fact("tool calls", number(usage.tool_calls)),
        fact("model calls", number(usage.model_calls)),
        usage.model_calls ? fact("tokens", `${short(usage.input_tokens)} in${cached ? ` (${short(cached)} cached)` : ""}, ${short(usage.output_tokens)} out`, `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out`) : null,
        usage.model_calls ? fact("price", price(usage.price_usd)) : null,
        errors ? fact("errors", h("span.bad-word", null, number(errors))) : null,
      ),
    );
    // What came from our cache was no call.
    const counts = { "": 0, errors, model: rows.filter((row) => isModel(row) && row.outcome !== "cached").length, tool: rows.filter((row) => row.kind === "tool").length };
    if (!this.field.isConnected) put(this.bar, h("div.chips", { role: "group", "aria-label": "Filter" }), this.field);
    put(this.bar.firstElementChild, Object.entries(FILTERS).map(([name, words]) => h("button.chip", { type: "button", "aria-pressed": String(name === this.#filter), onclick: () => ((this.#filter = name), this.#draw()) }, words, counts[name] ? h("span.count", null, number(counts[name])) : null)));
  }

  #row(row, start, total) {
    const attempt = row.call?.request.attempt > 1 && `attempt ${row.call.request.attempt}`;
    const left = (100 * (row.start - start)) / total;
    const width = (100 * (row.end - row.start)) / total;
    const tokens = row.input || row.output ? (row.kind === "tool" ? short(row.output) : `${short(row.input)} → ${short(row.output)}`) : "";
    const summary = h(
      "summary.wf-row",
      { dataset: { stop: "" } },
      h(
        "span.wf-name",
        { style: { "--depth": row.depth } },
        row.call ? h("span.wf-kind", null, row.kind) : icon("open"),
        h(row.kind === "tool" ? "code.clip" : "span.clip", { title: row.name }, row.name),
        row.error ? h("span.tag.bad", null, row.outcome === "cancelled" ? "cancelled" : "error") : null,
        row.errors ? h("span.bad-word", null, count(row.errors, "error")) : null,
        row.outcome === "cached" && h("span.tag", null, "cached"),
        attempt && h("span.tag", null, attempt),
      ),
      h("span.wf-track", { title: `${clock(new Date(row.start).toISOString()).textContent}, ${offset(new Date(row.start).toISOString(), new Date(start).toISOString())}` }, h("b", { style: { left: `${left}%`, width: `max(2px, ${width}%)` } })),
      h("span.number", { dataset: { label: "tokens" }, title: row.cached ? `${number(row.input)} in, of which ${number(row.cached)} cached, ${number(row.output)} out` : `${number(row.input)} in, ${number(row.output)} out` }, tokens || "–"),
      h("span.number", { dataset: { label: "price" } }, row.kind === "tool" || (!row.call && !row.input) ? "–" : price(row.price)),
      h("span.number", { dataset: { label: "duration" } }, duration(row.end - row.start)),
    );
    if (!row.call) {
      const folded = this.#folded.has(row.id);
      const details = h("details.wf-group", { open: !folded }, summary);
      details.addEventListener("toggle", () => {
        if (details.open === !this.#folded.has(row.id)) return;
        if (details.open) this.#folded.delete(row.id);
        else this.#folded.add(row.id);
        this.#draw();
      });
      return h("li.trace", { id: row.id, dataset: { kind: row.kind } }, details);
    }
    const details = h("details", { open: this.#unfoldedRows.has(row.id) }, summary);
    const unfold = () => {
      if (details.open) this.#unfoldedRows.add(row.id);
      else this.#unfoldedRows.delete(row.id);
      if (details.open && details.childElementCount === 1) this.#unfold(details, row.call);
    };
    details.addEventListener("toggle", unfold);
    return h("li.trace", { id: row.id, dataset: { kind: row.error ? "error" : row.kind } }, details);
  }

  async #unfold(details, one) {
    const body = h("div.trace-body", null, skeleton(2));
    details.append(body);
    let whole;
    try {
      whole = await api(`/sessions/${this.session}/trace/${one.id}`, { signal: this.#gone.signal });
    } catch (problem) {
      if (problem.name !== "AbortError") put(body, h("p.problem", null, problem.message));
      return;
    }
    const part = (name, value) =>
      value && (typeof value === "string" || Object.keys(value).length) ? [h("h2", null, name), h("pre.plain.tall", { tabindex: 0 }, typeof value === "string" ? value : JSON.stringify(value, null, 2))] : null;
    const { content, text, ...rest } = whole.response;
    put(
      body,
      h("div.call-actions", null, copyButton("Copy as JSON", JSON.stringify(whole, null, 2)), whole.response.handle && h("a.button.small", { href: `/sessions/${this.session}/results/${whole.response.handle}` }, "Before and after"), h("a.small", { href: `#interaction-${one.id}` }, "Link"), h("span.quiet-words", null, "sent ", clock(one.created_at, "clock", { named: true }))),
      whole.error && h("p.problem", null, whole.error),
      whole.messages.length ? h("details.fold", null, h("summary", null, `${count(whole.messages.length, "message")} sent to the model`), whole.messages.map(message)) : null,
      part("Request", whole.request),
      part("Response", text ?? content),
      part("Response, other fields", rest),
    );
  }
}

function message({ role, text, ...more }) {
  const rest = Object.fromEntries(Object.entries(more).filter(([, value]) => value && (!Array.isArray(value) || value.length)));
  return h("div.message", null, h("h2", null, role), text && h("pre.plain.tall", { tabindex: 0 }, text), Object.keys(rest).length > 0 && h("pre.plain", { tabindex: 0 }, JSON.stringify(rest, null, 2)));
}

customElements.define("trace-page", TracePage);
