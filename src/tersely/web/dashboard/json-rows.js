// JSON as foldable rows. Pure: text in, rows out. Every node has its line number, so that a line can be found in the tree.

export class NotJson extends Error {}

/** The tree of a JSON text: {kind, key, value | children, line, depth, parent, open}. */
export function parseJson(text) {
  let at = 0;
  let line = 1;

  function space() {
    for (; at < text.length; at++) {
      const sign = text.charCodeAt(at);
      if (sign === 10) line++;
      else if (sign !== 32 && sign !== 9 && sign !== 13) return;
    }
  }

  function string() {
    let end = at;
    do {
      end = text.indexOf('"', end + 1);
      if (end < 0) throw new NotJson();
      let back = end;
      while (text.charCodeAt(back - 1) === 92) back--;
      if ((end - back) % 2 === 0) break;
    } while (true);
    const raw = text.slice(at, end + 1);
    at = end + 1;
    return raw.includes("\\") ? JSON.parse(raw) : raw.slice(1, -1);
  }

  function value(key, parent) {
    space();
    const node = { key, parent, line, depth: parent ? parent.depth + 1 : 0, kind: "", open: false };
    const sign = text[at];
    if (sign === "{" || sign === "[") {
      node.kind = sign === "{" ? "object" : "array";
      node.children = [];
      node.open = node.depth < 2;
      const close = sign === "{" ? "}" : "]";
      at++;
      space();
      if (text[at] === close) {
        at++;
      } else {
        for (;;) {
          let name = null;
          if (sign === "{") {
            space();
            if (text[at] !== '"') throw new NotJson();
            name = string();
            space();
            if (text[at++] !== ":") throw new NotJson();
          }
          node.children.push(value(sign === "{" ? name : node.children.length, node));
          space();
          const next = text[at++];
          if (next === close) break;
          if (next !== ",") throw new NotJson();
        }
      }
      node.last = line;
    } else if (sign === '"') {
      node.kind = "string";
      node.value = string();
    } else {
      const [word] = /^(?:-?\d[\d.eE+-]*|true|false|null)/.exec(text.slice(at, at + 400)) ?? [];
      if (!word) throw new NotJson();
      node.kind = /[-\d]/.test(word[0]) ? "number" : "word";
      node.value = word;
      at += word.length;
    }
    return node;
  }

  const root = value(null, null);
  space();
  if (at < text.length) throw new NotJson();
  return root;
}

/**
 * The visible rows in order; a folded node is one row.
 * @param {any} root
 * @param {(node: any) => boolean} [isWanted]
 */
export function visibleRows(root, isWanted = () => true) {
  const rows = [];
  const stack = [root];
  while (stack.length) {
    const node = stack.pop();
    if (!isWanted(node)) continue;
    rows.push(node);
    if (node.children && node.open) for (let place = node.children.length - 1; place >= 0; place--) stack.push(node.children[place]);
  }
  return rows;
}

export function* everyNode(root) {
  const stack = [root];
  while (stack.length) {
    const node = stack.pop();
    yield node;
    if (node.children) for (let place = node.children.length - 1; place >= 0; place--) stack.push(node.children[place]);
  }
}

/** The node at a line: the last one that begins at or before it. */
export function nodeAt(root, line) {
  let node = root;
  for (;;) {
    const inside = node.children?.findLast((child) => child.line <= line);
    if (!inside || node.line === line) return node;
    node = inside;
  }
}

export function unfoldTo(node) {
  for (let above = node.parent; above; above = above.parent) above.open = true;
}

/** A short description of a folded node. */
export function gist(node) {
  const count = node.children.length;
  const counted = node.kind === "object" ? `${count} ${count === 1 ? "key" : "keys"}` : `${count} ${count === 1 ? "item" : "items"}`;
  const words = [];
  let length = 0;
  // Show the name first, even if it is one level deeper.
  const named = namesOf(node) ?? namesOf(node.children.find((child) => child.key === "metadata"));
  for (const child of named ? [named, ...node.children.filter((one) => one !== named)] : node.children) {
    if (child.children || length > 60) continue;
    const word = node.kind === "object" ? `${child.key}: ${child.value}` : String(child.value);
    if (word.length > 80) continue;
    words.push(word);
    length += word.length;
  }
  return words.length ? `${counted} · ${words.join(", ")}` : counted;
}

function namesOf(node) {
  return node?.kind === "object" ? node.children.find((child) => (child.key === "name" || child.key === "id" || child.key === "title") && !child.children) : undefined;
}

/**
 * Mark the nodes at places such as "1.12-36,38.0" (positions of children, from 0), and everything below them.
 * Every node gets `leaves` and `lost`: how many values are below it, and how many of them are left out.
 */
export function markTree(root, values) {
  for (const kind of ["folded", "partial", "lost"]) for (const place of values[kind] ?? []) for (const node of nodesAt(root, place)) node.mark = kind;
  const order = [];
  for (const node of everyNode(root)) {
    if (node.parent?.mark && !node.mark) node.mark = node.parent.mark;
    node.leaves = node.children ? 0 : 1;
    node.lost = !node.children && node.mark === "lost" ? 1 : 0;
    order.push(node);
  }
  for (const node of order.reverse())
    if (node.parent) {
      node.parent.leaves += node.leaves;
      node.parent.lost += node.lost;
    }
}

/** What is left out of a marked tree, by path: [{path, count, node}], the most values first. */
export function lostPaths(root, most = 12) {
  const found = new Map();
  for (const node of everyNode(root)) {
    if (node.mark !== "lost" || node.parent?.mark === "lost" || !node.lost) continue;
    const keys = [];
    for (let one = node; one.parent; one = one.parent) keys.push(typeof one.key === "number" ? "[]" : one.key);
    const path = keys.reverse().join(".").replaceAll(".[]", "[]");
    const known = found.get(path) ?? { path, count: 0, node };
    known.count += node.lost;
    found.set(path, known);
  }
  return [...found.values()].sort((a, b) => b.count - a.count).slice(0, most);
}

function nodesAt(root, place) {
  let found = [root];
  for (const part of place.split(".")) {
    const spans = part.split(",").map((span) => span.split("-").map(Number));
    const next = [];
    for (const node of found) {
      // A value that contains JSON or many lines is one value here: it is shown in part.
      if (!node.children) {
        node.mark ??= "partial";
        continue;
      }
      for (const [first, last = first] of spans) next.push(...node.children.slice(first, last + 1));
    }
    found = next;
  }
  return found;
}
