"""A nested text as a tree of named values, and the values in it that answer a question.

JSON, YAML, XML and outlines all become a `Tree` (flat lists without recursion, so that
depth costs nothing). `read_tree` scores its leaves by relevance of key and value, by
proximity to relevant values in the same record or under the same heading, by severity,
by oddness among the values under the same path, and by extremes. It finds the fields
that identify records; they are shown whenever any part of the record is.

Knows nothing of the formats; a reader that has built a tree calls `read_tree`.
"""

import heapq
import math
from collections.abc import Hashable
from itertools import chain, groupby

from tersely.condensing.account import ValuePlaces, runs_of
from tersely.condensing.equal_units import FEWEST_EQUAL
from tersely.condensing.focus import Focus
from tersely.condensing.layout import Gaps
from tersely.condensing.trees.counts import TreeCounts
from tersely.condensing.trees.layout import TreeLayout
from tersely.condensing.trees.ordinary_records import lower_ordinary, represented
from tersely.condensing.trees.rewrite import rewritten
from tersely.condensing.trees.scores import LeafScorer, without_figures
from tersely.condensing.trees.shape import TreeShape
from tersely.condensing.units import HiddenValues, Reading, Unit, with_counts
from tersely.condensing.value_places import value_places
from tersely.shapes.tree import LEAF, LIST, OBJECT, TEXT, Tree

MOST_UNITS = 30_000
BY_LINE = frozenset(("yaml", "outline"))
"""Kinds with one value per line. What is shown of them are lines of the source, never several joined."""

PER_DOUBLING = 0.05
"""What a value gains for each time that the number of equal ones doubles that it represents."""


def read_tree(tree: Tree, focus: Focus, budget: int, kind: str) -> Reading:
    """Score the leaves of a tree and return them as units with their own layout."""
    tree = rewritten(tree)
    shape = TreeShape(tree)
    worth = LeafScorer(tree, shape, focus)
    return TreeReading(tree, shape, worth, kind, budget).reading()


