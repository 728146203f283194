"""Cursors, and what may stand in a path or a query: the same for every list."""

import base64
import binascii
import json
import re
import uuid
from datetime import date, datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator

from tersely.errors import SessionNotFound
from tersely.web.problems import Refusal

LARGEST = 2**53 - 1
"""The largest number that every reader of JSON takes for itself."""

Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
After = Annotated[int, Query(ge=0, le=LARGEST, description="What comes behind this number.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the page before.")]
Words = Annotated[str | None, Query(max_length=200)]


def _iso(text: Any) -> Any:
    # Numbers would be taken for seconds since 1970, which nobody means.
    if isinstance(text, str) and not re.match(r"\d{4}-\d\d-\d\d", text):
        raise ValueError("must look like 2026-11-15 or 2026-11-15T08:00:00Z")
    return text


Time = Annotated[datetime, BeforeValidator(_iso)]
Day = Annotated[date, BeforeValidator(_iso)]

_CONTROL = re.compile("[\x00-\x1f\x7f]")


def bad_cursor() -> Refusal:
    message = "The cursor is not one that was given here. Begin without one."
    return Refusal(400, message, code="bad_cursor", details=[("cursor", "is unknown")])


def to_cursor(*position: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def from_cursor(cursor: str | None, *kinds: type) -> list[Any] | None:
    """The position that a cursor stands for; None for the beginning.

    Raises:
        Refusal: It is not one of ours.
    """
    if not cursor:
        return None
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        position = None
    well = (
        isinstance(position, list)
        and len(position) == len(kinds)
        and all(type(p) is kind for p, kind in zip(position, kinds, strict=True))
    )
    if not well or any(
        (isinstance(p, int) and abs(p) > LARGEST) or (isinstance(p, str) and not p.isprintable()) for p in position
    ):
        raise bad_cursor()
    return list(position)


def plain(text: str | None) -> str | None:
    """A word to look for, without what no stored text contains."""
    return None if text is None else _CONTROL.sub("", text).strip() or None


def known_id(text: str) -> str | None:
    """An id as we write it; None for what cannot be one."""
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def _session_id(
    session_id: Annotated[str, Path(description="A session's id.", json_schema_extra={"format": "uuid"})],
) -> str:
    known = known_id(session_id)
    if known is None:
        raise SessionNotFound(session_id)
    return known


SessionId = Annotated[str, Depends(_session_id)]
