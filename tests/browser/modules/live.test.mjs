// Following a channel across reconnects, with a scripted WebSocket and clock.
import assert from "node:assert/strict";
import { mock, test } from "node:test";

const sockets = [];
class Socket {
  static OPEN = 1;
  readyState = 1;
  sent = [];
  constructor() {
    sockets.push(this);
  }
  send(text) {
    this.sent.push(JSON.parse(text));
  }
  say(event) {
    this.onmessage({ data: JSON.stringify(event) });
  }
  close() {
    this.readyState = 3;
    this.onclose?.();
  }
}
mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
Object.assign(globalThis, {
  WebSocket: Socket,
  location: { protocol: "http:", host: "service", assign: (address) => (globalThis.left = address), pathname: "/sessions/1", search: "", hash: "" },
  document: { hidden: false, addEventListener() {}, removeEventListener() {} },
  addEventListener() {},
  removeEventListener() {},
  fetch: async () => globalThis.answer,
});
globalThis.answer = { ok: true, status: 200 };
const { follow, watchLink } = await import("../../../src/tersely/web/dashboard/live.js");
const states = [];
watchLink((state) => states.push(state));
const settle = () => new Promise((done) => setImmediate(done));

test("after a loss the subscription resumes after the last event, and nothing is delivered twice", async () => {
  const seen = [];
  const joined = [];
  const stop = follow("session:1", 3, (event) => seen.push(event.seq), { joined: (again) => joined.push(again) });
  let [socket] = sockets;
  socket.onopen();
  assert.deepEqual(socket.sent, [{ action: "subscribe", channel: "session:1", last_seq: 3 }]);
  socket.say({ type: "subscription.confirmed" });
  for (const seq of [3, 4, 5, 5]) socket.say({ type: "x", session_id: "1", seq });
  socket.close();
  assert.equal(states.at(-1), "offline");
  mock.timers.tick(1_000);
  await settle();
  socket = sockets.at(-1);
  assert.equal(sockets.length, 2);
  socket.onopen();
  assert.equal(socket.sent[0].last_seq, 5);
  socket.say({ type: "subscription.confirmed" });
  socket.say({ type: "x", session_id: "1", seq: 5 });
  socket.say({ type: "x", session_id: "1", seq: 6 });
  assert.deepEqual([seen, joined, states.at(-1)], [[4, 5, 6], [false, true], "live"]);
  stop();
  assert.equal(states.at(-1), "idle");
});

test("a database that is away is waited for; a follower beside the page's shows no state", async () => {
  const stop = follow("session:1", 0, () => {});
  const socket = sockets.at(-1);
  socket.onopen();
  socket.say({ type: "subscription.error", code: "store_unavailable" });
  assert.equal(states.at(-1), "waiting");
  mock.timers.tick(2_000);
  assert.equal(socket.sent.filter((one) => one.action === "subscribe").length, 2);
  socket.say({ type: "subscription.confirmed" });
  const before = states.length;
  const other = follow("session:2", 0, () => {}, { beside: true });
  sockets.at(-1).onopen();
  sockets.at(-1).say({ type: "subscription.confirmed" });
  other();
  assert.deepEqual([states.length, states.at(-1), socket.readyState], [before, "live", 1]);
  stop();
});

test("a login that has ended leads to the login page", async () => {
  const stop = follow("session:1", 0, () => {});
  globalThis.answer = { ok: false, status: 401 };
  sockets.at(-1).close();
  mock.timers.tick(2_000);
  await settle();
  assert.match(globalThis.left, /^\/login\?next=/);
  stop();
});
