// One WebSocket for the whole dashboard. Whoever follows a channel gets every stored event once and in order, however often the
// connection breaks: after each break it is asked for with the last number that was seen.

import { toLogin } from "./api.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 15_000;
const PING_EVERY = 20_000;
const PATIENCE = 8_000;

const followers = new Map(); // channel -> {after, hear, confirmed, failed}
const watchers = new Set();
let socket = null;
let pause = FIRST_PAUSE;
let timer = 0;
let pinging = 0;
let waiting = 0;
let state = "idle";

/** Follow a channel. `after` says what was seen last (undefined: from now on); returns how to stop. */
export function follow(channel, after, hear, { confirmed = () => {}, failed = () => {} } = {}) {
  const follower = { after, hear, confirmed, failed };
  followers.set(channel, follower);
  if (socket?.readyState === WebSocket.OPEN) subscribe(channel, follower);
  else connect();
  return () => {
    if (followers.get(channel) !== follower) return;
    followers.delete(channel);
    tell({ action: "unsubscribe", channel });
  };
}

/** Be told whether we are connected: "idle", "connecting", "live", "offline". */
export function watchLink(changed) {
  watchers.add(changed);
  changed(state);
}

function become(next) {
  if (state === next) return;
  state = next;
  for (const changed of watchers) changed(state);
}

function tell(message) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
}

function subscribe(channel, follower) {
  tell({ action: "subscribe", channel, ...(follower.after === undefined ? {} : { last_seq: follower.after }) });
}

function connect() {
  if (socket && socket.readyState <= WebSocket.OPEN) return;
  clearTimeout(timer);
  if (state !== "offline") become("connecting");
  const mine = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/ws`);
  socket = mine;
  const late = setTimeout(() => mine.close(), PATIENCE);
  mine.onopen = () => {
    clearTimeout(late);
    pause = FIRST_PAUSE;
    become("live");
    for (const [channel, follower] of followers) subscribe(channel, follower);
    pinging = setInterval(() => {
      tell({ action: "ping" });
      waiting ||= setTimeout(() => mine.close(), PATIENCE);
    }, PING_EVERY);
  };
  mine.onmessage = (message) => {
    clearTimeout(waiting);
    waiting = 0;
    hear(JSON.parse(message.data));
  };
  mine.onclose = () => {
    clearTimeout(late);
    clearTimeout(waiting);
    clearInterval(pinging);
    waiting = 0;
    if (socket !== mine) return;
    socket = null;
    become("offline");
    again();
  };
}

function hear(event) {
  const channel = event.channel ?? `session:${event.session_id}`;
  const follower = followers.get(channel);
  if (event.type === "subscription.confirmed") {
    if (event.subscribed) follower?.confirmed(event);
    return;
  }
  if (event.type === "subscription.error") {
    if (event.code === "store_unavailable") setTimeout(() => followers.has(channel) && subscribe(channel, followers.get(channel)), 2000);
    else follower?.failed(event);
    return;
  }
  if (!event.session_id) return;
  // The feed of all sessions and a session's own log carry events of the same shape; their numbers tell them apart only by who follows.
  const feed = followers.get("sessions");
  if (follower) {
    if (event.seq !== undefined) {
      if (event.seq <= (follower.after ?? 0)) return feed?.hear(event);
      follower.after = event.seq;
    }
    follower.hear(event);
  } else if (feed) {
    feed.hear(event);
  }
}

async function again() {
  const wait = pause * (0.7 + 0.6 * Math.random());
  pause = Math.min(LONGEST_PAUSE, pause * 1.8);
  timer = setTimeout(async () => {
    if (!followers.size) return become("idle");
    // A refused handshake does not say why; a plain request does.
    const answer = await fetch("/api/v1/system/info", { cache: "no-store" }).catch(() => null);
    if (answer?.status === 401) toLogin();
    else if (answer) connect();
    else again();
  }, wait);
}

addEventListener("online", () => {
  if (state !== "offline") return;
  clearTimeout(timer);
  pause = FIRST_PAUSE;
  again();
});
addEventListener("visibilitychange", () => {
  if (document.hidden || state !== "offline") return;
  clearTimeout(timer);
  pause = FIRST_PAUSE;
  again();
});
