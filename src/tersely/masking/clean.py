"""Removes invisible and deceptive characters from a text: terminal escapes, invisible characters, controls.

Terminals, browsers and models read such a text differently, and a secret that is split
by a colour code is not recognised. So every tool result is cleaned first, and the
removed characters are counted.

Visible content stays: line breaks and tabs, joiners that a script or an emoji needs,
variation selectors, flags. Knows nothing about secrets; `masking.mask` uses `deceptions`
to search the visible text.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

_CONTROLS = bytes(code for code in range(32) if code not in (9, 10)) + b"\x7f"

# Terminal sequences. Of a string sequence (OSC, DCS, …) without an end only the introducer is removed: an attacker must
# not be able to hide the visible text after it. Possessive quantifiers prevent backtracking.
_TERMINAL = r"""
    (?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]
  | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}+(?:\x07|\x1b\\|\x9c)
  | \x1b[ -/]*+[0-OQ-WYZ`-~\\]
  | \x1b[\[\]PX^_]?
"""
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_PILED_MARKS = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_MARKS_KEPT = 8

# Removed wherever they stand, so a run of them is one deception. The others depend on their neighbours.
_ALWAYS_HIDDEN = (
    "\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x8f\x91-\x97\x99\x9a\x9c\u00ad\u061c\u115f\u1160"
    "\u17b4\u17b5\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001d173-\U0001d17a"
)


@cache
def _deception() -> re.Pattern[str]:
    return re.compile(
        rf"[{_ALWAYS_HIDDEN}]++ | {_TERMINAL} | \r(?!\n) | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f] | [{_INVISIBLE}]"
        rf" | [\ud800-\udfff] | {_PILED_MARKS}{{{_MARKS_KEPT + 1},}}+",
        re.VERBOSE,
    )


@cache
def _suspect() -> re.Pattern[str]:
    """Where one may begin. A single character class is ten times faster than the alternatives of a deception."""
    return re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_INVISIBLE}\ud800-\udfff{_PILED_MARKS[1:-1]}]")


_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f" for region in ("gbeng", "gbsct", "gbwls")
)
_ZWNJ, _ZWJ = "\u200c", "\u200d"


class Cleaned(NamedTuple):
    text: str
    removed: int
    """Number of characters that were removed or replaced."""


class Deception(NamedTuple):
    """A part of the text that is removed or replaced."""

    start: int
    end: int
    replacement: str = ""


def clean(text: str) -> Cleaned:
    pieces: list[str] = []
    removed = at = 0
    for found in deceptions(text):
        pieces += (text[at : found.start], found.replacement)
        removed += found.end - found.start
        at = found.end
    if not removed:
        return Cleaned(text, 0)
    pieces.append(text[at:])
    return Cleaned("".join(pieces), removed)


def clean_json(value: Any) -> tuple[Any, int]:
    """A JSON value with every string in it cleaned, keys included, and how many characters were removed."""
    if isinstance(value, str):
        if value.isascii() and value.isprintable():
            return value, 0
        cleaned = clean(value)
        return cleaned.text, cleaned.removed
    if isinstance(value, dict):
        pairs = [(clean_json(key), clean_json(inner)) for key, inner in value.items()]
        return {key: inner for (key, _), (inner, _) in pairs}, sum(first + second for (_, first), (_, second) in pairs)
    if isinstance(value, list | tuple):
        items = [clean_json(inner) for inner in value]
        return [item for item, _ in items], sum(removed for _, removed in items)
    return value, 0


def deceptions(text: str) -> Iterator[Deception]:
    """What `clean` removes, in order."""
    if text.isascii() and len(raw := text.encode("ascii")) == len(raw.translate(None, _CONTROLS)):
        return
    find, read = _suspect().search, _deception().match  # Compiled only for a text that may have one.
    at = 0
    while suspect := find(text, at):
        start = at = suspect.start()
        match = read(text, start)
        if match is None:
            at += 1
            continue
        at = end = match.end()
        first = text[start]
        if end - start == 1 and _belongs(text, start):
            continue
        if first == "\U000e0067" and start and text[start - 1] == "\U0001f3f4" and text.startswith(_FLAGS, start):
            at = start + len(_FLAGS[0])
        elif first == "\r":
            yield Deception(start, end, "\n")  # A terminal would overwrite the line; the text before it is kept.
        elif "\ud800" <= first <= "\udfff":
            yield Deception(start, end, "\ufffd")  # Lone surrogates can be neither stored nor sent.
        elif unicodedata.combining(first) and end - start > _MARKS_KEPT:
            yield Deception(start + _MARKS_KEPT, end)
        else:
            yield Deception(start, end)


def _belongs(text: str, at: int) -> bool:
    """Whether the neighbours of an invisible character make it legitimate."""
    char = text[at]
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if not before:
        return False
    if char in (_ZWNJ, _ZWJ):
        if _joins(before) and (_joins(after) or char == _ZWJ):
            return True
        return char == _ZWJ and _pictorial(before) and bool(after) and _pictorial(after)
    if char in "\ufe0e\ufe0f":
        return after == "\u20e3" or (_pictorial(before) and before not in "\ufe0e\ufe0f")
    if "\ufe00" <= char <= "\ufe0d":
        return ord(before) > 0x2000 and not "\ufe00" <= before <= "\ufe0f"
    if "\U000e0100" <= char <= "\U000e01ef":
        return (
            "\u3400" <= before <= "\u9fff" or "\uf900" <= before <= "\ufaff" or "\U00020000" <= before <= "\U0003ffff"
        )
    if "\u180b" <= char <= "\u180f":
        return "\u1820" <= before <= "\u18aa"
    return False


def _joins(char: str) -> bool:
    """Whether a letter belongs to a script with joiners: Arabic and related scripts, Indic scripts, Mongolian."""
    return (
        "\u0600" <= char <= "\u08ff"
        or "\u0900" <= char <= "\u0dff"
        or "\u1000" <= char <= "\u109f"
        or "\u1780" <= char <= "\u18aa"
    )


def _pictorial(char: str) -> bool:
    return (
        char in "\ufe0f©®‼⁉™ℹ"
        or "\u2190" <= char <= "\u2bff"
        or "\u3030" <= char <= "\u3299"
        or "\U0001f000" <= char <= "\U0001faff"
    )
