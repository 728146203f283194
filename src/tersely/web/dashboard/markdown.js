// Markdown to DOM elements, by an allow-list: headings, paragraphs, lists, quotes, code, tables, emphasis, links.
//
// The text of models and tools is untrusted: HTML stays text, images stay text (loading one would notify its server), links are
// http(s) only, are never fetched automatically, and show their host. Time is linear: each closing delimiter is searched for once and
// cached.

import { copyButton, h } from "./dom.js";
import { SAID_TIME, said } from "./format.js";

const FAR = 2_000;
const DEEP = 8;
const LONGEST = 400_000;

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^(\s*)([-*+•]|\d{1,9}[.)])(\s+)(.*)$/;
const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/**
 * refer(handle, first, last): the address of a kept result, or null; `line 42 of r_…` becomes a link to it.
 * level: of the highest heading. Lower ones follow without a gap, whatever the text uses.
 * near: when it was written; times of day such as `10:04 UTC` follow the switch between UTC and local time.
 */
export function markdown(text, { refer = () => null, level = 3, near = "" } = {}) {
  const root = h("div.prose");
  if (text.length > LONGEST) root.append(h("pre.plain", null, text));
  else {
    const lines = text.replace(/\r\n?/g, "\n").split("\n");
    blocks(root, lines, { refer, near, levels: headingLevels(lines, level) }, 0);
  }
  return root;
}

/** Heading marks ("##") → level of the element. */
function headingLevels(lines, level) {
  const used = new Set(lines.map((line) => HEADING.exec(line)?.[1].length).filter(Boolean));
  return new Map([...used].sort().map((marks, place) => [marks, Math.min(6, level + place)]));
}

/** Markdown that is still being written: blocks that are complete are drawn once, the last one each time. */
export class MarkdownStream {
  node = h("div.prose.live");
  #text = "";
  #done = 0;
  #tail = h("div.prose");

