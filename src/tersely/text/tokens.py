"""How many tokens a text has: exact, offline, and safe for any text.

The vocabularies of o200k_base and cl100k_base lie in our wheel, so nothing is
downloaded. Text is fed to tiktoken in pieces: a long run of one character can
take it tens of seconds or panic it, pieces keep the work per call bounded and
let "more than N?" stop early. Pieces are cut only between an ASCII letter or
digit and white space, where both encodings always start a new token, so the
sum is the exact count; only a run of 64 kB without such a place is cut by force.

Pure functions, no event loop: call them in a thread when the text is large.
"""

import base64
import gzip
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import tiktoken

EncodingName = Literal["o200k_base", "cl100k_base"]

UNKNOWN_MODEL_FACTOR = 1.25
"""Models with a tokenizer of their own count up to a quarter more tokens than o200k_base on ordinary text."""

LONGEST_TOKEN = 128
"""No token of either vocabulary has more characters, so N tokens never cover more than 128 × N."""

_PIECE = 16_384
_LONGEST_PIECE = 65_536
_SAFE_CUT = re.compile(r"(?<=[A-Za-z0-9])[ \t\r\n]")

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


@cache
def _encoding(name: EncodingName) -> tiktoken.Encoding:
    packed = files("tersely.text").joinpath("vocabulary", f"{name}.tiktoken.gz").read_bytes()
    ranks = {}
    for line in gzip.decompress(packed).splitlines():
        token, rank = line.split()
        ranks[base64.b64decode(token)] = int(rank)
    # No special tokens: text that spells one out is ordinary text to us.
    return tiktoken.Encoding(name, pat_str=_PATTERNS[name], mergeable_ranks=ranks, special_tokens={})


def _pieces(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Offsets of consecutive pieces that can be tokenized one by one."""
    while len(text) - start > _PIECE:
        cut = _SAFE_CUT.search(text, start + _PIECE, start + _LONGEST_PIECE)
        end = cut.start() if cut else min(start + _LONGEST_PIECE, len(text))
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


@dataclass(frozen=True)
class Tokenizer:
    """Counts as one model does, or a little more than it where its own vocabulary is not public."""

    name: EncodingName
    factor: float = 1.0

    def encode(self, text: str) -> list[int]:
        """The ids of the encoding itself; `factor` does not apply."""
        encoding = _encoding(self.name)
        return [token for start, end in _pieces(text) for token in encoding.encode_ordinary(text[start:end])]

    def count(self, text: str) -> int:
        encoding = _encoding(self.name)
        found = sum(len(encoding.encode_ordinary(text[start:end])) for start, end in _pieces(text))
        return self._scaled(found)

    def exceeds(self, text: str, limit: int) -> bool:
        """Whether the text has more than `limit` tokens; costs in proportion to the limit, not to the text."""
        if len(text) * 4 * self.factor <= limit:
            return False  # A token has at least one byte, a character at most four.
        if len(text) > LONGEST_TOKEN * max(limit, 0):
            return bool(text)
        encoding = _encoding(self.name)
        found = 0
        for start, end in _pieces(text):
            found += len(encoding.encode_ordinary(text[start:end]))
            if self._scaled(found) > limit:
                return True
        return False

    def head(self, text: str, limit: int) -> str:
        """The longest beginning of the text that we can show to have at most `limit` tokens."""
        if limit <= 0:
            return ""
        if not self.exceeds(text, limit):
            return text
        encoding = _encoding(self.name)
        room = int(limit / self.factor)
        kept = 0
        for start, end in _pieces(text):
            ids = encoding.encode_ordinary(text[start:end])
            if len(ids) >= room:
                # Bytes, since a token may end inside a character; that character is left out.
                kept = start + len(encoding.decode_bytes(ids[:room]).decode("utf-8", "ignore"))
                break
            room -= len(ids)
            kept = end
        # Cutting inside a word can change how its beginning is tokenized: step back until the count agrees.
        while kept and self.exceeds(text[:kept], limit):
            kept -= 1
        return text[:kept]

    def tail(self, text: str, limit: int) -> str:
        """The longest ending of the text that we can show to have at most `limit` tokens."""
        if limit <= 0:
            return ""
        if not self.exceeds(text, limit):
            return text
        end = text[-LONGEST_TOKEN * limit :]
        encoding = _encoding(self.name)
        ids = self.encode(end)[-max(1, int(limit / self.factor)) :]
        kept = len(encoding.decode_bytes(ids).decode("utf-8", "ignore"))
        while kept and self.exceeds(text[-kept:], limit):
            kept -= 1
        return text[-kept:] if kept else ""

    def _scaled(self, found: int) -> int:
        return found if self.factor == 1.0 else math.ceil(found * self.factor)


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
