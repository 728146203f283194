"""Sessions: create, find, count, expire and delete.

A status only moves forward, and an end status never changes. Claiming, cancelling and
ending are in `store.claims`, stages and executions in `store.stages`, pages of the list
in `store.listing`, idempotency keys in `store.idempotency`, worker processes in
`store.executors`.

Functions take the connection first and return records. They change rows only; the
events that report a change are appended by `tersely.events.log`, in the same transaction.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import SessionNotEnded, SessionNotFound
from tersely.store import events, idempotency, results
from tersely.store.idempotency import IdempotencyKey
from tersely.store.packing import storable
from tersely.store.statuses import ENDS, OPEN, Status
from tersely.store.tables import feed, idempotency_keys, sessions


@dataclass(frozen=True, kw_only=True)
class NewSession:
    """A session to create. Texts are masked."""

    id: str
    scope: str
    kind: str
    alert_type: str
    chain: str
    title: str
    alert: str
    runbook: str = ""
    override: Mapping[str, Any] | None = None
    fingerprint: str = ""
    """The same for alike alerts."""

    encoding: str
    mark_key: bytes = field(repr=False)
    parent_id: str | None = None
    """Of a follow-up question: the session it is about."""

    number: int | None = None
    """Of a follow-up question, from 1."""

    origin_id: str | None = None
    """The session that this one runs again."""

    changes: Mapping[str, Any] | None = None
    """What is changed when a session is run again."""


@dataclass(frozen=True, kw_only=True)
class Created:
    session_id: str
    """The new session's, or that of the session the key was used for before."""

    is_new: bool
    same_body: bool = True
    """False if the key was used for another body before."""


@dataclass(frozen=True, kw_only=True)
class Session:
    id: str
    scope: str
    kind: str
    alert_type: str
    chain: str
    title: str
    alert: str
    runbook: str
    override: Mapping[str, Any] | None
    status: Status
    reason: str
    analysis: str
    verdict: Mapping[str, Any] | None
    attempt: int
    executor: str | None
    crashes: int
    mark_key: bytes = field(repr=False)
    last_seq: int
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    price_micros: int | None
    tokens_before: int
    tokens_after: int
    encoding: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested_at: datetime | None
    resolved_at: datetime | None
    fingerprint: str | None
    """Of its alert; None in sessions of older releases."""

    parent_id: str | None = None
    number: int | None = None
    origin_id: str | None = None
    changes: Mapping[str, Any] | None = None

    @property
    def has_ended(self) -> bool:
        return self.status in ENDS

    @property
    def results_scope(self) -> str:
        """Of a follow-up question: that of its session, so that both read the same results."""
        return results_scope(self.parent_id or self.id)


def derived_id(session_id: str, key: str) -> str:
    """The id of something that belongs to a session: the same key always gives the same id."""
    return str(uuid.uuid5(uuid.UUID(session_id), key))


def results_scope(session_id: str) -> str:
    """The scope of the session's kept results."""
    return f"session:{session_id}"


async def create(db: AsyncConnection, new: NewSession, *, now: datetime, key: IdempotencyKey | None = None) -> Created:
    """Insert a pending session, unless the key was used before; then return the earlier session.

    Number 1 of the session's event log is reserved for the event that reports it.
    """
    if key and (earlier := await idempotency.take(db, new.scope, new.id, key, now=now)):
        return Created(session_id=earlier.session_id, is_new=False, same_body=earlier.digest == key.digest)
    values = {
        "id": new.id,
        "scope": storable(new.scope),
        "kind": new.kind,
        "alert_type": storable(new.alert_type),
        "chain": storable(new.chain),
        "title": storable(new.title),
        "alert": storable(new.alert),
        "runbook": storable(new.runbook),
        "override": None if new.override is None else events.dumped(new.override),
        "status": "pending",
        "reason": "",
        "analysis": "",
        "attempt": 0,
        "crashes": 0,
        "seq_at_death": 0,
        "mark_key": new.mark_key,
        "last_seq": 1,
        "last_sequence": 0,
        "model_calls": 0,
        "tool_calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "price_micros": 0,
        "tokens_before": 0,
        "tokens_after": 0,
        "encoding": new.encoding,
        "created_at": now,
        "parent_id": new.parent_id,
        "number": new.number,
        "origin_id": new.origin_id,
        "changes": None if new.changes is None else events.dumped(new.changes),
        # Webhooks report sessions, not the questions about them.
        "tell_tries": -1 if new.parent_id else 0,
        "fingerprint": new.fingerprint or None,
    }
    await db.execute(_CREATING, values)
    return Created(session_id=new.id, is_new=True)


_CREATING = sa.insert(sessions)


async def exists(db: AsyncConnection, session_id: str) -> bool:
    """Whether the session was created, e.g. by a transaction whose commit was not confirmed."""
    return bool(await db.scalar(sa.select(1).where(sessions.c.id == session_id)))


async def find(db: AsyncConnection, session_id: str) -> Session:
    """
    Raises:
        SessionNotFound: It does not exist, or was deleted.
    """
    row = (await db.execute(_FINDING, {"the_session": storable(session_id)})).one_or_none()
    if row is None:
        raise SessionNotFound(session_id)
    return from_row(row)


_FINDING = sa.select(sessions).where(sessions.c.id == sa.bindparam("the_session"))


