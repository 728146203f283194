"""Read a very long text in sections, so that memory stays a small multiple of the text.

Each section is read and packed by itself; only what was kept of it stays in memory. Then, if everything that the
sections say about all lines adds up (`Reading.totals`), their units become one reading with one head, as if the text
had been read as a whole: `line ×N` counts the lines of all sections, and so does `[k of n]`.

Otherwise a statement about a section is true only there. So each section that is shown stands below a title that says
which lines it is, and the sections share the budget by how well they answer the question. What can be added up is
in the head.
"""

import gc
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

from tersely.condensing.account import Place
from tersely.condensing.detect import kind_of, reader_of
from tersely.condensing.focus import Focus
from tersely.condensing.merge import moved
from tersely.condensing.pack import Packed, fitting_lines, packed_in_stages
from tersely.condensing.readers import generic
from tersely.condensing.segments import read_any
from tersely.condensing.totals import Totals, TotalsSum
from tersely.condensing.units import GAP, Reading, Unit, with_counts
from tersely.condensing.weights import WEIGHTS
from tersely.shapes.json_parts import parts_of_list
from tersely.text.long_lines import LongLines
from tersely.text.tokens import Tokenizer

SECTION = 10_000_000
"""In characters."""

KEPT = 2
"""Each section keeps what this multiple of the budget would show."""

SMALLEST_STAGE = 64
"""In tokens. Less has no room for the marks of gaps."""

SMALLEST_SHARE = 80
"""In tokens. A section with less room shows little more than its title."""

FEWEST_DOCUMENTS = 20
"""In a section that is made of whole documents."""

FEW_SHARE = 0.1
"""A count that represents fewer values than this share of the most is about few records."""

_NEXT_DOCUMENT = "\n---\n"

LEAST_WORTH = 0.5
"""Sections with less than this share of the best one's worth are shown only if there is room."""


@dataclass(frozen=True)
class TextSection:
    """A part of a text that is read by itself."""

    text: str
    opening: str = ""
    """The bracket that makes it a document if it begins with a record of JSON."""
    records: int | None = None
    """How many whole records of one list of JSON, or documents of YAML, it has; None if it was cut anywhere."""


@dataclass
class _Section:
    first: int
    last: int
    """Its lines in the source."""
    reading: Reading
    """With the kept units only."""
    stages: list[tuple[Packed, list[Place]]]
    """What halves of the budget show, the smallest first, and where it is in the source."""
    totals: Totals | None
    line: "_LineOfSection"


def read_in_sections(
    texts: Iterable[TextSection], kind: str, focus: Focus, budget: int, tokenizer: Tokenizer, *, titles: bool = True
) -> tuple[Reading, Packed | None]:
    """Return the sections of a text as one reading, and how it is packed if they stand side by side.

    Args:
        kind: That of the whole text; if empty, that of the first section.
        titles: Whether titles may split the text into parts.
    """
    total = TotalsSum()
    sections: list[_Section] = []
    header = previous = ""
    before = 0
    following = iter(texts)
    part = next(following, None)
    while part is not None:
        after = next(following, None)
        text = part.text
        if not sections:
            kind = kind or kind_of(text)
            header = text[: text.find("\n") + 1] if kind in ("csv", "table") else ""
        with collecting_later():
            above = header if sections else part.opening
            if kind == "json":
                goes_on = part.records is None and previous.rstrip().endswith("},")
                above = "[" if goes_on else part.opening  # The records of a list go on.
            section = _section(part, before, above, kind, focus, budget, tokenizer, titles)
            is_whole = kind == "json" or after is None or text[-1] == "\n"  # Else its last line is counted twice.
            if part.records != 0:
                total.add(section.totals if is_whole else None, section.line.each)
            section.totals = None
            sections.append(section)
            if not any(unit.rows and unit.first == 1 for unit in section.reading.units):
                header = ""  # The first line is a row like the others.
            gc.collect(0)  # What the readers leave behind in cycles; it would stay until the end.
        before += text.count("\n")
        previous, part = text[-3:], after
    head = total.totals(focus)
    if head is not None and total.alike and all(map(_adds_up, sections)):
        kinds = {section.reading.kind for section in sections}  # A reader may hand the text on to another one.
        kind = kinds.pop() if len(kinds) == 1 else kind
        merged = _Merged(total).reading(kind, [section.reading for section in sections], head, focus)
        return replace(merged, span=(1, sections[-1].last)), None
    lines = head.head(focus) if head is not None else ""
    return _side_by_side(kind, sections, lines, focus, budget, tokenizer)


