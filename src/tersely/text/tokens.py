"""Count tokens: exact, offline, and safe for any text.

The vocabularies of o200k_base and cl100k_base are part of the wheel, so nothing is
downloaded; a file holds the tokens in the order of their ids, because building the table
from OpenAI's own format takes twice as long. Text is passed to tiktoken in pieces: a long run of one character can
take it tens of seconds or make it panic. Pieces bound the work per call and let
"more than N?" stop early. They are cut only at seams, positions where both encodings
always start a new token, so the sum is the exact count; only a run of 64 kB without
a seam is cut elsewhere.

Pure functions, no event loop: call them in a thread if the text is large.
"""

import math
import os
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from typing import Literal

import tiktoken

from tersely.cpu.memory import release_memory
from tersely.text.digits import with_equal_digits

EncodingName = Literal["o200k_base", "cl100k_base"]

UNKNOWN_MODEL_FACTOR = 1.25
"""Models with other tokenizers count up to a quarter more tokens than o200k_base on ordinary text."""

LONGEST_TOKEN = 128
"""The longest token of both vocabularies in characters: N tokens never cover more than 128 × N characters."""

_USUAL_CHARACTERS = 5
"""Of a token. Twice as many per token of a limit are looked at to see by words alone that a text is over it."""

_PIECE = 16_384
_LONGEST_PIECE = 4 * _PIECE

# In both pre-tokenizers white space can begin a piece, and never continues a piece of other characters. A run of white
# space with line breaks ends at its last break, so a line begins a piece too, unless it begins with a slash (o200k_base
# joins it to preceding punctuation and breaks). Python's \s is a superset of theirs: seams are missed, never invented.
_SEAM = re.compile(
    r"(?<=\S)[ \t]|(?<=[A-Za-z0-9])[\r\n]|(?<=\n)(?=[^\s/]|[ \t]{1,64}\S)"
    r"|(?<=[A-Za-z0-9]\n)(?=/)|(?<=[ぁ-ゖァ-ヺ一-鿿])[、。]"
)
_REPEATS_FROM = 100_000
_WINDOW = 4_000_000
"""In characters. Lines that repeat are counted once in each window of a text of at least that many."""
_MOST_DIFFERENT = 0.8
"""Share of the beginning in different lines; where more of it differs, finding the others costs more than it saves."""
_SAMPLED_WORDS = 30_000
_MOST_DIFFERENT_WORDS = 0.4
"""The same for words, in so many characters; finding words takes longer than finding lines."""
_WORD = re.compile(r"(?<![ \t\n])[ \t\n]*+[^ \t\n]++(?:(?<![A-Za-z0-9])\n[ \t\n]*+[^ \t\n]++)*+")
"""A word with the white space before it. It begins at a seam, so one with a line break in front of it that is no seam
belongs to the word above.
"""
_OTHER_SPACE = re.compile(r"[^\S \t\n]")
_OTHER_ASCII_SPACE = "\r\v\f\x1c\x1d\x1e\x1f"
_SEAM_DISTANCE = 64
_LONGEST_INDENT = 64

_PATTERNS: dict[EncodingName, str] = {
    "o200k_base": "|".join(
        [
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        ]
    ),
    "cl100k_base": "|".join(
        [
            r"'(?i:[sdmt]|ll|ve|re)",
            r"[^\r\n\p{L}\p{N}]?+\p{L}++",
            r"\p{N}{1,3}+",
            r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
            r"\s++$",
            r"\s*[\r\n]",
            r"\s+(?!\S)",
            r"\s",
        ]
    ),
}

_CL100K_MODEL = re.compile(r"(?:ft:)?(?:gpt-4(?:$|-(?!o))|gpt-3\.?5|davinci-002|babbage-002|text-embedding-)")
_O200K_MODEL = re.compile(r"(?:ft:)?(?:gpt-4o|gpt-4\.|gpt-5|gpt-oss|chatgpt|o[1-9](?:$|-))")


_encodings: dict[EncodingName, tiktoken.Encoding] = {}
"""With the whole vocabulary."""
_common_encodings: dict[EncodingName, tiktoken.Encoding] = {}
"""With the tokens that texts without rare characters can contain: two thirds of them."""
_building = threading.Lock()

