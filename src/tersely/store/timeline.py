"""The timeline: the rows that are shown of a session.

A row is created, may stream while its status is `streaming`, and is completed once.
`sequence` orders the rows. The events that report a creation or completion are
appended by `tersely.events.log` in the same transaction.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.packing import storable
from tersely.store.tables import sessions, timeline_events

STREAMING: Literal["streaming"] = "streaming"
EventStatus = Literal["streaming", "completed", "failed", "cancelled"]

REWOUND_STEP = "step"
"""In the metadata of a notice that a session's steps were rewound, and of no other notice: the first of these steps."""


@dataclass(frozen=True, kw_only=True)
class NewTimelineEvent:
    """A row to create; with a status other than `streaming` it is complete."""

    event_id: str
    event_type: str
    stage_id: str | None = None
    execution_id: str | None = None
    content: str = ""
    metadata: Mapping[str, Any]
    status: EventStatus = STREAMING


@dataclass(frozen=True, kw_only=True)
class TimelineCompletion:
    """The final content of a row."""

    event_id: str
    event_type: str
    content: str
    metadata: Mapping[str, Any]
    """All of it, including that of the creation."""

    status: EventStatus = "completed"


@dataclass(frozen=True)
class CreatedTimelineEvent:
    sequence: int
    seq: int
    """The number of the event log that is reserved for the event."""


@dataclass(frozen=True, kw_only=True)
class TimelineEvent:
    event_id: str
    session_id: str
    stage_id: str | None
    execution_id: str | None
    event_type: str
    status: EventStatus
    content: str
    metadata: Mapping[str, Any]
    sequence: int
    created_at: datetime
    completed_at: datetime | None


@dataclass(frozen=True)
class EarlierEvent:
    """An event of a session whose steps were rewound."""

    metadata: Mapping[str, Any]
    is_discarded: bool
    """Its step was rewound, so that the agent does not know of it."""


async def create(
    db: AsyncConnection, session_id: str, attempt: int, new: NewTimelineEvent, *, now: datetime
) -> CreatedTimelineEvent | None:
    """Insert a row; None if it exists.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    advanced = await events.advance(db, session_id, attempt, _UNLESS_THERE, {"the_event": new.event_id})
    return None if advanced is None else await _insert(db, session_id, new, advanced, now)


async def create_afterwards(
    db: AsyncConnection, session_id: str, new: NewTimelineEvent, *, now: datetime
) -> CreatedTimelineEvent | None:
    """Insert a row that no worker of the session reports, also after its end; None if it exists, or the session is
    gone.
    """
    found = await db.execute(_AFTERWARDS, {"the_session": session_id, "the_event": new.event_id})
    advanced = found.one_or_none()
    return None if advanced is None else await _insert(db, session_id, new, advanced, now)


async def _insert(
    db: AsyncConnection, session_id: str, new: NewTimelineEvent, advanced: sa.Row[Any], now: datetime
) -> CreatedTimelineEvent:
    row = {
        "id": new.event_id,
        "session_id": session_id,
        "stage_id": new.stage_id,
        "execution_id": new.execution_id,
        "sequence": advanced.last_sequence,
        "event_type": new.event_type,
        "status": new.status,
        "content": storable(new.content),
        "metadata": events.dumped(new.metadata),
        "created_at": now,
        "completed_at": None if new.status == STREAMING else now,
    }
    await db.execute(_CREATING, row)
    return CreatedTimelineEvent(sequence=advanced.last_sequence, seq=advanced.last_seq)


async def complete(
    db: AsyncConnection, session_id: str, attempt: int, completion: TimelineCompletion, *, now: datetime
) -> int | None:
    """Complete a streaming row; returns the number of the event log reserved for the event, None if it was complete.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    advanced = await events.advance(db, session_id, attempt, _UNLESS_ENDED, {"the_event": completion.event_id})
    if advanced is None:
        return None
    values = {
        "status": completion.status,
        "content": storable(completion.content),
        "metadata": events.dumped(completion.metadata),
        "completed_at": now,
    }
    await db.execute(_COMPLETING, {"the_event": completion.event_id, **values})
    return int(advanced.last_seq)


