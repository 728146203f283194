"""Logs of any format: templates with counts, and literally the lines that are rare, bad, extreme or asked for.

Lines that differ only in numbers and identifiers are one unit, `line ×412`, shown as
one of them stands in the source. What every line shares or what says nothing (time,
host, process ids, the usual level) is said once in the head. A line that holds what
the focus names exactly (an identifier, an address) competes as itself and is shown
whole: folding must never eat the line somebody asks for. Of the numbers inside a
template the lines with the extremes and the odd values compete too.

The order is that of the source. Stack traces hang on the line they belong to.
JSON lines are read by `json_logs`.
"""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from tersely.condensing import stack
from tersely.condensing.budget import Lost
from tersely.condensing.focus import Focus, Found, lowered, scan
from tersely.condensing.preamble import TIME, Parts, Preamble
from tersely.condensing.templates import VALUE, columns_of, gather, is_coarse
from tersely.condensing.units import Reading, Unit, runs_of, trend_of

_LEVEL_SHARE, _WORDS_SHARE = 0.8, 0.4
"""How much of the severity of a line its level says, and how much its words."""
LONG_LINE = 1_200
"""A longer line is read in pieces of about a third of this, so that one huge line does not hide what is in it."""

_PIECE = 400
_MOST_VARIANTS = 5
_MOST_HITS = 3_000
_MOST_UNITS = 6_000
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MEASURE = re.compile(
    r"\s?(?:ms|sec|second|min|hour|day|byte|[kKMGT]i?B|percent|%)"
    r"|(?:took|time|duration|latency|elapsed|size|len|length|count|usage|used|total|free|memory|mem|cpu|load|rate|temp\w*|bytes|delay|wait|"
    r"average|avg|max|min|retr\w+|attempts?|queue|pending|active)\W{0,4}$",
    re.I,
)
"""Words beside a number that measures something, rather than naming it."""
_OF_THE_LOG = re.compile(
    r"\b(?:in|of|from|through|for)?\s*(?:this|these|the|my|all)\s+(?:logs?|lines?|log\s+(?:file|lines?))\b|\blogs?\s+(?:of|for|from)\b",
    re.I,
)
"""Words of a question that name the text itself; they are not looked for in it."""
_BAD_STATUS = re.compile(r"[45]\d\d")
_GOOD_STATUS = re.compile(r"[23]\d\d")


@dataclass(slots=True)
class _Template:
    """Lines that are equal but for their values."""

    members: list[int]
    """Indices of lines, in order."""
    shown: int
    """The member that stands for all."""
    parts: Parts
    severity: float = 0.0
    relevance: float = 0.0
    score: float = 0.0
    hits: list[int] = field(default_factory=list)
    """Members that hold an identifier of the focus."""
    coarse: bool = False
    also: dict[int, list["_Template"]] = field(default_factory=dict)
    """Templates that differ from this one in a single word, by the place of that word."""
    absorbed: bool = False


