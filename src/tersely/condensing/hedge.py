"""Hedge against a wrong detection: the generic reader gets a share of the budget where the kind is only likely.

Tables and outlines are detected from a sample of their lines; no grammar proves them, unless separators make rows of
equal length. Their reader may mistake a report for a table or split records in the wrong place. So the generic reader
reads the text too, and those of its best lines that the specialised reader would omit are added verbatim. Where both
agree, nothing changes. Kinds that a grammar or a clock proves (JSON, YAML, XML, logs) are not hedged, but for the
comments of YAML, which are no part of its tree and may contain the answer.

Readers whose units are lines owe the lines that contain most of the question a small share of the budget, because
BM25 over lines is what any of them must beat.
"""

import re
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise

from tersely.condensing.detect import reader_of
from tersely.condensing.focus import Focus, scan
from tersely.condensing.layout import Gaps
from tersely.condensing.pack import first_stage, pack
from tersely.condensing.readers import generic
from tersely.condensing.units import CHARACTERS_PER_TOKEN, GAP, Reading, Unit
from tersely.text.tokens import Tokenizer

SHARE = 0.3
"""Largest share of the budget."""

SMALLEST_BUDGET = 200
LONGEST = 600_000
"""In characters. The second reading takes a third of the time of the first; in longer texts the delay is noticeable."""

BEST_LINES = 0.15
"""Share of the budget for the lines that contain most of the question."""
_MOST_BEST = 200
_LEAST_RELEVANCE = 0.3
"""A comment with less has only words that many questions have."""
_VALUE = re.compile(r"\d+")
_BY_LINE = frozenset(("text", "records", "findings", "test_run", "ci_log"))
"""Kinds whose lines stand for themselves. In source code, settings and manuals a line is found by what it belongs to;
the generic reader hedges tables and outlines; trees, pages and logs answer by other things than lines.
"""
_BY_NAME = frozenset(("diff",))
"""Kinds of which only lines with an identifier of the question do."""
_LEAST_SHARE_OF_BEST = 0.6
_SHOWN_SHARE = 0.75
_ALWAYS_CHOSEN = 99.0
OTHER_LINES = f"[{GAP} other lines as they stand]"
"""Opens with the mark of a gap: lines are missing above it unless all of them are shown."""
_WORD = re.compile(r"\w+")


def with_hedge(reading: Reading, text: str, focus: Focus, budget: int, tokenizer: Tokenizer) -> Reading:
    """Add the lines that the generic reader would not omit; return the same reading if there is nothing to add."""
    if not focus or budget < SMALLEST_BUDGET or len(text) > LONGEST:
        return reading
    budget = first_stage(budget)
    reader = reader_of(reading.kind)
    if reader.proven or reading.proven:
        comments = _best_comments(text, reader.comment, focus, budget) if reader.comment in text else []
        return with_lines(reading, comments) if comments else reading
    lines = _missing_lines(reading, text, focus, budget, tokenizer)
    if not lines:
        return reading
    source = text.split("\n")
    whole = {line.first for line in lines if line.text == source[line.first - 1].rstrip()}
    lines = _without_rows(reading, lines, whole)
    if not lines:
        return reading
    _exclude_duplicates(reading, lines, whole)
    return with_lines(reading, lines)


def _best_comments(text: str, mark: str, focus: Focus, budget: int) -> list[Unit]:
    """Return the comments that contain as much of the question as the best lines do."""
    lines = text.split("\n") if mark else []
    comments = [at for at, line in enumerate(lines) if line.lstrip().startswith(mark)]
    if not comments:
        return []
    relevance = scan(lines, focus, severe=False).relevance
    least = max(_LEAST_SHARE_OF_BEST * max(relevance), _LEAST_RELEVANCE)
    left = BEST_LINES * budget * CHARACTERS_PER_TOKEN
    chosen: list[int] = []
    for at in sorted(comments, key=lambda at: (-relevance[at], at))[:_MOST_BEST]:
        if relevance[at] >= least and len(lines[at]) <= left:
            left -= len(lines[at])
            chosen.append(at)
    return [Unit(lines[at].rstrip(), at + 1, at + 1, _ALWAYS_CHOSEN, count=0) for at in sorted(chosen)]


