"""Source trees for `bench.truth`: JSON, YAML and XML parsed by the libraries of others, compared with shown values.

    root = of_json(text)
    list(unknown_values(condensed_text, root))         lines with a value that is not at its path
    list(wrong_value_counts(condensed_text, root))     `[60 records; phase: done ×6, …]` that differ from the source

Nothing of the condenser's own parsers is used, so that a mistake in them is found.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree

import yaml

_SHARE = re.compile(r"\[(\d[\d,]*) of (\d[\d,]*)\](?: |$)")
_OWNER_NAME = re.compile(r"\[[^\[\]]{1,120}\](?: |$)")
_SERIES = re.compile(
    r"(\d+) values, first (\S+?)(?: @\S+)?, last (\S+?)(?: @\S+)?, min (\S+?)(?: @\S+)?, max (\S+?)(?: @|,|$)"
)
_COUNTED = re.compile(r"\[(all )?(\d[\d,]*) ([^;:\]\s]+)(?:; |: )(.*)(?:\]|(,? …))$")
_PLACE = re.compile(r"[\w.\[\]-]+(?: \(.*\))?:")
_INSIDE = re.compile(r"[\w.\[\]-]*\w(?:\[\d+\])?(?:\.[\w-]+)* \(.*\):|[\w-]+\[\d+\][\w.\[\]-]*:")
"""The place of a text inside a value, above what is shown of it: `content[0].text (type: text):`."""
_TIMES = re.compile(r"(.*?) ×(\d[\d,]*)(?:, |$)", re.S)
_RANGE = re.compile(r"(-?\S+) – (-?\S+?)(?:, |$)")
_POSITION = re.compile(r"\[(\d+)\]")
"""A value of a short list that all records have in the same length: `value[1]`."""
_NAMES = ("key", "name", "attribute", "property", "field")
_VALUES = ("value", "values")
_FILLED = re.compile(r"\S")
_EQUAL = re.compile(r" ×\d+")
LONG_VALUE = 320
LONG_TEXT = 1_000
MANY_LINES = 12
"""A text of so many characters, or a list of so many lines, is shown as its kind is, below its path."""


@dataclass(eq=False)
class Node:
    """A value with its key; `inside` is None for plain values. A text that is JSON has both and is shown as either."""

    key: str
    value: str = ""
    inside: "list[Node] | None" = None
    listed: bool = False
    """Whether `inside` has no keys."""
    spelled: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.spelled = (self.value or '""').replace("\n", "\\n")


def of_json(text: str) -> Node | None:
    """Return the tree of JSON, or of several JSON documents in a row as a list; None if it is not JSON."""
    decoder = json.JSONDecoder(object_pairs_hook=_Pairs, parse_float=_Raw, parse_int=_Raw, parse_constant=_Raw)
    found: list[Node] = []
    at = 0
    try:
        while (begin := _FILLED.search(text, at)) is not None:
            value, at = decoder.raw_decode(text, begin.start())
            found.append(_node("", value))
    except (ValueError, RecursionError):
        return None
    if len(found) == 1:
        return found[0]
    return Node("", inside=found, listed=True) if found else None


class _Pairs(list):  # type: ignore[type-arg]
    """Pairs of an object, repeated keys included."""


class _Raw(str):
    """A number as it is written."""


def _node(key: str, value: object) -> Node:
    if isinstance(value, list | dict) and not value:
        return Node(key, "{}" if isinstance(value, _Pairs | dict) else "[]")
    if isinstance(value, _Pairs):
        return Node(key, inside=_grouped([_node(str(name) or '""', inner) for name, inner in value]))
    if isinstance(value, dict):
        return Node(key, inside=[_node(str(name) or '""', inner) for name, inner in value.items()])
    if isinstance(value, list):
        return Node(key, inside=[_node("", inner) for inner in value], listed=True)
    if isinstance(value, bool) or value is None:
        return Node(key, json.dumps(value))
    text = str(value)
    if len(text) > 1 and text[0] in "{[" and '"' in text:
        inner = of_json(text)
        if inner is not None and inner.inside:
            return Node(key, text, inner.inside, inner.listed)
    return Node(key, text)


def _grouped(inside: list[Node]) -> list[Node]:
    """Return settings with dotted keys below the part that they share, which is written once."""
    dotted = [node for node in inside if "." in node.key.strip(".") and node.inside is None]
    fields = {node.key.rpartition(".")[2] for node in dotted}
    if len(dotted) < max(12, 0.8 * len(inside)) or len(fields) > len(dotted) / 3:
        return inside
    found: list[Node] = []
    for node in inside:
        prefix, _, name = node.key.rpartition(".")
        if not prefix:
            found.append(node)
        elif found and found[-1].key == prefix and found[-1].inside is not None:
            found[-1].inside.append(Node(name, node.value))
        else:
            found.append(Node(prefix, inside=[Node(name, node.value)]))
    return found


def of_yaml(text: str) -> Node | None:
    try:
        documents = [_node("", document) for document in yaml.load_all(text, Loader=yaml.CBaseLoader) if document]
    except yaml.YAMLError:
        return None
    if len(documents) == 1:
        return documents[0]
    return Node("", inside=documents, listed=True) if documents else None


def of_xml(text: str) -> Node | None:
    try:
        element = ElementTree.fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))
    except ElementTree.ParseError:
        return None
    top = _element(element)
    if top.inside is not None and (space := re.search(r"<[\w:.-]+[^<>]*?\sxmlns=[\"']([^\"']*)", text)) is not None:
        top.inside.insert(0, Node("xmlns", space[1]))  # The parser of the library removes it.
    return Node("", inside=[top])


def _element(element: ElementTree.Element) -> Node:
    name = element.tag.rpartition("}")[2]
    inside = [Node(key.rpartition("}")[2], value) for key, value in element.attrib.items()]
    for child in element:
        inside.append(_element(child))
        if (child.tail or "").strip():
            inside.append(Node("", (child.tail or "").strip()))
    text = (element.text or "").strip()
    if not inside:
        return Node(name, text)
    return Node(name, inside=[*inside, *([Node("", text)] if text else [])])


def unknown_values(shown: str, root: Node) -> Iterator[str]:
    """Yield the lines with a value that the source does not have at that path, or not together in one record."""
    stack: list[tuple[int, list[Node]]] = [(-1, [root])]
    inner: list[str] | None = None
    for line in shown.split("\n"):
        if _INSIDE.fullmatch(line) or _is_place_of_text(line, root):
            return  # What follows is a text of another kind, shown as such.
        if (
            not line.strip()
            or line.strip() == "…"
            or _COUNTED.match(line)
            or line.startswith(("[left out:", "[no line ", "[… "))
        ):
            continue
        depth = len(line) - len(line.lstrip())
        while len(stack) > 1 and stack[-1][0] >= depth:
            stack.pop()
        found = _Line().parsed(line.strip(), stack[-1][1], 0)
        if found is None:
            inner = inner if inner is not None else lines_inside(root)
            if not _is_line_of(line, inner):
                yield line
            stack.append((depth, _below(stack[-1][1])))
        elif found[0]:
            stack.append((depth, found[1]))
        else:
            stack[-1] = (stack[-1][0], found[1])


def _is_place_of_text(line: str, root: Node) -> bool:
    """Whether a line is the path to a long text or to a list of many lines: `data.result[0].values:`."""
    if not line.endswith(":") or line[:1].isspace():
        return False
    waiting = [(root, line[:-1])]
    while waiting:
        node, left = waiting.pop()
        if not left and (len(node.value) >= LONG_TEXT or (node.listed and len(node.inside or ()) >= MANY_LINES)):
            return True
        for at, child in enumerate(node.inside or () if left else ()):
            step = f"[{at}]" if node.listed else child.key
            if step and left.startswith(step):
                after = left[len(step) :]
                if not after or after[0] in ".[":
                    waiting.append((child, after.removeprefix(".")))
    return False


def unmarked_outcomes(shown: str, root: Node) -> Iterator[str]:
    """Yield the lines that name a failed or skipped test of a JUnit report without its outcome."""
    outcomes: dict[str, set[str]] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.inside or ()
        if node.key == "testcase":
            name = next((leaf.value for leaf in node.inside or () if leaf.key == "name"), "")
            said = {child.key for child in node.inside or () if child.key in ("failure", "error", "skipped")}
            outcomes[name] = said if name not in outcomes else set()
    for block in re.split(r"\n(?= *testcase: )", shown)[1:]:
        line = block.split("\n")[0]
        named = re.search(r"(?:: |, )name: ([^,]+?)(?:, |$)", line)
        missing = outcomes.get(named[1], set()) if named is not None else set()
        if missing and not any(each in block for each in missing):
            yield line


def lines_inside(root: Node) -> list[str]:
    """Return the lines of texts that are values of the tree, without blanks; they are shown as their kind is."""
    waiting, found = [root], []
    while waiting:
        node = waiting.pop()
        waiting += node.inside or ()
        if len(node.value) > LONG_VALUE:
            found += [_flat(line) for line in node.value.split("\n")]
    return found


def _is_line_of(line: str, inner: list[str]) -> bool:
    """Whether a shown line consists of pieces of one line of a text inside the tree, or names the place of the text."""
    if _PLACE.fullmatch(line.strip()) or _SHARE.fullmatch(line.strip()):
        return bool(inner)
    pieces = [_flat(piece) for piece in _SHARE.sub("", line).split("…")]
    return any(all(piece in own for piece in pieces) for own in inner)


def _below(nodes: list[Node]) -> list[Node]:
    """Return all containers below, so that one unknown line does not make its children unknown."""
    return [child for node in nodes for child in node.inside or () if child.inside is not None]


class _Line:
    """One shown line, compared with the nodes that it may be about; each rest of it once."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int, int, int], tuple[bool, list[Node]] | None] = {}

    def parsed(self, rest: str, nodes: list[Node], items: int) -> tuple[bool, list[Node]] | None:
        """Return (whether a label was read, the innermost owners that fit) for the rest; None if none fits."""
        place = (len(rest), len(nodes), id(nodes[0]) if nodes else 0, items)
        if place not in self.known:
            self.known[place] = self._parsed(rest, nodes, items)
        return self.known[place]

    def _parsed(self, rest: str, nodes: list[Node], items: int) -> tuple[bool, list[Node]] | None:
        """Read the rest of a line that is not known yet."""
        rest = rest.lstrip()
        if not rest:
            return False, nodes
        if rest == "…":
            return False, nodes
        if (share := _SHARE.match(rest)) is not None:
            total = int(share[2].replace(",", ""))
            fitting = [node for node in nodes if node.inside is not None and len(node.inside) == total]
            counted = not items or int(share[1].replace(",", "")) == items
            return self.parsed(rest[share.end() :], fitting, 0) if fitting and counted else None
        if rest == "-" or rest.startswith("- "):
            elements = [child for node in nodes if node.listed for child in node.inside or ()]
            read = self.parsed(rest[1:], elements, 0) if elements else None
            return (True, read[1]) if read is not None else None
        return (
            self._with_value(rest, nodes, items) or self._with_label(rest, nodes) or self._renamed(rest, nodes, items)
        )

    def _with_value(self, rest: str, nodes: list[Node], items: int) -> tuple[bool, list[Node]] | None:
        fitting: dict[int, list[Node]] = {}
        for node in nodes:
            if node.inside is None:
                end = _end_of(node.spelled, rest) or _end_of_pieces(Node("", node.value), rest)
                if end:
                    fitting.setdefault(end, []).append(node)
                continue
            for child in node.inside:
                if child.inside is None or child.value:
                    end = _end_of(f"{child.key}: {child.spelled}" if child.key else child.spelled, rest)
                    end = end or _end_of_pieces(child, rest)
                    # Once per node: several equal values would double the nodes with every value of the line.
                    if end and fitting.setdefault(end, [])[-1:] != [node]:
                        fitting[end].append(node)
                elif (
                    child.listed and rest.startswith(f"{child.key}: ") and _is_series(rest[len(child.key) + 2 :], child)
                ):
                    return False, [node]
        for end in sorted(fitting, reverse=True):
            read = self.parsed(rest[end:].removeprefix(","), fitting[end], items + 1)
            if read is not None:
                return read
        return None

    def _with_label(self, rest: str, nodes: list[Node]) -> tuple[bool, list[Node]] | None:
        owners: dict[int, list[Node]] = {}
        for node in nodes:
            for child in node.inside or ():
                if child.inside is None or not child.key or not rest.startswith(child.key):
                    continue
                after = rest[len(child.key) : len(child.key) + 2]
                if after in (":", ": ") or after[:1] == ".":
                    owners.setdefault(len(child.key) + 1, []).append(child)
        for end in sorted(owners, reverse=True):
            read = self.parsed(rest[end:], owners[end], 0)
            if read is not None:
                return True, read[1]
        return None

    def _renamed(self, rest: str, nodes: list[Node], items: int) -> tuple[bool, list[Node]] | None:
        """Read what is written otherwise: pairs of name and value, cells named by a header, the name of an owner."""
        if (name := _OWNER_NAME.match(rest)) is not None:
            return self.parsed(rest[name.end() :], nodes, items)
        for node in nodes:
            if node.inside is None:
                continue
            for child in (node, *node.inside):
                names = [
                    leaf.value for leaf in child.inside or () if leaf.inside is None and leaf.key.lower() in _NAMES
                ]
                values = [leaf for leaf in child.inside or () if leaf.inside is None and leaf.key.lower() in _VALUES]
                if names and values and (end := _end_of(f"{names[0]}: {values[0].spelled}", rest)):
                    read = self.parsed(rest[end:].removeprefix(","), [node], items + 1)
                    if read is not None:
                        return read
            if node.listed:
                for leaf in node.inside:
                    if leaf.inside is None and ": " in rest:
                        end = _end_of(leaf.spelled, rest.partition(": ")[2])
                        if end:
                            cut = rest.index(": ") + 2 + end
                            read = self.parsed(rest[cut:].removeprefix(","), [node], items + 1)
                            if read is not None:
                                return read
        return None


