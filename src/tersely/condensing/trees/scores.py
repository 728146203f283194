"""Score the leaves of a tree: relevance, severity, rarity, oddness, extremes and nearness."""

import math
import re
from collections import Counter

from tersely.condensing.focus import Focus, Found, scan, stem, subwords
from tersely.condensing.records import (
    MOST_MISSING,
    asks_for_absence,
    beyond,
    extremes,
    is_missing,
    meant_direction,
    numbers_of,
    oddness,
)
from tersely.condensing.trees.shape import TreeShape
from tersely.condensing.trees.winners import MOST_FIELDS, MOST_WINNERS, WinningRecords
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.tree import LEAF, LIST, OBJECT, TEXT, Tree

FEWEST_TO_DIFFER = 8
CLOSE_MATCH = 0.6
MOST_STATES = 6
RARE_SHARE = 0.1
RARE_FIELD = 0.9
"""A record differs if a field that the question names has one of few values in all records, and this one's is rare:
then its fields count as much as the best. The field must match the question at least so well, compared with others.
"""
REPEATED = 0.85
"""What a value that occurred before under the same path is worth, as a share of a new one."""
_NOISE = re.compile(
    r"[0-9a-f]{32,}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|sha\d+:|(?:null|none|false|true|0|\"\"|\[]|{}|~)?$",
    re.I,
)
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d[\w.:-]*")
_FIGURES_ASIDE = re.compile(r"\(x?#[^()]{0,16}\)")
_HASH_INSIDE = re.compile(r"(?<![0-9a-z])[0-9a-f]{32,}(?![0-9a-z])")
_CONFIGURED = frozenset(
    (
        "spec",
        "env",
        "args",
        "command",
        "annotations",
        "managedfields",
        "template",
        "description",
        "help",
        "doc",
        "documentation",
        "enum",
    )
)
"""Under these keys, words of severity are configuration or documentation, not reports."""


def without_figures(line: str) -> str:
    """Return a line without its figures, their alignment, and remarks that consist of figures: `(x6 over 18h)`."""
    return " ".join(_FIGURES_ASIDE.sub("", _VARIABLE.sub("#", line[:160])).split())[:100]


