// <session-page session="…">: one session, updated live.
//
// First the timeline is loaded from the API in pages, then new events arrive over the WebSocket. Both go through `Timeline`, where
// applying an event twice has no effect; <timeline-view> draws the result.

import { alertFacts } from "./alert-facts.js";
import { api, info, pages } from "./api.js";
import "./ask-panel.js";
import { go } from "./app.js";
import { announce, ask, copy, h, icon, menu, put, skeleton } from "./dom.js";
import { searchable } from "./event-card.js";
import { clock, count, duration, isOpen, lasting, number, offset, percent, person, pill, price, short, when } from "./format.js";
import { follow } from "./live.js";
import { markdown } from "./markdown.js";
import { isFollowed, sessionEnded, title, toggleFollowed } from "./notices.js";
import { Timeline, isFailed, toolName } from "./state.js";
import { download, sessionMarkdown } from "./share.js";
import "./timeline-view.js";
import { triageBar } from "./triage-bar.js";
import { verdictBox } from "./verdict-box.js";

const OPEN_CARDS = 60; // earlier answers are folded
const FILTERS = {
  "": ["All", () => true],
  errors: ["Errors", (item) => isFailed(item) || (item.calls ?? []).some(isFailed)],
  tools: ["Tools", (item) => item.type === "calls"],
  answers: ["Answers", (item) => ["llm_response", "llm_thinking", "final_analysis", "verdict"].includes(item.type)],
};

class SessionPage extends HTMLElement {
  #timeline = new Timeline();
  #stop = () => {};
  #gone = new AbortController();
  #session = null;
  #lastY = 0;
  #loaded = false;
  #fetching = 0;
  #ending = false;
  #filter = "";
  #looking = 0;
  restoreTo = undefined; // scroll position, set by the router
  following = false; // whether the view is at the end and follows new events

