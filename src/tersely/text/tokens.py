"""How many tokens a text has: exact, offline, and safe for any text.

The vocabularies of o200k_base and cl100k_base lie in our wheel, so nothing is
downloaded. Text is fed to tiktoken in pieces: a long run of one character can
take it tens of seconds or panic it, pieces keep the work per call bounded and
let "more than N?" stop early. Pieces are cut only at seams, places where both
encodings always start a new token, so the sum is the exact count; only a run of
64 kB without a seam is cut by force.

Pure functions, no event loop: call them in a thread when the text is large.
"""

import base64
import gzip
import math
import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Literal

import tiktoken

EncodingName = Literal["o200k_base", "cl100k_base"]

UNKNOWN_MODEL_FACTOR = 1.25
"""Models with a tokenizer of their own count up to a quarter more tokens than o200k_base on ordinary text."""

LONGEST_TOKEN = 128
"""No token of either vocabulary has more characters, so N tokens never cover more than 128 × N."""

_PIECE = 16_384
_LONGEST_PIECE = 4 * _PIECE

# Both pre-tokenizers let white space begin a piece and never continue one that is not white space itself; a run of
# white space with line breaks ends at its last break, so a line begins a piece too, unless it begins with a slash
# (o200k_base glues it to the punctuation and breaks before). Python's \s is a superset of theirs: seams are missed,
# never made up.
_SEAM = re.compile(
    r"(?<=\S)[ \t]|(?<=[A-Za-z0-9])[\r\n]|(?<=\n)(?=[^\s/]|[ \t]{1,64}\S)"
    r"|(?<=[A-Za-z0-9]\n)(?=/)|(?<=[ぁ-ゖァ-ヺ一-鿿])[、。]"
)
_LOOK_AROUND = 64

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
_building = threading.Lock()


def _encoding(name: EncodingName) -> tiktoken.Encoding:
    """Built at first use (0.3 s), once, however many threads ask at the same time."""
    found = _encodings.get(name)
    if found is not None:
        return found
    with _building:
        if name not in _encodings:
            packed = files("tersely.text").joinpath("vocabulary", f"{name}.tiktoken.gz").read_bytes()
            ranks = {}
            for line in gzip.decompress(packed).splitlines():
                token, rank = line.split()
                ranks[base64.b64decode(token)] = int(rank)
            # No special tokens: text that spells one out is ordinary text to us.
            _encodings[name] = tiktoken.Encoding(
                name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={}
            )
        return _encodings[name]


def is_seam(text: str, position: int) -> bool:
    """Whether counts add up here: the tokens of the text are those before this place plus those after it.

    True is a promise for both encodings; False only means that nobody knows without counting.
    """
    return position <= 0 or position >= len(text) or _SEAM.match(text, position) is not None


def _next_cut(text: str, start: int, end: int, length: int, longest: int) -> tuple[int, bool]:
    """The next place after `length` characters to cut at, and whether it had to be forced for want of a seam."""
    if end - start <= length:
        return end, False
    seam = _SEAM.search(text, start + length, min(start + longest, end))
    if seam:
        return seam.start(), False
    return (end, False) if end - start <= longest else (start + longest, True)


def _pieces(text: str) -> Iterator[str]:
    """Consecutive pieces that can be tokenized one by one."""
    start = 0
    while start < len(text):
        stop, _ = _next_cut(text, start, len(text), _PIECE, _LONGEST_PIECE)
        yield text[start:stop]
        start = stop


def _whole_characters(text: str, floor: int, position: int) -> int:
    """The nearest place at or before `position` that is not inside what a reader sees as one character.

    Cheap rather than complete: CRLF, surrogate pairs, combining marks, joiners, variation selectors, skin tones.
    """
    for place in range(position, max(floor, position - 16), -1):
        before, after = text[place - 1 : place], text[place : place + 1]
        inside = (
            (before == "\r" and after == "\n")
            or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
            or before == "\u200d"
            or after == "\u200d"
            or "\U0001f3fb" <= after <= "\U0001f3ff"
            or (after > "\u02ff" and unicodedata.category(after) in ("Mn", "Mc", "Me"))
        )
        if not inside:
            return place
    return position


