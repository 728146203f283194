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
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise

from tersely.condensing.account import ValuePlaces, bare, runs_of
from tersely.condensing.field_counts import FEWEST, MOST_NAMED, Counted, FieldValues, spelled, telling
from tersely.condensing.focus import Focus, Found, scan, stem, subwords
from tersely.condensing.ordinary import (
    COMMON_SHARE,
    EXAMPLES,
    FURTHER,
    PATTERN,
    USUAL_SHARE,
    Examples,
    limit_of,
    worth_of,
    worth_of_count,
)
from tersely.condensing.records import (
    MOST_MISSING,
    asks_for_absence,
    beyond,
    counts_of,
    extremes,
    is_missing,
    looks_like_a_name,
    meant_direction,
    numbers_of,
    oddness,
    sounds_like_a_name,
)
from tersely.condensing.totals import Totals
from tersely.condensing.units import GAP, Gaps, HiddenValues, Reading, Unit, trend_of
from tersely.condensing.value_places import value_places
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.tree import LEAF, LIST, OBJECT, TEXT, Tree
from tersely.shapes.values import number_of

MOST_UNITS = 30_000

LONGEST_OUTCOME = 160
"""In characters. A longer message is shown where there is room for it."""
MOST_OUTCOMES = 0.9
"""Share of the records from which on what they have in common is no outcome."""
_NO_OUTCOME = frozenset(("0", "null", "false", "none", "[]", "{}"))
_OUTCOMES = frozenset(("failure", "failures", "failed", "error", "errors", "skipped", "ignored", "disabled"))

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
BY_LINE = frozenset(("yaml", "outline"))
"""Kinds with one value per line. What is shown of them are lines of the source, never several joined."""
FEWEST_TO_DIFFER = 8
CLOSE_MATCH = 0.6
MOST_STATES = 6
RARE_SHARE = 0.1
RARE_FIELD = 0.9
"""A record differs if a field that the question names has one of few values in all records, and this one's is rare:
then its fields count as much as the best. The field must match the question at least so well, compared with others.
"""
MOST_COUNTED = 5
"""Fields whose values are counted over all records because they matter to the question, …"""
MOST_FURTHER = 14
"""… and so many in all if there is room."""
REPEATED = 0.85
"""What a value that occurred before under the same path is worth, as a share of a new one."""
LONGEST_PATTERN = 240
MOST_PATTERNS = 3
"""Lines of what all records share, each at most so many characters long."""
LEAST_ROLES = 1.5
"""Items that lists must have on average for their items to have roles."""
TELLS_APART = 0.9
"""Share of the records that must differ in the fields that name them, or names are looked for one level deeper."""
LARGEST_RECORD = 400
"""In values. A larger object is not a record, …"""
LARGEST_SHARE = 0.5
"""… and neither is one with a larger share of all values: it is the whole."""

FEWEST_LABELS = 12
"""Values below one owner, each with a key that occurs nowhere else, from which on they reduce each other's score."""

LONGEST_COMMENT = 60
"""Characters that a line of the source may have beside its value and still be shown whole."""

_PLACE = re.compile(
    r"^(?:name|id|path|file|filename|file_?name|uri|url|href|line|lineno|line_?number|start_?line|location|key|title|label"
    r"|host|node|pod|container|instance|service|namespace)$",
    re.I,
)
"""Keys of fields that say which thing a record is about, and where it is."""

_FILE_OR_LINE = {
    **dict.fromkeys(("uri", "path", "file", "filename", "file_name"), "file"),
    **dict.fromkeys(("startline", "start_line", "line", "lineno", "line_number", "linenumber"), "line"),
}
"""Keys of the fields that say where a finding is."""
_FEWEST_FINDINGS = 8
_MOST_BELOW = 8
_MOST_INSIDE = 60
"""Nodes of a record that are searched for its place."""

_JOINT = re.compile(r"\s*[:=]")
_NOISE = re.compile(
    r"[0-9a-f]{32,}|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|sha\d+:|(?:null|none|false|true|0|\"\"|\[]|{}|~)?$",
    re.I,
)
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|\d[\w.:-]*")
_FIGURES_ASIDE = re.compile(r"\(x?#[^()]{0,16}\)")
_HASH_INSIDE = re.compile(r"(?<![0-9a-z])[0-9a-f]{32,}(?![0-9a-z])")
_OPAQUE = re.compile(r"\d+|[0-9a-fA-F]{8,}|[0-9a-fA-F-]{30,}|[A-Za-z0-9+/=_-]{18,}")
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

_NAMING_OBJECTS = frozenset(("metadata", "labels", "metric", "package", "tags", "attributes", "resource"))
"""Sub-objects of a record that may contain its name."""


_Fields = dict[int, list[tuple[int, int]]]
"""Path of a field → (record, leaf) for each record that has it."""


