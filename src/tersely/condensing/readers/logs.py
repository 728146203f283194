"""Logs of any format: templates with counts, and verbatim the lines that are rare, bad, extreme or requested.

Lines that differ only in numbers and identifiers are one unit, `line ×412`, shown as one
of them appears in the source. Parts that all lines share or that carry no information
(time, host, process ids, the usual level) are written once in the head. A line that
contains an identifier or address of the focus competes on its own and is shown whole, so
that folding never hides a requested line. Lines with extreme or odd numbers inside a
template compete too.

Keeps the order of the source. A stack trace belongs to the line before it. JSON lines
are read by `json_logs`.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate, chain
from operator import le

from tersely.condensing.detect import Reader, Sample, Signs
from tersely.condensing.field_counts import FieldValues, counts_in_words, fields_of_columns
from tersely.condensing.focus import Focus, Term, lowered, scan
from tersely.condensing.readers import stack
from tersely.condensing.readers.preamble import MAY_HAVE_TIME, TIME, Parts, Preamble
from tersely.condensing.readers.series import Series, bad_status, odd_in, series_in
from tersely.condensing.readers.tables import columns_of
from tersely.condensing.records import Column, counts_of, labelled_columns
from tersely.condensing.templates import SAME_BUT_VALUES, families, gather, is_coarse, masked_lines, without_values
from tersely.condensing.totals import TemplateLines, TimeSpan, Totals, zone_of
from tersely.condensing.units import Reading, RepeatedLine, Unit, with_counts
from tersely.condensing.weights import WEIGHTS

_LEVEL_SHARE, _WORDS_SHARE = 0.8, 0.4
"""Weights of the level and of the words in the severity of a line."""
LONG_LINE = 1_200
"""A longer line is read in pieces of about a third of this length, so that its content is visible."""

_PIECE = 400
_LONG_MESSAGE = 150
_MOST_VARIANTS = 5
_REPEATS_WITHIN = 200_000
_SENTENCE_WORDS = 3
_REPEATED_SHAPES = 0.02
_PLAIN_WORD = re.compile(r"(?<![\w.:/=-])[A-Za-z]{2,}(?![\w:/=-])")
_REPEATED_SHARE = 0.2
_COPIED_SHARE = 0.01
"""Different lines among those of a text with keys that has nothing but copies of them."""
"""Text is repetitive if its different lines are at most this share of all lines."""
_MOST_HITS = 3_000
_MOST_UNITS = 6_000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_OF_THE_LOG = re.compile(
    r"\b(?:in|of|from|through|for)?\s*(?:this|these|the|my|all)\s+(?:logs?|lines?|log\s+(?:file|lines?))\b"
    r"|\blogs?\s+(?:of|for|from)\b|\blook at first\b",
    re.I,
)
"""Words of a question that refer to the log itself or only phrase the question; they are not search terms."""
_LATER = re.compile(r"\b(?:later|newer) than\b|\bpast\b(?=\s+\d)", re.I)
_SORTABLE = re.compile(
    r"\d{4}([-/.])\d\d\1\d\d[T_ ]\d\d:\d\d:\d\d"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]\d \d\d:\d\d:\d\d"
)
"""Times that can be ordered as text (the names of months by their numbers)."""
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_BAD, _FEW = 1.8, 3
"""The severity from which on so few lines of a template are explained by the other lines about the same thing, …"""
_FEWEST_VALUES = 8
_MOST_EXPLAINED = 8
_MOST_COMPANIONS = 8
_OF_COMPANION = 0.75
"""… each with such a share of its score."""
MOST_COUNTED = 3
"""Fields whose values are counted over all lines."""
_MOST_TIMES = 2_000
"""Lines whose times are read one by one if they do not stand in the same place."""
_LONGEST_FRACTION = 10
"""Characters between the seconds of a time and its zone."""
_STATUS = re.compile(r"(?:\bHTTP/[\d.]+\"? |\b(?:status|code)(?:_code)?\"?[=: ]{1,2}\"?)([1-5]\d\d)\b", re.I)
"""The status of a response of HTTP."""
_TIMELY = re.compile(r"\b(?:slow|fast|quick|long|latency|took|duration|delay|time)", re.I)


@dataclass(slots=True)
class _Template:
    """Lines that are equal except for their values."""

    members: list[int]
    """Indices of the lines, in order."""
    shown: int
    """The member that represents all."""
    parts: Parts
    severity: float = 0.0
    relevance: float = 0.0
    score: float = 0.0
    hits: list[int] = field(default_factory=list)
    """Members that contain an identifier of the focus."""
    stands_out: bool = False
    """Whether the shown member has an odd or extreme value."""
    coarse: bool = False
    also: list[str] = field(default_factory=list)
    """Words that absorbed templates have in place of one of these."""
    also_count: int = 0
    """Number of lines in the absorbed templates."""
    status: str = ""
    """Of requests that failed: the status of their responses."""
    name: tuple[str, str, str] = ("", "", "")
    """What its lines have in common: the text without values, the level, and which of several logs it is from."""
    words: list[str] = field(default_factory=list)
    """The shown words, without values."""
    alike: int = 0
    """Number of lines in its family; without the family itself, templates are freed as soon as nothing needs them."""
    absorbs: list["_Template"] = field(default_factory=list)
    absorbed: bool = False
    """Shown as a variant of another template that differs in one word."""


@dataclass(slots=True)
class _Family:
    """Templates that are equal except for names; the best one leads."""

    templates: list[_Template]
    size: int = 0
    """Number of its lines."""

    @property
    def leader(self) -> _Template:
        return self.templates[0]

    def lines(self) -> list[int]:
        """Return all its lines, in order."""
        if len(self.templates) == 1:
            return self.leader.members
        return sorted(at for template in self.templates for at in template.members)

    def __len__(self) -> int:
        return self.size


def read(text: str, focus: Focus, budget: int, *, noun: str = "lines") -> Reading | None:
    """Return the log as units, or None if the text has fewer than two lines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    log = _PlainLines(text)
    if len(log.lines) < 2:
        return None
    log.noun = noun
    return reading_of(log, focus, budget)


