"""Indented text as a tree: YAML (many documents), `describe` output, INI, stanzas of `key: value`.

One fast parser by indentation. Not a validator: it accepts tags, anchors and odd
indentation as they are, turns a line it cannot split into a value without a key, and
never rejects a text.
"""

import re
import textwrap
from collections import Counter

from tersely.shapes import json_tree
from tersely.shapes.tree import LEAF, LIST, OBJECT, TEXT, Tree, grouped_by_dots

LONGEST_LINE = 4_000
"""Longer lines are split at the first `: ` only, to keep patterns with several repeats cheap."""

KEY_LINE = re.compile(r"\s*(?:- +)*(?:[\"']?[A-Za-z_/.$<*0-9][^:\"'#{}\[\]]{0,80}[\"']?)\s*:(?:\s|$)")
ITEM_LINE = re.compile(r"\s*[-*•+–] \S|\s*-$")
SECTION_LINE = re.compile(r"\s*\[[^\]]{1,80}\]\s*$")
ASSIGNMENT = re.compile(r"\s*[A-Za-z_][\w.\-/ ]{0,60}?\s*(?:=(?!=)|[-=]>|\s[^\w\s\"'()\[\]{}<>,;|]{1,3}\s\s*\S+$)")

_YAML_KEY = re.compile(
    r"(\"(?:[^\"\\]|\\.)*\"|'(?:[^']|'')*'|[^\s#\"'\[{&*!|>%@`-][^#]*?|-[^\s][^#]*?|[*&!?][^:]*?)\s*:(?:\s+(.*))?$"
)
_OUTLINE_KEY = re.compile(r"([^\s:=][^:=]{0,60}?)\s*(?::(?:\s+|$)|[-=]>\s*|=\s*(?!=))(.*)$")
_LEADING_KEY = re.compile(r"\s*([A-Za-z][\w -]{0,40}):(?=\s)")
_FEWEST_KEYS = 4
_WIDE_GAP = re.compile(r"(\S(?:(?! {2}).){0,40}) {2,}(\S(?:(?! {2}).)*)$")
_STRANGE_SIGN = re.compile(r"([A-Za-z_][\w.-]{0,60}(?: [\w.-]+){0,4}?)\s+[^\w\s\"'()\[\]{}<>,;]{1,3}\s+(\S.*)$")
_EMPTY_CELL = re.compile(r"([A-Za-z_][\w.-]{0,60}(?: [\w.-]+){0,4}?)\s+\|()$")
"""A name without a value, as in `\\x` of psql."""
_BRANCH = re.compile(r"^[\s│┃|]*(?:[├└┣┗|`+\\][─━-]{1,3}[┬]?\s?)(?=\S)|^[\s│┃|]+(?=\S)")
_COUNTED_RULE = re.compile(
    r"[-=*]{1,}\s*\[?\s*(?:record|row|item|entry)?\s*#?\d+\.?\s*(?:row|record)?\s*\]?\s*[-=*]{2,}\s*$", re.I
)
_BLOCK = re.compile(r"(?:![\w!/.-]*\s+)?[|>][-+0-9]*\s*(?:#.*)?$")
_SECTION = re.compile(r"(\[{1,2}[^\[\]]{1,80}\]{1,2})\s*$")
_HEADING = re.compile(r"(#{1,6})\s+(?=\S)")
_RULE = re.compile(r"\s*[-=_*~#]{3,}[\s=-]*$")
_HEADER_RULE = re.compile(r"\s*[-=]{2,}(?:\s+[-=]{2,})+\s*$")
"""The line below the header of a table: a rule for each column."""
_BLANKS = re.compile(r"\s+")
_ROW_COUNT = re.compile(r"\(\d+ rows?\)$")
"""The last line of a query result: the next result, although indented, does not belong to it."""


