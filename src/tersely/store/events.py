"""The event log: every stored event of a session, in order, as the exact text that viewers receive.

Append-only and numbered from 1 without gaps per session. `advance` takes a number
in the same statement that checks the writer's attempt. That statement locks the
session's row until the transaction ends, so numbers become visible in order, and a
writer whose attempt is over gets none. An event is identified by session, step and
type: a repeated step appends nothing.

`feed` is the same for viewers of all sessions, with one counter for all.

The store does not know what an event means: it takes plain rows. The event types
and their fields are declared in `tersely.events.types`. Functions that append return
what they appended; the caller publishes it after the transaction.
"""

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import LostSession, SessionNotFound
from tersely.store.packing import storable
from tersely.store.statuses import OPEN
from tersely.store.tables import counters, event_log, feed, sessions, timeline_events

VERSION = 1
"""`v` of every event; stored events of older versions remain readable."""

SESSIONS = "sessions"
"""The channel with the status of every session."""

PAGE_EVENTS = 200
PAGE_CHARACTERS = 256 * 1024

_DEEPEST = 64
_HIGHEST = 2**63 - 1


@dataclass(frozen=True)
class EventRow:
    """An event to append, as plain values."""

    step: str
    """The step that reports it; with `type` the key under which it is appended once."""

    type: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Logged:
    """A stored event and the channel it is published on."""

    channel: str
    seq: int
    payload: str
    """The event as every viewer gets it, live or later."""


def channel_of(session_id: str) -> str:
    return f"session:{session_id}"


