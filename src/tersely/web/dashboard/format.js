// Format numbers and times. Times are in UTC or in the reader's time zone, by a switch in the bar; the other one is in the title.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en");

// Zones

let zone = "utc";
try {
  if (localStorage.getItem("tersely-zone") === "local") zone = "local";
} catch {
  // Without local storage, times are in UTC.
}
const formats = { utc: formatsOf("UTC"), local: formatsOf(undefined) };

function formatsOf(timeZone) {
  const of = (more) => new Intl.DateTimeFormat("en-GB", { hourCycle: "h23", timeZone, ...more });
  const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
  return {
    clock: of(time),
    minute: of({ hour: "2-digit", minute: "2-digit" }),
    day: of({ month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" }),
    exact: of({ year: "numeric", month: "short", day: "numeric", ...time, timeZoneName: "short" }),
  };
}

/** "UTC", or the short name of the reader's zone at a moment. */
export function zoneName(moment = new Date()) {
  if (zone === "utc") return "UTC";
  return formats.local.exact.formatToParts(moment).find((part) => part.type === "timeZoneName")?.value ?? "local";
}

export const isUtc = () => zone === "utc";

export function switchZone() {
  zone = zone === "utc" ? "local" : "utc";
  try {
    localStorage.setItem("tersely-zone", zone);
  } catch {
    // The choice applies to this page only.
  }
  for (const node of document.querySelectorAll("time[data-clock]")) write(node);
  dispatchEvent(new Event("zone"));
}

/** Both zones, for titles. */
function exactly(moment) {
  const utc = formats.utc.exact.format(moment);
  const local = formats.local.exact.format(moment);
  return utc === local ? utc : zone === "utc" ? `${utc} (${local})` : `${local} (${utc})`;
}

function write(node) {
  const moment = new Date(node.dateTime);
  node.title = exactly(moment);
  if (node.dataset.clock === "said") return void (node.textContent = zone === "utc" ? node.dataset.said : inZone(node.dataset.said, moment));
  const text = formats[zone][node.dataset.clock].format(moment);
  node.textContent = node.dataset.zone === undefined ? text : `${text} ${zoneName(moment)}`;
}

// Times in prose

/** A time that names its zone: 2026-11-16T10:04:50Z, 10:04 UTC; times of day may share the name: 10:04–10:12 UTC. */
export const SAID_TIME =
  /\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?UTC\b|Z\b|[+-]\d\d:\d\d\b)|\b\d\d:\d\d(?::\d\d)?(?:(?: ?[-–—] ?|, |,? (?:and|or|to|until) )\d\d:\d\d(?::\d\d)?){0,6}(?: ?UTC|Z)\b/;
const TIME_OF_DAY = /(\d\d:\d\d)(:\d\d)?/g;

/** The time of day in UTC that is nearest to a moment. */
function nearest(time, moment) {
  const found = Date.parse(`${moment.toISOString().slice(0, 10)}T${time}Z`);
  const days = Math.round((moment.getTime() - found) / 86_400_000);
  return new Date(found + days * 86_400_000);
}

function inZone(words, moment) {
  if (/^\d{4}-/.test(words)) return /\d:\d\d:\d/.test(words) ? formats[zone].exact.format(moment) : `${formats[zone].day.format(moment)} ${zoneName(moment)}`;
  return words.replace(TIME_OF_DAY, (time, _, seconds) => formats[zone][seconds ? "clock" : "minute"].format(nearest(time, moment))).replace(/ ?(?:UTC|Z)$/, ` ${zoneName(moment)}`);
}

/** A time as somebody wrote it; in the reader's own zone, if that is chosen. near: a moment on about the same day. */
export function said(words, near) {
  const first = words.match(TIME_OF_DAY)[0];
  const moment = /^\d{4}-/.test(words) ? new Date(words.replace(/ ?UTC$/, "Z").replace(" ", "T").replace(",", ".")) : near ? nearest(first, new Date(near)) : new Date(NaN);
  if (Number.isNaN(moment.getTime())) return document.createTextNode(words);
  const node = h("time", { datetime: moment.toISOString(), dataset: { clock: "said", said: words } });
  write(node);
  return node;
}

/** Plain text with its times. */
export function timed(text, near) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(new RegExp(SAID_TIME, "g"))) {
    parts.push(text.slice(from, match.index), said(match[0], near));
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)];
}

/** The time of day as text, with the zone. */
export const clockWords = (iso) => `${formats[zone].clock.format(new Date(iso))} ${zoneName(new Date(iso))}`;