def _end_of(text: str, rest: str) -> int:
    """Return where the text ends at the beginning of the rest; 0 if it is not there as a whole."""
    if rest == text.rstrip():
        return len(rest)  # At the end of a line a blank is not shown.
    if rest.startswith(text):
        times = _EQUAL.match(rest, len(text))  # Equal values that follow each other.
        end = times.end() if times is not None else len(text)
        return end if rest[end : end + 2] in ("", ", ", ",", " [") else 0
    if "  " in text or "\t" in text:
        flat = " ".join(text.split())
        return _end_of(flat, rest) if flat != text else 0
    return 0


def _end_of_pieces(leaf: Node, rest: str) -> int:
    """Return the length of the rest if it consists of pieces of a long value, in their order."""
    label = f"{leaf.key}: " if leaf.key else ""
    if len(leaf.value) < 60 or not rest.startswith(label):
        return 0
    value, at = _flat(leaf.value), 0
    for piece in re.split(r" ?… ?", re.sub(r" \[\d+ of \d+\]$", "", rest[len(label) :])):
        found = value.find(_flat(piece.replace("\\n", "\n")), at)
        if found < 0:
            return 0
        at = found
    return len(rest)


def _flat(text: str) -> str:
    return re.sub(r"\s+", "", text)


def _is_series(rest: str, node: Node) -> bool:
    """Whether a summary of many numbers is that of the list."""
    found = _SERIES.match(rest)
    if found is None:
        return False
    values = []
    for child in node.inside or ():
        last = (child.inside or [child])[-1]
        values.append(last.value)
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        return True  # With units; the condenser compares them as numbers, this program does not.
    low, high = values[numbers.index(min(numbers))], values[numbers.index(max(numbers))]
    return (len(values), values[0], values[-1], low, high) == (int(found[1]), *found.groups()[1:])


