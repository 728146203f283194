"""Demotes text that imitates what only this program writes: notes about shortening, and handles of kept results.

A model trusts these: a forged note could make it believe that it has seen everything, or
read something else. So a note in foreign text begins with `[elsewhere: `, and a handle is
prefixed with `elsewhere:`. Nothing is removed: where the text comes from another instance
of this program, its reader still finds the handle.

Forged marks are demoted by `masking.mask`, which can verify ours.
"""

import re
from typing import Any

_ELSEWHERE = "elsewhere:"

# Both begin with a literal, so that searching for them costs next to nothing.
_NOTE = re.compile(
    r"\[(?=\s*+(?:shortened\b|cut(?:\s+here)?\s*:|earlier\s*:|structured content of the same result\b"
    r"|a picture of type\b|left out\s*:|no line contains\b"
    r"|the summary could not be\b|(?:…|\.\.\.)\s*+(?:the first\s+)?[\d,]+\s))\s*+",
    re.IGNORECASE,
)
_HANDLE = re.compile(r"r_[0-9a-hjkmnp-tv-z]{16}(?![0-9A-Za-z_])")


def demote(text: str) -> str:
    """The text, with imitated notes and handles marked as foreign. Idempotent."""
    if "[" in text:
        text = _NOTE.sub(f"[{_ELSEWHERE} ", text)
    if "r_" in text:
        text = _HANDLE.sub(_demoted_handle, text)
    return text


def demote_json(value: Any) -> Any:
    """A JSON value with every string in it demoted."""
    if isinstance(value, str):
        return demote(value)
    if isinstance(value, dict):
        return {demote(key) if isinstance(key, str) else key: demote_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [demote_json(inner) for inner in value]
    return value


def _demoted_handle(found: re.Match[str]) -> str:
    before = found.string[max(0, found.start() - len(_ELSEWHERE)) : found.start()]
    is_part = before[-1:].isalnum() or before.endswith(("_", _ELSEWHERE))
    return found[0] if is_part else _ELSEWHERE + found[0]
