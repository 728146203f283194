"""The timeline: what is shown of a session, one row per thing that happened.

A row is created, grows on viewers' screens while its status is `streaming`, and is
completed once. `sequence` orders the rows; the event log, which tells of both
moments, is written in the same transaction.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.events import Logged, TimelineEventCompleted, TimelineEventCreated
from tersely.store.packing import storable
from tersely.store.tables import sessions, timeline_events

STREAMING: Literal["streaming"] = "streaming"
EventStatus = Literal["streaming", "completed", "failed", "cancelled"]


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


async def create(
    db: AsyncConnection,
    session_id: str,
    attempt: int,
    step: str,
    *,
    event_id: str,
    stage_id: str | None,
    execution_id: str | None,
    event_type: str,
    content: str,
    metadata: Mapping[str, Any],
    status: EventStatus = STREAMING,
    now: datetime,
) -> Logged | None:
    """Begin an event, or tell a whole one with another status than `streaming`; None when this step did so before.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    row = await events.advance(db, session_id, attempt, _UNLESS_THERE, {"the_event": event_id})
    if row is None:
        return None
    created = TimelineEventCreated(
        event_id=event_id,
        stage_id=stage_id,
        execution_id=execution_id,
        event_type=event_type,
        status=status,
        content=storable(content),
        metadata=metadata,
        sequence=row.last_sequence,
    )
    shown = {
        "id": event_id,
        "session_id": session_id,
        "stage_id": stage_id,
        "execution_id": execution_id,
        "sequence": created.sequence,
        "event_type": event_type,
        "status": status,
        "content": created.content,
        "metadata": events.dumped(metadata),
        "created_at": now,
        "completed_at": None if status == STREAMING else now,
    }
    await db.execute(_CREATING, shown)
    (logged,) = await events.write(db, session_id, row.last_seq, [(_step(step, event_type), created)], now)
    return logged


async def complete(
    db: AsyncConnection,
    session_id: str,
    attempt: int,
    step: str,
    *,
    event_id: str,
    event_type: str,
    content: str,
    metadata: Mapping[str, Any],
    status: EventStatus = "completed",
    now: datetime,
) -> Logged | None:
    """End an event with its whole content; None when it had ended before.

    Args:
        metadata: All of it, that of the beginning included.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    row = await events.advance(db, session_id, attempt, _UNLESS_ENDED, {"the_event": event_id})
    if row is None:
        return None
    completed = TimelineEventCompleted(
        event_id=event_id, event_type=event_type, status=status, content=storable(content), metadata=metadata
    )
    ended = {"status": status, "content": completed.content, "metadata": events.dumped(metadata), "completed_at": now}
    await db.execute(_COMPLETING, {"the_event": event_id, **ended})
    (logged,) = await events.write(db, session_id, row.last_seq, [(_step(step, event_type), completed)], now)
    return logged


_IT = timeline_events.c.id == sa.bindparam("the_event")
_CREATING = sa.insert(timeline_events)
_COMPLETING = sa.update(timeline_events).where(_IT)
_UNLESS_THERE = events.advancing(
    unless=sa.exists().where(_IT),
    changes={"last_sequence": sessions.c.last_sequence + 1},
    returning=[sessions.c.last_sequence],
)
_UNLESS_ENDED = events.advancing(unless=~sa.exists().where(_IT, timeline_events.c.status == STREAMING))


async def page(db: AsyncConnection, session_id: str, *, after: int = 0, limit: int = 200) -> list[TimelineEvent]:
    """What is shown, in order; `after` is the `sequence` of the last one of the page before."""
    question = (
        sa.select(timeline_events)
        .where(timeline_events.c.session_id == session_id, timeline_events.c.sequence > min(after, 2**31 - 1))
        .order_by(timeline_events.c.sequence)
        .limit(limit)
    )
    return [_record(row) for row in await db.execute(question)]


async def end_streaming(
    db: AsyncConnection, session_id: str, status: EventStatus, now: datetime
) -> list[tuple[str, TimelineEventCompleted]]:
    """End what is still streaming, with the content it has; what is to be told of it. For `store.sessions`, which holds
    the session.
    """
    given = {"the_session": session_id, "status": status, "completed_at": now}
    ended = sorted(await db.execute(_ENDING, given), key=lambda row: row.sequence)
    return [
        (
            f"end/{row.id}",
            TimelineEventCompleted(
                event_id=row.id,
                event_type=row.event_type,
                status=status,
                content=row.content,
                metadata=json.loads(row.metadata),
            ),
        )
        for row in ended
    ]


_ENDING = (
    sa.update(timeline_events)
    .where(timeline_events.c.session_id == sa.bindparam("the_session"), timeline_events.c.status == STREAMING)
    .returning(timeline_events)
)


def as_json(event: TimelineEvent) -> dict[str, Any]:
    """As doors show it: the fields of `timeline_event.created`, with the present content and status."""
    return {
        "event_id": event.event_id,
        "session_id": event.session_id,
        "stage_id": event.stage_id,
        "execution_id": event.execution_id,
        "event_type": event.event_type,
        "status": event.status,
        "content": event.content,
        "metadata": event.metadata,
        "sequence": event.sequence,
        "created_at": events.stamp(event.created_at),
        "completed_at": event.completed_at and events.stamp(event.completed_at),
    }


def _step(step: str, event_type: str) -> str:
    # One step may tell of several events, of different types.
    return f"{step}/{event_type}"


def _record(row: Any) -> TimelineEvent:
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
