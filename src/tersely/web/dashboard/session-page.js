// <session-page session="…">: one investigation, as it happens.
//
// The page is read first and then followed: the timeline comes from the API in pages, what happens from then on over the
// WebSocket. Both go through `Timeline`, which does not mind hearing something twice. Drawing happens once per frame and for a few
// milliseconds only; what is not drawn yet waits for the next frame, so a flood of events never makes the page stall. Of a long
// session the groups of cards that are far from the reader are taken out of the page and leave their height behind.

import { api, pages } from "./api.js";
import { ask, h, icon, put, say } from "./dom.js";
import { clock, duration, isOpen, lasting, number, percent, pill, price, saved, short, when } from "./format.js";
import { follow } from "./live.js";
import { markdown } from "./markdown.js";
import { Timeline, toolName } from "./state.js";

const BUDGET_MS = 8;
const PAUSE_MS = 40; // between two drawings: faster is not seen, only paid for
const GROUP = 25;
const WHOLE = 30; // groups; of a longer session only those near the reader are in the page
const OPEN_CARDS = 60; // answers further up are folded

class SessionPage extends HTMLElement {
  #timeline = new Timeline();
  #cards = new Map(); // item id -> card
  #waiting = new Set(); // items to be drawn
  #frame = 0;
  #stop = () => {};
  #gone = new AbortController();
  #session = null;
  #following = false;
  #lastY = 0;
  #loaded = false;
  #fetching = 0;
  #drawn = 0;
  #live = []; // cards that were drawn unfolded while they streamed, the oldest first

  connectedCallback() {
    this.session = this.getAttribute("session");
    this.top = h("header.session-head");
    this.result = h("section.analysis", { hidden: true, "aria-label": "Analysis" });
    this.about = h("div.about");
    this.log = h("div.timeline");
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
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#fetching);
    this.grown?.disconnect();
    this.#near.disconnect();
  }

  addressed() {
    if (this.#loaded) this.#toEvent();
  }

  async #open() {
    const detail = await api(`/sessions/${encodeURIComponent(this.session)}`, { signal: this.#gone.signal });
    const seen = detail.last_seq; // What the pages below show is at least as new as this.
    this.#show(detail);
    if (isOpen(detail.status)) this.#following = document.documentElement.scrollHeight <= innerHeight + 4;
    for await (const items of pages(`/sessions/${this.session}/timeline`, { limit: 100, cursor: "after", signal: this.#gone.signal })) {
      for (const item of items) this.#changed(this.#timeline.apply(item));
    }
    this.#loaded = true;
    this.#stop = follow(`session:${this.session}`, seen, (event) => this.#hear(event), {
      failed: (event) => this.#refused({ message: event.message }),
    });
    this.#tidy();
  }

  #refused(problem) {
    if (problem.name === "AbortError") return;
    document.title = "Session · tersely";
    const gone = problem.status === 404;
    put(this.top, h("div.empty", null, h("h1", null, gone ? "No such session" : "This cannot be shown"), h("p", null, problem.message), h("p", null, h("a", { href: "/" }, "All sessions"))));
  }

  // What happens

  #hear(event) {
    switch (event.type) {
      case "session.status":
        if (this.#session && this.#session.status !== event.status) {
          this.#session.status = event.status;
          this.#session.reason = event.reason ?? "";
          this.#drawHead();
          if (!isOpen(event.status)) say(`The session is ${event.status === "completed" ? "done" : event.status.replace("_", " ")}.`);
        }
        this.#refetch(0);
        break;
      case "stage.status":
      case "interaction.created":
        this.#refetch(700);
        break;
      case "execution.progress":
        this.progress = event.message;
        this.#tidy();
        break;
      default: {
        const item = this.#timeline.apply(event);
        this.#changed(item);
        if (item && event.type === "timeline_event.created" && item.type === "llm_tool_call") say(`Calling ${toolName(item.metadata)}`);
      }
    }
  }

