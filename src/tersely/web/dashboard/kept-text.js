// <kept-text session handle>: a viewer for a whole kept result. Lines are fetched in blocks as they become visible; JSON folds. The
// service searches lines; JSON is searched here. Lines and values are marked by what became of them in the text the model received.

import { api, query } from "./api.js";
import { announce, copyButton, h, icon, put, s } from "./dom.js";
import { bytes, clockWords, number } from "./format.js";
import { everyNode, gist, lostPaths, markTree, nodeAt, parseJson, unfoldTo, visibleRows } from "./json-rows.js";
import { LineMarks, WrappedRows, levelOf } from "./line-marks.js";
import "./virtual-rows.js";

const BLOCK = 300;
const FOLD_ROW = 24; // pixels: a row of JSON is a button
const MOST_BLOCKS = 60;
const LONGEST_LINE = 2_000;
const LARGEST_JSON = 1_500_000;
const MOST_MARKS = 300;
const LARGEST_COPY = 5_000_000;
const FEWEST_FOR_PLOT = 40;
const NAMES = { shown: "shown", partial: "shown in part", folded: "counted", lost: "left out", quoted: "quoted", cited: "cited", unused: "not used" };

class KeptText extends HTMLElement {
  #blocks = new Map();
  #asked = new Set();
  #about = null;
  #tree = null;
  #rows = [];
  #view = "lines";
  #marked = [0, -1];
  #marks = new LineMarks();
  #filter = "";
  #chosen = null;
  #wrapped = null;
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
    this.text = /** @type {any} */ (document.createElement("virtual-rows"));
    this.text.className = "text";
    this.ruler = h("div.ruler", { "aria-hidden": "true" });
    this.wrap = h("button.small.toggle", { type: "button", "aria-pressed": "false", title: "Wrap long lines", onclick: () => this.#wrap(!this.#wrapped) }, "Wrap");
    this.filters = h("div.marks-bar", { hidden: true });
    this.plot = h("div.histogram", { hidden: true });
    const raw = `/api/v1${this.base}/raw`;
    put(
      this,
      h("div.tools", null, this.field, this.letters, this.pattern, this.steps, this.found, h("span.grow"), this.views, this.wrap, copyButton("Copy", () => this.#original(raw)), h("a.button.small", { href: raw, download: "", title: "Download the whole result" }, icon("down"), "Download")),
      this.filters,
      this.plot,
      h("div.sheet", null, this.text, this.ruler),
    );
    this.text.addEventListener("keydown", (event) => this.#keys(event));
    this.ruler.addEventListener("click", (event) => {
      const box = this.ruler.getBoundingClientRect();
      this.text.to(Math.floor(((event.clientY - box.top) / box.height) * (this.#view === "json" ? this.#rows.length : this.#lines.count)));
    });
  }

  get #lines() {
    return (this.#chosen ??= this.#marks.chosen(this.#filter, this.#about.lines));
  }

  async #original(raw) {
    if (this.#about.bytes > LARGEST_COPY) throw new Error("Too large: download it");
    return (await fetch(raw)).text();
  }

  disconnectedCallback() {
    this.#gone.abort();
    clearTimeout(this.typing);
  }

  /** Load and show the beginning; returns the result's metadata. */
  async open() {
    const start = await api(`${this.base}?lines=1-${BLOCK}`, { signal: this.#gone.signal });
    this.#about = start;
    this.#chosen = null;
    this.#take(0, start);
    this.text.setAttribute("aria-label", `The whole result, ${number(start.lines)} lines`);
    this.#showLines();
    if (/^\s*[[{]/.test(start.text) && start.bytes <= LARGEST_JSON) await this.#readJson(start);
    this.plotted = this.#tree || start.lines < FEWEST_FOR_PLOT ? Promise.resolve() : this.#drawPlot();
    return start;
  }

  /** Mark what became of each line and value; see ResultAccountOut of the API. */
  mark(account) {
    this.#marks = new LineMarks(account.lines);
    this.#chosen = null;
    if (this.#tree) markTree(this.#tree, account.values);
    const byValue = this.#tree && account.values.lost.length + account.values.folded.length + account.values.partial.length > 0;
    const counts = byValue ? treeCounts(this.#tree) : account.counts;
    this.valueCounts = byValue ? counts : null;
    this.lostPaths = byValue ? lostPaths(this.#tree) : [];
    const filter = (name, words, title) => h("button.small.toggle", { type: "button", dataset: { filter: name }, title, "aria-pressed": String(name === this.#filter), onclick: () => this.#choose(this.#view, name) }, words);
    put(
      this.filters,
      h("span.legend-marks", null, Object.entries(NAMES).map(([kind, word]) => counts[kind] && h("span", { class: `is-${kind}` }, h("i", { "aria-hidden": "true" }), `${number(counts[kind])} ${byValue ? (counts[kind] === 1 ? "value" : "values") : counts[kind] === 1 ? "line" : "lines"} ${word}`))),
      h("span.grow"),
      h("span.views", { role: "group", "aria-label": "Filter" }, filter("", "All", "Every line"), filter("left-out", "Left out", "Only what was left out"), filter("kept", "Kept", "Only what was kept")),
    );
    this.filters.hidden = !account.lines.length;
    this.#choose(this.#view);
  }

  /** Show a value of JSON. */
  reveal(node) {
    if (this.#view !== "json" || this.#filter === "kept") this.#choose("json", "");
    unfoldTo(node);
    this.#search = { ...this.#search, hits: [node], at: 0 };
    this.#showTree();
    this.text.to(this.#rows.indexOf(node));
  }

  /** The line to open at if the address names none: the first one that the model quoted or cited, else the first error. */
  get firstOfInterest() {
    if (this.#tree) return 0;
    return this.#marks.first("quoted", "cited") || this.firstError || 0;
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
      if (this.#view === "json" || (this.#filter && this.#lines.line(this.#lines.index(first)) !== first)) this.#choose("lines", "");
      this.text.refresh();
      this.text.to(this.#lines.index(first), { block: last - first > 10 ? "start" : "center" });
    }
    announce(first === last ? `Line ${first}` : `Lines ${first} to ${last}`);
  }

  #choose(view, filter = this.#filter) {
    this.#view = view;
    this.#filter = filter;
    this.#chosen = null;
    if (filter && this.#wrapped) this.#wrap(false);
    this.wrap.hidden = view === "json" || Boolean(filter);
    for (const button of this.filters.querySelectorAll("[data-filter]")) button.setAttribute("aria-pressed", String(button.dataset.filter === filter));
    for (const button of this.views.children) button.setAttribute("aria-pressed", String(button.dataset.view === view));
    if (view === "json") this.#showTree();
    else this.#showLines();
    this.#look();
  }

  // Lines

  #showLines() {
    this.text.dataset.digits = String(String(this.#about.lines).length);
    this.text.style.setProperty("--digits", String(this.#about.lines).length);
    const lines = this.#lines;
    this.text.show(
      lines.count,
      (index) => this.#line(lines.line(index)),
      (first, last) => {
        for (let index = first; index <= last; index++) this.#need(Math.floor((lines.line(index) - 1) / BLOCK));
      },
      this.#wrapped ?? undefined,
    );
    this.#drawRuler();
  }

  #wrap(on) {
    this.wrap.setAttribute("aria-pressed", String(on));
    this.text.classList.toggle("wrapped", on);
    if (on) {
      const probe = h("span.line", { style: { visibility: "hidden", width: "auto" } }, "0".repeat(100));
      this.text.append(probe);
      const wide = probe.getBoundingClientRect().width / 100;
      probe.remove();
      const gutter = String(this.#about.lines).length * wide + 22 + 10 + 10 + 24;
      this.#wrapped = new WrappedRows(BLOCK, Math.max(20, Math.floor((this.text.clientWidth - gutter) / wide)));
      for (const [block, texts] of this.#blocks) this.#wrapped.set(block, texts);
    } else this.#wrapped = null;
    const top = this.topLine;
    this.#showLines();
    this.text.to(this.#lines.index(top), { block: "start" });
  }

  get topLine() {
    const rows = [...this.text.querySelectorAll(".line[data-line]")].filter((row) => row.getBoundingClientRect().bottom > this.text.getBoundingClientRect().top + 20);
    return Math.min(...rows.map((row) => Number(row.dataset.line)), this.#about.lines);
  }

  #line(number) {
    const index = number - 1;
    const text = this.#blocks.get(Math.floor(index / BLOCK))?.[index % BLOCK];
    const [from, to] = this.#marked;
    const kind = this.#marks.at(number);
    const row = h(
      "div.line",
      { dataset: { line: number }, class: [number >= from && number <= to && "here", kind && `is-${kind}`, this.#hitAt(number) && "hit"].filter(Boolean).join(" ") },
      h("a.no", { href: `#L${number}`, tabindex: -1, title: NAMES[kind] && `Line ${number}: ${NAMES[kind]}` }, number),
    );
    if (text === undefined) return row;
    const shown = text.length > LONGEST_LINE ? text.slice(0, LONGEST_LINE) : text;
    row.append(h("span.words", { dataset: { level: levelOf(shown) } }, this.#emphasized(shown, number)));
    if (text.length > LONGEST_LINE)
      row.append(h("button.small.rest", { type: "button", onclick: () => this.#whole(number, text) }, `… ${bytesOrMore(text.length - LONGEST_LINE)} more`));
    return row;
  }

  // Levels over time

  async #drawPlot() {
    let found;
    try {
      found = await api(`${this.base}/histogram`, { signal: this.#gone.signal });
    } catch {
      return; // The lines are shown without a plot.
    }
    this.firstError = found.first_error;
    const { items } = found;
    if (!items.some((one) => one.error || one.warn) || items.length < 3) return;
    const most = Math.max(...items.map((one) => one.error + one.warn + one.other));
    const height = 34;
    // The square root: a few errors among thousands of lines must be visible.
    const tall = (count) => (count ? Math.max(1.5, height * Math.sqrt(count / most)) : 0);
    const bar = (one, place) => {
      const all = tall(one.error + one.warn + one.other);
      const warn = tall(one.error + one.warn);
      const error = tall(one.error);
      const words = `${one.at ? `${clockWords(one.at)}: ` : ""}${number(one.error)} errors, ${number(one.warn)} warnings, ${number(one.other)} other lines, from line ${number(one.first_line)} on`;
      return s(
        "g",
        { onclick: () => this.jump(one.first_line) },
        s("title", null, words),
        s("rect.hover", { x: place * 10, y: 0, width: 10, height }),
        s("rect.other", { x: place * 10 + 1, y: height - all, width: 8, height: all }),
        warn ? s("rect.warn", { x: place * 10 + 1, y: height - warn, width: 8, height: warn }) : null,
        error ? s("rect.error", { x: place * 10 + 1, y: height - error, width: 8, height: error }) : null,
      );
    };
    const errors = items.reduce((sum, one) => sum + one.error, 0);
    const warnings = items.reduce((sum, one) => sum + one.warn, 0);
    put(
      this.plot,
      h("span.under", null, items[0].at ? clockWords(items[0].at) : "line 1"),
      s("svg", { viewBox: `0 0 ${items.length * 10} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Log levels over time: ${number(errors)} errors, ${number(warnings)} warnings` }, items.map(bar)),
      h("span.under", null, items.at(-1).at ? clockWords(items.at(-1).at) : `line ${number(this.#about.lines)}`),
      h("span.level-counts", null, errors ? h("button.small.level-error", { type: "button", onclick: () => this.jump(found.first_error), title: "Go to the first error" }, `${number(errors)} ${errors === 1 ? "error" : "errors"}`) : null, warnings ? h("span.level-warn", null, `${number(warnings)} ${warnings === 1 ? "warning" : "warnings"}`) : null),
    );
    this.plot.hidden = false;
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
        const number = Number(row.dataset.line);
        if (Math.floor((number - 1) / BLOCK) === block) row.append(...[...this.#line(number).childNodes].slice(1));
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
    if (this.#wrapped) this.text.relayout(() => this.#wrapped.set(block, lines));
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
    unfoldSome(this.#tree);
    put(this.views, view("json", "JSON"), view("lines", "Lines"));
    this.views.hidden = false;
    this.#choose("json");
  }

  #showTree() {
    this.#rows = visibleRows(this.#tree, FILTERS[this.#filter]);
    this.text.show(this.#rows.length, (index) => this.#fold(this.#rows[index]), undefined, undefined, FOLD_ROW);
    this.#drawRuler();
  }

  #fold(node) {
    const manyLines = this.#tree.last > 1;
    const [from, to] = this.#marked;
    const row = h(
      "div.line.json",
      { class: [manyLines && node.line >= from && node.line <= to && "here", this.#search.hits[this.#search.at] === node && "here", node.mark && `is-${node.mark}`].filter(Boolean).join(" "), style: { "--depth": Math.min(node.depth, 40) } },
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
          node.lost && node.leaves && !node.mark ? h("span.lost-of", null, `${number(node.lost)} of ${number(node.leaves)} left out`) : null,
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
      if (this.#filter && this.#lines.line(this.#lines.index(hit.line)) !== hit.line) {
        this.#filter = "";
        this.#chosen = null;
        for (const button of this.filters.querySelectorAll("[data-filter]")) button.setAttribute("aria-pressed", String(!button.dataset.filter));
        this.#showLines();
      }
      this.text.refresh();
      const index = this.#lines.index(hit.line);
      if (!this.text.isInSight(index)) this.text.to(index);
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

  /** A strip beside the text: what became of every line, and the matches of the search. */
  #drawRuler() {
    const total = this.#about?.lines ?? 0;
    this.ruler.replaceChildren();
    this.ruler.hidden = this.#view === "json" || Boolean(this.#filter);
    if (!total || this.ruler.hidden) return;
    if (this.#marks.runs.length) this.ruler.append(strip(this.#marks.runs, total));
    for (const { line } of this.#search.hits.slice(0, MOST_MARKS)) this.ruler.append(h("span.hit", { style: { top: `${(100 * (line - 1)) / total}%`, height: "2px" } }));
  }
}

const FILTERS = { "": undefined, "left-out": (node) => node.lost > 0, kept: (node) => node.lost < node.leaves };
const HIGH = 1_000;

/** All runs in one path per kind: thousands of runs are a few strings. What was kept is drawn on top, at least two units high. */
function strip(runs, total) {
  const paths = {};
  for (const { first, last, kind } of runs) {
    const kept = kind !== "lost" && kind !== "unused";
    const top = (HIGH * (first - 1)) / total;
    const height = Math.max(kept ? 2 : 0.5, (HIGH * (last - first + 1)) / total);
    (paths[kind] ??= []).push(`M0 ${top.toFixed(1)}h8v${height.toFixed(1)}h-8z`);
  }
  const order = ["lost", "unused", "folded", "partial", "shown", "cited", "quoted"];
  return s("svg", { viewBox: `0 0 8 ${HIGH}`, preserveAspectRatio: "none" }, order.map((kind) => paths[kind] && s(`path.mark-${kind}`, { d: paths[kind].join("") })));
}

/** Unfold level by level until there is something to read. */
function unfoldSome(root) {
  let level = [root];
  let rows = 1;
  while (level.length && rows < 30) {
    const next = [];
    for (const node of level) {
      if (!node.children || rows >= 30) continue;
      node.open = true;
      rows += node.children.length;
      next.push(...node.children.slice(0, 30));
    }
    level = next;
  }
}

/** Values of a tree by what became of them. */
function treeCounts(root) {
  const counts = {};
  for (const node of everyNode(root)) if (!node.children) counts[node.mark ?? "shown"] = (counts[node.mark ?? "shown"] ?? 0) + 1;
  return counts;
}

const bytesOrMore = (count) => bytes(count).replace("bytes", "characters");

customElements.define("kept-text", KeptText);
