// Follow a channel over the WebSocket: every stored event exactly once and in order, across reconnects. After each reconnect the
// subscription resumes after the last sequence number received.
//
// Every follower has its own connection: events of a session and of the list of all sessions have the same format, so only the
// connection distinguishes them reliably.

import { toLogin } from "./api.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 10_000;
const PING_EVERY = 20_000;
const TIMEOUT = 8_000;
const STORE_PAUSE = 2_000;

const watchers = new Set();
let state = "idle";
let current = null;

/** Register a callback for the connection's state: "idle", "connecting", "live", "waiting" (for the database) or "offline". */
export function watchLink(changed) {
  watchers.add(changed);
  changed(state);
}

function show(next) {
  if (state === next) return;
  state = next;
  for (const changed of watchers) changed(state);
}

/**
 * Follow a channel; returns a function that stops it.
 *
 * @param {string} channel
 * @param {number | undefined} after
 * @param {(event: TerselyEvent) => void} onEvent
 * @param {{joined?: (again: boolean) => void, failed?: (event: any) => void, beside?: boolean}} [options]
 *
 * after: sequence number of the last event received; undefined for new events only.
 * onEvent(event): called for stored and transient events.
 * joined(again): the subscription is confirmed; `again` after a reconnect.
 * failed(event): the service refused, e.g. because there is no such session.
 * beside: does not replace the page's follower, and the bar does not show its state.
 */
export function follow(channel, after, onEvent, { joined = () => {}, failed = () => {}, beside = false } = {}) {
  let own = "idle";
  const become = (next) => {
    own = next;
    if (!beside) show(next);
  };
  let socket = null;
  let pause = FIRST_PAUSE;
  let timer = 0;
  let before = false;
  let over = false;

  function connect() {
    if (own !== "offline") become("connecting");
    const mine = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/ws`);
    socket = mine;
    let timeout = setTimeout(() => mine.close(), TIMEOUT);
    let pinging = 0;
    const subscribe = () => mine.send(JSON.stringify({ action: "subscribe", channel, ...(after === undefined ? {} : { last_seq: after }) }));
    mine.onopen = () => {
      clearTimeout(timeout);
      timeout = 0;
      subscribe();
      pinging = setInterval(() => {
        mine.send('{"action":"ping"}');
        timeout ||= setTimeout(() => mine.close(), TIMEOUT);
      }, PING_EVERY);
    };
    mine.onmessage = (message) => {
      clearTimeout(timeout);
      timeout = 0;
      if (over) return;
      const event = JSON.parse(message.data);
      if (event.type === "subscription.confirmed") {
        pause = FIRST_PAUSE;
        become("live");
        joined(before);
        before = true;
      } else if (event.type === "subscription.error") {
        if (event.code !== "store_unavailable") return failed(event);
        // The connection is open, but no events arrive until the database is available again.
        become("waiting");
        setTimeout(() => !over && mine.readyState === WebSocket.OPEN && subscribe(), STORE_PAUSE);
      } else if (event.session_id) {
        if (event.seq !== undefined) {
          if (after !== undefined && event.seq <= after) return;
          after = event.seq;
        }
        onEvent(event);
      }
    };
    mine.onclose = () => {
      clearTimeout(timeout);
      clearInterval(pinging);
      if (over) return;
      become("offline");
      later();
    };
  }

  function later() {
    timer = setTimeout(check, pause * (0.7 + 0.6 * Math.random()));
    pause = Math.min(LONGEST_PAUSE, pause * 1.8);
  }

  async function check() {
    // A refused handshake gives no reason; a plain request does.
    const answer = await fetch("/api/v1/system/info", { cache: "no-store" }).catch(() => null);
    if (over) return;
    if (answer?.status === 401) toLogin();
    else if (answer?.ok) connect();
    else later();
  }

  function retryNow() {
    if (document.hidden || own !== "offline") return;
    clearTimeout(timer);
    pause = FIRST_PAUSE;
    later();
  }

  addEventListener("online", retryNow);
  document.addEventListener("visibilitychange", retryNow);
  if (!beside) current?.();
  connect();
  const stop = () => {
    if (over) return;
    over = true;
    if (current === stop) current = null;
    clearTimeout(timer);
    removeEventListener("online", retryNow);
    document.removeEventListener("visibilitychange", retryNow);
    socket.close();
    become("idle");
  };
  if (!beside) current = stop;
  return stop;
}
