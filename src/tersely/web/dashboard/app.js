// The application shell: routing, the top bar, global keyboard shortcuts.
//
// Every page has a URL that can be opened, reloaded and shared. Pages are custom elements in separate files, loaded on first use.

import { api, info } from "./api.js";
import { announce, h, icon, put } from "./dom.js";
import { isUtc, lasting, switchZone, zoneName } from "./format.js";
import { watchLink } from "./live.js";
import { title } from "./notices.js";

/** @type {[RegExp, string, string, string[]][]} */
const ROUTES = [
  [/^\/(?:sessions\/?)?$/, "sessions-page", "./sessions-page.js", []],
  [/^\/sessions\/([^/]+)\/?$/, "session-page", "./session-page.js", ["session"]],
  [/^\/sessions\/([^/]+)\/calls\/([^/]+)\/?$/, "call-page", "./call-page.js", ["session", "event"]],
  [/^\/sessions\/([^/]+)\/results\/([^/]+)\/?$/, "call-page", "./call-page.js", ["session", "handle"]],
  [/^\/sessions\/([^/]+)\/trace\/?$/, "trace-page", "./trace-page.js", ["session"]],
  [/^\/sessions\/([^/]+)\/compare\/([^/]+)\/?$/, "compare-page", "./compare-page.js", ["session", "other"]],
  [/^\/submit\/?$/, "submit-page", "./submit-page.js", []],
  [/^\/servers\/?$/, "servers-page", "./servers-page.js", []],
  [/^\/savings\/?$/, "savings-page", "./savings-page.js", []],
  [/^\/settings\/?$/, "settings-page", "./settings-page.js", []],
];

const main = document.getElementById("main");
const heights = new Map(); // scroll positions by history entry
let shown = null;
let turn = 0;

/** Navigate to a URL of the dashboard, as a link would. */
export function go(address, { replace = false } = {}) {
  if (!replace) remember();
  history[replace ? "replaceState" : "pushState"]({ key: replace ? key() : String(Math.random()) }, "", address);
  return draw();
}

const key = () => history.state?.key ?? "first";
const remember = () => heights.set(key(), scrollY);

async function draw() {
  const mine = ++turn;
  let path;
  try {
    path = location.pathname.split("/").map(decodeURIComponent).map(encodeURIComponent).join("/");
  } catch {
    path = "/?";
  }
  const found = ROUTES.find(([pattern]) => pattern.test(path));
  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll("header nav a"))) {
    const here = link.pathname === "/" ? path === "/" || path.startsWith("/sessions") : path === link.pathname;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!found) {
    title("Page not found");
    main.replaceChildren(h("div.empty", null, h("h1", null, "Page not found"), h("p", null, "There is no page at this address. ", h("a", { href: "/" }, "All sessions"))));
    shown = null;
    return;
  }
  const [pattern, tag, file, names] = found;
  const match = pattern.exec(path);
  const values = Object.fromEntries(names.map((name, place) => [name, decodeURIComponent(match[place + 1])]));
  const identity = JSON.stringify([tag, values]);
  if (shown === identity && main.firstElementChild?.addressed) {
    main.firstElementChild.addressed();
    return;
  }
  try {
    await import(file);
  } catch {
    if (mine === turn) main.replaceChildren(h("div.empty", null, h("h1", null, "Service unavailable"), h("p", null, "This page could not be loaded. Is the service running?")));
    return;
  }
  if (mine !== turn) return;
  shown = identity;
  const page = /** @type {HTMLElement & {restoreTo?: number}} */ (document.createElement(tag));
  for (const [name, value] of Object.entries(values)) page.setAttribute(name, value);
  page.restoreTo = heights.get(key());
  main.replaceChildren(page);
  if (!location.hash) scrollTo(0, page.restoreTo ?? 0);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (/^\/(?:api|docs|login|logout|openapi\.json|metrics)(?:\/|$)/.test(link.pathname)) return;
  if (link.pathname === location.pathname && link.search === location.search && link.hash) return; // the browser handles fragments
  event.preventDefault();
  go(link.href).then(() => !link.hash && main.focus({ preventScroll: true }));
});

history.scrollRestoration = "manual";
addEventListener("popstate", () => draw());
addEventListener("hashchange", () => main.firstElementChild?.addressed?.());
addEventListener("pagehide", remember);
addEventListener("scroll", () => heights.set(key(), scrollY), { passive: true });

// The state of the connection, as text and not only as a colour

const LINK = { idle: "", connecting: "connecting …", live: "live", waiting: "database unavailable: retrying", offline: "offline: reconnecting" };
let announced = "idle";
watchLink((state) => {
  const place = document.getElementById("link-state");
  place.dataset.state = state;
  place.textContent = LINK[state];
  if (state === "offline") announce("Connection to the service lost. Reconnecting.");
  else if (state === "waiting") announce("The service cannot reach its database. Retrying.");
  else if (state === "live" && (announced === "offline" || announced === "waiting")) announce("Reconnected. No events were missed.");
  if (state !== "connecting") announced = state;
});

// Colours

