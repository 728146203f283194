"""The lines of a long text, without a copy of it in pieces.

    lines = LongLines(text)
    lines[41], len(lines)       # as of a list of them

A list of the lines takes two to four times the memory of their text; where they begin takes a tenth of it.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import overload

_BLOCK = 1_000
"""Lines that are cut out at once."""

_LINE_END = re.compile("\n")
_LONG_LINE = 10_000


class LongLines(Sequence[str]):
    """The lines of a text, after so many blank ones; a line end at the end of the text adds no line."""

    def __init__(self, text: str, before: int = 0) -> None:
        self._text = text
        self._before = before
        self._ends = array("Q", (found.start() for found in _LINE_END.finditer(text)))
        if text and not text.endswith("\n"):
            self._ends.append(len(text))
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
        yield from repeat("", self._before)
        yield from self.own()

    def own(self) -> Iterator[str]:
        """Yield the lines of the text itself."""
        ends = self._ends
        start = 0
        for last in range(_BLOCK - 1, len(ends) + _BLOCK - 1, _BLOCK):
            end = ends[min(last, len(ends) - 1)]
            yield from self._text[start:end].split("\n")
            start = end + 1
