// Markdown, with as much of a document as it needs: elements with children and text.
import assert from "node:assert/strict";
import { test } from "node:test";

class Text_ {
  constructor(data) {
    this.data = String(data);
  }
  get textContent() {
    return this.data;
  }
}
class Element_ {
  constructor(tagName) {
    Object.assign(this, { tagName: tagName.toUpperCase(), childNodes: [], attributes: {}, dataset: {}, style: { setProperty() {} } });
  }
  append(...nodes) {
    for (const node of nodes) {
      const child = node instanceof Text_ || node instanceof Element_ ? node : new Text_(node);
      child.parent = this;
      this.childNodes.push(child);
    }
  }
  before(node) {
    node.parent = this.parent;
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 0, node);
  }
  replaceWith(...nodes) {
    for (const node of nodes) node.parent = this.parent;
    this.parent.childNodes.splice(this.parent.childNodes.indexOf(this), 1, ...nodes);
  }
  replaceChildren(...nodes) {
    this.childNodes = [];
    this.append(...nodes);
  }
  setAttribute(name, value) {
    this.attributes[name] = value;
  }
  getAttribute(name) {
    return this.attributes[name] ?? null;
  }
  addEventListener() {}
  querySelector() {
    return this.childNodes.find((node) => node instanceof Element_ && node.attributes.class !== "box") ?? null;
  }
  get textContent() {
    return this.childNodes.map((node) => node.textContent).join("");
  }
}
globalThis.Node = class {
  static [Symbol.hasInstance](value) {
    return value instanceof Text_ || value instanceof Element_;
  }
};
globalThis.document = { createElement: (name) => new Element_(name), createElementNS: (_, name) => new Element_(name), createTextNode: (text) => new Text_(text), hidden: true };

const { MarkdownStream, completeBlocks, markdown } = await import("../../../src/tersely/web/dashboard/markdown.js");

const outline = (node) => (node instanceof Text_ ? node.data : node.tagName === "BUTTON" ? "" : `<${node.tagName.toLowerCase()}${node.attributes.class && /right|middle|task/.test(node.attributes.class) ? `.${node.attributes.class}` : ""}>${node.childNodes.map(outline).join("")}</>`);
const of = (text) => markdown(text).childNodes.map(outline).join("");

test("headings begin at the level of their place and have no gaps", () => {
  assert.equal(of("## Cause\n\n#### Evidence"), "<h3>Cause</><h4>Evidence</>");
});

test("code in a list item belongs to the item, whatever its lines look like", () => {
  assert.equal(of("1. Undo it\n   ```\n   kubectl undo\n# comment\n   ```\n2. Wait"), "<ol><li>Undo it<div><pre><code>kubectl undo\n# comment</></></></><li>Wait</></>");
});

test("task lists have boxes, tables are aligned", () => {
  assert.equal(of("- [ ] one\n- [x] two"), "<ul><li.task><span>☐</> one</><li.task><span>☑</> two</></>");
  assert.match(of("| a | b |\n|:--|--:|\n| x | 1 |"), /<td>x<\/><td\.right>1<\/>/);
});

test("what a model writes is text: no HTML, no scripts in links", () => {
  assert.equal(of("<img src=x onerror=alert(1)> [a](javascript:alert(1))"), "<p><img src=x onerror=alert(1)> [a](javascript:alert(1))</>");
});

test("blocks are complete after a blank line, outside of code and lists", () => {
  const text = "One.\n\n```\na\n\nb\n```\n\n1. x\n\n2. y\n\nLast";
  assert.equal(text.slice(completeBlocks(text)), "Last");
  assert.equal(completeBlocks("One.\n\n- x\n\n- y"), 0);
  assert.equal(completeBlocks("```\na\n\nb"), 0);
});

test("streamed Markdown ends as the whole would, and complete blocks are drawn once", () => {
  const text = "## A\n\nOne **two**.\n\n```\ncode\n\nmore\n```\n\nLast words";
  const stream = new MarkdownStream({});
  let first = null;
  for (let end = 1; end <= text.length; end++) {
    stream.update(text.slice(0, end));
    if (end === 30) first = stream.node.childNodes[0];
  }
  assert.equal(stream.node.childNodes[0], first);
  assert.equal(stream.node.childNodes.flatMap((part) => part.childNodes.map(outline)).join(""), markdown(text, { level: 4 }).childNodes.map(outline).join(""));
});
