// <savings-page>: what investigations cost, by day, chain and model; and the tokens that condensing saved, by day, server and tool.

import { api, query } from "./api.js";
import { go } from "./app.js";
import { h, put, s, skeleton } from "./dom.js";
import { count, duration, number, percent, price, short } from "./format.js";
import { title } from "./notices.js";

const SPANS = [
  [7, "7 days"],
  [30, "30 days"],
  [90, "90 days"],
];
const ENTRY_POINTS = [
  ["", "All"],
  ["session", "Sessions"],
  ["gateway", "Gateway"],
];

class SavingsPage extends HTMLElement {
  connectedCallback() {
    title("Costs");
    this.chips = h("div.filters");
    this.sums = h("dl.facts.large");
    this.money = h("div");
    this.plots = h("div", null, skeleton(6));
    put(this, h("div.page-head", null, h("h1", null, "Costs and savings"), this.chips), this.money, this.sums, this.plots);
    this.addressed();
    // Plots are drawn for the width of the page.
    let width = 0;
    this.resized = new ResizeObserver(() => {
      if (this.found && Math.abs(this.clientWidth - width) > 20) this.#drawAll();
      width = this.clientWidth;
    });
    this.resized.observe(this);
  }

  disconnectedCallback() {
    this.resized.disconnect();
  }

  addressed() {
    const asked = new URLSearchParams(location.search);
    this.days = SPANS.map(([days]) => days).includes(Number(asked.get("days"))) ? Number(asked.get("days")) : 30;
    this.door = ENTRY_POINTS.map(([door]) => door).includes(asked.get("door") ?? "") ? (asked.get("door") ?? "") : "";
    const chip = (words, on, change) => h("button.chip", { type: "button", "aria-pressed": String(on), onclick: () => go(`/savings${query({ days: this.days, door: this.door, ...change })}`, { replace: true }) }, words);
    put(
      this.chips,
      h("div.chips", { role: "group", "aria-label": "Entry point" }, ENTRY_POINTS.map(([door, words]) => chip(words, door === this.door, { door }))),
      h("div.chips", { role: "group", "aria-label": "Period" }, SPANS.map(([days, words]) => chip(words, days === this.days, { days }))),
    );
    this.#read();
  }