export const number = (value) => whole.format(value ?? 0);

/** 239752 → 240k; for places where the exact figure is shown elsewhere. */
export function short(value) {
  if (value < 999.5) return String(Math.round(value));
  if (value < 9_950) return `${(value / 1000).toFixed(1)}k`;
  if (value < 999_500) return `${Math.round(value / 1000)}k`;
  return `${(value / 1e6).toFixed(value < 10e6 ? 2 : 1)}M`;
}

export function bytes(value) {
  if (value < 1000) return `${value} bytes`;
  if (value < 1e6) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} kB`;
  return `${(value / 1e6).toFixed(1)} MB`;
}

export function price(usd) {
  if (usd === null || usd === undefined) return "unknown";
  if (usd === 0) return "$0";
  if (usd < 0.0001) return "< $0.0001";
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function percent(part, of) {
  if (!of) return "0%";
  const value = (100 * part) / of;
  if (value > 0 && value < 0.1) return "< 0.1%";
  if (value > 99 && value < 100) return `${Math.min(99.9, value).toFixed(1)}%`;
  return value > 0 && value < 1 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

/** 1 call, 2 calls. */
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/** Rounded to the shown precision before the unit is chosen, so that there is never a "60 s" or a "1000 ms". */
export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return seconds % 60 ? `${minutes} min ${seconds % 60} s` : `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.floor(minutes / 60)} h`;
}

/** From the start of something: +0.2 s, −3 min. */
export const offset = (iso, start) => {
  const ms = Math.abs(Date.parse(iso) - Date.parse(start));
  // From ten minutes on, seconds say nothing.
  const words = ms < 9_950 ? `${(ms / 1000).toFixed(1)} s` : duration(ms < 600_000 ? ms : Math.round(ms / 60_000) * 60_000);
  return `${new Date(iso) < new Date(start) ? "−" : "+"}${words}`;
};

function ago(moment) {
  const seconds = Math.round((Date.now() - moment) / 1000);
  if (seconds < -5) return `in ${spell(-seconds)}`;
  if (seconds < 5) return "now";
  return seconds < 7 * 86400 ? `${spell(seconds)} ago` : formats[zone].day.format(moment);
}

function spell(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** A relative time, updated while it is shown; on paper, the exact time. */
export function when(iso) {
  if (!iso) return h("span", null, "–");
  const moment = new Date(iso);
  return h("time.ago", { datetime: iso, title: exactly(moment), dataset: { exact: formats[zone].exact.format(moment) } }, ago(moment));
}

/** The time of day in the chosen zone; both zones in the title. form: "clock", "minute", "day" or "exact". */
export function clock(iso, form = "clock", { named = false } = {}) {
  const node = h("time", { datetime: iso, dataset: named && form !== "exact" ? { clock: form, zone: "" } : { clock: form } });
  write(node);
  return node;
}

/** A duration; counts on while there is no end. */
export function lasting(from, to) {
  if (!from) return h("span", null, "–");
  if (to) return h("span", null, duration(Date.parse(to) - Date.parse(from)));
  return h("time.lasting", { datetime: from, title: `since ${exactly(new Date(from))}` }, duration(Date.now() - Date.parse(from)));
}

const ticking = setInterval(() => {
  if (document.hidden) return;
  for (const node of /** @type {NodeListOf<HTMLTimeElement>} */ (document.querySelectorAll("time.ago"))) {
    const text = ago(new Date(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
  for (const node of /** @type {NodeListOf<HTMLTimeElement>} */ (document.querySelectorAll("time.lasting"))) node.textContent = duration(Math.floor((Date.now() - Date.parse(node.dateTime)) / 1000) * 1000);
}, 1000);
// In Node, where the functions are tested, nothing is waited for.
/** @type {any} */ (ticking).unref?.();

const STATUS = {
  pending: "waiting",
  in_progress: "running",
  cancelling: "stopping",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
  timed_out: "timed out",
};

/** A person or a token, as its author or owner. */
export const person = (who) => (who === "local" ? "local user" : (who ?? "").replace(/^(token|user):/, ""));

export const isOpen = (status) => status === "pending" || status === "in_progress" || status === "cancelling";
export const statusWord = (status) => STATUS[status] ?? status;

export function pill(status) {
  return h("span.pill", { dataset: { status } }, statusWord(status));
}

/** before → after. */
export function saved(before, after) {
  return h("span.saved", { title: `${number(before)} tokens returned, ${number(after)} passed to the model` }, short(before), h("i", null, "→"), short(after));
}