def are_fields(lines: list[str]) -> bool:
    """Whether most lines are a key with its value, an item of a list, or the title of a section."""
    kinds = (KEY_LINE, ITEM_LINE, ASSIGNMENT, SECTION_LINE)
    return sum(1 for line in lines for kind in kinds if kind.match(line)) >= 0.7 * len(lines)


def parse(text: str, *, yaml: bool) -> Tree:
    lines = text.expandtabs(8).split("\n")
    if not yaml:
        if any(sign in text for sign in ("├", "└", "|--", "`--")):
            lines = [_BRANCH.sub(lambda match: " " * len(match.group()), line) for line in lines]
        # A counted rule between records means the same as a blank line.
        lines = ["" if line[:1] in "-*=" and _COUNTED_RULE.match(line) else line for line in lines]
    _repair_cut_start(lines)
    return _Outline(lines, yaml).tree


def _repair_cut_start(lines: list[str]) -> None:
    """Repair, in place, a list that begins in the middle of a record.

    The partial record becomes an item too, and all items move to the margin.
    """
    filled = [at for at, line in enumerate(lines[:400]) if line.strip()]
    items = Counter(_indent(lines[at]) for at in filled if lines[at].lstrip().startswith("- "))
    if not items:
        return
    depth, times = min(items.items(), key=lambda pair: (-pair[1], pair[0]))
    first = next(at for at in filled if _indent(lines[at]) == depth and lines[at].lstrip().startswith("- "))
    # Before the first item only the partial record is allowed; after it only items at their depth and deeper lines.
    if times < 3 or first > 100 or (first == filled[0] and depth == 0):
        return
    if any(_indent(lines[at]) < depth + (not lines[at].lstrip().startswith("- ")) for at in filled if at > first):
        return
    if any(_indent(lines[at]) <= depth for at in filled if filled[0] < at < first):
        return
    if first != filled[0]:
        rest = lines[filled[0]].strip()
        if rest.endswith(":") or rest.startswith(("---", "#", "%")):
            return  # A heading: the list is complete.
        lines[filled[0]] = " " * depth + "- " + rest.removeprefix("- ")
    for at, line in enumerate(lines):
        lines[at] = line[min(depth, _indent(line)) :]


def _keys_end_aligned(lines: list[str]) -> bool:
    """Whether keys are indented so that their colons are below each other, as `stat` and `systemctl status` do."""
    keys = [found for line in lines[:200] if (found := _LEADING_KEY.match(line))]
    if len(keys) < _FEWEST_KEYS or len({found.start(1) for found in keys}) < 2:
        return False
    _, times = Counter(found.end(1) for found in keys).most_common(1)[0]
    return times >= 0.9 * len(keys)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


