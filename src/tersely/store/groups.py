"""Alert groups that keep firing, and the session of each.

A monitoring system sends a group again while it fires, for minutes or days, with alerts
that joined and without those that are resolved. It is the same incident as long as the
group's session is open, or one of its alerts was reported before. Once a group is
resolved (or its session deleted), its next alert is a new incident.

Reported alerts are stored with the idempotency keys, but are deleted with their session.
An alert that fires again has a new start time, and so another key.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events, idempotency, sessions
from tersely.store.idempotency import GROUP_KEYS
from tersely.store.packing import storable
from tersely.store.sessions import Created, NewSession
from tersely.store.statuses import OPEN
from tersely.store.tables import idempotency_keys
from tersely.store.tables import sessions as session_rows

MOST_ALERTS = 500
"""Alerts stored per group; the remaining ones are hardly ever the only ones left."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The alert group of a notification."""

    name: str
    firing: Sequence[str]
    """Identities of its firing alerts, start times included."""

    over: Sequence[str] = ()
    """The same for its resolved alerts."""


async def create(db: AsyncConnection, new: NewSession, group: Group, *, now: datetime) -> Created:
    """Insert a session for a group, unless it has one for the same incident; then return that one."""
    scope = storable(new.scope)
    row = {"scope": scope, "key": _key(group.name), "digest": "", "session_id": new.id, "created_at": now}
    insert = events.insert(db, idempotency_keys).values(row)
    # Updated in any case: of two concurrent notifications, one waits here for the other.
    claimed = insert.on_conflict_do_update(index_elements=["scope", "key"], set_={"created_at": now})
    latest = await db.scalar(claimed.returning(idempotency_keys.c.session_id))
    same = None if latest == new.id else await _same_incident(db, scope, group, latest)
    created = Created(session_id=same, is_new=False) if same else await sessions.create(db, new, now=now)
    if created.is_new:
        mine = (idempotency_keys.c.scope == scope) & (idempotency_keys.c.key == _key(group.name))
        await db.execute(sa.update(idempotency_keys).where(mine).values(session_id=new.id))
    await _remember(db, scope, _keys(group, [*group.firing, *group.over]), created.session_id, now)
    return created


async def session_of(db: AsyncConnection, scope: str, group: Group) -> str | None:
    """The session of a resolved group."""
    found = await _sessions_of(db, storable(scope), _keys(group, group.over))
    return found[0] if found else await idempotency.session_of_key(db, scope, _key(group.name))


async def _same_incident(db: AsyncConnection, scope: str, group: Group, latest: str) -> str | None:
    asked = sa.select(session_rows.c.status, session_rows.c.resolved_at).where(session_rows.c.id == latest)
    known = (await db.execute(asked)).one_or_none()
    if known and known.resolved_at is None and known.status in OPEN:
        return latest
    if still_firing := await _sessions_of(db, scope, _keys(group, group.firing)):
        return still_firing[0]
    if known and known.resolved_at is None and latest in await _sessions_of(db, scope, _keys(group, group.over)):
        return latest
    return None


async def _sessions_of(db: AsyncConnection, scope: str, keys: Sequence[str]) -> list[str]:
    """Existing sessions of these keys, newest first."""
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
    # Sorted, so that two writers cannot deadlock.
    return sorted({_key(group.name, alert) for alert in list(alerts)[:MOST_ALERTS]})


def _key(*names: str) -> str:
    return GROUP_KEYS + hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()
