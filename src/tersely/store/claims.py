"""Ownership of sessions: claim, release, cancel, end, count crashes.

A worker writes under the `attempt` that `claim` returns. A later claim raises it, and
writes under the earlier attempt are refused from then on (`events.advance`). A session
that ends takes its stages, executions and streaming events with it, in one transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import LostSession, SessionNotFound
from tersely.store import events, history, stages, timeline
from tersely.store.packing import storable
from tersely.store.stages import Execution, Stage
from tersely.store.statuses import OPEN, End, Status
from tersely.store.tables import sessions
from tersely.store.timeline import TimelineEvent


@dataclass(frozen=True, kw_only=True)
class Question:
    """What makes a session a follow-up question: the session it is about, and its number there."""

    session_id: str
    number: int


_QUESTION = (sessions.c.parent_id, sessions.c.number)


def _question(row: Any) -> Question | None:
    return Question(session_id=row.parent_id, number=row.number) if row.parent_id else None


@dataclass(frozen=True, kw_only=True)
class ClaimedSession:
    attempt: int
    """Carried by every write of this worker."""

    status: Status
    """`in_progress`, or `cancelling` if the session only has to be ended."""

    seq: int | None
    """The number of the event log reserved for the event; only the first claim reports one."""

    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class LockedSession:
    """A session's state, locked until the transaction ends."""

    status: Status
    executor: str | None
    reason: str
    question: Question | None = None


@dataclass(frozen=True, kw_only=True)
class SessionEnd:
    """How a session ends."""

    status: End
    reason: str = ""
    analysis: str = ""
    verdict: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class EndedSession:
    """What was still open and ended with the session."""

    streaming: Sequence[TimelineEvent]
    executions: Sequence[Execution]
    stages: Sequence[Stage]
    last_seq: int
    """One number of the event log is reserved for each of these and one for the session; this is the last."""

    question: Question | None = None


async def claim(db: AsyncConnection, session_id: str, executor: str, *, now: datetime) -> ClaimedSession:
    """Assign a session to a worker under a new attempt.

    Raises:
        LostSession: It has ended, or was deleted.
    """
    given = {"the_session": session_id, "executor": storable(executor), "now": now}
    row = (await db.execute(_CLAIMING, given)).one_or_none()
    if row is None:
        raise LostSession(f"Session {session_id} has ended and cannot be claimed.")
    # No session becomes pending again, so the first attempt is the one that changed the status.
    seq = row.last_seq if row.attempt == 1 else None
    return ClaimedSession(attempt=row.attempt, status=row.status, seq=seq, question=_question(row))


_IS_PENDING = sessions.c.status == sa.literal_column("'pending'")
_CLAIMING = (
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("the_session"), events.IS_OPEN)
    .values(
        attempt=sessions.c.attempt + 1,
        executor=sa.bindparam("executor"),
        status=sa.case((_IS_PENDING, "in_progress"), else_=sessions.c.status),
        started_at=sa.func.coalesce(sessions.c.started_at, sa.bindparam("now", type_=sessions.c.started_at.type)),
        last_seq=sessions.c.last_seq + sa.case((_IS_PENDING, 1), else_=0),
    )
    .returning(sessions.c.attempt, sessions.c.status, sessions.c.last_seq, *_QUESTION)
)


async def release(db: AsyncConnection, session_id: str, attempt: int) -> None:
    """Give up a session without ending it; it has no worker until the next claim.

    Raises:
        LostSession: It belongs to another attempt, or has ended.
    """
    await events.advance(db, session_id, attempt, _RELEASING, by=0)


_RELEASING = events.advancing(changes={"executor": None})


async def is_held(db: AsyncConnection, session_id: str, attempt: int) -> bool:
    """Whether the session is open and still belongs to this attempt."""
    return bool(await db.scalar(_HELD, {"the_session": session_id, "the_attempt": attempt}))


_HELD = sa.select(sa.literal(1)).where(
    sessions.c.id == sa.bindparam("the_session"), events.IS_OPEN, sessions.c.attempt == sa.bindparam("the_attempt")
)