class _Outline:
    """State of one pass over the lines."""

    def __init__(self, lines: list[str], yaml: bool) -> None:
        self.lines = lines = [line.lstrip() for line in lines] if not yaml and _keys_end_aligned(lines) else lines
        self.yaml = yaml
        self.tree = Tree()
        self.headed = not yaml and sum(1 for line in lines[:2_000] if line[:1] == "#" and _HEADING.match(line)) >= 3
        self.first_key, self.by_blank = (None, False) if yaml or self.headed else _stanzas(lines)
        self.titled = self.first_key is not None and _has_titles(lines, self.first_key)
        """Whether the line above the first key, without a key, names the record."""
        self.many = yaml and any(line.startswith("---") for line in lines[1:])
        records = self.many or self.first_key is not None or self.by_blank
        bulleted = sum(1 for line in lines[:400] if line.startswith(("- ", "* ", "• "))) > 2 and not any(
            line[:1].isalnum() for line in lines[:400]
        )
        self.root = self.tree.add(-1, "", LIST if records or bulleted else OBJECT)
        self.records = records
        self.stack: list[tuple[float, int]] = [(-1.0, self.root)]
        self.fresh = True  # Nothing was added to the current record yet.
        self.after_blank = True
        self._parse()
        self._demote_empty_owners()
        if not yaml and not records:
            self.tree = grouped_by_dots(self.tree)

    def _new_record(self, line: int, opening: str = "") -> None:
        node = self.tree.add(self.root, "", OBJECT, line=line)
        self.tree.joint[node] = opening
        self.stack = [(-1.0, node)]
        self.fresh = True

    def _parse(self) -> None:
        """Read all lines; a step may consume several lines (a block scalar) and returns the next one."""
        if self.records:
            self._new_record(1)
        at = 0
        while at < len(self.lines):
            line = self.lines[at]
            content = line.strip()
            at += 1
            if not content:
                self.after_blank = True
            elif not self._is_skipped(line, content, at):
                at = self._line(content, len(line) - len(line.lstrip()), at)
        if self.records and self.fresh and len(self.tree) > 2:
            self.tree.drop_last()  # A separator after the last record opens none.

    def _is_skipped(self, line: str, content: str, number: int) -> bool:
        """Whether a line is only a separator or comment; a separator between YAML documents opens a new record."""
        if not self.yaml:
            return content[0] in "-=_*~#" and bool(_RULE.match(line))
        if content[0] == "#" and len(content) < 200:
            return True
        if line.startswith(("---", "...")):
            if self.many and not self.fresh:
                self._new_record(number, content)
            return True
        return False

    def _line(self, content: str, indent: int, number: int) -> int:
        """Add one line to the tree; return the next line's index, which is `number` unless the value spans lines."""
        if self.by_blank and self.after_blank and indent == 0 and not self.fresh:
            self._new_record(number)
        self.after_blank = False
        if indent == 0 and self._opens_section(content, number):
            self.fresh = False
            return number
        if not self.yaml and content[:2] in ("* ", "• ", "+ ", "– "):
            content = "- " + content[2:]
        at = number
        if content[0] == "-":
            content, indent, at = self._items(content, indent, number)
            if not content:
                self.fresh = False
                return at
        split = self._split(content)
        if self.first_key is not None and indent == 0 and not self.fresh and self._opens_record(split, number):
            self._new_record(number)
        self.fresh = False
        parent = self._parent(indent)
        if self._opens_table(number):
            node = self.tree.add(parent, "", OBJECT, " ".join(content.split()), number)
            self.tree.headers.add(node)
            self.stack.append((indent - 0.25, node))
            return number + 1
        if split is None or parent in self.tree.headers:
            return self._plain(parent, content, number, at, indent)
        return self._entry(parent, split, content, indent, number)

    def _opens_record(self, split: tuple[str, str] | None, number: int) -> bool:
        """Whether a line is the first key of a record, or the title above it."""
        key = split[0] if split is not None else ""
        if not self.titled:
            return key == self.first_key
        if key == self.first_key:
            return not _is_title(self.lines[number - 2])
        return _is_title(self.lines[number - 1]) and _key_of(self.lines[number : number + 1]) == self.first_key

    def _opens_table(self, number: int) -> bool:
        """Whether a line is the header of a table: the owner of its rows, which say little without it."""
        below = self.lines[number] if not self.yaml and number < len(self.lines) else ""
        return "--" in below and _HEADER_RULE.match(below) is not None

    def _opens_section(self, content: str, number: int) -> bool:
        """Add an INI section or a Markdown heading, if the line is one."""
        if content[0] == "[" and not self.yaml and (section := _SECTION.match(content)):
            base = self.stack[0]
            node = self.tree.add(base[1], section.group(1), OBJECT, line=number)
            self.stack = [base, (-0.5, node)]
            return True
        if content[0] == "#" and self.headed and (heading := _HEADING.match(content)):
            depth = -0.99 + 0.05 * len(heading.group(1))
            node = self.tree.add(self._parent(depth), content, OBJECT, line=number)
            self.stack.append((depth, node))
            return True
        return False

    def _items(self, content: str, indent: int, number: int) -> tuple[str, int, int]:
        """Add the list items that a line opens; return the rest of the line, its indentation and the next line."""
        tree = self.tree
        while (content.startswith("- ") or content == "-") and (self.yaml or len(content) > 2):
            parent = self._parent(indent + 0.5)
            rest = content[1:].lstrip()
            step = len(content) - len(rest)
            if tree.kind[parent] == OBJECT and tree.value[parent]:
                # Bullets under a bullet that is a name are its fields.
                return rest, indent + step, number
            if tree.kind[parent] == OBJECT and parent == len(tree) - 1:
                tree.kind[parent] = LIST
            if self._split(rest) is None and not rest.startswith("- "):
                # A plain item.
                at = self._value(parent, "", rest, number, number, indent)
                self.stack.append((indent + 0.5, len(tree) - 1))
                return "", indent, at
            node = tree.add(parent, "", OBJECT, line=number)
            self.stack.append((indent + 0.5, node))
            indent += step
            content = rest
        return content, indent, number

    def _entry(self, parent: int, split: tuple[str, str], content: str, indent: int, number: int) -> int:
        """Add a key with its value, or as the owner of the lines below it."""
        key, value = split
        at = number
        if value:
            at = self._value(parent, key, value, number, at, indent)
            node = self._last_under(parent)
            joint = _BLANKS.sub(" ", content[len(key) : len(content) - len(value)])
            if not self.yaml and joint != ": ":
                self.tree.joint[node] = joint
        else:
            node = self.tree.add(parent, key, OBJECT, line=number)
            if content[-1] == "|":
                self.tree.joint[node] = _BLANKS.sub(" ", content[len(key) :])
        self.stack.append((float(indent), node))
        return at

    def _last_under(self, parent: int) -> int:
        node = len(self.tree) - 1
        while self.tree.parent[node] != parent:
            node = self.tree.parent[node]
        return node

    def _parent(self, indent: float) -> int:
        stack, tree = self.stack, self.tree
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        parent = stack[-1][1]
        if tree.kind[parent] == LEAF:
            # A value with lines under it keeps its value and becomes their owner.
            tree.kind[parent] = OBJECT
        elif tree.kind[parent] == TEXT:
            parent = tree.parent[parent]
        return parent

    def _split(self, content: str) -> tuple[str, str] | None:
        if len(content) > LONGEST_LINE:
            key, sign, value = content[:200].partition(": ")
            return (key, content[len(key) + 2 :]) if sign and len(key) < 100 else None
        if self.yaml:
            match = _YAML_KEY.match(content)
            if match is None:
                return None
            key, value = match.group(1), match.group(2) or ""
            if value and value[0] in "!&" and " " not in value:
                value = ""  # A tag or an anchor; its value follows.
            if key[0] in "\"'" and key[-1] == key[0]:
                key = key[1:-1]
            return key, value
        match = _OUTLINE_KEY.match(content)
        if match and match.group(1).count(" ") <= 7:
            return match.group(1), match.group(2).strip()
        match = _STRANGE_SIGN.match(content) or _EMPTY_CELL.match(content)
        if match:
            return match.group(1), match.group(2)
        match = _WIDE_GAP.match(content)
        if match and match.group(1).count(" ") <= 4:
            return match.group(1), match.group(2)
        return None

    def _plain(self, parent: int, content: str, number: int, at: int, indent: int) -> int:
        """Add a line without a key: in YAML the rest of a value, elsewhere a value of its own."""
        tree = self.tree
        last = len(tree) - 1
        if self.yaml and parent == last and tree.kind[parent] == OBJECT and tree.value[parent]:
            tree.kind[parent] = LEAF
            if len(tree.value[parent]) < 4_000:
                tree.value[parent] += " " + content
                tree.ends[parent] = number
            return at
        # Rows of a table end up here too; their alignment is lost already.
        node = tree.add_value(parent, "", " ".join(content.split()), number)
        if not _ROW_COUNT.match(content):
            self.stack.append((float(indent), node))
        return at

    def _value(self, parent: int, key: str, value: str, number: int, at: int, indent: int) -> int:
        """Add a value, including the lines of a block scalar if it opens one; return the next line."""
        tree = self.tree
        if self.yaml and _BLOCK.match(value):
            block: list[str] = []
            first = at
            while at < len(self.lines):
                line = self.lines[at]
                if line.strip() and len(line) - len(line.lstrip()) <= indent:
                    break
                block.append(line.strip())
                at += 1
            blank = next((place for place, line in enumerate(block) if line), 0)
            node = tree.add_value(parent, key, "\n".join(block).strip(), number, first + 1 + blank)
            if node in tree.whole:
                tree.whole[node] = textwrap.dedent("\n".join(self.lines[first:at]))
                tree.apart.add(node)
            else:
                tree.ends[node] = at
            return at
        if self.yaml and len(value) > 1 and value[0] in "\"'":
            if value[-1] == value[0]:
                value = value[1:-1] or value
            else:
                quote, parts = value[0], [value[1:]]
                while at < len(self.lines) and len(parts) < 2_000:
                    line = self.lines[at].strip()
                    at += 1
                    parts.append(line[:-1] if line.endswith(quote) else line)
                    if line.endswith(quote):
                        break
                value = " ".join(parts)
        if len(value) > 1 and value[0] in "{[" and '"' in value:
            json_tree.add_string(tree, parent, key, value, number)
            return at
        node = tree.add_value(parent, key, value, number)
        if at > number and tree.kind[node] == LEAF:
            tree.ends[node] = at
        return at

    def _demote_empty_owners(self) -> None:
        """Turn owners without children into values."""
        tree = self.tree
        owning = bytearray(len(tree))
        for parent in tree.parent:
            if parent >= 0:
                owning[parent] = 1
        for node in range(len(tree)):
            if tree.kind[node] == OBJECT and not owning[node]:
                tree.kind[node] = LEAF


