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

export function copyButton(label, text) {
  const button = h("button.small", { type: "button" }, icon("copy"), h("span", null, label));
  button.addEventListener("click", async () => {
    const span = button.querySelector("span");
    try {
      await copy(typeof text === "function" ? await text() : text);
      span.textContent = "Copied";
      announce("Copied");
    } catch (problem) {
      span.textContent = problem.message;
    }
    setTimeout(() => (span.textContent = label), 1600);
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
