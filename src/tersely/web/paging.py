"""Cursors, and the path and query parameters that all lists share."""

import base64
import binascii
import json
import re
import uuid
from datetime import UTC, date, datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator

from tersely.errors import SessionNotFound
from tersely.web.problems import ApiError

MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""

Limit = Annotated[int, Query(ge=1, le=500, description="Maximum number of items.")]
After = Annotated[int, Query(ge=0, le=MAX_INTEGER, description="Only items after this number.")]
Cursor = Annotated[str | None, Query(max_length=500, description="`next_cursor` of the previous page.")]
SearchText = Annotated[str | None, Query(max_length=200)]


def _iso(text: Any) -> Any:
    # pydantic would read a bare number as seconds since 1970.
    if isinstance(text, str) and not re.match(r"\d{4}-\d\d-\d\d", text):
        raise ValueError("must look like 2026-11-15 or 2026-11-15T08:00:00Z")
    return text


Time = Annotated[datetime, BeforeValidator(_iso)]
Day = Annotated[date, BeforeValidator(_iso)]


def to_utc(moment: datetime | None, name: str) -> datetime | None:
    """A time of a query in UTC; a time without a zone is UTC.

    Raises:
        ApiError: It is out of range.
    """
    if moment is None:
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        message = "is out of range"
        raise ApiError(422, f"{name}: {message}", code="invalid", details=[(name, message)]) from None


_CONTROL = re.compile("[\x00-\x1f\x7f]")


def bad_cursor() -> ApiError:
    message = "Unknown cursor. Start without one."
    return ApiError(400, message, code="bad_cursor", details=[("cursor", "is unknown")])


def to_cursor(*position: str | int) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def from_cursor(cursor: str | None, *kinds: type) -> list[Any] | None:
    """The position in a cursor; None without a cursor.

    Raises:
        ApiError: `to_cursor` did not make it.
    """
    if not cursor:
        return None
    try:
        position = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        position = None
    is_valid = (
        isinstance(position, list)
        and len(position) == len(kinds)
        and all(type(value) is kind for value, kind in zip(position, kinds, strict=True))
    )
    if not is_valid or any(
        (isinstance(value, int) and abs(value) > MAX_INTEGER) or (isinstance(value, str) and not value.isprintable())
        for value in position
    ):
        raise bad_cursor()
    return list(position)


def strip_control_characters(text: str | None) -> str | None:
    """A search text without control characters, which no stored text contains; None if nothing is left."""
    return None if text is None else _CONTROL.sub("", text).strip() or None


def parse_session_id(text: str) -> str | None:
    """A session's id in its canonical form; None if it cannot be one."""
    try:
        return str(uuid.UUID(text)) if len(text) == 36 else None
    except ValueError:
        return None


def _session_id(
    session_id: Annotated[str, Path(description="A session's id.", json_schema_extra={"format": "uuid"})],
) -> str:
    parsed = parse_session_id(session_id)
    if parsed is None:
        raise SessionNotFound(session_id)
    return parsed


def _other_id(
    other_id: Annotated[str, Path(description="Another session's id.", json_schema_extra={"format": "uuid"})],
) -> str:
    return _session_id(other_id)


SessionId = Annotated[str, Depends(_session_id)]
OtherSessionId = Annotated[str, Depends(_other_id)]
