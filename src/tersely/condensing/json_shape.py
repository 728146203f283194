"""JSON as a tree: whole, cut in the middle, several documents, JSON lines, JSON inside strings.

A tolerant scanner of our own instead of `json.loads`: one regular expression match
for each value, positions for line numbers, no recursion, and a document that breaks
off is read as far as it goes. Values keep the spelling of the source.
"""

import re
from bisect import bisect_right
from collections.abc import Callable

from tersely.condensing.focus import Focus
from tersely.condensing.tree import LEAF, LIST, OBJECT, Tree, grouped_by_dots, read_tree
from tersely.condensing.units import Reading

_STRING = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_QUOTED = r"'([^'\\]*(?:\\.[^'\\]*)*)'"
_ENTRY = re.compile(rf'\s*{_STRING}\s*:\s*(?:{_STRING}|([^\s,{{}}\[\]"\']+)|([{{\[]))\s*,?', re.S)
_LOOSE_ENTRY = re.compile(
    rf'\s*(?:{_STRING}|{_QUOTED}|([A-Za-z_$][\w$.-]*))\s*:\s*(?:{_STRING}|{_QUOTED}|([^\s,{{}}\[\]"\']+(?:\([^()]*\))?)|([{{\[]))\s*,?',
    re.S,
)
"""Also with single quotes or bare keys, as Python and JavaScript print their values."""
_ITEM = re.compile(rf'\s*(?:{_STRING}|([^\s,{{}}\[\]"]+)|([{{\[])|([}}\]]))\s*,?', re.S)
_QUOTED_ITEM = re.compile(rf"\s*{_QUOTED}\s*,?", re.S)
_KEY = re.compile(rf"\s*{_STRING}\s*:\s*", re.S)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_PLAIN = {"n": "\n", "t": "\t", "r": "", "b": "", "f": "", "/": "/", '"': '"', "\\": "\\"}
DEEPEST_INSIDE = 3
"""JSON inside a string inside JSON …: further down it stays a string."""

DEEPEST = 1_000
"""Brackets open at once; what stands deeper is passed over: no reader could be shown the way to it."""


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    return read_parsed(parse(text)[0], focus, budget)


def read_parsed(tree: Tree, focus: Focus, budget: int) -> Reading | None:
    if LEAF not in tree.kind:
        return None
    return read_tree(grouped_by_dots(tree), focus, budget, "json")


_WHOLE_STRING = re.compile(rf"\s*{_STRING}\s*", re.S)


def one_string(text: str) -> str | None:
    """What the text says when it is nothing but one JSON string of several lines."""
    if text.count("\\n", 0, 20_000) < 3 or not text.lstrip().startswith('"'):
        return None
    string = _WHOLE_STRING.fullmatch(text)
    return unescape(string.group(1)) if string else None