  #changed(item) {
    if (!item) return;
    this.#waiting.add(item.parent ?? item);
    this.#tidy();
  }

  #tidy() {
    this.#frame ||= requestAnimationFrame((now) => {
      this.#frame = 0;
      if (now - this.#drawn < PAUSE_MS) return this.#tidy();
      this.#drawn = now;
      this.#draw();
    });
  }

  #refetch(pause) {
    if (this.#fetching && pause) return;
    clearTimeout(this.#fetching);
    this.#fetching = setTimeout(async () => {
      this.#fetching = 0;
      try {
        this.#show(await api(`/sessions/${this.session}`, { signal: this.#gone.signal }));
      } catch {
        // The next event asks again.
      }
    }, pause || 30);
  }

  // What is seen

  #draw() {
    const end = performance.now() + BUDGET_MS;
    for (const item of this.#waiting) {
      this.#waiting.delete(item);
      this.#place(item);
      if (performance.now() > end) break;
    }
    this.log.dataset.cards = this.#cards.size;
    const running = this.#session && isOpen(this.#session.status);
    this.now.hidden = !running || !this.#loaded;
    const words = this.#session?.status === "pending" ? "Waiting for a free worker" : this.#session?.status === "cancelling" ? "Stopping" : (this.progress ?? "Working");
    if (this.now.hidden) {
      put(this.now);
      this.nowSaid = null;
    } else if (this.nowSaid !== words) {
      this.nowSaid = words;
      put(this.now, h("span.spinner", { "aria-hidden": "true" }), words);
    }
    if (this.#waiting.size) this.#tidy();
    else if (this.#loaded && !this.arrived) {
      this.arrived = true;
      if (location.hash) this.#toEvent();
      else if (this.restoreTo) scrollTo(0, this.restoreTo);
    }
    this.#fold();
    this.#stick();
  }

  /** Who follows the end does not see what is far above it: there, what streamed is folded like the rest. */
  #fold() {
    if (!this.#following) return;
    for (let most = 10; most && this.#live.length > OPEN_CARDS; most--) this.#live.shift().fold();
  }

  #place(item) {
    const old = this.#cards.get(item.id);
    if (old) {
      const flowing = old.stream;
      old.update();
      if (flowing && !old.stream) this.#live.push(old);
      return;
    }
    const card = new Card(item, this);
    this.#cards.set(item.id, card);
    const before = this.#drawnBefore(item);
    if (before && before === this.lastDrawn) this.#groupFor(item).append(card.node);
    else if (before) before.node.after(card.node); // late: what follows was drawn already
    else if (this.lastDrawn) this.log.firstElementChild.list.prepend(card.node);
    else this.#groupFor(item).append(card.node);
    if (!this.lastDrawn || before === this.lastDrawn) this.lastDrawn = card;
  }

  #drawnBefore(item) {
    const { order } = this.#timeline;
    let low = 0;
    let high = order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (order[middle].sequence < item.sequence) low = middle + 1;
      else high = middle;
    }
    while (low > 0) {
      const card = this.#cards.get(order[--low].id);
      if (card?.node.parentNode) return card;
    }
    return null;
  }

  #groupFor(item) {
    let group = this.log.lastElementChild;
    const stageChanged = !group || group.dataset.stage !== (item.stage ?? "");
    if (!stageChanged && group.list.childElementCount < GROUP) return group.list;
    group = h("section.group", { dataset: { stage: item.stage ?? "" } }, stageChanged && this.#stageHead(item.stage), h("ol"));
    group.list = group.lastElementChild;
    group.list.group = group;
    this.log.append(group);
    // The first of a long session were observed while there was room for all: they are looked at again.
    for (const one of this.log.childElementCount === WHOLE + 1 ? [...this.log.children] : [group]) {
      this.#near.unobserve(one);
      this.#near.observe(one);
    }
    return group.list;
  }

  #near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting, boundingClientRect } of entries) {
        if (isIntersecting) this.#bring(target);
        else if (this.log.childElementCount > WHOLE && target.list.parentNode && !target.contains(document.activeElement)) {
          target.style.height = `${boundingClientRect.height}px`;
          target.list.remove();
        }
      }
    },
    { rootMargin: "2500px 0px" },
  );

  #bring(group) {
    if (group.list.parentNode) return;
    group.append(group.list);
    group.style.height = "";
  }

  #stageHead(id) {
    return h("h3.stage-head", { dataset: { of: id ?? "" } }, this.#stageWords(id));
  }

  #stageWords(id) {
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
    for (const head of this.log.querySelectorAll("h3.stage-head")) put(head, this.#stageWords(head.dataset.of));
    this.#tidy();
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
      saysItself(one),
      one.reason && h("p.reason", null, one.reason),
      one.attempt > 1 && h("p.quiet-words", null, `Taken up again after an interruption (attempt ${one.attempt}); finished steps were not repeated.`),
      h(
        "dl.facts",
        null,
        fact("came in", when(one.created_at)),
        fact(isOpen(one.status) ? "running for" : "took", one.started_at ? lasting(one.started_at, one.ended_at) : null),
        fact("stage", one.stage && one.stage.count > 1 ? `${one.stage.name} (${one.stage.index + 1} of ${one.stage.count})` : null),
        fact("tool calls", number(usage.tool_calls)),
        usage.model_calls ? fact("model", `${number(usage.model_calls)} calls · ${short(usage.input_tokens)} in · ${short(usage.output_tokens)} out`, `${number(usage.input_tokens)} tokens in, ${number(usage.output_tokens)} out`) : null,
        usage.model_calls ? fact("price", price(usage.price_usd)) : null,
        fact("of tool results", tokens.before ? [saved(tokens.before, tokens.after), h("span.spared-words", null, `${percent(tokens.spared, tokens.before)} spared`)] : null),
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
    const { analysis, status } = this.#session;
    if (!analysis || before?.analysis === analysis) return;
    put(this.result, h("h2", null, status === "completed" ? "Analysis" : "What was found until then"), markdown(analysis, { refer: this.refer }));
    this.result.hidden = false;
    if (before && scrollY > 200) {
      put(this.jump, h("button.primary", { type: "button", onclick: () => (put(this.jump), scrollTo({ top: 0, behavior: "smooth" })) }, icon("up"), "The analysis is there"));
      say("The analysis is there, at the top of the page.");
    }
  }

  refer = (handle, first, last) => `/sessions/${this.session}/results/${handle}${first ? `#L${first}${last && last !== first ? `-${last}` : ""}` : ""}`;

  get analysisOnTop() {
    return this.#session?.analysis ?? "";
  }

  /** Whether an item is recent enough to be shown unfolded. */
  isRecent(item) {
    const { order } = this.#timeline;
    return !order.length || item.sequence > order[Math.max(0, order.length - OPEN_CARDS)].sequence || order.length <= OPEN_CARDS;
  }

  async #cancel() {
    const agreed = await ask("Cancel this session?", "The agent stops at once. What it found so far stays.", "Cancel the session");
    if (!agreed) return;
    try {
      const { status } = await api(`/sessions/${this.session}/cancel`, { method: "POST" });
      if (isOpen(this.#session.status)) this.#session.status = status;
      this.#drawHead();
      say("The session is being cancelled.");
    } catch (problem) {
      put(this.jump, h("p.problem", { role: "alert" }, problem.message));
    }
    this.#refetch(0);
  }

  // Where the reader is

  #watchScroll() {
    addEventListener(
      "scroll",
      () => {
        if (this.#atEnd()) this.#following = true;
        else if (scrollY < this.#lastY - 2) this.#following = false;
        this.#lastY = scrollY;
        this.#offer();
      },
      { passive: true, signal: this.#gone.signal },
    );
    // Who unfolds something wants to read it where it is.
    this.addEventListener("toggle", () => (this.#following &&= this.#atEnd()), { capture: true });
    this.grown = new ResizeObserver(() => this.#stick());
    this.grown.observe(this.log);
  }

  #atEnd() {
    return innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
  }

  /** Whoever reads the end sees the end; nobody else is moved. */
  #stick() {
    const running = this.#session && isOpen(this.#session.status);
    if (running && this.#following && this.#loaded) scrollTo(0, 1e9);
    this.#offer();
  }

  #offer() {
    const running = this.#session && isOpen(this.#session.status);
    const wanted = running && this.#loaded && !this.#following;
    const shown = this.jump.querySelector(".follow");
    if (wanted && !shown)
      this.jump.append(
        h("button.follow", { type: "button", onclick: () => ((this.#following = true), this.#stick()) }, icon("down"), "Follow"),
      );
    else if (!wanted && shown) shown.remove();
  }

  #toEvent() {
    const match = /^#event-([\w-]+)$/.exec(location.hash);
    const item = match && this.#timeline.items.get(match[1]);
    if (!item) return;
    const card = this.#cards.get((item.parent ?? item).id);
    if (!card) return;
    this.#following = false;
    this.#bring(card.node.parentNode.group);
    card.open();
    for (const old of this.querySelectorAll(".marked")) old.classList.remove("marked");
    card.node.classList.add("marked");
    card.node.scrollIntoView({ block: "start" });
    // Groups above get their real height only now.
    requestAnimationFrame(() => {
      card.node.scrollIntoView({ block: "start" });
      card.node.querySelector("[data-stop]")?.focus({ preventScroll: true });
    });
  }
}

/** One item of the timeline. */
class Card {
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

  /** Draw it as a page that is opened later would, unless somebody is in it. */
  fold() {
    if (!this.node.contains(document.activeElement) && this.item.status !== "streaming") this.#draw();
  }

  open() {
    const details = this.node.querySelector("details");
    if (details) details.open = true;
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
      put(this.node, this.#line(h("p.problem", null, item.content || "Something went wrong.")));
    } else if (item.type === "llm_thinking") {
      const text = item.content.trim();
      if (!text) return put(this.node, this.#line(h("p.quiet-words", null, "(thought without words)")));
      put(this.node, this.#line(this.#fold(firstLine(text), () => h("div.flow.thought", null, text), live)));
    } else if (item.type === "final_analysis") {
      const onTop = item.content === page.analysisOnTop;
      put(this.node, this.#line(this.#fold(onTop ? "Analysis, as at the top of the page" : "Analysis of this stage", () => markdown(item.content, { refer }), live)));
    } else if (item.status !== "completed" && !item.content) {
      put(this.node, this.#line(h("p.quiet-words", null, item.status === "cancelled" ? "Cancelled." : "Ended without an answer.")));
    } else {
      const body = () => (item.type === "mcp_tool_summary" ? h("pre.plain", { tabindex: 0 }, item.content) : markdown(item.content, { refer }));
      const unfolded = live || item.content.length < 200 || page.isRecent(item);
      put(this.node, this.#line(unfolded ? body() : this.#fold(firstLine(item.content), body, false)));
    }
  }

  #line(body) {
    const { item } = this;
    const [sign, word] = KINDS[item.type] ?? ["answer", item.type];
    return [h("a.mark", { href: `#event-${item.id}`, title: `${word}: link to this event`, "aria-label": `Link to this event: ${word}` }, icon(sign)), h("div.body", null, body), h("span.at", null, clock(item.at))];
  }

  #fold(words, body, open) {
    const details = h("details", null, h("summary.words-fold", { dataset: { stop: "" } }, h("span.clip", null, words)));
    const fill = () => details.open && details.childElementCount === 1 && details.append(body());
    details.addEventListener("toggle", fill);
    if (open) {
      details.open = true;
      fill();
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
    // Streaming text of a summary changes often; the rest of the card does not.
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
        !running && !failed && after !== undefined ? saved(metadata.original_tokens, after) : null,
        !running && !failed && !summary && metadata.original_tokens ? h("span.saved.whole", { title: "Small enough: the model got all of it" }, `${number(metadata.original_tokens)} tokens`) : null,
        !running ? h("span.took", null, duration(metadata.duration_ms)) : h("span.took", null, lasting(item.at, null)),
      ),
    );
    const details = h("details", null, summaryLine);
    const body = () => {
      const link = metadata.handle && h("a.button.small", { href: `/sessions/${page.session}/calls/${item.id}` }, "Before and after", icon("open"));
      return h(
        "div.call-body",
        null,
        h("div.call-actions", null, link, lost ? h("span.quiet-words", null, `${lost} ${lost === 1 ? "thing" : "things"} left out`) : null, fallback ? h("span.quiet-words", null, summary.metadata.reason ?? "") : null),
        metadata.arguments && Object.keys(metadata.arguments).length ? [h("h4", null, "Arguments"), h("pre.plain", { tabindex: 0 }, JSON.stringify(metadata.arguments, null, 2))] : null,
        summary?.content ? [h("h4", null, "What the model got"), h("pre.plain.tall", { tabindex: 0 }, summary.content)] : null,
        item.content ? [h("h4", null, failed ? "What went wrong" : summary ? "What came back (beginning)" : "What came back"), h("pre.plain.tall", { tabindex: 0 }, item.content)] : null,
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

/** What an alert of Alertmanager's or Grafana's says in words, where its name alone is the title. */
function saysItself(session) {
  if (!session.alert.startsWith("{")) return null;
  let found;
  try {
    const alert = JSON.parse(session.alert);
    found = alert.commonAnnotations ?? alert.annotations ?? alert.alerts?.[0]?.annotations ?? alert;
  } catch {
    return null; // Masking may have cut what was JSON.
  }
  const words = ["summary", "description"].map((name) => found?.[name]).filter((text) => typeof text === "string" && text && text !== session.title);
  return words.length ? h("p.what-it-says", null, words.map((text, place) => h(place ? "span" : "b", null, text.slice(0, 500)))) : null;
}

const KINDS = {
  llm_thinking: ["thought", "Thought"],
  llm_response: ["answer", "Answer"],
  llm_tool_call: ["tool", "Tool call"],
  mcp_tool_summary: ["thought", "Condensed"],
  error: ["cross", "Error"],
  final_analysis: ["check", "Analysis"],
};
const FALLBACK = { fallback: "no summary", partial: "with gaps" };

function firstLine(text) {
  const line = text.trimStart().split("\n", 1)[0];
  return line.length > 240 ? `${line.slice(0, 240)}…` : line;
}

/** Arguments on one line: names and values, no quotes. */
function brief(values) {
  if (!values || typeof values !== "object") return "";
  return Object.entries(values)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`)
    .join(", ")
    .slice(0, 300);
}

customElements.define("session-page", SessionPage);
