"""Where in a JSON document the values are that a condensed text does not show: for viewers that mark them.

Knows the tree and which of its values are shown; nothing of scores and budgets.
"""

from collections.abc import Collection

from tersely.condensing.account import FOLDED, LOST, PARTIAL, SHOWN, ValuePlaces, runs_of
from tersely.shapes.tree import LEAF, LIST, TEXT, Tree

MOST_NODES = 200_000
"""A larger document is not shown as a tree."""

_UNKNOWN, _MIXED = 8, 9


def value_places(tree: Tree, written: Collection[int], represented: Collection[int]) -> ValuePlaces:
    """Return the places of values that are not shown.

    Args:
        written: Leaves whose value is in the text.
        represented: These, and leaves that are counted in the text.
    """
    parents, kinds = tree.parent, tree.kind
    if len(tree) > MOST_NODES or parents.count(-1) != 1:
        return ValuePlaces()
    classes = bytearray([_UNKNOWN]) * len(tree)
    for node in range(len(tree) - 1, 0, -1):
        if kinds[node] == LEAF:
            own = SHOWN if node in written else FOLDED if node in represented else LOST
            classes[node] = own
        else:
            own = classes[node]
            if own == _UNKNOWN:
                continue
            if own == _MIXED and kinds[node] == TEXT:
                own = classes[node] = PARTIAL
        above = classes[parents[node]]
        if above != own:
            classes[parents[node]] = own if above == _UNKNOWN else _MIXED
    order, seen = [0] * len(tree), [0] * len(tree)
    found: dict[int, list[int]] = {LOST: [], PARTIAL: [], FOLDED: []}
    for node, parent in enumerate(parents):
        if parent >= 0:
            order[node] = seen[parent]
            seen[parent] += 1
            if classes[parent] == _MIXED and classes[node] in found:
                found[classes[node]].append(node)
    return ValuePlaces(
        *(_joined([_path(tree, order, node) for node in found[kind]]) for kind in (LOST, PARTIAL, FOLDED))
    )


def _path(tree: Tree, order: list[int], node: int) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Return the path of a node, split at its last position in a list."""
    path: list[int] = []
    split = -1
    while tree.parent[node] >= 0:
        if split < 0 and tree.kind[tree.parent[node]] == LIST:
            split = len(path)
        path.append(order[node])
        node = tree.parent[node]
    if split < 0:
        split = 0
    return tuple(reversed(path[split + 1 :])), path[split], tuple(reversed(path[:split]))


def _joined(paths: list[tuple[tuple[int, ...], int, tuple[int, ...]]]) -> tuple[str, ...]:
    """Join paths that differ only in the position in the last list."""
    members: dict[tuple[tuple[int, ...], tuple[int, ...]], list[tuple[int, int]]] = {}
    for before, at, after in paths:
        members.setdefault((before, after), []).append((at, at))
    joined: list[str] = []
    for (before, after), runs in members.items():
        spans = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs_of(runs))
        joined.append(".".join([*map(str, before), spans, *map(str, after)]))
    return tuple(joined)