def stamp(moment: datetime) -> str:
    """Format a time as in all our JSON: UTC, milliseconds, Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(value: Any, depth: int = 0) -> Any:
    """Convert to JSON values that both databases and every viewer accept."""
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, bytes):
        return [plain(item, depth + 1) for item in value]
    return stamp(value) if isinstance(value, datetime) else storable(str(value))


def dumped(value: Any) -> str:
    """Serialize to the JSON form that is stored and sent."""
    return _text(plain(value))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(type_: str, session_id: str, at: datetime, values: Mapping[str, Any], *, seq: int | None = None) -> str:
    """Serialize an event: the common fields first, then its values in their order."""
    numbered = {} if seq is None else {"seq": seq}
    # Value by value, so that metadata is serialized exactly as `dumped` does elsewhere.
    encoded = {name: plain(value) for name, value in values.items()}
    return _text({"type": type_, "v": VERSION, "session_id": session_id, **numbered, "timestamp": stamp(at), **encoded})


def advancing(
    *,
    unless: sa.ColumnElement[bool] | None = None,
    changes: Mapping[str, Any] = {},
    returning: Sequence[sa.Column[Any]] = (),
) -> sa.Update:
    """Build the statement with which `advance` takes numbers.

    Build it once, at module level: building and hashing it takes longer than executing it.

    Args:
        unless: True if this step was done before; then nothing changes.
        changes: Columns of `sessions` and their new values.
    """
    attempt = sa.func.coalesce(sa.bindparam("the_attempt", type_=sessions.c.attempt.type), sessions.c.attempt)
    change = (
        sa.update(sessions)
        .where(sessions.c.id == sa.bindparam("the_session"), IS_OPEN, sessions.c.attempt == attempt)
        .values(last_seq=sessions.c.last_seq + sa.bindparam("numbers", type_=sessions.c.last_seq.type), **changes)
        .returning(sessions.c.last_seq, *returning)
    )
    return change if unless is None else change.where(~unless)


IS_OPEN = sessions.c.status.in_([sa.literal_column(f"'{status}'") for status in OPEN])
JUST_ADVANCING = advancing()
_MAY_WRITE = sa.select(1).where(
    sessions.c.id == sa.bindparam("the_session"),
    IS_OPEN,
    sessions.c.attempt
    == sa.func.coalesce(sa.bindparam("the_attempt", type_=sessions.c.attempt.type), sessions.c.attempt),
)


async def advance(
    db: AsyncConnection,
    session_id: str,
    attempt: int | None,
    how: sa.Update = JUST_ADVANCING,
    given: Mapping[str, Any] = {},
    *,
    by: int = 1,
) -> sa.Row[Any] | None:
    """Take the next `by` numbers of a session's log, if the writer still owns the session.

    Locks the session for other writers until the transaction ends. Returns a row with `last_seq` and the columns that
    `how` returns, or None if this step was done before.

    Args:
        attempt: The writer's attempt; None for a writer that is not a worker of the session, e.g. a cancellation.
        how: What else changes, and when nothing does; see `advancing`.
        given: Parameters of `how`.

    Raises:
        LostSession: The session does not exist, has ended, or belongs to another attempt.
    """
    fence = {"the_session": session_id, "the_attempt": attempt}
    row = (await db.execute(how, {**fence, "numbers": by, **given})).one_or_none()
    if row is None:
        if how is not JUST_ADVANCING and await db.scalar(_MAY_WRITE, fence):
            return None
        raise LostSession(f"Session {session_id} has ended, or another attempt than {attempt} works on it.")
    return row


async def advance_ended(db: AsyncConnection, session_id: str) -> int:
    """Take the next number of the log of a session that has ended, for news about it that no worker reports."""
    return int(await db.scalar(_ADVANCING_ENDED, {"the_session": session_id}) or 0)


_ADVANCING_ENDED = (
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("the_session"))
    .values(last_seq=sessions.c.last_seq + 1)
    .returning(sessions.c.last_seq)
)
_LOGGING = sa.insert(event_log)
_UNLESS_LOGGED = advancing(
    unless=sa.exists().where(
        event_log.c.session_id == sa.bindparam("the_session"),
        event_log.c.step == sa.bindparam("the_step"),
        event_log.c.kind == sa.bindparam("the_kind"),
    )
)


async def write(
    db: AsyncConnection, session_id: str, last_seq: int, rows: Sequence[EventRow], *, now: datetime
) -> list[Logged]:
    """Write events under the numbers that `advance` took, the last of which is `last_seq`."""
    stored: list[dict[str, Any]] = [
        {
            "session_id": session_id,
            "seq": seq,
            "step": storable(row.step),
            "kind": row.type,
            "payload": encode(row.type, session_id, now, row.values, seq=seq),
            "at": now,
        }
        for seq, row in enumerate(rows, last_seq - len(rows) + 1)
    ]
    if stored:
        await db.execute(_LOGGING, stored)
    return [Logged(channel_of(session_id), one["seq"], one["payload"]) for one in stored]


async def append(
    db: AsyncConnection, session_id: str, attempt: int | None, row: EventRow, *, now: datetime
) -> Logged | None:
    """Append one event; None if this step appended it before.

    Raises:
        LostSession: As for `advance`.
    """
    key = {"the_step": storable(row.step), "the_kind": row.type}
    advanced = await advance(db, session_id, attempt, _UNLESS_LOGGED, key)
    if advanced is None:
        return None
    (logged,) = await write(db, session_id, advanced.last_seq, [row], now=now)
    return logged


async def page(
    db: AsyncConnection, session_id: str, *, after: int = 0, limit: int = PAGE_EVENTS, characters: int = PAGE_CHARACTERS
) -> list[Logged]:
    """The events after number `after`, in order: at most `limit`, and none that begins beyond `characters`."""
    return await _page(db, event_log, channel_of(session_id), after, limit, characters, session_id)


async def position(db: AsyncConnection, session_id: str) -> tuple[int, list[str]]:
    """The last number of a session's log, and the timeline events that were streaming at that moment.

    Raises:
        SessionNotFound: There is no such session.
    """
    rows = (await db.execute(_POSITION, {"the_session": storable(session_id)})).all()
    if not rows:
        raise SessionNotFound(session_id)
    return rows[0].last_seq, [row.id for row in rows if row.id is not None]


_STREAMING = (timeline_events.c.session_id == sessions.c.id) & (
    timeline_events.c.status == sa.literal_column("'streaming'")
)
# One statement: two could see different states.
_POSITION = (
    sa.select(sessions.c.last_seq, timeline_events.c.id)
    .select_from(sessions)
    .join(timeline_events, _STREAMING, isouter=True)
    .where(sessions.c.id == sa.bindparam("the_session"))
)


async def heads(db: AsyncConnection, session_ids: Sequence[str]) -> dict[str, int]:
    """The last number of each of these sessions."""
    found: dict[str, int] = {}
    for start in range(0, len(session_ids), 500):
        some = sa.select(sessions.c.id, sessions.c.last_seq).where(sessions.c.id.in_(session_ids[start : start + 500]))
        found.update((row.id, row.last_seq) for row in await db.execute(some))
    return found


async def feed_append(db: AsyncConnection, session_id: str, row: EventRow, *, now: datetime) -> Logged:
    """Append to the feed of all sessions.

    Call it last in a transaction: its counter is locked until the transaction ends, for every session.
    """
    seq = int(await db.scalar(_next_of_feed(db.dialect.name)))
    payload = encode(row.type, session_id, now, row.values, seq=seq)
    await db.execute(_FEEDING, {"seq": seq, "session_id": session_id, "payload": payload, "at": now})
    return Logged(SESSIONS, seq, payload)


_FEEDING = sa.insert(feed)


@functools.cache
def _next_of_feed(dialect: str) -> Any:
    next_one = insert_into(dialect, counters).values(name=SESSIONS, value=1)
    grown = next_one.on_conflict_do_update(index_elements=["name"], set_={"value": counters.c.value + 1})
    return grown.returning(counters.c.value)


async def feed_page(
    db: AsyncConnection, *, after: int = 0, limit: int = PAGE_EVENTS, characters: int = PAGE_CHARACTERS
) -> list[Logged]:
    return await _page(db, feed, SESSIONS, after, limit, characters)


async def feed_head(db: AsyncConnection) -> int:
    return int(await db.scalar(sa.select(counters.c.value).where(counters.c.name == SESSIONS)) or 0)


async def trim_feed(db: AsyncConnection, *, before: datetime, limit: int = 1_000) -> int:
    """Delete feed events from before this time; returns how many."""
    old = sa.select(feed.c.seq).where(feed.c.at < before).order_by(feed.c.at).limit(limit)
    return (await db.execute(sa.delete(feed).where(feed.c.seq.in_(old.scalar_subquery())))).rowcount


async def _page(
    db: AsyncConnection,
    table: sa.Table,
    channel: str,
    after: int,
    limit: int,
    characters: int,
    session_id: str | None = None,
) -> list[Logged]:
    given: dict[str, Any] = {"after": min(after, _HIGHEST), "most": limit, "characters": characters}
    if session_id is not None:
        given["the_session"] = session_id
    return [
        Logged(channel, row.seq, row.payload)
        for row in await db.execute(_next_ones(table, session_id is not None), given)
    ]


@functools.cache
def _next_ones(table: sa.Table, of_one: bool) -> sa.Select[Any]:
    # The window function runs over these rows only, not over all that follow.
    which = [table.c.session_id == sa.bindparam("the_session")] if of_one else []
    next_ones = (
        sa.select(table.c.seq, table.c.payload)
        .where(*which, table.c.seq > sa.bindparam("after"))
        .order_by(table.c.seq)
        .limit(sa.bindparam("most", type_=sa.Integer()))
        .subquery()
    )
    length = sa.func.length(next_ones.c.payload)
    some = sa.select(
        next_ones, (sa.func.sum(length).over(order_by=next_ones.c.seq) - length).label("before")
    ).subquery()
    return sa.select(some.c.seq, some.c.payload).where(some.c.before < sa.bindparam("characters")).order_by(some.c.seq)


def insert(db: AsyncConnection, table: sa.Table) -> Any:
    return insert_into(db.dialect.name, table)


def insert_into(dialect: str, table: sa.Table) -> Any:
    """An INSERT with ON CONFLICT, which SQLAlchemy has per dialect; only the dialect in use is imported."""
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
