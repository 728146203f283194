"""Prometheus' text format: the only place that knows how metrics are written.

Which metrics exist, and their names and labels, is decided by the entry points.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricSample(NamedTuple):
    """One line of a metric."""

    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """`_bucket`, `_sum` or `_count` of a histogram."""


def format_metric(
    name: str, kind: Literal["counter", "gauge", "histogram"], description: str, samples: Iterable[MetricSample]
) -> str:
    """One metric with its HELP and TYPE lines; floats in full precision."""
    lines = [f"# HELP {name} {_escape(description)}", f"# TYPE {name} {kind}"]
    for labels, value, suffix in samples:
        pairs = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        lines.append(f"{name}{suffix}{f'{{{pairs}}}' if pairs else ''} {value}")
    return "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _escape_label(text: str) -> str:
    return _escape(text).replace('"', '\\"')