async def counts(db: AsyncConnection) -> dict[str, int]:
    """The number of sessions per status, zeros included."""
    found = {row.status: row.number for row in await db.execute(_COUNTS)}
    return {status: found.get(status, 0) for status in (*OPEN, *ENDS)}


async def count_pending(db: AsyncConnection) -> int:
    """The number of sessions that no worker has claimed yet."""
    return int(await db.scalar(_PENDING) or 0)


IS_NO_QUESTION = sessions.c.parent_id.is_(None)
"""A follow-up question is stored as a session, but does not count as one."""

_PENDING = sa.select(sa.func.count()).where(sessions.c.status == "pending", IS_NO_QUESTION)
_COUNTS = (
    sa.select(sessions.c.status, sa.func.count().label("number")).where(IS_NO_QUESTION).group_by(sessions.c.status)
)


async def with_status(db: AsyncConnection, *statuses: Status, executor: str | None = None) -> list[Session]:
    """The sessions with one of these statuses, oldest first; with `executor` only those claimed by that worker."""
    question = sa.select(sessions).where(sessions.c.status.in_(statuses)).order_by(sessions.c.created_at, sessions.c.id)
    if executor is not None:
        question = question.where(sessions.c.executor == executor)
    return [from_row(row) for row in await db.execute(question)]


async def resolve(db: AsyncConnection, session_id: str, *, now: datetime) -> bool:
    """Record that the sender reported the alert as resolved; the session continues. False if it does not exist."""
    change = sa.update(sessions).where(sessions.c.id == storable(session_id))
    first = sa.func.coalesce(sessions.c.resolved_at, sa.literal(now, sessions.c.resolved_at.type))
    return (await db.execute(change.values(resolved_at=first))).rowcount > 0


async def reruns_of(db: AsyncConnection, session_id: str) -> list[str]:
    """The sessions that ran this one again, in order."""
    question = sa.select(sessions.c.id).where(sessions.c.origin_id == storable(session_id))
    return list(await db.scalars(question.order_by(sessions.c.created_at)))


_question = sessions.alias("question")
_HAS_OPEN_QUESTION = (
    sa.select(1)
    .where(_question.c.parent_id == sessions.c.id, _question.c.status.in_(OPEN))
    .correlate(sessions)
    .exists()
)


_earlier_question = sessions.alias("earlier_question")
WAITS_FOR_QUESTION = (
    sa.select(1)
    .where(
        _earlier_question.c.parent_id == sessions.c.parent_id,
        _earlier_question.c.number < sessions.c.number,
        _earlier_question.c.status.in_(OPEN),
    )
    .correlate(sessions)
    .exists()
)
"""A question about the same session was asked before and is still open: it is answered first."""


async def next_question(db: AsyncConnection, session_id: str) -> str | None:
    """The question whose turn it is after another one about the same session has ended."""
    return await db.scalar(_NEXT_QUESTION, {"the_session": session_id})


_ended_question = sessions.alias("ended_question")
_NEXT_QUESTION = (
    sa.select(sessions.c.id)
    .join(_ended_question, _ended_question.c.parent_id == sessions.c.parent_id)
    .where(_ended_question.c.id == sa.bindparam("the_session"), sessions.c.status == "pending", ~WAITS_FOR_QUESTION)
)


async def questions_of(db: AsyncConnection, session_ids: Sequence[str]) -> list[Session]:
    """The follow-up questions about these sessions, in order."""
    question = sa.select(sessions).where(sessions.c.parent_id.in_([storable(one) for one in session_ids]))
    return [from_row(row) for row in await db.execute(question.order_by(sessions.c.parent_id, sessions.c.number))]


async def expired(db: AsyncConnection, *, days: float, now: datetime, limit: int = 100) -> list[str]:
    """Sessions that ended more than `days` ago, oldest first."""
    question = (
        sa.select(sessions.c.id)
        .where(sessions.c.ended_at < now - timedelta(days=days), IS_NO_QUESTION, ~_HAS_OPEN_QUESTION)
        .order_by(sessions.c.ended_at)
        .limit(limit)
    )
    return list(await db.scalars(question))


async def delete(db: AsyncConnection, session_id: str) -> int:
    """Delete an ended session with its rows, questions and kept results; returns the number of results.

    Raises:
        SessionNotFound: It does not exist.
        SessionNotEnded: It, or a question about it, is pending or running.
    """
    if running := next((one for one in await questions_of(db, [session_id]) if not one.has_ended), None):
        raise SessionNotEnded(running.id, running.status)
    gone = sa.delete(sessions).where(sessions.c.id == storable(session_id), sessions.c.status.in_(ENDS))
    if not (await db.execute(gone)).rowcount:
        raise SessionNotEnded(session_id, (await find(db, session_id)).status)
    await db.execute(sa.delete(sessions).where(sessions.c.parent_id == session_id))
    await db.execute(sa.delete(feed).where(feed.c.session_id == session_id))
    await db.execute(sa.delete(idempotency_keys).where(idempotency_keys.c.session_id == session_id))
    return await results.forget(db, scope=results_scope(session_id))


_COLUMNS = [one.name for one in fields(Session)]


def from_row(row: Any) -> Session:
    """The record of a row of `sessions`."""
    values = {name: getattr(row, name) for name in _COLUMNS}
    values["override"] = None if row.override is None else json.loads(row.override)
    values["verdict"] = None if row.verdict is None else json.loads(row.verdict)
    values["changes"] = None if row.changes is None else json.loads(row.changes)
    values["mark_key"] = bytes(row.mark_key)
    return Session(**values)
