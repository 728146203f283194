// <virtual-rows>: a list of any length that renders only the visible rows.
//
// Rows have the same height unless they are given a layout (wrapped lines). Browsers limit elements to about 33 million pixels, so beyond half of that the scroll position is
// scaled to the rows.

import { h } from "./dom.js";

const ROW = 20; // pixels
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
  #row = ROW;

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
   * row: the height of a single row; rows with buttons are higher than lines of text.
   */
  show(count, draw, seen = () => {}, layout = EVEN, row = ROW) {
    this.#count = count;
    this.#draw = draw;
    this.#seen = seen;
    this.#layout = layout;
    this.#row = row;
    this.style.setProperty("--row", `${row}px`);
    this.room.style.height = `${Math.min(TALLEST, layout.total(count) * this.#row) + this.#row}px`;
    this.refresh();
  }

  /** The layout changed: keep the first visible row where it is. */
  relayout(change) {
    const first = this.#layout.at((this.scrollTop * this.#scale) / this.#row);
    const rest = this.scrollTop * this.#scale - this.#layout.offset(first) * this.#row;
    change();
    this.room.style.height = `${Math.min(TALLEST, this.#layout.total(this.#count) * this.#row) + this.#row}px`;
    this.scrollTop = (this.#layout.offset(first) * this.#row + rest) / this.#scale;
    this.refresh();
  }

  /** Redraw all visible rows. */
  refresh() {
    this.#rows.clear();
    this.room.replaceChildren();
    this.#soon();
  }

  get #scale() {
    const full = this.#layout.total(this.#count) * this.#row;
    // Pixels of rows per pixel of the scroll range.
    return full <= TALLEST ? 1 : (full - this.clientHeight) / (TALLEST - this.clientHeight);
  }

  to(index, { block = "center" } = {}) {
    const wanted = this.#layout.offset(index) * this.#row - (block === "center" ? this.clientHeight / 2 - this.#row : this.#row);
    this.scrollTop = Math.max(0, wanted) / this.#scale;
    this.#soon();
  }

  isInSight(index) {
    const from = this.scrollTop * this.#scale;
    const top = this.#layout.offset(index) * this.#row;
    return top >= from && top + this.#row <= from + this.clientHeight;
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
    const first = Math.max(0, this.#layout.at(from / this.#row) - SPARE);
    const last = Math.min(this.#count - 1, this.#layout.at((from + this.clientHeight) / this.#row) + 1 + SPARE);
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
      row.style.transform = `translateY(${this.#layout.offset(index) * this.#row + shift}px)`;
      const size = this.#layout.size(index);
      if (size > 1) row.style.height = `${size * this.#row}px`;
    }
    if (last >= first) this.#seen(first, last);
  }
}

customElements.define("virtual-rows", VirtualRows);
