// <settings-page>: the effective configuration of the service, without secrets.

import { api, info } from "./api.js";
import { h, put, skeleton } from "./dom.js";
import { count } from "./format.js";
import { title } from "./notices.js";

class SettingsPage extends HTMLElement {
  #items = [];

  connectedCallback() {
    title("Settings");
    this.field = h("input", { type: "search", placeholder: "Filter by key or value", "aria-label": "Filter by key or value", autocomplete: "off", oninput: () => this.#draw() });
    this.all = h("input", { type: "checkbox", onchange: () => this.#draw() });
    this.about = h("p.quiet-words");
    this.table = h("div", null, skeleton(8));
    put(this, h("div.page-head", null, h("h1", null, "Settings")), this.about, h("form.filters", { role: "search", onsubmit: (event) => event.preventDefault() }, this.field, h("label.check", null, this.all, "Show defaults")), this.table);
    this.#read();
  }

  async #read() {
    try {
      const [{ items }, about] = await Promise.all([api("/system/configuration"), info()]);
      if (!this.isConnected) return;
      this.#items = items;
      put(this.about, `tersely ${about.version} · ${about.store === "sqlite" ? "SQLite" : "PostgreSQL"} · ${about.model ?? "no language model"} · Secrets are not shown. Change them in tersely.yaml or the environment.`);
      this.#draw();
    } catch (problem) {
      put(this.table, h("p.problem", { role: "alert" }, problem.status === 403 ? "Only tokens with the scope admin may see the configuration." : problem.message));
    }
  }

  #draw() {
    const words = this.field.value.trim().toLowerCase();
    const found = this.#items.filter((one) => (this.all.checked || !one.is_default) && `${one.key} ${JSON.stringify(one.value)}`.toLowerCase().includes(words));
    const hidden = this.#items.filter((one) => one.is_default).length;
    put(
      this.table,
      found.length
        ? h(
            "div.sessions.configuration",
            { tabindex: 0, role: "group", "aria-label": "Configuration" },
            h("table", null, h("thead", null, h("tr", null, h("th", { scope: "col" }, "Key"), h("th", { scope: "col" }, "Value"))), h("tbody", null, found.map((one) => h("tr", { class: one.is_default ? "default" : "" }, h("th", { scope: "row" }, h("code", null, one.key)), h("td", null, h("code", null, typeof one.value === "string" ? one.value : JSON.stringify(one.value)), one.is_default && h("span.under", null, " default")))))),
          )
        : h("div.empty", null, h("p", null, words ? "No setting matches." : "Everything is at its default.")),
      !this.all.checked && hidden ? h("p.quiet-words.more", null, `${count(hidden, "value")} at the default ${hidden === 1 ? "is" : "are"} not shown.`) : null,
    );
  }
}

customElements.define("settings-page", SettingsPage);
