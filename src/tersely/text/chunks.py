"""Split text into chunks of limited size: `chunk()`.

Two strategies. *Semantic* follows the structure of the text: an element that fits
into a chunk (a fence, a table, a paragraph, a log line, a JSON record) is not cut,
larger ones are cut at finer boundaries (lines, members, sentences, finally tokens),
adjacent elements are packed up to the size, and each chunk starts with the headings
above it. *Token* cuts at a fixed size with overlap.

Guarantees: no chunk has more tokens than `size`, including repeated headings; every
character of the text is in some chunk; the time is linear in the text. The one
exception is a size smaller than a single character (up to four tokens in rare
scripts): characters are not cut.

Each span of text is tokenized once. Counts of adjacent spans add up exactly at a
seam (see `tokens.is_seam`); a chunk that joins spans elsewhere is counted again as a
whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tersely.errors import InputError
from tersely.text import boundaries
from tersely.text.boundaries import ANYWHERE, Span, TextBlock
from tersely.text.tokens import LONGEST_TOKEN, O200K, Tokenizer, is_seam

STRATEGIES = ("semantic", "token")

_HEADINGS_SHARE = 4
"""Headings repeated at the start of a chunk take at most a quarter of it."""

_GRAINS = 16
"""Short lines and records are counted in groups of up to `size / 16` characters, 1 or 2 % of a chunk."""

# Characters per allowed token. A block is tokenized once: as a whole up to the first figure, because it mostly fits,
# else line by line. A paragraph over the second is never counted as a whole.
_LIKELY_FITTING = 3
_SURELY_LARGE = 6


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text that a model can read on its own."""

    text: str
    """The headings above this part, then the part itself."""
    start: int
    end: int
    """Offsets of the part in the source, without the repeated headings."""
    line: int
    """The first line of the part in the source, from 1."""
    tokens: int
    """Tokens of `.text`, including the repeated headings."""


