"""The few records that answer the question, and the fields that are shown of each."""

import re

from tersely.condensing.focus import Found
from tersely.condensing.trees.shape import TreeShape
from tersely.shapes.tree import LEAF, OBJECT, TEXT, Tree

MOST_WINNERS = 4
"""Records of one list that win. If more are equally good, what they share decides nothing and none wins."""
CLOSE_TO_BEST = 0.6
"""A record wins only if the terms in it weigh at least this share of those in the best record of the text, …"""
NEW_TERMS = 0.35
"""… or if the terms that the better records of its list lack weigh this share of them."""
FIELD_SHARE = 0.85
"""The first field of a winning record is worth this share of the best value of the text; the last about half."""
TROUBLED_SHARE = 0.4
"""The same for a question about trouble, which is answered by what is bad rather than by the words of the question."""
MOST_FIELDS = 24
"""Fields of a winning record that are raised; a record around it with at most as many values wins with it."""
LARGEST_RECORD = 400
"""In values. A larger object is not a record, …"""
LARGEST_SHARE = 0.5
"""… and neither is one with a larger share of all values: it is the whole."""

_PLACE = re.compile(
    r"^(?:name|id|path|file|filename|file_?name|uri|url|href|line|lineno|line_?number|start_?line|location|key|title|label"
    r"|host|node|pod|container|instance|service|namespace)$",
    re.I,
)
"""Keys of fields that say which thing a record is about, and where it is."""