@dataclass(frozen=True)
class Tokenizer:
    """Counts as one model does, or a little more than it where its own vocabulary is not public."""

    name: EncodingName
    factor: float = 1.0

    @property
    def unscaled(self) -> "Tokenizer":
        return self if self.factor == 1.0 else replace(self, factor=1.0)

    def room(self, limit: int) -> int:
        """How many tokens of the encoding itself fit within `limit` of ours."""
        return limit if self.factor == 1.0 else math.floor(limit / self.factor)

    def scaled(self, found: int) -> int:
        """What `found` tokens of the encoding itself count as."""
        return found if self.factor == 1.0 else math.ceil(found * self.factor)

    def encode(self, text: str) -> list[int]:
        """The ids of the encoding itself; `factor` does not apply."""
        encoding = _encoding(self.name)
        return [token for piece in _pieces(text) for token in encoding.encode_ordinary(piece)]

    def count(self, text: str) -> int:
        if len(text) <= _PIECE:
            return self.scaled(len(_encoding(self.name).encode_ordinary(text)))
        return self.scaled(sum(self._counts(text)))

    def _counts(self, text: str) -> Iterator[int]:
        """The tokens of one piece after the other. Of a run of the same, which is slowest to count, one piece is
        counted.
        """
        encoding = _encoding(self.name)
        last, found = "", 0
        for piece in _pieces(text):
            if piece != last:
                last, found = piece, len(encoding.encode_ordinary(piece))
            yield found

    def exceeds(self, text: str, limit: int) -> bool:
        """Whether the text has more than `limit` tokens; costs in proportion to the limit, not to the text."""
        if len(text) * 4 * self.factor <= limit:
            return False  # A token has at least one byte, a character at most four.
        if limit <= 0 or len(text) > LONGEST_TOKEN * limit:
            return bool(text) or limit < 0
        found = 0
        for tokens in self._counts(text):
            found += tokens
            if self.scaled(found) > limit:
                return True
        return False

    def head(self, text: str, limit: int) -> str:
        """The longest beginning that we can show to have at most `limit` tokens; it ends with a whole word where one is
        near.
        """
        return text[: self.end_within(text, 0, len(text), limit)]

    def tail(self, text: str, limit: int) -> str:
        """The longest ending that we can show to have at most `limit` tokens; it starts with a whole word where one is
        near.
        """
        return text[self.start_within(text, 0, len(text), limit) :]

    def end_within(self, text: str, start: int, end: int, limit: int) -> int:
        """How far `text[start:…]` may go, up to `end`, to have at most `limit` tokens. Costs in proportion to the
        limit.
        """
        room = self.room(limit)
        if room <= 0:
            return start
        encoding = _encoding(self.name)
        begin, left, exact = start, room, True
        characters_per_token = 2.0
        while begin < end:
            # Read no more than the limit calls for: a short head of a long text is cheap.
            length = min(_PIECE, int(left * characters_per_token) + 32)
            stop, forced = _next_cut(text, begin, end, length, 2 * length)
            ids = encoding.encode_ordinary(text[begin:stop])
            if len(ids) > left:
                # Bytes, since a token may end inside a character; that character is left out.
                cut = begin + len(encoding.decode_bytes(ids[:left]).decode("utf-8", "ignore"))
                return self._settled_end(text, start, cut, room, exact)
            begin, left, exact = stop, left - len(ids), exact and not forced
            characters_per_token = (begin - start) / (room - left)
        return (
            end
            if exact or self._agrees(text, start, end, room)
            else self._settled_end(text, start, end - 1, room, exact)
        )

    def start_within(self, text: str, start: int, end: int, limit: int) -> int:
        """How far back `text[…:end]` may begin, down to `start`, to have at most `limit` tokens. Costs in proportion to
        the limit.
        """
        room = self.room(limit)
        if room <= 0:
            return end
        encoding = _encoding(self.name)
        reach = 5 * room + 64
        while True:
            begin = max(start, end - reach)
            ids = self.encode(text[begin:end])
            if len(ids) > room or begin == start:
                break
            reach *= 3
        exact = end - begin <= _LONGEST_PIECE
        if len(ids) <= room and (exact or self._agrees(text, start, end, room)):
            return start
        cut = end - len(encoding.decode_bytes(ids[-room:]).decode("utf-8", "ignore"))
        return self._settled_start(text, max(cut, begin), end, room, exact)

    def _agrees(self, text: str, start: int, end: int, room: int) -> bool:
        return not self.unscaled.exceeds(text[start:end], room)

    def _settled_end(self, text: str, start: int, cut: int, room: int, exact: bool) -> int:
        """Step back from a cut between two tokens to one that keeps words and the limit.

        `exact` says that the tokens up to here were counted without a forced cut, so they need no second count.
        """
        for seam in range(cut, max(start, cut - _LOOK_AROUND, cut - (cut - start) // 4 - 1), -1):
            if is_seam(text, seam):
                if exact or self._agrees(text, start, seam, room):
                    return seam
                break
        # Cutting inside a word can change how its beginning is tokenized: step back, ever faster, until the count
        # agrees.
        step = 1
        while cut > start:
            whole = _whole_characters(text, start, cut)
            if self._agrees(text, start, whole, room):
                return whole
            cut = max(start, whole - step)
            step *= 2
        return start

    def _settled_start(self, text: str, cut: int, end: int, room: int, exact: bool) -> int:
        """Step forward from a cut between two tokens to one that keeps words and the limit."""
        for seam in range(cut, min(end, cut + _LOOK_AROUND, cut + (end - cut) // 4 + 1)):
            if is_seam(text, seam):
                if exact or self._agrees(text, seam, end, room):
                    return seam
                break
        step = 1
        while cut < end:
            if self._agrees(text, cut, end, room):
                return cut
            cut += step
            step *= 2
        return end


O200K = Tokenizer("o200k_base")


def tokenizer_for(model: str | None) -> Tokenizer:
    """The tokenizer of a model; names may carry a provider (`openai/gpt-4o-mini`) and a variant (`:free`).

    A model whose vocabulary is not ours counts with o200k_base, raised by `UNKNOWN_MODEL_FACTOR`.
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
    """How many tokens the text has: in o200k_base, or as the named model counts."""
    return tokenizer_for(model).count(text)
