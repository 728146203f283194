"""What a process that works on sessions asks about all of them: which to stop, which to take over, which were
forgotten.

Signs of life and the sessions' own moves are in `store.sessions`.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store.events import IS_OPEN, OPEN
from tersely.store.tables import executors, sessions

_TAKEOVER_LOCK = 7_237_111  # Any numbers, as long as they are ours.
_ROOM_LOCK = 7_237_112

_MOST_ATTEMPTS = 60
"""About thirty crashes: a claim is one, and so is the end of its process."""


async def only_one_takes_over(db: AsyncConnection) -> bool:
    """Whether this transaction may decide, until it ends, whose sessions go to others."""
    if db.dialect.name == "sqlite":
        return True  # one process works on a file
    return bool(await db.scalar(sa.select(sa.func.pg_try_advisory_xact_lock(_TAKEOVER_LOCK))))


async def gone(db: AsyncConnection, executor: str) -> None:
    """This process works on nothing any more."""
    await db.execute(sa.delete(executors).where(executors.c.id == executor))


async def others(db: AsyncConnection, alive: Collection[str]) -> list[str]:
    """Processes that are named here and not among these."""
    return list(await db.scalars(sa.select(executors.c.id).where(executors.c.id.not_in(list(alive)))))


async def is_room_for(db: AsyncConnection, session_id: str, at_once: int) -> bool:
    """Whether one more session may run, in all processes together; until the transaction ends nobody else is told so.

    Sessions of processes that are gone do not count, nor does this one.
    """
    if db.dialect.name != "sqlite":
        await db.execute(sa.select(sa.func.pg_advisory_xact_lock(_ROOM_LOCK)))
    return int(await db.scalar(_RUNNING, {"the_session": session_id}) or 0) < at_once


_HELD = sessions.c.executor.in_(sa.select(executors.c.id))
_RUNNING = sa.select(sa.func.count()).where(IS_OPEN, _HELD, sessions.c.id != sa.bindparam("the_session"))


async def crashes_in_a_row(db: AsyncConnection, session_id: str) -> int:
    """How many processes died while a session got no further."""
    return int(await db.scalar(_CRASHES, {"the_session": session_id}) or 0)


_CRASHES = sa.select(sessions.c.crashes).where(
    sessions.c.id == sa.bindparam("the_session"), sessions.c.last_seq <= sessions.c.seq_at_death
)


async def release_quarantined(db: AsyncConnection, executor: str, *, crashes: int) -> None:
    """A process died. Those suspected of having killed as many, and that it did not work on, did not kill this one:
    something else
    kills processes here, and may have killed theirs. Not for ever: one that was tried this often is not run again and
    again.
    """
    elsewhere = (sessions.c.executor.is_(None) | (sessions.c.executor != executor)) & (
        sessions.c.attempt < _MOST_ATTEMPTS
    )
    suspected = (sessions.c.crashes == crashes) & (sessions.c.last_seq <= sessions.c.seq_at_death)
    await db.execute(sa.update(sessions).where(sessions.c.status.in_(OPEN), elsewhere, suspected).values(crashes=1))


async def to_be_cancelled(db: AsyncConnection, executor: str) -> list[str]:
    """Sessions that this process works on and that somebody wants to stop."""
    asked = sa.select(sessions.c.id).where(sessions.c.executor == executor, sessions.c.status == "cancelling")
    return list(await db.scalars(asked))


async def cancelled_and_alone(db: AsyncConnection) -> list[str]:
    """Sessions that somebody wants to stop and nobody works on."""
    return list(
        await db.scalars(
            sa.select(sessions.c.id).where(sessions.c.executor.is_(None), sessions.c.status == "cancelling")
        )
    )


async def held(db: AsyncConnection, executor: str) -> dict[str, int]:
    """The sessions that this process works on, as far as the database knows, each with its attempt."""
    asked = sa.select(sessions.c.id, sessions.c.attempt).where(
        sessions.c.executor == executor, sessions.c.status.in_(OPEN)
    )
    return {row.id: row.attempt for row in await db.execute(asked)}


async def lost(db: AsyncConnection, running: Mapping[str, int]) -> list[str]:
    """Those of the sessions that run here, each under its attempt, which now belong to another attempt, have ended, or
    are gone.
    """
    if not running:
        return []
    asked = sa.select(sessions.c.id, sessions.c.attempt).where(
        sessions.c.id.in_(list(running)), sessions.c.status.in_(OPEN)
    )
    mine = {row.id for row in await db.execute(asked) if row.attempt == running[row.id]}
    return [session_id for session_id in running if session_id not in mine]


async def waiting(db: AsyncConnection, *, now: datetime, seconds: float, limit: int = 500) -> list[str]:
    """Sessions that nobody has worked on for a while, the oldest first: queued, or left by somebody who is gone."""
    alone = sessions.c.executor.is_(None) | sessions.c.executor.not_in(sa.select(executors.c.id))
    a_while = timedelta(seconds=seconds)
    # Submitted in the future: the clock was set back since then.
    known = (sessions.c.created_at < now - a_while) | (sessions.c.created_at > now + a_while)
    asked = sa.select(sessions.c.id).where(sessions.c.status.in_(OPEN), alone, known)
    return list(await db.scalars(asked.order_by(sessions.c.created_at).limit(limit)))