def sections_of(text: str, size: int, kind: str) -> Iterator[TextSection]:
    """Yield sections of about `size` characters, of JSON with whole records, of YAML with whole documents."""
    if kind == "yaml" and text.count(_NEXT_DOCUMENT) > len(text) // size * FEWEST_DOCUMENTS:
        yield from _sections_of_documents(text, size)
        return
    parts = parts_of_list(text, size) if kind == "json" else []
    for part in parts:
        yield TextSection(text[part.start : part.end], part.opening, part.records)
    start = 0 if not parts else len(text)
    while start < len(text):
        end = _section_end(text, start, size)
        yield TextSection(text[start:end])
        start = end


def _sections_of_documents(text: str, size: int) -> Iterator[TextSection]:
    start = 0
    while start < len(text):
        end = text.find(_NEXT_DOCUMENT, start + size) + 1 if start + size * 6 // 5 < len(text) else 0
        part = text[start : end or len(text)]
        yield TextSection(part, records=part.count(_NEXT_DOCUMENT) + 1)
        start += len(part)


@contextmanager
def collecting_later() -> Iterator[None]:
    """Pause the search for garbage in cycles, which would look at every unit again and again and find nothing.

    It is paused for one text, or one section of a long one, and never turned on for a program that turned it off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _section_end(text: str, start: int, size: int) -> int:
    """Return the end of a section of about that size: after a blank line, else a line, a record, or anywhere.

    What is left at the end is no section by itself if it is small: little can be learned from it.
    """
    end = start + size
    if end + size // 5 >= len(text):
        return len(text)
    for sign in ("\n\n", "\n", "},", ", ", " "):
        cut = text.rfind(sign, end - size // 10, end)
        if cut > start:
            return cut + len(sign)
    return end


@dataclass(frozen=True)
class _LineOfSection:
    """The source line of a section's line."""

    before: int
    """How many lines precede the section."""
    repeats_header: bool

    def __call__(self, line: int) -> int:
        return 1 if self.repeats_header and line == 1 else line - self.repeats_header + self.before

    def each(self, lines: Sequence[int]) -> list[int]:
        return list(map(self, lines)) if self.repeats_header else [line + self.before for line in lines]


def _section(
    part: TextSection,
    before: int,
    header: str,
    kind: str,
    focus: Focus,
    budget: int,
    tokenizer: Tokenizer,
    titles: bool,
) -> _Section:
    text = part.text
    line = _LineOfSection(before, header.endswith("\n"))
    content = header + text
    # The tags inside of a page are no document of their own.
    known = kind if reader_of(kind).by_line or kind == "html" else ""
    reading = read_any(content, focus, KEPT * budget, kind=known, titles=titles, in_section=True)
    totals = reading.totals() if reading.totals is not None else None
    if kind in ("json", "yaml") and totals is not None:
        if totals.count == part.records:
            _leave_to_head(reading, totals)
        else:
            totals = None  # It was cut otherwise than it is read.
    moved(reading, line)
    # What precedes the section hides nothing in it; lines are numbered as in the source.
    lines = LongLines(text, before)
    *smaller, kept = packed_in_stages(
        reading, KEPT * budget, tokenizer, focus, lines, smallest=SMALLEST_STAGE, blank=before
    )
    packed = [(each, list(each.places(reading))) for each in smaller]
    last = before + text.count("\n") + (not text.endswith("\n"))
    return _Section(before + 1, last, _only(reading, kept.kept), packed, totals, line)


def _leave_to_head(reading: Reading, totals: Totals) -> None:
    """Leave out what a section counts, because the head counts it in all sections, and what most of its records share.

    A value of few records stays: the head has room for some fields only, and may not count this one.
    """
    counts = set(map(id, totals.said))
    shared = Counter(id(unit.represented_by) for unit in reading.units if unit.represented_by is not None)
    usual = FEW_SHARE * max(shared.values(), default=0)
    for unit in reading.units:
        if id(unit) in counts:
            unit.score = -1.0
        elif id(unit.represented_by) in counts:
            if shared[id(unit.represented_by)] > usual:
                unit.score = -1.0
            else:
                unit.represented_by = None