def chunk(
    text: str, size: int = 8000, overlap: int | None = None, strategy: str = "semantic", *, tokenizer: Tokenizer = O200K
) -> list[Chunk]:
    """Split a text into chunks of at most `size` tokens, in order. Text that is only white space has no chunks.

    `overlap` is the number of tokens two chunks share where text is cut by tokens: always with "token", with
    "semantic" only inside a single sentence or value that does not fit (and then at most half of a chunk). The default
    is 500, or a sixteenth of the size if that is less.

    Raises:
        InputError: Size, overlap or strategy is invalid; the message names it and suggests a valid value.
    """
    if strategy not in STRATEGIES:
        raise InputError(f"strategy is {strategy!r}; choose 'semantic' or 'token'.")
    if overlap is None:
        overlap = max(0, min(500, size // 16))
    if size < 1:
        raise InputError(
            f"size is {size} with an overlap of {overlap}; a chunk needs a size of at least 1 token, e.g. 8000."
        )
    if overlap < 0:
        raise InputError(
            f"overlap is {overlap} at a size of {size}; it must be 0 or more, or text would be lost between chunks."
        )
    if overlap >= size:
        raise InputError(
            f"overlap ({overlap}) must be smaller than size ({size}), or a chunk would not advance past the one before "
            f"it; try overlap={size // 16}."
        )
    if not text or text.isspace():
        return []
    if not tokenizer.exceeds(text, size):
        return [Chunk(text=text, start=0, end=len(text), line=1, tokens=tokenizer.count(text))]
    packer = _Packer(text, size, overlap, tokenizer)
    if strategy == "token":
        packer.cut_by_tokens(0, len(text), overlap=packer.overlap, keep_rest_open=False)
    else:
        packer.pack()
    return packer.chunks


class _Heading(NamedTuple):
    level: int
    title: str


class _Piece(NamedTuple):
    """A span that fits into a chunk and is not cut."""

    start: int
    end: int
    tokens: int
    strength: int
    heading: _Heading | None = None


class _Carried(NamedTuple):
    """Headings repeated at the start of a chunk."""

    text: str
    tokens: int


_NOTHING_CARRIED = _Carried("", 0)


class _Packer:
    """Packs one text into chunks.

    Counts tokens of the encoding; the tokenizer's factor is applied to the size and to the reported counts.
    """

    def __init__(self, text: str, size: int, overlap: int, tokenizer: Tokenizer) -> None:
        self.text = text
        self.size = max(1, tokenizer.room(size))
        self.grain = self.size // _GRAINS
        self.overlap = min(tokenizer.room(overlap), self.size - 1)
        self.tokenizer = tokenizer
        self.raw = tokenizer.unscaled
        self.chunks: list[Chunk] = []
        self.open: list[_Piece] = []
        self.open_tokens = 0
        self.carried = _NOTHING_CARRIED  # at the start of the open chunk
        self.headings: tuple[_Heading, ...] = ()  # above the first open piece
        self._carried_of: dict[tuple[_Heading, ...], _Carried] = {}
        self._line = 1
        self._line_at = 0

    # Packing

    def pack(self) -> None:
        for block in boundaries.blocks(self.text):
            for piece in self._fitting(block):
                if piece.tokens > self.size:
                    self._close_all()
                    self._begin_with(piece)
                    self.cut_by_tokens(
                        piece.start, piece.end, overlap=min(self.overlap, self.size // 2), keep_rest_open=True
                    )
                    if piece.heading:
                        self.headings = _below(self.headings, piece.heading)
                else:
                    self._add(piece)
        self._close_all()

    def _add(self, piece: _Piece) -> None:
        while self.open and self.carried.tokens + self.open_tokens + piece.tokens > self.size:
            self._close(self._best_cut(piece))
        if not self.open:
            self._begin_with(piece)
        self.open.append(piece)
        self.open_tokens += piece.tokens

    def _best_cut(self, following: _Piece) -> int:
        """How many of the open pieces to close: up to the best place to cut in the last third of the chunk.

        The pieces that stay open must fit together with the following one, or they would become a small chunk.
        Headings at the end always move to the next chunk, however little remains in this one.
        """
        best, strength = len(self.open), following.strength
        moved = 0
        only_headings = True
        for index in range(len(self.open) - 1, 0, -1):
            piece = self.open[index]
            moved += piece.tokens
            only_headings = only_headings and piece.heading is not None
            full_enough = 3 * (self.open_tokens - moved) >= 2 * self.size
            if moved + following.tokens > self.size or not (only_headings or full_enough):
                break
            if piece.strength > strength:
                best, strength = index, piece.strength
        return best

    def _close_all(self) -> None:
        while self.open:
            self._close(len(self.open))

    def _close(self, count: int) -> None:
        """Make a chunk of the first `count` open pieces, or of fewer if together they have more tokens than allowed."""
        start = self.open[0].start
        tokens = self.carried.tokens + sum(piece.tokens for piece in self.open[:count])
        seams = all(is_seam(self.text, piece.start) for piece in self.open[1:count])
        if not seams or not self._carried_ends_at_seam(start):
            tokens = self.raw.count(self.carried.text + self.text[start : self.open[count - 1].end])
            drop = 1
            while tokens > self.size:
                if count == 1:
                    self.carried = _NOTHING_CARRIED
                    tokens = self.open[0].tokens
                    break
                count = max(1, count - drop)
                drop *= 2
                tokens = self.raw.count(self.carried.text + self.text[start : self.open[count - 1].end])
        self._emit(start, self.open[count - 1].end, tokens, self.carried)
        for piece in self.open[:count]:
            if piece.heading:
                self.headings = _below(self.headings, piece.heading)
        del self.open[:count]
        self.open_tokens = sum(piece.tokens for piece in self.open)
        if self.open:
            self._begin_with(self.open[0])

    def _begin_with(self, piece: _Piece) -> None:
        """Choose the headings for the next chunk: all above its first piece, or fewer if the piece needs the room."""
        headings = self.headings
        if piece.heading:
            headings = tuple(heading for heading in headings if heading.level < piece.heading.level)
        self.carried = self._carry(headings)
        if piece.tokens > self.size:
            return  # It will be cut to the remaining size.
        while headings and self.carried.tokens + piece.tokens > self.size:
            headings = headings[1:]
            self.carried = self._carry(headings)

    def _carry(self, headings: tuple[_Heading, ...]) -> _Carried:
        known = self._carried_of.get(headings)
        if known is None:
            known = self._carried_of[headings] = self._write_out(headings)
        return known

    def _write_out(self, headings: tuple[_Heading, ...]) -> _Carried:
        allowed = self.size // _HEADINGS_SHARE
        while headings:
            written = "".join(f"{'#' * heading.level} {heading.title}\n" for heading in headings) + "\n"
            if not self.raw.exceeds(written, allowed):
                return _Carried(written, self.raw.count(written))
            if len(headings) == 1:
                # The nearest heading alone is too long: use its beginning.
                cut = self.raw.head(written, allowed - 1).rstrip() + "\n\n"
                if cut.strip("# \n") and not self.raw.exceeds(cut, allowed):
                    return _Carried(cut, self.raw.count(cut))
            headings = headings[1:]
        return _NOTHING_CARRIED

    def _carried_ends_at_seam(self, start: int) -> bool:
        return not self.carried.text or is_seam("\n" + self.text[start : start + 80], 1)

    def _emit(self, start: int, end: int, tokens: int, carried: _Carried) -> None:
        self._line += self.text.count("\n", self._line_at, start)
        self._line_at = start
        text = carried.text + self.text[start:end]
        self.chunks.append(
            Chunk(text=text, start=start, end=end, line=self._line, tokens=self.tokenizer.scaled(tokens))
        )

    # From blocks to pieces that fit

    def _fitting(self, block: TextBlock) -> Iterator[_Piece]:
        """The block as one piece if it fits, else as finer pieces. Larger ones are cut by tokens later."""
        heading = _Heading(block.level, block.title) if block.kind == "heading" else None
        length = block.end - block.start
        if length <= _LIKELY_FITTING * self.size:
            tokens = self._tokens_if_fitting(block.start, block.end)
            if tokens is not None:
                yield _Piece(block.start, block.end, tokens, block.strength, heading)
                return
        pieces = self._fitting_lines(block, heading)
        if length <= (_SURELY_LARGE if block.kind == "text" else LONGEST_TOKEN) * self.size:
            # The block may still fit. Its lines are counted anyway, so check their sum.
            in_lines = list(pieces)
            tokens = self._tokens_together(in_lines)
            if tokens <= self.size:
                yield _Piece(block.start, block.end, tokens, block.strength, heading)
                return
            if block.kind in ("fence", "table"):
                body = self._end_of_body(block.start, block.end)
                if tokens - self.size <= block.end - body:
                    fitting = self._tokens_if_fitting(block.start, body)
                    if fitting is not None:
                        yield _Piece(block.start, body, fitting, block.strength)
                        yield from self._fitting_line(Span(body, block.end, ANYWHERE))
                        return
            pieces = iter(in_lines)
        yield from pieces

    def _tokens_together(self, pieces: list[_Piece]) -> int:
        """Tokens of adjacent pieces as one text; some number over the size if they do not fit."""
        total = sum(piece.tokens for piece in pieces)
        if all(is_seam(self.text, piece.start) for piece in pieces[1:]):
            return total
        together = self._tokens_if_fitting(pieces[0].start, pieces[-1].end)
        return max(total, self.size + 1) if together is None else together

    def _fitting_lines(self, block: TextBlock, heading: _Heading | None) -> Iterator[_Piece]:
        for span in boundaries.lines(self.text, block.start, block.end, block.strength, self.grain):
            tokens = self._tokens_if_fitting(span.start, span.end)
            if tokens is not None and not heading:
                yield _Piece(span.start, span.end, tokens, span.strength)
                continue
            for piece in self._fitting_line(span):
                yield piece._replace(heading=heading)
                heading = None

    def _fitting_line(self, line: Span) -> Iterator[_Piece]:
        tokens = self._tokens_if_fitting(line.start, line.end)
        if tokens is not None:
            yield _Piece(line.start, line.end, tokens, line.strength)
            return
        body = self._end_of_body(line.start, line.end)
        if line.start < body < line.end:
            yield from self._fitting_line(Span(line.start, body, line.strength))
            yield from self._fitting_line(Span(body, line.end, ANYWHERE))
            return
        for member in boundaries.json_members(
            self.text, line.start, line.end, line.strength, longest=2 * self.size, grain=self.grain
        ):
            tokens = self._tokens_if_fitting(member.start, member.end)
            if tokens is not None:
                yield _Piece(member.start, member.end, tokens, member.strength)
                continue
            for sentence in boundaries.sentences(self.text, member.start, member.end, member.strength):
                tokens = self._tokens_if_fitting(sentence.start, sentence.end)
                yield _Piece(
                    sentence.start, sentence.end, self.size + 1 if tokens is None else tokens, sentence.strength
                )

    def _tokens_if_fitting(self, start: int, end: int) -> int | None:
        if end - start > LONGEST_TOKEN * self.size:
            return None
        if end - start > _SURELY_LARGE * self.size and self.raw.exceeds(self.text[start:end], self.size):
            return None
        tokens = self.raw.count(self.text[start:end])
        return tokens if tokens <= self.size else None

    def _end_of_body(self, start: int, end: int) -> int:
        """The position where trailing white space begins."""
        return start + len(self.text[start:end].rstrip())

    # Cutting by tokens

    def cut_by_tokens(self, start: int, end: int, *, overlap: int, keep_rest_open: bool) -> None:
        """Emit chunks of as many tokens as fit; the last, smaller one may be kept open for the pieces that follow."""
        room = self.size - self.carried.tokens
        reached = start
        while True:
            stop = self.raw.end_within(self.text, start, end, room)
            if stop <= reached:
                # The overlap leaves no room to advance (or one character is larger than a chunk).
                start = reached
                stop = max(self.raw.end_within(self.text, start, end, room), start + 1)
            if stop >= end and keep_rest_open:
                break
            self._emit_cut(start, stop)
            if stop >= end:
                return
            reached = stop
            start = max(start + 1, self.raw.start_within(self.text, start, stop, overlap)) if overlap else stop
        rest = _Piece(start, end, self.raw.count(self.text[start:end]), ANYWHERE)
        self.open, self.open_tokens = [rest], rest.tokens

    def _emit_cut(self, start: int, stop: int) -> None:
        carried = self.carried
        tokens = self.raw.count(carried.text + self.text[start:stop])
        if tokens > self.size:
            # Rarely, the headings change how the first word is tokenized.
            carried = _NOTHING_CARRIED
            tokens = self.raw.count(self.text[start:stop])
        self._emit(start, stop, tokens, carried)


def _below(headings: tuple[_Heading, ...], new: _Heading) -> tuple[_Heading, ...]:
    """The heading path after a new heading, which replaces headings of its level and below."""
    return (*(heading for heading in headings if heading.level < new.level), new)
