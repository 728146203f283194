// <sessions-page>: all sessions, newest first, updated as they change. The filters are part of the URL.

import { api, query } from "./api.js";
import { go } from "./app.js";
import { h, put } from "./dom.js";
import { isOpen, lasting, number, percent, pill, price, short, statusWord, when } from "./format.js";
import { follow } from "./live.js";

const STATUSES = ["pending", "in_progress", "cancelling", "completed", "failed", "cancelled", "timed_out"];
const REFRESH = 3_000;

class SessionsPage extends HTMLElement {
  #sessions = new Map();
  #next = null;
  #older = false;
  #turn = 0;
  #timer = 0;
  #stop = () => {};

  connectedCallback() {
    document.title = "Sessions · tersely";
    this.field = h("input", { type: "search", name: "q", placeholder: "Search alerts and analyses", "aria-label": "Search alerts and analyses", autocomplete: "off" });
    this.field.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#look({ q: this.field.value.trim() }), 250);
    });
    this.types = h("select", { "aria-label": "Alert type", onchange: () => this.#look({ alert_type: this.types.value }) }, h("option", { value: "" }, "all types"));
    this.chips = h("div.chips", { role: "group", "aria-label": "Status" });
    this.list = h("div.sessions");
    this.foot = h("p.more");
    put(
      this,
      h("div.page-head", null, h("h1", null, "Sessions"), h("a.button.primary", { href: "/submit" }, "Submit an alert")),
      h("form.filters", { role: "search", onsubmit: (event) => event.preventDefault() }, this.field, this.types, this.chips),
      this.list,
      this.foot,
    );
    this.#known();
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
    this.asked = { q: asked.get("q") ?? "", alert_type: asked.get("alert_type") ?? "", status: asked.getAll("status").filter((one) => STATUSES.includes(one)) };
    if (this.field.value.trim() !== this.asked.q) this.field.value = this.asked.q;
    this.#drawFilters();
    this.#older = false;
    this.#load();
  }

  #look(change) {
    const asked = { ...this.asked, ...change };
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
    put(this.chips, chip("all", []), chip("open", ["pending", "in_progress", "cancelling"]), chip("done", ["completed"]), chip("failed", ["failed", "timed_out"]), chip("cancelled", ["cancelled"]));
  }

  #soon(pause) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), pause);
  }

  async #load(cursor = null) {
    const mine = ++this.#turn;
    try {
      const page = await api(`/sessions${query({ ...this.asked, limit: 50, cursor })}`);
      if (mine !== this.#turn) return;
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
    if (this.asked.q || this.asked.alert_type || this.asked.status.length)
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
    h("span", null, "Alert"),
    h("span", null, "Status"),
    h("span", null, "Stage"),
    h("span.number", null, "Duration"),
    h("span.number", null, "Model tokens"),
    h("span.number", null, "Price"),
    h("span.number", null, "Saved"),
    h("span.number", null, "Age"),
  );
}

function drawRow(one) {
  const { usage, tokens } = one;
  const used = usage.input_tokens + usage.output_tokens;
  return h(
    "li.row",
    { dataset: { id: one.id, status: one.status } },
    h(
      "span.what",
      null,
      h("a", { href: `/sessions/${one.id}`, dataset: { stop: "" } }, one.title || one.alert_type),
      one.verdict?.cause && h("span.under.cause-line", { title: one.verdict.cause }, one.verdict.cause),
      h("span.under", null, one.alert_type, one.author !== "local" && ` · ${one.author.replace(/^(token|user):/, "")}`, one.resolved_at && " · resolved by its sender"),
    ),
    h("span", null, pill(one.status), one.reason && h("span.under.reason", { title: one.reason }, one.reason)),
    h("span.stage", { title: one.stage?.name }, one.stage ? (one.stage.count > 1 ? `${one.stage.name} ${one.stage.index + 1}/${one.stage.count}` : one.stage.name) : "–"),
    h("span.number", { dataset: { label: "duration" } }, lasting(one.started_at, one.ended_at)),
    h("span.number", { class: used ? "" : "none", dataset: { label: "model tokens" }, title: `${number(usage.input_tokens)} in, ${number(usage.output_tokens)} out, ${usage.model_calls} calls` }, used ? short(used) : "–"),
    h("span.number", { class: usage.model_calls ? "" : "none", dataset: { label: "price" } }, usage.model_calls ? price(usage.price_usd) : "–"),
    h(
      "span.number.tokens-saved",
      { class: tokens.spared ? "" : "none", dataset: { label: "saved" }, title: `Tools returned ${number(tokens.before)} tokens; ${number(tokens.after)} were passed to the model` },
      tokens.spared ? [h("b", null, short(tokens.spared)), h("span.under", null, percent(tokens.spared, tokens.before))] : "–",
    ),
    h("span.number", { dataset: { label: "age" } }, when(one.created_at)),
    h("span.unseen", null, statusWord(one.status)),
  );
}

customElements.define("sessions-page", SessionsPage);
