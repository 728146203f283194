// <timeline-view>: the cards of a session; only those near the viewport exist.
//
// Cards are placed in groups. In a long session, groups far from the viewport drop their cards and keep their height and their text,
// hidden until the browser's search finds it (`hidden="until-found"`). So the cost of a frame does not grow with the session. No code
// here queries layout: an IntersectionObserver reports positions after the browser's own layout.

import { h, put } from "./dom.js";
import { Card, words } from "./event-card.js";
import { topOf } from "./state.js";

const GROUP = 20;
const WHOLE = 15; // groups; a session with at most this many is in the page as a whole
const NEAR = "1500px 0px";
const END = 3; // groups drawn at the end while following a fast session; earlier ones are skipped undrawn
const BUDGET_MS = 6;
const PAUSE_MS = 40; // between two draws while text streams: a higher rate is not visible
const SLOW_MS = 28; // duration of a frame, from the start of our code to the end of the browser's layout and paint
const FEWEST = 2;
const MOST = 24;

class TimelineView extends HTMLElement {
  #groups = [];
  #groupOf = new Map(); // item id -> group
  #cards = new Map(); // item id -> card, for items that have one
  #arrived = new Set(); // items without a group
  #waiting = new Set(); // items to be drawn
  #unfolded = new Map(); // item id → what was unfolded in its card when its group dropped its cards
  /** @type {(item: any) => boolean} */
  #isWanted = () => true;
  #marked = null;
  #cardHeight = 40;
  #most = MOST / 2; // cards in one frame
  #frame = 0;
  #timer = 0;
  #drawnAt = 0;
  #afterwards = new MessageChannel();

