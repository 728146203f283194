"""The event log: what viewers of a session are told, in order, exactly as they get it.

Append-only, numbered from 1 without a gap in every session. A number is taken by
the same statement that checks whether the writer may still write (`advance`): it
locks the session's row until the transaction ends, so numbers become visible in
their order, and a writer whose attempt is over takes none. An event is known by
its session, step and type: a step that is repeated tells nothing twice.

`feed` is the same for viewers of all sessions, with one counter of its own.

Who is told, and when, is `tersely.events`' business: functions that append hand
back what was appended, to be told once the transaction is over.
"""

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, ClassVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import LostSession, SessionNotFound
from tersely.store.packing import storable
from tersely.store.tables import counters, event_log, feed, sessions, timeline_events

VERSION = 1
"""`v` of every event: viewers may meet stored events of older versions."""

SESSIONS = "sessions"
"""The channel that tells of all sessions."""

OPEN = ("pending", "in_progress", "cancelling")
"""Statuses of sessions that have not ended."""

PAGE_EVENTS = 200
PAGE_CHARACTERS = 256 * 1024

_DEEPEST = 64
_HIGHEST = 2**63 - 1


@dataclass(frozen=True)
class Logged:
    """A stored event, and where it is told."""

    channel: str
    seq: int
    payload: str
    """The event as every viewer gets it, live or later."""


@dataclass(frozen=True, kw_only=True)
class TimelineEventCreated:
    """Something to show. With status `streaming` it grows and is completed later; with any other this is all there
    is.
    """

    type: ClassVar = "timeline_event.created"
    event_id: str
    stage_id: str | None
    execution_id: str | None
    event_type: str
    status: str
    content: str
    metadata: Mapping[str, Any]
    sequence: int


@dataclass(frozen=True, kw_only=True)
class TimelineEventCompleted:
    type: ClassVar = "timeline_event.completed"
    event_id: str
    event_type: str
    status: str
    content: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SessionStatus:
    type: ClassVar = "session.status"
    status: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class StageStatus:
    type: ClassVar = "stage.status"
    stage_id: str
    stage_name: str
    stage_index: int
    status: str


@dataclass(frozen=True, kw_only=True)
class InteractionCreated:
    type: ClassVar = "interaction.created"
    interaction_id: str
    interaction_type: str


StoredEvent = TimelineEventCreated | TimelineEventCompleted | SessionStatus | StageStatus | InteractionCreated


def channel_of(session_id: str) -> str:
    return f"session:{session_id}"


