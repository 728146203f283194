"""The account of a condensed text: every source line is shown, shown in part, folded or lost, exactly once.

    account = Account.of(lines, units, texts)      # lines of the source; kept units; their texts as shown
    account.lost                                   # [(first, last), …], counted from 1, inclusive

The account is made from the units that were kept, and checked against the text: a line is shown only if all of it is in
the text of a kept unit. Everything that is said about omissions is derived from it: the marks of gaps, `Condensed.lost`
and the notes made of it, `--explain`, the marks in the dashboard.

Punctuation and white space do not decide whether a line is shown: a reader may write `"a": 1,` as `a: 1`.
Knows nothing of kinds and budgets.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import repeat
from operator import gt, not_

from tersely.text.long_lines import LongLines

Runs = tuple[tuple[int, int], ...]

LOST, SHOWN, PARTIAL, FOLDED = range(4)

_SIGNS = re.compile(r"[\W_]+")
_TAGS = re.compile(r"</?[A-Za-z][A-Za-z0-9]*+(?:[\s/][^<>]*+)?>|<![^<>]*+>")
_NO_CONTENT = "{}[](),;" + "".join(filter(str.isspace, map(chr, range(0x3001))))
"""Characters of which the lines of a tree consist that have no content."""
_LONG_LINE = 400
_LONG_TEXT = 500_000
"""In characters. A shorter text is split at once, which is faster."""
_MOST_PIECES = 200
_SHORTEST_ELSEWHERE = 8
"""Characters; shorter lines are too common to be the same statement."""
_EXTRA_LINES = 40
"""A unit whose range is this much longer than its text names an owner's range; only its first line is looked for."""


@dataclass(frozen=True)
class Lost:
    """Something that is in the source but not in the condensed text."""

    what: str
    """A short phrase, e.g. "412 of 420 lines"."""

    lines: tuple[tuple[int, int], ...] = ()
    """Location in the source: first and last line of each run, counted from 1."""

    partial: bool = False
    """Whether these lines are shown in part."""

    def __str__(self) -> str:
        if not self.lines:
            return self.what
        runs = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in self.lines[:3])
        more = ", …" if len(self.lines) > 3 else ""
        plural = len(self.lines) > 1 or self.lines[0][0] != self.lines[0][1]
        return f"{self.what} (line{'s' if plural else ''} {runs}{more})"


def runs_of(lines: Iterable[tuple[int, int]]) -> Runs:
    """Join adjacent line ranges, in order."""
    runs: list[tuple[int, int]] = []
    for first, last in sorted(lines):
        if runs and first <= runs[-1][1] + 1:
            if last > runs[-1][1]:
                runs[-1] = (runs[-1][0], last)
        else:
            runs.append((first, last))
    return tuple(runs)


def source_lines(text: str) -> list[str]:
    """Return the lines of a text; a line end at its end adds no line, and CRLF is one line end."""
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    return lines


def lines_in(text: str) -> Sequence[str]:
    """Return the same lines, without a copy of each if the text is long."""
    return LongLines(text) if len(text) > _LONG_TEXT else source_lines(text)


@dataclass(frozen=True)
class Place:
    """What one kept unit shows of the source."""

    text: str
    """As shown."""
    lines: Runs
    """Source lines whose text it shows, whole or in part."""
    folded: Runs = ()
    """Further source lines that it represents with an exact count."""


@dataclass(frozen=True)
class ValuePlaces:
    """Where the values of a tree are that are not shown as they are.

    A place is a path of positions from the root, counted from 0: `1.12-36,38.0` is the first child of the thirteenth to
    the 37th and of the 39th child of the second child. It stands for everything below it.
    """

    lost: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()
    """Represented by an exact count."""


NO_PLACES = ValuePlaces()


@dataclass(frozen=True)
class Account:
    """Which lines of the source are shown, shown in part, folded and lost.

    The four lists are disjoint, in order, counted from 1, inclusive, and together contain every line.
    """

    shown: Runs = ()
    partial: Runs = ()
    folded: Runs = ()
    lost: Runs = ()
    total: int = 0
    """Number of lines of the source."""
    paths: tuple[str, ...] = ()
    """For trees (JSON, YAML, XML): the paths at which values are lost."""
    values: tuple[int, int] = (0, 0)
    """For trees: how many values are lost, and of how many."""
    places: ValuePlaces = NO_PLACES
    """For JSON of a size that is shown as a tree: which values are not shown."""

    @classmethod
    def whole(cls, text: str) -> "Account":
        """Return the account of a text that is shown unchanged."""
        total = len(lines_in(text))
        return cls(shown=((1, total),) if total else (), total=total)

    def summary(self) -> list[Lost]:
        """Return the omissions in words; empty if nothing was left out."""
        said: list[Lost] = []
        lost = size_of(self.lost)
        if lost:
            said.append(Lost(f"{lost:,} of {self.total:,} line{'s' if self.total > 1 else ''}", self.lost))
        partly = size_of(self.partial)
        hidden, values = self.values
        if hidden and (partly or lost):
            said.append(Lost(f"{hidden:,} of {values:,} values", () if lost else self.partial, partial=True))
        elif partly:
            said.append(Lost(f"parts of {partly:,} {'line' if partly == 1 else 'lines'}", self.partial, partial=True))
        return said


def size_of(runs: Runs) -> int:
    """Return how many lines the runs contain."""
    return sum(last - first + 1 for first, last in runs)