def read(text: str, focus: Focus, budget: int) -> Reading | None:
    """The log as units; None where the text has no two lines."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    log = _PlainLines(text)
    if len(log.lines) < 2:
        return None
    return reading_of(log, focus, budget)


def reading_of(log: "Lines", focus: Focus, budget: int) -> Reading:
    """Any lines as units."""
    asked = _OF_THE_LOG.sub(" ", focus.text)
    return _Reader(log, focus if asked == focus.text else Focus.parse(asked), budget).reading()


class Lines:
    """The lines of a log as they are read: literally, without their values, and taken apart. `json_logs` has its own."""

    kind = "log"
    lines: list[str]
    """In full: what the focus is looked for in."""
    keys: list[str]
    """Lines with the same key share a template; a blank one is passed over."""
    total: int
    """How many lines the source has."""

    def number(self, at: int) -> int:
        """Where the line stands in the source, counted from 1."""
        return at + 1

    def parts(self, at: int) -> Parts:
        """As shown when it stands for many, with time and level."""
        raise NotImplementedError

    def single(self, at: int) -> str:
        """As shown when it stands for itself only."""
        return self.parts(at).shown

    def asked(self, at: int, room: int) -> str:
        """As shown when it holds what was asked for: all of it, time and host too, within `room` characters if need be."""
        return " ".join(self.lines[at].split())

    def measured(self, at: int) -> str:
        """The text whose numbers are compared with those of other lines of the template."""
        return self.lines[at]

    def odd(self) -> Iterable[tuple[int, float]]:
        """Further lines that stand out, and how much (0..1)."""
        return ()

    def shared(self) -> list[str]:
        """What all lines share and none is shown with, for the head."""
        return []


class _PlainLines(Lines):
    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self.total = len(lines) - (not lines[-1])
        self.numbers: list[int] | None = None
        if len(text) > LONG_LINE and max(map(len, lines)) > LONG_LINE:
            self.lines, self.numbers = _in_pieces(lines)
            text = "\n".join(self.lines)
        else:
            self.lines = lines
        self.text = text
        self.keys = VALUE.sub("#", text).split("\n")
        self.preamble = Preamble.learn(self.lines)
        self._parts: dict[int, Parts] = {}

    def number(self, at: int) -> int:
        return at + 1 if self.numbers is None else self.numbers[at]

    def parts(self, at: int) -> Parts:
        found = self._parts.get(at)
        if found is None:
            found = self._parts[at] = self.preamble.split(self.lines[at])
        return found

    def shared(self) -> list[str]:
        usual = self.preamble.usual_level
        return [f"{usual} where no level is shown"] if usual else []


def _lines_with(terms: Sequence[str], lines: Sequence[str]) -> Iterator[int]:
    """Which lines have one of the lower-case terms as a whole word, once for each term, `_MOST_HITS` for each at most."""
    low = lowered("\n".join(lines))
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    for term in terms:
        at, found, last = low.find(term), 0, -1
        while at >= 0 and found < _MOST_HITS:
            end = at + len(term)
            whole = not (term[0].isalnum() and at and low[at - 1].isalnum()) and not (
                term[-1].isalnum() and end < len(low) and low[end].isalnum()
            )
            if whole:
                line = bisect_right(starts, at) - 1
                if line != last:
                    yield line
                    last, found = line, found + 1
                end = starts[line + 1] - 1
            at = low.find(term, end)


def _in_pieces(lines: list[str]) -> tuple[list[str], list[int]]:
    pieces: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        if len(line) <= LONG_LINE:
            pieces.append(line)
            numbers.append(number)
            continue
        start = 0
        while len(line) - start > _PIECE:
            cut = max(line.rfind(sign, start + _PIECE // 2, start + _PIECE) for sign in ("\\n", ". ", ", ", "; ", " "))
            cut = cut + 2 if cut > 0 else start + _PIECE
            pieces.append(line[start:cut])
            numbers.append(number)
            start = cut
        pieces.append(line[start:])
        numbers.append(number)
    return pieces, numbers


class _Reader:
    """One reading; the state that its steps share."""

    def __init__(self, log: Lines, focus: Focus, budget: int) -> None:
        self.log = log
        self.focus = focus
        self.budget = budget
        self.room = max(200, int(budget * 1.6))
        """Characters for one line that was asked for: about half of the budget."""
        self.traces = stack.find(log.lines)
        self.templates = self._templates()
        self.bad_is_usual = self._bad_is_usual()
        self.found: Found

    def reading(self) -> Reading:
        literal = self._weigh()
        self._damp_alike()
        ordered = sorted((template for template in self.templates if not template.absorbed), key=lambda each: each.shown)
        extras = [*literal, *self._extremes(ordered)]
        return self._laid_out(ordered, extras)

    # -- what there is

    def _templates(self) -> list[_Template]:
        """Lines by template; times and months gone, so that a new day makes no new template."""
        log, in_trace = self.log, self.traces.inside
        keys = log.keys
        if in_trace:
            keys = ["" if at in in_trace else key for at, key in enumerate(keys)]
        merged: dict[tuple[str, str], _Template] = {}
        for key, members in gather(keys).items():
            parts = log.parts(members[0])
            if is_coarse(key):
                merged[(key, "")] = _Template(members, members[0], parts, coarse=True)
                continue
            if not parts.shown:
                continue
            name = (masked(parts.shown), parts.level)
            template = merged.get(name)
            if template is None:
                merged[name] = _Template(members, members[0], parts)
            else:
                template.members += members
        for template in merged.values():
            if template.members[0] > template.members[-1] or len(template.members) > 1:
                template.members.sort()
        return list(merged.values())

    def _bad_is_usual(self) -> bool:
        """Where most lines are errors by their level, the level tells nothing apart."""
        bad = sum(len(template.members) for template in self.templates if template.parts.weight >= 2)
        return bad > 0.6 * len(self.log.lines)

    # -- what it is worth

    def _weigh(self) -> list[tuple[int, float]]:
        """Give every template its score; return single lines that shall compete as themselves, with theirs."""
        focus, log = self.focus, self.log
        self._take_hits()
        texts = [template.parts.shown if not template.hits else log.lines[template.hits[0]] for template in self.templates]
        own: list[int] = []
        for template in self.templates:
            own += template.hits[1:200] if not template.coarse else template.hits[:400]
        self.found = scan([*texts, *(log.lines[at] for at in own)], focus)
        total = max(2, len(log.lines))
        trouble = 1.0 if focus.trouble or not focus else 0.5
        for template, severity, relevance in zip(self.templates, self.found.severity, self.found.relevance, strict=False):
            weight = template.parts.weight
            if self.bad_is_usual or not template.parts.level:
                template.severity = severity
            else:
                template.severity = max(0.0, _LEVEL_SHARE * weight + _WORDS_SHARE * severity)
            template.relevance = relevance
            rarity = 1 - math.log(len(template.members)) / math.log(total) if len(template.members) > 1 else 1.0
            # Of what is bad, the frequent matters as much as the rare.
            template.score = 0.3 + 0.9 * trouble * template.severity + 2.4 * relevance + 0.35 * (rarity if template.severity < 1.8 else 0.6)
            if self._outside_window(template):
                template.score *= 0.3
        start = len(texts)
        literal: list[tuple[int, float]] = []
        seen: Counter[str] = Counter()
        for at, relevance, severity in zip(own, self.found.relevance[start:], self.found.severity[start:], strict=True):
            kind = log.keys[at]
            # Alike lines with the same identifier: the first ones answer, the others confirm.
            literal.append((at, (0.3 + 0.5 * trouble * severity + 2.4 * relevance) / (1 + 0.25 * seen[kind] + 0.2)))
            seen[kind] += 1
        return literal

    def _take_hits(self) -> None:
        """Find the lines that hold what the focus names with a digit in it: templates alone would not show them."""
        coarse = any(template.coarse for template in self.templates)
        terms = [term.text for term in self.focus.terms if coarse or any(map(str.isdigit, term.text))]
        if not terms:
            return
        strength: Counter[int] = Counter()
        for at in _lines_with(terms, self.log.lines):
            strength[at] += 1
        if not strength:
            return
        for template in self.templates:
            hits = [at for at in template.members if at in strength] if len(strength) else []
            if hits:
                hits.sort(key=lambda at: (-strength[at], at))
                template.hits = hits
                template.shown = hits[0]
                template.parts = self._whole(hits[0])

    def _whole(self, at: int) -> Parts:
        """A line that was asked for is shown as it stands, its time and host too."""
        parts = self.log.parts(at)
        return Parts(self.log.asked(at, self.room), "", parts.level, parts.weight)

    def _outside_window(self, template: _Template) -> bool:
        """Whether no line of the template lies in the asked-for time; else one that does stands for it."""
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

    def _damp_alike(self) -> None:
        """Templates that share most words with a better one are worth less; those that differ in one word are said with it."""
        order = sorted(range(len(self.templates)), key=lambda index: (-self.templates[index].score, self.templates[index].shown))
        leaders: dict[tuple[str, ...], list[tuple[int, list[str], frozenset[str]]]] = {}
        followers: Counter[int] = Counter()
        for index in order[:_MOST_UNITS]:
            template = self.templates[index]
            words = masked(template.parts.shown).split()
            if len(words) < 3:
                continue
            plain = frozenset(words)
            near = leaders.setdefault(tuple(words[:2]), [])
            best, share = -1, 0.6
            for leader, other_words, other in near[:40]:
                overlap = len(plain & other) / len(plain | other)
                if overlap >= share:
                    best, share = leader, overlap
                    if len(other_words) == len(words) and self._said_with(template, self.templates[leader], words, other_words):
                        break
            if template.absorbed:
                continue
            if best >= 0:
                followers[best] += 1
                template.score /= 1 + 0.35 * followers[best]
            else:
                near.append((index, words, plain))

    def _said_with(self, template: _Template, leader: _Template, words: list[str], other: list[str]) -> bool:
        """Fold a template into one that differs in a single word, `(also user=guest ×3)`, when neither is worse or asked for."""
        if len(words) < 5 or template.hits or template.coarse or leader.coarse:
            return False
        different = [place for place, (one, two) in enumerate(zip(words, other, strict=True)) if one != two]
        if len(different) != 1 or template.severity > leader.severity + 0.1 or template.relevance > leader.relevance + 0.02:
            return False
        leader.also.setdefault(different[0], []).append(template)
        template.absorbed = True
        return True

    def _extremes(self, ordered: Sequence[_Template]) -> list[tuple[int, float]]:
        """Lines with the largest and smallest number, an odd value or the end of a trend, with their scores."""
        candidates = [each for each in ordered if len(each.members) > 1 and not each.coarse]
        candidates.sort(key=lambda each: (-each.score, each.shown))
        log = self.log
        contexts: list[str] = []
        rows: list[tuple[_Template, list[float], bool]] = []
        out: list[tuple[int, float]] = [(at, 0.4 + (2.0 if self.focus.unusual else 0.5) * strength) for at, strength in log.odd()]
        for template in candidates[:400]:
            members = template.members
            texts = [log.measured(at) for at in members]
            first = texts[0]
            skip = max(0, len(VALUE.findall(first)) - len(VALUE.findall(log.parts(members[0]).shown)))
            columns = columns_of(texts, skip)
            literals = VALUE.split(first)[skip:]
            for place, column in enumerate(columns):
                if column.distinct < 2:
                    continue
                for value, index in column.rare():
                    bad = _BAD_STATUS.fullmatch(value) and _GOOD_STATUS.fullmatch(column.values[0])
                    out.append((members[index], template.score * 0.5 + (0.9 if self.focus.unusual else 0.3) + (1.2 if bad else 0.0)))
                numbers = column.numbers()
                if numbers is None:
                    continue
                before = literals[place][-30:]
                after = literals[place + 1][:14] if place + 1 < len(literals) else ""
                contexts.append(f"{before} {numbers[1]} {after}")
                measured: object = bool(numbers[1]) or "." in column.values[0] or _MEASURE.search(before) or _MEASURE.match(after)
                rows.append((template, numbers[0], bool(measured)))
        if rows:
            found = scan(contexts, self.focus)
            best = max(found.relevance)
            for (template, series, measured), relevance in zip(rows, found.relevance, strict=True):
                asked = bool(best) and relevance >= 0.6 * best
                if measured or asked:
                    out += self._ends(template, series, asked, bool(best))
        return out

    def _ends(self, template: _Template, numbers: list[float], asked: bool, any_asked: bool) -> Iterator[tuple[int, float]]:
        """The lines of a template with the extremes of one of its numbers."""
        high = max(range(len(numbers)), key=numbers.__getitem__)
        low = min(range(len(numbers)), key=numbers.__getitem__)
        ranked = sorted(numbers)
        middle, upper = ranked[len(ranked) // 2], ranked[int(len(ranked) * 0.95)]
        leaps = len(numbers) > 10 and numbers[high] > 3 * max(abs(middle), 1e-9) and numbers[high] > 1.5 * upper
        moves = trend_of(numbers[:: max(1, len(numbers) // 200)]) in ("rising", "falling")
        base = 0.4 * template.score + 0.4 * asked
        up, down = base + (0.5 if leaps else 0.0), base if asked else 0.4 * base
        if self.focus.superlative and (asked or not any_asked):
            wanted = 2.0 if asked else 0.7
            up, down = (up + wanted, down) if self.focus.superlative > 0 else (up, down + wanted)
        yield template.members[high], up
        yield template.members[low], down
        if moves:
            yield template.members[-1], base + 0.2
        for comparison in self.focus.comparisons:
            beyond = [
                at for at, number in enumerate(numbers) if (number > comparison.amount) == comparison.above and number != comparison.amount
            ]
            if 0 < len(beyond) < len(numbers) or (beyond and asked):
                for rank, at in enumerate(beyond[:20]):
                    yield template.members[at], base + (1.6 if asked else 0.5) / (1 + 0.1 * rank)

    # -- how it is shown

    def _laid_out(self, ordered: Sequence[_Template], extras: Sequence[tuple[int, float]]) -> Reading:
        log = self.log
        single: dict[int, float] = {}
        shown = {template.shown for template in ordered}
        for at, score in extras:
            if at not in shown:
                single[at] = max(score, single.get(at, 0.0))
        asked_for = {at for template in self.templates for at in template.hits}
        entries: list[tuple[int, _Template | None, float]] = [(template.shown, template, template.score) for template in ordered]
        entries += [(at, None, score) for at, score in single.items()]
        if len(entries) > _MOST_UNITS:
            entries = sorted(entries, key=lambda entry: (-entry[2], entry[0]))[:_MOST_UNITS]
        entries.sort(key=lambda entry: entry[0])
        times = self._room_for_times(ordered)
        units: list[Unit] = []
        stands_for: list[_Template | None] = []
        owner_of: dict[int, int] = {}
        for at, template, score in entries:
            if template is None:
                text = log.asked(at, self.room) if at in asked_for else log.single(at)
                units.append(Unit(text, log.number(at), log.number(at), score, count=0))
            else:
                owner_of[at] = len(units)
                text = self._text(template, times)
                units.append(Unit(text, log.number(at), log.number(at), score, count=len(template.members)))
            stands_for.append(template)
            trace = self.traces.after.get(at)
            if trace is not None:
                for text, first, last in stack.shown(log.lines, trace, self.traces):
                    worth = max(0.6, 0.5 * score)
                    units.append(
                        Unit(text, log.number(first), log.number(last), worth, parent=len(units) - 1 if not text else None, count=0)
                    )
                    stands_for.append(None)
        return Reading(log.kind, units, head=self._head(), lost=lambda kept: self._lost(units, stands_for, kept), noun="lines")

    def _text(self, template: _Template, times: float) -> str:
        count = len(template.members)
        text = template.parts.shown if count > 1 or template.hits else self.log.single(template.shown)
        if template.coarse:
            return f"{text} (and {count - 1} lines that begin alike)" if count > 1 else text
        if count > 1:
            text += f" ×{count}"
        if template.also:
            text += f" (also {self._variants(template)})"
        if template.parts.time and template.score >= times:
            first = _clock(template.parts.time)
            last = _clock(self.log.parts(template.members[-1]).time) if count > 1 else first
            text += f" [{first}]" if first == last else f" [{first}–{last}]"
        return text

    def _variants(self, template: _Template) -> str:
        """The words that other templates have in the place of one of this: all where they are few, else their number."""
        said: list[str] = []
        for place, also in template.also.items():
            count = sum(len(other.members) for other in also)
            words = [other.parts.shown.split()[place : place + 1] for other in also]
            if len(also) > _MOST_VARIANTS or any(not word or len(word[0]) > 32 for word in words):
                said.append(f"{len(also)} others ×{count}" if count > 1 else "another")
                continue
            said += [
                f"{word[0]} ×{len(other.members)}" if len(other.members) > 1 else word[0] for word, other in zip(words, also, strict=True)
            ]
        return ", ".join(said)

    def _room_for_times(self, ordered: Sequence[_Template]) -> float:
        """From which score on a template is shown with its first and last time: all that fit while half of the budget is left."""
        left = self.budget * 0.5
        for template in sorted(ordered, key=lambda each: -each.score):
            left -= len(template.parts.shown) / 3.3 + 14
            if left < 0:
                return template.score + 1e-9 if template.score < 1.2 else max(template.score, 1e9)
        return 0.0

    def _head(self) -> str:
        """How many lines, from when to when, of which levels, and what was left out of each."""
        log = self.log
        said = [f"{log.total} lines"]
        times = [time for time in (self._time_near(range(len(log.lines))), self._time_near(range(len(log.lines) - 1, -1, -1))) if time]
        if len(times) == 2:
            said.append(times[0] if times[0] == times[1] else f"{times[0]} – {times[1]}")
        levels: Counter[str] = Counter()
        for template in self.templates:
            if template.parts.level:
                levels[template.parts.level] += len(template.members)
        if len(levels) > 1:
            said.append(" ".join(f"{name} {count}" for name, count in levels.most_common(6)))
        return "; ".join([*said, *log.shared()])

    def _time_near(self, order: range) -> str:
        for at in order[:50]:
            time = self.log.parts(at).time
            if time:
                return time
        return ""

    def _lost(self, units: Sequence[Unit], stands_for: Sequence[_Template | None], kept: set[int]) -> list[Lost]:
        missing = [template for index, template in enumerate(stands_for) if template is not None and index not in kept]
        if not missing:
            return []
        lines = sum(len(template.members) for template in missing)
        places = runs_of((self.log.number(at), self.log.number(at)) for template in missing[:200] for at in template.members[:50])
        return [Lost(f"{lines} of {self.log.total} lines, of {len(missing)} kinds that are not shown", places)]


def masked(text: str) -> str:
    """A message without its values; times first, for the names of days and months differ too."""
    return VALUE.sub("#", TIME.sub("#", text))


def _clock(time: str) -> str:
    """The time of day, to the second: the day stands in the head."""
    found = re.search(r"\d{1,2}:\d\d:\d\d", time)
    return found.group() if found else time
