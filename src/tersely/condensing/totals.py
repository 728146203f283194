"""What the head of a reading says about all lines, in a form that adds up over the sections of a longer text.

    total = TotalsSum()
    total.add(reading.totals())         # of each section, in their order
    total.totals(focus).head(focus)     # as if the text had been read as a whole

Everything in it is exact. What cannot be added up exactly is not in the sum: fields that some sections do not have,
fields of very many different values, times of different forms.
"""

import re
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tersely.condensing.field_counts import FieldValues, match_of, named_values
from tersely.condensing.focus import Focus
from tersely.condensing.records import Cells, counts_of

if TYPE_CHECKING:
    from tersely.condensing.units import Unit

MOST_DIFFERENT = 20_000
"""Values of a field; one with more is a name or a measure, and its counts would need much memory."""


_TIME_OF_DAY = re.compile(r"(?<!\d)\d{1,2}:\d\d:\d\d")
_YEAR = re.compile(r"\d{4}[-/.]")
_ZONE = re.compile(r"(?:Z|[+-]\d\d:?\d\d)$")


def zone_of(time: str) -> str:
    """Return the zone that a time ends with; empty if it has none."""
    found = _ZONE.search(time, 8)
    return found[0] if found else ""


@dataclass(frozen=True)
class TimeSpan:
    """From the earliest to the latest time, or from that of the first line to that of the last."""

    first: str
    last: str
    low: str = ""
    high: str = ""
    """Both times in a form that can be ordered; empty if they cannot be compared."""
    has_zones: bool = False
    """Whether the lines have times of several zones."""

    def __str__(self) -> str:
        if self.first == self.last:
            return self.first
        return f"{self.first} – {self.last}" if self.low else f"first line {self.first}, last line {self.last}"

    def range_of(self, first: str, last: str) -> str:
        """Return the times of some of the lines to the second, without the day if all lines have the same."""
        (day, one), (other_day, other) = self._parts(first), self._parts(last)
        if (day, one) == (other_day, other) or not last:
            return day + one
        other = other if day == other_day else other_day + other
        return f"{day}{one}–{other}" if self.low else f"{day}{one}, last line {other}"

    def _parts(self, time: str) -> tuple[str, str]:
        """Return the day of a time as far as it is not that of all lines, and the time of day."""
        found = _TIME_OF_DAY.search(time)
        if found is None or self.has_zones:
            return "", time
        start = found.start()
        if time[:start] == self.first[:start] == self.last[:start]:
            return "", found[0]
        in_one_year = _YEAR.match(time) and time[:5] == self.first[:5] == self.last[:5]
        return time[5 if in_one_year else 0 : start], found[0]

    def is_before(self, other: "TimeSpan") -> bool:
        return bool(self.low and other.low) and self.high <= other.low

    def joined(self, other: "TimeSpan") -> "TimeSpan | None":
        """Return the span of two sections that follow each other; None if their times cannot be compared."""
        if bool(self.low) != bool(other.low) or self.low[4:5].isdigit() != other.low[4:5].isdigit():
            return None
        if not self.low:
            return TimeSpan(self.first, other.last)
        if self.has_zones or other.has_zones or zone_of(self.first) != zone_of(other.first):
            return None
        if not _YEAR.match(self.first) and not self.is_before(other):
            return None  # Perhaps of the next year.
        first, low = min((self.low, self.first), (other.low, other.first))[::-1]
        last, high = max((self.high, self.last), (other.high, other.last))[::-1]
        return TimeSpan(first, last, low, high)


@dataclass(frozen=True)
class TemplateLines:
    """The lines that are equal up to their values."""

    numbers: Sequence[int]
    """Of the source, in order."""
    first: str = ""
    last: str = ""
    """The times of the earliest and the latest of them."""


