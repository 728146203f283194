"""Texts inside values: a log in `stdout`, a page in `content[0].text`, lines in a list, a document in a block of YAML.

The output of a tool is often an envelope around a text of another kind. Such a text is taken out of the tree and read
as its own kind; the rest of the envelope is read as a tree. Both compete for the budget, and the text is shown under
its path.

Only large texts that make up much of the whole are taken out. The bodies of a hundred records belong to their
records.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tersely.condensing.detect import detect
from tersely.condensing.focus import Focus
from tersely.condensing.hedge import with_hedge
from tersely.condensing.merge import merge, moved, put_title
from tersely.condensing.records import sounds_like_a_name
from tersely.condensing.trees.reading import read_tree
from tersely.condensing.units import CHARACTERS_PER_TOKEN, Reading
from tersely.shapes.tree import LEAF, LIST, TEXT, Tree
from tersely.text.tokens import O200K

SMALLEST = 1_000
"""In characters. A shorter text is read as a value."""

MOST = 24
LEAST_SHARE = 0.03
"""Smallest share of the whole for each text …"""
LEAST_TOGETHER = 0.35
"""… and for all of them together; below it, the envelope is the main content."""
PLAIN_SHARE = 0.5
"""Plain text of no known kind is taken out if it makes up this share by itself."""

SMALL_ENVELOPE = 0.12
"""Share of the budget; a smaller envelope is always shown."""
SMALL_ENVELOPE_BONUS = 1.5

IN_ONE_STRING = "text (in one JSON string):"
"""Title of a text that makes up the whole document, so that no path leads to it."""

_PLAIN = frozenset(("text", "prose", "page"))


def read(
    tree: Tree, size: int, kind: str, focus: Focus, budget: int, read_any: Callable[[str, Focus, int], Reading]
) -> Reading | None:
    """Read the envelope and the texts in it; None if there are no texts."""
    inners = texts_inside(tree, size)
    if not inners:
        return None
    envelope = without(tree, inners)
    readings = [_envelope(envelope, kind, focus, budget)] if LEAF in envelope.kind else []
    for inner in inners:
        reading = with_hedge(read_any(inner.text, focus, budget), inner.text, focus, budget, O200K)
        readings.append(moved(reading, inner.line))
        put_title(readings[-1], inner.title, tree.line[inner.node])
    return merge(readings, kind)


def _envelope(tree: Tree, kind: str, focus: Focus, budget: int) -> Reading:
    reading = read_tree(tree, focus, budget, kind)
    if sum(len(unit.text) for unit in reading.units) < SMALL_ENVELOPE * CHARACTERS_PER_TOKEN * budget:
        # An exit code is short and informative.
        for unit in reading.units:
            if unit.score >= 0:
                unit.score += SMALL_ENVELOPE_BONUS
    return reading


def in_one_string(reading: Reading) -> Reading:
    """Put all lines of a reading on the first line of the source, below a title: they are lines of a string."""
    moved(reading, lambda number: 1)
    put_title(reading, IN_ONE_STRING, 1)
    return reading


@dataclass(frozen=True)
class Inner:
    """A text inside a tree."""

    node: int
    title: str
    text: str
    lines: list[int]
    """The source line of each of its lines; a single entry if all of it is on one line."""

    def line(self, number: int) -> int:
        return self.lines[min(number, len(self.lines)) - 1]


def texts_inside(tree: Tree, size: int) -> list[Inner]:
    """Return the texts to read separately, in source order; `size` is the length of the whole."""
    least = max(SMALLEST, LEAST_SHARE * size)
    found = [(node, text, _source_lines(tree, node, text)) for node, text in tree.whole.items() if len(text) >= least]
    found += _lists_of_lines(tree, least)
    if not found or len(found) > MOST:
        return []
    kept = []
    for node, text, lines in sorted(found, key=lambda one: one[0]):
        reader = detect(text)
        if tree.kind[node] == LIST and not reader.by_line:
            continue
        if reader.kind in _PLAIN and len(text) < PLAIN_SHARE * size:
            continue
        kept.append(Inner(node, _title(tree, node), text, lines))
    if sum(len(inner.text) for inner in kept) < LEAST_TOGETHER * size:
        return []
    return kept


def _source_lines(tree: Tree, node: int, text: str) -> list[int]:
    first = tree.line[node]
    return list(range(first + 1, first + 2 + text.count("\n"))) if node in tree.apart else [first]


def _lists_of_lines(tree: Tree, least: float) -> list[tuple[int, str, list[int]]]:
    """Return lists whose elements are lines, or pairs of a time and a line, as in the output of log tools."""
    many: dict[int, int] = {}
    for parent in tree.parent:
        if parent >= 0 and tree.kind[parent] == LIST:
            many[parent] = many.get(parent, 0) + 1
    lists = {node: [] for node, count in many.items() if count >= 12}  # type: dict[int, list[int]]
    for node, parent in enumerate(tree.parent):
        if parent in lists:
            lists[parent].append(node)
    found = []
    for node, inside in lists.items():
        texts = [_line_of(tree, child) for child in inside]
        together = [text for text in texts if text is not None]
        if len(together) == len(texts) and sum(map(len, together)) >= max(least, 20 * len(texts)):
            found.append((node, "\n".join(together), [tree.line[child] for child in inside]))
    return found


def _line_of(tree: Tree, node: int) -> str | None:
    kind = tree.kind[node]
    if kind == LEAF:
        return tree.value[node]
    if kind == TEXT:
        whole = tree.whole.get(node, "")
        return whole if whole and "\n" not in whole else None
    if kind == LIST and node + 2 < len(tree) and tree.parent[node + 1] == node == tree.parent[node + 2]:
        time, line = tree.value[node + 1], _line_of(tree, node + 2) if tree.kind[node + 2] != LIST else None
        return f"{time} {line}" if line and time.isdigit() and len(time) >= 10 else None
    return None


def _title(tree: Tree, node: int) -> str:
    """Return the path to a node, with its owner's name if there are several: `[2].log (pod: web-3):`."""
    steps: list[str] = []
    owner = ""
    at = node
    while at >= 0:
        parent = tree.parent[at]
        if parent >= 0 and tree.kind[parent] == LIST:
            place = sum(1 for other in range(parent + 1, at) if tree.parent[other] == parent)
            steps.append(f"[{place}]")
            owner = owner or _name_of(tree, at)
        elif tree.key[at]:
            steps.append(f".{tree.key[at]}")
        at = parent
    path = "".join(reversed(steps)).removeprefix(".")
    return f"{path}{f' ({owner})' if owner else ''}:"


def _name_of(tree: Tree, record: int) -> str:
    fields = []
    for node in range(record + 1, len(tree)):
        if tree.parent[node] < record:
            break
        if tree.parent[node] == record and tree.kind[node] == LEAF and 0 < len(tree.value[node]) <= 60:
            fields.append(node)
    names = sorted(fields, key=lambda node: -sounds_like_a_name(tree.key[node]))[:2]
    return ", ".join(f"{tree.key[node]}: {tree.value[node]}" for node in sorted(names))


def without(tree: Tree, inners: list[Inner]) -> Tree:
    """Return the envelope without the texts."""
    gone = bytearray(len(tree))
    for inner in inners:
        gone[inner.node] = 1
    for node, parent in enumerate(tree.parent):
        if parent >= 0 and gone[parent]:
            gone[node] = 1
    return tree.without(gone)
