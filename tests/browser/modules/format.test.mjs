// Numbers, durations and prices as people read them, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bytes, count, duration, offset, percent, person, price, short, statusWord } from "../../../src/tersely/web/dashboard/format.js";

test("a duration is rounded before its unit is chosen", () => {
  assert.deepEqual([0.4, 999.4, 999.7, 9_940, 9_960, 59_600, 119_600, 3_599_700, 3_600_000, 7_260_000].map(duration), ["0 ms", "999 ms", "1.0 s", "9.9 s", "10 s", "1 min", "2 min", "1 h", "1 h", "2 h 1 min"]);
  assert.equal(duration(null), "");
});

test("small shares and prices are not nought", () => {
  assert.deepEqual([[0, 10], [1, 1_000], [1, 100_000], [9_999, 10_000], [10, 10]].map(([part, of]) => percent(part, of)), ["0%", "0.1%", "< 0.1%", "99.9%", "100%"]);
  assert.deepEqual([0, 0.00001, 0.0042, 1.2, null].map(price), ["$0", "< $0.0001", "$0.0042", "$1.20", "unknown"]);
});

test("one call, two calls", () => {
  assert.deepEqual([count(1, "call"), count(2_000, "call"), count(1, "entry", "entries")], ["1 call", "2,000 calls", "1 entry"]);
  assert.deepEqual([999, 999.6, 9_960, 999_600].map(short), ["999", "1.0k", "10k", "1.00M"]);
});

test("times relative to a start", () => {
  assert.deepEqual(["2026-11-16T08:00:00.200Z", "2026-11-16T07:57:00Z", "2026-11-16T08:01:13.400Z"].map((iso) => offset(iso, "2026-11-16T08:00:00Z")), ["+0.2 s", "−3 min", "+1 min 13 s"]);
});

test("sizes and states in words", () => {
  assert.deepEqual([999, 1_500, 33_554_432].map(bytes), ["999 bytes", "1.5 kB", "33.6 MB"]);
  assert.deepEqual(["in_progress", "timed_out", "completed", "other"].map(statusWord), ["running", "timed out", "done", "other"]);
  assert.deepEqual(["local", "token:ops", "user:ada"].map(person), ["local user", "ops", "ada"]);
});