def wrong_value_counts(shown: str, root: Node) -> Iterator[str]:
    """Yield statements about the values of all records that differ from the source."""
    groups: dict[str, list[list[Node]]] | None = None
    for line in shown.split("\n"):
        found = _COUNTED.match(line)
        if found is None:
            continue
        groups = groups if groups is not None else _groups(root)
        total = int(found[2].replace(",", ""))
        name = "" if found[3] == "records" else found[3]
        candidates = [group for group in groups.get(name, []) if len(group) == total]
        if found[1]:
            fits = any(_all_have(group, found[4], root) for group in candidates)
        elif found[5] or " … " in found[4]:
            continue  # Cut, so that the rest is not known.
        else:
            label, _, said = found[4].partition(": ")
            fits = any(
                _says(said, values, total)
                for group in candidates
                for values in (_values_of(group, label), *_cells_of(group, label, root))
            )
        if not fits and not lines_inside(root):
            yield line


def _cells_of(records: list[Node], label: str, root: Node) -> Iterator[list[str]]:
    """Yield the values of a column whose name is in another list of as many names."""
    width = len(records[0].inside or ()) if records else 0
    if not width or not all(record.listed and len(record.inside or ()) == width for record in records):
        return
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.inside or ()
        names = [leaf.value or next((each.value for each in leaf.inside or ()), "") for leaf in node.inside or ()]
        if node.listed and len(names) == width and label in names:
            at = names.index(label)
            yield [(record.inside or [])[at].spelled for record in records if record is not node]