_BETWEEN_TOKENS = b"\xff\xfe"
"""Occurs in no token."""
_BETWEEN_PARTS = _BETWEEN_TOKENS * 2
"""A vocabulary's file has its common tokens, its rare ones, and for each rank a byte: 1 if its token is common."""
_RARE = re.compile("[^\x00-\xff\u2000-\u2fff]")
"""Neither Latin-1 nor among the punctuation, arrows, lines and symbols that programs write.

Common tokens have only the bytes of the others: a token of a text is a part of it, so it has no other bytes either.
"""


def _encoding(name: EncodingName, text: str | None = None) -> tiktoken.Encoding:
    """The encoding, built on first use and only once, even with concurrent threads.

    For a `text` without rare characters, one with a smaller vocabulary may be returned that encodes it alike.
    """
    found = _encodings.get(name)
    if found is not None:
        return found
    common = text is not None and (text.isascii() or not _RARE.search(text))
    kept = _common_encodings if common else _encodings
    found = kept.get(name)
    if found is None:
        with _building:
            found = kept.get(name)
            if found is None:
                found = kept[name] = _built(name, common=common)
                if not common:
                    _common_encodings.pop(name, None)
                release_memory()
    return found


def _built(name: EncodingName, *, common: bool) -> tiktoken.Encoding:
    ranks = _ranks(name, common=common)
    # No special tokens: text that contains the name of one is ordinary text.
    built = tiktoken.Encoding(name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
    # The encoding keeps the table only to be pickled and listed; its own copy is what encodes.
    ranks.clear()
    return built


def _ranks(name: EncodingName, *, common: bool) -> dict[bytes, int]:
    # Without a loop in Python: there are 200,000 tokens, and a short process waits for them.
    path = os.path.join(os.path.dirname(__file__), "vocabulary", f"{name}.tokens")  # noqa: PTH118, PTH120
    with open(path, "rb") as file:  # noqa: PTH123
        content = file.read()
    usual, rare, is_common = content.split(_BETWEEN_PARTS)
    ranks = dict(zip(usual.split(_BETWEEN_TOKENS), compress(range(len(is_common)), is_common), strict=True))
    if not common:
        is_rare = is_common.translate(b"\1\0" + bytes(254))
        ranks.update(zip(rare.split(_BETWEEN_TOKENS), compress(range(len(is_rare)), is_rare), strict=True))
    return ranks


def is_seam(text: str, position: int) -> bool:
    """Whether token counts add up here: the tokens before this position plus those after it are those of the text.

    True holds for both encodings; False only means that the sum is unknown without counting.
    """
    return position <= 0 or position >= len(text) or _SEAM.match(text, position) is not None


def _next_cut(text: str, start: int, end: int, length: int, longest: int) -> tuple[int, bool]:
    """The next position after `length` characters to cut at, and whether the cut is forced because there is no seam."""
    if end - start <= length:
        return end, False
    seam = _SEAM.search(text, start + length, min(start + longest, end))
    if seam:
        return seam.start(), False
    return (end, False) if end - start <= longest else (start + longest, True)


def _pieces(text: str, length: int = _PIECE) -> Iterator[str]:
    """Consecutive pieces that can be tokenized separately."""
    start = 0
    while start < len(text):
        stop, _ = _next_cut(text, start, len(text), length, length + _LONGEST_PIECE - _PIECE)
        yield text[start:stop]
        start = stop


def _whole_characters(text: str, floor: int, position: int) -> int:
    """The nearest position at or before `position` that is not inside a grapheme cluster.

    Approximate, for speed: CRLF, surrogate pairs, combining marks, joiners, variation selectors, skin tones.
    """
    for candidate in range(position, max(floor, position - 16), -1):
        before, after = text[candidate - 1 : candidate], text[candidate : candidate + 1]
        inside = (
            (before == "\r" and after == "\n")
            or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
            or before == "\u200d"
            or after == "\u200d"
            or "\U0001f3fb" <= after <= "\U0001f3ff"
            or (after > "\u02ff" and unicodedata.category(after) in ("Mn", "Mc", "Me"))
        )
        if not inside:
            return candidate
    return position


_LETTERS_ONLY = bytes(code if chr(code).isalpha() and code < 128 else 32 for code in range(256))
_DIGITS_ONLY = bytes(code if chr(code).isdigit() and code < 128 else 32 for code in range(256))
"""Tables that replace everything else by blanks."""


@dataclass(frozen=True)
class Tokenizer:
    """Counts tokens as a model does, or slightly more if its vocabulary is not public."""

    name: EncodingName
    factor: float = 1.0

    @property
    def unscaled(self) -> "Tokenizer":
        return self if self.factor == 1.0 else replace(self, factor=1.0)

    def room(self, limit: int) -> int:
        """The number of tokens of the encoding that correspond to `limit` tokens with `factor`."""
        return limit if self.factor == 1.0 else math.floor(limit / self.factor)

    def scaled(self, found: int) -> int:
        """The count with `factor` for `found` tokens of the encoding."""
        return found if self.factor == 1.0 else math.ceil(found * self.factor)

    def encode(self, text: str) -> list[int]:
        """The token ids of the encoding; `factor` does not apply."""
        encoding = _encoding(self.name, text)
        return [token for piece in _pieces(text) for token in encoding.encode_ordinary(piece)]

    def count(self, text: str) -> int:
        if len(text) <= _PIECE:
            return self.scaled(len(_encoding(self.name, text).encode_ordinary(text)))
        if len(text) <= _REPEATS_FROM:
            return self.scaled(sum(self._counts(text)))
        return self.scaled(self._count_of_lines(text))

    def _count_of_lines(self, text: str) -> int:
        """The token count of a long text, without `factor`; lines that differ in nothing but digits are counted once.

        Both vocabularies have every group of one to three digits as a token, and digits are in no other.
        """
        total = 0
        often: Counter[str] = Counter()
        for window in map(with_equal_digits, _pieces(text, _WINDOW)):
            begin = window[:_REPEATS_FROM]
            if sum(map(len, set(begin.split("\n")))) > _MOST_DIFFERENT * len(begin):
                total += self._count_of_words(window)
                continue
            *lines, last = _line_pieces(window)
            often.update(lines)
            total += sum(self._counts(last))
            if sum(map(len, often)) > _WINDOW:
                total += self._count_of_repeated(often)
                often.clear()
        return total + self._count_of_repeated(often)

    def _count_of_repeated(self, often: Counter[str]) -> int:
        """The token count of lines that occur so often, each with its line end."""
        as_often: dict[int, list[str]] = {}
        for line, times in often.items():
            as_often.setdefault(times, []).append(line)
        return sum(times * self._count_of_words("\n".join([*lines, ""])) for times, lines in as_often.items())

    def _count_of_words(self, text: str) -> int:
        """The token count of a text, without `factor`; words that repeat are counted once."""
        begin = text[:_SAMPLED_WORDS]
        if (
            len(text) < _SAMPLED_WORDS
            or sum(map(len, set(_WORD.findall(begin)))) > _MOST_DIFFERENT_WORDS * len(begin)
            or _has_other_space(text)
        ):
            return sum(self._counts(text))
        words = _WORD.findall(text)
        if len(words) < 2:
            return sum(self._counts(text))
        first, last = words[0], words.pop() + text[len(text.rstrip(" \t\n")) :]
        often = Counter(words)
        often[first] -= 1
        if max(len(last), *map(len, often)) > _PIECE:
            return sum(self._counts(text))  # Such a word may have to be cut where there is no seam.
        total = sum(self._counts(first)) + sum(self._counts(last))
        as_often: dict[int, list[str]] = {}
        for word, times in often.items():
            as_often.setdefault(times, []).append(word)
        for times, alike in as_often.items():
            # Before a line break, a letter makes the seam; it is one token.
            broken = [f" a{word}" for word in alike if word[0] == "\n"]
            others = [word for word in alike if word[0] != "\n"]
            total += times * (sum(self._counts("".join(broken + others))) - len(broken))
        return total

    def at_least(self, text: str) -> int:
        """A lower bound of the count, many times faster: words and groups of digits never share a token."""
        if not text.isascii():
            return 0
        raw = text.encode()
        words = len(raw.translate(_LETTERS_ONLY, b"'").split())
        return self.scaled(words + sum([(len(run) + 2) // 3 for run in raw.translate(_DIGITS_ONLY).split()]))

    def _counts(self, text: str) -> Iterator[int]:
        """The token count of each piece. Equal consecutive pieces, the slowest to count, are counted once."""
        last, found = "", 0
        for piece in _pieces(text):
            if piece != last:
                last, found = piece, len(_encoding(self.name, piece).encode_ordinary(piece))
            yield found

    def exceeds(self, text: str, limit: int) -> bool:
        """Whether the text has more than `limit` tokens. The time is proportional to the limit, not to the text."""
        if len(text) * 4 * self.factor <= limit:
            return False  # A token has at least one byte, a character at most four.
        if limit <= 0 or len(text) > LONGEST_TOKEN * limit:
            return bool(text) or limit < 0
        if self.at_least(text[: 2 * _USUAL_CHARACTERS * limit]) > limit:
            return True
        found = 0
        for tokens in self._counts(text):
            found += tokens
            if self.scaled(found) > limit:
                return True
        return False

    def head(self, text: str, limit: int) -> str:
        """The beginning of the text within `limit` tokens; it ends with a whole word if a word boundary is near."""
        return text[: self.end_within(text, 0, len(text), limit)]

    def tail(self, text: str, limit: int) -> str:
        """The end of the text within `limit` tokens; it starts with a whole word if a word boundary is near."""
        return text[self.start_within(text, 0, len(text), limit) :]

    def end_within(self, text: str, start: int, end: int, limit: int) -> int:
        """The largest position up to `end` such that `text[start:position]` has at most `limit` tokens.

        The time is proportional to the limit.
        """
        room = self.room(limit)
        if room <= 0:
            return start
        begin, left, exact = start, room, True
        characters_per_token = 2.0
        while begin < end:
            # Read no more than the limit requires: a short head of a long text is cheap.
            length = min(_PIECE, int(left * characters_per_token) + 32)
            stop, forced = _next_cut(text, begin, end, length, 2 * length)
            piece = text[begin:stop]
            encoding = _encoding(self.name, piece)
            ids = encoding.encode_ordinary(piece)
            if len(ids) > left:
                # Bytes, because a token may end inside a character; that character is left out.
                cut = begin + len(encoding.decode_bytes(ids[:left]).decode("utf-8", "ignore"))
                return self._settled_end(text, start, cut, room, exact)
            begin, left, exact = stop, left - len(ids), exact and not forced
            characters_per_token = (begin - start) / (room - left)
        return (
            end
            if exact or self._is_within(text, start, end, room)
            else self._settled_end(text, start, end - 1, room, exact)
        )

    def start_within(self, text: str, start: int, end: int, limit: int) -> int:
        """The smallest position from `start` such that `text[position:end]` has at most `limit` tokens.

        The time is proportional to the limit.
        """
        room = self.room(limit)
        if room <= 0:
            return end
        reach = 5 * room + 64
        while True:
            begin = max(start, end - reach)
            ids = self.encode(text[begin:end])
            if len(ids) > room or begin == start:
                break
            reach *= 3
        exact = end - begin <= _LONGEST_PIECE
        if len(ids) <= room and (exact or self._is_within(text, start, end, room)):
            return start
        encoding = _encoding(self.name, text[begin:end])
        cut = end - len(encoding.decode_bytes(ids[-room:]).decode("utf-8", "ignore"))
        return self._settled_start(text, max(cut, begin), end, room, exact)

    def _is_within(self, text: str, start: int, end: int, room: int) -> bool:
        return not self.unscaled.exceeds(text[start:end], room)

    def _settled_end(self, text: str, start: int, cut: int, room: int, exact: bool) -> int:
        """Move a cut between two tokens back to one that keeps words whole and stays within the limit.

        `exact`: the tokens up to here were counted without a forced cut, so a second count is not needed.
        """
        for seam in range(cut, max(start, cut - _SEAM_DISTANCE, cut - (cut - start) // 4 - 1), -1):
            if is_seam(text, seam):
                if exact or self._is_within(text, start, seam, room):
                    return seam
                break
        # A cut inside a word can change how its beginning is tokenized: move back in growing steps until the count is
        # within the limit.
        step = 1
        while cut > start:
            whole = _whole_characters(text, start, cut)
            if self._is_within(text, start, whole, room):
                return whole
            cut = max(start, whole - step)
            step *= 2
        return start

    def _settled_start(self, text: str, cut: int, end: int, room: int, exact: bool) -> int:
        """Move a cut between two tokens forward to one that keeps words whole and stays within the limit."""
        for seam in range(cut, min(end, cut + _SEAM_DISTANCE, cut + (end - cut) // 4 + 1)):
            if is_seam(text, seam):
                if exact or self._is_within(text, seam, end, room):
                    return seam
                break
        step = 1
        while cut < end:
            if self._is_within(text, cut, end, room):
                return cut
            cut += step
            step *= 2
        return end


O200K = Tokenizer("o200k_base")


@dataclass(frozen=True)
class LineTokenizer(Tokenizer):
    """A tokenizer for texts that share lines, such as drafts of one text: it counts each line once.

    It keeps the lines, so it should not outlive the work on one text.
    """

    _counts_of_lines: dict[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Tokens by line, of the encoding; the line end belongs to the line."""

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "LineTokenizer":
        return cls(tokenizer.name, tokenizer.factor)

    def count(self, text: str) -> int:
        if text.find("\n", 0, -1) < 0:
            return self.scaled(self._count_of(text))
        total = begin = at = 0
        for line in text.split("\n"):
            if at and _begins_piece(line):
                total += self._count_of(text[begin:at])
                begin = at
            at += len(line) + 1
        return self.scaled(total + self._count_of(text[begin:]))

    def _count_of(self, piece: str) -> int:
        found = self._counts_of_lines.get(piece)
        if found is None:
            if len(piece) <= _PIECE:
                found = len(_encoding(self.name, piece).encode_ordinary(piece))
            else:
                found = Tokenizer(self.name).count(piece)
            self._counts_of_lines[piece] = found
        return found


def _has_other_space(text: str) -> bool:
    """Whether a text has white space that is neither a blank nor a tab nor a line break."""
    if text.isascii():
        return any(map(text.__contains__, _OTHER_ASCII_SPACE))
    return _OTHER_SPACE.search(text) is not None


def _line_pieces(text: str) -> list[str]:
    """The lines of a text; one that does not begin a piece is joined to the line above it."""
    lines = text.split("\n")
    joined = {line for line in dict.fromkeys(lines) if not _begins_piece(line)}
    if not joined:
        return lines
    starts = [at for at, line in enumerate(lines) if not at or line not in joined]
    return [
        lines[start] if start + 1 == end else "\n".join(lines[start:end])
        for start, end in pairwise([*starts, len(lines)])
    ]


def _begins_piece(line: str) -> bool:
    """Whether the beginning of a line, not the first one, is a seam."""
    first = line[:1]
    if first in (" ", "\t"):
        bare = line.lstrip(" \t")
        return len(line) - len(bare) <= _LONGEST_INDENT and not (bare[:1] or " ").isspace()
    return first not in ("", "/") and not first.isspace()


def tokenizer_for(model: str | None) -> Tokenizer:
    """The tokenizer of a model; names may include a provider (`openai/gpt-4o-mini`) and a variant (`:free`).

    A model with another vocabulary counts with o200k_base, multiplied by `UNKNOWN_MODEL_FACTOR`.
    """
    if not model:
        return O200K
    name = model.rsplit("/", 1)[-1].lower()
    if _CL100K_MODEL.match(name):
        return Tokenizer("cl100k_base")
    if _O200K_MODEL.match(name):
        return O200K
    return Tokenizer("o200k_base", UNKNOWN_MODEL_FACTOR)


def count_tokens(text: str, model: str | None = None) -> int:
    """Count the tokens of a text in o200k_base, or as the named model counts."""
    return tokenizer_for(model).count(text)