  async #read() {
    const since = new Date(Date.now() - (this.days - 1) * 86_400_000).toISOString().slice(0, 10);
    try {
      const [found, spent] = await Promise.all([api(`/system/savings${query({ since, door: this.door })}`), api(`/system/spending${query({ since })}`)]);
      if (!this.isConnected) return;
      this.found = [found, spent, since];
      this.#drawAll();
    } catch (problem) {
      put(this.plots, h("p.problem", { role: "alert" }, problem.message));
    }
  }

  #drawAll() {
    const [found, spent, since] = this.found;
    this.#drawMoney(spent, since);
    this.#draw(found, since);
  }

  #drawMoney({ days, models }, since) {
    const sum = (name) => days.reduce((total, one) => total + (one[name] ?? 0), 0);
    const spent = sum("price_usd");
    const worth = days.some((one) => one.saved_usd !== null) ? sum("saved_usd") : null;
    const unknown = sum("unknown");
    const sessions = sum("sessions");
    const fact = (name, value, title) => h("div", { title }, h("dt", null, name), h("dd", null, value));
    if (!sessions || (!spent && !unknown && !models.length)) return put(this.money);
    const chains = [...new Set(days.map((one) => one.chain))].map((name) => ({ name, value: days.filter((one) => one.chain === name).reduce((total, one) => total + one.price_usd, 0) }));
    const across = this.money.clientWidth - 42;
    put(
      this.money,
      h(
        "dl.facts.large",
        null,
        fact("spent", h("b.hero", null, price(spent))),
        worth === null ? null : fact("saved, estimated", h("b", null, price(worth)), "What the tokens that condensing saved would have cost as input of the default model, once each"),
        fact("sessions", number(sessions)),
        fact("per session", price(spent / Math.max(1, sessions - unknown))),
        unknown ? fact("unknown price", count(unknown, "session")) : null,
      ),
      h("section.plot", { "aria-labelledby": "spent-by-day" }, h("h2", { id: "spent-by-day" }, "Spent by day"), dayPlot(days.map((one) => ({ day: one.day, before: one.price_usd, after: one.price_usd })), since, this.days, across, { words: (one) => `${one.day}: ${price(one.before)}`, axis: price, label: "Spent by day" })),
      h(
        "div.plots",
        null,
        h("section.plot", { "aria-labelledby": "by-model" }, h("h2", { id: "by-model" }, "By model"), moneyBars(models.map((one) => ({ name: one.model, value: one.price_usd, more: count(one.calls, "call") })))),
        h("section.plot", { "aria-labelledby": "by-chain" }, h("h2", { id: "by-chain" }, "By chain"), moneyBars(chains)),
      ),
    );
  }

  #draw(found, since) {
    const { items } = found;
    const fact = (name, value, title) => h("div", { title }, h("dt", null, name), h("dd", null, value));
    if (!items.length) {
      put(this.sums);
      put(this.plots, h("div.empty", null, h("h2", null, "No tool results yet"), h("p", null, "Every tool result of a session or of the gateway is counted here.")));
      return;
    }
    const calls = items.reduce((sum, one) => sum + one.calls, 0);
    const condensed = items.reduce((sum, one) => sum + one.condensed, 0);
    const read = items.reduce((sum, one) => sum + one.read_backs, 0);
    put(
      this.sums,
      fact("tokens saved", h("b", null, short(found.saved)), number(found.saved)),
      fact("share", percent(found.saved, found.tokens_before)),
      fact("returned by tools", number(found.tokens_before)),
      fact("passed to models", number(found.tokens_after)),
      fact("calls", number(calls)),
      fact("condensed", `${number(condensed)} (${percent(condensed, calls)})`),
      read ? fact("read back", number(read), "How often a model read more of a kept result") : null,
    );
    const tools = group(items, (one) => `${one.server}.${one.tool}`);
    const servers = group(items, (one) => one.server);
    put(
      this.plots,
      h("section.plot", { "aria-labelledby": "by-day" }, h("h2", { id: "by-day" }, "Tokens by day"), legend(), dayPlot(items.map((one) => ({ day: one.day, before: one.tokens_before, after: one.tokens_after })), since, this.days, this.plots.clientWidth - 42)),
      h("div.plots", null, servers.filter((one) => one.before > one.after).length > 1 && h("section.plot", { "aria-labelledby": "by-server" }, h("h2", { id: "by-server" }, "By server"), bars(servers.filter((one) => one.before > one.after))), h("section.plot", { "aria-labelledby": "by-tool" }, h("h2", { id: "by-tool" }, "By tool"), bars(tools.filter((one) => one.before > one.after).slice(0, 15)))),
      h("section.plot", { "aria-labelledby": "in-numbers" }, h("h2", { id: "in-numbers" }, "All figures"), table(tools)),
      h("p.quiet-words", null, `Tokens are counted with ${found.encoding}. Days in UTC.`),
    );
  }
}

function group(items, name) {
  const found = new Map();
  for (const one of items) {
    const key = name(one);
    const sum = found.get(key) ?? { name: key, calls: 0, errors: 0, condensed: 0, cached: 0, read_backs: 0, before: 0, after: 0, latency: {}, ms: 0 };
    sum.calls += one.calls;
    sum.errors += one.errors;
    sum.condensed += one.condensed;
    sum.cached += one.cached;
    sum.read_backs += one.read_backs;
    sum.before += one.tokens_before;
    sum.after += one.tokens_after;
    sum.ms += one.milliseconds;
    found.set(key, sum);
  }
  return [...found.values()].sort((a, b) => b.before - b.after - (a.before - a.after));
}

function legend() {
  return h("p.legend", { "aria-hidden": "true" }, h("span.swatch.before"), "returned by tools", h("span.swatch.after"), "passed to models");
}

const TOKENS = { words: (one) => `${one.day}: ${number(one.before)} returned, ${number(one.after)} passed on`, axis: (value) => round(value), label: "Tokens by day" };

