// The verdict of a session: cause, since when, how sure, what to do, and the evidence for and against it.

import { copyButton, h } from "./dom.js";
import { clock, timed } from "./format.js";

const CONFIDENCE = { high: ["High confidence", 3], medium: ["Medium confidence", 2], low: ["Low confidence", 1] };

/**
 * refer(handle, first, last): the address of a kept result.
 * near: when it was stated.
 * foot: elements for the last row, e.g. the rating.
 */
export function verdictBox(verdict, refer, near, ...foot) {
  const { cause, summary, confidence, service, since, actions, evidence, against } = verdict;
  const [first, ...more] = summary.split("\n");
  const lines = !cause ? [summary] : same(first, cause) ? more : [first, ...more];
  const [words, dots] = CONFIDENCE[confidence] ?? [confidence, 0];
  return h(
    "section.verdict",
    { "aria-label": "Verdict", dataset: { confidence } },
    h("p.verdict-top", null, h("span.caption", null, "Verdict"), h("span.confidence", null, h("span.dots", { "aria-hidden": "true" }, "●".repeat(dots), h("i", null, "●".repeat(3 - dots))), words)),
    h("h2.cause", null, cause ? timed(cause, near) : "No likely cause was found"),
    service || since ? h("p.verdict-facts", null, service && h("code", null, service), since && h("span", null, "since ", clock(since, "minute", { named: true }))) : null,
    lines.map((line) => h("p.verdict-line", null, timed(line, near))),
    actions.length ? part("Do now", h("ol.actions", null, actions.map((one) => h("li", null, h("span", null, timed(one.text, near)), one.command && h("span.command", null, h("code", { tabindex: 0, role: "group", "aria-label": "Command" }, one.command), copyButton("Copy this command", one.command, { iconOnly: true })))))) : null,
    citations("Why", evidence, refer),
    citations("Against", against, refer),
    foot.some(Boolean) && h("div.verdict-foot", null, foot),
  );
}

const plain = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "");
const same = (one, other) => plain(one) === plain(other);

function part(title, body) {
  return h("div.verdict-part", null, h("h3.caption", null, title), body);
}

function citations(title, list, refer) {
  if (!list.length) return null;
  return part(
    title,
    h(
      "ul.citations",
      null,
      list.map((one) => {
        const words = [h("span.source", null, place(one)), h("q", null, readable(one.quote))];
        return h("li", null, one.handle ? h("a.evidence", { href: refer(one.handle, one.first_line, one.last_line), title: one.quote }, words) : h("span.evidence", { title: one.quote }, words));
      }),
    ),
  );
}

/** A quoted line without what is in front of its message: source, time, process, thread. The whole line is in the title. */
export function readable(quote) {
  const short = quote
    .replace(/^(?:\[[^\]]{1,80}\]\s*)+/, "")
    .replace(/^(?:\d+\s+)?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*\s+/, "")
    .replace(/^((?:ERROR|WARN(?:ING)?|INFO|FATAL)\s+)\d+ --- (?:\[[^\]]{0,60}\]\s*)*(?:[\w.$]+\s*:\s*)?/, "$1");
  return short.trim() || quote;
}

function place({ source, first_line: first, last_line: last, count }) {
  const lines = first === last ? `line ${first.toLocaleString("en")}` : `lines ${first.toLocaleString("en")}–${last.toLocaleString("en")}`;
  return `${source.replace(/^[^.]*\./, "")} ${lines}${count > 1 ? ` · ${count.toLocaleString("en")}×` : ""}`;
}