def reading_of(log: "Lines", focus: Focus, budget: int) -> Reading:
    """Return any kind of lines as units."""
    asked = _LATER.sub("after", _OF_THE_LOG.sub(" ", focus.text))
    return _Reader(log, focus if asked == focus.text else Focus.parse(asked), budget).reading()


class Lines:
    """Interface to the lines of a log: verbatim, masked, and split into parts; `json_logs` implements its own."""

    kind = "log"
    lines: list[str]
    """The full lines, in which the terms of the focus are searched."""
    text: str
    """The same as one text, with as many lines."""
    keys: list[str]
    """Masked lines: lines with the same key share a template; a blank key is skipped."""
    total: int
    """Number of lines in the source."""
    noun = "lines"
    """Noun for the lines in the output; multi-line events are entries."""
    records = 0
    """For lines that are records: how many there are."""
    continued: frozenset[int] = frozenset()
    """Which of the lines are further pieces of a very long one, and so are not counted."""
    hides = False
    """Whether words, not only values, are omitted from a line that represents many."""

    def number(self, at: int) -> int:
        """Return the line number in the source, counted from 1."""
        return at + 1

    def numbers_of(self, members: Sequence[int]) -> list[int]:
        return list(map(self.number, members))

    def parts(self, at: int) -> Parts:
        """Return the text of a line that represents many, with time and level."""
        raise NotImplementedError

    def time_of(self, at: int) -> str:
        return self.parts(at).time

    def single(self, at: int) -> str:
        """Return the text of a line that represents only itself."""
        return self.parts(at).shown

    def asked(self, at: int, room: int) -> str:
        """Return the text of a requested line: complete, with time and host, but within `room` characters."""
        return " ".join(self.lines[at].split())

    def source(self, at: int) -> str:
        """Return which of several interleaved logs the line belongs to; their lines are never merged."""
        return ""

    def width(self, at: int) -> int:
        """Return how many words of a line are compared with those of its family."""
        return len(self.parts(at).shown.split())

    def measured(self, at: int, width: int) -> list[str]:
        """Return these words, counted from the end, because the part before the message varies in length."""
        return self.lines[at].split()[-width:]

    def odd(self) -> Iterable[tuple[int, float]]:
        """Yield further lines that are unusual, and how much (0..1)."""
        return ()

    def companions(self, at: int) -> Sequence[int]:
        """Return the other lines about the same thing: the same test, request or job."""
        return ()

    def series(self) -> Iterable[Series]:
        """Yield numbers that lines of different families share."""
        return ()

    def shared(self) -> list[str]:
        """Return what all lines share and therefore do not show, for the head."""
        return []

    def usual_values(self) -> dict[str, int]:
        """Return the values that lines do not show where they have them, and how many have each."""
        return {}

    def fields(self, focus: Focus) -> dict[str, FieldValues]:
        """Return what all lines say in their fields, by the names under which they are shown."""
        raise NotImplementedError


