// The title of the page, and notices: when a followed session ends, the browser shows a notice and the title a sign, on whatever page
// the reader is by then.

import { api } from "./api.js";
import { go } from "./app.js";
import { isOpen } from "./format.js";
import { follow } from "./live.js";

const followed = new Map(); // session id → its title
let stop = null;
let badge = "";
let words = "";

/** Set the title of the page. */
export function title(text) {
  if (text !== words && !document.hidden) badge = "";
  words = text;
  document.title = `${badge}${words} · tersely`;
}

export const isFollowed = (id) => followed.has(id);

/** Begin or end to follow a session; asks for the permission to show notices. */
export async function toggleFollowed(id, name) {
  if (!followed.delete(id) && (await Notification.requestPermission()) === "granted") followed.set(id, name);
  if (followed.size) stop ??= follow("sessions", undefined, (event) => event.type === "session.status" && changed(event.session_id, event.status), { beside: true, joined: (again) => again && check() });
  else rest();
}

function rest() {
  stop?.();
  stop = null;
}

function changed(id, status) {
  if (followed.has(id) && !isOpen(status)) sessionEnded(id, status, followed.get(id));
}

/** After a lost connection: what has ended meanwhile? */
async function check() {
  for (const id of followed.keys()) {
    const session = await api(`/sessions/${id}`).catch(() => null);
    if (session) changed(id, session.status);
  }
}

/** A session ended: a sign in the title if it is followed or the page is hidden; a notice if it is followed. */
export function sessionEnded(id, status, name) {
  const isAsked = followed.delete(id);
  if (!isAsked && !document.hidden) return;
  badge = status === "completed" ? "✓ " : "✗ ";
  document.title = `${badge}${words} · tersely`;
  addEventListener("focus", () => ((badge = ""), title(words)), { once: true });
  if (!followed.size) rest();
  if (!isAsked || Notification.permission !== "granted") return;
  const notice = new Notification(status === "completed" ? "Analysis ready" : `Session ${status.replace("_", " ")}`, { body: name, tag: id });
  notice.onclick = () => {
    window.focus();
    go(`/sessions/${id}`);
  };
}
