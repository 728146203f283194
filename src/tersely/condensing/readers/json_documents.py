"""A JSON document, possibly an envelope around a text of another kind."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.readers import wrapped
from tersely.condensing.segments import read_any
from tersely.condensing.trees.reading import read_tree
from tersely.condensing.units import Reading
from tersely.shapes import json_tree
from tersely.shapes.tree import LEAF, Tree, grouped_by_dots

_START = re.compile(
    r"\s*(?:\{\s*(?:[\"'}]|\w+\s*:)|\[\s*(?:[{\[\"\]]|-?\d+(?:\.\d+)?\s*[,\]]|(?:true|false|null)\s*[,\]]))"
)


def _begins_as_json(sample: Sample) -> bool:
    return _START.match(sample.opening) is not None


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    tree, _ = json_tree.parse(text)
    return wrapped.read(tree, len(text), "json", focus, budget, read_any) or read_values(tree, focus, budget)


def read_values(tree: Tree, focus: Focus, budget: int) -> Reading | None:
    return read_tree(grouped_by_dots(tree), focus, budget, "json") if LEAF in tree.kind else None


READER = Reader("json", Signs((0.97, _begins_as_json)), read, nested=True)
