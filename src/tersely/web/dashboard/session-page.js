// <session-page session="…">: one session, updated live.
//
// First the timeline is loaded from the API in pages, then new events arrive over the WebSocket. Both go through `Timeline`, where
// applying an event twice has no effect; <timeline-view> draws the result.

import { api, pages } from "./api.js";
import { announce, ask, h, icon, put } from "./dom.js";
import { isOpen, lasting, number, percent, pill, price, saved, short, when } from "./format.js";
import { follow } from "./live.js";
import { markdown } from "./markdown.js";
import { Timeline, toolName } from "./state.js";
import "./timeline-view.js";
import { verdictBox } from "./verdict-box.js";

const OPEN_CARDS = 60; // earlier answers are folded

class SessionPage extends HTMLElement {
  #timeline = new Timeline();
  #stop = () => {};
  #gone = new AbortController();
  #session = null;
  #lastY = 0;
  #loaded = false;
  #fetching = 0;
  #ending = false;
  following = false; // whether the view is at the end and follows new events

  connectedCallback() {
    this.session = this.getAttribute("session");
    this.top = h("header.session-head");
    this.result = h("section.analysis", { hidden: true, "aria-label": "Analysis" });
    this.about = h("div.about");
    this.log = h("timeline-view.timeline").of(this);
    this.now = h("p.now", { hidden: true });
    this.jump = h("div.jump");
    put(this.top, h("p.quiet-words.late", null, "Loading …"));
    put(this, h("p.crumbs", null, h("a", { href: "/", rel: "up" }, "Sessions")), this.top, this.result, this.about, h("h2.unseen", null, "Timeline"), this.log, this.now, this.jump);
    this.#watchScroll();
    this.#open().catch((problem) => this.#refused(problem));
  }

  disconnectedCallback() {
    this.#gone.abort();
    this.#stop();
    clearTimeout(this.#fetching);
    this.grown?.disconnect();
  }

  addressed() {
    if (this.#loaded) this.#toEvent();
  }

  async #open() {
    const detail = await api(`/sessions/${encodeURIComponent(this.session)}`, { signal: this.#gone.signal });
    const seen = detail.last_seq; // The pages loaded below are at least as new as this.
    this.#show(detail);
    if (isOpen(detail.status)) this.following = document.documentElement.scrollHeight <= innerHeight + 4;
    for await (const items of pages(`/sessions/${this.session}/timeline`, { limit: 100, cursor: "after", signal: this.#gone.signal })) {
      for (const item of items) this.#changed(this.#timeline.apply(item));
    }
    this.#loaded = true;
    this.#stop = follow(`session:${this.session}`, seen, (event) => this.#apply(event), {
      failed: (event) => this.#refused({ message: event.message }),
    });
    this.log.soon();
  }

  #refused(problem) {
    if (problem.name === "AbortError") return;
    document.title = "Session · tersely";
    const gone = problem.status === 404;
    put(this.top, h("div.empty", null, h("h1", null, gone ? "Session not found" : "Could not load this session"), h("p", null, problem.message), h("div.buttons", null, !gone && h("button.primary", { type: "button", onclick: () => location.reload() }, "Try again"), h("a.button", { href: "/" }, "All sessions"))));
  }

  // Events

  #apply(event) {
    switch (event.type) {
      case "session.status":
        if (this.#session && this.#session.status !== event.status) {
          this.#session.status = event.status;
          this.#session.reason = event.reason ?? "";
          this.#drawHead();
          if (!isOpen(event.status)) announce(`The session is ${event.status === "completed" ? "done" : event.status.replace("_", " ")}.`);
        }
        this.#refetch(0);
        break;
      case "stage.status":
      case "interaction.created":
        this.#refetch(700);
        break;
      case "execution.progress":
        this.progress = event.message;
        this.log.soon();
        break;
      default: {
        const item = this.#timeline.apply(event);
        this.#changed(item);
        if (item && event.type === "timeline_event.created" && item.type === "llm_tool_call") announce(`Calling ${toolName(item.metadata)}`);
      }
    }
  }

  #changed(item) {
    if (item) this.log.changed(item);
  }

