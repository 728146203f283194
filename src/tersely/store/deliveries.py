"""Webhook deliveries of ended sessions: at least once each, by one process at a time."""

from collections.abc import Callable
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import sessions as rows
from tersely.store.sessions import Session
from tersely.store.statuses import ENDS
from tersely.store.tables import sessions

OLDEST = timedelta(hours=6)
"""Sessions that ended earlier are not delivered, so that a new webhook does not receive old sessions."""


async def due(
    db: AsyncConnection, *, now: datetime, retry_after: Callable[[int], timedelta], limit: int = 20
) -> list[tuple[Session, int]]:
    """Sessions to deliver now, each with the number of this attempt; reserved for the caller until `retry_after`."""
    is_due = sessions.c.tell_after.is_(None) | (sessions.c.tell_after <= now)
    question = (
        sa.select(sessions.c.id, sessions.c.tell_tries)
        .where(sessions.c.status.in_(ENDS), sessions.c.tell_tries >= 0, sessions.c.ended_at > now - OLDEST, is_due)
        .order_by(sessions.c.ended_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found: list[tuple[Session, int]] = []
    for row in (await db.execute(question)).all():
        tries = row.tell_tries + 1
        await db.execute(
            sa.update(sessions)
            .where(sessions.c.id == row.id)
            .values(tell_tries=tries, tell_after=now + retry_after(tries))
        )
        found.append((await rows.find(db, row.id), tries))
    return found


async def delivered(db: AsyncConnection, session_id: str) -> None:
    """Mark a session as delivered, or as given up."""
    await db.execute(sa.update(sessions).where(sessions.c.id == session_id).values(tell_tries=-1))
