// <virtual-rows>: a list of any length that renders only the visible rows.
//
// Rows have the same height unless they are given a layout (wrapped lines). Browsers limit elements to about 33 million pixels, so beyond half of that the scroll position is
// scaled to the rows.

import { h } from "./dom.js";

const ROW = 20;
const TALLEST = 15_000_000;
const SPARE = 12;

/**
 * Rows of equal height: a row begins at its index.
 * @type {{offset: (index: number) => number, at: (offset: number) => number, total: (count: number) => number, size: (index: number) => number}}
 */
const EVEN = { offset: (index) => index, at: (offset) => Math.floor(offset), total: (count) => count, size: () => 1 };

class VirtualRows extends HTMLElement {
  #count = 0;
  #rows = new Map();
  #frame = 0;
  /** @type {(index: number) => HTMLElement} */
  #draw = () => h("div");
  /** @type {(first: number, last: number) => void} */
  #seen = () => {};
  #layout = EVEN;

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

  /**
   * draw(index) returns the element of a row; seen(first, last) is called with the visible range, so that it can be fetched.
   * layout: the offset of each row and the row at an offset, in heights of a single row.
   */
  show(count, draw, seen = () => {}, layout = EVEN) {
    this.#count = count;
    this.#draw = draw;
    this.#seen = seen;
    this.#layout = layout;
    this.room.style.height = `${Math.min(TALLEST, layout.total(count) * ROW) + ROW}px`;
    this.refresh();
  }

  /** The layout changed: keep the first visible row where it is. */
  relayout(change) {
    const first = this.#layout.at((this.scrollTop * this.#scale) / ROW);
    const rest = this.scrollTop * this.#scale - this.#layout.offset(first) * ROW;
    change();
    this.room.style.height = `${Math.min(TALLEST, this.#layout.total(this.#count) * ROW) + ROW}px`;
    this.scrollTop = (this.#layout.offset(first) * ROW + rest) / this.#scale;
    this.refresh();
  }

  /** Redraw all visible rows. */
  refresh() {
    this.#rows.clear();
    this.room.replaceChildren();
    this.#soon();
  }

  get #scale() {
    const full = this.#layout.total(this.#count) * ROW;
    // Pixels of rows per pixel of the scroll range.
    return full <= TALLEST ? 1 : (full - this.clientHeight) / (TALLEST - this.clientHeight);
  }

  to(index, { block = "center" } = {}) {
    const wanted = this.#layout.offset(index) * ROW - (block === "center" ? this.clientHeight / 2 - ROW : ROW);
    this.scrollTop = Math.max(0, wanted) / this.#scale;
    this.#soon();
  }

  isInSight(index) {
    const from = this.scrollTop * this.#scale;
    const top = this.#layout.offset(index) * ROW;
    return top >= from && top + ROW <= from + this.clientHeight;
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
    const first = Math.max(0, this.#layout.at(from / ROW) - SPARE);
    const last = Math.min(this.#count - 1, this.#layout.at((from + this.clientHeight) / ROW) + 1 + SPARE);
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
      row.style.transform = `translateY(${this.#layout.offset(index) * ROW + shift}px)`;
      const size = this.#layout.size(index);
      if (size > 1) row.style.height = `${size * ROW}px`;
    }
    if (last >= first) this.#seen(first, last);
  }
}

customElements.define("virtual-rows", VirtualRows);
