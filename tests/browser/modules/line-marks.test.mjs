// What became of each line, and wrapped rows, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { everyNode, lostPaths, markTree, parseJson } from "../../../src/tersely/web/dashboard/json-rows.js";
import { LineMarks, WrappedRows, levelOf } from "../../../src/tersely/web/dashboard/line-marks.js";

const marks = new LineMarks([
  { first: 1, last: 3, kind: "lost" },
  { first: 4, last: 4, kind: "shown" },
  { first: 5, last: 9, kind: "folded" },
  { first: 10, last: 10, kind: "lost" },
]);

test("every line has its mark", () => {
  assert.deepEqual([1, 3, 4, 5, 9, 10, 11].map((line) => marks.at(line)), ["lost", "lost", "shown", "folded", "folded", "lost", ""]);
  assert.equal(marks.first("quoted", "folded"), 5);
});

test("a filter leaves its lines, in order, and finds them again", () => {
  const lost = marks.chosen("left-out", 10);
  assert.deepEqual(Array.from({ length: lost.count }, (_, index) => lost.line(index)), [1, 2, 3, 10]);
  const kept = marks.chosen("kept", 10);
  assert.deepEqual(Array.from({ length: kept.count }, (_, index) => kept.line(index)), [4, 5, 6, 7, 8, 9]);
  assert.deepEqual([4, 7].map((line) => kept.index(line)), [0, 3]);
  assert.equal(lost.line(lost.index(5)), 10);
  assert.equal(marks.chosen("", 10).count, 10);
});

test("values of JSON are marked by place, whatever the layout of the text", () => {
  const root = parseJson(JSON.stringify({ kind: "List", items: [0, 1, 2, 3].map((n) => ({ name: `web-${n}`, status: { ip: n, up: true } })) }));
  markTree(root, { lost: ["1.1,3.1.0", "1.2"], folded: ["1.0.1.1"], partial: ["0.0"] });
  const marked = [...everyNode(root)].filter((node) => node.mark && !node.children).map((node) => [node.parent.parent?.key ?? "", node.key, node.mark]);
  assert.deepEqual(marked, [
    ["", "kind", "partial"],
    [0, "up", "folded"],
    [1, "ip", "lost"],
    ["items", "name", "lost"],
    [2, "ip", "lost"],
    [2, "up", "lost"],
    [3, "ip", "lost"],
  ]);
  assert.deepEqual([root.lost, root.leaves], [5, 13]);
  assert.deepEqual(lostPaths(root).map((one) => [one.path, one.count]), [["items[]", 3], ["items[].status.ip", 2]]);
});

test("the first level word of a line is its level", () => {
  assert.deepEqual(["12:00 ERROR x", "WARN error rate", "INFO ok", "plain", 'level=error msg="x"'].map(levelOf), ["error", "warn", "info", "", "error"]);
});

test("wrapped lines take the rows they need", () => {
  const rows = new WrappedRows(3, 10);
  rows.set(0, ["short", "x".repeat(25), ""]);
  assert.deepEqual([0, 1, 2, 3].map(rows.offset), [0, 1, 4, 5]);
  assert.deepEqual([0, 1, 2.5, 3.9, 4, 5].map(rows.at), [0, 1, 1, 1, 2, 3]);
  assert.equal(rows.total(6), 8);
});
