// Renders one item of a session's timeline: a thought, an answer, a tool call with its summary, an error or an analysis.
//
// A card draws and updates itself; <timeline-view> decides where it is placed and whether it is in the page.

import { h, icon, put } from "./dom.js";
import { clock, duration, lasting, number, saved } from "./format.js";
import { markdown } from "./markdown.js";
import { toolName } from "./state.js";

export class Card {
  constructor(item, page) {
    this.item = item;
    this.page = page;
    this.node = h("li.event", { id: `event-${item.id}`, dataset: { type: item.type } });
    this.#draw();
  }

  update() {
    const { item } = this;
    if (this.stream && item.status === "streaming") return this.#flow();
    if (item.type === "llm_tool_call") return this.#drawCall();
    const focused = this.node.contains(document.activeElement);
    this.#draw(true);
    if (focused) this.node.querySelector("[data-stop]")?.focus({ preventScroll: true });
  }

  open() {
    const details = this.node.querySelector("details");
    if (details) details.open = true;
  }

  get isOpen() {
    return this.node.querySelector("details")?.open ?? false;
  }

  #draw(live = false) {
    const { item } = this;
    this.node.dataset.status = item.status;
    this.stream = null;
    if (item.type === "llm_tool_call") return this.#drawCall();
    if (item.status === "streaming") {
      this.stream = document.createTextNode("");
      this.shown = "";
      put(this.node, this.#line(h("div.flow", { "aria-busy": "true" }, item.late ? h("span.quiet-words", null, "… ") : null, this.stream, h("span.caret", { "aria-hidden": "true" }))));
      this.#flow();
      return;
    }
    this.#drawText(live);
  }