class LineClasses:
    """Classes of all source lines while an account is made."""

    def __init__(
        self, lines: Sequence[str], *, brackets_are_syntax: bool = False, shown_in_sentences: bool = False
    ) -> None:
        # A page shows the text between the tags.
        self.lines = list(map(_without_tags, lines)) if shown_in_sentences else lines
        self.classes = bytearray(len(lines))
        self.bare_lines: dict[int, str] = {}
        self.brackets_are_syntax = brackets_are_syntax
        self.shown_in_sentences = shown_in_sentences
        self.pieces: dict[int, list[str]] = {}
        """Pieces of lines that are shown in several places."""

    def enter(self, place: Place) -> None:
        """Enter what one unit shows and represents."""
        size = len(self.classes)
        for first, last in place.folded:
            for at in range(max(first, 1) - 1, min(last, size)):
                if self.classes[at] == LOST:
                    self.classes[at] = FOLDED
        lines = place.text.count("\n") + 1
        text = ""
        for first, last in place.lines:
            first, last = max(first, 1), min(last, size)
            if last - first + 1 > lines + _EXTRA_LINES:
                last = first
            for at in range(first - 1, last):
                if self.classes[at] == SHOWN:
                    continue
                if self.lines[at].strip() in place.text:
                    self.classes[at] = SHOWN
                    continue
                text = text or bare(place.text)
                own = self._bare_line(at)
                if own and own in text:
                    self.classes[at] = SHOWN
                elif first == last and place.text.strip():
                    self.classes[at] = self._with_piece(at, own, text)
                elif first < last and _shares(self.lines[at], place.text):
                    self.classes[at] = PARTIAL

    def _with_piece(self, at: int, own: str, text: str) -> int:
        """Return the class of a line of which one more piece is shown; shown if its sentences are all of it."""
        if not self.shown_in_sentences:
            return PARTIAL
        pieces = self.pieces.setdefault(at, [])
        pieces.append(text)
        if sum(map(len, pieces)) < len(own) or len(pieces) > _MOST_PIECES:
            return PARTIAL
        return SHOWN if own in "".join(pieces) else PARTIAL

    def _bare_line(self, at: int) -> str:
        """Return a source line without signs; long lines, which many units show a part of, are kept."""
        line = self.lines[at]
        if len(line) < _LONG_LINE:
            return bare(line)
        if at not in self.bare_lines:
            self.bare_lines[at] = bare(line)
        return self.bare_lines[at]

    def close(self) -> bytearray:
        """Give lines without content (blank, or brackets of a tree) the class of the lines around them."""
        classes = self.classes
        # White space first: it is most of what is removed, and the characters are looked up one by one.
        content = map(str.strip, self.lines)
        if self.brackets_are_syntax:
            content = map(str.strip, content, repeat(_NO_CONTENT))
        empty = map(not_, content)
        # Greater than a class is only an empty line that is lost.
        for found in _EMPTY_LINES.finditer(bytes(map(gt, empty, classes))):
            start, end = found.span()
            around = {*classes[max(0, start - 1) : start], *classes[end : end + 1]}
            if around and LOST not in around:
                filled = FOLDED if around == {FOLDED} else SHOWN
                classes[start:end] = bytes([filled]) * (end - start)
        return classes

    def find_elsewhere(self, text: str) -> None:
        """Enter lost lines as shown if another line showed their text, e.g. a title that is repeated as a heading."""
        written = {bare(line) for line in text.split("\n")}
        places: dict[str, list[int]] = {}
        for at, line in enumerate(self.lines):
            if self.classes[at] == LOST and len(own := bare(line)) >= _SHORTEST_ELSEWHERE and own in written:
                places.setdefault(own, []).append(at)
        for found in places.values():
            if len(found) == 1:
                self.classes[found[0]] = SHOWN

    def account(
        self, paths: tuple[str, ...] = (), values: tuple[int, int] = (0, 0), places: ValuePlaces = NO_PLACES
    ) -> Account:
        found = {kind: runs_in(self.classes, kind) for kind in (SHOWN, PARTIAL, FOLDED, LOST)}
        return Account(
            shown=found[SHOWN],
            partial=found[PARTIAL],
            folded=found[FOLDED],
            lost=found[LOST],
            total=len(self.classes),
            paths=paths,
            values=values,
            places=places,
        )


_RUNS = {kind: re.compile(b"%c++" % kind) for kind in (SHOWN, PARTIAL, FOLDED, LOST)}
_EMPTY_LINES = re.compile(b"\1++")


def runs_in(classes: bytearray, kind: int) -> Runs:
    """Return the ranges of lines of one class, counted from 1."""
    return tuple((found.start() + 1, found.end()) for found in _RUNS[kind].finditer(classes))


def _without_tags(line: str) -> str:
    if "<" in line:
        line = _TAGS.sub(" ", line)
    return unescape(line) if "&" in line else line


def bare(text: str) -> str:
    """Return a text without white space and punctuation."""
    if len(text) <= _LONG_TEXT:
        return _SIGNS.sub("", text)
    # Word by word, a long line takes many times its size.
    return "".join(_SIGNS.sub("", text[at : at + _LONG_TEXT]) for at in range(0, len(text), _LONG_TEXT))


def _shares(line: str, text: str) -> bool:
    """Whether a piece of the line is in the text: two words that follow each other."""
    words = line.split()
    step = min(2, len(words))
    flat = " ".join(text.split())
    return any(" ".join(words[at : at + step]) in flat for at in range(len(words) - step + 1))


FoldedLines = Runs | Callable[[], Iterable[tuple[int, int]]]
"""Lines that a unit represents; a function where listing them for every unit would cost too much."""


def folded_runs(folded: FoldedLines) -> Runs:
    return runs_of(folded()) if callable(folded) else folded
