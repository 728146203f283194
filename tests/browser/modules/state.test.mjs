// The timeline as a viewer has it, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Timeline, codePoints, topOf, utf16 } from "../../../src/tersely/web/dashboard/state.js";

const created = (id, sequence, more = {}) => ({ type: "timeline_event.created", event_id: id, event_type: "llm_response", status: "streaming", content: "", metadata: {}, sequence, timestamp: "t", ...more });
const completed = (id, content, more = {}) => ({ type: "timeline_event.completed", event_id: id, event_type: "llm_response", status: "completed", content, metadata: {}, timestamp: "t2", ...more });
const chunk = (id, offset, delta) => ({ type: "stream.chunk", event_id: id, offset, delta });

test("pieces are put together by characters, not by halves of them", () => {
  const timeline = new Timeline();
  timeline.apply(created("a", 1));
  timeline.apply(chunk("a", 0, "𝄞𝄞"));
  timeline.apply(chunk("a", 2, "x"));
  assert.equal(timeline.items.get("a").content, "𝄞𝄞x");
  timeline.apply(chunk("a", 1, "y"));
  assert.equal(timeline.items.get("a").content, "𝄞y");
});

test("an offset of nought begins anew", () => {
  const timeline = new Timeline();
  timeline.apply(created("a", 1));
  timeline.apply(chunk("a", 0, "first try"));
  timeline.apply(chunk("a", 0, "second"));
  assert.equal(timeline.items.get("a").content, "second");
});

test("who comes late has a gap until the whole is there", () => {
  const timeline = new Timeline();
  timeline.apply(created("a", 1));
  timeline.apply(chunk("a", 10, "tail"));
  assert.equal(timeline.items.get("a").late, 10);
  timeline.apply(chunk("a", 14, "!"));
  assert.equal(timeline.items.get("a").content, "tail!");
  timeline.apply(completed("a", "0123456789tail!"));
  assert.deepEqual([timeline.items.get("a").late, timeline.items.get("a").content], [0, "0123456789tail!"]);
});

test("what is completed stays completed, however often it is told", () => {
  const timeline = new Timeline();
  timeline.apply({ event_id: "a", event_type: "llm_response", status: "completed", content: "done", metadata: {}, sequence: 1, created_at: "t", completed_at: "t2" });
  assert.equal(timeline.apply(created("a", 1)), null);
  assert.equal(timeline.apply(chunk("a", 0, "late")), null);
  assert.equal(timeline.apply(completed("a", "other")), null);
  assert.equal(timeline.items.get("a").content, "done");
});

test("items stand in the order of their numbers", () => {
  const timeline = new Timeline();
  for (const [id, sequence] of [["b", 2], ["d", 4], ["a", 1], ["c", 3]]) timeline.apply(created(id, sequence));
  assert.deepEqual(timeline.order.map((item) => item.id), ["a", "b", "c", "d"]);
});

test("a summary belongs to the call whose result it is of", () => {
  const timeline = new Timeline();
  timeline.apply(created("call", 1, { event_type: "llm_tool_call", metadata: { server_name: "cluster", tool_name: "logs" } }));
  timeline.apply(completed("call", "text", { metadata: { handle: "r_1" } }));
  timeline.apply(created("read", 2, { event_type: "llm_tool_call", status: "completed", metadata: { server_name: "tersely", tool_name: "read_result", handle: "r_1" } }));
  timeline.apply(created("sum", 3, { event_type: "mcp_tool_summary", metadata: { handle: "r_1" } }));
  assert.equal(timeline.items.get("call").summary.id, "sum");
  assert.deepEqual(timeline.calls.map((item) => item.id), ["call", "read"]);
  assert.equal(timeline.callOf("r_1").id, "call");
});

test("agents that get the same result have a summary each", () => {
  const timeline = new Timeline();
  for (const agent of ["a", "b"]) timeline.apply(created(`call-${agent}`, 1, { event_type: "llm_tool_call", status: "completed", execution_id: agent, metadata: { server_name: "s", tool_name: "t", handle: "r_1" } }));
  for (const agent of ["a", "b"]) timeline.apply(created(`sum-${agent}`, 2, { event_type: "mcp_tool_summary", execution_id: agent, metadata: { handle: "r_1" } }));
  assert.deepEqual(["call-a", "call-b"].map((id) => timeline.items.get(id).summary?.id), ["sum-a", "sum-b"]);
});

test("of a large result only the beginning is held", () => {
  const timeline = new Timeline({ keep: 10 });
  timeline.apply(created("call", 1, { event_type: "llm_tool_call", status: "completed", content: "x".repeat(50), metadata: { handle: "r_1", server_name: "s" } }));
  assert.deepEqual([timeline.items.get("call").content.length, timeline.items.get("call").cut], [10, true]);
});

test("characters are counted like the service counts them", () => {
  assert.equal(codePoints("a𝄞b"), 3);
  assert.equal(codePoints("\ud834x"), 2);
  assert.equal(utf16("a𝄞b", 2), 3);
});

test("calls that follow each other are one group, for each agent of its own", () => {
  const timeline = new Timeline();
  const call = (id, sequence, execution) => timeline.apply(created(id, sequence, { event_type: "llm_tool_call", execution_id: execution, metadata: { server_name: "s", tool_name: "t" } }));
  call("a1", 1, "a");
  call("b1", 2, "b");
  call("a2", 3, "a");
  timeline.apply(created("thought", 4, { event_type: "llm_thinking", execution_id: "a" }));
  call("a3", 5, "a");
  call("b2", 6, "b");
  assert.deepEqual(timeline.order.map((item) => item.calls?.map((one) => one.id) ?? item.id), [["a1", "a2"], ["b1", "b2"], "thought", ["a3"]]);
  assert.equal(topOf(timeline.items.get("a2")).id, "calls-a1");
});