def unescape(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(_one_escape, value).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _one_escape(match: re.Match[str]) -> str:
    sign = match.group(1)
    if sign[0] == "u" and len(sign) == 5:
        return chr(int(sign[1:], 16))
    return _PLAIN.get(sign, sign)


def parse(text: str, start: int = 0) -> tuple[Tree, int]:
    """The tree of the JSON documents that follow each other from `start` on, and where they end."""
    tree = Tree()
    breaks = [match.start() for match in re.finditer("\n", text)]
    root, documents, position = -1, 0, start
    while position < len(text):
        opening = _ITEM.match(text, position)
        if opening is None or opening.group(3) is None:
            break
        if documents == 1:
            root = _wrap(tree)
        position = _document(tree, text, opening, root, breaks)
        documents += 1
    return tree, position


_BRACKET = re.compile(r'"(?:[^"\\]*(?:\\.[^"\\]*)*)"|[{}\[\]]', re.S)
_NEXT_DOCUMENT = re.compile(r"\s*,?\s*[{\[]\s*[\"\]}{\[]")


def end_of(text: str, start: int = 0) -> int:
    """Where the JSON documents that follow each other from `start` on end; the end of the text when one is cut off."""
    position = start
    while True:
        depth = 0
        for match in _BRACKET.finditer(text, position):
            sign = text[match.start()]
            if sign in "{[":
                depth += 1
            elif sign in "}]":
                depth -= 1
                if depth <= 0:
                    position = match.end()
                    break
        else:
            return len(text) if depth > 0 else position
        if not _NEXT_DOCUMENT.match(text, position):
            return position


_FIELD_LINE = re.compile(r'\s*"[^"\n]{1,120}"\s*:\s')


def read_cut(text: str, focus: Focus, budget: int) -> Reading | None:
    """JSON whose beginning is missing: from the first field on, with everything that is never opened taken as open."""
    start = _FIELD_LINE.search(text)
    if start is None:
        return None
    tree = Tree()
    breaks = [match.start() for match in re.finditer("\n", text)]
    root = tree.add(-1, "", LIST)
    position = start.start()
    fragment = True
    while position < len(text):
        if fragment:
            # The rest of an object that was opened before the text begins.
            position = _inside(tree, text, position, True, root, breaks)
            fragment = False
            continue
        opening = _ITEM.match(text, position)
        if opening is None:
            position += 1
        elif opening.group(3):
            position = _document(tree, text, opening, root, breaks)
        elif _FIELD_LINE.match(text, position):
            fragment = True
        else:
            position = max(opening.end(), position + 1)
    return read_tree(tree, focus, budget, "json") if len(tree) > 3 else None


def _wrap(tree: Tree) -> int:
    """Put what is there into a list, so that more documents can follow."""
    tree.parent = [-1, *(parent + 1 if parent >= 0 else 0 for parent in tree.parent)]
    tree.key.insert(0, "")
    tree.value.insert(0, "")
    tree.kind.insert(0, LIST)
    tree.line.insert(0, 1)
    tree.whole = {node + 1: text for node, text in tree.whole.items()}
    return 0


def _document(
    tree: Tree, text: str, opening: re.Match[str], root: int, breaks: list[int], depth: int = 0, line: int = 0
) -> int:
    """Read the document that `opening` opens; returns the position after it."""
    return _inside(tree, text, opening.end(), opening.group(3) == "{", root, breaks, depth, line)


def _inside(
    tree: Tree, text: str, position: int, is_object: bool, root: int, breaks: list[int], depth: int = 0, line: int = 0
) -> int:
    """Read iteratively what stands inside a bracket that is open at `position`; returns the position after its end."""
    size = len(text)

    def line_at(at: int) -> int:
        return line or bisect_right(breaks, at) + 1

    node = tree.add(root, "", OBJECT if is_object else LIST, line=line_at(max(0, position - 1)))
    open_nodes = [node]
    kind_bytes = tree.kind

    def opened(owner: int, key: str, bracket: str, at: int) -> int:
        """The node of a bracket that opens, and is open from now on."""
        nonlocal position
        if len(open_nodes) == DEEPEST:
            position = _passed(text, position)
            return owner
        open_nodes.append(tree.add(owner, key, OBJECT if bracket == "{" else LIST, line=at))
        return open_nodes[-1]

    entry_match, item_match = _ENTRY.match, _ITEM.match
    while open_nodes and position < size:
        if kind_bytes[node] == OBJECT:
            match = entry_match(text, position)
            if match is not None:
                key, string, scalar, bracket = match.groups()
                if "\\" in key:
                    key = unescape(key)
                position = match.end()
                at = line_at(match.start(1))
                if bracket is not None:
                    node = opened(node, key, bracket, at)
                elif string is not None:
                    _add_string(tree, node, key, string, at, depth)
                else:
                    tree.add_value(node, key, scalar, at)
                continue
            loose = _LOOSE_ENTRY.match(text, position)
            if loose is not None:
                double, single, bare, string, quoted, scalar, bracket = loose.groups()
                key = unescape(double if double is not None else single if single is not None else bare)
                position = loose.end()
                at = line_at(loose.start())
                if bracket is not None:
                    node = opened(node, key, bracket, at)
                elif scalar is not None:
                    tree.add_value(node, key, scalar, at)
                else:
                    _add_string(tree, node, key, string if string is not None else quoted, at, depth)
                continue
        elif (quoted_item := _QUOTED_ITEM.match(text, position)) is not None:
            position = quoted_item.end()
            _add_string(tree, node, "", quoted_item.group(1), line_at(quoted_item.start(1)), depth)
            continue
        match = item_match(text, position)
        if match is None:
            position = _recover(tree, text, node, position, line_at)
            if position >= size:
                break
            continue
        string, scalar, bracket, closing = match.groups()
        if closing is not None:
            open_nodes.pop()
            position = match.end()
            if not open_nodes:
                # A comma after the last bracket belongs to whoever follows.
                return match.end(4)
            node = open_nodes[-1]
            continue
        if kind_bytes[node] == OBJECT:
            # A value without a key, or a key without a value: a cut or damaged place.
            if bracket is not None:
                position = match.end()
                node = opened(node, "", bracket, line_at(match.start(3)))
                continue
            key_only = _KEY.match(text, position)
            if key_only and text[key_only.end() : key_only.end() + 1] == '"':
                # The string never ends: the text was cut inside it.
                tree.add_value(
                    node, unescape(key_only.group(1)), unescape(text[key_only.end() + 1 :].rstrip()), line_at(position)
                )
                return size
            position = match.end()
            continue
        position = match.end()
        if bracket is not None:
            node = opened(node, "", bracket, line_at(match.start(3)))
        elif string is not None:
            _add_string(tree, node, "", string, line_at(match.start(1)), depth)
        else:
            tree.add_value(node, "", scalar, line_at(match.start(2)))
    return position


def _passed(text: str, position: int) -> int:
    """The position after the end of a bracket that is open at `position`."""
    depth = 1
    for match in _BRACKET.finditer(text, position):
        sign = text[match.start()]
        depth += 1 if sign in "{[" else -1 if sign in "}]" else 0
        if not depth:
            return match.end()
    return len(text)


def _recover(tree: Tree, text: str, node: int, position: int, line_at: Callable[[int], int]) -> int:
    """At a place that is no JSON: a string that is cut off is kept, anything else skipped."""
    key = _KEY.match(text, position)
    at = (
        key.end()
        if key
        else position + len(text[position : position + 200]) - len(text[position : position + 200].lstrip())
    )
    if text[at : at + 1] == '"':
        rest = text[at + 1 :]
        if rest.strip():
            tree.add_value(node, unescape(key.group(1)) if key else "", unescape(rest.rstrip()), line_at(position))
        return len(text)
    return max(at, position + 1)


def _add_string(tree: Tree, node: int, key: str, string: str, line: int, depth: int) -> None:
    add_string(tree, node, key, unescape(string), line, depth)


def add_string(tree: Tree, node: int, key: str, value: str, line: int, depth: int = 0) -> None:
    """Add a value; when it is JSON itself, as what it holds."""
    if len(value) > 20 and value[0] in "{[" and value[-1] in "}]" and depth < DEEPEST_INSIDE:
        opening = _ITEM.match(value)
        if (opening and opening.group(3) and _ENTRY.match(value, opening.end())) or (opening and value[0] == "["):
            before = len(tree)
            end = _document(tree, value, opening, node, [], depth + 1, line)
            if end >= len(value) - 1 and len(tree) > before + 1:
                tree.key[before] = key
                return
            _forget(tree, before)
    tree.add_value(node, key, value, line)


def _forget(tree: Tree, size: int) -> None:
    del tree.parent[size:], tree.key[size:], tree.value[size:], tree.kind[size:], tree.line[size:]
    for node in [node for node in tree.whole if node >= size]:
        del tree.whole[node]
