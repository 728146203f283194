"""Records of a tree that a count already represents."""

from collections import Counter

from tersely.condensing.field_counts import FEWEST
from tersely.condensing.ordinary import (
    COMMON_SHARE,
    EXAMPLES,
    PATTERN,
    USUAL_SHARE,
    Examples,
    limit_of,
    worth_of,
)
from tersely.condensing.trees.scores import REPEATED, LeafScorer
from tersely.condensing.trees.shape import TreeShape
from tersely.condensing.units import Unit
from tersely.shapes.tree import LEAF, Tree


def lower_ordinary(tree: Tree, shape: TreeShape, worth: LeafScorer, scores: list[float]) -> dict[int, int]:
    """Lower the values that are as good as most in their field, record by record, and return them.

    What answers the question comes first, then the counts of fields, then one ordinary record as a whole, as a pattern
    for the others, instead of crumbs of many. Each value comes with the place of its record among the ordinary ones,
    -1 beside a value that stands out.
    """
    records = shape.times
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


def represented(
    tree: Tree, shape: TreeShape, counts: list[tuple[Unit, list[int]]], ordinary: dict[int, int]
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
