"""Which ended sessions the webhooks have not heard of yet. Told at least once, by one process at a time."""

from collections.abc import Callable
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import sessions as rows
from tersely.store.sessions import ENDS, Session
from tersely.store.tables import sessions

OLDEST = timedelta(hours=6)
"""What ended longer ago is no news: webhooks that are configured today are not delivered of last week."""


async def due(
    db: AsyncConnection, *, now: datetime, again_after: Callable[[int], timedelta], limit: int = 20
) -> list[tuple[Session, int]]:
    """Sessions to tell of now, each with the number of this try; nobody else gets them before their pause is over."""
    waits = sessions.c.tell_after.is_(None) | (sessions.c.tell_after <= now)
    asked = (
        sa.select(sessions.c.id, sessions.c.tell_tries)
        .where(sessions.c.status.in_(ENDS), sessions.c.tell_tries >= 0, sessions.c.ended_at > now - OLDEST, waits)
        .order_by(sessions.c.ended_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    found: list[tuple[Session, int]] = []
    for row in (await db.execute(asked)).all():
        tries = row.tell_tries + 1
        await db.execute(
            sa.update(sessions)
            .where(sessions.c.id == row.id)
            .values(tell_tries=tries, tell_after=now + again_after(tries))
        )
        found.append((await rows.find(db, row.id), tries))
    return found


async def delivered(db: AsyncConnection, session_id: str) -> None:
    """They know, or are not tried any more."""
    await db.execute(sa.update(sessions).where(sessions.c.id == session_id).values(tell_tries=-1))