/** Bars by day: pale for all, solid for the part that was passed on. */
function dayPlot(items, since, days, across, { words, axis, label: title } = TOKENS) {
  const width = Math.max(280, Math.min(1200, across));
  const height = 240;
  const left = 52;
  const foot = 24;
  const room = height - foot - 8;
  const start = Date.parse(since);
  const sums = Array.from({ length: days }, (_, place) => ({ day: new Date(start + place * 86_400_000).toISOString().slice(0, 10), before: 0, after: 0 }));
  const byDay = new Map(sums.map((one) => [one.day, one]));
  for (const one of items) {
    const sum = byDay.get(one.day);
    if (sum) {
      sum.before += one.before;
      sum.after += one.after;
    }
  }
  const most = nice(Math.max(1e-4, ...sums.map((one) => one.before)));
  const step = (width - left) / days;
  const every = Math.ceil(64 / step); // days between two labels, so that labels never touch
  const bar = Math.min(46, step * 0.68);
  const y = (value) => 8 + room * (1 - value / most);
  const label = `${title}. ${sums.filter((one) => one.before).map(words).slice(-10).join("; ")}`;
  return s(
    "svg.time-plot",
    { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label },
    [0, 0.25, 0.5, 0.75, 1].map((share) => [
      s("line.grid", { x1: left, x2: width, y1: y(most * share), y2: y(most * share) }),
      s("text.axis", { x: left - 8, y: y(most * share) + 4, "text-anchor": "end" }, axis(most * share)),
    ]),
    sums.map((one, place) => {
      const x = left + place * step + (step - bar) / 2;
      return s(
        "g",
        null,
        s("title", null, words(one)),
        s("rect", { x: left + place * step, y: 8, width: step, height: room, fill: "transparent" }),
        one.before ? s("rect.before", { x, y: y(one.before), width: bar, height: Math.max(1, y(0) - y(one.before)), rx: 2 }) : null,
        one.after ? s("rect.after", { x, y: y(one.after), width: bar, height: Math.max(1.5, y(0) - y(one.after)), rx: 1 }) : null,
        (days - 1 - place) % every === 0 ? s("text.axis", { x: Math.min(x + bar / 2, width - 2), y: height - 6, "text-anchor": place > days - 2 ? "end" : "middle" }, dayName(one.day)) : null,
      );
    }),
  );
}

/** 1.50M → 1.5M: axis labels are round figures. */
const round = (value) => short(value).replace(/\.(\d*?)0+(?=\D|$)/, (_, rest) => (rest ? `.${rest}` : ""));

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 4, 5, 8, 10].map((one) => one * power).find((one) => one >= value);
}

function dayName(day) {
  return new Date(`${day}T00:00:00Z`).toLocaleDateString(undefined, { month: "short", day: "numeric", timeZone: "UTC" });
}

/** One bar per name: the length is the returned tokens, the solid part the tokens passed on. */
function bars(groups) {
  const most = Math.max(1, ...groups.map((one) => one.before));
  return h(
    "ul.bars",
    null,
    groups.map((one) =>
      h(
        "li",
        { title: `${number(one.before)} returned, ${number(one.after)} passed on, ${number(one.calls)} calls` },
        h("span.clip", null, one.name),
        s(
          "svg",
          { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
          s("rect.before", { x: 0, y: 0, width: Math.max(0.4, (100 * one.before) / most), height: 10 }),
          s("rect.after", { x: 0, y: 0, width: Math.max(0.3, (100 * one.after) / most), height: 10 }),
        ),
        h("span.number", null, h("b", null, short(one.before - one.after)), h("span.under", null, ` ${percent(one.before - one.after, one.before)}`)),
      ),
    ),
  );
}

function moneyBars(groups) {
  const sorted = groups.filter((one) => one.value > 0).sort((a, b) => b.value - a.value).slice(0, 12);
  if (!sorted.length) return h("p.quiet-words", null, "Nothing was spent.");
  const most = sorted[0].value;
  return h("ul.bars", null, sorted.map((one) => h("li", { title: one.more }, h("span.clip", null, one.name), s("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, s("rect.after", { x: 0, y: 0, width: Math.max(0.4, (100 * one.value) / most), height: 10 })), h("span.number", null, h("b", null, price(one.value)), one.more && h("span.under", null, ` ${one.more}`)))));
}

function table(tools) {
  return h(
    "div.table",
    { tabindex: 0, role: "group", "aria-label": "Figures by tool" },
    h(
      "table",
      null,
      h("thead", null, h("tr", null, ["Tool", "Calls", "Errors", "Condensed", "From cache", "Read back", "Returned", "Passed on", "Saved", "Mean time"].map((word, place) => h("th", { scope: "col", class: place ? "number" : "" }, word)))),
      h(
        "tbody",
        null,
        tools.map((one) =>
          h(
            "tr",
            null,
            h("th", { scope: "row" }, h("code", null, one.name)),
            [number(one.calls), number(one.errors), number(one.condensed), number(one.cached), number(one.read_backs), number(one.before), number(one.after), percent(one.before - one.after, one.before), one.calls ? duration(one.ms / one.calls) : ""].map((word) => h("td.number", null, word)),
          ),
        ),
      ),
    ),
  );
}

customElements.define("savings-page", SavingsPage);