const themes = ["", "light", "dark"];
const signs = { "": "system", light: "sun", dark: "moon" };
const button = document.getElementById("theme");
function showTheme() {
  const now = document.documentElement.dataset.theme ?? "";
  put(button, icon(signs[now]));
  button.title = `Theme: ${now || "system"}`;
  button.setAttribute("aria-label", button.title);
}
button.addEventListener("click", () => {
  const next = themes[(themes.indexOf(document.documentElement.dataset.theme ?? "") + 1) % themes.length];
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem("tersely-theme", next);
  } catch {
    // Without local storage the choice applies to this page only.
  }
  showTheme();
});
showTheme();

// Time zone

const zone = document.getElementById("zone");
function showZone() {
  zone.textContent = zoneName();
  zone.setAttribute("aria-label", isUtc() ? "Times are in UTC; switch to your time zone" : `Times are in your time zone, ${zoneName()}; switch to UTC`);
}
zone.addEventListener("click", () => {
  switchZone();
  showZone();
  announce(`Times are in ${zoneName()}`);
});
showZone();

// What is unavailable, on every page

const PROBLEMS_EVERY = 20_000;
const banner = document.getElementById("banner");
let bannerShows = "";

async function lookForProblems() {
  let items;
  try {
    ({ items } = await api("/system/problems"));
  } catch (problem) {
    items = problem.status === 503 ? [{ subject: "database", name: "", message: problem.message, since: null }] : null;
  }
  if (items && !document.hidden) {
    const shows = JSON.stringify(items.map(({ subject, name, message }) => [subject, name, message]));
    if (shows !== bannerShows) put(banner, items.slice(0, 3).map(problemLine), items.length > 3 && h("p", null, h("a", { href: "/servers" }, `${items.length - 3} more`)));
    bannerShows = shows;
    banner.hidden = !items.length;
  }
  setTimeout(lookForProblems, PROBLEMS_EVERY);
}

function problemLine({ subject, name, message, since }) {
  const what = subject === "server" ? ["MCP server ", h("b", null, name), " is unreachable"] : ["The database is unavailable"];
  return h("p", null, icon("notice"), h("span", null, what, since ? [" for ", lasting(since, null)] : null, "."), h("span.clip", { title: message }, message), subject === "server" && h("a", { href: "/servers" }, "Servers"));
}

// Keyboard shortcuts

const KEYS = [
  ["/", "search"],
  ["j  k", "next, previous"],
  ["Enter", "open the focused item"],
  ["u", "up: from a call to its session, from a session to the list"],
  ["g s", "sessions"],
  ["g n", "submit an alert"],
  ["g m", "MCP servers"],
  ["g t", "costs and savings"],
  ["g c", "effective configuration"],
  ["z", "times in UTC or local"],
  ["?", "this list"],
];
const PLACES = { s: "/", n: "/submit", m: "/servers", t: "/savings", c: "/settings" };
let going = 0;

function showKeys() {
  const dialog = h(
    "dialog.ask",
    { "aria-labelledby": "keys-title" },
    h("h2", { id: "keys-title" }, "Keyboard shortcuts"),
    h("dl.keys", null, KEYS.map(([sign, words]) => [h("dt", null, sign.split(" ").filter(Boolean).map((one) => h("kbd", null, one))), h("dd", null, words)])),
    h("div.buttons", null, h("button", { type: "button", autofocus: true, onclick: () => dialog.close() }, "Close")),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
document.getElementById("keys").addEventListener("click", showKeys);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog, [contenteditable]")) return;
  if (Date.now() - going < 1200 && PLACES[event.key]) {
    going = 0;
    event.preventDefault();
    go(PLACES[event.key]);
  } else if (event.key === "g") going = Date.now();
  else if (event.key === "?") showKeys();
  else if (event.key === "z") zone.click();
  else if (event.key === "/") {
    const field = /** @type {HTMLInputElement} */ (document.querySelector("main input[type=search]"));
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "u") {
    const up = document.querySelector("main a[rel=up]");
    if (up) up.click();
  } else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
});

/** Move the focus to the next or previous element with `data-stop`. */
function step(by) {
  const stops = [...document.querySelectorAll("main [data-stop]")].filter((one) => one.offsetParent);
  if (!stops.length) return;
  const focused = document.activeElement.closest("[data-stop]");
  let place = stops.indexOf(focused);
  if (place < 0) {
    const below = stops.findIndex((one) => one.getBoundingClientRect().top >= 60);
    place = below < 0 ? stops.length - 1 : below - (by > 0 ? 1 : 0);
  }
  const next = stops[Math.max(0, Math.min(stops.length - 1, place + by))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

// The logged-in user, if the service requires a login

info()
  .then((about) => {
    const place = document.getElementById("who");
    if (about.auth !== "tokens") return;
    const out = h("button.quiet", { type: "button" }, "Log out");
    out.addEventListener("click", async () => {
      await fetch("/logout", { method: "POST" });
      location.assign("/login");
    });
    place.replaceChildren(h("span", null, about.principal.replace(/^token:/, "")), out);
  })
  .catch(() => {});

draw();
setTimeout(lookForProblems, 1_500);
