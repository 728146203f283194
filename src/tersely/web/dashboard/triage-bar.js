// What people do with a session: rate its verdict, take it, acknowledge and close it.

import { api } from "./api.js";
import { announce, h, put } from "./dom.js";
import { person } from "./format.js";

const RATINGS = { right: "Right", partly: "Partly", wrong: "Wrong" };

/** An element that keeps itself up to date; changed(triage) is called after each change. */
export function triageBar(session, changed) {
  const bar = h("div.triage");
  let { triage } = session;
  const act = async (method, path, body) => {
    try {
      triage = await api(`/sessions/${session.id}${path}`, { method, body });
      changed(triage);
      draw();
    } catch (problem) {
      bar.append(h("p.wrong", { role: "alert" }, problem.message));
    }
  };
  const rate = (rating) => {
    const on = triage.rating?.rating === rating;
    announce(on ? "Rating withdrawn" : `Rated ${rating}`);
    return on ? act("DELETE", "/rating") : act("PUT", "/rating", { rating });
  };
  function draw() {
    const focused = bar.querySelector(":focus")?.dataset.act;
    const rated = triage.rating;
    put(
      bar,
      session.verdict && h("span.triage-part", { role: "group", "aria-label": "Rate this verdict" }, h("span.under", null, "Was this right?"), Object.entries(RATINGS).map(([rating, words]) => h("button.small.toggle", { type: "button", dataset: { act: rating }, "aria-pressed": String(rated?.rating === rating), title: rated?.rating === rating ? `Rated by ${person(rated.by)}` : null, onclick: () => rate(rating) }, words))),
      h("span.grow"),
      h(
        "span.triage-part",
        null,
        h("span.under", null, triage.state === "closed" ? `Closed by ${person(triage.closed_by)}` : triage.assignee ? `Owner: ${person(triage.assignee)}` : triage.acknowledged_by ? `Acknowledged by ${person(triage.acknowledged_by)}` : "No owner"),
        triage.state !== "closed" && !triage.assignee && h("button.small", { type: "button", dataset: { act: "assign" }, onclick: () => act("PUT", "/assignee", {}) }, "Take it"),
        triage.state !== "closed" && triage.assignee && h("button.small", { type: "button", dataset: { act: "release" }, onclick: () => act("PUT", "/assignee", { assignee: null }) }, "Release"),
        triage.state === "open" && h("button.small", { type: "button", dataset: { act: "acknowledge" }, onclick: () => act("POST", "/acknowledge") }, "Acknowledge"),
        triage.state === "closed" ? h("button.small", { type: "button", dataset: { act: "reopen" }, onclick: () => act("POST", "/reopen") }, "Reopen") : h("button.small", { type: "button", dataset: { act: "close" }, onclick: () => act("POST", "/close", {}) }, "Close"),
      ),
    );
    if (focused) bar.querySelector(`[data-act="${focused}"]`)?.focus({ preventScroll: true });
  }
  draw();
  return bar;
}
