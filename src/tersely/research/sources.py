"""Location of quotations and values on a page: the lines that support a fact, or None.

Searches the page itself, not its summary: a fact counts only if the page states it.
Compares the text as a reader sees it: without links, tags and emphasis, case-folded,
with one kind of space and of quotation marks.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape

from tersely.condensing.readers.pages import without_links

_TAG = re.compile(r"<[^<>]{1,2000}>")
_SIGNS = re.compile(r"[*_`#>|~]+")
_SPACE = re.compile(r"\s+")
_QUOTES = str.maketrans("“”„«»‘’‚–—−", '"""""\'\'‚---')
_GAP = re.compile(r"\[…\]|\[\.\.\.\]|…")

NEAR = 3
"""Maximum distance in lines between the parts of one fact: a row under its heading, a sentence across paragraphs."""

SHORTEST_QUOTE = 12


def normalize(text: str) -> str:
    """Normalize a text for comparison."""
    if "](" in text:
        text = without_links(text)
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = unescape(text)
    text = _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).translate(_QUOTES))
    return _SPACE.sub(" ", text).strip().casefold()


@dataclass(frozen=True)
class PageText:
    """A page prepared for repeated searches."""

    text: str

    @cached_property
    def _lines(self) -> list[str]:
        return [normalize(line) for line in self.text.split("\n")]

    @cached_property
    def _joined(self) -> tuple[str, list[int]]:
        """All lines joined, and the offset of each."""
        starts, at = [], 0
        for line in self._lines:
            starts.append(at)
            at += len(line) + 1
        return " ".join(self._lines), starts

    def quoted(self, quote: str) -> tuple[int, int] | None:
        """The lines of a quotation, counted from 1; `…` in the quotation matches any text."""
        pieces = [
            piece for part in _GAP.split(quote) if len(piece := normalize(part).strip(" .,;:\"'")) >= SHORTEST_QUOTE
        ]
        if not pieces:
            return None
        whole, starts = self._joined
        found: list[int] = []
        for piece in pieces:
            at = whole.find(piece)
            if at < 0:
                return None
            found += [bisect_right(starts, at), bisect_right(starts, at + len(piece) - 1)]
        return min(found), max(found)

    def together(self, values: Sequence[str], near: int = NEAR) -> tuple[int, int] | None:
        """The closest lines that contain all of these values, counted from 1; None if they are too far apart."""
        wanted = [value for one in values if (value := normalize(one))]
        if not wanted:
            return None
        places = [[number for number, line in enumerate(self._lines, start=1) if _has(line, value)] for value in wanted]
        if not all(places):
            return None
        best: tuple[int, int] | None = None
        for first in places[0]:
            closest = [min(others, key=lambda number: (abs(number - first), number)) for others in places[1:]]
            low, high = min([first, *closest]), max([first, *closest])
            if high - low <= near and (best is None or high - low < best[1] - best[0]):
                best = (low, high)
        return best

    def contains(self, value: str, lines: tuple[int, int], near: int = NEAR) -> bool:
        """Whether a value is in these lines or close to them."""
        wanted = normalize(value)
        return any(_has(line, wanted) for line in self._lines[max(0, lines[0] - 1 - near) : lines[1] + near])

    def excerpt(self, lines: tuple[int, int], most: int = 400) -> str:
        """The text of the lines, cut to `most` characters."""
        text = "\n".join(self.text.split("\n")[lines[0] - 1 : lines[1]]).strip()
        return text if len(text) <= most else text[:most] + " …"


def _has(line: str, value: str) -> bool:
    """Whether a line contains a value, not inside another word."""
    at = line.find(value)
    while at >= 0:
        before, after = line[at - 1 : at], line[at + len(value) : at + len(value) + 1]
        if not (before.isalnum() and value[0].isalnum()) and not (after.isalnum() and value[-1].isalnum()):
            return True
        at = line.find(value, at + 1)
    return False
