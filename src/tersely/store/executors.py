"""What a process that works on sessions asks about all of them: which to stop, which to take over, which were forgotten.

Signs of life and the sessions' own moves are in `store.sessions`.
"""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store.events import OPEN
from tersely.store.tables import executors, sessions

_TAKEOVER_LOCK = 7_237_111  # Any number, as long as it is ours.


async def only_one_takes_over(db: AsyncConnection) -> bool:
    """Whether this transaction may decide, until it ends, whose sessions go to others."""
    if db.dialect.name == "sqlite":
        return True  # one process works on a file
    return bool(await db.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(_TAKEOVER_LOCK))))


async def gone(db: AsyncConnection, executor: str) -> None:
    """This process works on nothing any more."""
    await db.execute(sa.delete(executors).where(executors.c.id == executor))


async def to_be_cancelled(db: AsyncConnection, executor: str) -> list[str]:
    """Sessions that this process works on and that somebody wants to stop."""
    asked = sa.select(sessions.c.id).where(sessions.c.executor == executor, sessions.c.status == "cancelling")
    return list(await db.scalars(asked))


async def lost(db: AsyncConnection, executor: str, running: Sequence[str]) -> list[str]:
    """Those of the sessions that run here which now belong to another process, or have ended."""
    if not running:
        return []
    others = (sessions.c.executor != executor) | sessions.c.status.not_in(OPEN)
    return list(await db.scalars(sa.select(sessions.c.id).where(sessions.c.id.in_(list(running)), others)))


async def waiting(db: AsyncConnection, *, since: datetime, limit: int = 500) -> list[str]:
    """Sessions that nobody works on, the oldest first: queued, or left by somebody who is gone."""
    asked = sa.select(sessions.c.id).where(sessions.c.status.in_(OPEN), sessions.c.executor.is_(None), sessions.c.created_at < since)
    return list(await db.scalars(asked.order_by(sessions.c.created_at).limit(limit)))
