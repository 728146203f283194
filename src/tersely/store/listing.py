"""Pages of the session list: newest first, filtered, stable while sessions are added."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import InputError
from tersely.store import stages as stage_rows
from tersely.store.packing import storable
from tersely.store.sessions import IS_NO_QUESTION, Session, from_row
from tersely.store.stages import Stage
from tersely.store.tables import past_sessions, sessions, stages, triage
from tersely.store.triage import UNTOUCHED, Rating, Triage, TriageState, state_condition, triage_of

_MOST_WORDS = 8
_BEGINNING = 4_000
"""Characters of the alert that lists read, for its severity."""


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Conditions on the sessions of a page; those not given do not apply."""

    statuses: Sequence[str] = ()
    alert_type: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    q: str = ""
    """Words; each must occur in title, alert, analysis or verdict."""

    fingerprint: str | None = None
    service: str | None = None
    """What the verdict calls affected."""

    states: Sequence[TriageState] = ()
    assignee: str | None = None
    ratings: Sequence[Rating | Literal["none"]] = ()


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A session as lists show it: without its texts but the beginning of its alert, with its current stage."""

    session: Session
    stage: Stage | None
    """The running stage, or the last one that ran."""

    stage_count: int
    triage: Triage = UNTOUCHED


async def list_page(
    db: AsyncConnection, filters: Filters, *, cursor: str | None = None, limit: int = 50
) -> tuple[list[Listed], str | None]:
    """A page of sessions and the cursor of the next one.

    Raises:
        InputError: The cursor is invalid.
    """
    texts = ("runbook", "analysis")
    columns = [sa.literal("").label(column.name) if column.name in texts else column for column in sessions.c]
    columns = [
        sa.func.substr(column, 1, _BEGINNING).label(column.name) if column.name == "alert" else column
        for column in columns
    ]
    question = (
        sa.select(*columns)
        .select_from(sessions.outerjoin(triage).outerjoin(past_sessions))
        .where(*_conditions(filters))
        .order_by(sessions.c.created_at.desc(), sessions.c.id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        created, last = _decode_cursor(cursor)
        earlier = (sessions.c.created_at < created) | ((sessions.c.created_at == created) & (sessions.c.id < last))
        question = question.where(earlier)
    found = [from_row(row) for row in await db.execute(question)]
    shown = found[:limit]
    by_session: dict[str, list[Stage]] = {session.id: [] for session in shown}
    if shown:
        rows = sa.select(stages).where(stages.c.session_id.in_(list(by_session))).order_by(stages.c.position)
        for row in await db.execute(rows):
            by_session[row.session_id].append(Stage(**row._mapping))
    triaged = await triage_of(db, list(by_session))
    listed = [
        Listed(
            session=session,
            stage=stage_rows.current(by_session[session.id]),
            stage_count=len(by_session[session.id]),
            triage=triaged.get(session.id, UNTOUCHED),
        )
        for session in shown
    ]
    return listed, _encode_cursor(shown[-1]) if len(found) > limit else None


def _conditions(filters: Filters) -> list[sa.ColumnElement[bool]]:
    chosen: list[sa.ColumnElement[bool]] = [IS_NO_QUESTION]
    if filters.statuses:
        chosen.append(sessions.c.status.in_(list(filters.statuses)))
    if filters.alert_type is not None:
        chosen.append(sessions.c.alert_type == storable(filters.alert_type))
    if filters.created_after is not None:
        chosen.append(sessions.c.created_at >= filters.created_after)
    if filters.created_before is not None:
        chosen.append(sessions.c.created_at < filters.created_before)
    chosen += _history_conditions(filters)
    for word in storable(filters.q).split()[:_MOST_WORDS]:
        texts = (sessions.c.title, sessions.c.alert, sessions.c.analysis, past_sessions.c.text)
        chosen.append(sa.or_(*(text.icontains(word, autoescape=True) for text in texts)))
    return chosen


def _history_conditions(filters: Filters) -> list[sa.ColumnElement[bool]]:
    chosen: list[sa.ColumnElement[bool]] = []
    if filters.fingerprint is not None:
        chosen.append(sessions.c.fingerprint == storable(filters.fingerprint))
    if filters.service is not None:
        chosen.append(past_sessions.c.service == storable(filters.service))
    if filters.assignee is not None:
        chosen.append(triage.c.assignee == storable(filters.assignee))
    if filters.states:
        chosen.append(state_condition(filters.states))
    if filters.ratings:
        rated = triage.c.rating.in_([rating for rating in filters.ratings if rating != "none"])
        chosen.append(rated | triage.c.rating.is_(None) if "none" in filters.ratings else rated)
    return chosen


def _encode_cursor(session: Session) -> str:
    return base64.urlsafe_b64encode(f"{session.created_at.isoformat()} {session.id}".encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        created, _, last = text.partition(" ")
        moment = datetime.fromisoformat(created)
        if not last or "\x00" in last or moment.tzinfo is None:
            raise ValueError(text)
    except (ValueError, binascii.Error):
        raise InputError("The cursor is not one that a list of sessions returned. Start again without one.") from None
    return moment.astimezone(UTC), last
