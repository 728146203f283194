// Renders one item of a session's timeline: a thought, an answer, tool calls with their summaries, an error or an analysis.
//
// A card draws and updates itself; <timeline-view> decides where it is placed and whether it is in the page.

import { h, icon, put } from "./dom.js";
import { clock, count, duration, lasting, offset, saved, short } from "./format.js";
import { MarkdownStream, markdown } from "./markdown.js";
import { isFailed, toolName } from "./state.js";

const FOLDED_FROM = 4; // calls of the same tool in one group

export class Card {
  #rows = new Map();

  constructor(item, page) {
    this.item = item;
    this.page = page;
    this.node = h("li.event", { id: `event-${item.id}`, dataset: { type: item.type } });
    this.#draw();
  }

  update() {
    const { item } = this;
    if (this.stream && item.status === "streaming") return this.#flow();
    if (item.type === "calls") return this.#drawCalls();
    const focused = this.node.contains(document.activeElement);
    this.#draw(true);
    if (focused) this.node.querySelector("[data-stop]")?.focus({ preventScroll: true });
  }

  /** Unfold the item; of a group, the given call. Returns the element to show. */
  open(item = this.item) {
    const row = this.#rows.get(item.id);
    if (row) {
      row.node.closest("details.same")?.setAttribute("open", "");
      row.details.open = true;
      return row.node;
    }
    const details = this.node.querySelector("details");
    if (details && this.item.type !== "calls") details.open = true;
    else if (this.item.calls?.length === 1) this.#rows.get(this.item.calls[0].id).details.open = true;
    return this.node;
  }

  /** The ids of what is unfolded. */
  get unfolded() {
    if (this.item.type !== "calls") return this.node.querySelector("details")?.open ? [this.item.id] : [];
    return [...this.#rows].filter(([, row]) => row.details.open).map(([id]) => id);
  }

  #draw(live = false) {
    const { item } = this;
    this.node.dataset.status = item.status;
    this.stream = null;
    if (item.type === "calls") return this.#drawCalls();
    if (item.status === "streaming") {
      this.shown = "";
      const isThought = item.type === "llm_thinking";
      this.stream = isThought ? document.createTextNode("") : new MarkdownStream({ refer: this.page.refer, near: item.at });
      // Markdown has its caret by style, at the end of its last line.
      const caret = isThought && h("span.caret", { "aria-hidden": "true" });
      put(this.node, this.#line(h("div", { class: isThought ? "flow thought" : "streaming", "aria-busy": "true" }, item.late ? h("span.quiet-words", null, "… ") : null, this.stream instanceof MarkdownStream ? this.stream.node : this.stream, caret)));
      this.#flow();
      return;
    }
    this.#drawText(live);
  }

  #flow() {
    const { content } = this.item;
    if (this.stream instanceof MarkdownStream) this.stream.update(content);
    else if (content.startsWith(this.shown)) this.stream.appendData(content.slice(this.shown.length));
    else this.stream.data = content;
    this.shown = content;
  }

