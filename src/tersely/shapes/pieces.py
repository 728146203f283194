"""Long lines in pieces."""

import re

LONGEST_LINE = 400
"""Longer lines are cut into pieces that can be chosen separately."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(\[])")
_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
_BLOB_BEGINS = 24
"""Characters shown of a blob; the mark counts the others, as `[… 304 lines]` counts what is not shown."""


def pieces_of(line: str, longest: int = LONGEST_LINE) -> list[str]:
    """Split a long line into sentences, or after `,`, `;` or a blank; shorten blobs to their beginning and a mark."""
    if _BLOB.search(line):
        line = _BLOB.sub(_name_blob, line)
    pieces: list[str] = []
    for sentence in _SENTENCE.split(line):
        start, end = 0, len(sentence)
        while end - start > longest:
            window = start + longest
            cut = max(
                sentence.rfind(",", start, window),
                sentence.rfind(";", start, window),
                sentence.rfind(" ", start, window),
            )
            if cut < start + longest // 3:
                cut = window - 1
            pieces.append(sentence[start : cut + 1])
            start = cut + 1
        rest = sentence[start:].rstrip()
        if rest:
            pieces.append(rest)
    return pieces


def _name_blob(match: re.Match[str]) -> str:
    blob = match.group()
    if len(blob) < 400 and len(set(blob)) < 20:
        return blob
    return f"{blob[:_BLOB_BEGINS]}[… {len(blob) - _BLOB_BEGINS:,} characters]"
