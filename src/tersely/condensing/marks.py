"""What became of each line of a result: for viewers that show the original beside the condensed text.

    stored = encode_marks(condensed.account)           # small enough for an event; every run, nothing is cut
    decode_marks(stored).lines                         # [Mark(1, 12, "lost"), …], in order
    summary_marks(source, summary, cited)              # the same for the summary of a model, by comparing the texts
    kinds_of(source_lines, runs)                       # what the lines of some runs are: message, count, first line

A model shows no lines, so its summary has no account. A line is `quoted` if the summary repeats its words, `cited` if
the summary gives its number, and otherwise `unused`.
"""

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tersely.condensing.account import Account, Runs, ValuePlaces, bare, runs_of, source_lines
from tersely.condensing.templates import gather, is_coarse, masked_lines

MarkKind = Literal["shown", "partial", "folded", "lost", "quoted", "cited", "unused"]

_LETTERS: dict[str, MarkKind] = {"s": "shown", "p": "partial", "f": "folded", "l": "lost"}
_RUN = re.compile(r"([spfl])(\d+)")
_PLAIN_SIZE = 1_500
"""Longer marks are stored compressed."""

_SHORTEST_LINE = 16
"""Signs that are letters or digits; a shorter line says too little to be recognized in a summary."""
_SHORTEST_QUOTE = 8
_MOST_PLACES = 200
"""Lines with the same quoted words; more than that, and the words are not a quotation of a line."""
_QUOTES = re.compile(r'"([^"\n]{8,400})"|“([^”\n]{8,400})”|`([^`\n]{8,400})`')
_SPAN = r"\d{1,9}(?:\s?[-–]\s?\d{1,9})?(?!\d|[-–:.T]\d)"
"""Not a date or a time: `last line 2026-11-16T08:00`."""
_CITED = re.compile(rf"\b(?:lines?|L)\s?({_SPAN}(?:(?:,\s?|,? and ){_SPAN})*)")
_NUMBERS = re.compile(r"(\d{1,9})(?:\s?[-–]\s?(\d{1,9}))?")
_LONGEST_EXAMPLE = 200
_BEFORE_MESSAGE = re.compile(
    r"(?:\[[^\]]{1,80}\]\s*)*(?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d[.,\w+]*\s+"
    r"(?:(?:INFO|WARN(?:ING)?|ERROR|DEBUG)\b\s*)?(?:\d+ --- (?:\[[^\]]{0,80}\]\s*)*(?:[\w.$]{1,120}\s*:\s)?)?"
)
"""Source, time, thread and class in front of a message; they do not name its kind."""
_MESSAGE_FIELD = re.compile(r'\b(?:message|msg)"?\s*[:=]\s*"([^"]{3,200})')
_MOST_RUNS = 200


@dataclass(frozen=True)
class Mark:
    """What became of the lines from first to last, counted from 1."""

    first: int
    last: int
    kind: MarkKind


@dataclass(frozen=True)
class Marks:
    lines: list[Mark]
    """In order; together every line of the source. Empty if it is not known."""
    values: ValuePlaces = field(default_factory=ValuePlaces)
    """For JSON."""


@dataclass(frozen=True)
class LineKind:
    """Lines that are equal except for numbers and identifiers."""

    example: str
    count: int
    lines: Runs
    """The first runs of them."""


@dataclass(frozen=True)
class ResultAccount:
    """What a viewer shows beside a result."""

    method: Literal["structural", "model", "unknown"]
    lines: list[Mark]
    values: ValuePlaces
    counts: dict[str, int]
    """Lines by what became of them."""
    left_out: list[LineKind]
    folded: list[LineKind]


def account_of_result(
    text: str,
    condensed: str,
    marks: str,
    by_model: bool,
    cited: tuple[tuple[int, int], ...] = (),
    lost: tuple[tuple[int, int], ...] = (),
) -> ResultAccount:
    """Return what became of the lines of a result.

    Args:
        marks: As `encode_marks` wrote them; empty if there are none.
        by_model: Whether a model wrote the condensed text.
        lost: Lines that are left out, for results that were condensed before there were marks.
    """
    found = decode_marks(marks)
    if lost and not found.lines:
        total = len(source_lines(text))
        joined = runs_of(lost)
        found = decode_marks(encode_marks(Account(lost=joined, shown=_others(joined, total), total=total)))
    method: Literal["structural", "model", "unknown"] = "structural" if found.lines else "unknown"
    if by_model and not found.lines:
        method, found = "model", summary_marks(text, condensed, cited)
    counts: dict[str, int] = {}
    for mark in found.lines:
        counts[mark.kind] = counts.get(mark.kind, 0) + mark.last - mark.first + 1
    lines = source_lines(text)

    def kinds(*names: MarkKind) -> list[LineKind]:
        return kinds_of(lines, [(mark.first, mark.last) for mark in found.lines if mark.kind in names])

    return ResultAccount(method, found.lines, found.values, counts, kinds("lost", "unused"), kinds("folded"))


