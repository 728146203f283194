// A session as Markdown, to be pasted into a ticket or a chat. Pure: data in, text out.

import { count, duration, price } from "./format.js";
import { alertFacts } from "./alert-facts.js";
import { isFailed, toolName } from "./state.js";

/** session: as the API returns it; calls: the tool calls of its timeline; address: of its page. */
export function sessionMarkdown(session, calls, address) {
  const { verdict } = session;
  const facts = alertFacts(session.alert);
  const parts = [`# ${session.title || session.alert_type}`];
  const about = [facts.severity && `severity ${facts.severity}`, ...facts.labels.map(([name, value]) => `${name} ${value}`), `status ${session.status.replace("_", " ")}`, `received ${session.created_at.replace("T", " ").replace(/\.\d+Z$/, " UTC")}`].filter(Boolean);
  parts.push([facts.summary, about.join(" · "), address].filter(Boolean).join("\n\n"));
  if (session.reason) parts.push(`> ${session.reason}`);
  if (verdict) {
    parts.push(`## Verdict\n\n**${verdict.cause || "No likely cause was found"}**`);
    parts.push([`${verdict.confidence} confidence`, verdict.service && `service ${verdict.service}`, verdict.since && `since ${verdict.since}`].filter(Boolean).join(" · "));
    if (verdict.summary && verdict.summary !== verdict.cause) parts.push(verdict.summary);
    if (verdict.actions.length) parts.push(`### Do now\n\n${verdict.actions.map((one, place) => `${place + 1}. ${one.text}${one.command ? `\n   \`\`\`\n   ${one.command}\n   \`\`\`` : ""}`).join("\n")}`);
    for (const [title, list] of [["Why", verdict.evidence], ["Against", verdict.against]])
      if (list.length) parts.push(`### ${title}\n\n${list.map((one) => `- \`${one.quote.replaceAll("`", "'")}\` (${one.source}, line ${one.first_line}${one.count > 1 ? `, ${one.count} times` : ""})`).join("\n")}`);
  }
  if (session.analysis) parts.push(`## Analysis\n\n${session.analysis.replace(/^(#{1,4}) /gm, "##$1 ")}`);
  if (calls.length)
    parts.push(
      `## Tool calls\n\n${calls.map((call) => `- ${isFailed(call) ? "**error** " : ""}\`${toolName(call.metadata)}\` ${JSON.stringify(call.metadata.arguments ?? {})} ${duration(call.metadata.duration_ms)}`.trim()).join("\n")}`,
    );
  const { usage } = session;
  parts.push(`_${[count(usage.tool_calls, "tool call"), usage.model_calls && `${count(usage.model_calls, "model call")}, ${price(usage.price_usd)}`].filter(Boolean).join(", ")}_`);
  return `${parts.join("\n\n")}\n`;
}

/** Offer a text as a file. */
export function download(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
