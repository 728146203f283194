"""Idempotency keys: the same key in the same scope names the same session until it expires."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.packing import storable
from tersely.store.tables import idempotency_keys

GROUP_KEYS = "alertmanager:"
"""Prefix of the keys of alert groups (`store.groups`); they are deleted with their session, not after a day."""


@dataclass(frozen=True, kw_only=True)
class IdempotencyKey:
    key: str
    digest: str
    """Of the body."""

    lives: timedelta = timedelta(hours=24)


@dataclass(frozen=True)
class EarlierUse:
    """The session a key was used for before."""

    session_id: str
    digest: str


async def take(
    db: AsyncConnection, scope: str, session_id: str, key: IdempotencyKey, *, now: datetime
) -> EarlierUse | None:
    """Use a key for a session; if it was used before and has not expired, return that use instead."""
    scope, name = storable(scope), storable(key.key)
    row = {"scope": scope, "key": name, "digest": key.digest, "session_id": session_id, "created_at": now}
    insert = events.insert(db, idempotency_keys).values(row)
    # An expired key is reused. Of two concurrent submissions, one waits here for the other.
    is_over = idempotency_keys.c.created_at < now - key.lives
    taken = insert.on_conflict_do_update(
        index_elements=["scope", "key"], set_={column: insert.excluded[column] for column in row}, where=is_over
    )
    if await db.scalar(taken.returning(idempotency_keys.c.session_id)):
        return None
    mine = (idempotency_keys.c.scope == scope) & (idempotency_keys.c.key == name)
    earlier = (await db.execute(sa.select(idempotency_keys).where(mine))).one()
    return EarlierUse(earlier.session_id, earlier.digest)


async def session_of_key(db: AsyncConnection, scope: str, key: str) -> str | None:
    """The session a key was used for, e.g. to record on it that the alert is resolved."""
    mine = (idempotency_keys.c.scope == storable(scope)) & (idempotency_keys.c.key == storable(key))
    return await db.scalar(sa.select(idempotency_keys.c.session_id).where(mine))


async def delete_before(db: AsyncConnection, moment: datetime, *, limit: int = 1_000) -> int:
    """Delete keys that were used before this time, except those of groups; returns how many."""
    is_old = (idempotency_keys.c.created_at < moment) & ~idempotency_keys.c.key.startswith(GROUP_KEYS)
    old = sa.select(idempotency_keys.c.scope, idempotency_keys.c.key).where(is_old).limit(limit)
    chosen = sa.tuple_(idempotency_keys.c.scope, idempotency_keys.c.key).in_(old)
    return (await db.execute(sa.delete(idempotency_keys).where(chosen))).rowcount