def encode_marks(account: Account) -> str:
    """Return the account in a compact form; empty if there is none."""
    if not account.total:
        return ""
    named = (("s", account.shown), ("p", account.partial), ("f", account.folded), ("l", account.lost))
    runs = sorted((first, last, letter) for letter, found in named for first, last in found)
    stored: dict[str, object] = {"lines": "".join(f"{letter}{last - first + 1}" for first, last, letter in runs)}
    for name in ("lost", "partial", "folded"):
        if places := getattr(account.places, name):
            stored[name] = list(places)
    text = json.dumps(stored, separators=(",", ":"))
    if len(text) <= _PLAIN_SIZE:
        return text
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def decode_marks(stored: str) -> Marks:
    """Return marks that `encode_marks` wrote."""
    if not stored:
        return Marks([])
    text = stored if stored.startswith("{") else zlib.decompress(base64.b64decode(stored)).decode()
    found = json.loads(text)
    marks: list[Mark] = []
    line = 0
    for letter, count in _RUN.findall(found["lines"]):
        marks.append(Mark(line + 1, line + int(count), _LETTERS[letter]))
        line += int(count)
    return Marks(marks, ValuePlaces(*(tuple(found.get(name, ())) for name in ("lost", "partial", "folded"))))


def cited_lines(text: str) -> list[tuple[int, int]]:
    """Return the line numbers that a text names: `lines 5013, 5014 and 7041-7050`, `L12`."""
    found: list[tuple[int, int]] = []
    for match in _CITED.finditer(text):
        for first, last in _NUMBERS.findall(match[1]):
            found.append((int(first), max(int(first), int(last or first))))
    return found


def summary_marks(source: str, summary: str, cited: Iterable[tuple[int, int]] = ()) -> Marks:
    """Return which lines of the source a summary quotes, cites and does not use."""
    lines = source_lines(source)
    kinds: list[MarkKind] = ["unused"] * len(lines)
    for first, last in (*cited_lines(summary), *cited):
        for at in range(max(0, first - 1), min(last, len(lines))):
            kinds[at] = "cited"
    for at in _quoted(lines, summary):
        kinds[at] = "quoted"
    marks: list[Mark] = []
    for number, kind in enumerate(kinds, start=1):
        if marks and marks[-1].kind == kind:
            marks[-1] = Mark(marks[-1].first, number, kind)
        else:
            marks.append(Mark(number, number, kind))
    return Marks(marks)


def _quoted(lines: Sequence[str], summary: str) -> Iterator[int]:
    """Yield the indices of lines whose words are in the summary, or that contain a quotation of it."""
    written = bare(summary)
    quotes = {bare("".join(found)) for found in _QUOTES.findall(summary)}
    places: dict[str, list[int]] = {quote: [] for quote in quotes if len(quote) >= _SHORTEST_QUOTE}
    for at, line in enumerate(lines):
        own = bare(line)
        if len(own) < _SHORTEST_QUOTE:
            continue
        if len(own) >= _SHORTEST_LINE and own in written:
            yield at
        for quote, found in places.items():
            if len(found) <= _MOST_PLACES and quote in own:
                found.append(at)
    for found in places.values():
        if len(found) <= _MOST_PLACES:
            yield from found


def kinds_of(lines: Sequence[str], runs: Iterable[tuple[int, int]], most: int = 12) -> list[LineKind]:
    """Return what the lines of these runs are, the most frequent kind first."""
    numbers = [number for first, last in runs for number in range(first, min(last, len(lines)) + 1)]
    groups = gather(masked_lines("\n".join(lines[number - 1] for number in numbers))) if numbers else {}
    ordered = sorted(groups.items(), key=lambda item: (is_coarse(item[0]), -len(item[1]), item[1][0]))
    named = [(members, lines[numbers[members[0]] - 1]) for key, members in ordered if not is_coarse(key)][:most]
    return [
        LineKind(_message(example), len(members), _runs(numbers[at] for at in members)[:_MOST_RUNS])
        for members, example in named
    ]


def _message(line: str) -> str:
    if found := _MESSAGE_FIELD.search(line):
        return found[1]
    prefix = _BEFORE_MESSAGE.match(line)
    return (line[prefix.end() :] if prefix else line).strip()[:_LONGEST_EXAMPLE]


def _others(runs: Runs, total: int) -> Runs:
    """Return the lines that are in none of the runs."""
    starts = [1, *(last + 1 for _, last in runs)]
    ends = [*(first - 1 for first, _ in runs), total]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first <= last)


def _runs(numbers: Iterable[int]) -> Runs:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)
