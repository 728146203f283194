// <compare-page session other>: two investigations side by side: what was found, and what it took.

import { api } from "./api.js";
import { h, put, skeleton } from "./dom.js";
import { clock, duration, number, pill, price, short } from "./format.js";
import { markdown } from "./markdown.js";
import { title } from "./notices.js";

class ComparePage extends HTMLElement {
  connectedCallback() {
    title("Compare");
    put(this, h("p.crumbs", null, h("a", { href: "/" }, "Sessions"), h("span", null, h("a", { href: `/sessions/${this.getAttribute("session")}`, rel: "up" }, "Session"))), h("h1", null, "Compare"), (this.body = h("div", null, skeleton(8))));
    this.#read().catch((problem) => put(this.body, h("p.problem", { role: "alert" }, problem.message)));
  }

  async #read() {
    const ids = [this.getAttribute("session"), this.getAttribute("other")];
    const found = await Promise.all(ids.map((id) => api(`/sessions/${encodeURIComponent(id)}`)));
    found.sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
    if (this.isConnected) this.#draw(found);
  }

  #draw(pair) {
    const took = (one) => (one.started_at && one.ended_at ? duration(Date.parse(one.ended_at) - Date.parse(one.started_at)) : "–");
    const models = (one) => [...new Set(one.stages.flatMap((stage) => stage.executions.map((execution) => execution.model || execution.controller)))].join(", ");
    const list = (items) => (items?.length ? h("ul", null, items.map((words) => h("li", null, words))) : "–");
    const lines = [
      ["Session", (one) => h("a", { href: `/sessions/${one.id}` }, one.title || one.alert_type)],
      ["Received", (one) => clock(one.created_at, "day", { named: true })],
      ["Status", (one) => pill(one.status)],
      ["Cause", (one) => h("b", null, one.verdict ? one.verdict.cause || "No likely cause was found" : one.reason || "–")],
      ["Confidence", (one) => one.verdict?.confidence ?? "–"],
      ["Service", (one) => one.verdict?.service || "–"],
      ["Do now", (one) => list(one.verdict?.actions.map((action) => action.text))],
      ["Evidence", (one) => list(one.verdict?.evidence.map((citation) => h("code", null, citation.quote)))],
      ["Against", (one) => list(one.verdict?.against.map((citation) => h("code", null, citation.quote)))],
      ["Rating", (one) => one.triage?.rating?.rating ?? "–"],
      ["Duration", took],
      ["Tool calls", (one) => number(one.usage.tool_calls)],
      ["Model calls", (one) => number(one.usage.model_calls)],
      ["Model", models],
      ["Tokens", (one) => (one.usage.model_calls ? `${short(one.usage.input_tokens)} in, ${short(one.usage.output_tokens)} out` : "–")],
      ["Price", (one) => (one.usage.model_calls ? price(one.usage.price_usd) : "–")],
      ["Tool output", (one) => (one.tokens.before ? `${short(one.tokens.before)} → ${short(one.tokens.after)} tokens` : "–")],
    ];
    const text = (value) => (value instanceof Node ? value.textContent : String(value));
    put(
      this.body,
      h(
        "div.sessions.compare",
        { tabindex: 0, role: "group", "aria-label": "Comparison" },
        h("table", null, h("thead", null, h("tr", null, h("td"), h("th", { scope: "col" }, "Earlier"), h("th", { scope: "col" }, "Later"))), h("tbody", null, lines.map(([name, of]) => {
          const cells = pair.map(of);
          return h("tr", { class: text(cells[0]) === text(cells[1]) ? "" : "differs" }, h("th", { scope: "row" }, name), cells.map((cell) => h("td", null, cell)));
        }))),
      ),
      h("div.panes-plain", null, pair.map((one, place) => h("section", null, h("h2", null, place ? "Later analysis" : "Earlier analysis"), one.analysis ? markdown(one.analysis, { refer: (handle, first) => `/sessions/${one.id}/results/${handle}${first ? `#L${first}` : ""}`, near: one.created_at }) : h("p.quiet-words", null, "None")))),
    );
  }
}

customElements.define("compare-page", ComparePage);
