"""Mutations of texts: bytes flipped, lines dropped, doubled and swapped, pieces of other texts, hostile characters."""

import random
from collections.abc import Sequence

HOSTILE = [
    b"\0", b"\r", b"\r\n", b"\n\n", b"\t", b"\x1b[31m", b"\xff\xfe", "\u202e".encode(), "\ufeff".encode(), "\u2028".encode(),
    "\U000e0041".encode(), b"[MASKED:token:1a2b3c4d5e6f]", b"r_0h3kq9x7v2m5c8dz", b"[\xe2\x80\xa6 304 lines]", b" \xc3\x975",
    b"{" * 200, b"[" * 200, b"<a>" * 100, b'"', b"'", b"\\", b"\\u0000", b"---\n", b"- ", b": ", b"|", b"%s" * 20,
    b"a" * 5_000, b" " * 3_000, b"-----BEGIN PRIVATE KEY-----\n", b"password=", b"1e999", b"9" * 400, b"2026-11-15T08:00:00Z ",
]  # fmt: skip


def mutated(rng: random.Random, corpus: Sequence[bytes], *, longest: int = 20_000) -> bytes:
    """One to six mutations of one of the texts."""
    data = rng.choice(corpus)
    for _ in range(rng.randint(1, 6)):
        data = rng.choice(_MUTATIONS)(rng, data, corpus)[:longest]
    return data


def _flip(rng: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(rng: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(HOSTILE) * rng.choice((1, 1, 1, 3)) + data[at:]


def _lines(rng: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    lines = data.split(b"\n")
    first, second = sorted(rng.randint(0, len(lines)) for _ in range(2))
    piece = lines[first:second]
    how = rng.randrange(5)
    if how == 0:
        lines[first:second] = []
    elif how == 1:
        lines[first:first] = piece * rng.choice((1, 2, 20))
    elif how == 2:
        rng.shuffle(piece)
        lines[first:second] = piece
    elif how == 3:
        lines[first:second] = [b"".join(piece)]
    else:
        lines[first:second] = [b"  " + line for line in piece]
    return b"\n".join(lines)


def _splice(rng: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    other = rng.choice(corpus)
    start = rng.randint(0, len(other))
    at = rng.randint(0, len(data))
    return data[:at] + other[start : start + rng.randint(0, 2_000)] + data[at:]


def _cut(rng: random.Random, data: bytes, corpus: Sequence[bytes]) -> bytes:
    first, second = sorted(rng.randint(0, len(data)) for _ in range(2))
    return data[first:second] if rng.random() < 0.5 else data[:first] + data[second:]


_MUTATIONS = (_flip, _insert, _lines, _splice, _cut)