class _Shape:
    """Paths, records and identities of a tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.children = self._children()
        self.maps = self._maps_of_records()
        self.record = self._records()
        self.positional: set[int] = set()
        self._walk_paths()
        self.positional = self._even_lists()
        if self.positional:
            self._walk_paths()
        self.record_paths = {self.paths[node] for node, is_record in enumerate(self.record) if is_record}
        groups = self._record_groups()
        self.identity = self._identities(groups)
        for records in groups:
            self._add_outcomes(records)

    def _children(self) -> list[list[int] | None]:
        children: list[list[int] | None] = [None] * len(self.tree)
        for node, parent in enumerate(self.tree.parent):
            if parent >= 0:
                seen = children[parent]
                if seen is None:
                    children[parent] = [node]
                else:
                    seen.append(node)
        return children

    def _records(self) -> bytearray:
        """Mark nodes that are one of several similar ones with 1: list elements, map entries, repeated keys."""
        tree = self.tree
        record = bytearray(len(tree))
        for node, inside in enumerate(self.children):
            if inside is None:
                continue
            if tree.kind[node] == LIST or node in self.maps:
                for child in inside:
                    record[child] = 1
            elif tree.kind[node] == OBJECT and len(inside) > 1:
                owners = [child for child in inside if tree.kind[child] != LEAF]
                keys = Counter(tree.key[child] for child in owners)
                if len(keys) < len(owners):
                    for child in owners:
                        record[child] = keys[tree.key[child]] > 1
        return record

    def _even_lists(self) -> set[int]:
        """Return short lists that always have the same length, as `[time, value]`: the position defines the meaning."""
        tree = self.tree
        lengths: dict[int, set[int]] = {}
        times: dict[int, int] = {}
        lists = [node for node in range(len(tree)) if tree.kind[node] == LIST and self.children[node]]
        for node in lists:
            inside = self.children[node] or []
            path = self.paths[node]
            lengths.setdefault(path, set()).add(
                len(inside) if all(tree.kind[child] == LEAF for child in inside[:40]) else -1
            )
            times[path] = times.get(path, 0) + 1
        even = {
            path
            for path, found in lengths.items()
            if len(found) == 1 and 2 <= next(iter(found)) <= 40 and times[path] >= 4
        }
        return {node for node in lists if self.paths[node] in even}

    def _maps_of_records(self) -> set[int]:
        """Return objects whose keys are names of similar things: `{"web-1": {...}, "web-2": {...}}`."""
        tree, children = self.tree, self.children
        maps = set()
        for node, kind in enumerate(tree.kind):
            inside = children[node]
            if kind != OBJECT or inside is None or len(inside) < 4:
                continue
            nested = [child for child in inside if tree.kind[child] == OBJECT]
            if len({tree.key[child] for child in inside}) < len(inside):
                continue  # Repeated keys name the type, not the instance.
            if len(nested) >= 0.8 * len(inside):
                keys = [frozenset(tree.key[grand] for grand in children[child] or ()) for child in nested[:24]]
                pairs = list(pairwise(keys))
                alike = sum(len(a & b) / max(1, len(a | b)) for a, b in pairs) / max(1, len(pairs))
                if alike >= 0.45:
                    maps.add(node)
            elif (
                len(inside) >= 20
                and len({tree.kind[child] for child in inside}) == 1
                and tree.kind[inside[0]] in (LEAF, LIST)
            ):
                # Many plain values under similar keys: dates, hosts, codes.
                names = [tree.key[child] for child in inside[:60]]
                digits = sum(1 for name in names if any(c.isdigit() for c in name)) / len(names)
                if digits > 0.7:
                    maps.add(node)
        return maps

    def _walk_paths(self) -> None:
        """Number the path of each node; indices and names of records are not part of a path."""
        tree, maps, positional = self.tree, self.maps, self.positional
        known: dict[tuple[int, str], int] = {}
        paths: list[int] = []
        path_key: list[str] = []
        path_parent: list[int] = []
        place = 0
        before = -1
        for node, parent in enumerate(tree.parent):
            above = paths[parent] if parent >= 0 else -1
            if parent >= 0 and (tree.kind[parent] in (LIST, TEXT) or parent in maps):
                step = "[]"
                if parent in positional:
                    place = place + 1 if parent == before else 0
                    before = parent
                    step = f"[{place}]"
                elif node in tree.named:
                    step = tree.named[node]
            else:
                step = tree.key[node]
            entry = (above, step)
            number = known.get(entry)
            if number is None:
                number = known[entry] = len(path_key)
                path_key.append(step)
                path_parent.append(above)
            paths.append(number)
        self.paths, self.path_key, self.path_parent = paths, path_key, path_parent

    def record_path(self, path: int) -> int:
        """Return the path of the records that have this field; -1 if it is not a field of records."""
        path = self.path_parent[path]
        while path >= 0 and self.path_key[path] != "[]" and path not in self.record_paths:
            path = self.path_parent[path]
        return path

    def owner_at(self, node: int, path: int) -> int:
        """Return the node above with this path; -1 if there is none."""
        while node >= 0 and self.paths[node] != path:
            node = self.tree.parent[node]
        return node

    def _record_groups(self) -> list[list[int]]:
        """Return the records without a name of their own, those with the same path together."""
        tree = self.tree
        groups: dict[int, list[int]] = {}
        for node, parent in enumerate(tree.parent):
            if tree.kind[node] == OBJECT and parent >= 0 and self.record[node] and not tree.value[node]:
                groups.setdefault(self.paths[node], []).append(node)
        return list(groups.values())

    def _identities(self, groups: list[list[int]]) -> dict[int, list[int]]:
        """Return record node → the leaves that distinguish it from its siblings."""
        tree = self.tree
        identity: dict[int, list[int]] = {}
        for records in groups:
            fields = self._fields(records)
            chosen = self._identifying_paths(records, fields)
            if len(records) > 1 and not self._tells_apart(records, fields, chosen):
                # What names them may be one level below: `Certificate:`, `Data:`, `Subject: …`.
                deeper = self._fields(records, deep=True)
                names = self._identifying_paths(records, deeper) if len(deeper) > len(fields) else []
                if self._tells_apart(records, deeper, names):
                    fields, chosen = deeper, names
                elif len(records) >= _FEWEST_FINDINGS:
                    places = self._places(records)
                    if self._tells_apart(records, {**fields, **places}, [*chosen, *places]):
                        fields, chosen = {**fields, **places}, [*chosen, *places]
            for path in chosen:
                seen = set()
                for record, leaf in fields[path]:
                    if record not in seen:
                        identity.setdefault(record, []).append(leaf)
                        seen.add(record)
        for node in tree.named:
            if tree.kind[node] == OBJECT:
                identity[node] = [
                    leaf for leaf in self.children[node] or () if tree.key[leaf].lower() in _NAME_KEYS | _ROLE_KEYS
                ][:1]
        for leaves in identity.values():
            leaves.sort()
        return identity

    def _add_outcomes(self, records: list[int]) -> None:
        """Add to what identifies a record the leaf that says it failed or was skipped, where few others have one.

        Without it, the name of a failed test would read as that of any other.
        """
        tree, children = self.tree, self.children
        named = [
            (record, child)
            for record in records
            for child in children[record] or ()
            if tree.key[child].lower() in _OUTCOMES and tree.value[child] not in _NO_OUTCOME
        ]
        if len(named) > MOST_OUTCOMES * len(records):
            return
        for record, child in named:
            inside = [child] if tree.kind[child] == LEAF else children[child] or ()
            short = [leaf for leaf in inside if tree.kind[leaf] == LEAF and len(tree.value[leaf]) <= LONGEST_OUTCOME]
            leaves = self.identity.get(record)
            if leaves and short and not set(leaves) & set(short):
                leaves.append(max(short, key=lambda leaf: (tree.key[leaf] == "message", -leaf)))

    def _places(self, records: list[int]) -> _Fields:
        """Return the fields that say where records are, a file and a line, wherever they are inside: findings."""
        tree = self.tree
        fields: _Fields = {}
        for record in records:
            seen: set[str] = set()
            inside = list(self.children[record] or ())
            for node in inside:
                if tree.kind[node] != LEAF:
                    inside += (self.children[node] or ())[:_MOST_BELOW]
                    if len(inside) > _MOST_INSIDE:
                        break
                elif (role := _FILE_OR_LINE.get(tree.key[node].lower())) and role not in seen:
                    seen.add(role)
                    fields.setdefault(self.paths[node], []).append((record, node))
        return {path: found for path, found in fields.items() if len(found) >= TELLS_APART * len(records)}

    def _fields(self, records: list[int], *, deep: bool = False) -> _Fields:
        fields: _Fields = {}
        for record in records:
            for leaf in self._near_leaves(record, deep=deep):
                fields.setdefault(self.paths[leaf], []).append((record, leaf))
        return fields

    def _identifying_paths(self, records: list[int], fields: _Fields) -> list[int]:
        """Return the fields that identify these records, the best first."""
        ranked = self._ranked_fields(records, fields)
        chosen = self._distinguishing(records, fields, ranked)
        if self.tree.parent[records[0]] in self.maps:
            return [path for path in chosen[:1] if sounds_like_a_name(self.path_key[path])]
        if chosen and self._is_opaque(fields[chosen[0]]):
            # A number or a hash identifies, but only a name is meaningful to the reader.
            for _, path in ranked[:12]:
                if (
                    path not in chosen
                    and sounds_like_a_name(self.path_key[path]) >= 0.4
                    and not self._is_opaque(fields[path])
                ):
                    return [*chosen, path]
        return chosen

    def _ranked_fields(self, records: list[int], fields: _Fields) -> list[tuple[float, int]]:
        """Rank fields as (score as an identity, path): named like a name, distinct, in every record, short, early."""
        # A truncated text may lack a field of its first and its last record.
        everywhere = 1 - 2 / len(records) if len(records) >= 20 else 1.0
        ranked = []
        for place, (path, found) in enumerate(fields.items()):
            values = [self.tree.value[leaf] for _, leaf in found]
            distinct = len(set(values)) / len(values)
            coverage = len({record for record, _ in found}) / len(records)
            length = sum(map(len, values[:50])) / len(values[:50])
            if length > 120 or length == 0 or (len(records) > 1 and len(set(values)) <= 1):
                continue
            worth = sounds_like_a_name(self.path_key[path]) + looks_like_a_name(values[:40]) + distinct * coverage
            worth += 0.2 * (coverage >= everywhere) - 0.02 * min(place, 10) - 0.006 * max(0.0, length - 32)
            ranked.append((worth, -place, path))
        ranked.sort(reverse=True)
        return [(worth, path) for worth, _, path in ranked]

    def _distinguishing(self, records: list[int], fields: _Fields, ranked: list[tuple[float, int]]) -> list[int]:
        """Choose at most three fields that together distinguish (nearly) all records."""
        value = self.tree.value
        chosen: list[int] = []
        signature: dict[int, tuple[str, ...]] = dict.fromkeys(records, ())
        distinct_before = 1
        for worth, path in ranked[:6]:
            if worth < 0.5 or len(chosen) == 3:
                break
            if chosen and distinct_before >= 0.95 * len(records):
                # Already distinct; add a second name only if the choice was close.
                length = sum(len(value[leaf]) for _, leaf in fields[path][:20]) / len(fields[path][:20])
                if worth >= ranked[0][0] - 0.12 and length < 40:
                    chosen.append(path)
                break
            trial = dict(signature)
            for record, leaf in fields[path]:
                trial[record] = (*trial[record], value[leaf])
            distinct_now = len(set(trial.values()))
            if chosen and distinct_now <= distinct_before * 1.02:
                continue
            chosen.append(path)
            signature, distinct_before = trial, distinct_now
        return chosen

    def _tells_apart(self, records: list[int], fields: _Fields, chosen: list[int]) -> bool:
        """Whether nearly all records differ in these fields."""
        values: dict[int, tuple[str, ...]] = {}
        for path in chosen:
            for record, leaf in fields[path]:
                values[record] = (*values.get(record, ()), self.tree.value[leaf])
        return len(set(values.values())) >= TELLS_APART * len(records)

    def _is_opaque(self, found: list[tuple[int, int]]) -> bool:
        """Whether the values of a field are mostly numbers and hashes."""
        values = [self.tree.value[leaf] for _, leaf in found[:20]]
        return sum(1 for value in values if _OPAQUE.fullmatch(value)) > 0.7 * len(values)

    def _near_leaves(self, record: int, *, deep: bool = False) -> list[int]:
        """Return the leaves of a record and of its naming sub-objects (`metadata`, `labels`), not of its lists.

        With `deep`, of all its sub-objects.
        """
        tree, children = self.tree, self.children
        found = []
        for child in children[record] or ():
            if tree.kind[child] == LEAF:
                found.append(child)
            elif tree.kind[child] == OBJECT and (deep or tree.key[child].lower() in _NAMING_OBJECTS):
                found += [grand for grand in children[child] or () if tree.kind[grand] == LEAF]
            if len(found) > 60:
                break
        return found


def _without_figures(line: str) -> str:
    """Return a line without its figures, their alignment, and remarks that consist of figures: `(x6 over 18h)`."""
    return " ".join(_FIGURES_ASIDE.sub("", _VARIABLE.sub("#", line[:160])).split())[:100]


def read_tree(tree: Tree, focus: Focus, budget: int, kind: str) -> Reading:
    """Score the leaves of a tree and return them as units with their own layout."""
    tree = _rewritten(tree)
    shape = _Shape(tree)
    worth = _Scorer(tree, shape, focus)
    return _TreeReading(tree, shape, worth, kind, budget).reading()


_HEADINGS = frozenset(
    ("columns", "headers", "header", "fields", "columnnames", "colnames", "schema", "keys", "cols", "names")
)
_NAME_KEYS = frozenset(("key", "name", "k", "label", "tag", "attribute", "property", "field"))
_ROLE_KEYS = frozenset(("type", "name", "key", "condition", "role", "kind", "label"))
_VALUE_KEYS = frozenset(("value", "val", "v", "values"))


def _rewritten(tree: Tree) -> Tree:
    """Replace series of numbers by one value each, name the cells of rows, and turn name/value pairs into fields."""
    children: list[list[int] | None] = [None] * len(tree)
    has_list = False
    for node, parent in enumerate(tree.parent):
        if parent >= 0:
            seen = children[parent]
            if seen is None:
                children[parent] = [node]
            else:
                seen.append(node)
            has_list = has_list or tree.kind[parent] == LIST
    if not has_list:
        return tree
    dropped = bytearray(len(tree))
    headings: dict[int, list[int]] = {}
    for node in range(len(tree)):
        inside = children[node]
        if tree.kind[node] != LIST or inside is None or dropped[node]:
            continue
        if len(inside) >= 8:
            summary = _series(tree, children, inside)
            if summary:
                tree.kind[node] = LEAF
                tree.value[node], tree.series[node] = summary
                for child in inside:
                    dropped[child] = 1
                    for grand in children[child] or ():
                        dropped[grand] = 1
                continue
        if len(inside) >= 3:
            _name_columns(tree, children, node, inside, headings)
        _name_pairs(tree, children, inside, dropped)
    _name_roles(tree, children)
    return tree.without(dropped) if any(dropped) else tree


def _name_roles(tree: Tree, children: list[list[int] | None]) -> None:
    """Name list elements by their role (`conditions` of type Ready, Degraded …), so that equal roles are compared."""
    lists: dict[str, list[int]] = {}
    for node in range(len(tree)):
        if (
            tree.kind[node] == LIST
            and tree.key[node]
            and children[node]
            and tree.kind[(children[node] or [0])[0]] == OBJECT
        ):
            lists.setdefault(tree.key[node], []).append(node)
    for nodes in lists.values():
        if len(nodes) < 4:
            continue
        roles: dict[int, tuple[int, str]] = {}
        for node in nodes:
            for child in children[node] or ():
                for leaf in (children[child] or ())[:8]:
                    if tree.key[leaf].lower() in _ROLE_KEYS and tree.kind[leaf] == LEAF:
                        roles[child] = (node, tree.value[leaf])
                        break
        total = sum(len(children[node] or ()) for node in nodes)
        kinds = {role for _, role in roles.values()}
        # Each role at most once per list, and in many lists; otherwise it is the name of a thing.
        # With one item per list there is nothing to tell apart.
        several = total >= LEAST_ROLES * len(nodes)
        if several and len(roles) == total and len(set(roles.values())) == total and len(kinds) <= total / 4:
            for child, (_, role) in roles.items():
                tree.named.setdefault(child, role)


def _series(tree: Tree, children: list[list[int] | None], inside: list[int]) -> tuple[str, list[float]] | None:
    """Summarise `[[time, value], …]` or `[number, …]`: first, last, lowest, highest with their times, and trend."""
    times: list[str] = []
    values: list[str] = []
    for child in inside:
        if tree.kind[child] == LEAF:
            values.append(tree.value[child])
        elif tree.kind[child] == LIST and len(children[child] or ()) == 2:
            pair = children[child] or []
            if tree.kind[pair[0]] != LEAF or tree.kind[pair[1]] != LEAF:
                return None
            times.append(tree.value[pair[0]])
            values.append(tree.value[pair[1]])
        else:
            return None
    if times and len(times) != len(values):
        return None
    numbers = [number_of(value) for value in values]
    if any(number is None for number in numbers) or (times and not _are_times(times)):
        return None
    known = [number for number in numbers if number is not None]
    if not times and len(values) < 12:
        return None
    low, high = min(range(len(known)), key=known.__getitem__), max(range(len(known)), key=known.__getitem__)

    def point(at: int) -> str:
        return f"{values[at]} @{times[at]}" if times else values[at]

    last = len(values) - 1
    steps = [abs(after - before) for before, after in pairwise(known)]
    jump = max(range(len(steps)), key=steps.__getitem__)
    text = f"{len(values)} values, first {point(0)}, last {point(last)}, min {point(low)}, max {point(high)}"
    usual = sorted(steps)[len(steps) // 2]
    if steps[jump] > 6 * usual and steps[jump] > 0:
        text += f", jump {values[jump]} → {point(jump + 1)}"
    trend = trend_of(known)
    return (f"{text}, {trend}" if trend else text), known


def _are_times(times: list[str]) -> bool:
    """Whether numbers ascend or descend, as those do at which values are taken; coordinates do not."""
    known = [number for time in times if (number := number_of(time)) is not None]
    return len(known) == len(times) and (known == sorted(known) or known == sorted(known, reverse=True))


_NO_LETTER = re.compile(r"[^a-z]")


def _is_heading(key: str) -> bool:
    name = _NO_LETTER.sub("", key.lower())
    return name in _HEADINGS or name.endswith(("columns", "fields", "headers"))


def _name_columns(
    tree: Tree, children: list[list[int] | None], node: int, inside: list[int], headings: dict[int, list[int]]
) -> None:
    """Name the values of plain rows after column names in a sibling list or in the first row.

    `headings` keeps for each owner which of the nodes in it are called as column names are: lists may have very many
    siblings.
    """
    width = len(children[inside[0]] or ())
    rows = [child for child in inside if tree.kind[child] == LIST and len(children[child] or ()) == width]
    if width < 2 or len(rows) < 0.9 * len(inside):
        return
    header: list[int] | None = None
    parent = tree.parent[node]
    if parent >= 0 and parent not in headings:
        headings[parent] = [sibling for sibling in children[parent] or () if _is_heading(tree.key[sibling])]
    for sibling in headings.get(parent, ()):
        names = children[sibling] or []
        if sibling != node and tree.kind[sibling] == LIST and len(names) == width:
            header = names
    labels: list[str] = []
    if header is not None:
        for name in header:
            if tree.kind[name] == LEAF:
                labels.append(tree.value[name])
            else:
                inner = [leaf for leaf in children[name] or () if tree.kind[leaf] == LEAF]
                labels.append(
                    next(
                        (tree.value[leaf] for leaf in inner if tree.key[leaf].lower() in _NAME_KEYS),
                        tree.value[inner[0]] if inner else "",
                    )
                )
    else:
        first = [tree.value[leaf] for leaf in children[inside[0]] or ()]
        second = [tree.value[leaf] for leaf in children[inside[1]] or ()]
        wordy = (
            all(value and number_of(value) is None and len(value) < 50 for value in first) and len(set(first)) == width
        )
        if wordy and any(number_of(value) is not None for value in second):
            labels = first
            rows = rows[1:]
    if len(labels) != width:
        return
    for row in rows:
        tree.kind[row] = OBJECT
        for leaf, label in zip(children[row] or (), labels, strict=True):
            tree.key[leaf] = label


def _name_pairs(tree: Tree, children: list[list[int] | None], inside: list[int], dropped: bytearray) -> None:
    """Turn `{"key": "port", "value": 80}` into the field `port`."""
    pairs: list[tuple[int, int, int, int]] = []
    for child in inside:
        leaves = children[child] or []
        if tree.kind[child] != OBJECT or not 2 <= len(leaves) <= 3:
            return
        name = next((leaf for leaf in leaves if tree.key[leaf].lower() in _NAME_KEYS and tree.kind[leaf] == LEAF), None)
        value = next(
            (leaf for leaf in leaves if tree.key[leaf].lower() in _VALUE_KEYS and tree.kind[leaf] == LEAF), None
        )
        if name is None or value is None or len(tree.value[name]) > 80:
            return
        pairs.append((child, name, value, len(leaves)))
    for child, name, value, size in pairs:
        tree.named[child] = tree.value[name]
        if size == 2:
            tree.kind[child] = LEAF
            tree.key[child], tree.value[child] = tree.value[name], tree.value[value]
            dropped[name] = dropped[value] = 1
            last = max(tree.line[name], tree.line[value])
            if last > tree.line[child]:
                tree.ends[child] = last


class _Scorer:
    """Scores of the nodes for one question."""

    def __init__(self, tree: Tree, shape: _Shape, focus: Focus) -> None:
        self.tree, self.shape, self.focus = tree, shape, focus
        texts = [f"{key} {value}" if value else key for key, value in zip(tree.key, tree.value, strict=True)]
        self.found: Found = scan(texts, focus)
        self.winning: set[int] = set()
        """Fields of the records that answer the question best."""
        self.columns: dict[int, list[int]] = {}
        """Path → its leaves."""
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
        bad = [severity * (0.3 if configured[node] else 1.0) for node, severity in enumerate(found.severity)]
        worst = [severity if tree.value[node] else 0.0 for node, severity in enumerate(bad)]
        for node, severity in enumerate(bad):
            parent = tree.parent[node]
            if severity > 0 and parent >= 0 and severity > worst[parent] and tree.kind[parent] != LIST:
                worst[parent] = severity
        for node in range(len(tree)):
            if tree.kind[node] != LEAF and not tree.value[node]:
                continue
            own = found.relevance[node]
            score = weights.relevance * own + weights.nearness * near[node]
            if configured[node] and focus.trouble:
                score *= 0.7  # The question is about what happened, not about what was configured.
            score += trouble * bad[node]
            parent = tree.parent[node]
            if parent >= 0 and not configured[node]:
                # The values next to a bad one are its reasons: exit code, message, time.
                score += (
                    0.4
                    * trouble
                    * (worst[parent] if tree.kind[parent] != TEXT else max(worst[parent], worst[tree.parent[parent]]))
                )
            scores[node] = score
        self._columns(scores)
        self._raise_pieces(scores)
        if focus and not (focus.unusual or focus.superlative):
            self.winning = _Winners(tree, self.shape, found).complete(scores, troubled=focus.trouble)
        if focus and not focus.superlative:
            self.winning |= self._raise_rare(scores)
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
        best: dict[int, float] = {}
        for node, score in enumerate(scores):
            parent = tree.parent[node]
            if parent >= 0 and tree.kind[parent] == TEXT and score > best.get(parent, 0.0):
                best[parent] = score
        for node, parent in enumerate(tree.parent):
            if parent in best and scores[node] > 0.3:
                scores[node] += 0.25 * best[parent]

    def _nearness(self) -> list[float]:
        """Return what a node gains from relevant nodes in its record and from headings above, never from other records.

        A node that matches some terms gains most from nodes that match the others: the value of the requested key in
        the requested record, rather than the key in any record.
        """
        tree, shape, found = self.tree, self.shape, self.found
        relevance = found.relevance
        count = len(tree)
        up = list(relevance)
        up_from = list(range(count))
        for node in range(count - 1, 0, -1):
            parent = tree.parent[node]
            if parent >= 0 and up[node] > 0:
                flow = up[node] * (1.0 if tree.kind[node] == LEAF else 0.75)
                if flow > up[parent]:
                    up[parent], up_from[parent] = flow, up_from[node]
        down = [0.0] * count
        down_from = list(range(count))
        near = [0.0] * count
        for node in range(count):
            parent = tree.parent[node]
            own = relevance[node]
            if parent < 0:
                down[node] = own
                continue
            flow, source = down[parent] * 0.85, down_from[parent]
            if (not shape.record[node] or (tree.kind[node] == LEAF and tree.kind[parent] != LIST)) and up[
                parent
            ] * 0.8 > flow:
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
        for node, parent in enumerate(tree.parent):
            marked[node] = (parent >= 0 and marked[parent]) or tree.key[node].lower() in _CONFIGURED
        return marked

    def _columns(self, scores: list[float]) -> None:
        """Score oddness, extremes, comparisons, negated states and novelty, path by path."""
        tree, shape, focus = self.tree, self.shape, self.focus
        columns = self.columns
        for node, path in enumerate(shape.paths):
            if tree.kind[node] == LEAF:
                columns.setdefault(path, []).append(node)
        odd_weight = 2.4 if focus.unusual else 1.2 if not focus else 0.9 if focus.trouble else 0.5
        matches = self.matches = self._path_matches()
        measured = self._measured()
        best_match = max((matches.get(path, 0.0) for path in columns), default=0.0)
        best_measured = max((matches.get(path, 0.0) for path in measured), default=0.0)
        meant = {path: way for path in measured if (way := meant_direction(focus.text, shape.path_key[path]))}
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
        own: list[float] = []
        for key in shape.path_key:
            if key == "[]":
                own.append(0.0)
                continue
            stems = {stem(part) for part in subwords(key)}
            hit = sum(wanted.get(part, 0.0) for part in stems) + wanted.get(key.lower(), 0.0)
            own.append(hit / (1 + 0.15 * max(0, len(stems) - 1)))
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
        loose = not self.tree.key[nodes[0]] and self.tree.kind[self.tree.parent[nodes[0]]] == OBJECT
        for node, value in zip(nodes, values, strict=True):
            if loose:
                # In lines without a key, the same words with other numbers are a repetition.
                value = _without_figures(value)
                known, here = terms.setdefault(value, set()), self.found.terms[node] or {}
                if value in seen and known.issuperset(here):
                    scores[node] *= 0.3
                    continue
                known.update(here)
            if _NOISE.match(value) or (len(value) > 31 and _HASH_INSIDE.search(value)):
                scores[node] *= 0.7 if self.focus.trouble or not self.found.relevance[node] else 1.0
                continue
            if value in seen:
                scores[node] *= REPEATED
            else:
                scores[node] += 0.15 + 0.25 / (1 + math.log(many)) if many > 1 else 0.35
                seen.add(value)
            if len(seen) > 5_000:
                seen.clear()


class _Winners:
    """The records that answer the question best: their other fields are worth more than crumbs of other records."""

    def __init__(self, tree: Tree, shape: _Shape, found: Found) -> None:
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
            if seen and self.tree.kind[node] == LEAF:
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
        """Return the record of a leaf: the nearest object, and the records around it as long as they are small."""
        tree, sizes = self.tree, self.sizes
        found = -1
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


class _FieldCounts:
    """Units that say what all records of a list have in a field, for the fields that matter to the question."""

    def __init__(self, tree: Tree, shape: _Shape, worth: _Scorer) -> None:
        self.tree, self.shape, self.worth = tree, shape, worth
        self.records: Counter[int] = Counter(shape.paths)
        """Path → number of nodes."""

    def units(self) -> list[tuple[Unit, list[int]]]:
        """Return the units, each with the leaves whose values it counts."""
        worth = self.worth
        places: list[tuple[int, int]] = []
        fields: list[FieldValues] = []
        constant: dict[int, list[int]] = {}
        for path, nodes in worth.columns.items():
            owner = self.shape.record_path(path)
            if owner < 0 or self.records[owner] < FEWEST or self.shape.path_key[path][:1] == "[":
                continue
            values = [self.tree.value[node] for node in nodes]
            nested = self.records[path] - len(nodes)
            absent = max(0, self.records[owner] - len(nodes) - nested)
            label = self.shape.path_key[path]
            rejected = float(worth.focus.rejects(label))
            match = max(worth.matches.get(path, 0.0), rejected)
            is_constant = not absent and not nested and values.count(values[0]) == len(values)
            if is_constant and not rejected and not worth.focus.names(label):
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
        return ".".join(reversed(steps))

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
        for node in range(len(tree) - 1, -1, -1):
            inside = shape.children[node]
            if inside and not shape.record[node] and not tree.value[node]:
                by[node] = -1 if any(by[child] < 0 for child in inside) else by[inside[0]]
            if by[node] >= 0:
                lines[by[node]].append(tree.line[node])
        for (unit, _), own in zip(units, lines, strict=True):
            unit.folded = _runs_later(own)


def _runs_later(lines: list[int]) -> Callable[[], Iterable[tuple[int, int]]]:
    return lambda: ((line, line) for line in lines)


def _lower_ordinary(tree: Tree, shape: _Shape, worth: _Scorer, scores: list[float]) -> dict[int, int]:
    """Lower the values that are as good as most in their field, record by record, and return them.

    What answers the question comes first, then the counts of fields, then one ordinary record as a whole, as a pattern
    for the others, instead of crumbs of many. Each value comes with the place of its record among the ordinary ones,
    -1 beside a value that stands out.
    """
    records = Counter(shape.paths)
    owners: list[int] = [-1] * len(tree)
    for node, parent in enumerate(tree.parent):
        if parent >= 0 and owners[parent] >= 0:
            owners[node] = owners[parent]
        elif shape.record[node] and tree.kind[node] != LEAF and records[shape.paths[node]] >= FEWEST:
            owners[node] = node
    ordinary: list[int] = []
    standing: dict[int, float] = {}
    """Records that stand out, each with the score of its best value."""
    for nodes in worth.columns.values():
        inside = [node for node in nodes if owners[node] >= 0]
        if len({owners[node] for node in inside}) < FEWEST:
            continue  # Lines of one text, or items of few lists: no field that many records have.
        limit = limit_of([scores[node] for node in inside])
        times = Counter(tree.value[node] for node in inside)
        usual, most = times.most_common(1)[0]
        # The first record with the usual value scores a little more than those that repeat it, and is as ordinary.
        first = limit / REPEATED if most >= USUAL_SHARE * len(inside) else limit
        examples = Examples()
        for node in inside:
            value = tree.value[node]
            stands_out = scores[node] > (first if value == usual else limit)
            if stands_out and times[value] >= COMMON_SHARE * len(inside) and not worth.found.relevance[node]:
                stands_out = examples.takes(value)
            if stands_out or node in worth.winning:
                owner = owners[node]
                standing[owner] = max(standing.get(owner, 0.0), scores[node])
            else:
                ordinary.append(node)
    places: dict[int, int] = {}
    seen: Counter[int] = Counter()
    for node in range(len(tree)):
        if owners[node] == node and node not in standing:
            places[node] = seen[shape.paths[node]]
            seen[shape.paths[node]] += 1
    names = {leaf for leaves in shape.identity.values() for leaf in leaves}
    best = set(sorted(standing, key=lambda owner: -standing[owner])[:EXAMPLES])
    found: dict[int, int] = {}
    for node in ordinary:
        place = found[node] = places.get(owners[node], -1)
        if place >= 0:
            scores[node] = worth_of(scores[node], place, name=node in names)
        elif owners[node] in best:  # The values beside one that stands out belong to it.
            scores[node] = max(scores[node], PATTERN)
    return found


def _represented(
    tree: Tree, shape: _Shape, counts: list[tuple[Unit, list[int]]], ordinary: dict[int, int]
) -> dict[int, Unit]:
    """Return the values of which a count or the pattern of all records says everything, each with its unit.

    One record with the usual values stays whole, as does what belongs to a value that stands out.
    """
    sizes = Counter(path for node, path in enumerate(shape.paths) if tree.kind[node] == LEAF)
    represented: dict[int, Unit] = {}
    for unit, leaves in counts:
        times = Counter((shape.paths[leaf], tree.value[leaf]) for leaf in leaves)
        for leaf in leaves:
            path = shape.paths[leaf]
            often, place = times[path, tree.value[leaf]], ordinary.get(leaf, -1)
            if (place > 0 and often >= USUAL_SHARE * sizes[path]) or (place < 0 and often == sizes[path]):
                represented[leaf] = unit
    return represented


class _TreeReading:
    """Units of a tree, and the layout of those that are kept."""

    def __init__(self, tree: Tree, shape: _Shape, worth: _Scorer, kind: str, budget: int) -> None:
        self.tree, self.shape, self.kind, self.budget = tree, shape, kind, budget
        self.scores = scores = worth.scores()
        self.winning = worth.winning
        self.by_line = kind in BY_LINE
        self.fields = _FieldCounts(tree, shape, worth)
        counts = self.fields.units()
        ordinary = _lower_ordinary(tree, shape, worth, scores)
        self.represented = _represented(tree, shape, counts, ordinary)
        for leaf, unit in self.represented.items():
            # What all records share is said once for all that answer the question.
            unit.score = max(unit.score, scores[leaf])
        self.counts = [unit for unit, _ in counts]
        """Units that say what all records have in a field."""
        self.counted = [leaves for _, leaves in counts]
        """For each of them the leaves whose values it counts."""
        self.labelled = self._owners_of_labels()
        self.identifying = {leaf for leaves in shape.identity.values() for leaf in leaves}
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

    def _owners_of_labels(self) -> set[int]:
        """Return the owners of many values with keys of their own, such as labels: each says as little as the next."""
        tree, shape = self.tree, self.shape
        times = Counter(shape.paths)
        return {
            node
            for node, inside in enumerate(shape.children)
            if inside
            and len(inside) >= FEWEST_LABELS
            and tree.parent[node] >= 0
            and all(tree.kind[child] == LEAF and times[shape.paths[child]] == 1 for child in inside)
        }

    def reading(self) -> Reading:
        tree, scores = self.tree, self.scores
        leaves = [node for node in range(len(tree)) if tree.kind[node] == LEAF and node not in self.identifying]
        most = min(MOST_UNITS, 2_000 + 4 * self.budget)
        if len(leaves) > most:
            leaves = sorted(heapq.nsmallest(most, leaves, key=lambda node: (-scores[node], node)))
        wanted = set(leaves)
        for leaf in leaves:
            node = tree.parent[leaf]
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
                family = (family, _without_figures(tree.value[node]))
            elif family is not None and parent in self.labelled:
                family = ("below", parent)
            return Unit(
                self.leaf_text(node) + ", ",
                line,
                tree.ends.get(node, line),
                self.scores[node],
                owner,
                family=family,
                represented_by=self.represented.get(node),
            )
        text = self.label(node)
        # A record that no line opens shows no line of its own.
        last = line if text or node not in tree.joint else line - 1
        score = self.scores[node] if tree.value[node] else -1.0
        if parent in shape.maps and self.represented:
            # The name of a record says something new even if its values do not.
            score = max(
                [score, *(self.scores[leaf] for leaf in shape.children[node] or () if leaf in self.represented)]
            )
        identity = shape.identity.get(node)
        if identity:
            text += ", ".join(self._path_to(leaf, node) + self.leaf_text(leaf) for leaf in identity)
            score = max(score, *(self.scores[leaf] for leaf in identity))
        shows = runs_of((at, at) for leaf in identity or () for at in self._lines_to(leaf, node))
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
            lines.append(self.tree.line[leaf])
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
        tree = self.tree
        value = tree.value[node]
        if "\n" in value and not self.by_line:
            value = value.replace("\n", "\\n")  # As it is written in a string.
        parent = tree.parent[node]
        if not tree.key[node] or (parent >= 0 and tree.kind[parent] in (LIST, TEXT) and node not in tree.named):
            return value or '""'
        key = tree.written.get(node, tree.key[node]) if self.by_line else tree.key[node]
        if not value:
            return f"{key}:" if self.by_line else f'{key}: ""'
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
        body = _Layout(self, shown, changed_text, gaps if self.by_line else None).text()
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
        for index in kept:
            if index >= own:
                shown.update(self.counted[index - own])
        values = hidden = 0
        paths: dict[int, None] = {}
        for node in range(len(tree)):
            if tree.kind[node] == LEAF:
                values += 1
                if node not in shown:
                    hidden += 1
                    paths[self.shape.paths[node]] = None
        places = value_places(tree, written, shown) if self.kind == "json" else ValuePlaces()
        return HiddenValues(hidden, values, tuple(dict.fromkeys(map(self._path_name, paths))), places)

    def _path_name(self, path: int) -> str:
        shape = self.shape
        parts: list[str] = []
        while path >= 0 and len(parts) < 40:
            if shape.path_key[path]:
                parts.append(shape.path_key[path])
            path = shape.path_parent[path]
        return ".".join(reversed(parts)).replace(".[]", "[]") or "[]"


def _beginning(source: str, text: str) -> str:
    """Return a label as the source writes it at its beginning (`Required By     :`), else the label."""
    key = text.rstrip(": ")
    if not source.startswith(key) or not text.endswith((":", ": ")):
        return text
    end = _JOINT.match(source, len(key))
    return source[: end.end()].rstrip() if end else text


_FEWEST_REPEATED = 3
"""Elements with the same key that are a list; fewer may be shown without saying so."""


class _Layout:
    """Lines of the shown nodes, written in one pass without recursion."""

    def __init__(
        self, reading: _TreeReading, shown: set[int], changed_text: dict[int, str], gaps: Gaps | None = None
    ) -> None:
        self.reading, self.changed_text = reading, changed_text
        self.by_line = reading.by_line
        offset = reading.offset()
        self.offset = offset or 0
        self.gaps = gaps if offset is not None else None
        self.last_line = 0
        """The last source line that was written."""
        self.tree, self.shape = tree, shape = reading.tree, reading.shape
        for node in list(shown):
            for leaf in shape.identity.get(node, ()):
                shown.add(leaf)
                above = tree.parent[leaf]
                while above not in shown:
                    shown.add(above)
                    above = tree.parent[above]
        self.hidden_lines: list[int] = []
        """Lines of a text inside a string of which nothing is shown."""
        if self.by_line and self.gaps is None:
            seen = {tree.line[node] for node in shown}
            self.hidden_lines = sorted({line for line in tree.line if line not in seen})
        self.inside: dict[int, list[int]] = {}
        for node in sorted(shown):
            self.inside.setdefault(tree.parent[node], []).append(node)
        self.naming = {
            leaf: record for record, leaves in shape.identity.items() for leaf in leaves[:1] if record in shown
        }
        """The leaf that names a record → the record."""
        self.named_at: dict[int, int] = {}
        """Record → number of characters that had been written after its name."""
        self.written = 0
        self.lines: list[str] = []
        self.start = ""
        """Beginning of the current line: indentation, label, count."""
        self.values: list[str] = []
        """Values on the current line."""
        self.indent = 0
        """Depth of the values on the current line."""
        self.cut_item = False
        """Whether the source has more than the sign of an item on the line of the item that was opened last."""
        self.stack: list[tuple[int, int, str]] = []
        """(node, depth, path so far) of the nodes still to be written, the next one last."""

    def text(self) -> str:
        self.stack = [(node, 0, "") for node in reversed(self.inside.get(-1, ()))]
        while self.stack:
            node, depth, path = self.stack.pop()
            if self.tree.kind[node] == LEAF:
                self._leaf(node, depth)
            else:
                self._owner(node, depth, path)
        self._flush()
        return "\n".join(self.lines)

    def _flush(self) -> None:
        if self.values or self.start.strip():
            is_cut = self.start.strip() == "-" and not self.values and self.cut_item
            line = (self.start + ", ".join(self.values)).rstrip().removesuffix(",")
            self.lines.append(f"{line} {GAP}" if is_cut else line)
        self.start, self.values = "", []

    def _leaf_line(self, node: int, depth: int) -> None:
        """Write a value on its own line; the first one of an item follows the sign of the item, as in the source."""
        line = self.tree.line[node]
        if not self._opens_item(node):
            self._flush()
            self._mark_gap(line, depth)
            self.start = " " * depth
        text = self.changed_text.get(node) or self._as_written(node, self.reading.leaf_text(node))
        if self.start.strip() == "-":
            text = text.removeprefix("- ")
        elif self._is_written(node, text):
            self.start = ""
            return
        self.written += len(text) + 2
        if node in self.naming:
            self.named_at[self.naming[node]] = self.written
        self.values.append(text.replace("\n", "\n" + " " * (depth + 1)))
        self._flush()
        self.last_line = self.tree.ends.get(node, line)

    def _as_written(self, node: int, text: str) -> str:
        """Return the line of the source that contains a text, without its indentation; else the text itself."""
        if self.gaps is None or self.gaps.lines is None:
            return text
        start = self.tree.line[node] + self.offset
        lines = self.gaps.lines[start - 1 : self.tree.ends.get(node, self.tree.line[node]) + self.offset]
        source = "\n".join(stripped for line in lines if (stripped := line.strip()))
        if not text:
            return source
        if len(source) <= len(text) + LONGEST_COMMENT and bare(text) in bare(source):
            return source
        if node in self.tree.named and node in self.tree.ends:
            return source  # A name and its value, on two lines.
        return _beginning(source, text)

    def _is_written(self, node: int, text: str) -> bool:
        """Whether the line just written is the one of this node: its key and all of its values share a line."""
        shown = self.lines[-1].strip() if self.lines else ""
        return self.tree.line[node] == self.last_line and shown == text.strip()

    def _opens_item(self, node: int) -> bool:
        """Whether a node is on the same line of the source as the sign of the item that was just written: `- main:`."""
        return self.start.strip() == "-" and not self.values and self.tree.line[node] == self.last_line

    def _mark_gap(self, line: int, depth: int) -> None:
        """Mark lines of the source that are missing before this one."""
        if line <= self.last_line + 1:
            return
        if bisect_right(self.hidden_lines, self.last_line) < bisect_left(self.hidden_lines, line):
            self.lines.append(" " * depth + GAP)
        if self.gaps is None or self.gaps.lines is None:
            return
        if 0 in self.gaps.seen[self.last_line + self.offset : line - 1 + self.offset] and not self._ends_with_mark():
            self.lines.append(" " * depth + GAP)

    def _ends_with_mark(self) -> bool:
        return bool(self.lines) and self.lines[-1].strip() == f"- {GAP}"

    def _leaf(self, node: int, depth: int) -> None:
        if self.by_line:
            self._leaf_line(node, depth)
            return
        if depth != self.indent or not (self.values or self.start):
            self._flush()
            self.start = " " * depth
            self.indent = depth
        text = self.changed_text.get(node) or self.reading.leaf_text(node)
        self.written += len(text) + 2
        if node in self.naming:
            self.named_at[self.naming[node]] = self.written
        elif node in self.reading.answers:
            text = self._with_owner(node, text)
        alone = not self.tree.key[node] and self.tree.kind[self.tree.parent[node]] == OBJECT
        if alone and self.values:
            self._flush()
            self.start = " " * depth
        self.values.append(text)
        if alone or len(text) > 160 or sum(map(len, self.values)) > 400:
            self._flush()

    def _with_owner(self, node: int, text: str) -> str:
        """Repeat the record's name if it is too far above the value."""
        owner, name = self.reading.owner(node)
        if owner >= 0 and self.written - self.named_at.get(owner, self.written) > 110 and len(name) < 80:
            self.named_at[owner] = self.written
            return f"[{name}] {text}"
        return text

    def _owner(self, node: int, depth: int, path: str) -> None:
        tree, shape = self.tree, self.shape
        children = self.inside.get(node, [])
        if self.by_line and children and children[0] in tree.written:
            # The owner is a part of the keys below it and no line of its own.
            self.named_at[node] = self.written
            self.stack.extend((child, depth, "") for child in reversed(children))
            return
        label = path + self.reading.label(node)
        if self.by_line:
            brief = self.changed_text.get(node)
            label = brief.strip() + " " if brief else self._owner_line(node, label)
        self.written += len(label) + depth
        if tree.value[node] or tree.parent[node] in shape.maps:
            self.named_at[node] = self.written
        if self.by_line and self._opens_item(node):
            label = self.start.strip() + " " + label
            self.start = ""
            depth -= 1
        elif self.by_line and label:
            self._flush()
            self._mark_gap(tree.line[node], depth)
            self.last_line = max(self.last_line, tree.line[node])
        if self.by_line and tree.joint.get(node) and tree.parent[node] >= 0 and not tree.key[node]:
            # The line that opens a document owns what follows without being above it.
            self._flush()
            self.lines.append(" " * depth + label.strip())
            label = ""
        if tree.kind[node] == TEXT:
            self._flush()
            if self.by_line and node in tree.apart:
                self._lines_below(depth, label, children)
            else:
                self.lines.append(" " * depth + label + self.reading.joined(children))
        elif tree.kind[node] == LIST and children and all(tree.kind[child] == LEAF for child in children):
            self._flush()
            self._plain_list(node, depth, label, children)
        elif self._is_only_step(node, label, children):
            self.stack.append((children[0], depth, label.removesuffix(": ") + "."))
        else:
            self._flush()
            note = self._share(node, children)
            self.start = " " * depth + (label.rstrip(", ") + " " if note and self.by_line and label else label) + note
            self.indent = depth + 1 if label else depth
            self.stack.extend((child, self.indent, "") for child in reversed(children))

    def _share(self, node: int, children: list[int]) -> str:
        """Return how many of the elements of a list are shown, if not all: `[3 of 40] `."""
        tree = self.tree
        every = self.shape.children[node] or []
        if tree.kind[node] == LIST or node in self.shape.maps:
            return f"[{len(children)} of {len(every)}] " if 0 < len(children) < len(every) else ""
        if self.by_line or len(every) < _FEWEST_REPEATED or not children:
            return ""
        # Elements of XML are repeated keys.
        totals = Counter(tree.key[child] for child in every)
        counts = Counter(tree.key[child] for child in children)
        if len(totals) == 1:
            return f"[{len(children)} of {len(every)}] " if len(children) < len(every) else ""
        some = [key for key in counts if _FEWEST_REPEATED <= totals[key] > counts[key]]
        return "".join(f"[{counts[key]} of {totals[key]} {key}] " for key in some)

    def _owner_line(self, node: int, label: str) -> str:
        """Return the label of an owner as the source has it: without the sign of an item where there is none."""
        if not label:
            return label
        if label != "- ":
            written = self._as_written(node, label)
            return written.removeprefix("- ") + " " if self._opens_item(node) else written + " "
        written = self._as_written(node, "")
        self.cut_item = len(written) > 1
        return label if not written or written.startswith("-") else ""

    def _lines_below(self, depth: int, label: str, pieces: list[int]) -> None:
        """Write the shown lines of a value below its key, as in the source."""
        self.lines.append(" " * depth + label.rstrip())
        by_line: dict[int, list[int]] = {}
        for piece in pieces:
            by_line.setdefault(self.tree.line[piece], []).append(piece)
        for line, parts in by_line.items():
            self._mark_gap(line, depth + 1)
            self.lines.append(" " * (depth + 1) + self.reading.joined(parts, line))
            self.last_line = line

    def _plain_list(self, node: int, depth: int, label: str, children: list[int]) -> None:
        total = len(self.shape.children[node] or ())
        note = f" [{len(children)} of {total}]" if len(children) < total else ""
        values = (self.changed_text.get(child) or self.reading.leaf_text(child) for child in children)
        if self.by_line:
            self.lines.append((" " * depth + label).rstrip() + note)
            for child, value in zip(children, values, strict=True):
                self._mark_gap(self.tree.line[child], depth + 1)
                written = self._as_written(child, value)
                if self._is_written(child, written):
                    continue
                written = written.replace("\n", "\n" + " " * (depth + 2))
                self.lines.append(" " * (depth + 1) + (written if written != value else "- " + value))
                self.last_line = self.tree.ends.get(child, self.tree.line[child])
            return
        self.lines.append(" " * depth + label + ", ".join(values) + note)

    def _is_only_step(self, node: int, label: str, children: list[int]) -> bool:
        """Whether an object only leads to another one, so that both share a line: `spec.template: `."""
        kind = self.tree.kind
        return (
            len(children) == 1
            and not self.by_line
            and kind[children[0]] == OBJECT
            and kind[node] == OBJECT
            and not label.lstrip().startswith("- ")
            and label.endswith(": ")
            and not self._share(node, children)
        )