  constructor(how) {
    this.how = { ...how, level: 4 };
    this.node.append(this.#tail);
  }

  update(text) {
    if (!text.startsWith(this.#text)) {
      this.node.replaceChildren(this.#tail);
      this.#done = 0;
    }
    this.#text = text;
    const end = completeBlocks(text, this.#done);
    if (end > this.#done) {
      this.#tail.before(markdown(text.slice(this.#done, end), this.how));
      this.#done = end;
    }
    const tail = markdown(text.slice(this.#done), this.how);
    this.#tail.replaceWith(tail);
    this.#tail = tail;
  }
}

/** Where the complete blocks end: after the last blank line that is outside of code and followed by a line that is no list item. */
export function completeBlocks(text, from = 0) {
  let end = from;
  let fence = "";
  let place = from;
  let afterBlank = false;
  for (const line of text.slice(from).split("\n")) {
    const match = FENCE.exec(line);
    if (fence) {
      if (line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "")) fence = "";
    } else if (match) {
      if (afterBlank) end = place;
      fence = match[1];
    } else if (afterBlank && line.trim() && !/^\s/.test(line) && !ITEM.test(line) && !line.includes("|")) end = place;
    afterBlank = !fence && !line.trim();
    place += line.length + 1;
  }
  return end;
}

function blocks(root, lines, how, depth) {
  let place = 0;
  let words = [];
  const flush = () => {
    if (words.length) root.append(inline(h("p"), words.join("\n"), how, depth));
    words = [];
  };
  while (place < lines.length) {
    const line = lines[place];
    let match;
    if (!line.trim()) {
      flush();
      place++;
    } else if ((match = FENCE.exec(line))) {
      flush();
      const [, fence] = match;
      const code = [];
      for (place++; place < lines.length && !(lines[place].trimStart().startsWith(fence) && !lines[place].trim().replaceAll(fence[0], "")); place++) code.push(lines[place]);
      place++;
      root.append(h("div.code", null, h("pre", { tabindex: 0 }, h("code", null, code.join("\n"))), copyButton("Copy this code", code.join("\n"), { iconOnly: true })));
    } else if ((match = HEADING.exec(line))) {
      flush();
      root.append(inline(h(`h${how.levels.get(match[1].length) ?? 6}`), match[2], how, depth));
      place++;
    } else if (RULE.test(line)) {
      flush();
      root.append(h("hr"));
      place++;
    } else if (line.trimStart().startsWith(">") && depth < DEEP) {
      flush();
      const quoted = [];
      for (; place < lines.length && lines[place].trimStart().startsWith(">"); place++) quoted.push(lines[place].trimStart().replace(/^> ?/, ""));
      const quote = h("blockquote");
      blocks(quote, quoted, how, depth + 1);
      root.append(quote);
    } else if (line.includes("|") && DIVIDER.test(lines[place + 1] ?? "") && lines[place + 1].includes("-")) {
      flush();
      place = table(root, lines, place, how, depth);
    } else if (ITEM.test(line) && depth < DEEP) {
      flush();
      place = list(root, lines, place, how, depth);
    } else {
      words.push(line.trim());
      place++;
    }
  }
  flush();
}

function list(root, lines, place, how, depth) {
  const [, lead, sign] = ITEM.exec(lines[place]);
  const ordered = /\d/.test(sign);
  const found = ordered ? h("ol", { start: parseInt(sign, 10) === 1 ? null : parseInt(sign, 10) }) : h("ul");
  const width = lead.length;
  while (place < lines.length) {
    const match = ITEM.exec(lines[place]);
    if (!match || match[1].length < width || match[1].length > width + 1 || /\d/.test(match[2]) !== ordered) break;
    const task = /^\[([ xX])\]\s+/.exec(match[4]);
    const inner = [task ? match[4].slice(task[0].length) : match[4]];
    const inside = match[1].length + match[2].length + match[3].length;
    let fence = FENCE.exec(match[4])?.[1] ?? "";
    for (place++; place < lines.length; place++) {
      const line = lines[place];
      const indent = line.length - line.trimStart().length;
      const mark = FENCE.exec(line.slice(Math.min(indent, inside)));
      if (fence || (mark && indent > width)) {
        // Code in an item belongs to it, whatever its lines look like.
        if (!fence) fence = mark[1];
        else if (line.trim().startsWith(fence) && !line.trim().replaceAll(fence[0], "")) fence = "";
        inner.push(line.slice(Math.min(indent, inside)));
        continue;
      }
      const next = ITEM.exec(line);
      if (next && next[1].length <= width + 1) break;
      if (!line.trim()) {
        // A blank line ends the item unless what follows is indented.
        const after = lines.slice(place + 1, place + 4).find((one) => one.trim());
        if (!after || after.length - after.trimStart().length <= width) break;
      } else if (!next && line.length - line.trimStart().length <= width && (HEADING.test(line) || FENCE.test(line) || RULE.test(line))) break;
      inner.push(line.slice(Math.min(line.length - line.trimStart().length, width + 2)));
    }
    const item = task ? h("li.task", null, h("span.box", { role: "img", "aria-label": task[1] === " " ? "to do" : "done" }, task[1] === " " ? "☐" : "☑"), " ") : h("li");
    blocks(item, inner, how, depth + 1);
    // A single paragraph in an item is the item's text.
    const first = item.querySelector(":scope > :not(.box)");
    if (first?.tagName === "P") first.replaceWith(...first.childNodes);
    found.append(item);
    while (place < lines.length && !lines[place].trim() && ITEM.exec(lines[place + 1] ?? "")?.[1].length === width) place++;
  }
  root.append(found);
  return place;
}

function table(root, lines, place, how, depth) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).slice(0, 50).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const head = cells(lines[place]);
  const sides = cells(lines[place + 1]).map((cell) => (/^-+:$/.test(cell) ? "right" : /^:-+:$/.test(cell) ? "middle" : ""));
  const body = [];
  for (place += 2; place < lines.length && lines[place].includes("|") && lines[place].trim(); place++) body.push(cells(lines[place]));
  root.append(
    h(
      "div.table",
      { tabindex: 0, role: "group", "aria-label": "Table" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, head.map((cell, column) => inline(h("th", { scope: "col", class: sides[column] }), cell, how, depth)))),
        h("tbody", null, body.map((row) => h("tr", null, head.map((_, column) => inline(h("td", { class: sides[column] }), row[column] ?? "", how, depth))))),
      ),
    ),
  );
  return place;
}

const SIGNS = new RegExp(`${/`+|\*\*|__|\*|_|~~|!\[|\[|https?:\/\/[^\s<>"'`\])}]+|\blines? \d+(?:[-–]\d+)? of r_[0-9A-Za-z]{8,64}\b|\br_[0-9A-Za-z]{8,64}\b|\\[\\`*_{}[\]()#+\-.!|>~]|\n/.source}|${SAID_TIME.source}`, "g");
const EMPHASIS = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };

function inline(node, text, how, depth) {
  const signs = new RegExp(SIGNS);
  const ahead = new Ahead(text);
  let from = 0;
  const until = (place) => {
    if (place > from) node.append(text.slice(from, place));
  };
  for (let match = signs.exec(text); match; match = signs.exec(text)) {
    const [sign] = match;
    const at = match.index;
    const after = at + sign.length;
    let made = null;
    let end = after;
    if (sign === "\n") made = document.createTextNode("\n");
    else if (sign[0] === "\\") made = document.createTextNode(sign[1]);
    else if (sign[0] === "`") {
      const close = ahead.next(sign, after);
      if (close > 0 && text[close + sign.length] !== "`") {
        made = h("code", null, text.slice(after, close).replace(/^ (.+) $/s, "$1"));
        end = close + sign.length;
      }
    } else if (EMPHASIS[sign]) {
      const close = depth < DEEP && opens(text, sign, at) ? ahead.closing(sign, after) : -1;
      if (close > after) {
        made = inline(h(EMPHASIS[sign]), text.slice(after, close), how, depth + 1);
        end = close + sign.length;
      }
    } else if (sign === "![") {
      // Shown as written.
      const shape = ahead.next("]", after) > 0 && /^!\[[^\]]{0,500}\](?:\([^)]{0,500}\)|\[[^\]]{0,200}\])/.exec(text.slice(at, at + 1_100));
      if (shape) {
        made = document.createTextNode(shape[0]);
        end = at + shape[0].length;
      }
    } else if (sign === "[") {
      [made, end] = bracket(text, at, ahead, how, depth);
    } else if (sign.startsWith("http")) {
      const address = sign.replace(/[.,;:!?]+$/, "");
      made = external(address, address);
      end = at + address.length;
    } else if (/^\d/.test(sign)) made = said(sign, how.near);
    else made = reference(sign, how);
    if (!made) continue;
    until(at);
    node.append(made);
    from = signs.lastIndex = end;
  }
  until(text.length);
  return node;
}

function opens(text, sign, at) {
  const next = text[at + sign.length] ?? " ";
  if (/\s/.test(next)) return false;
  return sign[0] !== "_" || !/\w/.test(text[at - 1] ?? " ");
}

/** Lookahead in a text. Results are cached, so each position is examined once per delimiter. */
class Ahead {
  #found = new Map();
  #pairs = null;

