// <servers-page>: the MCP servers: their state, their tools and the policies for their results.

import { api } from "./api.js";
import { announce, h, put, skeleton } from "./dom.js";
import { bytes, count, duration, lasting, number, when } from "./format.js";
import { title } from "./notices.js";

const WORDS = { ready: "ready", starting: "starting", retrying: "unreachable", closed: "closed" };
const POLL_EVERY = 5_000;

class ServersPage extends HTMLElement {
  #timer = 0;
  #cards = new Map();
  #seen = new Map();

  connectedCallback() {
    title("Servers");
    this.list = h("div.servers", null, skeleton(6));
    put(this, h("div.page-head", null, h("h1", null, "MCP servers")), this.list);
    this.#read();
  }

  disconnectedCallback() {
    clearTimeout(this.#timer);
  }

  async #read() {
    try {
      const { items } = await api("/system/mcp-servers");
      if (!this.isConnected) return;
      if (!items.length)
        put(this.list, h("div.empty", null, h("h2", null, "No MCP server is configured"), h("p", null, "Add one under ", h("code", null, "mcp_servers"), " in tersely.yaml, or try ", h("code", null, "tersely demo"), ".")));
      this.list.querySelector(".skeleton")?.remove();
      for (const one of items) {
        const { latency_ms, ...rest } = one;
        const shape = JSON.stringify(rest);
        if (this.#seen.get(one.name) === shape) continue;
        this.#seen.set(one.name, shape);
        const fresh = drawServer(one);
        const old = this.#cards.get(one.name);
        if (old) {
          // Keep the folds as they are.
          const open = [...old.querySelectorAll("details")].map((fold) => fold.open);
          fresh.querySelectorAll("details").forEach((fold, place) => (fold.open = open[place] ?? false));
          old.replaceWith(fresh);
        } else this.list.append(fresh);
        this.#cards.set(one.name, fresh);
      }
      this.querySelector(":scope > .problem")?.remove();
    } catch (problem) {
      if (!this.isConnected) return;
      if (!this.querySelector(":scope > .problem")) this.insertBefore(h("p.problem", { role: "alert" }, problem.message), this.list);
    }
    this.#timer = setTimeout(() => (document.hidden ? (this.#timer = setTimeout(() => this.#read(), POLL_EVERY)) : this.#read()), POLL_EVERY);
  }
}

function drawServer(one) {
  const { summarization, data_masking, tools } = one.policy;
  const fact = (name, value, title) => value !== null && value !== "" && h("div", { title }, h("dt", null, name), h("dd", null, value));
  const list = (words) => words.join(", ");
  return h(
    "section.server",
    { "aria-label": one.name },
    h(
      "div.page-head",
      null,
      h("h2", null, one.name),
      h("span.pill", { dataset: { status: one.healthy ? "completed" : one.state === "starting" ? "in_progress" : "failed" } }, WORDS[one.state] ?? one.state),
      h("span.under", null, one.healthy ? "up for " : one.state === "retrying" ? "for " : "for ", lasting(one.since, null)),
      h("code.address", null, one.address),
      h("span.grow"),
      one.state === "retrying" && h("button.small", { type: "button", onclick: (event) => retry(one.name, event.target) }, "Retry now"),
      h("span.under", null, [one.server_info.name && `${one.server_info.name} ${one.server_info.version ?? ""}`.trim(), one.protocol && `MCP ${one.protocol}`].filter(Boolean).join(" · ")),
    ),
    one.last_error && h("p.problem", { class: one.healthy ? "mild" : "" }, one.healthy ? "Last error: " : "", one.last_error, one.next_try && [" Retrying ", when(one.next_try), "."]),
    h(
      "dl.facts",
      null,
      fact("tools", number(one.tools.length)),
      fact("latency", one.latency_ms === null ? null : duration(one.latency_ms), "Duration of the last tool listing"),
      one.restarts ? fact("restarts", number(one.restarts)) : null,
      fact("condensed", summarization.enabled ? `over ${number(summarization.size_threshold_tokens)} tokens, to at most ${number(summarization.summary_max_token_limit)}` : "never"),
      summarization.llm_provider ? fact("summarized by", summarization.llm_provider) : null,
      fact("masked", data_masking.enabled ? `${data_masking.groups.length} kinds of secrets${data_masking.custom_patterns.length ? `, ${data_masking.custom_patterns.length} of your own` : ""}` : "no", list([...data_masking.groups, ...data_masking.custom_patterns])),
      fact("write access", one.policy.allow_destructive ? "all" : one.policy.read_only ? "read-only" : "non-destructive only"),
      fact("limits", `${number(one.policy.timeout)} s, ${binary(one.policy.max_result_bytes)}`),
      tools.allow ? fact("allowed tools", list(tools.allow)) : null,
      tools.deny?.length ? fact("denied tools", list(tools.deny)) : null,
    ),
    one.output && h("details.fold", { open: !one.healthy }, h("summary", null, "Last output (standard error)"), h("pre.plain.tall", { tabindex: 0 }, one.output)),
    one.instructions && h("details.fold", null, h("summary", null, "Instructions"), h("pre.plain", { tabindex: 0 }, one.instructions)),
    one.tools.length
      ? h("details.fold", { open: one.tools.some((tool) => tool.odd?.length || tool.redefined) }, h("summary", null, count(one.tools.length, "tool")), h("ul.tool-list", null, one.tools.map(drawTool)))
      : null,
    one.unusable.length ? h("details.fold", { open: true }, h("summary", null, count(one.unusable.length, "unusable tool")), h("ul", null, one.unusable.map((words) => h("li", null, words)))) : null,
  );
}

/** Limits are set in powers of two. */
const binary = (value) => (value % 2 ** 20 ? bytes(value) : `${number(value / 2 ** 20)} MiB`);

async function retry(name, button) {
  button.disabled = true;
  try {
    await api(`/system/mcp-servers/${encodeURIComponent(name)}/retry`, { method: "POST" });
    announce(`Connecting to ${name}`);
  } catch (problem) {
    button.replaceWith(h("span.wrong", { role: "alert" }, problem.message));
  }
}

function drawTool(tool) {
  return h(
    "li",
    null,
    h("code", null, tool.name),
    tool.destructive && h("span.tag.warn", null, "destructive"),
    tool.read_only && h("span.tag", null, "read-only"),
    tool.refused && h("span.tag.bad", { title: tool.refused }, "refused"),
    tool.redefined && h("span.tag.warn", null, "definition changed"),
    tool.policy && h("span.tag", { title: JSON.stringify(tool.policy) }, "own policy"),
    h("span.under", null, tool.description.length > 300 ? `${tool.description.slice(0, 300)}…` : tool.description),
    tool.refused && h("span.under.reason", null, tool.refused),
    tool.odd?.map((words) => h("span.under.odd", null, words)),
  );
}

customElements.define("servers-page", ServersPage);
