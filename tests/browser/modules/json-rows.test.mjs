// JSON as rows that fold, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { NotJson, everyNode, gist, nodeAt, parseJson, unfoldTo, visibleRows } from "../../../src/tersely/web/dashboard/json-rows.js";

const VALUE = { kind: "List", items: [{ metadata: { name: "web-1" }, spec: { deep: [1, 2.5, -3e10, true, null] } }, { "a\"b\\": "line\nbreak \u2028" }], none: {}, empty: [] };

function back(node) {
  if (node.kind === "object") return Object.fromEntries(node.children.map((child) => [child.key, back(child)]));
  if (node.kind === "array") return node.children.map(back);
  return node.kind === "string" ? node.value : JSON.parse(node.value);
}

test("nothing is lost and nothing is added", () => {
  for (const indent of [0, 2]) assert.deepEqual(back(parseJson(JSON.stringify(VALUE, null, indent))), VALUE);
});

test("big numbers stay as they were written", () => {
  assert.equal(parseJson("[12345678901234567890]").children[0].value, "12345678901234567890");
});

test("every node knows its line, and a line finds its node in the folds", () => {
  const text = JSON.stringify(VALUE, null, 2);
  const root = parseJson(text);
  const lines = text.split("\n");
  for (const node of everyNode(root)) if (typeof node.key === "string") assert.ok(lines[node.line - 1].includes(JSON.stringify(node.key)), node.key);
  const deep = nodeAt(root, lines.findIndex((line) => line.includes("2.5")) + 1);
  assert.equal(deep.value, "2.5");
  assert.ok(!visibleRows(root).includes(deep));
  unfoldTo(deep);
  assert.ok(visibleRows(root).includes(deep));
});

test("what is not JSON is refused", () => {
  for (const text of ["", "{", "[1,]", "{a: 1}", "[1] x", '{"a" 1}', '["open', "nul"]) assert.throws(() => parseJson(text));
  assert.throws(() => parseJson("{]"), NotJson);
});

test("a fold says what is in it", () => {
  assert.equal(gist(parseJson('{"kind": "Pod", "metadata": {"name": "web-1"}}')), "2 keys · name: web-1, kind: Pod");
  assert.equal(gist(parseJson("[]")), "0 items");
});