_IT = timeline_events.c.id == sa.bindparam("the_event")
_CREATING = sa.insert(timeline_events)
_COMPLETING = sa.update(timeline_events).where(_IT)
_UNLESS_THERE = events.advancing(
    unless=sa.exists().where(_IT),
    changes={"last_sequence": sessions.c.last_sequence + 1},
    returning=[sessions.c.last_sequence],
)
_AFTERWARDS = (
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("the_session"), ~sa.exists().where(_IT))
    .values(last_seq=sessions.c.last_seq + 1, last_sequence=sessions.c.last_sequence + 1)
    .returning(sessions.c.last_seq, sessions.c.last_sequence)
)
_UNLESS_ENDED = events.advancing(unless=~sa.exists().where(_IT, timeline_events.c.status == STREAMING))


async def page(db: AsyncConnection, session_id: str, *, after: int = 0, limit: int = 200) -> list[TimelineEvent]:
    """Rows in order; `after` is the `sequence` of the last row of the previous page."""
    question = (
        sa.select(timeline_events)
        .where(timeline_events.c.session_id == session_id, timeline_events.c.sequence > min(after, 2**31 - 1))
        .order_by(timeline_events.c.sequence)
        .limit(limit)
    )
    return [_record(row) for row in await db.execute(question)]


async def find_event(db: AsyncConnection, session_id: str, event_id: str) -> TimelineEvent | None:
    question = sa.select(timeline_events).where(
        timeline_events.c.session_id == session_id, timeline_events.c.id == event_id
    )
    row = (await db.execute(question)).first()
    return _record(row) if row else None


async def rewinds(db: AsyncConnection, session_id: str) -> list[int]:
    """The `sequence` of each notice that the session's steps were rewound, in order."""
    question = (
        sa.select(timeline_events.c.sequence, timeline_events.c.metadata)
        .where(timeline_events.c.session_id == session_id, timeline_events.c.event_type == "notice")
        .order_by(timeline_events.c.sequence)
    )
    return [row.sequence for row in await db.execute(question) if REWOUND_STEP in json.loads(row.metadata)]


async def streaming(db: AsyncConnection, session_id: str, *, before: int) -> list[TimelineEvent]:
    """Rows of a session with a smaller `sequence` that are not complete."""
    question = sa.select(timeline_events).where(
        timeline_events.c.session_id == session_id,
        timeline_events.c.status == STREAMING,
        timeline_events.c.sequence < before,
    )
    return [_record(row) for row in await db.execute(question)]


async def of_executions(
    db: AsyncConnection, session_id: str, executions: Collection[str | None], event_type: str
) -> list[TimelineEvent]:
    """Rows of one type, in order, of these executions."""
    question = (
        sa.select(timeline_events)
        .where(timeline_events.c.session_id == session_id, timeline_events.c.event_type == event_type)
        .order_by(timeline_events.c.sequence)
    )
    return [_record(row) for row in await db.execute(question) if row.execution_id in executions]


async def end_streaming(
    db: AsyncConnection, session_id: str, status: EventStatus, now: datetime
) -> list[TimelineEvent]:
    """Complete the streaming rows of a session with the content they have. The caller has locked the session."""
    given = {"the_session": session_id, "status": status, "completed_at": now}
    return sorted((_record(row) for row in await db.execute(_ENDING, given)), key=lambda event: event.sequence)


_ENDING = (
    sa.update(timeline_events)
    .where(timeline_events.c.session_id == sa.bindparam("the_session"), timeline_events.c.status == STREAMING)
    .returning(timeline_events)
)


def _record(row: sa.Row[Any]) -> TimelineEvent:
    return TimelineEvent(
        event_id=row.id,
        session_id=row.session_id,
        stage_id=row.stage_id,
        execution_id=row.execution_id,
        event_type=row.event_type,
        status=row.status,
        content=row.content,
        metadata=json.loads(row.metadata),
        sequence=row.sequence,
        created_at=row.created_at,
        completed_at=row.completed_at,
    )