def _key_of(lines: list[str]) -> str:
    """Return the key of the first of some lines, if it is not indented."""
    match = _OUTLINE_KEY.match(lines[0].rstrip()) if lines and lines[0][:1] != " " else None
    return match.group(1) if match else ""


def _is_title(line: str) -> bool:
    return bool(line) and line[0] != " " and not _OUTLINE_KEY.match(line.rstrip()) and not _RULE.match(line)


def _has_titles(lines: list[str], first_key: str) -> bool:
    """Whether most records have a line without a key right above their first key, as in `/proc/self/smaps`."""
    places = [at for at in range(min(len(lines), 4_000)) if _key_of(lines[at : at + 1]) == first_key]
    return len(places) >= 3 and sum(1 for at in places if at and _is_title(lines[at - 1])) > 0.5 * len(places)


def _stanzas(lines: list[str]) -> tuple[str | None, bool]:
    """Find how records are separated in a flat text: by a key that starts each of them, or by blank lines."""
    if sum(1 for line in lines[:2_000] if line[:1] == "[" and _SECTION.match(line)) >= 3:
        return None, False
    first_keys: Counter[str] = Counter()
    all_keys: Counter[str] = Counter()
    stanzas = rows = 0
    blank = True
    opening: str | None = None
    for line in lines[:4_000]:
        if not line.strip():
            blank = True
            continue
        if line[0] != " ":
            match = _OUTLINE_KEY.match(line.strip())
            key = match.group(1) if match else ""
            if key:
                all_keys[key] += 1
                opening = opening or key
            if blank:
                stanzas += 1
                if key:
                    first_keys[key] += 1
        rows += 1
        blank = False
    if first_keys:
        key, times = max(first_keys.items(), key=lambda pair: pair[1])
        if times >= 3 and times >= 0.6 * stanzas and all_keys[key] == times:
            return key, False
    if opening and all_keys[opening] >= 3 and len(all_keys) >= 2:
        return opening, False
    if stanzas >= 4 and rows >= 2.5 * stanzas:
        return None, True
    return None, False
