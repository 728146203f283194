"""Text of no other kind, read line by line; also kinds of lines that the generic reader reads best."""

import re

from tersely.condensing.detect import FIELDS, Reader, Sample, Signs
from tersely.condensing.readers.generic import read
from tersely.condensing.readers.tables import columns_of
from tersely.shapes.line_records import are_commits

_LOCATED = re.compile(r"\s*(?:\.{0,2}/)?[\w.@+/-]+\.\w{1,8}[(:]\d+[,:]\d+[):]")
"""A finding of a compiler or linter: a file with line and column, `a.ts(3,7)` or `a.c:3:7`."""


def _is_labelled(sample: Sample) -> bool:
    """Whether each value has its name beside it; the table reader would take the first row for a header."""
    if columns_of(sample) != "csv" or sample.fields <= 0.9 or max(sample.timed, sample.leveled) >= 0.3:
        return False
    return len(FIELDS.findall(sample.lines[0])) >= 3


def _is_timed_but_named(sample: Sample) -> bool:
    return sample.has_times_inside and sample.has_named_values


def _is_located(sample: Sample) -> bool:
    """Whether the colons of the lines follow locations, not keys."""
    return sample.share(_LOCATED) >= 0.3


READER = Reader(
    "text",
    Signs(
        (0.9, lambda sample: are_commits(sample.lines)),
        (0.7, _is_labelled),
        (0.65, _is_timed_but_named),
        (0.58, _is_located),
        (0.01, lambda sample: True),
    ),
    read,
    holds_json=True,
    may_repeat=True,
)
"""Reads any text, and those best that resemble another kind: histories with one line per commit, labelled values."""
