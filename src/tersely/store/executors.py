"""Worker processes: heartbeats, and what a worker asks about all sessions.

Which sessions to stop, which to recover from a dead worker, which were never queued.
Times are the database's, so that processes with different clocks agree.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.events import IS_OPEN
from tersely.store.packing import storable
from tersely.store.sessions import WAITS_FOR_QUESTION
from tersely.store.statuses import OPEN
from tersely.store.tables import executors, sessions

_RECOVERY_LOCK = 7_237_111  # Arbitrary numbers that only we use.
_CLAIM_LOCK = 7_237_112


@dataclass(frozen=True, kw_only=True)
class Executor:
    id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    leaving: bool


# Heartbeats


async def heartbeat(db: AsyncConnection, executor: str, *, host: str, version: str, leaving: bool = False) -> datetime:
    """Record that a worker is alive; returns the database's time."""
    now = _database_time(db)
    row = {
        "id": executor,
        "host": storable(host),
        "version": version,
        "started_at": now,
        "seen_at": now,
        "leaving": leaving,
    }
    insert = events.insert(db, executors).values(row)
    seen = insert.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now, "leaving": leaving})
    return cast(datetime, await db.scalar(seen.returning(executors.c.seen_at)))


async def alive(db: AsyncConnection, *, lease: float) -> list[Executor]:
    """Workers whose last heartbeat is at most `lease` seconds old."""
    rows = await db.execute(sa.select(executors).where(~_is_overdue(db, lease)).order_by(executors.c.started_at))
    return [Executor(**row._mapping) for row in rows]


async def dead(db: AsyncConnection, *, lease: float) -> list[str]:
    """Workers whose last heartbeat is more than `lease` seconds old."""
    return list(await db.scalars(sa.select(executors.c.id).where(_is_overdue(db, lease))))


def _is_overdue(db: AsyncConnection, lease: float) -> sa.ColumnElement[bool]:
    # A heartbeat in the future: the clock was set back. A live worker sends the next one soon, a dead one never.
    return (executors.c.seen_at < _database_time(db, -lease)) | (executors.c.seen_at > _database_time(db, lease))


async def unregister(db: AsyncConnection, executor: str) -> None:
    """Delete a worker; its sessions no longer count as running."""
    await db.execute(sa.delete(executors).where(executors.c.id == executor))


async def registered(db: AsyncConnection) -> dict[str, datetime]:
    """All workers, each with the time of its last heartbeat."""
    return {row.id: row.seen_at for row in await db.execute(sa.select(executors.c.id, executors.c.seen_at))}


async def others(db: AsyncConnection, alive: Collection[str]) -> list[str]:
    """Registered workers that are not among these."""
    return list(await db.scalars(sa.select(executors.c.id).where(executors.c.id.not_in(list(alive)))))


def _database_time(db: AsyncConnection, seconds: float = 0.0) -> sa.ColumnElement[datetime]:
    if db.dialect.name == "sqlite":
        # In the format in which SQLAlchemy stores times there: they are compared as text.
        text = sa.func.strftime("%Y-%m-%d %H:%M:%f", "now", f"{seconds:+.3f} seconds").concat("000")
        return sa.type_coerce(text, executors.c.seen_at.type)
    return cast(
        "sa.ColumnElement[datetime]", sa.func.clock_timestamp() + sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    )


# Claims


async def is_room_for(db: AsyncConnection, session_id: str, at_once: int) -> bool:
    """Whether one more session may run, counting all workers; other workers wait for this transaction to end.

    Sessions of unregistered workers and the session itself are not counted.
    """
    if db.dialect.name != "sqlite":
        await db.execute(sa.select(sa.func.pg_advisory_xact_lock(_CLAIM_LOCK)))
    return int(await db.scalar(_RUNNING, {"the_session": session_id}) or 0) < at_once


_HELD = sessions.c.executor.in_(sa.select(executors.c.id))
_RUNNING = sa.select(sa.func.count()).where(IS_OPEN, _HELD, sessions.c.id != sa.bindparam("the_session"))


async def held(db: AsyncConnection, executor: str) -> dict[str, int]:
    """The open sessions assigned to this worker, each with its attempt."""
    question = sa.select(sessions.c.id, sessions.c.attempt).where(
        sessions.c.executor == executor, sessions.c.status.in_(OPEN)
    )
    return {row.id: row.attempt for row in await db.execute(question)}


async def lost(db: AsyncConnection, running: Mapping[str, int]) -> list[str]:
    """Of these (session, attempt) pairs, the sessions this worker no longer owns."""
    if not running:
        return []
    question = sa.select(sessions.c.id, sessions.c.attempt).where(
        sessions.c.id.in_(list(running)), sessions.c.status.in_(OPEN)
    )
    mine = {row.id for row in await db.execute(question) if row.attempt == running[row.id]}
    return [session_id for session_id in running if session_id not in mine]


async def to_be_cancelled(db: AsyncConnection, executor: str) -> list[str]:
    """Sessions of this worker whose cancellation was requested."""
    question = sa.select(sessions.c.id).where(sessions.c.executor == executor, sessions.c.status == "cancelling")
    return list(await db.scalars(question))


async def cancelling_without_worker(db: AsyncConnection) -> list[str]:
    """Sessions whose cancellation was requested and that no worker has claimed."""
    question = sa.select(sessions.c.id).where(sessions.c.executor.is_(None), sessions.c.status == "cancelling")
    return list(await db.scalars(question))


# Recovery


async def lock_recovery(db: AsyncConnection) -> bool:
    """Whether this transaction may recover the sessions of dead workers; only one at a time may."""
    if db.dialect.name == "sqlite":
        return True  # Only one process works on a file.
    return bool(await db.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(_RECOVERY_LOCK))))


async def crashes_in_a_row(db: AsyncConnection, session_id: str) -> int:
    """The number of workers that crashed while the session made no progress."""
    return int(await db.scalar(_CRASHES, {"the_session": session_id}) or 0)


_CRASHES = sa.select(sessions.c.crashes).where(
    sessions.c.id == sa.bindparam("the_session"), sessions.c.last_seq <= sessions.c.seq_at_death
)


async def unattended(db: AsyncConnection, *, now: datetime, seconds: float, limit: int = 500) -> list[str]:
    """Open sessions older than `seconds` that no registered worker has claimed, oldest first; without questions that
    wait for an earlier one.
    """
    has_no_worker = sessions.c.executor.is_(None) | sessions.c.executor.not_in(sa.select(executors.c.id))
    age = timedelta(seconds=seconds)
    # Created in the future: the clock was set back since.
    is_old = (sessions.c.created_at < now - age) | (sessions.c.created_at > now + age)
    question = sa.select(sessions.c.id).where(sessions.c.status.in_(OPEN), has_no_worker, is_old, ~WAITS_FOR_QUESTION)
    return list(await db.scalars(question.order_by(sessions.c.created_at).limit(limit)))
