// <virtual-rows>: a list of any length that renders only the visible rows.
//
// All rows have the same height. Browsers limit elements to about 33 million pixels, so beyond half of that the scroll position is
// scaled to the rows.

import { h } from "./dom.js";

const ROW = 20;
const TALLEST = 15_000_000;
const SPARE = 12;

class VirtualRows extends HTMLElement {
  #count = 0;
  #rows = new Map();
  #frame = 0;
  #draw = () => h("div");
  #seen = () => {};

  connectedCallback() {
    this.tabIndex = 0;
    this.setAttribute("role", "group");
    if (this.room) return;
    this.room = h("div.room");
    this.append(this.room);
    this.addEventListener("scroll", () => this.#soon(), { passive: true });
    this.resized = new ResizeObserver(() => this.#soon());
    this.resized.observe(this);
  }

  disconnectedCallback() {
    this.resized?.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /** draw(index) returns the element of a row; seen(first, last) is called with the visible range, so that it can be fetched. */
  show(count, draw, seen = () => {}) {
    this.#count = count;
    this.#draw = draw;
    this.#seen = seen;
    this.room.style.height = `${Math.min(TALLEST, count * ROW) + ROW}px`;
    this.refresh();
  }

  /** Redraw all visible rows. */
  refresh() {
    this.#rows.clear();
    this.room.replaceChildren();
    this.#soon();
  }

  get #scale() {
    const full = this.#count * ROW;
    // Pixels of rows per pixel of the scroll range.
    return full <= TALLEST ? 1 : (full - this.clientHeight) / (TALLEST - this.clientHeight);
  }

  to(index, { block = "center" } = {}) {
    const wanted = index * ROW - (block === "center" ? this.clientHeight / 2 - ROW : ROW);
    this.scrollTop = Math.max(0, wanted) / this.#scale;
    this.#soon();
  }

  isInSight(index) {
    const from = this.scrollTop * this.#scale;
    return index * ROW >= from && (index + 1) * ROW <= from + this.clientHeight;
  }

  row(index) {
    return this.#rows.get(index);
  }

  #soon() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#place();
    });
  }

  #place() {
    const from = this.scrollTop * this.#scale;
    const first = Math.max(0, Math.floor(from / ROW) - SPARE);
    const last = Math.min(this.#count - 1, Math.ceil((from + this.clientHeight) / ROW) + SPARE);
    for (const [index, row] of this.#rows) {
      if (index >= first && index <= last) continue;
      row.remove();
      this.#rows.delete(index);
    }
    const shift = this.scrollTop - from;
    for (let index = first; index <= last; index++) {
      let row = this.#rows.get(index);
      if (!row) {
        row = this.#draw(index);
        this.#rows.set(index, row);
        this.room.append(row);
      }
      row.style.transform = `translateY(${index * ROW + shift}px)`;
    }
    if (last >= first) this.#seen(first, last);
  }
}

customElements.define("virtual-rows", VirtualRows);
