"""XML as a tree of named values."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.trees.reading import read_tree
from tersely.condensing.units import Reading
from tersely.shapes.xml_tree import parse

_FIRST_TAG = re.compile(r"<[A-Za-z_][\w:.-]*(?:\s[^<>]*)?/?>")
_END = re.compile("</|/>")
"""Something ends in every document; `<frozen importlib>:729` only looks like a tag."""


def _is_xml(sample: Sample) -> bool:
    opening = sample.opening
    if not opening.startswith("<"):
        return False
    return opening.startswith("<?xml") or (_FIRST_TAG.match(opening) is not None and bool(_END.search(sample.text)))


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    tree = parse(text)
    return read_tree(tree, focus, budget, "xml") if len(tree) >= 4 else None


READER = Reader("xml", Signs((0.99, _is_xml)), read, nested=True)