@dataclass
class Totals:
    """What a head says about all lines."""

    count: int
    write: "Callable[[Totals, Focus], tuple[list[str], list[str]]]"
    """The reader's way to write it: the lines of the head, and what else may be said if there is room."""
    noun: str = "lines"
    fields: Mapping[str, FieldValues] = field(default_factory=dict)
    """By the name under which they are shown, or by their place."""
    levels: Counter[str] = field(default_factory=Counter)
    span: TimeSpan | None = None
    shared: tuple[str, ...] = ()
    """What the shown lines omit, in words, or the columns of rows: sections differ in kind if they differ in this."""
    usual: Mapping[str, int] = field(default_factory=dict)
    """Values that the shown lines omit where they have them, and how many do."""
    records: int = 0
    """How many lines could have such values."""
    varies: bool = False
    """Whether lines that are counted together differ in their values."""
    templates: Mapping[Hashable, TemplateLines] = field(default_factory=dict)
    said: Sequence["Unit"] = ()
    """Units that say the same about this section only."""

    def head(self, focus: Focus) -> str:
        return "\n".join(self.write(self, focus)[0])


@dataclass
class _FieldSum:
    label: str
    counts: Counter[str]
    absent: int
    nested: int


class TotalsSum:
    """The totals of sections that follow each other."""

    def __init__(self) -> None:
        self.alike = True
        """Whether the lines of all sections omit the same, so that they can be shown below one head."""
        self.in_order = True
        """Whether no section has a time before the last one of the section before it."""
        self._is_known = True
        self._sum: Totals | None = None
        self._fields: dict[str, _FieldSum] = {}
        self._templates: dict[Hashable, tuple[array[int], str, str]] = {}

    def add(self, totals: Totals | None, lines: Callable[[Sequence[int]], Iterable[int]] = iter) -> None:
        """Add the next section; `lines` returns the source lines of some of its lines. Without one there is no sum."""
        if totals is None or (self._sum is not None and self._sum.write is not totals.write):
            self.alike = False
            self._is_known = False
        if not self._is_known or totals is None:
            return
        fields = {
            name: _FieldSum(each.label, Counter(counts_of(each.values)), each.absent, each.nested)
            for name, each in totals.fields.items()
            if len(counts_of(each.values)) <= MOST_DIFFERENT
        }
        if self._sum is None:
            self._sum = totals
            self._fields = fields
            self._sum.fields = {}
        else:
            self._add_head(totals)
            self._fields = {name: each for name, each in self._fields.items() if name in fields}
            for name, each in self._fields.items():
                other = fields[name]
                each.counts += other.counts
                each.absent += other.absent
                each.nested += other.nested
        for key, template in totals.templates.items():
            numbers, first, _ = self._templates.get(key, (array("L"), template.first, ""))
            numbers.extend(lines(template.numbers))
            self._templates[key] = numbers, first, template.last
        self._sum.templates = {}

    def _add_head(self, totals: Totals) -> None:
        total = self._sum
        assert total is not None
        self.alike = (
            self.alike
            and total.shared == totals.shared
            and total.usual.keys() == totals.usual.keys()
            and total.noun == totals.noun
        )
        total.count += totals.count
        total.records += totals.records
        total.varies = total.varies or totals.varies
        total.levels = total.levels + totals.levels
        total.usual = {pair: total.usual[pair] + totals.usual[pair] for pair in total.usual if pair in totals.usual}
        self.in_order = (
            self.in_order and total.span is not None and totals.span is not None and total.span.is_before(totals.span)
        )
        total.span = total.span.joined(totals.span) if total.span is not None and totals.span is not None else None

    def lines_of(self, key: Hashable) -> TemplateLines:
        numbers, first, last = self._templates[key]
        return TemplateLines(numbers, first, last) if self.in_order else TemplateLines(numbers)

    def times_of(self, lines: TemplateLines) -> str:
        span = self._sum.span if self._sum is not None else None
        return span.range_of(lines.first, lines.last) if span is not None and lines.first else ""

    def totals(self, focus: Focus) -> Totals | None:
        """Return the sum; None if there was no section, or one that does not say what adds up."""
        total = self._sum if self._is_known else None
        if total is not None:
            total.fields = {name: _values(each, focus) for name, each in self._fields.items()}
            if not self.alike:
                total.shared, total.usual = (), {}
        return total


def _values(total: _FieldSum, focus: Focus) -> FieldValues:
    values = Cells(total.counts.elements())
    named = named_values(values.counts, focus)
    return FieldValues(total.label, values, total.absent, match_of(total.label, focus), named, total.nested)