class TreeReading:
    """Units of a tree, and the layout of those that are kept."""

    def __init__(self, tree: Tree, shape: TreeShape, worth: LeafScorer, kind: str, budget: int) -> None:
        self.tree, self.shape, self.kind, self.budget = tree, shape, kind, budget
        self.scores = scores = worth.scores()
        self.winning = worth.winning
        self.by_line = kind in BY_LINE
        self.last_line = max(chain(tree.line, tree.ends.values()), default=0)
        self.fields = TreeCounts(tree, shape, worth)
        counts = self.fields.units()
        ordinary = lower_ordinary(tree, shape, worth, scores)
        self.represented = represented(tree, shape, counts, ordinary)
        for leaf, unit in self.represented.items():
            # What all records share is said once for all that answer the question.
            unit.score = max(unit.score, scores[leaf])
        self.counts = [unit for unit, _ in counts]
        """Units that say what all records have in a field."""
        self.counted = [leaves for _, leaves in counts]
        """For each of them the leaves whose values it counts."""
        self.labelled = shape.labelled
        self.identifying = {leaf for leaves in shape.identity.values() for leaf in leaves}
        self.equal = {} if self.by_line else self._equal_values()
        """Values → those equal to them that follow them in the same owner; one with its count represents all."""
        self.folded = {leaf for others in self.equal.values() for leaf in others}
        leaves = (
            node
            for node in range(len(tree))
            if tree.kind[node] == LEAF and scores[node] >= 0.8 and node not in self.identifying
        )
        best = heapq.nlargest(32, ((scores[node], -node) for node in leaves))
        self.answers = {-node for _, node in best}

    def owner(self, node: int) -> tuple[int, str]:
        """Return the nearest record of a leaf and its name; -1 if there is none."""
        tree, shape = self.tree, self.shape
        above = tree.parent[node]
        while above >= 0:
            if shape.record[above]:
                if tree.value[above] or tree.parent[above] in shape.maps:
                    return above, tree.value[above] or tree.key[above]
                leaves = shape.identity.get(above)
                if leaves:
                    return above, tree.value[leaves[0]]
            above = tree.parent[above]
        return -1, ""

    def _equal_values(self) -> dict[int, list[int]]:
        """Find equal values in a row that are most of their owner's; shorter runs would say nothing about places."""
        tree, found = self.tree, dict[int, list[int]]()
        for node, inside in enumerate(self.shape.children):
            if inside is None or len(inside) < FEWEST_EQUAL or tree.kind[node] == TEXT:
                continue
            plain = [child for child in inside if tree.kind[child] == LEAF]
            for _, run in groupby(plain, key=lambda child: (tree.key[child], tree.value[child])):
                first, *others = run
                if len(others) + 1 >= max(FEWEST_EQUAL, len(inside) / 2) and self.identifying.isdisjoint(
                    (first, *others)
                ):
                    found[first] = others
        return found

    def reading(self) -> Reading:
        tree, scores = self.tree, self.scores
        aside = self.identifying | self.folded
        chosen = [node for node in range(len(tree)) if tree.kind[node] == LEAF and node not in aside]
        chosen += self.shape.identity  # A record is also chosen for its name.
        most = min(MOST_UNITS, 2_000 + 4 * self.budget)
        if len(chosen) > most:
            worth = {
                record: max(scores[leaf] for leaf in named) for record, named in self.shape.identity.items() if named
            }
            chosen = heapq.nsmallest(most, chosen, key=lambda node: (-worth.get(node, scores[node]), node))
        wanted = set(chosen)
        for below in chosen:
            node = tree.parent[below]
            while node >= 0 and node not in wanted:
                wanted.add(node)
                node = tree.parent[node]
        if len(tree) <= most:
            wanted.update(node for node in range(len(tree)) if tree.kind[node] != LEAF)
        self.nodes = sorted(wanted)
        self.unit_of = {node: index for index, node in enumerate(self.nodes)}
        units = [self._unit(node) for node in self.nodes]
        self.first_unit: Unit | None = units[0] if units else None
        self.last_unit: Unit | None = units[-1] if units else None
        units += self.counts
        return Reading(
            self.kind,
            units,
            gaps=self.by_line,
            layout=self.layout,
            hidden=self.hidden,
            decay=0.2,
            totals=(lambda: self.fields.totals(self.counts)) if self.kind in ("json", "yaml") else None,
        )

    def _unit(self, node: int) -> Unit:
        tree, shape = self.tree, self.shape
        parent = tree.parent[node]
        owner = self.unit_of[parent] if parent >= 0 else None
        line = tree.line[node]
        if tree.kind[node] == LEAF:
            family: Hashable = shape.paths[node] if node not in self.winning else None
            if not tree.key[node] and tree.kind[parent] == OBJECT:
                family = (family, without_figures(tree.value[node]))
            elif family is not None and parent in self.labelled:
                family = ("below", parent)
            last = tree.ends.get(node, line) if tree.ends else line
            unit = Unit(self.leaf_text(node) + ", ", line, last, self.scores[node], owner, family)
            if self.represented:
                unit.represented_by = self.represented.get(node)
            if node in self.equal:
                unit.count = self.times(node)
                unit.score += PER_DOUBLING * math.log2(unit.count)
                unit.folded = runs_of((tree.line[each], tree.line[each]) for each in self.equal[node])
            if node in tree.named and last > line and not self.by_line:
                # Name and value are shown, without the words `name` and `value` on their lines.
                unit.last, unit.shows = line, tuple((at, at) for at in range(line + 1, last + 1))
            return unit
        text = self.label(node)
        # A record that no line opens shows no line of its own, nor does the text as a whole.
        is_line = text or (node not in tree.joint and (parent >= 0 or not self.by_line))
        last = line if is_line else line - 1
        # The header of a table says something above a row only.
        score = self.scores[node] if tree.value[node] and node not in tree.headers else -1.0
        if parent in shape.maps and self.represented:
            # The name of a record says something new even if its values do not.
            score = max(
                [score, *(self.scores[leaf] for leaf in shape.children[node] or () if leaf in self.represented)]
            )
        identity = shape.identity.get(node)
        if identity:
            text += ", ".join(self._path_to(leaf, node) + self.leaf_text(leaf) for leaf in identity)
            score = max(score, *(self.scores[leaf] for leaf in identity))
        shows = runs_of((at, at) for leaf in identity for at in self._lines_to(leaf, node)) if identity else ()
        if node in tree.ends and tree.kind[node] == OBJECT:
            shows = runs_of((*shows, (tree.ends[node], tree.ends[node])))
        family = None if identity and not self.winning.isdisjoint(identity) else shape.paths[node]
        return Unit(" " + text, line, last, score, owner, family=family, shows=shows)

    def _path_to(self, leaf: int, node: int) -> str:
        """Return the labels of what is between a node and a leaf below it, which is shown with the leaf."""
        path = ""
        while (leaf := self.tree.parent[leaf]) > node:
            path = self.label(leaf) + path
        return path

    def _lines_to(self, leaf: int, node: int) -> list[int]:
        """Return the lines of a leaf and of what is between it and a node above it."""
        lines: list[int] = []
        while leaf != node and leaf >= 0:
            line = self.tree.line[leaf]
            lines += range(line, max(line, self.tree.ends.get(leaf, line) if leaf in self.tree.pairs else line) + 1)
            leaf = self.tree.parent[leaf]
        return lines

    def label(self, node: int) -> str:
        key = self.tree.key[node]
        parent = self.tree.parent[node]
        value = self.tree.value[node]
        if parent >= 0 and self.tree.kind[parent] == LIST:
            if node in self.tree.joint and not value:
                return self.tree.joint[node] and self.tree.joint[node] + " "
            return f"- {value}, " if value else "- "
        if value:
            return f"{key}{self.tree.joint.get(node, ': ')}{value}, " if key else f"{value}, "
        return f"{key}: " if key else ""

    def leaf_text(self, node: int) -> str:
        return with_counts(self._leaf_text(node), self.times(node))

    def times(self, node: int) -> int:
        """Return how many equal values a node represents."""
        return 1 + len(self.equal.get(node, ()))

    def _leaf_text(self, node: int) -> str:
        tree = self.tree
        value = tree.value[node]
        if "\n" in value and not self.by_line:
            value = value.replace("\n", "\\n")  # As it is written in a string.
        if self.by_line and node in tree.pairs:
            return f"{tree.pairs[node]}: {value}"
        parent = tree.parent[node]
        if not tree.key[node] or (parent >= 0 and tree.kind[parent] in (LIST, TEXT) and node not in tree.named):
            return value or '""'
        key = tree.written.get(node, tree.key[node]) if self.by_line else tree.key[node]
        if not value:
            return f"{key}{tree.joint.get(node, ':')}" if self.by_line else f'{key}: ""'
        return f"{key}{tree.joint.get(node, ': ')}{value}"

    def offset(self) -> int | None:
        """Return how many lines of the text precede the part that was read; None if its lines are none of the text.

        So it is with a text inside a string, all of which is on one line.
        """
        if self.first_unit is None or self.last_unit is None:
            return 0
        before = self.first_unit.first - self.tree.line[self.nodes[0]]
        return before if self.last_unit.first - self.tree.line[self.nodes[-1]] == before else None

    def layout(self, kept: set[int], changed: dict[int, str], gaps: Gaps | None = None) -> str:
        """Write one line per object: its path, then its values; one more blank per level."""
        own = len(self.nodes)
        shown = {self.nodes[index] for index in kept if index < own}
        changed_text = {self.nodes[index]: text.removesuffix(", ") for index, text in changed.items() if index < own}
        counts = [changed.get(index, self.counts[index - own].text) for index in sorted(kept) if index >= own]
        body = TreeLayout(self, shown, changed_text, gaps if self.by_line else None).text()
        return "\n".join([*counts, body] if body else counts)

    def joined(self, pieces: list[int], line: int = 0) -> str:
        """Join pieces of a long value with marks of what is missing between them; with a line, of that line only."""
        if not pieces:
            return ""
        first = self.shape.children[self.tree.parent[pieces[0]]] or []
        if line:
            first = [node for node in first if self.tree.line[node] == line]
        place = {node: index for index, node in enumerate(first)}
        parts: list[str] = []
        before = -1
        for node in pieces:
            if place[node] != before + 1:
                parts.append("…")
            parts.append(self.tree.value[node])
            before = place[node]
        if before != len(first) - 1:
            parts.append("…")
        return " ".join(parts)

    def hidden(self, kept: set[int]) -> HiddenValues:
        """Count the values that are not shown and name their paths, each once."""
        tree = self.tree
        own = len(self.nodes)
        shown = {self.nodes[index] for index in kept if index < own}
        for node in list(shown):
            shown.update(self.shape.identity.get(node, ()))
        written = set(shown)
        shown.update(other for node in written for other in self.equal.get(node, ()))
        for index in kept:
            if index >= own:
                shown.update(self.counted[index - own])
        values = tree.kind.count(LEAF)
        lost = [node for node, kind in enumerate(tree.kind) if kind == LEAF and node not in shown]
        paths = dict.fromkeys(map(self.shape.paths.__getitem__, lost))
        places = value_places(tree, written, shown) if self.kind == "json" else ValuePlaces()
        return HiddenValues(len(lost), values, tuple(dict.fromkeys(map(self._path_name, paths))), places)

    def _path_name(self, path: int) -> str:
        shape = self.shape
        parts: list[str] = []
        while path >= 0 and len(parts) < 40:
            if shape.path_key[path]:
                parts.append(shape.path_key[path])
            path = shape.path_parent[path]
        return ".".join(reversed(parts)).replace(".[]", "[]") or "[]"