  constructor(text) {
    this.text = text;
  }

  next(sign, from) {
    return this.#look(sign, from, () => true);
  }

  /** The end of an emphasis that began before `from`. */
  closing(sign, from) {
    const { text } = this;
    return this.#look(`${sign} closing`, from, (place) => {
      const tight = !/\s/.test(text[place - 1]);
      const alone = sign.length > 1 || (text[place + 1] !== sign && text[place - 1] !== sign);
      return tight && alone && (sign[0] !== "_" || !/\w/.test(text[place + sign.length] ?? " "));
    });
  }

  #look(name, from, fits) {
    const known = this.#found.get(name);
    if (known !== undefined && (known < 0 || known > from)) return known;
    const [sign] = name.split(" ");
    let place = this.text.indexOf(sign, from);
    while (place >= 0 && !(place > from - 1 && fits(place))) place = this.text.indexOf(sign, place + 1);
    this.#found.set(name, place);
    return place;
  }

  /** The closing bracket of the bracket at a position. */
  pair(at) {
    if (!this.#pairs) {
      this.#pairs = new Map();
      const open = [];
      for (let place = this.text.search(/[[\]]/); place >= 0 && place < this.text.length; place++) {
        if (this.text[place] === "[") open.push(place);
        else if (this.text[place] === "]" && open.length) this.#pairs.set(open.pop(), place);
      }
    }
    return this.#pairs.get(at) ?? -1;
  }
}

function bracket(text, at, ahead, how, depth) {
  const close = ahead.pair(at);
  if (close < 0 || close - at > FAR) return [null, at];
  const words = text.slice(at + 1, close);
  const end = text[close + 1] === "(" ? ahead.next(")", close) : -1;
  const target = end > 0 && end - close < FAR && /^\(\s*<?([^\s<>)]{1,2000})>?(?:\s+"[^"]{0,200}")?\s*\)/.exec(text.slice(close + 1, end + 1));
  if (target) {
    if (!words.includes("![") && /^https?:\/\//i.test(target[1])) return [external(target[1], words), close + 1 + target[0].length];
    return [document.createTextNode(text.slice(at, close + 1 + target[0].length)), close + 1 + target[0].length];
  }
  if (/\br_[0-9A-Za-z]{8,64}\b/.test(words) && depth < DEEP) return [inline(h("cite"), words, how, depth + 1), close + 1];
  return [null, at];
}

/** A link to another site: marked, with its host visible and without a referrer. */
export function external(address, words) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return document.createTextNode(words);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return document.createTextNode(words);
  return h(
    "a.external",
    { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank", referrerpolicy: "no-referrer" },
    words,
    words.includes(url.host) ? null : h("span.host", null, ` (${url.host})`),
  );
}

function reference(words, how) {
  const [, first, last, handle] = /^(?:lines? (\d+)(?:[-–](\d+))? of )?(r_\w+)$/.exec(words);
  const address = how.refer(handle, first && Number(first), last ? Number(last) : first && Number(first));
  return address ? h("a.ref", { href: address }, words) : document.createTextNode(words);
}
