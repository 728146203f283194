"""YAML, possibly an envelope around a text of another kind."""

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.readers import outline, wrapped
from tersely.condensing.segments import read_any
from tersely.condensing.units import Reading


def _has_yaml_keys(sample: Sample) -> bool:
    return outline.has_keys(sample) and outline.yaml_like(sample)


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    tree = outline.parse(text, yaml=True)
    return (
        wrapped.read(tree, len(text), "yaml", focus, budget, read_any)
        or outline.read_parsed(tree, focus, budget)
        or outline.read(text, focus, budget)
    )


READER = Reader("yaml", Signs((0.51, _has_yaml_keys)), read, holds_json=True, may_repeat=True)
