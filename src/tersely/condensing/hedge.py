"""Hedge against a wrong detection: the generic reader gets a share of the budget where the kind is only likely.

Separated values, tables and outlines are detected from a sample of their lines; no grammar proves them. Their
reader may mistake a report for a table or split records in the wrong place. So the generic reader reads the text
too, and those of its best lines that the specialised reader would omit are added verbatim. Where both agree, nothing
changes. Kinds that a grammar or a clock proves (JSON, YAML, XML, logs) are not hedged.
"""

import re
from bisect import bisect_right
from itertools import pairwise

from tersely.condensing.detect import reader_of
from tersely.condensing.focus import Focus
from tersely.condensing.readers import generic
from tersely.condensing.units import GAP, Gaps, Reading, Unit, pack
from tersely.text.tokens import Tokenizer

SHARE = 0.3
"""Largest share of the budget."""

SMALLEST_BUDGET = 200
LONGEST = 600_000
"""In characters. The second reading takes a third of the time of the first; in longer texts the delay is noticeable."""

_LEAST_SHARE_OF_BEST = 0.6
_SHOWN_SHARE = 0.75
_ALWAYS_CHOSEN = 99.0
_HEADING = f"[{GAP} other lines as they stand]"
"""Opens with the mark of a gap: lines are missing above it unless all of them are shown."""
_WORD = re.compile(r"\w+")


def with_hedge(reading: Reading, text: str, focus: Focus, budget: int, tokenizer: Tokenizer) -> Reading:
    """Add the lines that the generic reader would not omit; return the same reading if there is nothing to add."""
    if reader_of(reading.kind).proven or not focus or budget < SMALLEST_BUDGET or len(text) > LONGEST:
        return reading
    lines = _missing_lines(reading, text, focus, budget, tokenizer)
    if not lines:
        return reading
    source = text.split("\n")
    whole = {line.first for line in lines if line.text == source[line.first - 1].rstrip()}
    lines = _without_pieces_of_rows(reading, lines, whole)
    if not lines:
        return reading
    _exclude_duplicates(reading, lines, whole)
    return with_lines(reading, lines)


def with_lines(reading: Reading, lines: list[Unit]) -> Reading:
    """Add lines of the source, in their order: between the units, or below a reading that has its own layout."""
    return _append_lines(reading, lines) if reading.layout is not None else _insert_lines(reading, lines)


def _missing_lines(reading: Reading, text: str, focus: Focus, budget: int, tokenizer: Tokenizer) -> list[Unit]:
    """Return the generic reader's best lines that the reading lacks, with their owners, within its share."""
    packed = pack(reading, int(budget * (1 - SHARE)), tokenizer, focus)
    shown: set[int] = set()
    for index in packed.kept:
        unit = reading.units[index]
        if unit.count == 1 and unit.score >= 0 and unit.last - unit.first <= 3:
            shown.update(range(unit.first, unit.last + 1))
    shown_pairs = _pairs_of_words(packed.text)
    second = generic.read(text, focus, budget)
    least = _LEAST_SHARE_OF_BEST * max((unit.score for unit in second.units), default=0.0)
    missing = False
    for unit in second.units:
        if unit.score < least or unit.first in shown or _is_shown(unit.text, shown_pairs):
            unit.score = -1.0
        else:
            missing = True
    if not missing:
        return []
    chosen = pack(second, int(budget * SHARE), tokenizer, focus)
    kept = sorted(chosen.kept - chosen.shortened.keys())
    place = {index: at for at, index in enumerate(kept)}
    return [
        Unit(
            unit.text,
            unit.first,
            unit.last,
            unit.score,
            place.get(unit.parent) if unit.parent is not None else None,
            count=0,
        )
        for unit in (second.units[index] for index in kept)
    ]


def _pairs_of_words(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text.lower())
    return set(pairwise(words)) if len(words) > 1 else {(word,) for word in words}


def _is_shown(line: str, shown_pairs: set[tuple[str, ...]]) -> bool:
    pairs = _pairs_of_words(line)
    return sum(pair in shown_pairs for pair in pairs) >= _SHOWN_SHARE * len(pairs)