class _PlainLines(Lines):
    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self.total = len(lines) - (not lines[-1])
        self.numbers: list[int] | None = None
        self._whole = lines
        self._pieces: dict[int, int] = {}
        """Lines that are further pieces of a very long one → which, counted from 1."""
        if len(text) > LONG_LINE and max(map(len, lines)) > LONG_LINE:
            self.lines, self.numbers, self._pieces = _in_pieces(lines)
            text = "\n".join(self.lines)
        else:
            self.lines = lines
        self.text = text
        self.keys = masked_lines(text)
        if self._pieces:
            self.continued = frozenset(self._pieces)
            # Pieces of several lines may be equal, but those of one line are not several lines.
            for at, piece in self._pieces.items():
                self.keys[at] = f"{self.keys[at]}\t{piece}" if self.keys[at] else ""
        self.preamble = Preamble.learn(self.lines)
        if self.preamble.sources:
            self.keys = [
                f"{self.preamble.source(line)}\t{key}" if key else ""
                for line, key in zip(self.lines, self.keys, strict=True)
            ]
        self._parts: dict[int, Parts] = {}

    def number(self, at: int) -> int:
        return at + 1 if self.numbers is None else self.numbers[at]

    def numbers_of(self, members: Sequence[int]) -> list[int]:
        return [at + 1 for at in members] if self.numbers is None else [self.numbers[at] for at in members]

    def parts(self, at: int) -> Parts:
        found = self._parts.get(at)
        if found is None:
            found = self.preamble.split(self.lines[at])
            if at in self.continued:
                found = Parts(" ".join(self.lines[at].split()), "", "", found.weight)
            self._parts[at] = found
        return found

    def time_of(self, at: int) -> str:
        if at in self.continued:
            return ""
        found = self._parts.get(at)
        return found.time if found is not None else self.preamble.time(self.lines[at])

    def source(self, at: int) -> str:
        source = self.preamble.source(self.lines[at]) if self.preamble.sources else ""
        return f"{source}\t{self._pieces[at]}" if at in self._pieces else source

    @cached_property
    def _labelled(self) -> tuple[list[int], list[Column]]:
        """The columns that most lines label that are not blank, and these lines."""
        columns = labelled_columns([line for line in self._whole if line])
        if not columns:
            return [], columns
        firsts = [at for at in range(len(self.lines)) if at not in self._pieces]
        return [firsts[place] for place, line in enumerate(self._whole) if line], columns

    def odd(self) -> Iterable[tuple[int, float]]:
        """Yield lines with a rare value under a label that has few different values."""
        filled, columns = self._labelled
        for column in columns:
            counts = Counter(column.values)
            total = len(column.values)
            if total < _FEWEST_VALUES or not 1 < len(counts) <= max(3, min(24, total // 4)):
                continue
            rare = {value for value, times in counts.items() if times <= max(1, total // 50)}
            yielded: Counter[str] = Counter()
            for row, value in zip(column.rows, column.values, strict=True):
                if value in rare and yielded[value] < 2:
                    yielded[value] += 1
                    yield filled[row], 0.5 + 0.3 * (1 - len(counts) / total)

    def fields(self, focus: Focus) -> dict[str, FieldValues]:
        filled, columns = self._labelled
        return fields_of_columns(columns, len(filled), focus)

    def shared(self) -> list[str]:
        usual = self.preamble.usual_level
        host = f"host {self.preamble.host_name}" if self.preamble.host_name else "hosts are not shown"
        said = [host] if self.preamble.host >= 0 else []
        return [*said, f"{usual} where no level is shown"] if usual else said


def _lines_with(terms: Sequence[Term], lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield each line that contains one of the terms, with the index of the term.

    Words in very many lines identify none and are skipped; names with a digit are not.
    """
    low = lowered("\n".join(lines))
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for index, term in enumerate(terms):
        is_name = any(map(str.isdigit, term.text))
        most = len(lines) if is_name else min(_MOST_HITS, max(20, len(lines) // 10))
        # A word is given by its stem; an ending of a few letters may follow.
        ending = 0 if term.kind in ("phrase", "identifier") else 4
        found: list[int] = []
        at = low.find(term.text)
        while at >= 0 and len(found) <= most:
            after = at + len(term.text)
            if _is_whole_word(low, at, after, ending):
                line = bisect_right(starts, at) - 1
                found.append(line)
                after = starts[line + 1] - 1
            at = low.find(term.text, after)
        if len(found) <= most:
            yield from ((index, line) for line in found)


def _is_whole_word(text: str, start: int, end: int, ending: int) -> bool:
    """Whether a match is a whole word, except for an ending of up to `ending` letters."""
    if start and text[start].isalnum() and text[start - 1].isalnum():
        return False
    if not text[end - 1].isalnum():
        return True
    last = min(len(text), end + ending)
    while end < last and text[end].isalpha():
        end += 1
    return end >= len(text) or not text[end].isalnum()


def _in_pieces(lines: list[str]) -> tuple[list[str], list[int], dict[int, int]]:
    """Return the lines with very long ones in pieces, the number of each, and which piece each further one is."""
    pieces: list[str] = []
    numbers: list[int] = []
    further: dict[int, int] = {}
    before = 0
    for at in [at for at, size in enumerate(map(len, lines)) if size > LONG_LINE]:
        pieces += lines[before:at]
        numbers += range(before + 1, at + 1)
        before = at + 1
        line, start, piece = lines[at], 0, 0
        while start < len(line):
            end = len(line)
            if end - start > _PIECE:
                cut = max(line.rfind(sign, start + _PIECE // 2, start + _PIECE) for sign in ("\\n", " "))
                end = cut + (1 if line[cut] == " " else 2) if cut > 0 else start + _PIECE
            if piece:
                further[len(pieces)] = piece
            pieces.append(line[start:end])
            numbers.append(at + 1)
            start, piece = end, piece + 1
    return [*pieces, *lines[before:]], [*numbers, *range(before + 1, len(lines) + 1)], further


class _Reader:
    """Shared state of the steps that read one log."""

    def __init__(self, log: Lines, focus: Focus, budget: int) -> None:
        self.log = log
        self.focus = focus
        self.budget = budget
        self.room = max(200, int(budget * 1.6))
        """Characters for one requested line: about half of the budget."""
        self.traces = stack.find(log.lines, log.text)
        self.times = _Times(log)
        self.templates = self._with_hits(self._by_status(self._templates()))
        self.bad_is_usual = self._bad_is_usual()
        self.families = self._families()
        self.unusual = focus.unusual

    def reading(self) -> Reading:
        literal = self._score_templates()
        self._lower_similar()
        ordered = sorted(
            (template for template in self.templates if not template.absorbed), key=lambda each: each.shown
        )
        extras = [*literal, *self._odd_and_extreme()]
        return self._laid_out(ordered, [*extras, *self._companions(ordered, extras)])

    # -- grouping

    def _templates(self) -> list[_Template]:
        """Group lines by template; times and months are masked, so that a new day does not create a new template."""
        log, in_trace = self.log, self.traces.inside
        keys = log.keys
        if in_trace:
            keys = ["" if at in in_trace else key for at, key in enumerate(keys)]
        merged: dict[tuple[str, str, str], _Template] = {}
        for key, members in gather(keys).items():
            parts = log.parts(members[0])
            if is_coarse(key):
                words = masked(parts.shown).split()
                merged[key, "", ""] = _Template(members, members[0], parts, coarse=True, words=words)
                continue
            if not parts.shown:
                continue
            name = (masked(parts.shown), parts.level, log.source(members[0]))
            template = merged.get(name)
            if template is None:
                merged[name] = _Template(members, members[0], parts, name=name, words=name[0].split())
            else:
                template.members += members
        for template in merged.values():
            if template.members[0] > template.members[-1] or len(template.members) > 1:
                template.members.sort()
        return list(merged.values())

    def _by_status(self, templates: list[_Template]) -> list[_Template]:
        """Separate requests that failed from those that are equal to them up to values: no failure is folded away."""
        divided: list[_Template] = []
        for template in templates:
            if template.coarse or not _STATUS.search(template.parts.shown):
                divided.append(template)
                continue
            groups: dict[str, list[int]] = {}
            for at in template.members:
                found = _STATUS.search(self.log.lines[at])
                status = found[1] if found else ""
                groups.setdefault(status if status[:1] in ("4", "5") else "", []).append(at)
            text, level, source = template.name
            for status, members in groups.items():
                parts = template.parts if members[0] == template.shown else self.log.parts(members[0])
                name = text, level, f"{source}\t{status}" if status else source
                divided.append(_Template(members, members[0], parts, status=status, name=name, words=template.words))
        return divided

    def _with_hits(self, templates: list[_Template]) -> list[_Template]:
        """Separate the lines with terms of the focus that a template does not show: values, and other omitted parts.

        A line that the question names is counted with those that have the same terms, not with all that are equal up
        to their values: `from 10.0.0.7 ×20` of 600 logins.
        """
        every = self.log.hides or any(template.coarse for template in templates)
        terms = [term for term in self.focus.terms if (every and term.weight > 0.3) or any(map(str.isdigit, term.text))]
        found: dict[int, frozenset[int]] = {}
        for index, at in _lines_with(terms, self.log.lines) if terms else ():
            found[at] = found.get(at, frozenset()) | {index}
        if not found:
            return templates
        divided: list[_Template] = []
        for template in templates:
            groups: dict[frozenset[int], list[int]] = {}
            for at in template.members:
                groups.setdefault(found.get(at, frozenset()), []).append(at)
            others = groups.pop(frozenset(), [])
            if not groups:
                divided.append(template)
            elif template.coarse:
                template.hits = sorted(chain(*groups.values()), key=lambda at: (-len(found[at]), at))
                template.shown, template.parts = template.hits[0], self._whole(template.hits[0])
                divided.append(template)
            else:
                if others:
                    parts = template.parts if others[0] == template.shown else self.log.parts(others[0])
                    divided.append(
                        _Template(
                            others, others[0], parts, status=template.status, name=template.name, words=template.words
                        )
                    )
                for has, hits in groups.items():
                    text, level, source = template.name
                    name = text, level, "\t".join([source, *(terms[index].text for index in sorted(has))])
                    parts = self._whole(hits[0])
                    divided.append(_Template(hits, hits[0], parts, hits=hits, name=name, words=template.words))
        return divided

    def _families(self) -> list[_Family]:
        found: dict[object, _Family] = {}
        for template, pattern in zip(
            self.templates, families([template.words for template in self.templates]), strict=True
        ):
            name = template.shown if pattern is None or template.coarse else (pattern, template.parts.level)
            family = found.setdefault(name, _Family([]))
            family.templates.append(template)
            family.size += len(template.members)
        for family in found.values():
            for template in family.templates:
                template.alike = family.size
        return list(found.values())

    def _bad_is_usual(self) -> bool:
        """Whether most lines are errors by their level, so that the level distinguishes nothing."""
        bad = sum(len(template.members) for template in self.templates if template.parts.weight >= 2)
        return bad > 0.6 * len(self.log.lines)

    # -- scoring

    def _score_templates(self) -> list[tuple[int, float]]:
        """Score every template; return the single lines that compete on their own, with their scores."""
        focus, log = self.focus, self.log
        texts = [
            template.parts.shown if not template.hits else log.lines[template.hits[0]] for template in self.templates
        ]
        own: list[int] = []
        for template in self.templates:
            own += template.hits[1:200] if not template.coarse else template.hits[:400]
        found = scan([*texts, *(log.lines[at] for at in own)], focus)
        # Words that only phrase the question weigh little, even if nothing else is found.
        heaviest = max((focus.terms[index].weight for index in found.frequency), default=0.0)
        if heaviest < 0.6:
            found.relevance = [each * heaviest / 0.6 for each in found.relevance]
        # Terms in half of all lines, e.g. field names, distinguish nothing.
        usual = sorted(found.relevance)[len(found.relevance) // 2] if texts else 0.0
        # If no line matches the words of the question, unusual lines are the best answer.
        self.unusual = focus.unusual or heaviest < 0.2 or max(found.relevance, default=0.0) <= usual
        total = max(2, len(log.lines))
        weights = WEIGHTS["log"]
        severe = weights.severity_asked if focus.trouble or not focus else weights.severity
        for template, severity, relevance in zip(self.templates, found.severity, found.relevance, strict=False):
            weight = template.parts.weight
            if self.bad_is_usual or not template.parts.level:
                template.severity = severity
            else:
                template.severity = max(0.0, _LEVEL_SHARE * weight + _WORDS_SHARE * severity)
            template.relevance = relevance = max(0.0, relevance - usual)
            rarity = 1 - math.log(template.alike or len(template.members)) / math.log(total)
            # Among bad lines, frequent ones matter as much as rare ones.
            rare = (weights.rarity_asked if self.unusual else weights.rarity) * (
                rarity if template.severity < 1.8 else 0.6
            )
            asked = severe * template.severity + weights.relevance * relevance
            template.score = weights.roles["line"] + asked + rare
            if self._outside_window(template):
                template.score *= 0.3
        start = len(texts)
        single = WEIGHTS["single lines of logs"]
        apart = single.severity_asked if focus.trouble or not focus else single.severity
        literal: list[tuple[int, float]] = []
        seen: Counter[str] = Counter()
        for at, relevance, severity in zip(own, found.relevance[start:], found.severity[start:], strict=True):
            kind = log.keys[at]
            # Of similar lines with the same identifier, the first ones answer and the others confirm.
            literal.append(
                (
                    at,
                    (single.roles["line"] + apart * severity + single.relevance * max(0.0, relevance - usual))
                    / (1 + 0.25 * seen[kind] + 0.2),
                )
            )
            seen[kind] += 1
        return literal

    def _whole(self, at: int) -> Parts:
        """Return a requested line unchanged, including its time and host."""
        parts = self.log.parts(at)
        return Parts(self.log.asked(at, self.room), "", parts.level, parts.weight)

    def _outside_window(self, template: _Template) -> bool:
        """Whether no line of the template is in the requested window; otherwise one that is represents it."""
        if not self.focus.since and not self.focus.until:
            return False
        for at in template.members[:20_000]:
            within = self.focus.within(self.log.lines[at])
            if within is None:
                return False
            if within:
                if not template.hits:
                    template.shown = at
                    template.parts = self.log.parts(at)
                return False
        return True

    def _lower_similar(self) -> None:
        """Lower the score of each further template of a family; absorb those that differ in one word."""
        for family in self.families:
            if len(family.templates) > 1:
                family.templates.sort(key=lambda each: (-each.score, each.shown))
                few = len(family.templates) <= _MOST_VARIANTS + 1
                rank = 0
                for template in family.templates[1:]:
                    if few and self._absorb(template, family.leader):
                        continue
                    rank += 1
                    template.score /= 1 + 0.5 * rank
        # Lines of other lengths or with longer names can be similar too: most words in common lower the score.
        leaders: dict[tuple[str, ...], list[tuple[_Template, frozenset[str]]]] = {}
        followers: Counter[int] = Counter()
        quoted: list[frozenset[str]] = []
        for family in sorted(self.families, key=lambda each: (-each.leader.score, each.leader.shown))[:_MOST_UNITS]:
            template = family.leader
            if len(template.words) < 3:
                continue
            words = frozenset(template.words)
            near = leaders.setdefault(tuple(template.words[:2]), [])
            for leader, other in near[:40]:
                if len(words & other) >= 0.6 * len(words | other):
                    if len(family.templates) == 1 and self._absorb(template, leader):
                        break
                    followers[leader.shown] += 1
                    template.score /= 1 + 0.15 * followers[leader.shown]
                    break
            else:
                near.append((template, words))
                # A long message that another line has quoted already is worth less.
                if len(template.parts.shown) > _LONG_MESSAGE:
                    if any(len(words & other) >= 0.8 * len(words) for other in quoted):
                        template.score /= 2
                    elif len(quoted) < 200:
                        quoted.append(words)

    def _absorb(self, template: _Template, leader: _Template) -> bool:
        """Merge a template into one that differs in a word, `(also user=guest ×3)`, unless it is worse or requested."""
        if (
            len(template.words) != len(leader.words)
            or len(template.words) < 5
            or template.hits
            or leader.hits
            or template.status != leader.status
            or template.coarse
            or leader.coarse
        ):
            return False
        different = [
            place for place, (one, two) in enumerate(zip(template.words, leader.words, strict=True)) if one != two
        ]
        if (
            len(different) != 1
            or template.severity > leader.severity + 0.1
            or template.relevance > leader.relevance + 0.02
        ):
            return False
        if self.focus.since or self.focus.until or len(leader.also) >= _MOST_VARIANTS:
            return False
        words = template.parts.shown.split()
        if len(words) != len(template.words) or len(words[different[0]]) > 32:
            return False
        if SAME_BUT_VALUES.fullmatch(words[different[0]]):
            return False  # An identifier is one of many, no variant of a word.
        count = len(template.members)
        leader.also.append(words[different[0]])
        leader.also_count += count
        leader.absorbs.append(template)
        template.absorbed = True
        return True

    def _odd_and_extreme(self) -> list[tuple[int, float]]:
        """Return lines with extreme numbers, an odd value or the end of a trend, with their scores."""
        log, focus = self.log, self.focus
        out = [(at, 0.4 + (2.0 if self.unusual else 0.5) * strength) for at, strength in log.odd()]
        found: list[tuple[Series, float]] = [(each, 0.5) for each in log.series()]
        candidates = [each for each in self.families if len(each) > 1 and not each.leader.coarse]
        candidates.sort(key=lambda each: (-each.leader.score, each.leader.shown))
        for family in candidates[:400]:
            members = family.lines()
            if len({log.lines[at] for at in members}) == 1:
                continue
            width = log.width(members[0])
            rows = [log.measured(at, width) for at in members] if width else []
            if any(len(row) != width for row in rows):
                members = [at for at, row in zip(members, rows, strict=True) if len(row) == width]
                rows = [row for row in rows if len(row) == width]
            columns = list(zip(*rows, strict=True))
            for column in columns:
                for word, index in odd_in(column):
                    worth = family.leader.score * 0.4 + (0.9 if self.unusual else 0.2)
                    out.append((members[index], worth + (1.2 if bad_status(word, column[0]) else 0.0)))
            found += [(each, family.leader.score) for each in series_in(members, columns)]
        if found:
            timely = bool(_TIMELY.search(focus.text))
            relevance = scan([each.context for each, _ in found], focus).relevance
            asked = [
                strength + (0.4 if timely and each.in_time else 0.0)
                for strength, (each, _) in zip(relevance, found, strict=True)
            ]
            best = max(asked)
            top = max(
                (
                    each.numbers[each.highest()]
                    for (each, _), strength in zip(found, asked, strict=True)
                    if strength == best
                ),
                default=0,
            )
            for (each, score), strength in zip(found, asked, strict=True):
                wanted = bool(best) and strength >= 0.6 * best
                if each.measures or wanted:
                    out += self._ends(each, score, strength if wanted else 0.0, bool(best), top)
        return out

    def _companions(
        self, ordered: Sequence[_Template], extras: Sequence[tuple[int, float]]
    ) -> Iterator[tuple[int, float]]:
        """Yield the lines about the same things as the few worst or most requested ones, which say why."""
        if not self.focus.trouble:
            return
        few = [
            (template.score, template.shown)
            for template in ordered
            if template.severity >= _BAD and len(template.members) <= _FEW
        ]
        few += [(score, at) for at, score in extras]
        seen: set[int] = set()
        for score, at in sorted(few, key=lambda each: (-each[0], each[1]))[:_MOST_EXPLAINED]:
            companions = () if at in seen else self.log.companions(at)
            seen.update((at, *companions))
            for rank, other in enumerate(companions[:_MOST_COMPANIONS]):
                yield other, _OF_COMPANION * score / (1 + 0.1 * rank)

    def _ends(
        self, series: Series, score: float, asked: float, any_asked: bool, top: float
    ) -> Iterator[tuple[int, float]]:
        """Yield the lines with the extremes of one number."""
        high, low = series.highest(), series.lowest()
        base = 0.4 * score + 0.4 if asked else 0.25 * score
        above, below = series.leaps()
        leap = 1.2 if self.unusual else 0.5
        up, down = base + above * leap, (base if asked else 0.4 * base) + below * leap * 0.6
        if self.focus.superlative and (asked or not any_asked):
            wanted = 2.0 + asked if asked else 0.7
            if self.focus.superlative > 0:
                up += wanted + (0.5 if series.numbers[high] == top else 0.0)
            else:
                down += wanted
        yield series.members[high], up
        yield series.members[low], down
        if series.moves():
            yield series.members[-1], base + 0.2
        for comparison in self.focus.comparisons:
            if comparison.unit and series.unit and comparison.unit[0].lower() != series.unit[0].lower():
                continue
            if comparison.unit == "%" and not series.unit:
                continue
            beyond = [
                at for at, number in enumerate(series.numbers) if (number > comparison.amount) == comparison.above
            ]
            if beyond and (asked or len(beyond) < 0.5 * len(series.numbers)):
                for rank, at in enumerate(beyond[:30]):
                    yield series.members[at], base + (2.0 if asked else 0.5) / (1 + 0.05 * rank)

    # -- output

    def _laid_out(self, ordered: Sequence[_Template], extras: Sequence[tuple[int, float]]) -> Reading:
        log = self.log
        single: dict[int, float] = {}
        shown = {template.shown: template for template in ordered}
        for at, score in extras:
            if at in shown:
                shown[at].score = max(score, shown[at].score)
                shown[at].stands_out = True
            else:
                single[at] = max(score, single.get(at, 0.0))
        asked_for = {at for template in self.templates for at in template.hits}
        entries: list[tuple[int, _Template | None, float]] = [
            (template.shown, template, template.score) for template in ordered
        ]
        entries += [(at, None, score) for at, score in single.items()]
        if len(entries) > _MOST_UNITS:
            entries = sorted(entries, key=lambda entry: (-entry[2], entry[0]))[:_MOST_UNITS]
        entries.sort(key=lambda entry: entry[0])
        times = self._room_for_times(ordered)
        units: list[Unit] = []
        shown_traces: set[str] = set()
        for at, template, score in entries:
            if template is None:
                text = log.asked(at, self.room) if at in asked_for else log.single(at)
                units.append(Unit(text, log.number(at), log.number(at), score, count=0))
            else:
                units.append(
                    Unit(
                        self._text(template, times),
                        log.number(at),
                        log.number(at),
                        score,
                        count=1 if template.coarse else len(template.members) + template.also_count,
                        folded=self._folded(template),
                        repeated=self._repeated(template),
                    )
                )
            trace = self.traces.after.get(at)
            if trace is not None:
                worth = max(0.6, 0.6 * score)
                frames = stack.units_of(
                    log.lines, trace, self.traces, owner=len(units) - 1, score=worth, number=log.number
                )
                key = "\n".join(frame.text for frame in frames)
                if key not in shown_traces:
                    shown_traces.add(key)
                    units += frames
        totals = self._totals()
        return Reading(log.kind, units, head=totals.head(self.focus), totals=lambda: self._with_templates(totals))

    def _folded(self, template: _Template) -> Callable[[], Iterator[tuple[int, int]]]:
        """Return how to list the lines that a template's text counts, besides the shown one."""
        number = self.log.number

        def lines() -> Iterator[tuple[int, int]]:
            if template.coarse:
                return
            for each in (template, *template.absorbs):
                for at in each.members:
                    if at != template.shown:
                        yield number(at), number(at)

        return lines

    def _text(self, template: _Template, times: float) -> str:
        count = len(template.members)
        text = template.parts.shown if count > 1 or template.hits else self.log.single(template.shown)
        if template.coarse:
            return text
        also = [(word, len(each.members)) for word, each in zip(template.also, template.absorbs, strict=True)]
        timed = template.parts.time and template.score >= times
        return with_counts(text, count, also, self.times.of(template.members) if timed else "")

    def _room_for_times(self, ordered: Sequence[_Template]) -> float:
        """Return the score from which templates show first and last time: as many as fit in half of the budget."""
        left = self.budget * 0.5
        for template in sorted(ordered, key=lambda each: -each.score):
            left -= len(template.parts.shown) / 3.3 + 14
            if left < 0:
                return max(1.0, template.score + 1e-9) if template.score < 1.2 else math.inf
        return 0.0

    def _totals(self) -> Totals:
        """Return number of lines, time range, levels, what each line omits, and the values of its fields."""
        log = self.log
        levels: Counter[str] = Counter()
        for template in self.templates:
            if template.parts.level:
                levels[template.parts.level] += len(template.members)
        return Totals(
            log.total,
            _write_head,
            log.noun,
            log.fields(self.focus),
            levels,
            self.times.span,
            tuple(log.shared()),
            log.usual_values(),
            log.records,
            varies=any(map(self._varies, self.templates)),
        )

    def _varies(self, template: _Template) -> bool:
        """Whether the second line that a template counts differs from the first one."""
        first, *more = template.members[:2]
        parts = self.log.parts
        return bool(more) and not template.coarse and parts(first).shown != parts(more[0]).shown

    def _with_templates(self, totals: Totals) -> Totals:
        totals.templates = {
            template.name: TemplateLines(self.log.numbers_of(template.members), *self.times.ends(template.members))
            for template in self.templates
            if not template.coarse
        }
        return totals

    def _repeated(self, template: _Template) -> RepeatedLine | None:
        if template.coarse:
            return None
        alone = len(template.members) == 1 and not template.hits
        return RepeatedLine(
            template.name,
            self.log.single(template.shown) if alone else template.parts.shown,
            tuple((word, each.name) for word, each in zip(template.also, template.absorbs, strict=True)),
            stands_out=bool(template.hits) or template.stands_out,
            timed=bool(template.parts.time),
        )


def _write_head(totals: Totals, focus: Focus) -> tuple[list[str], list[str]]:
    """Write what is known about all lines in one line: how many, their times, levels, and what they omit."""
    phrases = [f"{totals.count} {totals.noun}"]
    if totals.span is not None:
        phrases.append(str(totals.span))
    if len(totals.levels) > 1:
        phrases.append(" ".join(f"{name} {count}" for name, count in totals.levels.most_common(6)))
    always = [pair for pair, times in totals.usual.items() if times == totals.records]
    common = [f"all: {', '.join(always)}"] if always else []
    common += [f"{times} with {pair}" for pair, times in totals.usual.items() if times != totals.records]
    common += totals.shared
    fields = {
        name: each
        for name, each in totals.fields.items()
        if not totals.records or each.absent or len(counts_of(each.values)) > 1
    }
    values = counts_in_words(fields, focus, MOST_COUNTED)
    counts = [f"[{'; '.join(values)}]"] if values else []
    common += ["×N: equal except for numbers and ids"] if totals.varies else []
    # The end is cut off first: what was asked for comes before what lines omit.
    return ["; ".join([*phrases, *counts, *common] if focus else [*phrases, *common, *counts])], []


class _Times:
    """Times of the lines of a log: from the earliest to the latest where they can be compared.

    They can be if their form can be ordered as text. Otherwise the times of the first and last line are given as such.
    """

    def __init__(self, log: Lines) -> None:
        self._log = log
        self._keys: list[str] = []
        """Per line its time in a form that can be ordered; empty strings for lines without one."""
        self._in_order = False
        self.span: TimeSpan | None = None
        count = len(log.lines)
        first, last = self._near(range(count)), self._near(range(count - 1, -1, -1))
        if not first or not last:
            return
        place = self._place(first)
        if place is not None:
            start, end = place
            self._keys = [_sort_key(line[start:end]) for line in log.lines]
        elif count <= _MOST_TIMES and _SORTABLE.match(first):
            self._keys = [_sort_key(log.time_of(at)) for at in range(count)]
        for at in log.continued if self._keys else ():
            self._keys[at] = ""
        times = [key for key in self._keys if key]
        self._in_order = all(map(le, times, times[1:]))
        if place is not None and not self._in_order:
            # Lines without a time, e.g. two that were written into each other, may have other digits there.
            start, end = place
            self._keys = [
                key if key and _SORTABLE.fullmatch(line, start, end) else ""
                for key, line in zip(self._keys, log.lines, strict=True)
            ]
            times = [key for key in self._keys if key]
            self._in_order = all(map(le, times, times[1:]))
        if times and not self._in_order and not first[:1].isdigit():
            self._keys = _with_years(self._keys)
        has_zones = bool(times) and self._has_zones(zone_of(first), place)
        if has_zones:
            self._keys = _universal([log.time_of(at) for at in range(count)]) if count <= _MOST_TIMES else []
        if has_zones or not self._in_order:
            times = [key for key in self._keys if key]
            self._in_order = all(map(le, times, times[1:]))
        if not times:
            self._keys = []
            self.span = TimeSpan(first, last, has_zones=has_zones)
            return
        if not self._in_order or has_zones:
            earliest, latest = self._keys.index(min(times)), self._keys.index(max(times))
            first, last = log.time_of(earliest) or min(times), log.time_of(latest) or max(times)
        self.span = TimeSpan(first, last, min(times), max(times), has_zones)

    def _has_zones(self, zone: str, place: tuple[int, int] | None) -> bool:
        """Whether some line has a time of another zone than the first one."""
        lines = self._log.lines
        if place is None:
            return any(key and zone_of(self._log.time_of(at)) != zone for at, key in enumerate(self._keys))
        if not zone:
            return False
        end, reach = place[1], place[1] + _LONGEST_FRACTION + len(zone)
        return any(key and zone not in line[end:reach] for key, line in zip(self._keys, lines, strict=True))

    def of(self, members: Sequence[int]) -> str:
        """Return the time of a line, or the range of several, to the second."""
        return self.span.range_of(*self.ends(members)) if self.span is not None else ""

    def ends(self, members: Sequence[int]) -> tuple[str, str]:
        """Return the earliest and the latest time of several lines."""
        first, last = members[0], members[-1]
        if self._keys and not self._in_order:
            timed = [at for at in members if self._keys[at]]
            if timed:
                first, last = min(timed, key=self._keys.__getitem__), max(timed, key=self._keys.__getitem__)
        earliest = self._log.time_of(first)
        return earliest, earliest if first == last else self._log.time_of(last)

    def _near(self, order: range) -> str:
        return next((time for at in order[:50] if (time := self._log.time_of(at))), "")

    def _place(self, time: str) -> tuple[int, int] | None:
        """Return where in each line its time stands, if that is the same in all and the form can be ordered."""
        lines = self._log.lines
        stamp = _SORTABLE.match(time)
        if stamp is None:
            return None
        sample = [at for at in range(0, len(lines), max(1, len(lines) // 50)) if self._log.time_of(at)]
        starts = {lines[at].find(self._log.time_of(at)) for at in sample}
        if len(starts) != 1 or -1 in starts:
            return None  # Also where none of the sampled lines has a time.
        (start,) = starts
        end = start + stamp.end()
        return (start, end) if all(_SORTABLE.fullmatch(lines[at], start, end) for at in sample) else None


def _sort_key(time: str) -> str:
    """Return a time in a form that can be ordered; empty if it cannot."""
    if time[:1].isdigit():
        return time if time[3:4].isdigit() and time[18:19].isdigit() else ""
    month = _MONTHS.get(time[:3])
    return f"{month:02d}{time[3:]}" if month and time[14:15].isdigit() else ""


def _with_years(keys: Sequence[str]) -> list[str]:
    """Return keys of times without a year with a count of years before them: December before January is another one."""
    found: list[str] = []
    year, before = 0, ""
    for key in keys:
        if key and before:
            year += (key[:2] == "01" and before[:2] == "12") - (key[:2] == "12" and before[:2] == "01")
        before = key or before
        found.append(f"{year + 100}{key}" if key else "")
    return found


def _universal(times: Sequence[str]) -> list[str]:
    """Return times with zones in a form that can be ordered; none if one of them cannot."""
    try:
        found = [datetime.fromisoformat(time.replace(",", ".")).astimezone(UTC) if time else None for time in times]
    except (ValueError, OverflowError):
        return []
    return [time.isoformat(timespec="microseconds") if time else "" for time in found]


def masked(text: str) -> str:
    """Mask the values of a message; times first, because the names of days and months differ too."""
    if MAY_HAVE_TIME.search(text):
        text = TIME.sub("#", text)
    return without_values(text)


def looks_timed(sample: Sequence[str]) -> bool:
    """Whether at least half of the lines begin with a time or a level, of any format that can be learned."""
    preamble = Preamble.learn(sample)
    if preamble.depth < 0:
        return False
    parts = [preamble.split(line) for line in sample if line.strip()]
    return sum(1 for each in parts if each.time or (each.level and preamble.levels)) >= 0.5 * max(1, len(parts))


_FIELD_WITH_WORD = re.compile(r"(?:^|[\s,;])\w+=[\"']?[^\W\d_]{2}")
_COMMIT = re.compile(r"[*|/\\ ]*(?=\d*[a-f])[0-9a-f]{7,40} ")
"""The beginning of a line that names a commit, which is no value of a message. Some hashes have digits only."""


def mostly_repeats(text: str, kind: str) -> bool:
    """Whether most lines are copies of others, or of a few sentences with other values; judged by the first ones.

    Lines with keys repeat in every record, so only a handful of different lines says that nothing else does, or
    sentences: `migrating row 7 of orders: ok`, `7: all is well`.
    """
    keyed = kind in ("outline", "yaml")
    lines = [line for line in text[:_REPEATS_WITHIN].split("\n") if line and not line.isspace()]
    if len(lines) < 20:
        return False
    if len(set(lines)) <= (max(3, _COPIED_SHARE * len(lines)) if keyed else _REPEATED_SHARE * len(lines)):
        return True
    first = lines[:400]
    if not keyed and sum(1 for line in first if _COMMIT.match(line)) >= 0.8 * len(first):
        return False
    shapes = Counter(without_values("\n".join(first)).split("\n"))
    if len(shapes) > _REPEATED_SHAPES * len(first):
        return False
    margin = min(len(line) - len(line.lstrip()) for line in first)
    said = sum(times for shape, times in shapes.items() if _is_sentence(shape[margin:], keyed=keyed))
    is_one = (
        len(shapes) == 1
        and kind != "table"
        and (_PLAIN_WORD.search(first[0]) is not None or _is_numbered_field(next(iter(shapes))))
    )  # `7% done`, `step=7 status=ok`
    return is_one or said >= 0.8 * len(first)


def _is_numbered_field(shape: str) -> bool:
    """Whether lines consist of fields and differ in one number only."""
    return shape.count("#") == 1 and _FIELD_WITH_WORD.search(shape) is not None


def _is_sentence(shape: str, *, keyed: bool) -> bool:
    """Whether a line says something with words; with keys, it says more than a key and a word."""
    if not keyed:
        return len(_PLAIN_WORD.findall(shape)) >= 2
    key, _, value = shape.partition(":")
    return not key[:1].isspace() and (
        len(_PLAIN_WORD.findall(key)) >= _SENTENCE_WORDS or len(_PLAIN_WORD.findall(value)) >= 2
    )


def looks_repetitive(sample: Sequence[str]) -> bool:
    """Whether most lines are messages that repeat with other values: a log, even without times and levels."""
    words = [masked(line).split() for line in sample if line.strip()]
    if len(words) < 12:
        return False
    counts = Counter(map(tuple, words))
    patterns = families(list(map(list, counts)))
    shared = Counter(pattern for pattern in patterns if pattern is not None)
    again = 0
    for (key, count), pattern in zip(counts.items(), patterns, strict=True):
        plain_words = sum(1 for word in key if word.isalpha())
        if plain_words >= 2 and (count > 2 or (pattern is not None and shared[pattern] > 2)):
            again += count
    return again >= 0.6 * len(words)


_TAGGED = re.compile(r"[\w.-]{2,20} (?:warn(?:ing)?|error|err!|info|notice|http|verb|timing)\b(?!:)", re.I)
"""A program's name and a level before each message, as package managers write them."""


_ACCESS = re.compile(r"(?:\S+ ){1,4}\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d[ \]]")
"""The common log format of web servers; where all requests look alike, it has as many words in each line as a table."""


def _is_of_requests(sample: Sample) -> bool:
    return sample.share(_ACCESS) >= 0.7


def _is_tagged(sample: Sample) -> bool:
    return sample.share(_TAGGED) >= 0.7


def _is_log(sample: Sample) -> bool:
    return (
        sample.timed + sample.framed > 0.5
        or (sample.leveled > 0.5 and (columns_of(sample) != "table" or sample.time_inside > 0.6))
        or (sample.timed > 0.25 and sample.leveled > 0.25)
    )


def _has_times_inside(sample: Sample) -> bool:
    return sample.has_times_inside and not sample.has_named_values


def _has_frames(sample: Sample) -> bool:
    return sample.framed > 0.2


def _has_hints(sample: Sample) -> bool:
    return sample.leveled + sample.time_inside > 0.5


def _repeats(sample: Sample) -> bool:
    """Whether there is no known level or time, but messages repeat."""
    return (
        sample.fields <= 0.7
        and sample.tight_fields <= 0.7
        and (looks_timed(sample.lines) or looks_repetitive(sample.lines))
    )


READER = Reader(
    "log",
    Signs(
        (0.92, _is_tagged),
        (0.9, _is_of_requests),
        (0.68, _is_log),
        (0.65, _has_times_inside),
        (0.64, _has_frames),
        (0.26, _has_hints),
        (0.2, _repeats),
    ),
    read,
    holds_json=True,
    by_line=True,
)
