// Calls as a tree on a time axis, and what an alert says, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { alertFacts } from "../../../src/tersely/web/dashboard/alert-facts.js";
import { axisTicks, waterfallRows } from "../../../src/tersely/web/dashboard/waterfall.js";

const at = (seconds) => new Date(Date.UTC(2026, 10, 16, 8, 0, seconds)).toISOString();
const call = (id, type, start, took, more = {}) => ({ id, interaction_type: type, execution_id: "e", created_at: at(start), duration_ms: took * 1000, request: { server: "ops", tool: id }, response: {}, error: "", model: "m", input_tokens: 10, output_tokens: 1, price_usd: 0.5, parent_id: null, ...more });
const stage = { id: "s", index: 0, name: "look", executions: [{ id: "e", agent: "a" }], started_at: at(0), ended_at: at(20) };

test("a summary stands under the call it summarizes, in the order of their starts", () => {
  const rows = waterfallRows([stage], [call("sum", "summarization", 4, 2, { parent_id: "logs" }), call("pods", "mcp", 3, 1, { response: { is_error: true } }), call("ask", "iteration", 0, 1), call("logs", "mcp", 2, 2), call("end", "final_analysis", 9, 1)]);
  assert.deepEqual(rows.map((row) => [row.depth, row.kind, row.call?.id ?? row.name]), [
    [0, "stage", "look"],
    [1, "step", "Step 1"],
    [2, "model", "ask"],
    [2, "tool", "logs"],
    [3, "summary", "sum"],
    [2, "tool", "pods"],
    [1, "analysis", "end"],
  ]);
  assert.deepEqual([rows[5].error, rows[1].errors, rows[0].errors, rows[3].error], [true, 1, 1, false]);
  assert.deepEqual([rows[0].price, rows[1].input, rows[1].start, rows[1].end], [1.5, 20, Date.parse(at(0)), Date.parse(at(6))]);
});

test("agents that work at once have a row each; an unknown price makes the sum unknown", () => {
  const two = { ...stage, executions: [{ id: "e", agent: "a" }, { id: "f", agent: "b" }] };
  const rows = waterfallRows([two], [call("x", "iteration", 0, 1), call("y", "iteration", 0, 1, { execution_id: "f", price_usd: null })]);
  assert.deepEqual(rows.map((row) => [row.kind, row.name, row.price]), [["stage", "look", null], ["agent", "a", 0.5], ["model", "m", 0.5], ["agent", "b", null], ["model", "m", null]]);
});

test("the axis has a few round steps", () => {
  assert.deepEqual(axisTicks(19_000), [0, 5_000, 10_000, 15_000]);
  assert.ok(axisTicks(3_600_000).length <= 8);
});

test("an alert of Alertmanager says its severity, labels and start; a text says nothing", () => {
  const alert = { alerts: [{ startsAt: "2026-11-16T08:00:00Z", labels: { pod: "x" } }], commonLabels: { severity: "Critical", service: "checkout", namespace: "shop", app: "checkout" }, commonAnnotations: { summary: "It fails" } };
  assert.deepEqual(alertFacts(JSON.stringify(alert)), { severity: "critical", labels: [["service", "checkout"], ["namespace", "shop"]], summary: "It fails", description: "", startsAt: "2026-11-16T08:00:00Z" });
  assert.equal(alertFacts("Pods restart").severity, "");
  assert.equal(alertFacts("{broken").summary, "");
});
