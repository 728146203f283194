"""Exact value counts over all records of a tree, as units."""

from collections.abc import Callable, Iterable

from tersely.condensing.field_counts import FEWEST, MOST_NAMED, Counted, FieldValues, match_of, spelled, telling
from tersely.condensing.focus import Focus
from tersely.condensing.ordinary import (
    FURTHER,
    PATTERN,
    worth_of_count,
)
from tersely.condensing.records import (
    counts_of,
)
from tersely.condensing.totals import Totals
from tersely.condensing.trees.scores import LeafScorer
from tersely.condensing.trees.shape import TreeShape
from tersely.condensing.units import Unit
from tersely.shapes.tree import LIST, Tree

MOST_COUNTED = 5
"""Fields whose values are counted over all records because they matter to the question, …"""
MOST_FURTHER = 14
"""… and so many in all if there is room."""
LONGEST_PATTERN = 240
MOST_PATTERNS = 3
"""Lines of what all records share, each at most so many characters long."""


_OF = " of "
"""Between the names of a list inside of records and of a field, in the names of totals."""


def write_counts(totals: Totals, focus: Focus) -> tuple[list[str], list[str]]:
    """Write what the records of a list have in the fields that matter, and what all of them share."""
    places: list[tuple[str, str]] = []
    fields: list[FieldValues] = []
    constant: dict[str, list[str]] = {}
    for name, values in totals.fields.items():
        below, _, label = name.partition(_OF)
        records = len(values.values) + values.absent + values.nested
        group = (
            f"{records} {'.'.join(filter(None, ('' if totals.noun == 'records' and below else totals.noun, below)))}"
        )
        if records < FEWEST:
            continue
        is_constant = records == len(values.values) and len(counts_of(values.values)) == 1
        if is_constant and not focus.rejects(values.label) and not focus.names(values.label):
            part = f"{label}: {spelled(values.values[0])}"
            parts = constant.setdefault(group, [])
            if sum(map(len, parts)) + len(part) <= LONGEST_PATTERN:
                parts.append(part)
            continue
        fields.append(values)
        places.append((group, label))
    chosen = telling(fields, focus)[:MOST_COUNTED]
    lines = [f"[{places[at][0]}; {places[at][1]}: {counted.text}]" for _, at, counted in chosen]
    return lines + [f"[all {group}: {', '.join(parts)}]" for group, parts in constant.items() if parts], []


def _chosen(counts: list[tuple[float, int, Counted]]) -> list[tuple[float, int, Counted]]:
    """Return the counts that matter, and further ones to fill the budget with, each with its score."""
    matter = [each for each in counts if each[0] > 0]
    others = [*matter[MOST_COUNTED:], *counts[len(matter) :]]
    further = [
        (worth_of_count(0.0, place), at, counted)
        for place, (_, at, counted) in enumerate(others[: MOST_FURTHER - min(MOST_COUNTED, len(matter))])
    ]
    return matter[:MOST_COUNTED] + further