def _groups(root: Node) -> dict[str, list[list[Node]]]:
    """Return label → groups of records with it: elements of lists, entries of maps, repeated elements."""
    by_label: dict[tuple[str, int], list[Node]] = {}
    maps: dict[str, list[Node]] = {}
    named: dict[str, list[Node]] = {}
    """Elements of a list that have a name among their fields: `tags.http.route`."""
    found: dict[str, list[list[Node]]] = {}

    def walk(node: Node, label: str, level: int) -> None:
        inside = node.inside or []
        for child in inside:
            own = f"{label}.{child.key}".strip(".")
            if node.listed:
                by_label.setdefault((label, level + 1), []).append(child)
                for name in _names_of(child):
                    named.setdefault(f"{label}.{name}".strip("."), []).append(child)
                walk(child, label, level + 1)
            else:
                by_label.setdefault((own, level), []).append(child)
                walk(child, own, level)
        if not node.listed and len(inside) >= 4:
            maps.setdefault(label, []).extend(inside)
            found.setdefault(label, []).append(inside)
            for grand in (grand for child in inside if not child.listed for grand in child.inside or ()):
                # Below an entry of a map its key is not part of the label.
                maps.setdefault(f"{label}.{grand.key}".strip("."), []).extend(grand.inside or ())

    walk(root, "", 0)
    for (label, _), records in by_label.items():
        found.setdefault(label, []).append(records)
    for label, records in (*maps.items(), *named.items()):
        found.setdefault(label, []).append(records)
    return found


