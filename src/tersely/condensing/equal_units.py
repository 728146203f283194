"""Fold equal lines of a reading into one with its count: `close(3) = 0 ×500`.

After any reader, so that each kind does it alike. Equal lines below the same owner that follow each other, with nothing
but blank lines between them, become one; so does a line that makes up a large part of a text of no special kind.
Readings with a layout of their own, and those whose lines are numbered, stay as they are.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from tersely.condensing.account import runs_of
from tersely.condensing.units import Reading, Unit, with_counts

FEWEST_EQUAL = 3
"""Fewer equal lines that follow each other are shown as they are."""

FEWEST_APART = 10
"""Equal lines with others between them are folded from this number on, …"""

LEAST_SHARE = 0.05
"""… if they are this share of a text."""

MOST_NUMBERS = 8
"""Of more matches only the numbers of the first and the last are shown."""

COUNTED_OTHERWISE = frozenset(("log", "json_lines", "table", "csv"))
"""Kinds whose readers count what repeats."""

_WORDS = re.compile(r"\w\W*\w\W*\w")
"""Rules, brackets and empty lines of a diff state nothing."""
_NUMBER = re.compile(r" (\d+): ")
"""The number of a match in its file."""


def fold_equal(reading: Reading, text: str, *, in_section: bool = False) -> None:
    """Replace equal units by the first of them with their count.

    In a section of a longer text these are only units that follow each other: the others are in other sections, too.
    """
    if reading.layout is not None or reading.numbered or reading.kind in COUNTED_OTHERWISE:
        return
    units = reading.units
    texts = {_NUMBER.sub("", unit.text, 1) if reading.kind == "grep" else unit.text for unit in units}
    if len(texts) > len(units) + 1 - FEWEST_EQUAL:
        return
    found = list(_runs(reading, text.split("\n")))
    folded = [run for _, run in found if len(run) >= FEWEST_EQUAL]
    if reading.kind == "text" and not in_section:
        everywhere: dict[Hashable, list[int]] = {}
        for key, run in found:
            everywhere.setdefault(key, []).extend(run)
        least = max(FEWEST_APART, LEAST_SHARE * len(units))
        folded = [
            run for key, run in everywhere.items() if len(run) >= least or (len(run) >= FEWEST_EQUAL and run in folded)
        ]
    gone: set[int] = set()
    for run in folded:
        _fold([units[index] for index in run], numbered=reading.kind == "grep")
        gone.update(run[1:])
    if not gone:
        return
    kept = [index for index in range(len(units)) if index not in gone]
    place = {index: at for at, index in enumerate(kept)}
    reading.units[:] = [units[index] for index in kept]
    for unit in reading.units:
        unit.parent = place[unit.parent] if unit.parent is not None else None


def _runs(reading: Reading, lines: Sequence[str]) -> Iterator[tuple[Hashable, list[int]]]:
    """Yield equal units that follow each other, with what they are equal in; also those that are alone."""
    units = reading.units
    owners = {unit.parent for unit in units}
    on_line = Counter(unit.first for unit in units if unit.last >= unit.first)
    key: Hashable = None
    run: list[int] = []
    for index, unit in enumerate(units):
        own: Hashable = None
        if index not in owners and on_line[unit.first] == 1 and _is_line(unit):
            own = unit.parent, unit.prefix, _NUMBER.sub("", unit.text, 1) if reading.kind == "grep" else unit.text
        if run and own == key and not any(map(str.strip, lines[units[run[-1]].last : unit.first - 1])):
            run.append(index)
            continue
        if run:
            yield key, run
        key, run = own, [index] if own is not None else []
    if run:
        yield key, run


def _is_line(unit: Unit) -> bool:
    """Whether a unit is one line of the source that states something and represents no others."""
    plain = unit.first == unit.last and unit.count == 1 and not (unit.inline or unit.rows or unit.folded or unit.shows)
    return plain and unit.represented_by is None and unit.repeated is None and _WORDS.search(unit.text) is not None


def _fold(units: Sequence[Unit], *, numbered: bool) -> None:
    """Let the first unit represent the others."""
    first, *others = units
    where = ""
    if numbered:
        numbers = [number[1] for unit in units if (number := _NUMBER.match(unit.text))]
        where = ", ".join(numbers) if len(numbers) <= MOST_NUMBERS else f"{numbers[0]}–{numbers[-1]}"
    first.text = with_counts(first.text, len(units), times=where)
    first.score = max(unit.score for unit in units)
    first.count = len(units)
    first.folded = runs_of((unit.first, unit.last) for unit in others)
    first.equal = True