async def record_crash(
    db: AsyncConnection, session_id: str, executor: str, *, is_connected: bool = False
) -> int | None:
    """Count the crash of a session's worker; returns the crashes in a row without progress.

    None if the session has ended or another worker has claimed it: each crash is counted once. The attempt is raised,
    so a worker that is alive after all can no longer write.

    Args:
        is_connected: The worker is silent, but its connection lives: it may only get no CPU time. That counts from the
            second time without progress on, because a session could also block its workers for good.
    """
    made_progress = sessions.c.last_seq > sessions.c.seq_at_death
    change = (
        sa.update(sessions)
        .where(sessions.c.id == session_id, sessions.c.executor == storable(executor), sessions.c.status.in_(OPEN))
        .values(
            crashes=sa.case((made_progress, 0 if is_connected else 1), else_=sessions.c.crashes + 1),
            seq_at_death=sessions.c.last_seq,
            executor=None,
            attempt=sessions.c.attempt + 1,
        )
    )
    crashes: int | None = await db.scalar(change.returning(sessions.c.crashes))
    return crashes


async def lock(db: AsyncConnection, session_id: str) -> LockedSession:
    """
    Raises:
        SessionNotFound: It does not exist.
    """
    question = (
        sa.select(sessions.c.status, sessions.c.executor, sessions.c.reason, *_QUESTION)
        .where(sessions.c.id == storable(session_id))
        .with_for_update()
    )
    row = (await db.execute(question)).one_or_none()
    if row is None:
        raise SessionNotFound(session_id)
    return LockedSession(status=row.status, executor=row.executor, reason=row.reason, question=_question(row))


async def mark_cancelling(db: AsyncConnection, session_id: str, *, reason: str, now: datetime) -> int:
    """Ask a session's worker to stop; returns the number of the event log reserved for the event."""
    row = await events.advance(db, session_id, None, _CANCELLING, {"why": storable(reason), "now": now})
    assert row is not None
    return int(row.last_seq)


_NOW = sa.bindparam("now", type_=sessions.c.ended_at.type)
_CANCELLING = events.advancing(
    changes={"status": "cancelling", "reason": sa.bindparam("why"), "cancel_requested_at": _NOW}
)


async def end(
    db: AsyncConnection, session_id: str, attempt: int | None, ending: SessionEnd, *, now: datetime
) -> EndedSession:
    """End a session and everything of it that is still open, once.

    Args:
        attempt: The worker's; None to end a session that has no worker, or whose worker is to be fenced off.

    Raises:
        LostSession: It has ended already, or belongs to another attempt.
    """
    given = {
        "end": ending.status,
        "why": storable(ending.reason),
        "found": storable(ending.analysis) or None,
        "judged": None if ending.verdict is None else events.dumped(ending.verdict),
        "now": now,
    }
    row = await events.advance(db, session_id, attempt, _ENDING, given, by=0)
    assert row is not None
    status: timeline.EventStatus = "failed" if ending.status == "failed" else "cancelled"
    streaming = await timeline.end_streaming(db, session_id, status, now)
    ended, executions = await stages.end_open(db, session_id, ending.status, now)
    last_seq = int(row.last_seq) + len(streaming) + len(executions) + len(ended) + 1
    await db.execute(_NUMBERING, {"the_session": session_id, "last_seq": last_seq})
    if ending.verdict is not None:
        await history.add_verdict(db, session_id, ending.verdict)
    return EndedSession(
        streaming=streaming, executions=executions, stages=ended, last_seq=last_seq, question=_question(row)
    )


_BEGAN = sa.func.coalesce(sessions.c.started_at, sessions.c.created_at)
_ENDING = events.advancing(
    changes={
        "status": sa.bindparam("end"),
        "reason": sa.bindparam("why"),
        "analysis": sa.func.coalesce(sa.bindparam("found", type_=sa.Text()), sessions.c.analysis),
        "verdict": sa.func.coalesce(sa.bindparam("judged", type_=sa.Text()), sessions.c.verdict),
        # A clock can be set back; the end is never before the start.
        "ended_at": sa.case((_BEGAN > _NOW, _BEGAN), else_=_NOW),
    },
    returning=_QUESTION,
)
_NUMBERING = sa.update(sessions).where(sessions.c.id == sa.bindparam("the_session"))