def _only(reading: Reading, kept: set[int]) -> Reading:
    """Return the reading with only the kept units, so that the others need no memory."""
    place = {index: at for at, index in enumerate(sorted(kept))}
    units = [reading.units[index] for index in place]
    for unit in units:
        unit.parent = place.get(unit.parent) if unit.parent is not None else None
        unit.rows = array("L", unit.rows)
    return replace(reading, units=units, totals=None, hidden=None, layout=_no_layout if reading.layout else None)


def _no_layout(*_: object) -> str:
    """Stand for a layout of units that are not kept."""
    raise NotImplementedError


def _adds_up(section: _Section) -> bool:
    """Whether the units of a section can stand among those of others.

    Each one counts nothing, counts templates, or counts the equal lines that follow it.
    """
    reading = section.reading
    counts = (unit for unit in reading.units if unit.folded and not unit.equal)
    return reading.layout is None and all(unit.repeated is not None for unit in counts)


# ------------------------------------------------------------------ as one text


class _Merged:
    """The kept units of all sections as those of one text."""

    def __init__(self, total: TotalsSum) -> None:
        self.total = total
        self.units: list[Unit] = []
        self.counting: dict[Hashable, int] = {}
        """By template the unit that counts its lines."""
        self.owner: int | None = None
        """The latest unit that lists others, which may go on in the next section."""

    def reading(self, kind: str, readings: Sequence[Reading], head: Totals, focus: Focus) -> Reading:
        counts = 0.0
        for reading in readings:
            place: dict[int, int] = {}
            for index, unit in enumerate(reading.units):
                if not unit.count and unit.last < unit.first:
                    counts = unit.score  # Counts of this section only.
                else:
                    place[index] = self._added(unit, place)
        lines, further = head.write(head, focus)
        self._score(focus)
        above = [Unit(text, 1, 0, counts, count=0) for text in further]
        for unit in self.units:
            unit.parent = unit.parent + len(above) if unit.parent is not None else None
        first = readings[0]
        return Reading(kind, above + self.units, "\n".join(lines), gaps=first.gaps, decay=first.decay)

    def _added(self, unit: Unit, place: dict[int, int]) -> int:
        """Add a unit, or to one of an earlier section; return where it is."""
        if unit.rows:
            if self.owner is not None and self.units[self.owner].text == unit.text:
                owner = self.units[self.owner]
                owner.rows = array("L", (*owner.rows, *unit.rows))
                return self.owner
            self.owner = len(self.units)
        if unit.repeated is not None:
            counting = self.counting.get(unit.repeated.template)
            if counting is not None and not unit.repeated.stands_out:
                self.units[counting].score = max(unit.score, self.units[counting].score)
                return counting
            self._count(unit, counting is not None)
        unit.parent = place.get(unit.parent) if unit.parent is not None else None
        self.units.append(unit)
        return len(self.units) - 1

    def _count(self, unit: Unit, is_counted: bool) -> None:
        """Let a unit count the lines of its template in all sections, unless another one does."""
        repeated = unit.repeated
        assert repeated is not None
        if is_counted:
            unit.text, unit.folded, unit.count = repeated.text, (), 0
            return
        lines = self.total.lines_of(repeated.template)
        also = [(word, self.total.lines_of(template).numbers) for word, template in repeated.also]
        times = self.total.times_of(lines) if repeated.timed else ""
        unit.text = with_counts(
            repeated.text, len(lines.numbers), [(word, len(numbers)) for word, numbers in also], times
        )
        all_numbers = [lines.numbers, *(numbers for _, numbers in also)]
        shown = unit.first
        unit.folded = lambda: [(at, at) for numbers in all_numbers for at in numbers if at != shown]
        unit.count = sum(map(len, all_numbers))
        self.counting[repeated.template] = len(self.units)

    def _score(self, focus: Focus) -> None:
        """Compare the units of all sections: a word of the question that is rare in one may be usual in others."""
        texts = [unit.text for unit in self.units]
        patterns = generic.patterns_of(texts)
        features, leaders = generic.line_features(texts, patterns, focus)
        scores = features.scores(WEIGHTS["text"], focus)
        for at, (unit, score) in enumerate(zip(self.units, scores, strict=True)):
            if unit.score >= 0:
                unit.score = 0.5 * unit.score + score
            unit.family = None if unit.family is None or at in leaders else patterns[at]


