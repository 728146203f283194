// Create DOM elements. Strings always become text nodes: no code in the dashboard parses a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** h("a.row.wide", {href, onclick, dataset: {…}, hidden}, "text", child, [more], null) */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElement(name), classes, props, children);
}

export function s(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  return fill(document.createElementNS(SVG, name), classes, props, children);
}

function fill(node, classes, props, children) {
  if (classes.length) node.setAttribute("class", classes.join(" "));
  if (props !== null && (typeof props !== "object" || props instanceof Node || Array.isArray(props))) children.unshift(props);
  else if (props) for (const [key, value] of Object.entries(props)) set(node, key, value);
  add(node, children);
  return node;
}

function set(node, key, value) {
  if (value === undefined || value === null || value === false) return;
  if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
  else if (key === "dataset") Object.assign(node.dataset, value);
  else if (key === "style") for (const [name, set] of Object.entries(value)) node.style.setProperty(name, set);
  else if (key === "class") node.setAttribute("class", [node.getAttribute("class"), value].filter(Boolean).join(" "));
  else if (key === "value" || key === "checked" || key === "indeterminate") node[key] = value;
  else node.setAttribute(key, value === true ? "" : String(value));
}

function add(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false || child === "") continue;
    if (Array.isArray(child)) add(node, child);
    else node.append(child instanceof Node ? child : String(child));
  }
}

export function put(node, ...children) {
  node.replaceChildren();
  add(node, children);
  return node;
}

/** A line icon from a single path. */
export function icon(name) {
  return s("svg.icon", { viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, s("path", { d: ICONS[name] }));
}

const ICONS = {
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  open: "M6 3.5 10.5 8 6 12.5",
  down: "M8 3v9M4 8.5 8 12.5l4-4",
  up: "M8 13V4M4 7.5 8 3.5l4 4",
  dash: "M4 8h8",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  moon: "M13 9.8A5.5 5.5 0 0 1 6.2 3a5.5 5.5 0 1 0 6.8 6.8z",
  system: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11z",
  notice: "M8 3.2v6M8 12.2v.3",
  more: "M4 6.5 8 10.5l4-4",
  thought: "M3 4.5h10M3 8h10M3 11.5h6",
  answer: "M2.5 3.5h11v7h-6L4.5 13v-2.5h-2z",
  tool: "M10.5 2.5a3.2 3.2 0 0 0-2.9 4.6L3 11.7 4.3 13l4.6-4.6a3.2 3.2 0 0 0 4.4-3.9L11.2 6.6 9.4 4.8l2-2.1z",
  copy: "M5.5 5.5h7v7h-7zM3.5 10.5v-7h7",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM10 10l3.5 3.5",
};

let announcing = 0;
/** Announce a message to screen readers, debounced. */
export function announce(words) {
  const region = document.getElementById("announcer");
  clearTimeout(announcing);
  announcing = setTimeout(() => (region.textContent = words), 300);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without a secure context there is no clipboard API; `execCommand` still works.
    const area = h("textarea.unseen", { value: text, "aria-hidden": "true" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function copyButton(label, text, { iconOnly = false } = {}) {
  const button = h(iconOnly ? "button.small.icon-only" : "button.small", { type: "button", title: iconOnly ? label : null }, icon("copy"), h(iconOnly ? "span.unseen" : "span", null, label));
  button.addEventListener("click", async () => {
    const span = button.querySelector("span");
    try {
      await copy(typeof text === "function" ? await text() : text);
      span.textContent = "Copied";
      button.classList.add("copied");
      announce("Copied");
    } catch (problem) {
      span.textContent = problem.message;
    }
    setTimeout(() => {
      span.textContent = label;
      button.classList.remove("copied");
    }, 1600);
  });
  return button;
}

/** Confirm an action that cannot be undone; resolves to true if confirmed. */
export function ask(question, detail, yes, no = "Keep it running") {
  return new Promise((resolve) => {
    const dialog = h(
      "dialog.ask",
      { "aria-labelledby": "ask-title" },
      h("h2", { id: "ask-title" }, question),
      h("p", null, detail),
      h(
        "div.buttons",
        null,
        h("button", { type: "button", autofocus: true, onclick: () => dialog.close("no") }, no),
        h("button.danger", { type: "button", onclick: () => dialog.close("yes") }, yes),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button with a list of actions: [words, action] or an element. Closes on a choice, on Escape and on a click elsewhere. */
export function menu(label, ...items) {
  const details = h(
    "details.menu",
    null,
    h("summary.button", { dataset: { action: `menu ${label}` } }, label, icon("more")),
    h(
      "div.menu-items",
      { role: "group", "aria-label": label },
      items.filter(Boolean).map((item) => {
        if (item instanceof Node) return item;
        const [words, action] = item;
        return h("button", { type: "button", dataset: { action: `menu ${label}, ${words}` }, onclick: action }, words);
      }),
    ),
  );
  details.addEventListener("click", (event) => event.target.closest(".menu-items > *") && details.removeAttribute("open"));
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    details.removeAttribute("open");
    details.querySelector("summary").focus();
  });
  details.addEventListener("focusout", (event) => event.relatedTarget && !details.contains(event.relatedTarget) && details.removeAttribute("open"));
  document.addEventListener("click", (event) => details.isConnected && !details.contains(event.target) && details.removeAttribute("open"));
  return details;
}

/** Lines of a page that is still loading. */
export function skeleton(rows = 5) {
  return h("div.skeleton", { "aria-hidden": "true" }, Array.from({ length: rows }, () => h("i")));
}
