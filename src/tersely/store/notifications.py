"""Messages about sessions to people: each is stored before it is sent, and sent by one process at a time.

A message is `pending` until a process claims it, then `sending` for the duration of
one try. A try that ends without being stored, because its process died, leaves the
outcome unknown: the next claim returns the message with `interrupted`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store import sessions as session_rows
from tersely.store.packing import storable
from tersely.store.sessions import Session, derived_id
from tersely.store.statuses import ENDS, OPEN
from tersely.store.tables import notifications, sessions

NotificationStatus = Literal["pending", "sending", "sent", "failed", "unknown"]
OLDEST = timedelta(hours=6)
"""Sessions that started or ended earlier are not reported, so that a new channel does not receive old sessions."""

THREAD_FOR = timedelta(days=7)
"""How long a thread is continued."""


@dataclass(frozen=True, kw_only=True)
class Notification:
    id: str
    session_id: str
    target: str
    kind: Literal["start", "end"]
    fingerprint: str
    status: NotificationStatus
    reason: str
    tries: int
    due_at: datetime
    sent_at: datetime | None
    message_id: str
    thread_id: str
    created_at: datetime


@dataclass(frozen=True)
class ClaimedNotification:
    notification: Notification
    session: Session
    interrupted: bool
    """An earlier try ended without being stored: the message may have been sent."""


_NAMES = [field.name for field in fields(Notification)]


async def unreported(
    db: AsyncConnection, kind: Literal["start", "end"], chains: Collection[str], *, now: datetime, limit: int = 50
) -> list[Session]:
    """Sessions of these chains without a message of this kind."""
    moment, statuses = (sessions.c.created_at, OPEN) if kind == "start" else (sessions.c.ended_at, ENDS)
    reported = sa.exists().where(notifications.c.session_id == sessions.c.id, notifications.c.kind == kind)
    question = (
        sa.select(sessions)
        .where(
            sessions.c.status.in_(statuses),
            sessions.c.chain.in_(list(chains)),
            sessions.c.parent_id.is_(None),
            moment > now - OLDEST,
            ~reported,
        )
        .order_by(moment)
        .limit(limit)
    )
    return [session_rows.from_row(row) for row in await db.execute(question)]


async def add_notifications(
    db: AsyncConnection, session: Session, kind: Literal["start", "end"], targets: Sequence[str], *, now: datetime
) -> None:
    """Add messages to be sent, unless they exist."""
    for target in targets:
        row = {
            "id": derived_id(session.id, f"notification/{kind}/{target}"),
            "session_id": session.id,
            "target": target,
            "kind": kind,
            "fingerprint": session.fingerprint or "",
            "status": "pending",
            "reason": "",
            "tries": 0,
            "due_at": now,
            "message_id": "",
            "thread_id": "",
            "created_at": now,
        }
        await db.execute(events.insert(db, notifications).values(row).on_conflict_do_nothing())


async def claim_due(db: AsyncConnection, *, now: datetime, lease: timedelta) -> ClaimedNotification | None:
    """Take the oldest message that is due, for at most `lease`; None if there is none.

    One at a time: of a message that was taken when its process died, nobody knows whether it was sent. Of a session,
    the start comes before the end.
    """
    question = (
        sa.select(notifications)
        .where(
            notifications.c.status.in_(("pending", "sending")),
            notifications.c.due_at <= now,
            sa.or_(notifications.c.kind == "start", ~_HAS_OPEN_START),
        )
        .order_by(notifications.c.created_at, notifications.c.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = (await db.execute(question)).one_or_none()
    if row is None:
        return None
    await db.execute(_one(row.id).values(status="sending", tries=row.tries + 1, due_at=now + lease))
    found = Notification(**{**{name: getattr(row, name) for name in _NAMES}, "tries": row.tries + 1})
    session = await session_rows.find(db, row.session_id)
    return ClaimedNotification(found, session, interrupted=row.status == "sending")


_start = notifications.alias("start")
_HAS_OPEN_START = (
    sa.select(1)
    .where(
        _start.c.session_id == notifications.c.session_id,
        _start.c.target == notifications.c.target,
        _start.c.kind == "start",
        _start.c.status.in_(("pending", "sending")),
    )
    .correlate(notifications)
    .exists()
)


async def thread_of(db: AsyncConnection, one: Notification, *, now: datetime) -> str:
    """The thread of the latest message with this fingerprint to this target; empty if there is none."""
    if not one.fingerprint:
        return ""
    same = (notifications.c.fingerprint == one.fingerprint) & (notifications.c.target == one.target)
    question = (
        sa.select(notifications.c.thread_id)
        .where(same, notifications.c.status == "sent", notifications.c.sent_at > now - THREAD_FOR)
        .order_by(notifications.c.sent_at.desc())
        .limit(1)
    )
    return str(await db.scalar(question) or "")


async def set_thread(db: AsyncConnection, notification_id: str, thread_id: str) -> None:
    """Store the thread before the message is sent, so that it can be looked for there."""
    await db.execute(_one(notification_id).values(thread_id=storable(thread_id)))


async def store_sent(
    db: AsyncConnection, notification_id: str, *, message_id: str, thread_id: str, now: datetime
) -> None:
    values = {"message_id": storable(message_id), "thread_id": storable(thread_id), "reason": ""}
    await db.execute(_one(notification_id).values(status="sent", sent_at=now, **values))


async def store_retry(
    db: AsyncConnection, notification_id: str, reason: str, *, due_at: datetime, may_be_sent: bool = False
) -> None:
    """Args:
    may_be_sent: An earlier try may have sent it; the next one looks for it again.
    """
    status = "sending" if may_be_sent else "pending"
    await db.execute(_one(notification_id).values(status=status, reason=storable(reason), due_at=due_at))


async def store_given_up(
    db: AsyncConnection, notification_id: str, status: Literal["failed", "unknown"], reason: str
) -> None:
    await db.execute(_one(notification_id).values(status=status, reason=storable(reason)))


def _one(notification_id: str) -> sa.Update:
    return sa.update(notifications).where(notifications.c.id == notification_id)


async def notifications_of(db: AsyncConnection, session_id: str) -> list[Notification]:
    """The messages about a session, oldest first."""
    question = sa.select(notifications).where(notifications.c.session_id == session_id)
    rows = await db.execute(question.order_by(notifications.c.created_at, notifications.c.kind.desc()))
    return [Notification(**{name: getattr(row, name) for name in _NAMES}) for row in rows]
