"""Metrics in the exposition format: samples of a metric compared with each other, label by label.

The units are the lines, as in the generic reader; this module adds the columns: the
values of each metric, and the values of each label.
"""

import re

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.focus import Focus
from tersely.condensing.readers import generic
from tersely.condensing.records import Column
from tersely.condensing.units import Reading

_SAMPLE = re.compile(r"([A-Za-z_:][\w:.]*)(?:\{(.*)\})?\s+([-+]?[\w.+-]+)(?:\s+[\d.]+)?\s*$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    texts, _ = generic.lines_of(text)
    values: dict[str, tuple[list[int], list[str]]] = {}
    labels: dict[tuple[str, str], tuple[list[int], list[str]]] = {}
    for row, line in enumerate(texts):
        sample = None if line.startswith("#") else _SAMPLE.match(line)
        if sample is None:
            continue
        name, inside, value = sample.groups()
        rows, found = values.setdefault(name, ([], []))
        rows.append(row)
        found.append(value)
        for label, content in _LABEL.findall(inside or ""):
            rows, found = labels.setdefault((name, label), ([], []))
            rows.append(row)
            found.append(content)
    columns = [Column(name, rows, found) for name, (rows, found) in values.items() if len(rows) >= 3]
    columns += [Column(label, rows, found) for (_, label), (rows, found) in labels.items() if len(rows) >= 5]
    reading = generic.read(text, focus, budget, columns=columns)
    reading.kind = "metrics"
    return reading


_EXPOSED = re.compile(
    r"# (?:HELP|TYPE|UNIT|EOF)\b|[a-zA-Z_:][\w:.]*(?:\{[^}]*\})?\s+(?:[-+]?(?:\d[\d.eE+-]*|Inf)|NaN)(?:\s+\d+)?\s*$"
)


def _are_metrics(sample: Sample) -> bool:
    return sample.share(_EXPOSED) >= 0.7 and (
        any(line.startswith("# ") for line in sample.lines)
        or sum(1 for line in sample.lines if "{" in line) >= sample.many * 0.3
    )


READER = Reader("metrics", Signs((0.86, _are_metrics)), read, by_line=True)