def _exclude_duplicates(reading: Reading, lines: list[Unit], whole: set[int]) -> None:
    """Exclude units whose line is shown verbatim, and choose the verbatim lines first."""
    verbatim = {line.first for line in lines if line.score >= 0} & whole
    for unit in reading.units:
        if unit.first == unit.last and unit.first in verbatim and unit.count == 1:
            unit.score = -1.0
    for line in lines:
        line.score = _ALWAYS_CHOSEN


def _without_pieces_of_rows(reading: Reading, lines: list[Unit], whole: set[int]) -> list[Unit]:
    """Choose a row that is counted instead of pieces of it, which would look like rows."""
    owners = _owners_of_rows(reading, {line.first for line in lines} - whole)
    rows = {
        unit.first: unit for unit in reading.units if unit.parent is not None and owners.get(unit.first) == unit.parent
    }
    if not rows:
        return lines
    place: dict[int, int] = {}
    for at, line in enumerate(lines):
        if line.first in rows:
            rows[line.first].score = max(rows[line.first].score, line.score)
        else:
            place[at] = len(place)
    kept = [line for line in lines if line.first not in rows]
    for line in kept:
        line.parent = place.get(line.parent) if line.parent is not None else None
    return kept


def _insert_lines(reading: Reading, lines: list[Unit]) -> Reading:
    """Insert the lines between the units of the reading, in source order.

    A line that is one of the rows of an owner takes the place of that row, so that it is counted once.
    """
    owners = _owners_of_rows(reading, {line.first for line in lines})
    for unit in reading.units:
        if unit.parent is not None and owners.get(unit.first) == unit.parent:
            unit.score = -1.0
    firsts = [unit.first for unit in reading.units]
    before = [bisect_right(firsts, line.first) for line in lines]
    units: list[Unit] = []
    own_at: list[int] = []
    line_at: list[int] = []
    following = 0
    for index, unit in enumerate(reading.units):
        while following < len(lines) and before[following] <= index:
            line_at.append(len(units))
            units.append(lines[following])
            following += 1
        own_at.append(len(units))
        units.append(unit)
    for line in lines[following:]:
        line_at.append(len(units))
        units.append(line)
    for unit in reading.units:
        unit.parent = own_at[unit.parent] if unit.parent is not None else None
    pieces: dict[int, int] = {}
    for line, at in zip(lines, line_at, strict=True):
        if line.first in owners:
            # Further pieces of the row belong to its first one.
            line.parent = pieces.get(line.first, own_at[owners[line.first]])
            pieces.setdefault(line.first, at)
        else:
            line.parent = line_at[line.parent] if line.parent is not None else None
    return Reading(reading.kind, units, head=reading.head, gaps=reading.gaps, decay=reading.decay)


def _owners_of_rows(reading: Reading, numbers: set[int]) -> dict[int, int]:
    """Return for each of these source lines that is a row of a list the index of the unit that counts its rows."""
    return {row: index for index, unit in enumerate(reading.units) for row in unit.rows if row in numbers}


def _append_lines(reading: Reading, lines: list[Unit]) -> Reading:
    """Append the lines below a reading that has its own layout, in source order."""
    layout = reading.layout
    assert layout is not None
    count = len(reading.units)
    heading = Unit(_HEADING, lines[0].first, lines[0].first - 1, -1.0, count=0)
    for line in lines:
        line.parent = count if line.parent is None else line.parent + count + 1
    units = [*reading.units, heading, *lines]

    def below(kept: set[int], changed: dict[int, str], gaps: Gaps) -> str:
        own = {at: text for at, text in changed.items() if at < count}
        upper = layout({at for at in kept if at < count}, own, gaps)
        lower: list[str] = []
        before: Unit | None = None
        for at in sorted(kept):
            if at < count:
                continue
            if before is not None and gaps.between(before, units[at]):
                lower.append(GAP)
            lower.append(changed.get(at, units[at].text))
            before = units[at] if at > count else None
        return "\n".join(part for part in (upper, *lower) if part)

    hidden = reading.hidden
    return Reading(
        reading.kind,
        units,
        head=reading.head,
        hidden=(lambda kept: hidden({at for at in kept if at < count})) if hidden is not None else None,
        gaps=reading.gaps,
        layout=below,
        decay=reading.decay,
    )
