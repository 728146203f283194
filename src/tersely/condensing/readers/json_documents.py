"""A JSON document, possibly an envelope around a text of another kind."""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.readers import json_shape, wrapped
from tersely.condensing.segments import read_any
from tersely.condensing.units import Reading

_START = re.compile(
    r"\s*(?:\{\s*(?:[\"'}]|\w+\s*:)|\[\s*(?:[{\[\"\]]|-?\d+(?:\.\d+)?\s*[,\]]|(?:true|false|null)\s*[,\]]))"
)


def _begins_as_json(sample: Sample) -> bool:
    return _START.match(sample.opening) is not None


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    tree, _ = json_shape.parse(text)
    return wrapped.read(tree, len(text), "json", focus, budget, read_any) or json_shape.read_parsed(tree, focus, budget)


READER = Reader("json", Signs((0.97, _begins_as_json)), read)
