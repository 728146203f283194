// The verdict of a session: cause, since when, how sure, what to do, and the evidence for and against it.

import { copyButton, h } from "./dom.js";
import { clock } from "./format.js";

const CONFIDENCE = { high: "High confidence", medium: "Medium confidence", low: "Low confidence" };

/** refer(handle, first, last): the address of a kept result. */
export function verdictBox(verdict, refer) {
  const { cause, summary, confidence, service, since, actions, evidence, against } = verdict;
  const [, ...more] = summary.split("\n");
  return h(
    "section.verdict",
    { "aria-label": "Verdict", dataset: { confidence } },
    h("h2.cause", null, cause || "No likely cause was found"),
    h(
      "p.verdict-facts",
      null,
      h("span.confidence", null, CONFIDENCE[confidence] ?? confidence),
      service && h("span", null, service),
      since && h("span", null, "since ", clock(since)),
    ),
    cause ? more.map((line) => h("p.verdict-line", null, line)) : h("p.verdict-line", null, summary),
    actions.length ? h("h3", null, "Next") : null,
    actions.length ? h("ol.actions", null, actions.map((one) => h("li", null, one.text, one.command && h("span.command", null, h("code", null, one.command), copyButton("Copy", one.command))))) : null,
    citations("Evidence", evidence, refer),
    citations("Evidence against", against, refer),
  );
}

function citations(title, list, refer) {
  if (!list.length) return null;
  return [
    h("h3", null, title),
    h(
      "ul.citations",
      null,
      list.map((one) => h("li", null, h("q", null, one.quote), " ", one.handle ? h("a.chip", { href: refer(one.handle, one.first_line, one.last_line) }, place(one)) : h("span.chip", null, place(one)))),
    ),
  ];
}

function place({ source, first_line: first, last_line: last, count }) {
  const lines = first === last ? `line ${first}` : `lines ${first}–${last}`;
  return `${source}, ${lines}${count > 1 ? `, ${count.toLocaleString("en")} times` : ""}`;
}
