"""YAML, possibly an envelope around a text of another kind."""

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.readers import outlines, wrapped
from tersely.condensing.segments import read_any
from tersely.condensing.units import Reading
from tersely.shapes.outlines import parse


def _has_yaml_keys(sample: Sample) -> bool:
    """Whether the lines are keys and items; comments, half of many files of settings, are neither."""
    rest = sample.uncommented
    return outlines.has_keys(rest) and outlines.yaml_like(rest)


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    tree = parse(text, yaml=True)
    return (
        wrapped.read(tree, len(text), "yaml", focus, budget, read_any)
        or outlines.read_parsed(tree, focus, budget)
        or outlines.read(text, focus, budget)
    )


READER = Reader("yaml", Signs((0.51, _has_yaml_keys)), read, holds_json=True, comment="#", nested=True, may_repeat=True)