class WinningRecords:
    """The records that answer the question best: their other fields are worth more than crumbs of other records."""

    def __init__(self, tree: Tree, shape: TreeShape, found: Found) -> None:
        self.tree, self.shape, self.found = tree, shape, found
        self.sizes = [1 if kind == LEAF else 0 for kind in tree.kind]
        """Leaves at or below each node."""
        self.best = 0.0
        """Weight of the terms of the best record."""
        self.values: dict[int, list[str]] = {}
        self.above: dict[int, frozenset[int]] = {}
        for node in range(len(tree) - 1, 0, -1):
            self.sizes[tree.parent[node]] += self.sizes[node]
        self.largest = min(LARGEST_RECORD, LARGEST_SHARE * sum(1 for kind in tree.kind if kind == LEAF))

    def complete(self, scores: list[float], *, troubled: bool) -> set[int]:
        """Raise the fields of the best records, those that say which one it is and where it is first; return them."""
        top = max(scores, default=0.0)
        winners = self._winners()
        field_share = FIELD_SHARE
        if troubled:
            field_share = TROUBLED_SHARE
            bad = {self._record_of(node) for node, severity in enumerate(self.found.severity) if severity > 0}
            winners = {record: share for record, share in winners.items() if record in bad}
        winners.update(self._linked(winners))
        raised: set[int] = set()
        for record, share in winners.items():
            for place, leaf in enumerate(self._fields_of(record)):
                worth = field_share * share * top * (1 - 0.4 * place / MOST_FIELDS)
                if self.found.terms[leaf] and not troubled:
                    worth = max(worth, self._covered(leaf, record) * top)
                if worth > scores[leaf] or worth >= top:
                    scores[leaf] = worth
                    raised.add(leaf)
        return raised

    def complete_leaders(self, scores: list[float], leaders: list[int]) -> set[int]:
        """Raise the fields of the records with the highest or lowest values that are asked for; return them."""
        raised: set[int] = set()
        for leaf in leaders:
            record = self._record_of(leaf)
            for place, beside in enumerate(self._fields_of(record) if record >= 0 else ()):
                worth = FIELD_SHARE * scores[leaf] * (1 - 0.4 * place / MOST_FIELDS)
                if worth > scores[beside]:
                    scores[beside] = worth
                    raised.add(beside)
        return raised

    def _covered(self, leaf: int, record: int) -> float:
        """Return the share of the best record's terms that a field has with the names around it.

        It is 1 for the field that the question names in the record that it names, wherever that name is.
        """
        terms = set(self._terms_above(self.tree.parent[leaf])).union(self.found.terms[leaf] or ())
        node = self.tree.parent[leaf]
        while node >= record:
            for child in self.shape.children[node] or ():
                if self.tree.kind[child] == LEAF:
                    terms.update(self.found.terms[child] or ())
            node = self.tree.parent[node]
        return self._weight(terms) / self.best if self.best else 0.0

    def _linked(self, winners: dict[int, float]) -> dict[int, float]:
        """Return the few records that refer to a winner by its name: results to their rule, pods to their node."""
        tree = self.tree
        names: dict[str, float] = {}
        for record, share in winners.items():
            for leaf in self.shape.identity.get(record, ()):
                if 3 <= len(tree.value[leaf]) <= 80 and not tree.value[leaf].isdigit():
                    names[tree.value[leaf]] = max(share, names.get(tree.value[leaf], 0.0))
        if not names:
            return {}
        found: dict[str, list[int]] = {}
        for leaf, value in enumerate(tree.value):
            if value in names and tree.kind[leaf] == LEAF:
                record = self._record_of(leaf)
                if record >= 0 and not any(self._is_inside(record, winner) for winner in winners):
                    found.setdefault(value, []).append(record)
        return {
            record: 0.8 * names[value]
            for value, records in found.items()
            if len(records) <= MOST_WINNERS
            for record in records
        }

    def _is_inside(self, node: int, record: int) -> bool:
        while node > record:
            node = self.tree.parent[node]
        return node == record

    def _winners(self) -> dict[int, float]:
        """Return the winning records, each with the weight of its terms as a share of the best."""
        terms: dict[int, set[int]] = {}
        for node, seen in enumerate(self.found.terms):
            if seen and (self.tree.kind[node] == LEAF or self.tree.value[node]):
                record = self._record_of(node)
                if record >= 0:
                    terms.setdefault(record, set()).update(seen)
        groups: dict[int, list[tuple[float, int]]] = {}
        for record, inside in terms.items():
            inside.update(self._terms_above(record))
            groups.setdefault(self.shape.paths[record], []).append((-self._weight(inside), record))
        best = max((-weight for group in groups.values() for weight, _ in group), default=0.0)
        self.best = best
        winners: dict[int, float] = {}
        for group in groups.values():
            group.sort()
            equal = sum(1 for weight, _ in group if weight == group[0][0])
            if -group[0][0] < CLOSE_TO_BEST * best or equal > MOST_WINNERS:
                continue
            known: set[int] = set()
            chosen = 0
            for weight, record in group:
                new = self._weight(terms[record] - known)
                if chosen == MOST_WINNERS or (chosen and new < NEW_TERMS * best and weight > group[0][0]):
                    continue
                winners[record] = 0.6 + 0.4 * -weight / best
                known |= terms[record]
                chosen += 1
        return winners

    def _terms_above(self, node: int) -> frozenset[int]:
        """Return the terms in the keys of a node and of everything around it."""
        path: list[int] = []
        while node >= 0 and node not in self.above:
            path.append(node)
            node = self.tree.parent[node]
        terms = self.above[node] if node >= 0 else frozenset()
        for node in reversed(path):
            terms = self.above[node] = terms.union(self.found.terms[node] or ())
        return terms

    def _weight(self, terms: set[int]) -> float:
        return sum(self.found.weights[term] for term in sorted(terms))

    def _record_of(self, leaf: int) -> int:
        """Return the record of a leaf: the nearest object, and the records around it as long as they are small.

        Labels are none, nor are the plain values of a map: what one of them says is not completed by the others.
        """
        tree, sizes = self.tree, self.sizes
        found = -1
        if tree.parent[leaf] in self.shape.labelled or tree.parent[leaf] in self.shape.maps:
            return found
        node = tree.parent[leaf]
        while node >= 0:
            if tree.kind[node] == OBJECT and (found < 0 or sizes[node] <= MOST_FIELDS):
                if sizes[node] > self.largest:
                    break
                found = node
                if sizes[node] > MOST_FIELDS:
                    break
            elif sizes[node] > MOST_FIELDS and (found >= 0 or tree.kind[node] != TEXT):
                break
            node = tree.parent[node]
        return found

    def _fields_of(self, record: int) -> list[int]:
        """Return the short leaves of a record that vary among its siblings: names and places first, then near ones."""
        tree, shape = self.tree, self.shape
        ranked: list[tuple[int, int, int]] = []
        waiting = [(record, 0)]
        while waiting:
            node, depth = waiting.pop()
            naming = shape.identity.get(node, ())
            for child in shape.children[node] or ():
                if tree.kind[child] != LEAF:
                    if tree.kind[child] != TEXT:
                        waiting.append((child, depth + 1))
                elif child in naming:
                    ranked.append((min(depth, 1), child, child))
                elif len(tree.value[child]) <= 160 and self._varies(shape.paths[child]):
                    first = 0 if _PLACE.search(tree.key[child]) else 2 + depth
                    ranked.append((first, child, child))
        ranked.sort()
        return [leaf for _, _, leaf in ranked[:MOST_FIELDS]]

    def _varies(self, path: int) -> bool:
        """Whether a field has more than one value; a field of few records always counts as varying."""
        if not self.values:
            for node, kind in enumerate(self.tree.kind):
                if kind == LEAF:
                    self.values.setdefault(self.shape.paths[node], []).append(self.tree.value[node])
        values = self.values[path]
        return len(values) < 4 or values.count(values[0]) < len(values)