  #refetch(pause) {
    if (this.#fetching && pause) return;
    clearTimeout(this.#fetching);
    this.#fetching = setTimeout(async () => {
      this.#fetching = 0;
      try {
        this.#show(await api(`/sessions/${this.session}`, { signal: this.#gone.signal }));
      } catch {
        // The next event triggers another request.
      }
    }, pause || 30);
  }

  // Drawing

  /** Called by the timeline after each draw. */
  drawn() {
    const running = this.#session && isOpen(this.#session.status);
    this.now.hidden = !running || !this.#loaded;
    const words = this.#session?.status === "pending" ? "Waiting for a free worker" : this.#session?.status === "cancelling" ? "Stopping" : (this.progress ?? "Working");
    if (this.now.hidden) {
      put(this.now);
      this.nowShown = null;
    } else if (this.nowShown !== words) {
      this.nowShown = words;
      put(this.now, h("span.spinner", { "aria-hidden": "true" }), words);
    }
    if (this.#loaded && !this.arrived && this.log.isDrawn) {
      this.arrived = true;
      if (location.hash) this.#toEvent();
      else if (this.restoreTo) scrollTo(0, this.restoreTo);
    }
    this.#offer();
  }

  stageWords(id) {
    const stage = this.#session?.stages.find((one) => one.id === id);
    if (!stage) return ["Timeline"];
    const [who] = stage.executions;
    return [
      h("span.stage-name", null, this.#session.stages.length > 1 ? `${stage.index + 1}. ${stage.name}` : stage.name),
      h("span.under", null, [who?.agent && who.agent !== stage.name && `agent ${who.agent}`, who?.controller === "survey" ? "survey, no language model" : who?.model].filter(Boolean).join(" · ")),
      stage.status !== "completed" && pill(stage.status),
      stage.started_at && h("span.under", null, lasting(stage.started_at, stage.ended_at)),
      stage.reason && h("span.under.reason", null, stage.reason),
    ];
  }

  #show(detail) {
    const before = this.#session;
    this.#session = detail;
    this.#drawHead();
    this.#drawAbout(before);
    this.#drawAnalysis(before);
    this.log.redrawHeads();
    this.log.soon();
  }

  #drawHead() {
    const one = this.#session;
    document.title = `${one.title || one.alert_type} · tersely`;
    const { usage, tokens } = one;
    const fact = (name, value, title) => value !== null && h("div", { title }, h("dt", null, name), h("dd", null, value));
    const keep = this.top.querySelector(":focus")?.dataset.action;
    put(
      this.top,
      h(
        "div.page-head",
        null,
        h("h1", null, one.title || one.alert_type),
        pill(one.status),
        h("span.grow"),
        isOpen(one.status) && one.status !== "cancelling" && h("button", { type: "button", dataset: { action: "cancel" }, onclick: () => this.#cancel() }, "Cancel"),
        h("a.button", { href: `/sessions/${one.id}/trace` }, "Trace"),
        h("a.button", { href: `/api/v1/sessions/${one.id}/export`, download: "" }, "Export"),
      ),
      annotations(one),
      one.reason && h(one.status === "failed" || one.status === "timed_out" ? "p.problem" : "p.reason", null, one.reason),
      one.attempt > 1 && h("p.quiet-words", null, `Resumed after an interruption (attempt ${one.attempt}); finished steps were not repeated.`),
      h(
        "dl.facts",
        null,
        fact("received", when(one.created_at)),
        fact(isOpen(one.status) ? "running for" : "duration", one.started_at ? lasting(one.started_at, one.ended_at) : null),
        fact("stage", one.stage && one.stage.count > 1 ? `${one.stage.name} (${one.stage.index + 1} of ${one.stage.count})` : null),
        fact("tool calls", number(usage.tool_calls)),
        usage.model_calls ? fact("model", `${number(usage.model_calls)} calls · ${short(usage.input_tokens)} in · ${short(usage.output_tokens)} out`, `${number(usage.input_tokens)} tokens in, ${number(usage.output_tokens)} out`) : null,
        usage.model_calls ? fact("price", price(usage.price_usd)) : null,
        fact("tool results", tokens.before ? [saved(tokens.before, tokens.after), h("span.saved-share", null, `${percent(tokens.spared, tokens.before)} saved`)] : null),
        one.author !== "local" ? fact("from", one.author.replace(/^(token|user):/, "")) : null,
        one.resolved_at ? fact("resolved by its sender", when(one.resolved_at)) : null,
      ),
    );
    if (keep) this.top.querySelector(`[data-action=${keep}]`)?.focus({ preventScroll: true });
  }

  #drawAbout(before) {
    const one = this.#session;
    if (before) return;
    put(
      this.about,
      h("details.fold", { open: isOpen(one.status) && one.alert.length < 400 }, h("summary", null, "Alert ", h("span.under", null, one.alert_type)), h("pre.plain", { tabindex: 0 }, one.alert)),
      one.runbook && h("details.fold", null, h("summary", null, "Runbook"), h("pre.plain", { tabindex: 0 }, one.runbook)),
      one.mcp && h("details.fold", null, h("summary", null, "Override of this alert"), h("pre.plain", { tabindex: 0 }, JSON.stringify(one.mcp, null, 2))),
    );
  }

  #drawAnalysis(before) {
    const { analysis, status, verdict } = this.#session;
    if (!analysis || before?.analysis === analysis) return;
    const title = status === "completed" ? "Analysis" : "Partial analysis";
    const text = () => markdown(analysis, { refer: this.refer });
    // With a verdict, the analysis is for those who want to read on.
    put(this.result, ...(verdict ? [verdictBox(verdict, this.refer), h("details.fold", null, h("summary", null, title), text())] : [h("h2", null, title), text()]));
    this.result.hidden = false;
    if (before && scrollY > 200) {
      const button = h("button.primary", { type: "button", onclick: () => (button.remove(), scrollTo({ top: 0, behavior: "smooth" })) }, icon("up"), "Analysis available");
      this.jump.append(button);
      announce("The analysis is available at the top of the page.");
    }
  }

  refer = (handle, first, last) => `/sessions/${this.session}/results/${handle}${first ? `#L${first}${last && last !== first ? `-${last}` : ""}` : ""}`;

  get isLoaded() {
    return this.#loaded;
  }

  get analysisOnTop() {
    return this.#session?.analysis ?? "";
  }

  /** Whether an item is recent enough to be shown unfolded. */
  isRecent(item) {
    const { order } = this.#timeline;
    return !order.length || item.sequence > order[Math.max(0, order.length - OPEN_CARDS)].sequence || order.length <= OPEN_CARDS;
  }

  async #cancel() {
    const agreed = await ask("Cancel this session?", "The agent stops immediately. The timeline so far is kept.", "Cancel the session");
    if (!agreed) return;
    try {
      const { status } = await api(`/sessions/${this.session}/cancel`, { method: "POST" });
      if (isOpen(this.#session.status)) this.#session.status = status;
      this.#drawHead();
      announce("The session is being cancelled.");
    } catch (problem) {
      this.jump.append(h("p.problem", { role: "alert" }, problem.message));
    }
    this.#refetch(0);
  }

  // Scrolling

  #watchScroll() {
    const { signal } = this.#gone;
    addEventListener(
      "scroll",
      () => {
        if (this.#atEnd()) this.following = true;
        else if (scrollY < this.#lastY - 2) this.following = false;
        this.#lastY = scrollY;
        this.#offer();
      },
      { passive: true, signal },
    );
    // Unfolding an item must not scroll it away.
    this.addEventListener("click", (event) => {
      if (!this.following || !event.target.closest("summary")) return;
      this.following = false;
      requestAnimationFrame(() => (this.following = this.#atEnd()));
    });
    // Called after layout and before paint: reading layout and scrolling here is cheap and causes no visible jump.
    this.grown = new ResizeObserver(() => this.#stick());
    this.grown.observe(this);
  }

  #atEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
  }

  /** At the bottom, the view follows new events; otherwise it stays put. */
  #stick() {
    const running = this.#session && isOpen(this.#session.status);
    if (!running && !this.#ending) return;
    if (this.following && this.#loaded) scrollTo(0, document.documentElement.scrollHeight);
    // The last cards are drawn after the end of the session.
    this.#ending = running || !this.log.isDrawn;
  }

  #offer() {
    const running = this.#session && isOpen(this.#session.status);
    const wanted = running && this.#loaded && !this.following;
    if (wanted && !this.offered) {
      this.offered = h("button.follow", { type: "button", onclick: () => ((this.following = true), this.#stick(), this.#offer()) }, icon("down"), "Follow");
      this.jump.append(this.offered);
    } else if (!wanted && this.offered) {
      this.offered.remove();
      this.offered = null;
    }
  }

  #toEvent() {
    const match = /^#event-([\w-]+)$/.exec(location.hash);
    const item = match && this.#timeline.items.get(match[1]);
    if (!item) return;
    this.following = false;
    this.log.to(item.parent ?? item);
  }
}

/** Summary and description of an Alertmanager or Grafana alert, whose title is only its name. */
function annotations(session) {
  if (!session.alert.startsWith("{")) return null;
  let found;
  try {
    const alert = JSON.parse(session.alert);
    found = alert.commonAnnotations ?? alert.annotations ?? alert.alerts?.[0]?.annotations ?? alert;
  } catch {
    return null; // Masking may have made the JSON invalid.
  }
  const words = ["summary", "description"].map((name) => found?.[name]).filter((text) => typeof text === "string" && text && text !== session.title);
  return words.length ? h("p.what-it-says", null, words.map((text, place) => h(place ? "span" : "b", null, text.slice(0, 500)))) : null;
}

customElements.define("session-page", SessionPage);