  connectedCallback() {
    this.#afterwards.port1.onmessage = () => this.#learn(performance.now() - this.#drawnAt);
    this.addEventListener("beforematch", (event) => this.#found(event.target.item));
    addEventListener("beforeprint", this.#everything);
  }

  disconnectedCallback() {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#near.disconnect();
    this.#afterwards.port1.close();
    removeEventListener("beforeprint", this.#everything);
  }

  /** page: the context of the cards, and `following`, `isLoaded`, `stageWords`, `drawn`; see <session-page>. */
  of(page) {
    this.page = page;
    return this;
  }

  /** An item changed; it is drawn in one of the next frames. */
  changed(item) {
    const shown = topOf(item);
    if (!this.#groupOf.has(shown.id) && !this.#isWanted(shown)) return;
    if (!this.#groupOf.has(shown.id)) this.#arrived.add(shown);
    this.#waiting.add(shown);
    this.soon();
  }

  soon() {
    if (this.#frame || this.#timer) return;
    const draw = () => {
      this.#timer = 0;
      this.#frame = requestAnimationFrame(() => {
        this.#frame = 0;
        this.#drawnAt = performance.now();
        this.#draw();
        this.#afterwards.port2.postMessage(null);
      });
    };
    const pause = this.page.isLoaded ? PAUSE_MS - (performance.now() - this.#drawnAt) : 0;
    if (pause > 4) this.#timer = setTimeout(draw, pause);
    else draw();
  }

  /** Show only the items that a filter wants; items: all of them, in order. */
  filter(items, isWanted) {
    this.#isWanted = isWanted;
    this.#near.disconnect();
    for (const [id, card] of this.#cards) this.#unfolded.set(id, card.unfolded);
    this.#groups = [];
    for (const map of [this.#groupOf, this.#cards, this.#arrived, this.#waiting]) map.clear();
    this.replaceChildren();
    for (const item of items) this.changed(item);
    this.soon();
  }

  get isDrawn() {
    return !this.#waiting.size;
  }

  /** Redraw the headings of the stages from the page's current data. */
  redrawHeads() {
    for (const { head, stage } of this.#groups) if (head) put(head, this.page.stageWords(stage));
  }

  /** Scroll to the card of an item, mark it and unfold it. */
  to(item, { block = "start" } = {}) {
    const top = topOf(item);
    const group = this.#groupOf.get(top.id);
    if (!group) return false;
    this.querySelector(".marked")?.classList.remove("marked");
    this.#marked = top.id;
    this.#bring(group);
    const card = this.#cards.get(top.id) ?? this.#place(top, group);
    const node = card.open(item.parent && item.type === "mcp_tool_summary" ? item.parent : item);
    node.classList.add("marked");
    node.scrollIntoView({ block });
    // Groups above get their actual height only now.
    requestAnimationFrame(() => {
      node.scrollIntoView({ block });
      node.querySelector("[data-stop]")?.focus({ preventScroll: true });
    });
    return true;
  }

  /** The heading of a stage. */
  headOf(stage) {
    return this.#groups.find((group) => group.head && group.stage === stage)?.head ?? null;
  }

  // One frame

  #draw() {
    const end = this.#drawnAt + BUDGET_MS;
    const { following } = this.page;
    let most = this.#most;
    for (const item of this.#arrived) this.#join(item);
    this.#arrived.clear();
    for (const item of this.#waiting) {
      const group = this.#groupOf.get(item.id);
      if (group.drawn && following && this.#groups.length > WHOLE && group.index < this.#groups.length - END) this.#putAside(group);
      this.#waiting.delete(item);
      if (group.drawn) {
        this.#place(item, group);
        most--;
      } else this.#placeholder(item, group);
      if (!most || performance.now() > end) break;
    }
    this.dataset.cards = String(Math.max(0, this.#groupOf.size - this.#waiting.size));
    if (this.#waiting.size) this.soon();
    this.page.drawn();
  }

  /** Adjust the number of cards per frame to the measured duration of the last frame. */
  #learn(took) {
    if (took > SLOW_MS) this.#most = Math.max(FEWEST, this.#most >> 1);
    else this.#most = Math.min(MOST, this.#most + 2);
  }

  #place(item, group) {
    const known = this.#cards.get(item.id);
    if (known) {
      known.update();
      return known;
    }
    const card = new Card(item, this.page);
    for (const id of this.#unfolded.get(item.id) ?? []) card.open(item.calls?.find((call) => call.id === id) ?? item);
    if (this.#marked === item.id) card.node.classList.add("marked");
    this.#cards.set(item.id, card);
    for (let place = group.items.indexOf(item) - 1; place >= 0; place--) {
      const before = this.#cards.get(group.items[place].id);
      if (before) {
        before.node.after(card.node);
        return card;
      }
    }
    group.list.prepend(card.node);
    return card;
  }

  // Groups

  /** Add an item to its group: the last one, or the one of the item before it. */
  #join(item) {
    let index = this.#groups.length - 1;
    while (index > 0 && this.#groups[index].items[0].sequence > item.sequence) index--;
    let group = this.#groups[index];
    const isLast = index === this.#groups.length - 1;
    if (!group || (isLast && (group.stage !== item.stage || group.items.length >= GROUP) && group.items.at(-1).sequence < item.sequence)) group = this.#begin(item.stage);
    let place = group.items.length;
    while (place && group.items[place - 1].sequence > item.sequence) place--;
    group.items.splice(place, 0, item);
    this.#groupOf.set(item.id, group);
    return group;
  }

  #begin(stage) {
    const before = this.#groups.at(-1);
    const index = this.#groups.length;
    const head = before?.stage === stage ? null : h("h3.stage-head", null, this.page.stageWords(stage));
    const drawn = index < WHOLE || this.page.following || before.isNear;
    const list = h("ol", drawn ? null : { hidden: "until-found" });
    const node = h(drawn ? "section.group" : "section.group.aside", null, head, list);
    const group = { index, stage, items: [], node, list, head, drawn, isNear: drawn, height: 0 };
    node.group = group;
    this.#groups.push(group);
    this.append(node);
    this.#near.observe(node);
    if (index === WHOLE) for (const one of this.#groups) if (!one.isNear) this.#putAside(one);
    return group;
  }

  #near = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting, boundingClientRect } of entries) {
        const { group } = /** @type {any} */ (target);
        group.isNear = isIntersecting;
        if (group.drawn) group.height = boundingClientRect.height;
        if (isIntersecting) this.#bring(group);
        else if (this.#groups.length > WHOLE) this.#putAside(group);
      }
    },
    { rootMargin: NEAR },
  );

  #bring(group) {
    if (group.drawn) return;
    group.drawn = true;
    group.node.classList.remove("aside");
    group.list.replaceWith((group.list = h("ol")));
    for (const item of group.items) {
      this.#waiting.delete(item);
      this.#place(item, group);
    }
    group.node.style.height = "";
  }

  #putAside(group) {
    if (!group.drawn || isInUse(group.node)) return;
    group.drawn = false;
    if (group.height) this.#cardHeight += (group.height / group.items.length - this.#cardHeight) / 8;
    group.node.style.height = `${group.height || this.#guess(group)}px`;
    group.node.classList.add("aside");
    for (const { id } of group.items) {
      const card = this.#cards.get(id);
      if (card) this.#unfolded.set(id, card.unfolded);
      this.#cards.delete(id);
    }
    // A new list: the old one would keep its layout, and with it every card, until the next layout.
    group.list.replaceWith((group.list = h("ol", { hidden: "until-found" }, group.items.map(hidden))));
  }

  #guess(group) {
    return Math.round(group.items.length * this.#cardHeight) + (group.head ? 45 : 0);
  }

  /** Add or update the placeholder of an item in a group without cards. */
  #placeholder(item, group) {
    const place = group.items.indexOf(item);
    const there = group.list.children[place];
    if (there?.item === item) there.replaceWith(hidden(item));
    else {
      group.list.insertBefore(hidden(item), there ?? null);
      group.height = 0;
      group.node.style.height = `${this.#guess(group)}px`;
    }
  }

  /** The browser's search found the text of an item in a group without cards. */
  #found(item) {
    if (!item) return;
    this.page.following = false;
    this.to(item, { block: "center" });
  }

  /** Printing includes everything. */
  #everything = () => this.#groups.forEach((group) => this.#bring(group));
}

function hidden(item) {
  const node = h("li", { hidden: "until-found" }, words(item));
  node.item = item;
  return node;
}

/** Whether the node contains the focus or part of the selection. */
function isInUse(node) {
  if (node.contains(document.activeElement)) return true;
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

customElements.define("timeline-view", TimelineView);