def raise_best_lines(reading: Reading, text: str, focus: Focus, budget: int) -> None:
    """Guarantee the lines that contain most of the question (BM25) a share of the budget, whatever their reader thinks.

    Only where a unit is a line of the source, or a few.
    """
    if reading.kind not in _BY_LINE | _BY_NAME or not focus or budget < SMALLEST_BUDGET or len(text) > LONGEST:
        return
    units = [
        index
        for index, unit in enumerate(reading.units)
        if unit.text and unit.count == 1 and 0 <= unit.last - unit.first <= 3 and not unit.folded
    ]
    found = scan([reading.units[index].text for index in units], focus, severe=False)
    best = max(found.relevance, default=0.0)
    if best <= 0:
        return
    names = {at for at, term in enumerate(focus.terms) if term.kind in ("identifier", "phrase")}
    order = sorted(
        (
            at
            for at, relevance in enumerate(found.relevance)
            if relevance >= _LEAST_SHARE_OF_BEST * best
            and (reading.kind not in _BY_NAME or not names.isdisjoint(found.terms[at] or ()))
        ),
        key=lambda at: (-found.relevance[at], at),
    )
    left = BEST_LINES * first_stage(budget) * CHARACTERS_PER_TOKEN
    shown: set[int] = set()
    shapes: set[str] = set()
    for at in order[:_MOST_BEST]:
        unit = reading.units[units[at]]
        shape = _VALUE.sub("#", unit.text)
        if shape in shapes:
            continue
        shapes.add(shape)
        owner, cost = unit.parent, len(unit.text)
        while owner is not None and owner not in shown:
            cost += len(reading.units[owner].text)
            shown.add(owner)
            owner = reading.units[owner].parent
        if cost > left:
            continue
        left -= cost
        shown.add(units[at])
        unit.score, unit.family = _ALWAYS_CHOSEN, None


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
    shown_words = _words_of(packed.text)
    scanned = generic.scanned(text, focus)

    def is_shown(line: str, number: int) -> bool:
        return number in shown or _is_shown(line, shown_words)

    best = scanned.could_reach(_LEAST_SHARE_OF_BEST, focus)
    if all(is_shown(scanned.texts[at], scanned.numbers[at]) for at in best):
        return []  # Most texts of one kind; comparing all lines takes longer than all else here.
    second = generic.read_scanned(scanned, focus, budget)
    least = _LEAST_SHARE_OF_BEST * max((unit.score for unit in second.units), default=0.0)
    missing = False
    for unit in second.units:
        if unit.score < least or is_shown(unit.text, unit.first):
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


def _words_of(text: str) -> set[tuple[str, ...]]:
    """Return the words of a text and all pairs of neighbouring ones."""
    words = _WORD.findall(text.lower())
    return {*pairwise(words), *((word,) for word in words)}


def _is_shown(line: str, shown: set[tuple[str, ...]]) -> bool:
    """Whether most pairs of neighbouring words of a line are shown, or the only word of it."""
    words = _WORD.findall(line.lower())
    parts = set(pairwise(words)) if len(words) > 1 else {(word,) for word in words}
    return sum(part in shown for part in parts) >= _SHOWN_SHARE * len(parts)


def _exclude_duplicates(reading: Reading, lines: list[Unit], whole: set[int]) -> None:
    """Exclude units whose line is shown verbatim, and choose the verbatim lines first."""
    verbatim = {line.first for line in lines if line.score >= 0} & whole
    owners = {line.first: line.text.split() for line in lines if line.first in whole and line.score < 0}
    for unit in reading.units:
        if unit.first != unit.last or unit.count != 1:
            continue
        if unit.first in verbatim or (unit.first in owners and unit.text.split() == owners[unit.first]):
            unit.score = -1.0
    for line in lines:
        line.score = _ALWAYS_CHOSEN