  #drawText(live) {
    const { item, page } = this;
    const refer = page.refer;
    if (item.type === "error") {
      put(this.node, this.#line(item.content && page.reason?.includes(item.content) ? h("p.call-problem", null, "Ended here; the reason is at the top of the page.") : h("p.problem", null, item.content || "Unknown error.")));
    } else if (item.type === "llm_thinking") {
      const text = item.content.trim();
      this.node.hidden = !text;
      if (text) put(this.node, this.#line(this.#fold(firstLine(text), text, () => h("div.flow.thought", null, text), live, "Thought")));
    } else if (item.type === "final_analysis") {
      const onTop = item.content === page.analysisOnTop;
      put(this.node, this.#line(this.#fold(onTop ? "Analysis (at the top of the page)" : page.agentOf?.(item) ? "Analysis of this agent" : "Analysis of this stage", item.content, () => markdown(item.content, { refer, level: 4, near: item.at }), live && !onTop)));
    } else if (item.type === "verdict") {
      put(this.node, this.#line(h("p", null, firstLine(item.content))));
    } else if (item.status !== "completed" && !item.content) {
      put(this.node, this.#line(h("p.quiet-words", null, item.status === "cancelled" ? "Cancelled." : "Ended without an answer.")));
    } else {
      const body = () => (item.type === "mcp_tool_summary" ? h("pre.plain", { tabindex: 0 }, item.content) : markdown(item.content, { refer, level: 4, near: item.at }));
      // The final answer is repeated as the analysis, so it starts folded unless it was streamed into this page.
      const { final } = item.metadata;
      const unfolded = live || (!final && (item.content.length < 200 || page.isRecent(item)));
      put(this.node, this.#line(unfolded ? body() : this.#fold(final ? "Final answer (the analysis)" : firstLine(item.content), item.content, body, false, final ? "" : "Answer")));
    }
  }

  #line(body) {
    const { item } = this;
    const [sign, word] = KINDS[item.type] ?? ["answer", item.type];
    const start = this.page.startedAt;
    const after = start && item.at ? offset(item.at, start) : "";
    const at = item.at && h("span.at", null, after && h("span.after", null, after), clock(item.at));
    return [at, h("a.mark", { href: `#event-${item.id}`, title: `${word}: link to this event`, "aria-label": `Link to this event: ${word}` }, icon(sign)), h("div.body", null, this.page.agentOf?.(item), body)];
  }

  /** Folded text. While folded, the text is in the page unformatted, so that the browser's search finds it. */
  #fold(words, text, body, open, label = "") {
    const details = h("details.fold", { open }, h("summary.words-fold", { dataset: { stop: "" } }, h("span.clip", null, words), label && h("span.label", null, label)));
    if (label) details.classList.add("labelled");
    if (open) details.append(body());
    else {
      const folded = h("div.flow", null, text);
      details.append(folded);
      details.addEventListener("toggle", () => folded.replaceWith(body()), { once: true });
    }
    return details;
  }

  // Tool calls

  #drawCalls() {
    const { calls } = this.item;
    for (const call of calls) {
      const row = this.#rows.get(call.id);
      if (row) row.update();
      else this.#rows.set(call.id, new CallRow(call, this.page));
    }
    const failed = calls.filter(isFailed).length;
    const running = calls.filter((call) => call.status === "streaming").length;
    const shape = [calls.map((call) => call.id), failed, running].join();
    if (shape === this.shape) return;
    this.shape = shape;
    const focused = this.node.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement) : null;
    put(this.node, this.#line([calls.length > 1 && h("p.calls-head", null, h("b", null, count(calls.length, "call")), tally(calls, failed, running)), h("div.call-rows", null, this.#grouped(calls))]));
    if (focused?.isConnected) focused.focus({ preventScroll: true });
    this.node.classList.toggle("alone", calls.length === 1);
  }

  /** Rows in order; many calls of the same tool are one row to unfold, under which failed calls stay visible. */
  #grouped(calls) {
    const byTool = new Map();
    for (const call of calls) byTool.set(toolName(call.metadata), [...(byTool.get(toolName(call.metadata)) ?? []), call]);
    const parts = [];
    for (const [name, same] of byTool) {
      const rows = (list) => list.map((call) => this.#rows.get(call.id).node);
      if (same.length < FOLDED_FROM) {
        parts.push(...rows(same));
        continue;
      }
      const failed = same.filter(isFailed);
      const fine = same.filter((call) => !isFailed(call));
      const open = this.node.querySelector(`details.same[data-tool="${CSS.escape(name)}"]`)?.open ?? false;
      parts.push(
        h("details.same", { open, dataset: { tool: name } }, h("summary.call", { dataset: { stop: "" } }, icon("open"), h("span.tool-name", null, `${same.length} × ${name}`), h("span.call-facts", null, tally(same, failed.length, same.filter((call) => call.status === "streaming").length))), rows(fine)),
        ...rows(failed),
      );
    }
    return parts;
  }
}

function tally(calls, failed, running) {
  const ok = calls.length - failed - running;
  const times = calls.filter((call) => call.at && call.ended);
  const took = times.length && Math.max(...times.map((call) => +new Date(call.ended))) - Math.min(...times.map((call) => +new Date(call.at)));
  return h("span.tally", null, running ? h("span.busy", null, `${running} running`) : null, ok && (failed || running) ? h("span", null, `${ok} ok`) : null, failed ? h("span.bad-word", null, count(failed, "error")) : null, took ? h("span", null, duration(took)) : null);
}

class CallRow {
  constructor(item, page) {
    this.item = item;
    this.page = page;
    this.node = h("div.call-row", { id: `event-${item.id}` });
    this.update();
  }

  update() {
    const { item, page } = this;
    const { metadata, summary } = item;
    const running = item.status === "streaming";
    const failed = isFailed(item);
    const condensing = summary?.status === "streaming";
    const after = summary?.metadata.summary_tokens;
    const fallback = summary && (summary.metadata.summarization_fallback || summary.metadata.status === "fallback" || summary.metadata.status === "partial");
    const state = running ? "running" : failed ? "failed" : item.status === "cancelled" ? "cancelled" : "done";
    // The streamed text of a summary changes often; the rest of the row does not.
    const shape = [item.status, summary?.status, state].join();
    if (this.shape === shape) return condensing ? this.#flowSummary() : undefined;
    this.shape = shape;
    const wasOpen = this.details?.open ?? false;
    const focused = this.node.contains(document.activeElement);
    this.node.dataset.status = state;
    const before = metadata.original_tokens;
    this.details = h(
      "details",
      null,
      h(
        "summary.call",
        { dataset: { stop: "" } },
        running ? h("span.spinner", { role: "img", "aria-label": "running" }) : icon(failed ? "cross" : state === "cancelled" ? "dash" : "check"),
        h("span.tool-name", null, toolName(metadata)),
        h("span.arguments.clip", null, brief(metadata.arguments)),
        h(
          "span.call-facts",
          null,
          condensing ? h("span.busy", null, "condensing") : null,
          failed ? h("span.unseen", null, "error") : state === "cancelled" ? h("span", null, "cancelled") : null,
          fallback ? h("span.tag.warn", { title: summary.metadata.reason ?? "" }, FALLBACK[summary.metadata.status] ?? "fallback") : null,
          summary?.metadata.unverified ? h("span.tag.warn", { title: `Not in the source: ${(summary.metadata.invented ?? []).join(", ")}` }, "unverified") : null,
          running || failed ? null : after !== undefined ? saved(before, after) : before ? h("span.saved", { title: "Not condensed: the model received the whole result" }, short(before)) : null,
          h("span.took", null, running ? lasting(item.at, null) : duration(metadata.duration_ms)),
        ),
      ),
    );
    const fill = () => this.details.open && this.details.childElementCount === 1 && this.details.append(this.#body(failed, fallback));
    this.details.addEventListener("toggle", fill);
    if (wasOpen) {
      this.details.open = true;
      fill();
    }
    this.summaryStream = null;
    let flowing = null;
    if (condensing && summary.metadata.summarization_model) {
      this.summaryStream = document.createTextNode(summary.content);
      flowing = h("div.flow.summary-flow", null, this.summaryStream);
    }
    put(this.node, this.details, failed && item.content ? h("p.call-problem.clip-lines", { title: item.content.slice(0, 1_000) }, item.content) : null, flowing, summary && h("span", { id: `event-${summary.id}` }));
    if (focused) this.node.querySelector("[data-stop]")?.focus({ preventScroll: true });
  }

  #body(failed, fallback) {
    const { item, page } = this;
    const { metadata, summary } = item;
    const link = metadata.handle && h("a.button.small", { href: `/sessions/${page.session}/calls/${item.id}` }, summary ? "Before and after" : "Whole result", icon("open"));
    return h(
      "div.call-body",
      null,
      h("div.call-actions", null, link, h("a.small", { href: `#event-${item.id}` }, "Link to this call"), h("span.quiet-words", null, clock(item.at, "clock", { named: true })), fallback ? h("span.quiet-words", null, summary.metadata.reason ?? "") : null),
      metadata.arguments && Object.keys(metadata.arguments).length ? [h("h4", null, "Arguments"), h("pre.plain", { tabindex: 0 }, JSON.stringify(metadata.arguments, null, 2))] : null,
      summary?.content ? [h("h4", null, "Text the model received"), h("pre.plain.tall", { tabindex: 0 }, summary.content)] : null,
      item.content ? [h("h4", null, failed ? "Error" : summary ? "Result (beginning)" : "Result"), h("pre.plain.tall", { tabindex: 0 }, item.content)] : null,
    );
  }

  #flowSummary() {
    if (this.summaryStream) this.summaryStream.data = this.item.summary.content.slice(-600);
  }
}

const KINDS = {
  llm_thinking: ["thought", "Thought"],
  llm_response: ["answer", "Answer"],
  calls: ["tool", "Tool calls"],
  mcp_tool_summary: ["thought", "Condensed"],
  notice: ["notice", "Notice"],
  error: ["cross", "Error"],
  final_analysis: ["check", "Analysis"],
  verdict: ["check", "Verdict"],
};
const FALLBACK = { fallback: "no summary", partial: "with gaps" };

function firstLine(text) {
  const line = text.trimStart().split("\n", 1)[0].replace(/^#+\s*/, "").replaceAll("**", "");
  return line.length > 240 ? `${line.slice(0, 240)}…` : line;
}

/** Arguments on one line: names and values without quotes. */
function brief(values) {
  if (!values || typeof values !== "object") return "";
  return Object.entries(values)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ")
    .slice(0, 300);
}

/** The searchable text of an item whose card is not in the page. */
export function words(item) {
  if (item.calls) return item.calls.map((call) => `${toolName(call.metadata)} ${brief(call.metadata.arguments)} ${isFailed(call) ? call.content : ""}`).join("\n");
  return item.content;
}

/** Everything of an item that the search of the page looks at. */
export function searchable(item) {
  return item.calls ? `${words(item)}\n${item.calls.map((call) => `${call.content}\n${call.summary?.content ?? ""}`).join("\n")}` : item.content;
}
