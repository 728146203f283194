"""Who works on sessions: one row per process, seen again and again while it lives.

All times are the database's own, so that clocks that differ or jump on the
machines decide nothing. A process that was not seen for a lease counts as dead;
if it only slept, its writes are refused by the sessions' `attempt`.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store.tables import executors, sessions

_TAKEOVER_LOCK = 7_237_111
_ENDED = ("completed", "failed", "cancelled", "timed_out")


def _now(db: AsyncConnection) -> Any:
    """The moment of the statement, not of the transaction."""
    return sa.func.clock_timestamp() if db.dialect.name == "postgresql" else sa.func.strftime("%Y-%m-%d %H:%M:%f000", "now")


async def beat(db: AsyncConnection, executor: str, *, host: str, version: str) -> None:
    """Say that this process lives."""
    insert = sqlite.insert if db.dialect.name == "sqlite" else postgresql.insert
    row = insert(executors).values(id=executor, host=host, version=version, started_at=_now(db), seen_at=_now(db), leaving=False)
    await db.execute(row.on_conflict_do_update(index_elements=[executors.c.id], set_={"seen_at": _now(db)}))


async def leave(db: AsyncConnection, executor: str, *, gone: bool) -> None:
    """Say that this process takes nothing new; or, once it is gone, that it works on nothing any more."""
    if gone:
        await db.execute(sa.delete(executors).where(executors.c.id == executor))
        await db.execute(sa.update(sessions).where(sessions.c.executor == executor).values(executor=None))
    else:
        await db.execute(sa.update(executors).where(executors.c.id == executor).values(leaving=True))


async def alive(db: AsyncConnection, *, lease: timedelta) -> dict[str, str]:
    """The processes seen within the lease, and the machines they run on."""
    if db.dialect.name == "postgresql":
        recent = executors.c.seen_at > sa.func.clock_timestamp() - lease
    else:
        recent = sa.func.julianday(executors.c.seen_at) > sa.func.julianday("now") - lease.total_seconds() / 86_400
    found = await db.execute(sa.select(executors.c.id, executors.c.host).where(recent))
    return {row.id: row.host for row in found}


async def only_one_takes_over(db: AsyncConnection) -> bool:
    """Whether this transaction may decide, until it ends, whose sessions go to others."""
    if db.dialect.name == "sqlite":
        return True  # one process works on a file
    return bool(await db.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(_TAKEOVER_LOCK))))


async def count_deaths(db: AsyncConnection, of: Mapping[str, str]) -> None:
    """These sessions' processes died. One that got further since its last death starts counting anew: it was not the killer.

    Args:
        of: The dead processes by session. A session that its process gave back before it ended has none, and counts no death.
    """
    for session_id, executor in of.items():
        further = sessions.c.last_seq > sessions.c.seq_at_death
        await db.execute(
            sa.update(sessions)
            .where(sessions.c.id == session_id, sessions.c.executor == executor, sessions.c.status.not_in(_ENDED))
            .values(
                deaths=sa.case((further, 1), else_=sessions.c.deaths + 1),
                seq_at_death=sessions.c.last_seq,
                executor=None,
            )
        )


async def bury(db: AsyncConnection, *, but: Collection[str]) -> None:
    """Forget the processes that are not among the living."""
    await db.execute(sa.delete(executors).where(executors.c.id.not_in(list(but))))


async def to_be_cancelled(db: AsyncConnection, executor: str) -> list[str]:
    """Sessions that this process works on and that somebody wants to stop."""
    asked = sa.select(sessions.c.id).where(sessions.c.executor == executor, sessions.c.status == "cancelling")
    return list((await db.scalars(asked)).all())


async def lost(db: AsyncConnection, executor: str, running: Sequence[str]) -> list[str]:
    """Those of the sessions that run here which now belong to somebody else, or have ended."""
    if not running:
        return []
    mine = sa.select(sessions.c.id).where(
        sessions.c.id.in_(list(running)), sessions.c.executor == executor, sessions.c.status.not_in(_ENDED)
    )
    kept = set((await db.scalars(mine)).all())
    return [session_id for session_id in running if session_id not in kept]


async def waiting(db: AsyncConnection, *, longer_than: timedelta, limit: int = 200) -> list[str]:
    """Sessions that nobody works on, the oldest first: queued, or left by somebody who is gone."""
    if db.dialect.name == "postgresql":
        old = sessions.c.created_at < sa.func.clock_timestamp() - longer_than
    else:
        old = sa.func.julianday(sessions.c.created_at) < sa.func.julianday("now") - longer_than.total_seconds() / 86_400
    asked = sa.select(sessions.c.id).where(sessions.c.status.not_in(_ENDED), sessions.c.executor.is_(None), old)
    return list((await db.scalars(asked.order_by(sessions.c.created_at).limit(limit))).all())