def stamp(moment: datetime) -> str:
    """A time as all our JSON has it: UTC, milliseconds, Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def plain(value: Any, depth: int = 0) -> Any:
    """JSON values that every database and every viewer takes."""
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
    """The one form of JSON that we store and send."""
    return _text(plain(value))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode(type_: str, session_id: str, at: datetime, values: Mapping[str, Any], *, seq: int | None = None) -> str:
    """An event's text. The order of the fields is part of the form: `event_id` stands before anything that somebody
    else wrote.
    """
    numbered = {} if seq is None else {"seq": seq}
    # Value by value, so that metadata is here exactly what `dumped` makes of it elsewhere.
    told = {name: plain(value) for name, value in values.items()}
    return _text({"type": type_, "v": VERSION, "session_id": session_id, **numbered, "timestamp": stamp(at), **told})


def _values(event: StoredEvent) -> dict[str, Any]:
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    if isinstance(event, SessionStatus) and not event.reason:
        del values["reason"]
    return values


def advancing(
    *,
    unless: sa.ColumnElement[bool] | None = None,
    changes: Mapping[str, Any] = {},
    returning: Sequence[sa.Column[Any]] = (),
) -> sa.Update:
    """The statement that `advance` takes numbers with. Made once, where a module is loaded: making and hashing it takes
    longer than
    doing what it says.

    Args:
        unless: What is there already when this step was done before; then nothing changes.
        changes: Columns of `sessions` and what becomes of them.
    """
    whose = sa.func.coalesce(sa.bindparam("the_attempt", type_=sessions.c.attempt.type), sessions.c.attempt)
    change = (
        sa.update(sessions)
        .where(sessions.c.id == sa.bindparam("the_session"), IS_OPEN, sessions.c.attempt == whose)
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
    """Take the next `by` numbers of a session's log, for a writer who may still write; the row has `last_seq` and what
    is asked for.

    Until the transaction ends nobody else writes to this session. None comes back when this step was done before.

    Args:
        attempt: The writer's; None for those who are no worker of the session, e.g. whoever cancels it.
        how: What else changes, and when nothing does; see `advancing`.
        given: The values of its parameters.

    Raises:
        LostSession: The session is gone, has ended, or belongs to another attempt.
    """
    who = {"the_session": session_id, "the_attempt": attempt}
    row = (await db.execute(how, {**who, "numbers": by, **given})).one_or_none()
    if row is None:
        if how is not JUST_ADVANCING and await db.scalar(_MAY_WRITE, who):
            return None
        raise LostSession(f"Session {session_id} has ended, or another attempt than {attempt} works on it.")
    return row


_LOGGING = sa.insert(event_log)
_UNLESS_LOGGED = advancing(
    unless=sa.exists().where(
        event_log.c.session_id == sa.bindparam("the_session"),
        event_log.c.step == sa.bindparam("the_step"),
        event_log.c.kind == sa.bindparam("the_kind"),
    )
)


async def write(
    db: AsyncConnection, session_id: str, last_seq: int, told: Sequence[tuple[str, StoredEvent]], now: datetime
) -> list[Logged]:
    """Write events (each with its step) under the numbers that `advance` gave, of which `last_seq` is the last."""
    rows: list[dict[str, Any]] = []
    for seq, (step, event) in enumerate(told, last_seq - len(told) + 1):
        payload = encode(event.type, session_id, now, _values(event), seq=seq)
        rows.append(
            {
                "session_id": session_id,
                "seq": seq,
                "step": storable(step),
                "kind": event.type,
                "payload": payload,
                "at": now,
            }
        )
    if rows:
        await db.execute(_LOGGING, rows)
    return [Logged(channel_of(session_id), row["seq"], row["payload"]) for row in rows]


async def append(
    db: AsyncConnection, session_id: str, attempt: int | None, step: str, event: StoredEvent, *, now: datetime
) -> Logged | None:
    """Tell one event; None when this step told it before.

    Raises:
        LostSession: As for `advance`.
    """
    row = await advance(db, session_id, attempt, _UNLESS_LOGGED, {"the_step": storable(step), "the_kind": event.type})
    if row is None:
        return None
    (logged,) = await write(db, session_id, row.last_seq, [(step, event)], now)
    return logged


async def page(
    db: AsyncConnection, session_id: str, *, after: int = 0, limit: int = PAGE_EVENTS, characters: int = PAGE_CHARACTERS
) -> list[Logged]:
    """What was told after number `after`, in order: at most `limit` events, and no more after `characters` of them."""
    return await _page(db, event_log, channel_of(session_id), after, limit, characters, session_id)


async def where_it_stands(db: AsyncConnection, session_id: str) -> tuple[int, list[str]]:
    """The last number given in a session, and which timeline events were streaming at that very moment.

    Raises:
        SessionNotFound: There is no such session.
    """
    rows = (await db.execute(_WHERE_IT_STANDS, {"the_session": storable(session_id)})).all()
    if not rows:
        raise SessionNotFound(session_id)
    return rows[0].last_seq, [row.id for row in rows if row.id is not None]


_STREAMING = (timeline_events.c.session_id == sessions.c.id) & (
    timeline_events.c.status == sa.literal_column("'streaming'")
)
# One statement, because two might see different moments.
_WHERE_IT_STANDS = (
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


async def feed_append(db: AsyncConnection, session_id: str, event: SessionStatus, *, now: datetime) -> Logged:
    """Tell those who watch all sessions. The last statements of a transaction: until it ends, no other session's
    status can be told.
    """
    seq = int(await db.scalar(_next_of_feed(db.dialect.name)))
    payload = encode(event.type, session_id, now, _values(event), seq=seq)
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
    """Forget what viewers of all sessions were told long ago; how many events went."""
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
    # The window is laid over these rows only, not over all that follow.
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
    """Both databases have ON CONFLICT; SQLAlchemy has it per dialect, and loading one that is not used takes a
    while.
    """
    if dialect == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)
