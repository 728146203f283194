// Times in UTC and in the reader's zone, in clocks and in prose, with as much of a document as that needs.
import assert from "node:assert/strict";
import { test } from "node:test";

process.env.TZ = "Europe/Berlin";
const made = [];
globalThis.Node = class {};
globalThis.localStorage = { getItem: () => null, setItem() {} };
globalThis.dispatchEvent = () => {};
globalThis.document = {
  hidden: true,
  createElement: (name) => {
    const node = Object.assign(new Node(), { name, dataset: {}, setAttribute: (key, value) => (node[key === "datetime" ? "dateTime" : key] = value), append: (text) => (node.textContent = text) });
    made.push(node);
    return node;
  },
  createTextNode: (text) => text,
  querySelectorAll: () => made.filter((node) => node.dataset.clock),
};
const { clock, said, switchZone, timed, when, zoneName } = await import("../../../src/tersely/web/dashboard/format.js");

const NOON = "2026-11-16T12:00:00Z";
const SUMMER = "2026-07-01T12:00:00Z";
const inZone = (node) => node.textContent ?? node;
const both = (...nodes) => {
  const utc = nodes.map(inZone);
  switchZone();
  const local = nodes.map(inZone);
  switchZone();
  return [utc, local];
};

test("clocks follow the switch, with the name of the zone at that time", () => {
  assert.equal(zoneName(), "UTC");
  assert.deepEqual(both(clock(NOON, "minute", { named: true }), clock(SUMMER, "clock", { named: true }), clock(NOON, "day")), [
    ["12:00 UTC", "12:00:00 UTC", "16 Nov, 12:00"],
    ["13:00 CET", "14:00:00 CEST", "16 Nov, 13:00"],
  ]);
  assert.match(clock(NOON).title, /12:00:00 UTC \(16 Nov 2026, 13:00:00 CET\)/);
});

test("times in prose follow it, too, and are as written in UTC", () => {
  const words = ["10:04 UTC", "10:04:50Z", "2026-11-16T10:04:50.123Z", "2026-11-16 10:04 UTC", "2026-11-16T12:04:50+02:00"];
  assert.deepEqual(both(...words.map((one) => said(one, NOON))), [
    words,
    ["11:04 CET", "11:04:50 CET", "16 Nov 2026, 11:04:50 CET", "16 Nov, 11:04 CET", "16 Nov 2026, 11:04:50 CET"],
  ]);
});

test("times that share the name of a zone are converted together", () => {
  const words = ["10:04–10:12 UTC", "10:04 and 10:12:30 UTC", "09:00, 10:04 or 10:12 UTC"];
  assert.deepEqual(both(...words.map((one) => said(one, NOON))), [words, ["11:04–11:12 CET", "11:04 and 11:12:30 CET", "10:00, 11:04 or 11:12 CET"]]);
});

test("a time of day is on the nearest day", () => {
  assert.equal(said("23:50 UTC", "2026-11-16T00:10:00Z").dateTime, "2026-11-15T23:50:00.000Z");
  assert.equal(said("00:10 UTC", "2026-11-15T23:50:00Z").dateTime, "2026-11-16T00:10:00.000Z");
});

test("text without a zone, without a day or with an impossible time stays text", () => {
  assert.deepEqual(timed("since 10:04, in 10:04:50 s, 12:34-15:00", NOON), ["since 10:04, in 10:04:50 s, 12:34-15:00"]);
  assert.equal(said("10:04 UTC", ""), "10:04 UTC");
  assert.equal(said("25:99 UTC", NOON), "25:99 UTC");
  assert.equal(said("2026-13-40T10:00Z", NOON), "2026-13-40T10:00Z");
  const [before, time, after] = timed("changed at 07:47 UTC: release 4", NOON);
  assert.deepEqual([before, time.textContent, time.dateTime, after], ["changed at ", "07:47 UTC", "2026-11-16T07:47:00.000Z", ": release 4"]);
});

test("relative times, and nothing where there is no time", () => {
  assert.equal(when(new Date(Date.now() - 125_000).toISOString()).textContent, "2 min ago");
  assert.equal(when(null).textContent, "–");
});