def _without_rows(reading: Reading, lines: list[Unit], whole: set[int]) -> list[Unit]:
    """Choose a row instead of its line, which is aligned otherwise, or of pieces of it, which would look like rows."""
    owners = _owners_of_rows(reading, {line.first for line in lines} - whole)
    texts = {line.first: line.text.split() for line in lines if line.first in whole}
    rows: dict[int, Unit] = {}
    for unit in reading.units:
        if unit.parent is None or unit.count != 1:
            continue
        alone = unit.first == unit.last and unit.first in texts
        if owners.get(unit.first) == unit.parent or (alone and (unit.whole or unit.text).split() == texts[unit.first]):
            rows[unit.first] = unit
    if not rows:
        return lines
    place: dict[int, int] = {}
    for at, line in enumerate(lines):
        if line.first in rows:
            row = rows[line.first]
            row.text = row.whole or row.text
            row.score = max(row.score, _ALWAYS_CHOSEN if line.first in whole and line.score >= 0 else line.score)
        else:
            place[at] = len(place)
    kept = [line for line in lines if line.first not in rows]
    for line in kept:
        line.parent = place.get(line.parent) if line.parent is not None else None
    return kept


def _insert_lines(reading: Reading, lines: list[Unit]) -> Reading:
    """Insert the lines between the units of the reading, in source order.

    A line that is one of the rows of an owner takes the place of that row, so that it is counted once; a line that is
    itself an owner in the reading is not inserted a second time.
    """
    known = _owners_among(reading, lines)
    place = {at: new for new, at in enumerate(at for at in range(len(lines)) if at not in known)}
    below = {place[at]: known[line.parent] for at, line in enumerate(lines) if at in place and line.parent in known}
    lines = [line for at, line in enumerate(lines) if at in place]
    for line in lines:
        line.parent = place.get(line.parent) if line.parent is not None else None
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
    for number, (line, at) in enumerate(zip(lines, line_at, strict=True)):
        if number in below:
            line.parent = own_at[below[number]]
        elif line.first in owners:
            # Further pieces of the row belong to its first one.
            line.parent = pieces.get(line.first, own_at[owners[line.first]])
            pieces.setdefault(line.first, at)
        else:
            line.parent = line_at[line.parent] if line.parent is not None else None
    return replace(reading, units=units, hidden=None, totals=None)


def _owners_among(reading: Reading, lines: list[Unit]) -> dict[int, int]:
    """Return for the lines that the reading shows as owners, by their place, the index of that unit."""
    indices = {unit.parent for unit in reading.units if unit.parent is not None}
    by_line = {reading.units[at].first: at for at in indices if reading.units[at].first == reading.units[at].last}
    known: dict[int, int] = {}
    for place, line in enumerate(lines):
        at = by_line.get(line.first)
        if at is not None and reading.units[at].text.split() == line.text.split():
            known[place] = at
            reading.units[at].score = max(reading.units[at].score, line.score)
    return known


def _owners_of_rows(reading: Reading, numbers: set[int]) -> dict[int, int]:
    """Return for each of these source lines that is a row of a list the index of the unit that counts its rows."""
    return {row: index for index, unit in enumerate(reading.units) for row in unit.rows if row in numbers}


def _append_lines(reading: Reading, lines: list[Unit]) -> Reading:
    """Append the lines below a reading that has its own layout, in source order."""
    layout = reading.layout
    assert layout is not None
    count = len(reading.units)
    heading = Unit(OTHER_LINES, lines[0].first, lines[0].first - 1, -1.0, count=0)
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
    return replace(
        reading,
        units=units,
        hidden=(lambda kept: hidden({at for at in kept if at < count})) if hidden is not None else None,
        layout=below,
        totals=None,
    )