def _names_of(node: Node) -> list[str]:
    """Return what may name an element of a list among others: its name, type or role."""
    return [
        leaf.value
        for leaf in node.inside or ()
        if leaf.inside is None and leaf.value and leaf.key.lower() in (*_NAMES, "type", "condition", "role")
    ]


def _values_of(records: list[Node], label: str) -> list[str]:
    """Return the values at a path in all records; lists on the way are passed through."""
    values: list[str] = []
    for record in records:
        waiting = [(record, label)]
        while waiting:
            node, left = waiting.pop()
            if not left and node.inside is None:
                values.append(node.spelled)
            elif not left and not node.listed:
                values += [leaf.spelled for leaf in node.inside or () if not leaf.key and leaf.inside is None]
            for child in reversed(node.inside or () if left else ()):
                if node.listed:
                    waiting.append((child, left))
                elif left == child.key:
                    waiting.append((child, ""))
                elif left.startswith(child.key + ".") and child.key:
                    waiting.append((child, left[len(child.key) + 1 :]))
                elif (
                    child.listed
                    and left.startswith(f"{child.key}[")
                    and (at := _POSITION.fullmatch(left, len(child.key)))
                ):
                    waiting += [(item, "") for item in (child.inside or [])[int(at[1]) : int(at[1]) + 1]]
            if node.inside and not node.listed and node is not record:
                for name in _names_of(node):
                    if left.startswith(name + "."):
                        waiting.append((node, left[len(name) + 1 :]))
                    elif left == name:
                        values += [leaf.spelled for leaf in node.inside if leaf.key.lower() in _VALUES]
    return values


def _says(said: str, values: list[str], total: int) -> bool:
    return says_of(said, values, max(0, total - len(values)))


def says_of(said: str, values: list[str], absent: int) -> bool:
    """Whether `a ×38, b ×31, 2 other values ×5, absent ×1` or `1 – 9, 700 ×1` is said of these values exactly."""
    counts = Counter(values)
    left = said
    rest = Counter(counts)
    if span := _RANGE.match(said):
        left = said[span.end() :]
    listed = 0
    for value, times in _TIMES.findall(left):
        count = int(times.replace(",", ""))
        if value == "nested" and not counts["nested"]:
            absent -= count
        elif value == "absent" and counts["absent"] != count:
            if count != absent:
                return False
        elif re.fullmatch(r"\d+ other values?", value) and value not in counts:
            if sum(rest.values()) != count or len(+rest) != int(value.split()[0]):
                return False
            rest.clear()
        else:
            if counts[value] != count:
                return False
            rest.pop(value, None)
            listed += count
    if span:
        return {span[1], span[2]} <= set(rest) and _is_range(span[1], span[2], list(rest.elements()))
    return not sum(rest.values())


def _is_range(low: str, high: str, values: list[str]) -> bool:
    try:
        numbers = [float(value.replace(",", "")) for value in values]
        return float(low.replace(",", "")) == min(numbers) and float(high.replace(",", "")) == max(numbers)
    except ValueError:
        return True  # Numbers with units; that both ends are values of the field is known.


def _all_have(records: list[Node], said: str, root: Node) -> bool:
    """Whether all records have these values: `a: 1, b.c: 2`."""
    while said:
        for end in sorted({match.start() for match in re.finditer(r", |$", said)}):
            label, sign, value = said[:end].partition(": ")
            columns = (_values_of(records, label), *_cells_of(records, label, root)) if sign else ()
            if any(len(column) == len(records) and set(column) == {value} for column in columns):
                said = said[end + 2 :]
                break
        else:
            return False
    return True
