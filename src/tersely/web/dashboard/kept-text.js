// <kept-text session handle>: a viewer for a whole kept result. Lines are fetched in blocks as they become visible; JSON folds. The
// service searches lines; JSON is searched here.

import { api, query } from "./api.js";
import { announce, h, icon, put } from "./dom.js";
import { bytes, number } from "./format.js";
import { everyNode, gist, nodeAt, parseJson, unfoldTo, visibleRows } from "./json-rows.js";
import "./virtual-rows.js";

const BLOCK = 300;
const MOST_BLOCKS = 60;
const LONGEST_LINE = 2_000;
const LARGEST_JSON = 1_500_000;
const MOST_MARKS = 300;

class KeptText extends HTMLElement {
  #blocks = new Map();
  #asked = new Set();
  #about = null;
  #tree = null;
  #rows = [];
  #view = "lines";
  #marked = [0, -1];
  #lost = [];
  #search = { q: "", hits: [], at: -1, turn: 0 };
  #gone = new AbortController();

  connectedCallback() {
    if (this.base) return;
    this.base = `/sessions/${encodeURIComponent(this.getAttribute("session"))}/results/${encodeURIComponent(this.getAttribute("handle"))}`;
    this.field = h("input", { type: "search", placeholder: "Find in the whole result", "aria-label": "Find in the whole result", autocomplete: "off", spellcheck: "false" });
    this.pattern = h("button.small.toggle", { type: "button", "aria-pressed": "false", title: "Regular expression (re2)", "aria-label": "Regular expression" }, ".*");
    this.letters = h("button.small.toggle", { type: "button", "aria-pressed": "false", title: "Match case", "aria-label": "Match case" }, "Aa");
    this.found = h("span.found", { role: "status" });
    this.views = h("span.views", { role: "group", "aria-label": "View", hidden: true });
    const step = (by, sign, name) => h("button.small", { type: "button", onclick: () => this.#step(by), "aria-label": name, title: name }, icon(sign));
    this.steps = h("span.steps", { hidden: true }, step(-1, "up", "Previous match"), step(1, "down", "Next match"));
    for (const toggle of [this.pattern, this.letters])
      toggle.addEventListener("click", () => {
        toggle.setAttribute("aria-pressed", String(toggle.getAttribute("aria-pressed") !== "true"));
        this.#look();
      });
    this.field.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#look(), 250);
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") {
        event.preventDefault();
        if (this.field.value !== this.#search.q) this.#look();
        else this.#step(event.shiftKey ? -1 : 1);
      } else if (event.key === "Escape" && !this.field.value) this.text.focus();
    });
    this.text = document.createElement("virtual-rows");
    this.text.className = "text";
    this.ruler = h("div.ruler", { "aria-hidden": "true" });
    put(this, h("div.tools", null, this.field, this.letters, this.pattern, this.steps, this.found, h("span.grow"), this.views), h("div.sheet", null, this.text, this.ruler));
    this.text.addEventListener("keydown", (event) => this.#keys(event));
    this.ruler.addEventListener("click", (event) => {
      const box = this.ruler.getBoundingClientRect();
      this.text.to(Math.floor(((event.clientY - box.top) / box.height) * (this.#view === "json" ? this.#rows.length : this.#about.lines)));
    });
  }

  disconnectedCallback() {
    this.#gone.abort();
    clearTimeout(this.typing);
  }

  /** Load and show the beginning; returns the result's metadata. */
  async open({ lost = [] } = {}) {
    const start = await api(`${this.base}?lines=1-${BLOCK}`, { signal: this.#gone.signal });
    this.#about = start;
    this.#lost = lost.flatMap(({ lines, partial }) => (partial ? [] : (lines ?? []))).sort((a, b) => a[0] - b[0]);
    this.#take(0, start);
    this.text.setAttribute("aria-label", `The whole result, ${number(start.lines)} lines`);
    this.#showLines();
    if (/^\s*[[{]/.test(start.text) && start.bytes <= LARGEST_JSON) await this.#readJson(start);
    return start;
  }

  /** Show these lines and mark them. */
  jump(first, last = first) {
    this.#marked = [first, last];
    if (this.#view === "json" && this.#tree.last > 1) {
      const node = nodeAt(this.#tree, first);
      unfoldTo(node);
      this.#showTree();
      this.text.to(this.#rows.indexOf(node), { block: "start" });
    } else {
      if (this.#view === "json") this.#choose("lines");
      this.text.refresh();
      this.text.to(first - 1, { block: last - first > 10 ? "start" : "center" });
    }
    announce(first === last ? `Line ${first}` : `Lines ${first} to ${last}`);
  }

  #choose(view) {
    this.#view = view;
    for (const button of this.views.children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    if (view === "json") this.#showTree();
    else this.#showLines();
    this.#look();
  }

  // Lines

  #showLines() {
    this.text.dataset.digits = String(this.#about.lines).length;
    this.text.style.setProperty("--digits", String(this.#about.lines).length);
    this.text.show(
      this.#about.lines,
      (index) => this.#line(index),
      (first, last) => {
        for (let block = Math.floor(first / BLOCK); block <= Math.floor(last / BLOCK); block++) this.#need(block);
      },
    );
    this.#drawRuler();
  }

  #line(index) {
    const number = index + 1;
    const text = this.#blocks.get(Math.floor(index / BLOCK))?.[index % BLOCK];
    const [from, to] = this.#marked;
    const row = h(
      "div.line",
      { dataset: { line: number }, class: [number >= from && number <= to && "here", this.#isLost(number) && "lost", this.#hitAt(number) && "hit"].filter(Boolean).join(" ") },
      h("a.no", { href: `#L${number}`, tabindex: -1 }, number),
    );
    if (text === undefined) return row;
    const shown = text.length > LONGEST_LINE ? text.slice(0, LONGEST_LINE) : text;
    row.append(h("span.words", null, this.#emphasized(shown, number)));
    if (text.length > LONGEST_LINE)
      row.append(h("button.small.rest", { type: "button", onclick: () => this.#whole(number, text) }, `… ${bytesOrMore(text.length - LONGEST_LINE)} more`));
    return row;
  }

  #whole(number, text) {
    const dialog = h(
      "dialog.ask.wide",
      { "aria-label": `Line ${number}` },
      h("h2", null, `Line ${number}`),
      h("pre.plain", { tabindex: 0 }, text),
      h("div.buttons", null, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close")),
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  async #need(block) {
    if (this.#blocks.has(block) || this.#asked.has(block)) return;
    this.#asked.add(block);
    const first = block * BLOCK + 1;
    try {
      this.#take(block, await api(`${this.base}?lines=${first}-${first + BLOCK - 1}`, { signal: this.#gone.signal }));
      for (const row of this.text.querySelectorAll(".line:not(:has(.words))")) {
        const index = Number(row.dataset.line) - 1;
        if (Math.floor(index / BLOCK) === block) row.append(...[...this.#line(index).childNodes].slice(1));
      }
    } catch (problem) {
      if (problem.name !== "AbortError") setTimeout(() => this.text.isConnected && this.text.refresh(), 2_000);
    } finally {
      this.#asked.delete(block);
    }
  }

  #take(block, answer) {
    const lines = answer.text.split("\n");
    if (lines.length > 1 && lines.at(-1) === "") lines.pop();
    // A response has a maximum size: lines after a very long one are requested separately.
    const complete = answer.next === null || lines.length >= BLOCK;
    if (!complete && answer.next.startsWith("bytes=")) lines[lines.length - 1] += " …";
    this.#blocks.set(block, lines);
    if (!complete) this.#rest(block, lines);
    if (this.#blocks.size > MOST_BLOCKS) this.#blocks.delete(this.#blocks.keys().next().value);
  }

  async #rest(block, lines) {
    while (lines.length < BLOCK && block * BLOCK + lines.length < this.#about.lines) {
      const first = block * BLOCK + lines.length + 1;
      const answer = await api(`${this.base}?lines=${first}-${(block + 1) * BLOCK}`, { signal: this.#gone.signal }).catch(() => null);
      if (!answer) return;
      const more = answer.text.split("\n");
      if (more.length > 1 && more.at(-1) === "") more.pop();
      lines.push(...more);
    }
    this.text.refresh();
  }

  // Folds

  async #readJson(start) {
    try {
      let text = start.text;
      for (let next = start.end_byte; next < start.bytes; ) {
        const more = await api(`${this.base}?bytes=${next}-`, { signal: this.#gone.signal });
        if (more.end_byte <= next) return;
        text += more.text;
        next = more.end_byte;
      }
      this.#tree = parseJson(text);
    } catch (problem) {
      return; // Not JSON, or nested too deeply: show lines.
    }
    const view = (name, words) => h("button.small.toggle", { type: "button", dataset: { view: name }, "aria-pressed": "false", onclick: () => this.#choose(name) }, words);
    put(this.views, view("json", "JSON"), view("lines", "Lines"));
    this.views.hidden = false;
    this.#choose("json");
  }

  #showTree() {
    this.#rows = visibleRows(this.#tree);
    this.text.show(this.#rows.length, (index) => this.#fold(this.#rows[index]));
    this.#drawRuler();
  }

  #fold(node) {
    const manyLines = this.#tree.last > 1;
    const [from, to] = this.#marked;
    const row = h(
      "div.line.json",
      { class: [manyLines && node.line >= from && node.line <= to && "here", this.#search.hits[this.#search.at] === node && "here"].filter(Boolean).join(" "), style: { "--depth": Math.min(node.depth, 40) } },
      manyLines && h("a.no", { href: `#L${node.line}`, tabindex: -1 }, node.line),
    );
    const name = node.key === null ? null : [h("span.key", null, this.#emphasized(String(node.key))), h("span.colon", null, ": ")];
    if (node.children) {
      row.append(
        h(
          "button.fold-row",
          { type: "button", "aria-expanded": String(node.open), onclick: () => this.#toggle(node) },
          h("span.turn", { "aria-hidden": "true" }, node.open ? "▾" : "▸"),
          name,
          node.open ? h("span.gist", null, node.kind === "object" ? "{" : "[", ` ${node.children.length} `, node.kind === "object" ? "}" : "]") : h("span.gist", null, this.#emphasized(gist(node))),
        ),
      );
    } else {
      const shown = node.kind === "string" ? JSON.stringify(node.value) : node.value;
      row.append(h("span.leaf", null, name, h(`span.words.${node.kind}`, null, this.#emphasized(shown.length > LONGEST_LINE ? `${shown.slice(0, LONGEST_LINE)}…` : shown))));
    }
    return row;
  }

  #toggle(node, open = !node.open) {
    node.open = open;
    const top = this.text.scrollTop;
    const focused = this.text.contains(document.activeElement);
    this.#showTree();
    this.text.scrollTop = top;
    if (focused) requestAnimationFrame(() => this.text.row(this.#rows.indexOf(node))?.querySelector("button")?.focus({ preventScroll: true }));
  }

  #keys(event) {
    if (this.#view !== "json" || !event.target.matches(".fold-row")) return;
    const rows = [...this.text.querySelectorAll(".fold-row")].sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top);
    const at = rows.indexOf(event.target);
    const open = event.target.getAttribute("aria-expanded") === "true";
    if (event.key === "ArrowDown") rows[at + 1]?.focus();
    else if (event.key === "ArrowUp") rows[at - 1]?.focus();
    else if ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open)) event.target.click();
    else return;
    event.preventDefault();
  }

  // Search

  find(q) {
    this.field.value = q;
    return this.#look();
  }

  async #look() {
    const q = this.field.value;
    const turn = this.#search.turn + 1;
    this.#search = { q, hits: [], at: -1, turn, cursor: null, total: 0 };
    this.steps.hidden = true;
    this.field.removeAttribute("aria-invalid");
    if (!q) {
      this.found.textContent = "";
      this.text.refresh();
      this.#drawRuler();
      return;
    }
    if (this.#view === "json") this.#lookInTree();
    else if (!(await this.#more(turn))) return;
    this.steps.hidden = this.#search.hits.length < 2;
    if (this.#search.hits.length) this.#step(1);
    else {
      this.found.textContent = "not found";
      this.text.refresh();
    }
    this.#drawRuler();
  }

  #lookInTree() {
    let fits;
    if (this.pattern.getAttribute("aria-pressed") === "true") {
      try {
        const expression = new RegExp(this.#search.q, this.#caseMatters ? "u" : "iu");
        fits = (text) => expression.test(text);
      } catch {
        this.field.setAttribute("aria-invalid", "true");
        return;
      }
    } else {
      const wanted = this.#caseMatters ? this.#search.q : this.#search.q.toLowerCase();
      fits = (text) => (this.#caseMatters ? text : text.toLowerCase()).includes(wanted);
    }
    for (const node of everyNode(this.#tree)) {
      if ((typeof node.key === "string" && fits(node.key)) || (node.value !== undefined && fits(String(node.value)))) this.#search.hits.push(node);
      if (this.#search.hits.length >= 5_000) break;
    }
    this.#search.total = this.#search.hits.length;
  }

  get #caseMatters() {
    return this.letters.getAttribute("aria-pressed") === "true";
  }

  async #more(turn) {
    const regex = this.pattern.getAttribute("aria-pressed") === "true";
    try {
      const found = await api(`${this.base}/search${query({ q: this.#search.q, regex, ignore_case: !this.#caseMatters, limit: 200, cursor: this.#search.cursor })}`, { signal: this.#gone.signal });
      if (turn !== this.#search.turn) return false;
      this.#search.hits.push(...found.items);
      this.#search.cursor = found.next_cursor;
      this.#search.total = found.matching_lines;
      this.#search.all = found.counted_all;
      this.#search.lines = new Map(this.#search.hits.map((hit) => [hit.line, hit]));
      return true;
    } catch (problem) {
      if (problem.name === "AbortError" || turn !== this.#search.turn) return false;
      this.found.textContent = problem.message;
      this.field.setAttribute("aria-invalid", "true");
      return false;
    }
  }

  async #step(by) {
    const search = this.#search;
    if (!search.hits.length) return;
    let at = search.at + by;
    if (at >= search.hits.length && search.cursor) await this.#more(search.turn);
    if (search !== this.#search) return;
    at = at >= search.hits.length ? 0 : at < 0 ? search.hits.length - 1 : at;
    search.at = at;
    const hit = search.hits[at];
    const unit = this.#view === "json" ? "" : " lines";
    this.found.textContent = `${number(at + 1)} of ${number(search.total)}${search.all === false ? "+" : ""}${unit}`;
    if (this.#view === "json") {
      unfoldTo(hit);
      this.#showTree();
      this.text.to(this.#rows.indexOf(hit));
    } else {
      this.#marked = [hit.line, hit.line];
      this.text.refresh();
      if (!this.text.isInSight(hit.line - 1)) this.text.to(hit.line - 1);
    }
  }

  #hitAt(line) {
    return this.#view === "lines" && this.#search.q && this.#search.lines?.get(line);
  }

  /** The text with matches of the search marked. */
  #emphasized(text, line = 0) {
    const { q } = this.#search;
    if (!q) return text;
    let wanted = q;
    if (this.pattern.getAttribute("aria-pressed") === "true") {
      const hit = this.#hitAt(line);
      if (!hit) return text;
      wanted = [...hit.text].slice(...hit.match).join("");
    }
    if (!wanted) return text;
    const where = this.#caseMatters ? text : text.toLowerCase();
    const what = this.#caseMatters ? wanted : wanted.toLowerCase();
    if (where.length !== text.length) return text; // a letter whose lower case is longer
    const parts = [];
    let from = 0;
    for (let at = where.indexOf(what); at >= 0 && parts.length < 100; at = where.indexOf(what, from)) {
      parts.push(text.slice(from, at), h("mark", null, text.slice(at, at + what.length)));
      from = at + what.length;
    }
    parts.push(text.slice(from));
    return parts;
  }

  // Lines the model did not receive

  #isLost(line) {
    let low = 0;
    let high = this.#lost.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#lost[middle][0] <= line) low = middle + 1;
      else high = middle;
    }
    // Ranges may overlap; checking a few that begin before the line is enough.
    for (let place = low - 1; place >= Math.max(0, low - 8); place--) if (this.#lost[place][1] >= line) return true;
    return false;
  }

  #drawRuler() {
    const total = this.#about?.lines ?? 0;
    this.ruler.replaceChildren();
    this.ruler.hidden = this.#view === "json";
    if (!total || this.#view === "json") return;
    const mark = (kind, first, last) =>
      this.ruler.append(h(`span.${kind}`, { style: { top: `${(100 * (first - 1)) / total}%`, height: `max(2px, ${(100 * (last - first + 1)) / total}%)` } }));
    for (const [first, last] of this.#lost.slice(0, MOST_MARKS)) mark("lost", first, last);
    for (const { line } of this.#search.hits.slice(0, MOST_MARKS)) mark("hit", line, line);
  }
}

const bytesOrMore = (count) => bytes(count).replace("bytes", "characters");

customElements.define("kept-text", KeptText);
