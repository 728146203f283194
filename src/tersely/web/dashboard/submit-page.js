// <submit-page>: a form for submitting an alert. Only changed fields are sent; errors are shown at their fields.

import { api } from "./api.js";
import { go } from "./app.js";
import { announce, h, put } from "./dom.js";
import { title } from "./notices.js";

const NATIVE = [
  ["google_search", "Google search", "Search the web with Google."],
  ["code_execution", "Code execution", "Run code in the provider's sandbox."],
  ["url_context", "URL context", "Read the pages whose URLs appear in the conversation."],
];
const DRAFT = "tersely-draft";

class SubmitPage extends HTMLElement {
  #servers = [];
  #key = newKey();

  connectedCallback() {
    title("Submit an alert");
    this.data = h("textarea", { id: "data", name: "data", rows: 9, required: true, spellcheck: "false", placeholder: "The alert as text or as a JSON object", "aria-describedby": "data-hint" });
    this.hint = h("p.quiet-words", { id: "data-hint" }, "Sent as text.");
    this.type = h("select", { id: "alert_type" }, h("option", { value: "" }, "Default"));
    this.about = h("p.quiet-words");
    this.runbook = h("textarea", { id: "runbook", rows: 5, spellcheck: "false", placeholder: "Instructions for this alert, as text. URLs in it are not fetched." });
    this.choosing = h("input", { type: "checkbox", id: "choosing" });
    this.servers = h("div.choices", { hidden: true });
    this.natives = NATIVE.map(([name]) =>
      h("select", { id: `native-${name}`, dataset: { native: name } }, h("option", { value: "" }, "default"), h("option", { value: "true" }, "on"), h("option", { value: "false" }, "off")),
    );
    this.whole = h("p.problem", { role: "alert", hidden: true });
    this.preview = h("pre.plain", { tabindex: 0 });
    this.button = h("button.primary", { type: "submit" }, "Investigate");
    const field = (id, words, input, ...more) => h("div.field", { dataset: { field: id } }, h("label", { for: input.id }, words), input, h("p.wrong", { id: `${id.replaceAll(".", "-")}-wrong` }), ...more);
    this.form = h(
      "form.submit",
      { novalidate: true },
      this.whole,
      field("data", "Alert", this.data, this.hint),
      field("alert_type", "Alert type", this.type, this.about),
      h("details.fold", { dataset: { field: "runbook" } }, h("summary", null, "Runbook"), field("runbook", "Runbook for this alert", this.runbook)),
      h(
        "details.fold",
        { id: "override", dataset: { field: "mcp" } },
        h("summary", null, "Override servers and tools"),
        h("p.wrong", { id: "mcp-wrong" }),
        h("p.quiet-words", null, "By default the alert's chain decides. Servers chosen here replace the chain's servers; they are not added to them."),
        h("label.check", null, this.choosing, "Choose the servers"),
        h("div", { dataset: { field: "mcp.servers" } }, h("p.wrong", { id: "mcp-servers-wrong" }), this.servers),
        h("fieldset", null, h("legend", null, "Tools run by the model provider"), h("div.natives", null, NATIVE.map(([name, words, title], place) => h("div.field", { title, dataset: { field: `mcp.native_tools.${name}` } }, h("label", { for: `native-${name}` }, words), this.natives[place], h("p.wrong", { id: `mcp-native_tools-${name}-wrong` }))))),
      ),
      h("details.fold", null, h("summary", null, "Request preview"), this.preview),
      h("div.buttons", null, this.button),
    );
    put(this, h("div.page-head", null, h("h1", null, "Submit an alert")), this.form);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.form.addEventListener("input", () => this.#changed());
    this.data.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.#send();
    });
    this.choosing.addEventListener("change", () => {
      this.servers.hidden = !this.choosing.checked;
      this.#changed();
    });
    try {
      this.data.value = sessionStorage.getItem(DRAFT) ?? "";
    } catch {
      // Without session storage there is no draft.
    }
    this.#changed();
    this.#known();
    this.data.focus({ preventScroll: true });
  }

  async #known() {
    const [types, servers] = await Promise.allSettled([api("/alert-types"), api("/system/mcp-servers")]);
    if (types.status === "fulfilled") {
      this.types = types.value.items;
      put(this.type, h("option", { value: "" }, types.value.default && types.value.default !== "default" ? `Default (${types.value.default})` : "Default"), this.types.map((one) => h("option", { value: one.alert_type }, one.alert_type)));
    }
    if (servers.status === "fulfilled") this.#servers = servers.value.items;
    put(
      this.servers,
      this.#servers.map((server, place) => {
        const all = h("input", { type: "checkbox", dataset: { server: server.name } });
        const tools = server.tools.filter((tool) => !tool.refused);
        const boxes = tools.map((tool) => h("input", { type: "checkbox", dataset: { tool: tool.name } }));
        const count = h("span.under");
        const counted = () => {
          const chosen = boxes.filter((box) => box.checked).length;
          all.checked = boxes.length ? chosen > 0 : all.checked;
          all.indeterminate = chosen > 0 && chosen < boxes.length;
          count.textContent = !server.healthy ? ` ${server.state}` : boxes.length ? ` ${all.indeterminate ? `${chosen} of ` : ""}${boxes.length} tools` : " no tools known";
        };
        all.addEventListener("change", () => {
          for (const box of boxes) box.checked = all.checked;
          counted();
        });
        for (const box of boxes) box.addEventListener("change", counted);
        counted();
        return h(
          "div.choice",
          { dataset: { place } },
          h("label.check", null, all, h("b", null, server.name), count),
          boxes.length ? h("details.fold", null, h("summary", null, "tools"), h("div.tools-of", null, tools.map((tool, index) => h("label.check", { title: tool.description }, boxes[index], h("code", null, tool.name))))) : null,
          h("p.wrong"),
        );
      }),
      !this.#servers.length && h("p.quiet-words", null, "No MCP server is configured."),
    );
    this.#changed();
  }

  /** The request body: only the fields that differ from their defaults. */
  #body() {
    const text = this.data.value;
    const body = { data: asObject(text) ?? text };
    if (this.type.value) body.alert_type = this.type.value;
    if (this.runbook.value.trim()) body.runbook = this.runbook.value;
    const mcp = {};
    if (this.choosing.checked) {
      mcp.servers = [...this.servers.querySelectorAll(".choice")].flatMap((choice) => {
        const all = choice.querySelector("[data-server]");
        if (!all.checked) return [];
        const tools = all.indeterminate ? [...choice.querySelectorAll("[data-tool]:checked")].map((box) => box.dataset.tool) : null;
        return [{ name: all.dataset.server, ...(tools ? { tools } : {}) }];
      });
    }
    const native = Object.fromEntries(this.natives.filter((one) => one.value).map((one) => [one.dataset.native, one.value === "true"]));
    if (Object.keys(native).length) mcp.native_tools = native;
    if (Object.keys(mcp).length) body.mcp = mcp;
    return body;
  }

  #changed() {
    // A changed body is a different alert, so it needs a new idempotency key.
    this.#key = newKey();
    this.hint.textContent = asObject(this.data.value) ? "Sent as a JSON object." : this.data.value.trimStart().startsWith("{") ? "Not complete JSON: sent as text." : "Sent as text.";
    this.about.textContent = this.types?.find((one) => one.alert_type === this.type.value || (!this.type.value && one.default))?.description ?? "";
    this.preview.textContent = JSON.stringify(this.#body(), null, 2);
    try {
      sessionStorage.setItem(DRAFT, this.data.value);
    } catch {
      // Drafts are optional.
    }
  }

  async #send() {
    this.#clear();
    const body = this.#body();
    if (!this.data.value.trim()) return this.#wrong([{ field: "data", message: "The alert is empty." }]);
    if (body.mcp?.servers && !body.mcp.servers.length) return this.#wrong([{ field: "mcp.servers", message: "Choose at least one server, or leave the choice to the chain." }]);
    this.button.disabled = true;
    try {
      const accepted = await api("/alerts", { method: "POST", body, headers: { "Idempotency-Key": this.#key } });
      try {
        sessionStorage.removeItem(DRAFT);
      } catch {
        // Drafts are optional.
      }
      announce(accepted.message);
      await go(`/sessions/${accepted.session_id}`);
    } catch (problem) {
      this.#wrong(problem.details ?? [], problem.message, body);
    } finally {
      this.button.disabled = false;
    }
  }

  #clear() {
    this.whole.hidden = true;
    for (const place of this.querySelectorAll(".wrong")) place.textContent = "";
    for (const input of this.querySelectorAll("[aria-invalid]")) input.removeAttribute("aria-invalid");
  }

  #wrong(details, message = "", body = null) {
    let first = null;
    const rest = [];
    for (const { field, message: words } of details) {
      const place = this.#placeOf(field, body);
      if (!place) {
        rest.push(`${field}: ${words}`);
        continue;
      }
      for (let fold = place.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      const note = place.querySelector(":scope > .wrong, :scope > .field > .wrong") ?? place.querySelector(".wrong");
      note.textContent = note.textContent ? `${note.textContent} ${words}` : words;
      note.id ||= `wrong-${Math.random().toString(36).slice(2)}`;
      const input = place.querySelector("input, select, textarea");
      input?.setAttribute("aria-invalid", "true");
      input?.setAttribute("aria-describedby", note.id);
      first ??= input;
    }
    if (rest.length || !details.length) {
      this.whole.textContent = rest.join("\n") || message || "The alert was not accepted.";
      this.whole.hidden = false;
    }
    announce(message || details[0]?.message || "The alert was not accepted.");
    first?.focus();
  }

  /** The element of a field: mcp.servers.1.tools.0 is the second chosen server. */
  #placeOf(field, body) {
    const server = /^mcp\.servers\.(\d+)/.exec(field);
    const name = server && body?.mcp?.servers?.[Number(server[1])]?.name;
    if (name) {
      this.choosing.checked = true;
      this.servers.hidden = false;
      return [...this.servers.querySelectorAll(".choice")].find((one) => one.querySelector("[data-server]").dataset.server === name);
    }
    for (let path = field; path; path = path.includes(".") ? path.slice(0, path.lastIndexOf(".")) : "") {
      const place = this.querySelector(`.field[data-field="${CSS.escape(path)}"]`) ?? this.querySelector(`[data-field="${CSS.escape(path)}"]`);
      if (place) return place;
    }
    return null;
  }
}

function asObject(text) {
  if (!text.trimStart().startsWith("{")) return null;
  try {
    const found = JSON.parse(text);
    return found && typeof found === "object" && !Array.isArray(found) && Object.keys(found).length ? found : null;
  } catch {
    return null;
  }
}

function newKey() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return `dashboard-${[...random].map((one) => one.toString(16).padStart(2, "0")).join("")}`;
}

customElements.define("submit-page", SubmitPage);
