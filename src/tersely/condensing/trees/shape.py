"""Paths, records and identities of a tree: what its lists repeat, and which fields tell records apart."""

import re
from collections import Counter
from itertools import compress, pairwise

from tersely.condensing.records import (
    looks_like_a_name,
    sounds_like_a_name,
)
from tersely.shapes.tree import LEAF, LIST, OBJECT, TEXT, Tree

LONGEST_OUTCOME = 160
"""In characters. A longer message is shown where there is room for it."""
MOST_OUTCOMES = 0.9
"""Share of the records from which on what they have in common is no outcome."""
_NO_OUTCOME = frozenset(("0", "null", "false", "none", "[]", "{}"))
_OUTCOMES = frozenset(("failure", "failures", "failed", "error", "errors", "skipped", "ignored", "disabled"))
TELLS_APART = 0.9
"""Share of the records that must differ in the fields that name them, or names are looked for one level deeper."""

_FILE_OR_LINE = {
    **dict.fromkeys(("uri", "path", "file", "filename", "file_name"), "file"),
    **dict.fromkeys(("startline", "start_line", "line", "lineno", "line_number", "linenumber"), "line"),
}
"""Keys of the fields that say where a finding is."""
_FEWEST_FINDINGS = 8
_MOST_BELOW = 8
_MOST_INSIDE = 60
"""Nodes of a record that are searched for its place."""
FEWEST_LABELS = 12
"""Values below one owner, each with a key that occurs nowhere else, from which on they reduce each other's score."""
_OPAQUE = re.compile(r"\d+|[0-9a-fA-F]{8,}|[0-9a-fA-F-]{30,}|[A-Za-z0-9+/=_-]{18,}")

_NAMING_OBJECTS = frozenset(("metadata", "labels", "metric", "package", "tags", "attributes", "resource"))
"""Sub-objects of a record that may contain its name."""


_Fields = dict[int, list[tuple[int, int]]]
"""Path of a field → (record, leaf) for each record that has it."""


class TreeShape:
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
        self.times: Counter[int] = Counter(self.paths)
        """Path → number of nodes."""
        self.record_paths = set(compress(self.paths, self.record))
        self.labelled = self._owners_of_labels()
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

    def _owners_of_labels(self) -> set[int]:
        """Return the owners of many values with keys of their own, such as labels: each says as little as the next."""
        return {
            node
            for node, inside in enumerate(self.children)
            if inside
            and len(inside) >= FEWEST_LABELS
            and self.tree.parent[node] >= 0
            and all(self.tree.kind[child] == LEAF and self.times[self.paths[child]] == 1 for child in inside)
        }

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
                if node in tree.named:
                    step = tree.named[node]
                elif parent in positional:
                    place = place + 1 if parent == before else 0
                    before = parent
                    step = f"[{place}]"
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
            if titles := self._titles(records):
                identity.update((record, [title]) for record, title in titles.items())
                continue
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
                    leaf for leaf in self.children[node] or () if tree.key[leaf].lower() in NAME_KEYS | ROLE_KEYS
                ][:1]
        for leaves in identity.values():
            leaves.sort()
        return identity

    def _titles(self, records: list[int]) -> dict[int, int]:
        """Return the first lines of records if they are titles: only a key or only a value, and different.

        What follows would otherwise be read as part of the record before.
        """
        tree = self.tree
        titles: dict[int, int] = {}
        for record in records:
            first = (self.children[record] or [-1])[0]
            is_leaf = record in tree.joint and first >= 0 and tree.kind[first] == LEAF
            if is_leaf and not (tree.key[first] and tree.value[first]):
                titles[record] = first
        if len(titles) < max(2.0, TELLS_APART * len(records)):
            return {}
        names = {tree.key[title] or tree.value[title] for title in titles.values()}
        return titles if len(names) >= TELLS_APART * len(records) else {}

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


NAME_KEYS = frozenset(("key", "name", "k", "label", "tag", "attribute", "property", "field"))
ROLE_KEYS = frozenset(("type", "name", "key", "condition", "role", "kind", "label"))