class LeafScorer:
    """Scores of the nodes for one question."""

    def __init__(self, tree: Tree, shape: TreeShape, focus: Focus) -> None:
        self.tree, self.shape, self.focus = tree, shape, focus
        texts = [f"{key} {value}" if value else key for key, value in zip(tree.key, tree.value, strict=True)]
        self.found: Found = scan(texts, focus)
        self.winning: set[int] = set()
        """Fields of the records that answer the question best."""
        self.columns: dict[int, list[int]] = {}
        """Path → its leaves."""
        self.leaders: dict[int, float] = {}
        """Values that a superlative of the question asks for, the highest or lowest of their field."""
        self.matches: dict[int, float] = {}
        """Path → how well its keys match the question."""
        self._sharpen()

    def _sharpen(self) -> None:
        """Prefer keys that contain little besides words of the question: `retention.ms`, not `delete.retention.ms`."""
        tree, relevance = self.tree, self.found.relevance
        for node, seen in enumerate(self.found.terms):
            if seen and not tree.value[node]:
                parts = len(subwords(tree.key[node])) or 1
                named = sum(1 for index in seen if self.focus.terms[index].kind != "synonym")
                relevance[node] *= 0.55 + 0.45 * min(1.0, named / parts)

    def scores(self) -> list[float]:
        tree, focus, found = self.tree, self.focus, self.found
        near = self._nearness()
        configured = self._configured()
        weights = WEIGHTS["tree"]
        trouble = weights.severity_asked if focus.trouble else weights.severity
        scores = [0.0] * len(tree)
        parents, kinds, values, relevance = tree.parent, tree.kind, tree.value, found.relevance
        for_relevance, for_nearness = weights.relevance, weights.nearness
        bad = [level * (0.3 if configured[node] else 1.0) for node, level in enumerate(found.severity)]
        worst = [severity if severity and values[node] else 0.0 for node, severity in enumerate(bad)]
        for node in [node for node, severity in enumerate(bad) if severity > 0]:
            parent = parents[node]
            if parent >= 0 and bad[node] > worst[parent] and kinds[parent] != LIST:
                worst[parent] = bad[node]
        for node, kind in enumerate(kinds):
            if kind != LEAF and not values[node]:
                continue
            score = for_relevance * relevance[node] + for_nearness * near[node]
            if configured[node] and focus.trouble:
                score *= 0.7  # The question is about what happened, not about what was configured.
            score += trouble * bad[node]
            parent = parents[node]
            if parent >= 0 and not configured[node]:
                # The values next to a bad one are its reasons: exit code, message, time.
                beside = worst[parent] if kinds[parent] != TEXT else max(worst[parent], worst[parents[parent]])
                score += 0.4 * trouble * beside
            scores[node] = score
        self._columns(scores)
        self._raise_pieces(scores)
        if focus and not (focus.unusual or focus.superlative):
            self.winning = WinningRecords(tree, self.shape, found).complete(scores, troubled=focus.trouble)
        if focus and not focus.superlative:
            self.winning |= self._raise_rare(scores)
        if self.leaders:
            best = sorted(self.leaders, key=lambda leaf: (-self.leaders[leaf], leaf))[:MOST_WINNERS]
            self.winning |= WinningRecords(tree, self.shape, found).complete_leaders(scores, best)
        return scores

    def _raise_rare(self, scores: list[float]) -> set[int]:
        """Raise all of the few records that differ in a field which the question names; return their leaves."""
        tree, children = self.tree, self.shape.children
        best = max((self.matches.get(path, 0.0) for path in self.columns), default=0.0)
        differing: Counter[int] = Counter()
        for path, nodes in self.columns.items():
            if len(nodes) < FEWEST_TO_DIFFER or self.matches.get(path, 0.0) < CLOSE_MATCH * best or not best:
                continue
            counts = Counter(tree.value[node] for node in nodes)
            if 1 < len(counts) <= MOST_STATES:
                rare = [tree.parent[node] for node in nodes if counts[tree.value[node]] <= RARE_SHARE * len(nodes)]
                if len(rare) <= MOST_WINNERS:
                    # The fewer values a field has, the more a rare one says.
                    differing.update({record: 12 // len(counts) for record in rare})
        top = max(scores, default=0.0)
        raised: set[int] = set()
        for record, _ in differing.most_common(MOST_WINNERS):
            for child in children[record] or ():
                for leaf in (child, *(children[child] or ())) if tree.kind[child] == TEXT else (child,):
                    if tree.kind[leaf] == LEAF and len(raised) < MOST_FIELDS * MOST_WINNERS:
                        scores[leaf] = max(scores[leaf], RARE_FIELD * top)
                        raised.add(leaf)
        return raised

    def _raise_pieces(self, scores: list[float]) -> None:
        """Raise pieces of a long value with the best of them: a message is rarely understood from one of its lines."""
        tree = self.tree
        if TEXT not in tree.kind:
            return
        pieces = [node for node, parent in enumerate(tree.parent) if parent >= 0 and tree.kind[parent] == TEXT]
        best: dict[int, float] = {}
        for node in pieces:
            parent = tree.parent[node]
            if scores[node] > best.get(parent, 0.0):
                best[parent] = scores[node]
        for node in pieces:
            if scores[node] > 0.3:
                scores[node] += 0.25 * best[tree.parent[node]]

    def _nearness(self) -> list[float]:
        """Return what a node gains from relevant nodes in its record and from headings above, never from other records.

        A node that matches some terms gains most from nodes that match the others: the value of the requested key in
        the requested record, rather than the key in any record.
        """
        found = self.found
        parents, kinds, record = self.tree.parent, self.tree.kind, self.shape.record
        relevance = found.relevance
        count = len(parents)
        near = [0.0] * count
        if not any(relevance):
            return near
        up = list(relevance)
        up_from = list(range(count))
        for node in range(count - 1, 0, -1):
            flow = up[node]
            if flow > 0 and (parent := parents[node]) >= 0:
                if kinds[node] != LEAF:
                    flow *= 0.75
                if flow > up[parent]:
                    up[parent], up_from[parent] = flow, up_from[node]
        down = [0.0] * count
        down_from = list(range(count))
        for node, (parent, own) in enumerate(zip(parents, relevance, strict=True)):
            if parent < 0:
                down[node] = own
                continue
            flow, source = down[parent] * 0.85, down_from[parent]
            if up[parent] * 0.8 > flow and (not record[node] or (kinds[node] == LEAF and kinds[parent] != LIST)):
                flow, source = up[parent] * 0.8, up_from[parent]
            if flow > 0 and source != node:
                near[node] = flow * (0.3 + 2.0 * found.adds(source, node)) if own > 0 else flow * 0.5
            if flow > own:
                down[node], down_from[node] = flow, source
            else:
                down[node] = own
        return near

    def _configured(self) -> list[bool]:
        tree = self.tree
        marked = [False] * len(tree)
        keys = {key for key in set(tree.key) if key.lower() in _CONFIGURED}
        if keys:
            for node, (parent, key) in enumerate(zip(tree.parent, tree.key, strict=True)):
                marked[node] = (parent >= 0 and marked[parent]) or key in keys
        return marked

    def _columns(self, scores: list[float]) -> None:
        """Score oddness, extremes, comparisons, negated states and novelty, path by path."""
        tree, shape, focus = self.tree, self.shape, self.focus
        columns = self.columns
        for node, (path, kind) in enumerate(zip(shape.paths, tree.kind, strict=True)):
            if kind == LEAF:
                column = columns.get(path)
                if column is None:
                    columns[path] = [node]
                else:
                    column.append(node)
        odd_weight = 2.4 if focus.unusual else 1.2 if not focus else 0.9 if focus.trouble else 0.5
        matches = self.matches = self._path_matches()
        measured = self._measured()
        best_match = max((matches.get(path, 0.0) for path in columns), default=0.0)
        best_measured = max((matches.get(path, 0.0) for path in measured), default=0.0)
        meant = {path: way for path in measured if (way := self._meant_direction(path))}
        absence = asks_for_absence(focus.text)
        for path, nodes in columns.items():
            values = [tree.value[node] for node in nodes]
            strength = matches.get(path, 0.0) / best_match if best_match else 0.0
            weight = odd_weight * (1.0 + 0.8 * strength)
            known = measured.get(path)
            for position, odd in oddness(values, known).items():
                scores[nodes[position]] += weight * odd
            if known is not None:
                asked = matches.get(path, 0.0) / best_measured if best_measured else 0.5
                named = bool(best_measured)
                if not meant:
                    self._raise_extremes(scores, nodes, known, focus.superlative, asked, named=named)
                elif path in meant:
                    self._raise_extremes(scores, nodes, known, meant[path], 1.0, named=True)
                for comparison in focus.comparisons:
                    for position in beyond(comparison, values, known, named=named and asked > 0.3):
                        scores[nodes[position]] += 3.0 * asked
            if absence and strength > 0.5:
                self._raise_missing(scores, path, nodes)
            if focus.negated:
                self._negated(scores, nodes, values, 1.0 + 1.5 * strength)
            self._novelty(scores, nodes, values)

    def _meant_direction(self, path: int) -> int:
        first = [self.tree.value[node] for node in self.columns[path][:8]]
        return meant_direction(self.focus.text, self.shape.path_key[path], first)

    def _measured(self) -> dict[int, list[float | None]]:
        """Return the fields of numbers: path → the number of each leaf."""
        tree = self.tree
        measured: dict[int, list[float | None]] = {}
        for path, nodes in self.columns.items():
            if len(nodes) < 3:
                continue
            if tree.series and nodes[0] in tree.series:
                best = min if self.focus.superlative < 0 else max
                measured[path] = [best(tree.series[node]) if node in tree.series else None for node in nodes]
            elif (numbers := numbers_of([tree.value[node] for node in nodes])) is not None:
                measured[path] = numbers
        return measured

    def _raise_extremes(
        self, scores: list[float], nodes: list[int], known: list[float | None], way: int, asked: float, *, named: bool
    ) -> None:
        """Raise the highest (way 1) or lowest (-1) values of a field that the question asks for."""
        if way and len({number for number in known if number is not None}) > 1:
            # The answer must rank above everything that merely has the right key.
            bonus = (4.0 if named else 2.8) * asked
            for rank, position in enumerate(extremes(known, way, 4)):
                scores[nodes[position]] += bonus / (1 + 0.35 * rank)
                if not rank:
                    self.leaders[nodes[position]] = bonus

    def _raise_missing(self, scores: list[float], path: int, nodes: list[int]) -> None:
        """Raise the records without a value in a field, if most records have one."""
        tree, shape = self.tree, self.shape
        missing = [node for node in nodes if is_missing(tree.value[node])]
        if len(missing) <= MOST_MISSING * len(nodes):
            for node in missing:
                scores[node] += 2.4
        owner = shape.record_path(path)
        records = self.records_of(owner) if owner >= 0 else []
        if len(nodes) < len(records) <= len(nodes) / (1 - MOST_MISSING):
            having = {shape.owner_at(node, owner) for node in nodes}
            for record in records:
                if record not in having:
                    for leaf in shape.identity.get(record, ())[:1]:
                        scores[leaf] += 2.4

    def records_of(self, path: int) -> list[int]:
        return [node for node, at in enumerate(self.shape.paths) if at == path]

    def _negated(self, scores: list[float], nodes: list[int], values: list[str], weight: float) -> None:
        normal = {value for value in set(values) if len(value) < 40 and self.focus.rejects(value)}
        if normal and len(set(values)) <= 30 and sum(1 for value in values if value in normal) >= 0.15 * len(values):
            for node, value in zip(nodes, values, strict=True):
                scores[node] += -0.3 if value in normal else weight

    def _path_matches(self) -> dict[int, float]:
        """Score how well the keys of a path match the terms of the focus."""
        shape, focus = self.shape, self.focus
        wanted = {term.text: term.weight for term in focus.terms if term.kind != "phrase"}
        if not wanted:
            return {}
        # Many paths end with the same key.
        by_key = {"[]": 0.0}
        for key in set(shape.path_key) - by_key.keys():
            stems = {stem(part) for part in subwords(key)}
            hit = sum(wanted.get(part, 0.0) for part in stems) + wanted.get(key.lower(), 0.0)
            by_key[key] = hit / (1 + 0.15 * max(0, len(stems) - 1))
        own = [by_key[key] for key in shape.path_key]
        matches = {}
        for path, score in enumerate(own):
            parent = shape.path_parent[path]
            if parent >= 0 and shape.path_key[parent] == "[]":
                parent = shape.path_parent[parent]
            total = score + (0.4 * own[parent] if parent >= 0 else 0.0)
            if total > 0:
                matches[path] = total
        return matches

    def _novelty(self, scores: list[float], nodes: list[int], values: list[str]) -> None:
        """Raise values that occur for the first time slightly; lower hashes, nulls and repeated values."""
        seen: set[str] = set()
        terms: dict[str, set[int]] = {}
        many = len(nodes)
        new = 0.15 + 0.25 / (1 + math.log(many)) if many > 1 else 0.35
        loose = not self.tree.key[nodes[0]] and self.tree.kind[self.tree.parent[nodes[0]]] == OBJECT
        for node, value in zip(nodes, values, strict=True):
            if loose:
                # In lines without a key, the same words with other numbers are a repetition.
                value = without_figures(value)
                known, here = terms.setdefault(value, set()), self.found.terms[node] or {}
                if value in seen and known.issuperset(here):
                    scores[node] *= 0.3
                    continue
                known.update(here)
            empty = _NOISE.match(value) and node not in self.tree.named  # A named value says something at 0, too.
            if empty or (len(value) > 31 and _HASH_INSIDE.search(value)):
                scores[node] *= 0.7 if self.focus.trouble or not self.found.relevance[node] else 1.0
                continue
            if value in seen:
                scores[node] *= REPEATED
            else:
                scores[node] += new
                seen.add(value)
            if len(seen) > 5_000:
                seen.clear()
