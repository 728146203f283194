// Format numbers and times. Times are in the reader's time zone; the exact time is in the title.

import { h } from "./dom.js";

const whole = new Intl.NumberFormat("en");
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clockTime = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayTime = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

export const number = (value) => whole.format(value ?? 0);

/** 239752 → 240k; for places where the exact figure is shown elsewhere. */
export function short(value) {
  if (value < 1000) return String(Math.round(value));
  if (value < 10_000) return `${(value / 1000).toFixed(1)}k`;
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
  return usd < 0.01 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`;
}

export function percent(part, of) {
  if (!of) return "0%";
  const value = (100 * part) / of;
  return value > 99 && value < 100 ? `${Math.min(99.9, value).toFixed(1)}%` : `${Math.round(value)}%`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function ago(moment) {
  const seconds = Math.round((Date.now() - moment) / 1000);
  if (seconds < -5) return `in ${spell(-seconds)}`;
  if (seconds < 5) return "now";
  return seconds < 7 * 86400 ? `${spell(seconds)} ago` : dayTime.format(moment);
}

function spell(seconds) {
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 2 * 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

/** A relative time, updated while it is shown. */
export function when(iso) {
  if (!iso) return h("span", null, "–");
  const moment = new Date(iso);
  return h("time.ago", { datetime: iso, title: exact.format(moment) }, ago(moment));
}

/** The time of day; the full date in the title. */
export function clock(iso) {
  const moment = new Date(iso);
  return h("time", { datetime: iso, title: exact.format(moment) }, clockTime.format(moment));
}

/** A duration; counts on while there is no end. */
export function lasting(from, to) {
  if (!from) return h("span", null, "–");
  if (to) return h("span", null, duration(new Date(to) - new Date(from)));
  return h("time.lasting", { datetime: from, title: `since ${exact.format(new Date(from))}` }, duration(Date.now() - new Date(from)));
}

setInterval(() => {
  if (document.hidden) return;
  for (const node of document.querySelectorAll("time.ago")) {
    const text = ago(new Date(node.dateTime));
    if (node.textContent !== text) node.textContent = text;
  }
  for (const node of document.querySelectorAll("time.lasting")) node.textContent = duration(Math.floor((Date.now() - new Date(node.dateTime)) / 1000) * 1000);
}, 1000);

const STATUS = {
  pending: "waiting",
  in_progress: "running",
  cancelling: "stopping",
  completed: "done",
  failed: "failed",
  cancelled: "cancelled",
  timed_out: "timed out",
};

export const isOpen = (status) => status === "pending" || status === "in_progress" || status === "cancelling";
export const statusWord = (status) => STATUS[status] ?? status;

export function pill(status) {
  return h("span.pill", { dataset: { status } }, statusWord(status));
}

/** before → after, with a bar for the remaining share. */
export function saved(before, after, { bar = true } = {}) {
  const share = before ? Math.max(0.4, Math.min(100, (100 * after) / before)) : 100;
  return h(
    "span.saved",
    { title: `${number(before)} tokens returned, ${number(after)} passed to the model` },
    h("span.figures", null, number(before), h("i", null, "→"), h("b", null, number(after))),
    bar && h("span.bar-of", { "aria-hidden": "true" }, h("span", { style: { width: `${share}%` } })),
  );
}
