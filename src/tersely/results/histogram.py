"""How often each level occurs in a log over time: for a viewer that shows a log as a plot above its lines."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

BUCKETS = 60
_FEWEST_TIMED = 8
_LOOKED_AT = 240
"""Characters of a line in which its time and its level are looked for."""

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d{1,9})?\s?(Z|[+-]\d\d:?\d\d)?")
_ERROR = re.compile(
    r"\b(?:FATAL|CRITICAL|EMERG|PANIC|SEVERE|ERROR|ERR)\b|^\W*(?:error|fatal|panic)\b"
    r"|\b(?:level|lvl|severity)\W{1,4}(?:error|fatal|critical)\b|\[(?:error|fatal|crit)\]"
)
_OTHER = re.compile(
    r"\b(?:WARN|WARNING)\b|^\W*(?:warn|warning)\b|\b(?:level|lvl|severity)\W{1,4}warn(?:ing)?\b|\[warn(?:ing)?\]"
    r"|(\b(?:INFO|NOTICE|DEBUG|TRACE)\b|\b(?:level|lvl|severity)\W{1,4}(?:info|debug|trace)\b|\[(?:info|debug|notice)\])"
)
"""Small letters are a level only where a level is expected: messages speak of errors too."""


@dataclass
class HistogramBucket:
    at: datetime | None
    """When it begins; None in a text without times."""
    first_line: int
    error: int = 0
    warn: int = 0
    other: int = 0


def line_level(line: str) -> str:
    """Return `error`, `warn` or `other`, by the first word of a level in the line."""
    start = line[:_LOOKED_AT]
    error, other = _ERROR.search(start), _OTHER.search(start)
    if error and (other is None or error.start() < other.start()):
        return "error"
    return "warn" if other and other[1] is None else "other"


def log_histogram(text: str) -> tuple[list[HistogramBucket], int]:
    """Return the buckets in order, and the number of the first line of level error, or 0.

    A line without a time belongs to the line before it. Without times, buckets are equal numbers of lines.
    """
    lines = text.removesuffix("\n").split("\n")
    times: list[datetime | None] = []
    timed = 0
    for line in lines:
        moment = _moment(line)
        timed += moment is not None
        times.append(moment if moment is not None or not times else times[-1])
    first_error = 0
    known = [moment for moment in times if moment is not None]
    is_timed = timed >= _FEWEST_TIMED and min(known) < max(known)
    start, end = (min(known), max(known)) if is_timed else (None, None)
    buckets: dict[int, HistogramBucket] = {}
    for number, (line, moment) in enumerate(zip(lines, times, strict=True), start=1):
        if start is not None and end is not None:
            at = int(((moment or start) - start) / (end - start) * (BUCKETS - 1))
        else:
            at = (number - 1) * BUCKETS // len(lines)
        begins = None if start is None or end is None else start + (end - start) * at / (BUCKETS - 1)
        bucket = buckets.setdefault(at, HistogramBucket(begins, number))
        level = line_level(line)
        setattr(bucket, level, getattr(bucket, level) + 1)
        if level == "error":
            first_error = first_error or number
    return [buckets[at] for at in sorted(buckets)], first_error


def _moment(line: str) -> datetime | None:
    found = _TIME.search(line, 0, _LOOKED_AT)
    if found is None:
        return None
    try:
        moment = datetime.fromisoformat(f"{found[1]}T{found[2]}{found[3] or ''}")
    except ValueError:
        return None
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
