"""Outlines: keys with values, sections, items and drawn trees, read as a tree."""

import re
from collections import Counter
from itertools import pairwise

from tersely.condensing.detect import Reader, Sample, Signs, once
from tersely.condensing.focus import Focus
from tersely.condensing.readers.stack import FRAME
from tersely.condensing.records import one_record_per_line
from tersely.condensing.trees.reading import read_tree
from tersely.condensing.units import Reading
from tersely.shapes.outlines import parse
from tersely.shapes.tree import Tree

MOST_FRAMES = 0.1
"""Share of the lines that may be stack frames; in the report of a crash, keys are dumped memory and registers."""

_DRAWN_BRANCH = re.compile(r"[\s│┃|]*(?:[├└┣┗][─━]{1,3}|[|`]-- )")
_MARGIN_KEY = re.compile(r"[A-Z][\w ()/.-]{0,40}:(?:( {2,})(?=\S)|\s*$)")
_LEAST_MARGIN_KEYS = 5
_RECORD_RULE = re.compile(r"[-=*]+\s*\[?\s*(?:record\s*#?\d+|\d+\. row)\b", re.I)


_ALIGNED_VALUE = re.compile(r"\s*[^:\s][^:]{0,40}:\s{3,}\S")


@once
def yaml_like(sample: Sample) -> bool:
    """Whether lines nest by two blanks or `- ` under a bare `key:` as in YAML; `describe` output aligns values."""
    lines = sample.lines
    aligned = sum(1 for line in lines if _ALIGNED_VALUE.match(line))
    nested = 0
    for before, after in pairwise(lines):
        if before.rstrip().endswith(":"):
            step = (len(after) - len(after.lstrip())) - (len(before) - len(before.lstrip()))
            nested += step == 2 or after.lstrip().startswith("- ") or step == 4
    documents = sum(1 for line in lines if line.rstrip() == "---")
    spaced = sum(map(_has_spaced_colon, lines))
    return aligned < 0.1 * len(lines) and spaced < 0.1 * len(lines) and (documents > 0 or nested > 0)


def _has_spaced_colon(line: str) -> bool:
    """Whether the first colon has blanks on both sides; a pattern would try every blank of an indentation."""
    head, _, rest = line.partition(":")
    return len(head) > 1 and head[-1].isspace() and rest[:1].isspace() and len(head.strip().removeprefix("- ")) <= 40


def is_yaml(sample: Sample) -> bool:
    return (sample.keys + sample.items >= 0.7 or sample.begins_with_keys) and yaml_like(sample)


def has_keys(sample: Sample) -> bool:
    return sample.keys + sample.items >= 0.75 and sample.long_lines < 0.3 and sample.marked < 0.2


def _is_drawn(sample: Sample) -> bool:
    """Whether lines draw a tree or number the records."""
    return sample.share(_DRAWN_BRANCH) >= 0.5 or sum(1 for line in sample.lines if _RECORD_RULE.match(line)) >= 2


def _has_sections(sample: Sample) -> bool:
    if sample.sections and sample.sections + sample.assigns >= 0.7:
        return True
    most = sample.keys + sample.items + sample.sections + sample.assigns >= 0.7
    return most and sample.long_lines < 0.2 and sample.marked < 0.2


def _is_described(sample: Sample) -> bool:
    """Whether it begins with keys: the output of `describe` often ends with a table of events."""
    return sample.keys >= 0.3 and sample.marked < 0.15 and sample.begins_with_keys


def _has_keys_in_the_margin(sample: Sample) -> bool:
    """Whether the margin has only keys, their values in one column, and tables or lists are indented below them.

    So writes `kubectl describe`: what is below a key may be longer than all keys together.
    """
    margin = [line for line in sample.lines if not line[:1].isspace()]
    if len(margin) < _LEAST_MARGIN_KEYS or len(margin) > 0.7 * sample.many:
        return False
    keys = [match for line in margin if (match := _MARGIN_KEY.match(line))]
    columns = Counter(match.end() for match in keys if match.group(1))
    return len(keys) >= 0.9 * len(margin) and max(columns.values(), default=0) >= max(3, 0.6 * columns.total())


def _has_some_keys(sample: Sample) -> bool:
    return sample.keys + sample.assigns + sample.sections > 0.5


def read_parsed(tree: Tree, focus: Focus, budget: int) -> Reading | None:
    """Read YAML that is already parsed."""
    return _reading(tree, focus, budget, "yaml")


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    lines = text.split("\n", 400)[:400]
    if one_record_per_line(lines) or len(list(filter(FRAME.match, lines))) > MOST_FRAMES * len(lines):
        return None
    return _reading(parse(text, yaml=False), focus, budget, "outline")


def _reading(tree: Tree, focus: Focus, budget: int, kind: str) -> Reading | None:
    if len(tree) < 3:
        return None
    return read_tree(tree, focus, budget, kind)


READER = Reader(
    "outline",
    Signs(
        (0.88, _is_drawn),
        (0.855, _has_keys_in_the_margin),
        (0.5, has_keys),
        (0.49, _has_sections),
        (0.48, _is_described),
        (0.24, _has_some_keys),
    ),
    read,
    proven=False,
    holds_json=True,
    nested=True,
    may_repeat=True,
)
