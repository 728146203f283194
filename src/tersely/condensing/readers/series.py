"""Numbers and odd words inside lines of one family: extremes, trends, outliers.

Pure arithmetic over columns of words; `logs` decides how much a finding is worth.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tersely.condensing.units import trend_of

_NUMBER = re.compile(
    r"(?:[A-Za-z_@][\w.@-]{0,60}[=:])?[(\[\"'<]{0,2}(-?\d{1,15}(?:\.\d{1,9})?)([A-Za-zµ%]{0,5})[\])>\"',;.]{0,3}"
)
_STATUS = re.compile(r"(?:[\w.\"']{1,24}[=:])?([1-5])\d\d[,;\"']?")
_UNIT = re.compile(r"(?:ms|us|µs|ns|s|secs?|seconds?|min|minutes?|h|hours?|days?|bytes?|[kKMGT]i?B|%|percent)[.,;)\]]?")
_TIME_UNIT = re.compile(r"(?:ms|us|µs|ns|s|secs?|seconds?|min|minutes?|h|hours?)\b")
_MEASURES = re.compile(
    r"\b(?:took|time|duration|latency|elapsed|size|len|length|count|usage|used|total|free|memory|mem|cpu|load|rate|temp\w*|bytes|delay|"
    r"wait|average|avg|max|min|retr\w+|attempts?|queue|pending|active|after|over|within)\b|_(?:ms|sec|seconds|bytes|mb|pct|percent|count)\b",
    re.I,
)
"""Words next to a number that measures something, rather than naming it."""


@dataclass(slots=True)
class Series:
    """A number that all lines of a family contain."""

    context: str
    """The words around it."""
    members: Sequence[int]
    """The lines, in order."""
    numbers: list[float]
    unit: str
    measures: bool
    """It has a unit or is next to a word like `took` or `size`."""

    @property
    def in_time(self) -> bool:
        return bool(_TIME_UNIT.match(self.unit)) or bool(
            re.search(r"took|duration|latency|elapsed|_ms\b|time", self.context)
        )

    def highest(self) -> int:
        return max(range(len(self.numbers)), key=self.numbers.__getitem__)

    def lowest(self) -> int:
        return min(range(len(self.numbers)), key=self.numbers.__getitem__)

    def leaps(self) -> tuple[bool, bool]:
        """Whether the highest number is far above the usual ones, and the lowest far below."""
        if len(self.numbers) <= 10:
            return False, False
        ranked = sorted(self.numbers)
        last = len(ranked) - 1
        lower, middle, upper = ranked[int(last * 0.05)], ranked[last // 2], ranked[int(last * 0.95)]
        far = 2 * max(upper - lower, 1e-9)
        return ranked[-1] > max(3 * abs(middle), upper + far), ranked[0] < lower - far or 0 < 3 * ranked[0] < min(
            middle, 1.5 * lower
        )

    def moves(self) -> bool:
        return trend_of(self.numbers[:: max(1, len(self.numbers) // 200)]) in ("rising", "falling")


def series_in(members: Sequence[int], columns: Sequence[tuple[str, ...]], *, named: bool = False) -> Iterator[Series]:
    """Return the numbers that measure something or may be asked for, without those that only name things.

    With `named` the numbers are fields, which may be asked for whatever they look like.
    """
    first = [column[0] for column in columns]
    for place, column in enumerate(columns):
        if not any(map(str.isdigit, column[0][-24:])) or _NUMBER.fullmatch(column[0]) is None:
            continue
        numbers: list[float] = []
        lines: list[int] = []
        units: Counter[str] = Counter()
        for at, word in zip(members, column, strict=True):
            match = _NUMBER.fullmatch(word)
            if match is not None:
                numbers.append(float(match[1]))
                lines.append(at)
                units[match[2]] += 1
        distinct = len(set(numbers))
        if distinct < 2 or len(numbers) < 0.9 * len(column):
            continue
        unit, count = units.most_common(1)[0]
        if count < 0.9 * len(numbers):
            continue
        following = first[place + 1] if place + 1 < len(first) else ""
        if not unit and _UNIT.fullmatch(following):
            unit = following
        context = " ".join(first[max(0, place - 6) : place + 2])
        near = " ".join(first[max(0, place - 2) : place + 1])
        measures = bool(unit or "." in column[0] or _MEASURES.search(near))
        if not unit and not named and _names_things(column, numbers, distinct):
            continue
        yield Series(context, lines, numbers, unit, measures)


def odd_in(column: Sequence[str], most: int = 3) -> list[tuple[str, int]]:
    """Return the rare words of a column that has few different ones, each with its first position.

    A number is odd only if nearly all others are equal; otherwise it is a quantity, and its extremes are used.
    """
    total = len(column)
    if total < 8:
        return []
    counts = Counter(column)
    if not 1 < len(counts) <= max(4, min(24, total // 6)):
        return []
    _, times = counts.most_common(1)[0]
    limit = max(1, total // 50)
    odd = [
        word
        for word, count in counts.items()
        if count <= limit and (times >= 0.9 * total or not _NUMBER.fullmatch(word))
    ]
    return [(word, column.index(word)) for word in odd[:most]]


def bad_status(word: str, usual: str) -> bool:
    """Whether a word is an HTTP status of failure where success is usual."""
    one, other = _STATUS.fullmatch(word), _STATUS.fullmatch(usual)
    return one is not None and other is not None and one[1] in "45" and other[1] in "123"


_PADDED = re.compile(r"(?:^|\W)0\d")


def _names_things(words: Sequence[str], numbers: Sequence[float], distinct: int) -> bool:
    """Whether numbers are names: long and all different, zero-padded, process ids in brackets, or counting up."""
    if any("." in word for word in words[:50]):
        return False
    total = len(numbers)
    if any(_PADDED.search(word) for word in words[:50]) or words[0].endswith(("]:", "]")):
        return True
    if min(numbers) >= 1_000_000 or (distinct > 0.95 * total and min(numbers) >= 10_000):
        return True
    return sum(1 for at in range(1, total) if numbers[at] - numbers[at - 1] == 1) >= 0.9 * (total - 1) and total > 3
