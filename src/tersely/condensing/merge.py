"""Join readings of parts of a text, move them to their lines, and put titles above them."""

from collections.abc import Callable, Iterable

from tersely.condensing.account import FoldedLines, runs_of
from tersely.condensing.layout import Gaps, lay_out
from tersely.condensing.units import GAP, HiddenValues, Reading, Unit


def merge(readings: list[Reading], kind: str = "mixed") -> Reading:
    """Merge the readings of consecutive parts, so that their units compete for one budget."""
    units: list[Unit] = []
    offsets: list[int] = []
    for reading in readings:
        base = len(units)
        if reading.head:
            units.append(_head_unit(reading.head, reading.units[0].first if reading.units else 1))
            base += 1
        offsets.append(base)
        for unit in reading.units:
            if unit.parent is not None:
                unit.parent += base
            if unit.family is not None:
                unit.family = (base, unit.family)
            units.append(unit)

    def part_of(kept: Iterable[int], reading: Reading, base: int) -> set[int]:
        return {index - base for index in kept if base <= index < base + len(reading.units)}

    def hidden(kept: set[int]) -> HiddenValues:
        found = [
            reading.hidden(part_of(kept, reading, base))
            for reading, base in zip(readings, offsets, strict=True)
            if reading.hidden is not None
        ]
        return HiddenValues(
            sum(each.hidden for each in found),
            sum(each.total for each in found),
            tuple(path for each in found for path in each.paths),
        )

    def layout(kept: set[int], changed: dict[int, str], gaps: Gaps) -> str:
        parts: list[str] = []
        for reading, base in zip(readings, offsets, strict=True):
            if reading.head and base - 1 in kept:
                parts.append(changed.get(base - 1, reading.head))
            inside = part_of(kept, reading, base)
            if inside:
                own = {index - base: text for index, text in changed.items() if index - base in inside}
                parts.append(lay_out(reading, inside, own, gaps, base))
            elif gaps.hides(reading) and parts[-1:] != [GAP]:
                parts.append(GAP)
        return "\n".join(part for part in parts if part)

    decay = sum(reading.decay for reading in readings) / max(1, len(readings))
    has_values = any(reading.hidden is not None for reading in readings)
    return Reading(kind, units, hidden=hidden if has_values else None, layout=layout, decay=decay)


def _head_unit(head: str, line: int, parent: int | None = None) -> Unit:
    """Return a head as a unit: it stands at a line of the source and shows none."""
    return Unit(head, line, line - 1, 0.9, parent, count=0)


def moved(reading: Reading, line: Callable[[int], int], last: Callable[[int], int] | None = None) -> Reading:
    """Replace the line numbers of a part by those of the whole text.

    Where one line of the part is several lines of the text, `last` returns the last of them.
    """
    last = last or line
    if reading.span is not None:
        reading.span = line(reading.span[0]), last(reading.span[1])
    for unit in reading.units:
        empty = unit.last < unit.first
        unit.first = line(unit.first)
        unit.last = unit.first - 1 if empty else last(unit.last)
        if unit.rows:
            unit.rows = list(map(line, unit.rows))
        if unit.folded:
            unit.folded = _moved_runs(unit.folded, line, last)
        if unit.shows:
            unit.shows = runs_of((line(begin), last(end)) for begin, end in unit.shows)
    return reading


def _moved_runs(folded: FoldedLines, line: Callable[[int], int], last: Callable[[int], int]) -> FoldedLines:
    if callable(folded):
        return lambda: [(line(begin), last(end)) for begin, end in folded()]
    return runs_of((line(begin), last(end)) for begin, end in folded)


def put_title(reading: Reading, title: str, line: int) -> None:
    """Add a title above the reading's head; it is shown whenever any of its units is."""
    above = [Unit(title, line, line, 0.3, count=0)]
    if reading.head:
        above.append(_head_unit(reading.head, line + 1, 0))
        reading.head = ""
    size = len(above)
    for unit in reading.units:
        unit.parent = 0 if unit.parent is None else unit.parent + size
    reading.units[:0] = above
    inner_layout, inner_hidden = reading.layout, reading.hidden
    if inner_layout is not None:

        def layout(kept: set[int], changed: dict[int, str], gaps: Gaps) -> str:
            own = {at - size: text for at, text in changed.items() if at >= size}
            parts = [changed.get(index, above[index].text) for index in range(size) if index in kept]
            inside = inner_layout({at - size for at in kept if at >= size}, own, gaps)
            parts.append(inside or (GAP if gaps.hides(reading) else ""))
            return "\n".join(part for part in parts if part)

        reading.layout = layout
    if inner_hidden is not None:
        reading.hidden = lambda kept: inner_hidden({index - size for index in kept if index >= size})
