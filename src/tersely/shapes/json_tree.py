"""JSON as a tree: complete, truncated, several documents, JSON lines, JSON inside strings.

A tolerant scanner instead of `json.loads`: one regular expression match per value,
positions for line numbers, no recursion, and a truncated document is read as far as it
goes. Values keep the spelling of the source.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from sys import intern

from tersely.shapes.tree import LEAF, LIST, OBJECT, Tree

_STRING = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_QUOTED = r"'([^'\\]*(?:\\.[^'\\]*)*)'"
_ENTRY = re.compile(rf'\s*{_STRING}\s*:\s*(?:{_STRING}|([^\s,{{}}\[\]"\']+)|([{{\[]))\s*,?', re.S)
_LOOSE_ENTRY = re.compile(
    rf'\s*(?:{_STRING}|{_QUOTED}|([A-Za-z_$][\w$.-]*))\s*:\s*(?:{_STRING}|{_QUOTED}|([^\s,{{}}\[\]"\']+(?:\([^()]*\))?)|([{{\[]))\s*,?',
    re.S,
)
"""Also accepts single quotes and bare keys, as Python and JavaScript print their values."""
_ITEM = re.compile(rf'\s*(?:{_STRING}|([^\s,{{}}\[\]"]+)|([{{\[])|([}}\]]))\s*,?', re.S)
_QUOTED_ITEM = re.compile(rf"\s*{_QUOTED}\s*,?", re.S)
_KEY = re.compile(rf"\s*{_STRING}\s*:\s*", re.S)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.S)
_PLAIN = {"n": "\n", "t": "\t", "r": "", "b": "", "f": "", "/": "/", '"': '"', "\\": "\\"}
DEEPEST_INSIDE = 3
"""Levels of JSON inside a JSON string; deeper levels stay strings."""

_SHORTEST_DOCUMENT = 20
"""In characters. A string that is not longer is a value, whatever is in it."""

DEEPEST = 1_000
"""Open brackets at once; deeper values are skipped, because no output could show the path to them."""


_WHOLE_STRING = re.compile(rf"\s*{_STRING}\s*", re.S)


EMPTY_KEY = '""'
"""How a key without characters is shown, so that its values are not taken for those of the object around it."""


def one_string(text: str) -> str | None:
    """Return the content of a text that is a single JSON string of several lines."""
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
    """Parse the consecutive JSON documents from `start` on; return the tree and the position after them."""
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


_BRACKET = re.compile(r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+){1,100}|[{}\[\]"]', re.S)
_BARE_BRACKET = re.compile(r"[{}\[\]]")
_NEXT_DOCUMENT = re.compile(r"\s*,?\s*[{\[]\s*[\"\]}{\[]")


def end_of(text: str, start: int = 0) -> int:
    """Return where the consecutive JSON documents from `start` on end; the end of the text if the last is truncated."""
    position = start
    while True:
        depth = 0
        matches = _BRACKET.finditer(text, position)
        while (match := next(matches, None)) is not None:
            sign = text[match.start()]
            if sign in "{[":
                depth += 1
            elif sign in "}]":
                depth -= 1
                if depth <= 0:
                    position = match.end()
                    break
            elif match.end() - match.start() == 1:
                # This string never ends, so all quotes after it are escaped: none of them opens one that does.
                matches = _BARE_BRACKET.finditer(text, match.end())
        else:
            return len(text) if depth > 0 else position
        if not _NEXT_DOCUMENT.match(text, position):
            return position


_WORDS = re.compile(r'(?:\s*[^\s,{}\[\]"]+\s*,?){1,1000}')
_FIELD_LINE = re.compile(r'\s*"[^"\n]{1,120}"\s*:\s')


def parse_cut(text: str) -> Tree:
    """Parse JSON whose beginning is missing, from the first field on; brackets that were never opened count as open."""
    tree = Tree()
    start = _FIELD_LINE.search(text)
    if start is None:
        return tree
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
        if words := _WORDS.match(text, position):
            position = words.end()
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
    return tree


def _wrap(tree: Tree) -> int:
    """Wrap the tree in a list, so that more documents can follow."""
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
    """Read the document that `opening` opens; return the position after it."""
    return _inside(tree, text, opening.end(), opening.group(3) == "{", root, breaks, depth, line)


def _inside(
    tree: Tree, text: str, position: int, is_object: bool, root: int, breaks: list[int], depth: int = 0, line: int = 0
) -> int:
    """Read the inside of a bracket that is open at `position`, without recursion; return the position after its end."""
    return _Scanner(tree, text, breaks, depth, line).read(position, is_object, root)


class _Scanner:
    """Scanner for one bracket and everything inside it; the methods take a position and return the next one."""

    __slots__ = ("breaks", "depth", "line", "open_nodes", "text", "tree")

    def __init__(self, tree: Tree, text: str, breaks: list[int], depth: int, line: int) -> None:
        self.tree = tree
        self.text = text
        self.breaks = breaks
        self.depth = depth
        self.line = line
        self.open_nodes: list[int] = []

    def read(self, position: int, is_object: bool, root: int) -> int:
        text, open_nodes, kinds = self.text, self.open_nodes, self.tree.kind
        size = len(text)
        kind = OBJECT if is_object else LIST
        open_nodes.append(self.tree.add(root, "", kind, line=self._line_at(max(0, position - 1))))
        entry_match = _ENTRY.match
        while open_nodes and position < size:
            if kinds[open_nodes[-1]] != OBJECT:
                position = self._item(position)
            elif (match := entry_match(text, position)) is not None:
                position = self._entry(match)
            elif (match := _LOOSE_ENTRY.match(text, position)) is not None:
                position = self._loose_entry(match)
            else:
                position = self._damaged_entry(position)
        return position

    def _line_at(self, at: int) -> int:
        return self.line or bisect_right(self.breaks, at) + 1

    def _entry(self, match: re.Match[str]) -> int:
        key, string, scalar, bracket = match.groups()
        # Records repeat their keys; one copy of each serves all.
        key = intern(unescape(key) if "\\" in key else key or EMPTY_KEY)
        at = self._line_at(match.start(1))
        if bracket is not None:
            return self._open(key, bracket, at, match.end())
        if string is None:
            self.tree.add_value(self.open_nodes[-1], key, scalar, at)
        elif "\\" in string or len(string) > _SHORTEST_DOCUMENT:
            _add_string(self.tree, self.open_nodes[-1], key, string, at, self.depth)
        else:
            self.tree.add(self.open_nodes[-1], key, LEAF, string, at)
        return match.end()

    def _loose_entry(self, match: re.Match[str]) -> int:
        double, single, bare, string, quoted, scalar, bracket = match.groups()
        key = unescape(double if double is not None else single if single is not None else bare) or EMPTY_KEY
        at = self._line_at(match.start())
        if bracket is not None:
            return self._open(key, bracket, at, match.end())
        if scalar is not None:
            self.tree.add_value(self.open_nodes[-1], key, scalar, at)
        else:
            _add_string(self.tree, self.open_nodes[-1], key, string if string is not None else quoted, at, self.depth)
        return match.end()

    def _damaged_entry(self, position: int) -> int:
        """Read the end of an object, a value without a key or, where the text is truncated, a key without a value."""
        match = _ITEM.match(self.text, position)
        if match is None:
            return _recover(self.tree, self.text, self.open_nodes[-1], position, self._line_at)
        if match.group(4) is not None:
            return self._close(match)
        if match.group(3) is not None:
            return self._open("", match.group(3), self._line_at(match.start(3)), match.end())
        key = _KEY.match(self.text, position)
        if key and self.text[key.end() : key.end() + 1] == '"':
            # The string has no end: the text was truncated inside it.
            value = unescape(self.text[key.end() + 1 :].rstrip())
            self.tree.add_value(self.open_nodes[-1], unescape(key.group(1)), value, self._line_at(position))
            return len(self.text)
        return match.end()

    def _item(self, position: int) -> int:
        """Read an item of a list, or the end of the list."""
        node = self.open_nodes[-1]
        match = _QUOTED_ITEM.match(self.text, position)
        if match is not None:
            _add_string(self.tree, node, "", match.group(1), self._line_at(match.start(1)), self.depth)
            return match.end()
        match = _ITEM.match(self.text, position)
        if match is None:
            return _recover(self.tree, self.text, node, position, self._line_at)
        string, scalar, bracket, closing = match.groups()
        if closing is not None:
            return self._close(match)
        if bracket is not None:
            return self._open("", bracket, self._line_at(match.start(3)), match.end())
        if string is not None:
            _add_string(self.tree, node, "", string, self._line_at(match.start(1)), self.depth)
        else:
            self.tree.add_value(node, "", scalar, self._line_at(match.start(2)))
        return match.end()

    def _open(self, key: str, bracket: str, at: int, position: int) -> int:
        if len(self.open_nodes) == DEEPEST:
            return _after_bracket(self.text, position)
        kind = OBJECT if bracket == "{" else LIST
        self.open_nodes.append(self.tree.add(self.open_nodes[-1], key, kind, line=at))
        return position

    def _close(self, match: re.Match[str]) -> int:
        self.open_nodes.pop()
        # A comma after the last bracket belongs to the next document.
        return match.end() if self.open_nodes else match.end(4)


def _after_bracket(text: str, position: int) -> int:
    """Return the position after the end of a bracket that is open at `position`."""
    depth = 1
    for match in _BRACKET.finditer(text, position):
        sign = text[match.start()]
        depth += 1 if sign in "{[" else -1 if sign in "}]" else 0
        if not depth:
            return match.end()
    return len(text)


def _recover(tree: Tree, text: str, node: int, position: int, line_at: Callable[[int], int]) -> int:
    """Handle a place that is not JSON: keep a truncated string, skip anything else."""
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
    """Add a string value; if it is JSON itself, add its content."""
    if len(value) > _SHORTEST_DOCUMENT and value[0] in "{[" and value[-1] in "}]" and depth < DEEPEST_INSIDE:
        opening = _ITEM.match(value)
        if (opening and opening.group(3) and _ENTRY.match(value, opening.end())) or (opening and value[0] == "["):
            before = len(tree)
            end = _document(tree, value, opening, node, [], depth + 1, line)
            if end >= len(value) - 1 and len(tree) > before + 1:
                tree.key[before] = key
                return
            _truncate(tree, before)
    tree.add_value(node, key, value, line)


def _truncate(tree: Tree, size: int) -> None:
    del tree.parent[size:], tree.key[size:], tree.value[size:], tree.kind[size:], tree.line[size:]
    for node in [node for node in tree.whole if node >= size]:
        del tree.whole[node]