# ------------------------------------------------------------------ side by side


def _side_by_side(
    kind: str, sections: list[_Section], head: str, focus: Focus, budget: int, tokenizer: Tokenizer
) -> tuple[Reading, Packed]:
    """Return the best sections below their titles, each as it would be shown by itself."""
    head = fitting_lines(head, budget // 4, tokenizer)
    titles = [_title(at, section, sections) for at, section in enumerate(sections)]
    room = budget - tokenizer.count(head + "\n") - 2
    costs = [
        [packed.tokens + tokenizer.count(f"{title}\n{GAP} 1,000,000 lines\n") for packed, _ in section.stages]
        for title, section in zip(titles, sections, strict=True)
    ]
    chosen = _shared_out(costs, _worths(sections, focus), room)
    blocks = [head] if head else []
    units: list[Unit] = []
    before = 0
    for at in sorted(chosen):
        packed, places = sections[at].stages[chosen[at]]
        hidden = sections[at].first - sections[before].first
        blocks += [*([f"[{GAP} {hidden:,} lines]"] if hidden > 1 else ()), titles[at], packed.text]
        for place in places:
            (first, last), *shows = place.lines
            units.append(Unit(place.text, first, last, 0.0, folded=place.folded, shows=tuple(shows)))
        before = at + 1
    text = "\n".join(blocks)
    while tokenizer.count(text) > budget and len(blocks) > 1:
        text = "\n".join(blocks := blocks[:-1])
    return Reading(kind, units, head), Packed(text, set(range(len(units))), tokenizer.count(text))


def _title(at: int, section: _Section, sections: list[_Section]) -> str:
    part = f"part {at + 1} of {len(sections)}"
    if any(one.last >= other.first for one, other in pairwise(sections)):
        return f"[from {part}]"  # Sections of one line.
    return f"[from {part}: lines {section.first:,}–{section.last:,}]"


def _worths(sections: list[_Section], focus: Focus) -> list[float]:
    """Score how well each section answers the question, by its best lines."""
    texts: list[str] = []
    of: list[int] = []
    for at, section in enumerate(sections):
        lines = [line for line in section.stages[-1][0].text.split("\n") if line.strip()] if section.stages else []
        texts += lines
        of += [at] * len(lines)
    features, _ = generic.line_features(texts, generic.patterns_of(texts), focus)
    best: list[list[float]] = [[] for _ in sections]
    for at, score in zip(of, features.scores(WEIGHTS["text"], focus), strict=True):
        best[at].append(score)
    return [max(0.01, sum(sorted(scores)[-3:])) for scores in best]


def _shared_out(costs: list[list[int]], worths: list[float], room: int) -> dict[int, int]:
    """Share the room among sections by their worth; return the chosen ones, each with the stage that it shows."""
    order = sorted((at for at in range(len(costs)) if costs[at]), key=lambda at: (-worths[at], at))
    most = max(1, room // SMALLEST_SHARE)
    worthy = [at for at in order if worths[at] >= LEAST_WORTH * worths[order[0]]][:most]
    chosen: dict[int, int] = {}
    for index, at in enumerate(worthy):
        share = room * worths[at] / sum(worths[other] for other in worthy[index:])
        fitting = [stage for stage, cost in enumerate(costs[at]) if cost <= share]
        if fitting:
            chosen[at] = fitting[-1]
            room -= costs[at][fitting[-1]]
    for at in order:
        stage = chosen.get(at, -1)
        spent = costs[at][stage] if stage >= 0 else 0
        while stage + 1 < len(costs[at]) and costs[at][stage + 1] - spent <= room:
            stage += 1
            room -= costs[at][stage] - spent
            spent = costs[at][stage]
            chosen[at] = stage
    return chosen
