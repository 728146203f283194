"""Lay the kept units out in source order, and mark every gap between them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import not_

from tersely.condensing.account import folded_runs
from tersely.condensing.units import GAP, Reading, Unit
from tersely.text.long_lines import LongLines

MARK_SHARE = 0.03
"""Largest share of the budget for marks that state the size, the largest first; the others are a bare `…`.

At least the largest gap states its size, however small the budget is.
"""

SIZED_MARK_TOKENS = 5
_SHORTEST_PIECE = 100
"""Characters; units of one line with less are not pieces of a long line."""


class Gaps:
    """Marks of the gaps between shown units: `[… 304 lines]` for the largest, `…` for the others.

    A gap is where lines of the source are missing that no shown unit represents. Shared by all readings of one pack.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        lines: Sequence[str] | None,
        budget: int,
        before: "Gaps | None" = None,
        blank: int = 0,
    ) -> None:
        self.units = units
        self.lines = lines
        self.most = max(1, int(budget * MARK_SHARE / SIZED_MARK_TOKENS))
        self.blank: bytearray = _blank_lines(lines or (), blank) if before is None else before.blank
        self.seen: bytearray = bytearray(self.blank) if before is None else before.seen
        """Per line 0 if it is missing, 1 if it is shown or represented, 2 if it is blank and neither."""
        self.by: set[int] = set() if before is None else before.by
        """The units that are entered in it."""

    def see(self, kept: Iterable[int]) -> None:
        """Take note of all units that are shown, in whatever reading."""
        if self.lines is None:
            return
        shown = set(kept)
        if not self.by <= shown:
            self.seen[:] = self.blank
            self.by.clear()
        seen = self.seen
        size = len(seen)
        for index in shown - self.by:
            unit = self.units[index]
            if callable(unit.folded):
                unit.folded = folded_runs(unit.folded)
            for first, last in ((unit.first, unit.last), *unit.shows, *unit.folded):
                last = min(last, size)
                if 0 < first <= last:
                    seen[first - 1 : last] = b"\1" * (last - first + 1)
        self.by |= shown

    def marks(self, reading: Reading, order: Sequence[int]) -> dict[int, str]:
        """Return the marks by the shown unit that follows the gap; the number of units is the end."""
        if not order:
            return {}
        units = reading.units
        gaps: list[tuple[int, int]] = []
        previous = -1
        for index in [*order, len(units)]:
            hidden = self._hidden(reading, previous, index)
            if hidden:
                gaps.append((hidden, index))
            previous = index
        gaps.sort(key=lambda gap: (-gap[0], gap[1]))
        # In another order than that of the source, several gaps have the same lines.
        is_ordered = all(units[one].first <= units[other].first for one, other in pairwise(order))
        largest = gaps[: self.most] if is_ordered else ()
        sized = {index: f"[{GAP} {hidden:,} lines]" for hidden, index in largest if hidden > 1}
        return {index: sized.get(index, GAP) for _, index in gaps}

    def hides(self, reading: Reading) -> bool:
        """Whether lines are missing of what was read, of which no unit is shown."""
        if self.lines is None or not reading.units:
            return bool(reading.units)
        first, last = reading.span or (reading.units[0].first, reading.units[-1].last)
        return 0 in self.seen[max(0, first - 1) : last]

    def between(self, before: Unit, after: Unit) -> bool:
        """Whether lines are missing between two units."""
        if self.lines is None:
            return after.first > before.last + 1
        return before.last < after.first - 1 and 0 in self.seen[before.last : after.first - 1]

    def _hidden(self, reading: Reading, previous: int, index: int) -> int:
        """Return how many lines are missing between two shown units."""
        units = reading.units
        missing = units[previous + 1 : index]
        if self.lines is None:
            return sum(unit.count for unit in missing)
        first, last = reading.span or (units[0].first, units[-1].last)
        start = units[previous].last if previous >= 0 else min(first, units[0].first) - 1
        end = units[index].first if index < len(units) else max(last, units[-1].last) + 1
        if end <= start + 1:
            # A part of these lines is missing, or the order is not that of the source.
            return int(
                any(
                    unit.count and (end == start or (unit.score >= 0 and start <= unit.first <= unit.last <= end))
                    for unit in missing
                )
            )
        between = self.seen[max(start, 0) : end - 1]
        if 2 not in between:
            return between.count(0)
        return sum(len(run) for run in between.split(b"\1") if 0 in run)  # With the blank lines among them.


def _blank_lines(lines: Sequence[str], known: int) -> bytearray:
    """Return 2 for each blank line and 0 for the others; so many at the beginning are not read and hide nothing."""
    own = lines.own() if isinstance(lines, LongLines) and known else lines[known:] if known else lines
    found = bytearray(map(not_, map(str.strip, own))).replace(b"\1", b"\2")
    found[:0] = bytearray(b"\1") * known
    return found


def lay_out(reading: Reading, kept: set[int], changed: dict[int, str], gaps: Gaps, base: int = 0) -> str:
    """Write the kept units as text, in source order, with marks for omissions.

    In a reading that was merged with others, owners are numbered from `base` on.
    """
    if reading.layout is not None:
        return reading.layout(kept, changed, gaps)
    units = reading.units
    order = sorted(kept)
    shown: dict[int, int] = {}
    for index in order:
        owner = units[index].parent
        if owner is not None:
            shown[owner - base] = shown.get(owner - base, 0) + max(1, units[index].count)
    marks = gaps.marks(reading, order) if reading.gaps else {}
    if reading.numbered:
        marks = _numbered_marks(units, order, marks, changed)
    lines: list[str] = []
    for index in order:
        if index in marks:
            lines.append(marks[index])
        text = changed.get(index, units[index].text)
        of = len(units[index].rows)
        if of > shown.get(index, 0):
            text += f" [{shown.get(index, 0)} of {of}]"
        before, after = _is_piece(units, index - 1, index), _is_piece(units, index, index + 1)
        if units[index].inline and lines and index not in marks:
            joint = " " if index - 1 in kept else " … "
            lines[-1] += joint + text.lstrip()
        elif before and lines and index - 1 in kept:
            lines[-1] += ("" if lines[-1].endswith(" ") or text.startswith(" ") else " ") + text
        else:
            lines.append(f"{GAP} {text.lstrip()}" if before else text)
        if after and index + 1 not in kept and not text.endswith(GAP):
            lines[-1] += f" {GAP}"
    if len(units) in marks:
        lines.append(marks[len(units)])
    return "\n".join(lines)


def _is_piece(units: Sequence[Unit], index: int, after: int) -> bool:
    """Whether two units that follow each other are pieces of one long line of the source."""
    if index < 0 or after >= len(units):
        return False
    one, other = units[index], units[after]
    is_same = one.first == one.last == other.first == other.last and one.count == other.count == 1
    return is_same and not (one.inline or other.inline or one.rows) and len(one.text) > _SHORTEST_PIECE


def _numbered_marks(
    units: Sequence[Unit], order: Sequence[int], marks: dict[int, str], changed: dict[int, str]
) -> dict[int, str]:
    """Marks from which the number of every shown line follows; one or two blank lines are their own mark."""
    numbered = {index: mark if index == len(units) else f"{GAP}{units[index].first}" for index, mark in marks.items()}
    for before, index in pairwise(order):
        skipped = units[index].first - units[before].last - 1
        if index not in numbered and (skipped or before in changed):
            is_short = 0 < skipped <= 2 and before not in changed
            numbered[index] = "\n" * (skipped - 1) if is_short else f"{GAP}{units[index].first}"
    return numbered
