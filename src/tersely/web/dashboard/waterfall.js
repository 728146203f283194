// The calls of a session as a tree on a time axis: stage → agent → step → model, tool and summary calls. Pure: rows in, rows out.

const TYPES = { iteration: "model", final_analysis: "analysis", executive_summary: "verdict", chat_response: "answer", summarization: "summary", mcp: "tool" };

/**
 * stages: of the session; calls: interactions of the trace, in any order.
 * Returns rows in order, each {kind, name, depth, start, end, call, error, tokens, price, id, parent}; times in milliseconds.
 */
export function waterfallRows(stages, calls) {
  const byExecution = new Map();
  const inner = new Map();
  for (const call of calls) {
    if (call.parent_id && calls.some((other) => other.id === call.parent_id)) push(inner, call.parent_id, call);
    else push(byExecution, call.execution_id ?? "", call);
  }
  const rows = [];
  const known = new Set();
  for (const stage of stages) {
    const executions = stage.executions.filter((one) => byExecution.has(one.id));
    const inStage = executions.flatMap((one) => byExecution.get(one.id));
    if (!inStage.length && !stage.started_at) continue;
    rows.push(group("stage", `${stages.length > 1 ? `${stage.index + 1}. ` : ""}${stage.name}`, 0, inStage, inner, stage, `stage-${stage.id}`));
    for (const execution of executions) {
      known.add(execution.id);
      let depth = 1;
      if (stage.executions.length > 1) rows.push(group("agent", execution.agent, depth++, byExecution.get(execution.id), inner, execution, `agent-${execution.id}`));
      addSteps(rows, byExecution.get(execution.id), inner, depth);
    }
  }
  // Calls of an execution that no stage lists, e.g. of a chat.
  for (const [execution, found] of byExecution) if (!known.has(execution)) addSteps(rows, found, inner, 0);
  return rows;
}

function push(map, key, value) {
  if (map.has(key)) map.get(key).push(value);
  else map.set(key, [value]);
}

export const startOf = (call) => Date.parse(call.created_at);
export const endOf = (call) => startOf(call) + call.duration_ms;

/** A step is a model call and the tool calls that follow it. */
function addSteps(rows, calls, inner, depth) {
  const sorted = [...calls].sort((a, b) => startOf(a) - startOf(b) || Number(a.interaction_type === "mcp") - Number(b.interaction_type === "mcp"));
  const steps = [];
  for (const call of sorted) {
    if (call.interaction_type !== "mcp" || !steps.length) steps.push([call]);
    else steps.at(-1).push(call);
  }
  const many = steps.some((step) => step.length > 1 && step[0].interaction_type !== "mcp");
  for (const [place, step] of steps.entries()) {
    const isStep = many && step.length > 1;
    if (isStep) rows.push(group("step", `Step ${place + 1}`, depth, step, inner, null, `step-${step[0].id}`));
    for (const call of step) {
      rows.push(single(call, depth + (isStep ? 1 : 0)));
      for (const part of (inner.get(call.id) ?? []).sort((a, b) => startOf(a) - startOf(b))) rows.push(single(part, depth + (isStep ? 2 : 1)));
    }
  }
}

function single(call, depth) {
  const isTool = call.interaction_type === "mcp";
  const { outcome } = call.response;
  return {
    kind: TYPES[call.interaction_type] ?? call.interaction_type,
    name: isTool ? `${call.request.server ?? ""}.${call.request.tool ?? ""}`.replace(/^\./, "") : call.model,
    depth,
    start: startOf(call),
    end: endOf(call),
    call,
    error: isFailedCall(call),
    outcome,
    input: isTool ? 0 : call.input_tokens,
    cached: cachedTokens(call),
    output: isTool ? (call.response.tokens ?? 0) : call.output_tokens,
    price: isTool ? 0 : call.price_usd,
    id: `interaction-${call.id}`,
  };
}

/** A tool that reports an error has failed, too. */
export const isFailedCall = (call) => Boolean(call.error) || call.response.is_error === true || call.response.outcome === "failed";

const cachedTokens = (call) => call.response.cached_tokens ?? call.response.cached_input_tokens ?? call.response.usage?.cached ?? 0;

function group(kind, name, depth, calls, inner, about, id) {
  const all = calls.flatMap((call) => [call, ...(inner.get(call.id) ?? [])]);
  const models = all.filter((call) => call.interaction_type !== "mcp");
  const starts = all.map(startOf);
  const ends = all.map(endOf);
  if (about?.started_at) starts.push(Date.parse(about.started_at));
  if (about?.ended_at) ends.push(Date.parse(about.ended_at));
  return {
    kind,
    name,
    depth,
    start: Math.min(...starts),
    end: Math.max(...ends, ...starts),
    call: null,
    errors: all.filter(isFailedCall).length,
    input: models.reduce((sum, call) => sum + call.input_tokens, 0),
    cached: models.reduce((sum, call) => sum + cachedTokens(call), 0),
    output: models.reduce((sum, call) => sum + call.output_tokens, 0),
    // An unknown price makes the sum unknown.
    price: models.some((call) => call.price_usd === null) ? null : models.reduce((sum, call) => sum + call.price_usd, 0),
    calls: all.length,
    id,
  };
}

/** Round steps for an axis of so many milliseconds, about six of them. */
export function axisTicks(total) {
  const steps = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 1800e3, 3600e3, 7200e3, 21600e3, 86400e3];
  const step = steps.find((one) => total / one <= 7) ?? steps.at(-1);
  return Array.from({ length: Math.floor(total / step) + 1 }, (_, place) => place * step);
}