  connectedCallback() {
    this.session = this.getAttribute("session");
    this.top = h("header.session-head", null, skeleton(3));
    this.result = h("section.result", { hidden: true, "aria-label": "Analysis" });
    this.glance = h("aside.glance", { hidden: true, "aria-label": "At a glance" });
    this.caveat = h("p.caveat", { hidden: true });
    this.about = h("div.about");
    this.filters = h("div.timeline-bar");
    this.field = h("input", { type: "search", placeholder: "Search this session", "aria-label": "Search this session", autocomplete: "off", oninput: () => this.#lookSoon() });
    this.found = h("span.found", { role: "status" });
    this.log = h("timeline-view.timeline").of(this);
    this.now = h("p.now", { hidden: true });
    this.foot = h("div.session-foot");
    this.jump = h("div.jump");
    put(
      this,
      h("p.crumbs", null, h("a", { href: "/", rel: "up" }, "Sessions")),
      this.top,
      h("div.answer", null, h("div.answer-main", null, this.result), this.glance),
      this.caveat,
      this.about,
      h("h2.unseen", null, "Timeline"),
      this.filters,
      this.log,
      this.now,
      this.foot,
      this.jump,
    );
    this.addEventListener("toggle", (event) => this.#toggled(event.target), true);
    addEventListener("beforeprint", () => this.#unfoldForPrint(), { signal: this.#gone.signal });
    this.#watchScroll();
    this.#open().catch((problem) => this.#refused(problem));
  }

  disconnectedCallback() {
    this.#gone.abort();
    this.#stop();
    for (const timer of [this.#fetching, this.#looking, this.#counting]) clearTimeout(timer);
    this.grown?.disconnect();
  }

  addressed() {
    if (this.#loaded) this.#toEvent();
  }

  async #open() {
    info().then(({ providers }) => ((this.providers = providers), this.#session && this.isConnected && this.#drawHead()), () => {});
    const detail = await api(`/sessions/${encodeURIComponent(this.session)}`, { signal: this.#gone.signal });
    const seen = detail.last_seq; // The pages loaded below are at least as new as this.
    this.#show(detail);
    if (isOpen(detail.status)) this.following = document.documentElement.scrollHeight <= innerHeight + 4;
    for await (const items of pages(`/sessions/${this.session}/timeline`, { limit: 500, cursor: "after", signal: this.#gone.signal })) {
      for (const item of items) this.#changed(this.#timeline.apply(item));
    }
    this.#loaded = true;
    this.#drawGlance();
    this.#drawFilters();
    this.#stop = follow(`session:${this.session}`, seen, (event) => this.#apply(event), {
      failed: (event) => this.#refused({ message: event.message }),
    });
    this.log.soon();
  }

  #refused(problem) {
    if (problem.name === "AbortError") return;
    title("Session");
    const gone = problem.status === 404;
    put(this.top, h("div.empty", null, h("h1", null, gone ? "Session not found" : "Could not load this session"), h("p", null, problem.message), h("div.buttons", null, !gone && h("button.primary", { type: "button", onclick: () => location.reload() }, "Try again"), h("a.button", { href: "/" }, "All sessions"))));
  }

  // Events

  /** @param {TerselyEvent} event */
  #apply(event) {
    switch (event.type) {
      case "session.status":
        if (this.#session && this.#session.status !== event.status) {
          this.#session.status = event.status;
          this.#session.reason = event.reason ?? "";
          this.#drawHead();
          if (!isOpen(event.status)) sessionEnded(this.session, event.status, this.#session.title || this.#session.alert_type);
          if (!isOpen(event.status)) announce(`The session is ${event.status === "completed" ? "done" : event.status.replace("_", " ")}.`);
        }
        this.#refetch(0);
        break;
      case "stage.status":
      case "interaction.created":
        this.#refetch(700);
        break;
      case "chat.status":
        this.foot.firstElementChild?.refresh();
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
    if (!item) return;
    this.log.changed(item);
    if (this.#loaded && (item.type === "llm_tool_call" || item.type === "error")) this.#countSoon();
  }

  #counting = 0;
  #countSoon() {
    this.#counting ||= setTimeout(() => {
      this.#counting = 0;
      this.#drawFilters();
      this.#drawGlance();
    }, 400);
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
    const many = stage.executions.length > 1;
    const [who] = stage.executions;
    const how = who?.controller === "survey" ? "survey, no language model" : who?.model;
    return [
      h("span.stage-name", null, this.#session.stages.length > 1 ? `${stage.index + 1}. ${stage.name}` : stage.name),
      h("span.under", null, many ? `${stage.executions.length} agents` : [who?.agent && who.agent !== stage.name && `agent ${who.agent}`, how].filter(Boolean).join(" · ")),
      stage.status !== "completed" && pill(stage.status),
      stage.started_at && h("span.under", null, lasting(stage.started_at, stage.ended_at)),
      stage.reason && stage.reason !== this.#session.reason && h("span.under.reason", null, stage.reason),
    ];
  }

  /** The name of an item's agent, where several work on a stage. */
  agentOf(item) {
    const stage = this.#session?.stages.find((one) => one.id === item.stage);
    if (!stage || stage.executions.length < 2) return null;
    const place = stage.executions.findIndex((one) => one.id === item.execution);
    return place < 0 ? null : h("span.agent", { dataset: { agent: place % 6 } }, stage.executions[place].agent);
  }

  #show(detail) {
    const before = this.#session;
    this.#session = detail;
    this.#drawHead();
    this.#drawAbout(before);
    this.#drawAnalysis(before);
    this.#drawGlance();
    this.#drawFilters();
    if (!isOpen(detail.status) && !this.foot.childElementCount) put(this.foot, h("ask-panel", { session: this.session }).of(this));
    // An error in the timeline refers to the reason on top.
    if (before?.reason !== detail.reason) for (const item of this.#timeline.order) if (item.type === "error") this.log.changed(item);
    this.log.redrawHeads();
    this.log.soon();
  }

  #drawHead() {
    const one = this.#session;
    const facts = alertFacts(one.alert);
    const open = isOpen(one.status);
    this.startedAt = one.started_at ?? one.created_at;
    this.reason = one.reason;
    title(one.title || one.alert_type);
    const keep = this.top.querySelector(":focus")?.dataset.action;
    const unfolded = [...this.top.querySelectorAll("details.menu[open] > summary")].map((summary) => summary.dataset.action);
    const bad = one.status === "failed" || one.status === "timed_out";
    put(
      this.top,
      h(
        "div.page-head",
        null,
        facts.severity && h("span.severity", { dataset: { severity: facts.severity } }, facts.severity),
        h("h1", null, one.title || one.alert_type),
        h("span.labels", null, facts.labels.map(([name, value]) => h("span", { title: name }, value))),
        h("span.grow"),
        pill(one.status),
        one.started_at && h("span.took", { title: "Duration" }, lasting(one.started_at, one.ended_at)),
        open && one.status !== "cancelling" && h("button", { type: "button", dataset: { action: "cancel" }, onclick: () => this.#cancel() }, "Cancel"),
        open && "Notification" in window && Notification.permission !== "denied" && h("button", { type: "button", dataset: { action: "notify" }, "aria-pressed": String(isFollowed(one.id)), onclick: () => this.#notify() }, isFollowed(one.id) ? "Will notify" : "Notify me"),
        !open && h("button", { type: "button", dataset: { action: "ask" }, onclick: () => this.querySelector("#ask")?.focus() }, "Ask"),
        !open && this.#runAgain(),
        h("a.button", { href: `/sessions/${one.id}/trace` }, "Waterfall"),
        this.#share(),
      ),
      facts.summary || facts.description || facts.startsAt
        ? h("p.what-it-says", null, facts.summary && facts.summary !== one.title && h("b", null, facts.summary), facts.description && facts.description !== facts.summary && h("span", null, facts.description), facts.startsAt && h("span.under", null, one.resolved_at ? "fired " : "firing since ", clock(facts.startsAt, "day", { named: true }), " (", when(facts.startsAt), ")"))
        : null,
      one.reason && one.status !== "completed" && h(bad ? "p.problem" : "p.reason", null, one.reason),
      one.attempt > 1 && h("p.quiet-words", null, `Resumed after an interruption (attempt ${one.attempt}); finished steps were not repeated.`),
    );
    for (const action of unfolded) this.top.querySelector(`details.menu:has(> [data-action="${CSS.escape(action)}"])`)?.setAttribute("open", "");
    if (keep) this.top.querySelector(`[data-action="${CSS.escape(keep)}"]`)?.focus({ preventScroll: true });
  }

  #share() {
    const words = () => sessionMarkdown(this.#session, this.#timeline.calls, location.href.replace(/[#?].*/, ""));
    const told = async (text, what) => {
      await copy(text);
      announce(`${what} copied`);
      this.#say(`${what} copied`);
    };
    return menu(
      "Share",
      ["Copy link", () => told(location.href.replace(/#.*/, ""), "Link")],
      ["Copy as Markdown", () => told(words(), "Markdown")],
      ["Download Markdown", () => download(`session-${this.session}.md`, words(), "text/markdown")],
      h("a", { href: `/api/v1/sessions/${this.session}/export`, download: "" }, "Download JSON"),
      ["Print or save as PDF", () => print()],
    );
  }

  #say(words) {
    const note = h("p.said", null, words);
    this.jump.append(note);
    setTimeout(() => note.remove(), 1_800);
  }

  /** The same again; where there is a choice, with another model or from a later stage. */
  #runAgain() {
    const { stages } = this.#session;
    const models = (this.providers ?? []).length > 1 ? this.providers : [];
    const later = stages.filter((stage) => stage.index > 0 && stages[stage.index - 1].status === "completed");
    if (!models.length && !later.length) return h("button", { type: "button", dataset: { action: "again" }, onclick: () => this.#again({}) }, "Run again");
    return menu("Run again", ["The same again", () => this.#again({})], ...models.map((one) => [`With ${one.model} (${one.name})`, () => this.#again({ llm_provider: one.name })]), ...later.map((stage) => [`From stage ${stage.index + 1}, ${stage.name}`, () => this.#again({ from_stage: stage.name })]));
  }

  async #again(changes) {
    try {
      const { session_id } = await api(`/sessions/${this.session}/rerun`, { method: "POST", body: changes });
      go(`/sessions/${session_id}`);
    } catch (problem) {
      this.jump.append(h("p.problem", { role: "alert" }, problem.message));
    }
  }

  async #notify() {
    await toggleFollowed(this.session, this.#session.title || this.#session.alert_type);
    this.#drawHead();
  }

  /** The quiet corner: what happened when, and what it took. */
  #drawGlance() {
    const one = this.#session;
    if (!one) return;
    const { usage, tokens, verdict } = one;
    const facts = alertFacts(one.alert);
    const { calls } = this.#timeline;
    const failed = calls.filter(isFailed).length;
    const open = isOpen(one.status);
    // The service counts calls that were made; refused ones are in the timeline only.
    const refused = open ? 0 : Math.max(0, calls.length - usage.tool_calls);
    const total = open ? Math.max(usage.tool_calls, calls.length) : usage.tool_calls;
    const errors = Math.max(0, failed - refused);
    const start = facts.startsAt || one.created_at;
    const moments = [
      [verdict?.since, "began"],
      [facts.startsAt, "alert fired"],
      [one.created_at, "received"],
      [one.ended_at, isOpen(one.status) ? "" : "ended"],
      [one.resolved_at, "resolved by its sender"],
    ]
      .filter(([at, words]) => at && words && !Number.isNaN(Date.parse(at)))
      .sort(([a], [b]) => Date.parse(a) - Date.parse(b));
    const fact = (name, value, title) => value && h("div", { title }, h("dt", null, name), h("dd", null, value));
    put(
      this.glance,
      h("h2.caption", null, "At a glance"),
      h("ol.moments", null, moments.map(([at, words]) => h("li", null, clock(at, "minute"), h("span", null, words), h("span.under", { title: facts.startsAt ? "From the start of the alert" : "From the submission" }, at === start ? "" : offset(at, start))))),
      h(
        "dl.quiet-facts",
        null,
        fact("tool calls", total ? [number(total), errors ? h("span.bad-word", null, count(errors, "error")) : null, refused ? h("span", null, `${refused} refused`) : null] : null),
        fact("model calls", usage.model_calls ? number(usage.model_calls) : null, `${number(usage.input_tokens)} tokens in, ${number(usage.output_tokens)} out`),
        fact("tokens", usage.model_calls ? `${short(usage.input_tokens)} in, ${short(usage.output_tokens)} out` : null, `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out`),
        fact("price", usage.model_calls ? price(usage.price_usd) : null),
        fact("tool output", tokens.before ? `${short(tokens.before)} → ${short(tokens.after)} tokens` : null, `${number(tokens.before)} → ${number(tokens.after)} tokens, ${percent(tokens.saved, tokens.before)} less`),
        fact("chain", one.chain),
        fact("seen before", one.seen_before?.count ? number(one.seen_before.count) : null),
        fact("from", one.author !== "local" ? person(one.author) : null),
      ),
      one.origin_id || one.reruns?.length
        ? h("ul.seen", null, [...(one.origin_id ? [[one.origin_id, "Runs an earlier session again"]] : []), ...(one.reruns ?? []).map((id) => [id, "Was run again"])].map(([id, words]) => h("li", null, h("a", { href: `/sessions/${id}` }, words), h("span.under", null, h("a", { href: `/sessions/${one.id}/compare/${id}` }, "compare")))))
        : null,
      one.seen_before?.sessions.length
        ? h("ul.seen", null, one.seen_before.sessions.map((earlier) => h("li", null, h("a", { href: `/sessions/${earlier.id}`, title: earlier.cause }, earlier.cause || "no cause found"), h("span.under", null, when(earlier.created_at), earlier.rating && ` · ${earlier.rating}`, " · ", h("a", { href: `/sessions/${one.id}/compare/${earlier.id}` }, "compare")))))
        : null,
    );
    this.glance.hidden = false;
  }

  #drawAbout(before) {
    const one = this.#session;
    this.caveat.hidden = !one.reason || one.status !== "completed";
    put(this.caveat, icon("notice"), one.reason);
    if (before) return;
    const raw = one.alert.startsWith("{") ? pretty(one.alert) : one.alert;
    put(
      this.about,
      h("details.fold", { open: isOpen(one.status) && one.alert.length < 400 }, h("summary", null, "Alert ", h("span.under", null, one.alert_type)), h("pre.plain", { tabindex: 0 }, raw)),
      one.runbook && h("details.fold", null, h("summary", null, "Runbook"), markdown(one.runbook)),
      one.mcp && h("details.fold", null, h("summary", null, "Tool override"), h("pre.plain", { tabindex: 0 }, JSON.stringify(one.mcp, null, 2))),
    );
  }

  #drawAnalysis(before) {
    const { analysis, status, verdict } = this.#session;
    if (!analysis || before?.analysis === analysis) return;
    const title = status === "completed" ? "Full analysis" : "Findings so far";
    const text = () => markdown(analysis, { refer: this.refer, near: this.#session.created_at });
    // With a verdict, the analysis is for those who want to read on.
    const people = this.#session.triage && !isOpen(status) && triageBar(this.#session, (triage) => (this.#session.triage = triage));
    put(this.result, ...(verdict ? [verdictBox(verdict, this.refer, this.#session.created_at, people), h("details.fold.whole-analysis", null, h("summary", null, h("h2", null, title)), text())] : [h("h2", null, title), text(), people]));
    this.result.classList.toggle("plain-analysis", !verdict);
    this.result.hidden = false;
    // The analysis in the timeline refers to the one on top.
    for (const item of this.#timeline.order) if (item.type === "final_analysis") this.log.changed(item);
    if (before && scrollY > 200) {
      const button = h("button.primary", { type: "button", onclick: () => (button.remove(), scrollTo({ top: 0, behavior: "smooth" })) }, icon("up"), "Analysis ready");
      this.jump.append(button);
      announce("The analysis is available at the top of the page.");
    }
  }

  /** On paper, the alert, the runbook and the analysis are unfolded. */
  #unfoldForPrint() {
    const folded = this.querySelectorAll(":is(.about, .result) details:not([open])");
    for (const details of folded) details.setAttribute("open", "");
    addEventListener("afterprint", () => folded.forEach((details) => details.removeAttribute("open")), { once: true });
  }

  // Filters and search

  #drawFilters() {
    const { order } = this.#timeline;
    if (!this.#session || !this.#loaded) return;
    const counts = { "": 0, errors: 0, tools: this.#timeline.calls.length, answers: 0 };
    for (const item of order) {
      if (isFailed(item)) counts.errors++;
      else for (const call of item.calls ?? []) if (isFailed(call)) counts.errors++;
      if (item.type === "llm_response") counts.answers++;
    }
    const chip = ([name, [words]]) => h("button.chip", { type: "button", dataset: { filter: name, action: `filter-${name}` }, "aria-pressed": String(this.#filter === name), onclick: () => this.#choose(name) }, words, counts[name] ? h("span.count", null, number(counts[name])) : null);
    const { stages } = this.#session;
    const agents = stages.filter((stage) => stage.executions.length > 1).flatMap((stage) => stage.executions.map((one) => [one.id, `${stages.length > 1 ? `${stage.index + 1}. ` : ""}${one.agent}`]));
    const keep = this.filters.querySelector("button:focus")?.dataset.action;
    if (!this.field.isConnected) put(this.filters, h("div.chips", { role: "group", "aria-label": "Filter" }), (this.agents = h("select", { "aria-label": "Agent", hidden: true, onchange: () => ((this.agent = this.agents.value), this.#applyFilter()) })), this.field, this.found, h("nav.stages", { "aria-label": "Stages" }));
    if (agents.length && this.agents.childElementCount !== agents.length + 1) put(this.agents, h("option", { value: "" }, "All agents"), agents.map(([id, words]) => h("option", { value: id }, words)));
    this.agents.hidden = !agents.length;
    put(this.filters.firstElementChild, Object.entries(FILTERS).map(chip));
    put(
      this.filters.lastElementChild,
      stages.length > 1 &&
        stages
          .filter((stage) => stage.started_at)
          .map((stage) => {
            const errors = order.filter((item) => item.stage === stage.id).reduce((sum, item) => sum + (isFailed(item) ? 1 : (item.calls ?? []).filter(isFailed).length), 0);
            return h("button.stage-link", { type: "button", dataset: { action: `stage-${stage.index}`, status: stage.status }, onclick: () => this.log.headOf(stage.id)?.scrollIntoView({ block: "start" }) }, `${stage.index + 1} ${stage.name}`, h("span.under", null, stage.ended_at ? duration(Date.parse(stage.ended_at) - Date.parse(stage.started_at)) : "running"), errors ? h("span.bad-word", null, count(errors, "error")) : null);
          }),
    );
    if (keep) this.filters.querySelector(`[data-action="${keep}"]`)?.focus({ preventScroll: true });
  }

  #choose(name) {
    this.#filter = name;
    this.#applyFilter();
    this.#drawFilters();
  }

  #lookSoon() {
    clearTimeout(this.#looking);
    this.#looking = setTimeout(() => this.#applyFilter(), 200);
  }

  #applyFilter() {
    clearTimeout(this.#looking); // What was typed is applied here: drawing again would take the focus away.
    const [, fits] = FILTERS[this.#filter];
    const words = this.field.value.trim().toLowerCase();
    const isWanted = (item) => fits(item) && (!this.agent || item.execution === this.agent) && (!words || searchable(item).toLowerCase().includes(words));
    this.following = false;
    this.log.filter(this.#timeline.order, isWanted);
    this.found.textContent = words ? count(this.#timeline.order.filter(isWanted).length, "match", "matches") : "";
  }

  /** Something was unfolded by key: bring what it shows into view. */
  #toggled(details) {
    if (!details.open || !details.contains(document.activeElement) || !document.activeElement.matches(":focus-visible")) return;
    // After its body was drawn.
    requestAnimationFrame(() => {
      const box = details.getBoundingClientRect();
      if (box.bottom > innerHeight) details.scrollIntoView({ block: box.height > innerHeight - 160 ? "start" : "end" });
    });
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
    if (this.#filter || this.field.value || this.agent) {
      this.field.value = "";
      this.agent = "";
      if (this.agents) this.agents.value = "";
      this.#choose("");
    }
    this.log.to(item);
  }
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // Masking may have made the JSON invalid.
  }
}

customElements.define("session-page", SessionPage);
