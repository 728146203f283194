// A channel, followed: every stored event once and in order, however often the connection breaks. After each break it is asked for
// again with the last number that was seen.
//
// A connection of its own for every follower: events of a session and of the list of all sessions look alike, and only the
// connection tells them apart for certain.

import { toLogin } from "./api.js";

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 10_000;
const PING_EVERY = 20_000;
const PATIENCE = 8_000;
const STORE_PAUSE = 2_000;

const watchers = new Set();
let state = "idle";
let current = null;

/** Be told how the connection is: "idle", "connecting", "live", "waiting" for the service's database, or "offline". */
export function watchLink(changed) {
  watchers.add(changed);
  changed(state);
}

function become(next) {
  if (state === next) return;
  state = next;
  for (const changed of watchers) changed(state);
}

/**
 * Follow a channel; returns how to stop.
 *
 * after: the number of the last event seen; undefined for what comes from now on.
 * hear(event): stored and transient events alike.
 * joined(again): the subscription stands; `again` when there was a break before.
 * failed(event): the service refuses, e.g. because there is no such session.
 */
export function follow(channel, after, hear, { joined = () => {}, failed = () => {} } = {}) {
  let socket = null;
  let pause = FIRST_PAUSE;
  let timer = 0;
  let before = false;
  let over = false;

  function connect() {
    if (state !== "offline") become("connecting");
    const mine = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/api/v1/ws`);
    socket = mine;
    let patience = setTimeout(() => mine.close(), PATIENCE);
    let pinging = 0;
    const subscribe = () => mine.send(JSON.stringify({ action: "subscribe", channel, ...(after === undefined ? {} : { last_seq: after }) }));
    mine.onopen = () => {
      clearTimeout(patience);
      patience = 0;
      subscribe();
      pinging = setInterval(() => {
        mine.send('{"action":"ping"}');
        patience ||= setTimeout(() => mine.close(), PATIENCE);
      }, PING_EVERY);
    };
    mine.onmessage = (message) => {
      clearTimeout(patience);
      patience = 0;
      if (over) return;
      const event = JSON.parse(message.data);
      if (event.type === "subscription.confirmed") {
        pause = FIRST_PAUSE;
        become("live");
        joined(before);
        before = true;
      } else if (event.type === "subscription.error") {
        if (event.code !== "store_unavailable") return failed(event);
        // The connection stands, but nobody tells us anything until the database is back.
        become("waiting");
        setTimeout(() => !over && mine.readyState === WebSocket.OPEN && subscribe(), STORE_PAUSE);
      } else if (event.session_id) {
        if (event.seq !== undefined) {
          if (after !== undefined && event.seq <= after) return;
          after = event.seq;
        }
        hear(event);
      }
    };
    mine.onclose = () => {
      clearTimeout(patience);
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
    // A refused handshake does not say why; a plain request does.
    const answer = await fetch("/api/v1/system/info", { cache: "no-store" }).catch(() => null);
    if (over) return;
    if (answer?.status === 401) toLogin();
    else if (answer?.ok) connect();
    else later();
  }

  function hurry() {
    if (document.hidden || state !== "offline") return;
    clearTimeout(timer);
    pause = FIRST_PAUSE;
    later();
  }

  addEventListener("online", hurry);
  document.addEventListener("visibilitychange", hurry);
  current?.();
  connect();
  const stop = () => {
    if (over) return;
    over = true;
    if (current === stop) current = null;
    clearTimeout(timer);
    removeEventListener("online", hurry);
    document.removeEventListener("visibilitychange", hurry);
    socket.close();
    become("idle");
  };
  current = stop;
  return stop;
}
