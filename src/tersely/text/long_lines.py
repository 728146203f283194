"""The lines of a long text, without a copy of it in pieces.

    lines = LongLines(text)
    lines[41], len(lines)       # as of a list of them

A list of the lines takes two to four times the memory of their text; where they begin takes a tenth of it.
"""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, count, repeat
from operator import add
from typing import overload

_BLOCK = 200_000
"""In characters. So many are split at once."""

_LONG_LINE = 10_000


def each_line(text: str) -> Iterable[str]:
    """Return the lines of a text one after the other; a line end at its end adds no line."""
    return chain.from_iterable(_blocks(text))


def _blocks(text: str) -> Iterator[list[str]]:
    """Yield the lines of a text in lists of some thousands."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK)
        if end < 0:
            end = len(text) - text.endswith("\n")
        yield text[start:end].split("\n")
        start = end + 1


class LongLines(Sequence[str]):
    """The lines of a text, after so many blank ones; a line end at the end of the text adds no line."""

    def __init__(self, text: str, before: int = 0) -> None:
        self._text = text
        self._before = before
        self._ends = array("Q")
        start = 0
        for lines in _blocks(text):
            self._ends.extend(map(add, accumulate(map(len, lines)), count(start)))
            start = self._ends[-1] + 1
        self._latest = (-1, "")
        """The place and the text of the long line that was read last: of a text on one line, each value reads it."""

    def __len__(self) -> int:
        return self._before + len(self._ends)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        at -= self._before
        if at < 0:
            if at < -self._before:
                raise IndexError
            return ""
        start = self._ends[at - 1] + 1 if at else 0
        end = self._ends[at]
        if end - start < _LONG_LINE:
            return self._text[start:end]
        if self._latest[0] != at:
            self._latest = at, self._text[start:end]
        return self._latest[1]

    def __iter__(self) -> Iterator[str]:
        return chain(repeat("", self._before), self.own())

    def own(self) -> Iterable[str]:
        """Return the lines of the text itself."""
        return each_line(self._text)
