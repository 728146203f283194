// <sessions-page>: all sessions, newest first, updated as they change. The filters are part of the URL.

import { api, info, query } from "./api.js";
import { go } from "./app.js";
import { h, put, skeleton } from "./dom.js";
import { count, isOpen, lasting, number, person, pill, price, short, timed, when } from "./format.js";
import { follow } from "./live.js";
import { title } from "./notices.js";

const STATUSES = ["pending", "in_progress", "cancelling", "completed", "failed", "cancelled", "timed_out"];
const STATES = { open: "Not seen", acknowledged: "Acknowledged", closed: "Closed" };
const RATINGS = ["right", "partly", "wrong", "none"];
const REFRESH = 3_000;

class SessionsPage extends HTMLElement {
  #sessions = new Map();
  #next = null;
  #older = false;
  #turn = 0;
  #timer = 0;
  #stop = () => {};

  connectedCallback() {
    title("Sessions");
    this.field = h("input", { type: "search", name: "q", placeholder: "Search alerts and analyses", "aria-label": "Search alerts and analyses", autocomplete: "off" });
    this.field.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#look({ q: this.field.value.trim() }), 250);
    });
    this.types = h("select", { "aria-label": "Alert type", onchange: () => this.#look({ alert_type: this.types.value }) }, h("option", { value: "" }, "All types"));
    this.chips = h("div.chips", { role: "group", "aria-label": "Status" });
    this.people = h("div.chips", { role: "group", "aria-label": "Owner and rating" });
    this.list = h("div.sessions", null, skeleton(8));
    this.foot = h("p.more");
    put(
      this,
      h("div.page-head", null, h("h1", null, "Sessions"), h("a.button.primary", { href: "/submit" }, "Submit an alert")),
      h("form.filters", { role: "search", onsubmit: (event) => event.preventDefault() }, this.field, this.types, this.chips, this.people),
      this.list,
      this.foot,
    );
    this.#known();
    info().then(({ principal }) => ((this.me = principal), this.isConnected && this.#drawFilters()), () => {});
    this.addressed();
    this.#stop = follow("sessions", undefined, () => this.#soon(200), { joined: (again) => again && this.#soon(0) });
  }

  disconnectedCallback() {
    this.#stop();
    clearTimeout(this.#timer);
    clearTimeout(this.typing);
    this.#turn++;
  }

  /** The URL changed: read the filters from it. */
  addressed() {
    const asked = new URLSearchParams(location.search);
    this.asked = {
      q: asked.get("q") ?? "",
      alert_type: asked.get("alert_type") ?? "",
      status: asked.getAll("status").filter((one) => STATUSES.includes(one)),
      state: asked.getAll("state").filter((one) => one in STATES),
      assignee: asked.get("assignee") ?? "",
      rating: asked.getAll("rating").filter((one) => RATINGS.includes(one)),
      service: asked.get("service") ?? "",
    };
    if (this.field.value.trim() !== this.asked.q) this.field.value = this.asked.q;
    this.#drawFilters();
    this.#older = false;
    this.#load();
  }

  #look(change) {
    clearTimeout(this.typing); // What was typed is applied here, also when another filter is chosen before its time.
    const asked = { ...this.asked, q: this.field.value.trim(), ...change };
    go(`/${query(asked)}`, { replace: "q" in change });
  }

  async #known() {
    const found = await api("/alert-types").catch(() => ({ items: [] }));
    for (const { alert_type } of found.items) this.types.append(h("option", { value: alert_type }, alert_type));
    this.types.value = this.asked.alert_type;
    this.types.hidden = found.items.length < 2 && !this.asked.alert_type;
  }

  #drawFilters() {
    this.types.value = this.asked.alert_type;
    const chip = (words, statuses) => {
      const on = statuses.length === this.asked.status.length && statuses.every((one) => this.asked.status.includes(one));
      return h("button.chip", { type: "button", "aria-pressed": String(on), onclick: () => this.#look({ status: on ? [] : statuses }) }, words);
    };
    const more = (words, name, value) => {
      const on = Array.isArray(this.asked[name]) ? this.asked[name].includes(value) : this.asked[name] === value;
      return h("button.chip", { type: "button", "aria-pressed": String(on), onclick: () => this.#look({ [name]: Array.isArray(this.asked[name]) ? (on ? [] : [value]) : on ? "" : value }) }, words);
    };
    put(this.people, this.me && more("Mine", "assignee", this.me), more("Not rated", "rating", "none"), more("Rated wrong", "rating", "wrong"), more("Closed", "state", "closed"), this.asked.service && more(`Service ${this.asked.service}`, "service", this.asked.service));
    put(this.chips, chip("All", []), chip("Open", ["pending", "in_progress", "cancelling"]), chip("Done", ["completed"]), chip("Failed", ["failed", "timed_out"]), chip("Cancelled", ["cancelled"]));
  }

  #soon(pause) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), pause);
  }

  async #load(cursor = null) {
    const mine = ++this.#turn;
    try {
      const [page, why] = await Promise.all([api(`/sessions${query({ ...this.asked, limit: 50, cursor })}`), this.#matches()]);
      if (mine !== this.#turn) return;
      if (this.asked.q) for (const one of page.items) one.matched = why.get(one.id) ?? { text: inTitle(one, this.asked.q) ? "" : "in the alert or the analysis" };
      // Older pages that are already loaded stay while the first page is refreshed.
      const items = cursor || this.#older ? [...this.#sessions.values(), ...page.items] : page.items;
      const order = new Map(items.map((one) => [one.id, one]));
      if (!cursor && this.#older) for (const one of page.items) order.set(one.id, one);
      const sorted = [...order.values()].sort((a, b) => (a.created_at < b.created_at ? 1 : a.created_at > b.created_at ? -1 : a.id < b.id ? 1 : -1));
      if (cursor || !this.#older) this.#next = page.next_cursor;
      this.#older ||= Boolean(cursor);
      this.#draw(sorted);
    } catch (problem) {
      if (mine !== this.#turn) return;
      if (!this.#sessions.size) put(this.list, h("p.problem", { role: "alert" }, problem.message));
    }
    if (mine !== this.#turn) return;
    const open = [...this.#sessions.values()].some((one) => isOpen(one.status));
    // This channel does not publish tokens and stages of running sessions, so poll while the page is visible.
    this.#soon(document.hidden ? 10 * REFRESH : open ? REFRESH : 10 * REFRESH);
  }

  /** What a search found in titles and verdicts: id → the part that matched. */
  async #matches() {
    const found = new Map();
    if (!this.asked.q) return found;
    try {
      const { items } = await api(`/search${query({ q: this.asked.q, limit: 100 })}`);
      for (const one of items) found.set(one.id, { text: one.snippet, ranges: one.ranges });
    } catch {
      // The list is shown without reasons.
    }
    return found;
  }

  #draw(items) {
    const before = this.#sessions;
    this.#sessions = new Map(items.map((one) => [one.id, one]));
    put(this.foot, this.#next && h("button", { type: "button", onclick: () => this.#load(this.#next) }, "Older sessions"));
    if (!items.length) return put(this.list, this.#empty());
    let rows = this.list.querySelector("ul");
    if (!rows) {
      rows = h("ul.rows");
      put(this.list, head(), rows);
    }
    const old = new Map([...rows.children].map((row) => [row.dataset.id, row]));
    let place = rows.firstElementChild;
    for (const one of items) {
      let row = old.get(one.id);
      old.delete(one.id);
      if (!row || JSON.stringify(before.get(one.id)) !== JSON.stringify(one)) {
        const fresh = drawRow(one);
        if (row) {
          const focused = row.contains(document.activeElement);
          if (row === place) place = row.nextElementSibling;
          row.replaceWith(fresh);
          if (focused) fresh.querySelector("a").focus({ preventScroll: true });
        }
        row = fresh;
      }
      if (row === place) place = place.nextElementSibling;
      else rows.insertBefore(row, place);
    }
    for (const row of old.values()) row.remove();
  }

  #empty() {
    if (Object.values(this.asked).some((value) => value.length))
      return h("div.empty", null, h("h2", null, "No matching sessions"), h("p", null, h("a", { href: "/" }, "Show all sessions")));
    const address = `${location.origin}/api/v1/alerts`;
    return h(
      "div.empty",
      null,
      h("h2", null, "No alerts yet"),
      h("p", null, "Submit one here or from a terminal, or configure Alertmanager to send alerts to this service."),
      h("p", null, h("a.button.primary", { href: "/submit" }, "Submit an alert")),
      h("pre.command", null, `curl ${address} \\\n  -H 'Content-Type: application/json' \\\n  -d '{"data": "Pod web-1 in shop restarts repeatedly"}'`),
      h("p.quiet-words", null, "Webhook URL for Alertmanager and Grafana: ", h("code", null, `${address}/alertmanager`)),
    );
  }
}

function head() {
  return h(
    "div.row.head",
    { "aria-hidden": "true" },
    h("span", null, "Alert and verdict"),
    h("span", null, "Service"),
    h("span", null, "Status"),
    h("span.number", null, "Duration"),
    h("span.number", null, "Cost"),
    h("span.number", null, "Age"),
  );
}

const CONFIDENCE = { high: "●●●", medium: "●●○", low: "●○○" };

function drawRow(one) {
  const { usage, tokens, verdict } = one;
  const service = verdict?.service || one.service || "";
  const cost = usage.model_calls ? price(usage.price_usd) : "";
  const size = tokens.saved ? `${short(tokens.before)} → ${short(tokens.after)}` : "";
  return h(
    "li.row",
    { dataset: { id: one.id, status: one.status } },
    h(
      "span.what",
      null,
      h("span.what-top", null, one.severity && h("span.severity", { dataset: { severity: one.severity } }, one.severity), h("a", { href: `/sessions/${one.id}`, dataset: { stop: "" } }, one.title || one.alert_type)),
      verdict
        ? h("span.cause-line", { title: verdict.cause }, h("span.dots-line", { title: `${verdict.confidence} confidence`, role: "img", "aria-label": `${verdict.confidence} confidence` }, CONFIDENCE[verdict.confidence]), verdict.cause ? timed(verdict.cause, one.created_at) : "No likely cause was found")
        : one.reason && h("span.cause-line.reason", { title: one.reason }, one.reason),
      one.matched?.text ? h("span.matched", { title: one.matched.text }, "found: ", marked(one.matched)) : null,
      h("span.under", null, [one.alert_type !== one.title && one.alert_type !== "default" && one.alert_type, one.stage && isOpen(one.status) && (one.stage.count > 1 ? `${one.stage.name} ${one.stage.index + 1}/${one.stage.count}` : one.stage.name), one.author !== "local" && person(one.author), one.resolved_at && "resolved by its sender"].filter(Boolean).join(" · ")),
    ),
    h("span.service.clip", { title: service }, service || h("span.none", null, "–")),
    h("span", null, pill(one.status), triageWords(one.triage)),
    h("span.number", { dataset: { label: "took" } }, lasting(one.started_at, one.ended_at)),
    h("span.number.quiet-cost", { class: cost || size ? "" : "none", title: `${count(usage.model_calls, "model call")}, ${number(usage.input_tokens)} tokens in, ${number(usage.output_tokens)} out; tools returned ${number(tokens.before)} tokens, ${number(tokens.after)} were passed to the model` }, cost || (size ? "" : "–"), size && h("span.under", null, size)),
    h("span.number.age", null, when(one.created_at)),
  );
}

/** A text with the words that a search found. Ranges count code points. */
function marked({ text, ranges = [] }) {
  const points = [...text];
  const parts = [];
  let from = 0;
  for (const [start, end] of ranges) {
    parts.push(points.slice(from, start).join(""), h("mark", null, points.slice(start, end).join("")));
    from = end;
  }
  parts.push(points.slice(from).join(""));
  return parts;
}

const inTitle = (one, words) => words.toLowerCase().split(/\s+/).every((word) => one.title.toLowerCase().includes(word));

/** Who looks after it, and what people think of its verdict. */
function triageWords(triage) {
  if (!triage) return null;
  const words = [triage.state === "closed" ? "closed" : triage.state === "acknowledged" ? "acknowledged" : "", triage.assignee && person(triage.assignee), triage.rating && `rated ${triage.rating.rating}`].filter(Boolean);
  return words.length ? h("span.under", { title: words.join(", ") }, words.join(" · ")) : null;
}

customElements.define("sessions-page", SessionsPage);