  #flow() {
    const { content } = this.item;
    if (content.startsWith(this.shown)) this.stream.appendData(content.slice(this.shown.length));
    else this.stream.data = content;
    this.shown = content;
  }

  #drawText(live) {
    const { item, page } = this;
    const refer = page.refer;
    if (item.type === "error") {
      put(this.node, this.#line(h("p.problem", null, item.content || "Unknown error.")));
    } else if (item.type === "llm_thinking") {
      const text = item.content.trim();
      if (!text) return put(this.node, this.#line(h("p.quiet-words", null, "(empty thought)")));
      put(this.node, this.#line(this.#fold(firstLine(text), text, () => h("div.flow.thought", null, text), live)));
    } else if (item.type === "final_analysis") {
      const onTop = item.content === page.analysisOnTop;
      put(this.node, this.#line(this.#fold(onTop ? "Analysis (shown at the top of the page)" : "Analysis of this stage", item.content, () => markdown(item.content, { refer }), live)));
    } else if (item.status !== "completed" && !item.content) {
      put(this.node, this.#line(h("p.quiet-words", null, item.status === "cancelled" ? "Cancelled." : "Ended without an answer.")));
    } else {
      const body = () => (item.type === "mcp_tool_summary" ? h("pre.plain", { tabindex: 0 }, item.content) : markdown(item.content, { refer }));
      // The final answer is repeated as the analysis, so it starts folded unless it was streamed into this page.
      const { final } = item.metadata;
      const unfolded = live || (!final && (item.content.length < 200 || page.isRecent(item)));
      put(this.node, this.#line(unfolded ? body() : this.#fold(final ? "Final answer (the analysis)" : firstLine(item.content), item.content, body, false)));
    }
  }

  #line(body) {
    const { item } = this;
    const [sign, word] = KINDS[item.type] ?? ["answer", item.type];
    return [h("a.mark", { href: `#event-${item.id}`, title: `${word}: link to this event`, "aria-label": `Link to this event: ${word}` }, icon(sign)), h("div.body", null, body), h("span.at", null, clock(item.at))];
  }

  /** Folded text. While folded, the text is in the page unformatted, so that the browser's search finds it. */
  #fold(words, text, body, open) {
    const details = h("details", { open }, h("summary.words-fold", { dataset: { stop: "" } }, h("span.clip", null, words)));
    if (open) details.append(body());
    else {
      const folded = h("div.flow", null, text);
      details.append(folded);
      details.addEventListener("toggle", () => folded.replaceWith(body()), { once: true });
    }
    return details;
  }

  // Tool calls

  #drawCall() {
    const { item, page } = this;
    const { metadata, summary } = item;
    const running = item.status === "streaming";
    const failed = metadata.is_error || item.status === "failed";
    const condensing = summary?.status === "streaming";
    const after = summary?.metadata.summary_tokens;
    const fallback = summary && (summary.metadata.summarization_fallback || summary.metadata.status === "fallback" || summary.metadata.status === "partial");
    const state = running ? "running" : failed ? "failed" : item.status === "cancelled" ? "cancelled" : "done";
    // The streamed text of a summary changes often; the rest of the card does not.
    const shape = [item.status, summary?.status, state].join();
    if (this.shape === shape && condensing) return this.#flowSummary();
    this.shape = shape;
    const old = this.node.querySelector("details");
    const wasOpen = old?.open ?? false;
    const focused = this.node.contains(document.activeElement);
    this.node.dataset.status = state;
    const lost = summary?.metadata.lost?.length ?? 0;
    const summaryLine = h(
      "summary.call",
      { dataset: { stop: "" } },
      h("span.tool-name", null, toolName(metadata)),
      h("span.arguments.clip", null, brief(metadata.arguments)),
      h(
        "span.call-facts",
        null,
        running ? h("span.busy", null, h("span.spinner", { "aria-hidden": "true" }), "running") : null,
        condensing ? h("span.busy", null, h("span.spinner", { "aria-hidden": "true" }), "condensing") : null,
        failed ? h("span.tag.bad", null, "error") : item.status === "cancelled" ? h("span.tag", null, "cancelled") : null,
        fallback ? h("span.tag.warn", { title: summary.metadata.reason ?? "" }, FALLBACK[summary.metadata.status] ?? "fallback") : null,
        summary?.metadata.unverified ? h("span.tag.warn", { title: `Not in the source: ${(summary.metadata.invented ?? []).join(", ")}` }, "unverified") : null,
        !running && !failed && after !== undefined ? saved(metadata.original_tokens, after) : null,
        !running && !failed && !summary && metadata.original_tokens ? h("span.saved.whole", { title: "Not condensed: the model received the whole result" }, `${number(metadata.original_tokens)} tokens`) : null,
        !running ? h("span.took", null, duration(metadata.duration_ms)) : h("span.took", null, lasting(item.at, null)),
      ),
    );
    const details = h("details", null, summaryLine);
    const body = () => {
      const link = metadata.handle && h("a.button.small", { href: `/sessions/${page.session}/calls/${item.id}` }, "Before and after", icon("open"));
      return h(
        "div.call-body",
        null,
        h("div.call-actions", null, link, lost ? h("span.quiet-words", null, `${lost} ${lost === 1 ? "omission" : "omissions"}`) : null, fallback ? h("span.quiet-words", null, summary.metadata.reason ?? "") : null),
        metadata.arguments && Object.keys(metadata.arguments).length ? [h("h4", null, "Arguments"), h("pre.plain", { tabindex: 0 }, JSON.stringify(metadata.arguments, null, 2))] : null,
        summary?.content ? [h("h4", null, "Text the model received"), h("pre.plain.tall", { tabindex: 0 }, summary.content)] : null,
        item.content ? [h("h4", null, failed ? "Error" : summary ? "Result (beginning)" : "Result"), h("pre.plain.tall", { tabindex: 0 }, item.content)] : null,
      );
    };
    const fill = () => details.open && details.childElementCount === 1 && details.append(body());
    details.addEventListener("toggle", fill);
    if (wasOpen) {
      details.open = true;
      fill();
    }
    this.summaryStream = null;
    let flowing = null;
    if (condensing && summary.metadata.summarization_model) {
      this.summaryStream = document.createTextNode(summary.content);
      flowing = h("div.flow.summary-flow", null, this.summaryStream);
    }
    put(
      this.node,
      this.#line([
        details,
        failed && item.content ? h("p.problem.clip-lines", null, item.content) : null,
        flowing,
        summary && h("span", { id: `event-${summary.id}` }),
      ]),
    );
    if (focused) this.node.querySelector("[data-stop]")?.focus({ preventScroll: true });
  }

  #flowSummary() {
    if (this.summaryStream) this.summaryStream.data = this.item.summary.content.slice(-600);
  }
}

const KINDS = {
  llm_thinking: ["thought", "Thought"],
  llm_response: ["answer", "Answer"],
  llm_tool_call: ["tool", "Tool call"],
  mcp_tool_summary: ["thought", "Condensed"],
  notice: ["thought", "Notice"],
  error: ["cross", "Error"],
  final_analysis: ["check", "Analysis"],
  verdict: ["check", "Verdict"],
};
const FALLBACK = { fallback: "no summary", partial: "with gaps" };

function firstLine(text) {
  const line = text.trimStart().split("\n", 1)[0];
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
export function words({ type, metadata, content }) {
  return type === "llm_tool_call" ? `${toolName(metadata)} ${brief(metadata.arguments)} ${metadata.is_error ? content : ""}` : content;
}