class TreeCounts:
    """Units that say what all records of a list have in a field, for the fields that matter to the question."""

    def __init__(self, tree: Tree, shape: TreeShape, worth: LeafScorer) -> None:
        self.tree, self.shape, self.worth = tree, shape, worth
        self.records = shape.times

    def units(self) -> list[tuple[Unit, list[int]]]:
        """Return the units, each with the leaves whose values it counts."""
        worth = self.worth
        places: list[tuple[int, int]] = []
        fields: list[FieldValues] = []
        constant: dict[int, list[int]] = {}
        matches: dict[str, float] = {}
        for path, nodes in worth.columns.items():
            owner = self.shape.record_path(path)
            if owner < 0 or self.records[owner] < FEWEST or self.shape.path_key[path] in ("[]", ""):
                continue
            if self.shape.path_key[path][:1] == "[" and self.shape.path_parent[path] == owner:
                continue  # The records are lists in lists, and have no name.
            values = [self.tree.value[node] for node in nodes]
            nested = self.records[path] - len(nodes)
            absent = max(0, self.records[owner] - len(nodes) - nested)
            label = self.shape.path_key[path]
            if label[:1] == "[":
                label = self.shape.path_key[self.shape.path_parent[path]] + label  # `value[1]`, of a short list.
            if label not in matches:
                matches[label] = match_of(label, worth.focus)
            named = matches[label]
            match = max(worth.matches.get(path, 0.0), named)
            is_constant = not absent and not nested and values.count(values[0]) == len(values)
            if is_constant and not named:
                constant.setdefault(owner, []).append(path)
                continue
            fields.append(FieldValues(label, values, absent, match, self._named_values(nodes), nested))
            places.append((path, owner))
        chosen = _chosen(telling(fields, worth.focus, every=True))
        units = [self._unit(score, *places[at], counted) for score, at, counted in chosen]
        units += [unit for owner, paths in constant.items() for unit in self._patterns(owner, paths)]
        self._fold_owners(units)
        return units

    def totals(self, said: list[Unit]) -> Totals:
        """Return what the records have in their fields of the list (or map) that the text is, or that it breaks off in.

        A field is found by the names of the list inside of a record (empty for its own fields) and of the field.
        """
        tree, shape = self.tree, self.shape
        at = 0
        while tree.kind[at] != LIST and at not in shape.maps and (inside := shape.children[at]):
            at = inside[-1]
        inside = shape.children[at] or []
        if not inside:
            return Totals(0, write_counts, "records")
        own = shape.paths[inside[0]]
        # Whether the items of a list are named by what they contain may differ between sections.
        named = {shape.paths[tree.parent[node]] for node in tree.named}
        fields: dict[str, FieldValues] = {}
        for path, nodes in self.worth.columns.items():
            owner = shape.record_path(path)
            if not self._is_below(owner, own) or shape.path_key[path][:1] == "[":
                continue
            if named and any(self._is_below(path, each) for each in named):
                continue
            values = [tree.value[node] for node in nodes]
            nested = self.records[path] - len(nodes)
            absent = max(0, self.records[owner] - len(nodes) - nested)
            name = f"{self._label(owner, own)}{_OF}{self._label(path, owner)}"
            fields[name] = FieldValues(shape.path_key[path], values, absent, nested=nested)
        return Totals(len(inside), write_counts, self._label(own, -1) or "records", fields, said=said)

    def _is_below(self, path: int, above: int) -> bool:
        while path > above:
            path = self.shape.path_parent[path]
        return path == above

    def _named_values(self, nodes: list[int]) -> set[str]:
        """Return the values that the question names: those with more words of it than the others."""
        terms = self.worth.found.terms
        least = min(len(terms[node] or ()) for node in nodes)
        named = {self.tree.value[node] for node in nodes if len(terms[node] or ()) > least}
        return named if len(named) <= MOST_NAMED else set()

    def _label(self, path: int, owner: int) -> str:
        steps: list[str] = []
        while path != owner and path >= 0:
            if self.shape.path_key[path] not in ("[]", ""):
                steps.append(self.shape.path_key[path])
            path = self.shape.path_parent[path]
        return ".".join(reversed(steps)).replace(".[", "[")

    def _group(self, owner: int) -> str:
        return f"{self.records[owner]} {self._label(owner, -1) or 'records'}"

    def _unit(self, score: float, path: int, owner: int, counted: Counted) -> tuple[Unit, list[int]]:
        tree, nodes = self.tree, self.worth.columns[path]
        text = f"[{self._group(owner)}; {self._label(path, owner)}: {counted.text}]"
        line = next((tree.line[node] for node in nodes if tree.value[node] == counted.first), tree.line[nodes[0]])
        leaves = [node for node in nodes if tree.value[node] in counted.listed]
        return Unit(text, line, line, score, count=0), leaves

    def _patterns(self, owner: int, paths: list[int]) -> list[tuple[Unit, list[int]]]:
        """Return what all records have in common, which is not worth showing again with each of them."""
        tree, columns = self.tree, self.worth.columns
        groups: list[list[tuple[str, int]]] = []
        for path in paths:
            part = f"{self._label(path, owner)}: {spelled(tree.value[columns[path][0]])}"
            if len(part) > LONGEST_PATTERN:
                continue
            if not groups or sum(len(text) for text, _ in groups[-1]) + len(part) > LONGEST_PATTERN:
                groups.append([])
            groups[-1].append((part, path))
        units: list[tuple[Unit, list[int]]] = []
        for at, group in enumerate(groups[:MOST_PATTERNS]):
            leaves = [leaf for _, path in group for leaf in columns[path]]
            line = tree.line[leaves[0]]
            text = f"[all {self._group(owner)}: {', '.join(part for part, _ in group)}]"
            units.append((Unit(text, line, line, FURTHER if at else PATTERN, count=0), leaves))
        return units

    def _fold_owners(self, units: list[tuple[Unit, list[int]]]) -> None:
        """Let the units represent the lines of their leaves, and of objects in records of which all is counted."""
        tree, shape = self.tree, self.shape
        by: list[int] = [-1] * len(tree)
        for at, (_, leaves) in enumerate(units):
            for leaf in leaves:
                by[leaf] = at
        lines: list[list[int]] = [[] for _ in units]
        for node in range(len(tree) - 1 if units else -1, -1, -1):
            inside = shape.children[node]
            if inside and by[inside[0]] >= 0 and not shape.record[node] and not tree.value[node]:
                by[node] = -1 if any(by[child] < 0 for child in inside) else by[inside[0]]
            if by[node] >= 0:
                lines[by[node]].append(tree.line[node])
        for (unit, _), own in zip(units, lines, strict=True):
            unit.folded = _runs_later(own)


def _runs_later(lines: list[int]) -> Callable[[], Iterable[tuple[int, int]]]:
    return lambda: ((line, line) for line in lines)
