"""The text that a model receives, and the mapping from its positions to lines of the original.

Repetition is folded before the text is divided, so that it is paid for once. Folding works on blocks of lines;
inside a folded block the order of lines is lost, so a part of it can only be cited as "somewhere in this block".
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from tersely.condensing.summarize.fold import HEADER, STRETCH, fold
from tersely.condensing.summarize.fold_json import LEGEND, FoldedJSON, fold_json


@dataclass(frozen=True)
class _Block:
    start: int
    """Offset in the source's text."""

    line: int
    """Its first line there, counted from 1."""

    first: int
    last: int
    """Lines of the original, counted from 1."""

    folded: bool


@dataclass(frozen=True)
class Source:
    text: str
    blocks: tuple[_Block, ...]
    preamble: str = ""
    """Definitions that every part of the text needs: data, like the text."""

    is_json: bool = False

    @property
    def legend(self) -> str:
        """Return the explanation of the folding marks; empty if nothing was folded."""
        if self.is_json:
            return LEGEND
        return HEADER if any(block.folded for block in self.blocks) else ""

    def lines(self, start: int, end: int, line: int) -> tuple[int, int]:
        """Return first and last line of the original for a piece of the text that begins in `line` of it.

        The cost is linear in the piece, so that all pieces together cost one pass through the text.
        """
        opening = self._block(start)
        closing = self._block(max(start, end - 1))
        last_line = line + self.text.count("\n", start, max(start, end - 1))
        first = opening.first if opening.folded else opening.first + line - opening.line
        last = closing.last if closing.folded else closing.first + last_line - closing.line
        return first, last

    def _block(self, offset: int) -> _Block:
        return self.blocks[max(0, bisect_right(self.blocks, offset, key=lambda block: block.start) - 1)]


def whole_source(text: str) -> Source:
    """Return the text as a source without folding."""
    return Source(text, (_Block(0, 1, 1, 1 + text.count("\n"), folded=False),))


def folded_source(text: str) -> Source:
    """Return the text as a source, folded where that saves enough."""
    if folded_json := fold_json(text):
        return _json_source(text, folded_json)
    pieces: list[str] = []
    blocks: list[_Block] = []
    start, line, original = 0, 1, 1
    for block in _blocks(text):
        folded = fold(block)
        shorter = folded != block
        if shorter:
            folded = folded.removeprefix(HEADER).lstrip("\n")
            folded += "\n" if not folded.endswith("\n") else ""
        count = block.count("\n") - block.endswith("\n")
        blocks.append(_Block(start, line, original, original + count, shorter))
        pieces.append(folded)
        start += len(folded)
        line += folded.count("\n")
        original += block.count("\n")
    if not any(block.folded for block in blocks):
        return whole_source(text)
    return Source("".join(pieces), tuple(blocks))


def _json_source(text: str, folded: FoldedJSON) -> Source:
    blocks: list[_Block] = []
    start, original, counted = 0, 1, 0
    for number, (line, begin, end) in enumerate(folded.pieces, start=1):
        original += text.count("\n", counted, begin)
        last = original + text.count("\n", begin, end)
        blocks.append(_Block(start, number, original, last, folded=True))
        start += len(line) + 1
        original, counted = last, end
    return Source("\n".join(line for line, _, _ in folded.pieces), tuple(blocks), folded.preamble, is_json=True)


def _blocks(text: str) -> Iterator[str]:
    """Yield runs of as many lines as one folding section has."""
    lines = text.splitlines(keepends=True)
    for at in range(0, len(lines), STRETCH):
        yield "".join(lines[at : at + STRETCH])
