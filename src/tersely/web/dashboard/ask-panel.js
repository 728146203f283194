// <ask-panel session>: follow-up questions about an ended session, with their answers as they stream.

import { api } from "./api.js";
import { announce, copyButton, h, put } from "./dom.js";
import { isOpen, lasting, pill, price, when } from "./format.js";
import { follow } from "./live.js";
import { MarkdownStream, markdown } from "./markdown.js";
import { Timeline, toolName } from "./state.js";

class AskPanel extends HTMLElement {
  #asked = new Map(); // chat_id → {node, question, stop}

  connectedCallback() {
    if (this.list) return;
    this.session = this.getAttribute("session");
    this.list = h("ol.questions");
    this.field = h("textarea", { rows: 1, id: "ask", placeholder: "Ask about this session …", "aria-label": "Ask about this session", maxlength: 8_000 });
    this.button = h("button.primary", { type: "submit" }, "Ask");
    this.wrong = h("p.wrong", { role: "alert" });
    this.form = h("form.ask-form", null, this.field, this.button);
    put(this, h("h2.caption", null, "Questions"), this.list, this.form, this.wrong);
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.#send();
    });
    this.refresh();
  }

  disconnectedCallback() {
    for (const { stop } of this.#asked.values()) stop?.();
  }

  /** refer(handle, first, last): the address of a kept result. */
  of(page) {
    this.page = page;
    return this;
  }

  async refresh() {
    try {
      const { items } = await api(`/sessions/${this.session}/chat`);
      if (this.isConnected) for (const one of items) this.#show(one);
    } catch {
      // An older service has no questions; the form reports what is wrong when it is used.
    }
  }

  async #send() {
    const question = this.field.value.trim();
    if (!question || this.button.disabled) return;
    this.button.disabled = true;
    this.wrong.textContent = "";
    try {
      await api(`/sessions/${this.session}/chat`, { method: "POST", body: { question } });
      this.field.value = "";
      await this.refresh();
      this.list.lastElementChild?.scrollIntoView({ block: "nearest" });
    } catch (problem) {
      this.wrong.textContent = problem.message;
    }
    this.button.disabled = false;
  }

  #show(question) {
    const known = this.#asked.get(question.chat_id);
    if (known && known.question.status === question.status && known.question.answer === question.answer) return;
    const one = known ?? { node: h("li.question", { id: `question-${question.number}` }), stop: null };
    one.question = question;
    this.#asked.set(question.chat_id, one);
    if (!known) this.list.append(one.node);
    const open = isOpen(question.status);
    const head = h("div.asked", null, h("p", null, question.question), h("span.under", null, when(question.created_at)));
    if (open) {
      one.body ??= h("div.answering", { "aria-busy": "true" });
      put(one.node, head, one.body, h("p.now", null, h("span.spinner", { "aria-hidden": "true" }), question.status === "pending" ? "Waiting" : "Answering", h("button.small", { type: "button", onclick: () => this.#cancel(question) }, "Stop")));
      if (!one.stop) this.#follow(one);
      return;
    }
    one.stop?.();
    one.stop = null;
    const bad = question.status !== "completed";
    put(
      one.node,
      head,
      bad && question.reason ? h("p.problem", null, question.reason) : null,
      question.answer ? markdown(question.answer, { refer: this.page?.refer, near: question.created_at }) : null,
      h("p.under.asked-foot", null, bad ? pill(question.status) : null, question.started_at && lasting(question.started_at, question.ended_at), question.usage?.model_calls ? ` · ${price(question.usage.price_usd)}` : "", question.answer && copyButton("Copy this answer", question.answer, { iconOnly: true })),
    );
    if (known) announce("The answer is complete.");
  }

  /** Show the answer while it is written, and the tools that are called for it. */
  #follow(one) {
    const timeline = new Timeline();
    const written = new MarkdownStream({ refer: this.page?.refer, near: one.question.created_at });
    const tools = h("p.under");
    put(one.body, tools, written.node);
    const draw = () => {
      const { calls } = timeline;
      tools.textContent = calls.length ? `${calls.length === 1 ? "1 call" : `${calls.length} calls`}: ${[...new Set(calls.map((call) => toolName(call.metadata)))].slice(0, 4).join(", ")}` : "";
      const answer = timeline.order.findLast((item) => item.type === "chat_response" || item.type === "llm_response");
      if (answer) written.update(answer.content);
    };
    let frame = 0;
    one.stop = follow(
      `session:${one.question.chat_id}`,
      0,
      (event) => {
        if (event.type === "session.status" && !isOpen(event.status)) this.refresh();
        timeline.apply(event);
        frame ||= setTimeout(() => {
          frame = 0;
          draw();
        }, 60);
      },
      { beside: true },
    );
  }

  async #cancel(question) {
    try {
      await api(`/sessions/${this.session}/chat/${question.number}/cancel`, { method: "POST" });
    } catch (problem) {
      this.wrong.textContent = problem.message;
    }
    this.refresh();
  }
}

customElements.define("ask-panel", AskPanel);
