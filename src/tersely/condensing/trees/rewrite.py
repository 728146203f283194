"""Simplify a tree before it is scored: series become one value, cells get the names of their columns."""

import re
from itertools import pairwise

from tersely.condensing.trees.shape import NAME_KEYS, ROLE_KEYS
from tersely.condensing.units import trend_of
from tersely.shapes.tree import LEAF, LIST, OBJECT, Tree
from tersely.shapes.values import number_of

LEAST_ROLES = 1.5
"""Items that lists must have on average for their items to have roles."""


_HEADINGS = frozenset(
    ("columns", "headers", "header", "fields", "columnnames", "colnames", "schema", "keys", "cols", "names")
)
_PAIR_NAMES = frozenset(("name", "key", "attribute", "property", "field"))
"""Keys of what names the value beside it; a short form such as `k` may be any letter."""


def rewritten(tree: Tree) -> Tree:
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
                    if tree.key[leaf].lower() in ROLE_KEYS and tree.kind[leaf] == LEAF:
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
                        (tree.value[leaf] for leaf in inner if tree.key[leaf].lower() in NAME_KEYS),
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
    """Turn `{"key": "port", "value": 80}` into the field `port`, unless the name is a number."""
    pairs: list[tuple[int, int, int, int]] = []
    for child in inside:
        leaves = children[child] or []
        if tree.kind[child] != OBJECT or not 2 <= len(leaves) <= 3:
            return
        plain = [leaf for leaf in leaves if tree.kind[leaf] == LEAF]
        name = next((leaf for leaf in plain if tree.key[leaf].lower() in _PAIR_NAMES), None)
        value = next((leaf for leaf in plain if tree.key[leaf].lower() in ("value", "values")), None)
        if name is None or value is None or len(tree.value[name]) > 80 or number_of(tree.value[name]) is not None:
            return
        pairs.append((child, name, value, len(leaves)))
    for child, name, value, size in pairs:
        tree.named[child] = tree.value[name]
        if size == 2:
            tree.kind[child] = LEAF
            tree.pairs[child] = f"{tree.key[name]}: {tree.value[name]}\n{tree.key[value]}"
            tree.key[child], tree.value[child] = tree.value[name], tree.value[value]
            dropped[name] = dropped[value] = 1
            last = max(tree.line[name], tree.line[value])
            if last > tree.line[child]:
                tree.ends[child] = last
