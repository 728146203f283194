// The state of a session's timeline: events in, items out. Pure: knows neither the page nor the network.
//
// Every event may arrive twice (a page of the API and the event stream overlap on purpose), so applying an event is idempotent.
// A completed item never changes back.

const KEPT_OF_RESULT = 4_000;
const MOST_CALLS = 60; // of one group
const OURS = "tersely"; // the server name of the tools that read kept results

export class Timeline {
  items = new Map();
  order = []; // top-level items by sequence; a summary belongs to its call, and calls to a group
  #byHandle = new Map(); // handle → its last call; execution and handle → that agent's call
  #lastOf = new Map(); // execution → its last top-level item
  #most;

  /** keep: number of characters held of a tool result; the service keeps the whole. */
  constructor({ keep = KEPT_OF_RESULT } = {}) {
    this.#most = keep;
  }

  /**
   * Apply an event or an item of the API; returns the item that changed, or null.
   * @param {TerselyEvent | {type?: undefined, [field: string]: any}} event
   */
  apply(event) {
    switch (event.type) {
      case "timeline_event.created":
        return this.#create(event, event.timestamp);
      case "timeline_event.completed":
        return this.#complete(event);
      case "stream.chunk":
        return this.#grow(event);
      case undefined:
        return this.#read(event);
      default:
        return null;
    }
  }

  #create(event, at) {
    if (this.items.has(event.event_id)) return null;
    const item = {
      id: event.event_id,
      type: event.event_type,
      status: event.status,
      sequence: event.sequence,
      stage: event.stage_id,
      execution: event.execution_id,
      metadata: event.metadata ?? {},
      content: "",
      cut: false,
      at,
      ended: event.status === "streaming" ? null : at,
      points: 0, // code points of the content while it streams
      late: 0, // code points that were streamed before we subscribed
      parent: null,
      summary: null,
    };
    this.items.set(item.id, item);
    this.#keep(item, event.content ?? "");
    if (item.type === "mcp_tool_summary" && item.metadata.handle) item.parent = this.#byHandle.get(`${item.execution} ${item.metadata.handle}`) ?? this.#byHandle.get(item.metadata.handle) ?? null;
    if (item.parent) item.parent.summary = item;
    else if (item.type === "llm_tool_call") this.#group(item);
    else this.#insert(item);
    this.#index(item);
    return item;
  }

  #insert(item) {
    let place = this.order.length;
    while (place && this.order[place - 1].sequence > item.sequence) place--;
    this.order.splice(place, 0, item);
    const last = this.#lastOf.get(item.execution);
    if (!last || last.sequence < item.sequence) this.#lastOf.set(item.execution, item);
  }

  /** Calls of one agent that follow each other, without a thought or an answer between them, are one group. */
  #group(call) {
    const last = this.#lastOf.get(call.execution);
    if (last?.type === "calls" && last.stage === call.stage && last.calls.length < MOST_CALLS) {
      call.parent = last;
      let place = last.calls.length;
      while (place && last.calls[place - 1].sequence > call.sequence) place--;
      last.calls.splice(place, 0, call);
      return;
    }
    const { sequence, stage, execution, at } = call;
    call.parent = { id: `calls-${call.id}`, type: "calls", status: "completed", sequence, stage, execution, at, metadata: {}, content: "", calls: [call], parent: null, summary: null };
    this.#insert(call.parent);
  }

  #complete(event) {
    const item = this.items.get(event.event_id);
    if (!item || item.status !== "streaming") return null;
    item.status = event.status;
    item.metadata = { ...item.metadata, ...event.metadata };
    item.ended = event.timestamp;
    item.late = 0;
    this.#keep(item, event.content ?? "");
    this.#index(item);
    return item;
  }

  /** Apply an item in the format of the API. */
  #read(event) {
    const known = this.items.get(event.event_id);
    if (!known) {
      const item = this.#create(event, event.created_at);
      item.ended = event.completed_at;
      return item;
    }
    return event.status === "streaming" ? null : this.#complete({ ...event, timestamp: event.completed_at });
  }

  #grow({ event_id, offset, delta }) {
    const item = this.items.get(event_id);
    if (!item || item.status !== "streaming") return null;
    const have = item.late + item.points;
    if (offset > have) {
      // We subscribed in the middle: the completed event will contain the missing part.
      item.late = offset;
      item.content = "";
      item.points = 0;
    } else if (offset < have) {
      if (offset < item.late) item.late = offset;
      item.content = item.content.slice(0, utf16(item.content, Math.max(0, offset - item.late)));
      item.points = Math.max(0, offset - item.late);
    }
    item.content += delta;
    item.points += codePoints(delta);
    return item;
  }

  #keep(item, content) {
    const { handle, server_name } = item.metadata;
    if (item.type === "llm_tool_call" && content.length > this.#most && handle && server_name !== OURS) {
      // The whole can be requested. Copied, because a slice would keep the whole string in memory.
      item.content = JSON.parse(JSON.stringify(content.slice(0, this.#most)));
      item.cut = true;
    } else {
      item.content = content;
    }
    item.points = item.status === "streaming" ? codePoints(content) : 0;
  }

  #index(item) {
    const { handle, server_name } = item.metadata;
    if (item.type !== "llm_tool_call" || !handle || server_name === OURS) return;
    // Agents that get the same result share its handle.
    for (const key of [handle, `${item.execution} ${handle}`]) this.#byHandle.set(key, item);
  }

  /** All tool calls, in order. */
  get calls() {
    return this.order.flatMap((item) => item.calls ?? []);
  }

  /** The call that a kept result came from. */
  callOf(handle) {
    return this.#byHandle.get(handle) ?? null;
  }
}

export function codePoints(text) {
  let count = text.length;
  for (let place = 0; place < text.length; place++) {
    const unit = text.charCodeAt(place);
    if (unit >= 0xd800 && unit < 0xdc00 && place + 1 < text.length) {
      const next = text.charCodeAt(place + 1);
      if (next >= 0xdc00 && next < 0xe000) {
        count--;
        place++;
      }
    }
  }
  return count;
}

/** The UTF-16 offset after the first `points` code points of a string. */
export function utf16(text, points) {
  let place = 0;
  while (points > 0 && place < text.length) {
    place += text.codePointAt(place) > 0xffff ? 2 : 1;
    points--;
  }
  return place;
}

/** The item that has a card of its own: of a summary its call's group. */
export function topOf(item) {
  while (item.parent) item = item.parent;
  return item;
}

export const isFailed = ({ type, status, metadata }) => type === "error" || status === "failed" || Boolean(metadata.is_error);

export const toolName = ({ server_name, tool_name }) => (server_name && server_name !== OURS ? `${server_name}.${tool_name}` : (tool_name ?? "tool"));
