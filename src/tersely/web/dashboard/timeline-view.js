// <timeline-view>: the cards of a session, of which only those near the reader exist.
//
// Cards stand in groups. Of a long session the groups far from the reader give up their cards and keep their height and their words,
// hidden until the browser's own search finds them. So what a frame costs does not grow with the session. Nothing here asks where
// something stands on the screen: the browser tells it after its own layout.

import { h } from "./dom.js";
import { Card, words } from "./event-card.js";

const GROUP = 20;
const WHOLE = 15; // groups; a session that is not longer is in the page as a whole
const NEAR = "1500px 0px";
const END = 3; // groups; who follows a flood sees these, and what ran past is put aside undrawn
const BUDGET_MS = 6;
const PAUSE_MS = 40; // between two drawings while something streams: faster is not seen, only paid for
const SLOW_MS = 28; // a frame, from the first line of ours to what the browser makes of it
const FEWEST = 2;
const MOST = 24;

class TimelineView extends HTMLElement {
  #groups = [];
  #groupOf = new Map(); // item id -> group
  #cards = new Map(); // item id -> card, where there is one
  #arrived = new Set(); // items that have no group yet
  #waiting = new Set(); // items to be drawn
  #unfolded = new Set(); // items that the reader had unfolded when they were put aside
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

  /** page: what a card needs to know, and `following`, `isLoaded`, `stageWords`, `drawn`; see <session-page>. */
  of(page) {
    this.page = page;
    return this;
  }

  /** Something new of an item; it is seen with one of the next frames. */
  changed(item) {
    const shown = item.parent ?? item;
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

  get isDrawn() {
    return !this.#waiting.size;
  }

  /** The heads of the stages, whose words come from elsewhere. */
  redrawHeads() {
    for (const { head, stage } of this.#groups) head?.replaceChildren(...this.page.stageWords(stage));
  }

  /** Have an item's card in sight, marked and unfolded. */
  to(item, { block = "start" } = {}) {
    const group = this.#groupOf.get(item.id);
    if (!group) return false;
    this.#cards.get(this.#marked)?.node.classList.remove("marked");
    this.#marked = item.id;
    this.#bring(group);
    const card = this.#cards.get(item.id) ?? this.#place(item, group);
    card.open();
    card.node.classList.add("marked");
    card.node.scrollIntoView({ block });
    // Groups above get their real height only now.
    requestAnimationFrame(() => {
      card.node.scrollIntoView({ block });
      card.node.querySelector("[data-stop]")?.focus({ preventScroll: true });
    });
    return true;
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
      } else this.#standIn(item, group);
      if (!most || performance.now() > end) break;
    }
    this.dataset.cards = Math.max(0, this.#groupOf.size - this.#waiting.size);
    if (this.#waiting.size) this.soon();
    this.page.drawn();
  }

  /** What the frame cost, all in all: the next one takes as many cards as can be afforded. */
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
    if (this.#unfolded.has(item.id)) card.open();
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

  /** The group an item belongs to: the last one, or that of what happened before it. */
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
        const { group } = target;
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
      if (this.#cards.get(id)?.isOpen) this.#unfolded.add(id);
      else this.#unfolded.delete(id);
      this.#cards.delete(id);
    }
    // A list of its own: the old one would keep its layout, and with it every card, for as long as it is not laid out again.
    group.list.replaceWith((group.list = h("ol", { hidden: "until-found" }, group.items.map(hidden))));
  }

  #guess(group) {
    return Math.round(group.items.length * this.#cardHeight) + (group.head ? 45 : 0);
  }

  /** An item of a group that is put aside. */
  #standIn(item, group) {
    const place = group.items.indexOf(item);
    const there = group.list.children[place];
    if (there?.item === item) there.replaceWith(hidden(item));
    else {
      group.list.insertBefore(hidden(item), there ?? null);
      group.height = 0;
      group.node.style.height = `${this.#guess(group)}px`;
    }
  }

  /** The browser's own search met the words of an item that is put aside. */
  #found(item) {
    if (!item) return;
    this.page.following = false;
    this.to(item, { block: "center" });
  }

  /** What is printed is the whole. */
  #everything = () => this.#groups.forEach((group) => this.#bring(group));
}

function hidden(item) {
  const node = h("li", { hidden: "until-found" }, words(item));
  node.item = item;
  return node;
}

/** Somebody has the focus in it, or marked words of it. */
function isInUse(node) {
  if (node.contains(document.activeElement)) return true;
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

customElements.define("timeline-view", TimelineView);
