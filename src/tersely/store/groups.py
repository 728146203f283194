"""Groups of alerts that keep firing, and the session that each of them has.

A monitoring system tells of a group again and again while it fires: with alerts
that joined and without those that are over, after minutes or after days. It is the
same trouble as long as its session is open, or one of its alerts was told of before.
Once a group is over (or its session deleted), the next alert of it is new trouble.

What was told of lies beside the idempotency keys, but lives as long as its session:
an alert that fires again has a new start, and so a key of its own.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events, sessions
from tersely.store.packing import storable
from tersely.store.sessions import GROUP_KEYS, Created, NewSession
from tersely.store.tables import idempotency_keys
from tersely.store.tables import sessions as session_rows

MOST_ALERTS = 500
"""Of a group that are remembered; the others are hardly ever the only ones left."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """What a notification is about."""

    name: str
    firing: Sequence[str]
    """What tells its alerts apart, their beginnings included."""

    over: Sequence[str] = ()
    """The same for those that are over."""


async def create(db: AsyncConnection, new: NewSession, group: Group, *, now: datetime) -> Created:
    """Add a session for a group, unless it has one that is about the same trouble; then that one is named."""
    scope = storable(new.scope)
    row = {"scope": scope, "key": _key(group.name), "digest": "", "session_id": new.id, "created_at": now}
    insert = events.insert(db, idempotency_keys).values(row)
    # Changed either way: of two who come at once, one waits here for the other.
    claimed = insert.on_conflict_do_update(index_elements=["scope", "key"], set_={"created_at": now})
    latest = await db.scalar(claimed.returning(idempotency_keys.c.session_id))
    same = None if latest == new.id else await _same_trouble(db, scope, group, latest)
    created = Created(session_id=same, is_new=False) if same else await sessions.create(db, new, now=now)
    if created.is_new:
        mine = (idempotency_keys.c.scope == scope) & (idempotency_keys.c.key == _key(group.name))
        await db.execute(sa.update(idempotency_keys).where(mine).values(session_id=new.id))
    await _remember(db, scope, _keys(group, [*group.firing, *group.over]), created.session_id, now)
    return created


async def session_of(db: AsyncConnection, scope: str, group: Group) -> str | None:
    """The session of a group that is over."""
    found = await _told_of(db, storable(scope), _keys(group, group.over))
    return found[0] if found else await sessions.session_of_key(db, scope, _key(group.name))


async def _same_trouble(db: AsyncConnection, scope: str, group: Group, latest: str) -> str | None:
    asked = sa.select(session_rows.c.status, session_rows.c.resolved_at).where(session_rows.c.id == latest)
    known = (await db.execute(asked)).one_or_none()
    if known and known.resolved_at is None and known.status in events.OPEN:
        return latest
    if fires_on := await _told_of(db, scope, _keys(group, group.firing)):
        return fires_on[0]
    if known and known.resolved_at is None and latest in await _told_of(db, scope, _keys(group, group.over)):
        return latest
    return None


async def _told_of(db: AsyncConnection, scope: str, keys: Sequence[str]) -> list[str]:
    """Sessions of these keys that still exist, the newest first."""
    asked = (
        sa.select(session_rows.c.id)
        .join(idempotency_keys, idempotency_keys.c.session_id == session_rows.c.id)
        .where(idempotency_keys.c.scope == scope, idempotency_keys.c.key.in_(keys))
        .order_by(session_rows.c.created_at.desc())
    )
    return list(dict.fromkeys(await db.scalars(asked)))


async def _remember(db: AsyncConnection, scope: str, keys: Sequence[str], session_id: str, now: datetime) -> None:
    rows = [{"scope": scope, "key": key, "digest": "", "session_id": session_id, "created_at": now} for key in keys]
    if rows:
        insert = events.insert(db, idempotency_keys)
        await db.execute(
            insert.on_conflict_do_update(
                index_elements=["scope", "key"], set_={"session_id": insert.excluded.session_id}
            ),
            rows,
        )


def _keys(group: Group, alerts: Iterable[str]) -> list[str]:
    # In one order, so that two writers never wait for each other.
    return sorted({_key(group.name, alert) for alert in list(alerts)[:MOST_ALERTS]})


def _key(*names: str) -> str:
    return GROUP_KEYS + hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()
