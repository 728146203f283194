"""XML as a tree: elements are owners, attributes and texts are values.

A tolerant scanner over tags, not a parser: it expands no entities beyond the five of XML,
fetches nothing, and accepts unclosed and crossed tags; depth costs nothing.
"""

import re
from bisect import bisect_right

from tersely.shapes.tree import LEAF, OBJECT, Tree

_TAG = re.compile(
    r"<!--.*?(?:-->|$)|<!\[CDATA\[(?P<cdata>.*?)(?:\]\]>|$)|<[?!][^>]*>?"
    r"|</(?P<close>[^\s<>]+)\s*>|<(?P<open>[A-Za-z_][\w:.-]*)(?P<attributes>[^<>]*?)(?P<empty>/?)>",
    re.S,
)
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_ENTITY = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_ENTITIES = re.compile("|".join(_ENTITY))


def _plain(text: str) -> str:
    return _ENTITIES.sub(lambda match: _ENTITY[match.group()], text) if "&" in text else text


def parse(text: str) -> Tree:
    tree = Tree()
    breaks = [match.start() for match in re.finditer("\n", text)]
    root = tree.add(-1, "", OBJECT)
    open_nodes = [root]
    position = 0
    for match in _TAG.finditer(text):
        node = open_nodes[-1]
        between = text[position : match.start()]
        if between and not between.isspace():
            _add_text(tree, node, between, bisect_right(breaks, position - 1) + 1)
        position = match.end()
        if match.group("open") is not None:
            line = bisect_right(breaks, match.start()) + 1
            child = tree.add(node, match.group("open"), OBJECT, line=line)
            attributes = match.group("attributes")
            if attributes:
                for name, double, single in _ATTRIBUTE.findall(attributes):
                    tree.add_value(child, name, _plain(double or single), line)
            if not match.group("empty"):
                open_nodes.append(child)
        elif match.group("close") is not None:
            name = match.group("close")
            # Crossed tags: close up to the nearest element of that name, if it is near.
            for back in range(1, min(len(open_nodes), 6)):
                if tree.key[open_nodes[-back]] == name:
                    tree.ends[open_nodes[-back]] = bisect_right(breaks, match.start()) + 1
                    del open_nodes[-back:]
                    break
        elif (match.group("cdata") or "").strip():
            _add_text(tree, node, match.group("cdata"), bisect_right(breaks, match.start()) + 1)
    rest = text[position:]
    if rest.strip():
        _add_text(tree, open_nodes[-1], rest, bisect_right(breaks, position - 1) + 1)
    return _with_text_values(tree)


def _add_text(tree: Tree, node: int, text: str, line: int) -> None:
    """Add a text that begins, with its white space, on a line; its own lines are those of the source."""
    inner = text.lstrip()
    line += text.count("\n", 0, len(text) - len(inner))
    value = _plain(inner.rstrip())
    child = tree.add_value(node, "", value, line, below=line)
    if tree.kind[child] == LEAF and "\n" in value:
        tree.ends[child] = line + value.count("\n")


def _with_text_values(tree: Tree) -> Tree:
    """Turn elements that contain only a text into values."""
    inside = [0] * len(tree)
    for parent in tree.parent:
        if parent >= 0:
            inside[parent] += 1
    dropped = bytearray(len(tree))
    for node in range(1, len(tree)):
        parent = tree.parent[node]
        if (
            tree.kind[node] == LEAF
            and not tree.key[node]
            and parent > 0
            and inside[parent] == 1
            and tree.kind[parent] == OBJECT
        ):
            tree.kind[parent] = LEAF
            tree.value[parent] = tree.value[node]
            dropped[node] = 1
        elif tree.kind[node] == OBJECT and not inside[node]:
            tree.kind[node] = LEAF
    return tree.without(dropped) if any(dropped) else tree
