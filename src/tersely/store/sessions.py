"""Sessions, their stages and executions: what was asked, how far it is, and how it ended.

Everything moves forward only, and a status that is an end stays. A session that ends
takes everything of its own along: stages, executions and streaming events end in
the same transaction, and so do the events that tell of it.

A worker writes under its `attempt`, which `claim` gives. Who claims later has a
higher one, and the earlier worker's writes are refused from then on.

Connection first, records out. Functions that tell something return what was logged;
the caller publishes it once the transaction is over.
"""

import base64
import binascii
import functools
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, cast

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import InputError, LostSession, SessionNotEnded, SessionNotFound
from tersely.store import events, results, timeline
from tersely.store.events import OPEN, Logged, SessionStatus, StageStatus, StoredEvent
from tersely.store.packing import storable
from tersely.store.tables import executions, executors, feed, idempotency_keys, sessions, stages

Status = Literal["pending", "in_progress", "cancelling", "completed", "failed", "cancelled", "timed_out"]
End = Literal["completed", "failed", "cancelled", "timed_out"]
PartStatus = Literal["pending", "in_progress", "completed", "failed", "cancelled", "timed_out"]
"""Of a stage or an execution."""

ENDS: tuple[End, ...] = ("completed", "failed", "cancelled", "timed_out")
_PART_OPEN = ("pending", "in_progress")
GROUP_KEYS = "alertmanager:"
"""How keys begin that stand for groups of alerts (`store.groups`): they go with their session, not after a day."""

_MOST_WORDS = 8


@dataclass(frozen=True, kw_only=True)
class NewSession:
    """What `create` is given. Texts are masked."""

    id: str
    scope: str
    kind: str
    alert_type: str
    chain: str
    title: str
    alert: str
    runbook: str = ""
    override: Mapping[str, Any] | None = None
    encoding: str
    mark_key: bytes = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class IdempotencyKey:
    key: str
    digest: str
    """Of the body."""

    lives: timedelta = timedelta(hours=24)


@dataclass(frozen=True, kw_only=True)
class Created:
    session_id: str
    """That of the session the key was used for before, where `is_new` is false."""

    is_new: bool
    same_body: bool = True
    """Whether the key was used for the same body before."""

    events: Sequence[Logged] = ()


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

    @property
    def has_ended(self) -> bool:
        return self.status in ENDS

    @property
    def results_scope(self) -> str:
        return results_scope(self.id)


@dataclass(frozen=True, kw_only=True)
class Stage:
    id: str
    session_id: str
    position: int
    name: str
    status: PartStatus
    reason: str
    analysis: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class Execution:
    id: str
    session_id: str
    stage_id: str
    agent: str
    controller: str
    provider: str
    model: str
    status: PartStatus
    reason: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, kw_only=True)
class ClaimedSession:
    attempt: int
    """What every write of this worker carries."""

    status: Status
    """`in_progress`, or `cancelling` when all that is left is to end it."""

    events: Sequence[Logged]


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    status: Status
    """What the session is now: `cancelled` if nobody had begun, `cancelling` if somebody has to stop, or the end it
    had already.
    """

    events: Sequence[Logged]


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which sessions; what is not given does not matter."""

    statuses: Sequence[str] = ()
    alert_type: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    q: str = ""
    """Words; each has to be found in title, alert or analysis."""


@dataclass(frozen=True, kw_only=True)
class Listed:
    """A session as lists show it: without the texts, with the stage it is in."""

    session: Session
    stage: Stage | None
    """The one that is worked on, or the last one that was."""

    stage_count: int


def derived_id(session_id: str, key: str) -> str:
    """The id of something that belongs to a session: the same key finds the same row again."""
    return str(uuid.uuid5(uuid.UUID(session_id), key))


def results_scope(session_id: str) -> str:
    """Under which the session's results are kept."""
    return f"session:{session_id}"


# Submitting


async def create(
    db: AsyncConnection, new: NewSession, *, now: datetime, idempotency: IdempotencyKey | None = None
) -> Created:
    """Add a pending session; with a key that was used before nothing is added, and the earlier session is named."""
    if idempotency and (earlier := await _used_before(db, new, idempotency, now)):
        return earlier
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
    }
    await db.execute(_CREATING, values)
    told = await _tell_status(db, new.id, 1, [], SessionStatus(status="pending"), now)
    return Created(session_id=new.id, is_new=True, events=told)


_CREATING = sa.insert(sessions)


async def known(db: AsyncConnection, session_id: str) -> Created | None:
    """What `create` would have returned, had anybody heard of it: the connection was cut while it committed."""
    if not await db.scalar(sa.select(1).where(sessions.c.id == session_id)):
        return None
    return Created(session_id=session_id, is_new=True)


async def forget_keys(db: AsyncConnection, *, before: datetime, limit: int = 1_000) -> int:
    """Let go idempotency keys that were given before this time; how many went."""
    is_old = (idempotency_keys.c.created_at < before) & ~idempotency_keys.c.key.startswith(GROUP_KEYS)
    old = sa.select(idempotency_keys.c.scope, idempotency_keys.c.key).where(is_old).limit(limit)
    chosen = sa.tuple_(idempotency_keys.c.scope, idempotency_keys.c.key).in_(old)
    return (await db.execute(sa.delete(idempotency_keys).where(chosen))).rowcount


async def session_of_key(db: AsyncConnection, scope: str, key: str) -> str | None:
    """Which session a key was used for, e.g. to record on it that the alert is over."""
    mine = (idempotency_keys.c.scope == storable(scope)) & (idempotency_keys.c.key == storable(key))
    return await db.scalar(sa.select(idempotency_keys.c.session_id).where(mine))


async def _used_before(
    db: AsyncConnection, new: NewSession, idempotency: IdempotencyKey, now: datetime
) -> Created | None:
    scope, key = storable(new.scope), storable(idempotency.key)
    row = {"scope": scope, "key": key, "digest": idempotency.digest, "session_id": new.id, "created_at": now}
    insert = events.insert(db, idempotency_keys).values(row)
    # A key whose time is over is taken over. Of two who come at once one waits here for the other.
    is_over = idempotency_keys.c.created_at < now - idempotency.lives
    taken = insert.on_conflict_do_update(
        index_elements=["scope", "key"], set_={name: insert.excluded[name] for name in row}, where=is_over
    )
    if await db.scalar(taken.returning(idempotency_keys.c.session_id)):
        return None
    mine = (idempotency_keys.c.scope == scope) & (idempotency_keys.c.key == key)
    earlier = (await db.execute(sa.select(idempotency_keys).where(mine))).one()
    return Created(session_id=earlier.session_id, is_new=False, same_body=earlier.digest == idempotency.digest)


# Reading


async def find(db: AsyncConnection, session_id: str) -> Session:
    """
    Raises:
        SessionNotFound: There is none, or no longer.
    """
    row = (await db.execute(_FINDING, {"the_session": storable(session_id)})).one_or_none()
    if row is None:
        raise SessionNotFound(session_id)
    return _session(row)


_FINDING = sa.select(sessions).where(sessions.c.id == sa.bindparam("the_session"))


async def is_held(db: AsyncConnection, session_id: str, attempt: int) -> bool:
    """Whether a session still is that attempt's to work on."""
    return bool(await db.scalar(_HELD, {"the_session": session_id, "the_attempt": attempt}))


_HELD = sa.select(sa.literal(1)).where(
    sessions.c.id == sa.bindparam("the_session"), events.IS_OPEN, sessions.c.attempt == sa.bindparam("the_attempt")
)


async def stages_of(db: AsyncConnection, session_id: str) -> list[Stage]:
    rows = await db.execute(sa.select(stages).where(stages.c.session_id == session_id).order_by(stages.c.position))
    return [Stage(**row._mapping) for row in rows]


async def executions_of(db: AsyncConnection, session_id: str) -> list[Execution]:
    """In the order in which they began."""
    question = (
        sa.select(executions)
        .where(executions.c.session_id == session_id)
        .order_by(executions.c.started_at, executions.c.id)
    )
    return [Execution(**row._mapping) for row in await db.execute(question)]


async def counts(db: AsyncConnection) -> dict[str, int]:
    """How many sessions have which status; a status that none has is 0."""
    found = {row.status: row.number for row in await db.execute(_COUNTS)}
    return {status: found.get(status, 0) for status in (*OPEN, *ENDS)}


async def waiting(db: AsyncConnection) -> int:
    """How many sessions nobody has begun with."""
    return int(await db.scalar(_WAITING) or 0)


_WAITING = sa.select(sa.func.count()).where(sessions.c.status == "pending")
_COUNTS = sa.select(sessions.c.status, sa.func.count().label("number")).group_by(sessions.c.status)


async def with_status(db: AsyncConnection, *statuses: Status, executor: str | None = None) -> list[Session]:
    """The sessions with one of these statuses, the oldest first; with `executor` only those that this process works
    on.
    """
    question = sa.select(sessions).where(sessions.c.status.in_(statuses)).order_by(sessions.c.created_at, sessions.c.id)
    if executor is not None:
        question = question.where(sessions.c.executor == executor)
    return [_session(row) for row in await db.execute(question)]


async def list_page(
    db: AsyncConnection, filters: Filters, *, cursor: str | None = None, limit: int = 50
) -> tuple[list[Listed], str | None]:
    """Sessions, the newest first, and the cursor of the next page. What is submitted in between moves nothing.

    Raises:
        InputError: The cursor is none of ours.
    """
    texts = ("alert", "runbook", "analysis")
    columns = [sa.literal("").label(column.name) if column.name in texts else column for column in sessions.c]
    question = (
        sa.select(*columns)
        .where(*_chosen(filters))
        .order_by(sessions.c.created_at.desc(), sessions.c.id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        created, last = _opened(cursor)
        earlier = (sessions.c.created_at < created) | ((sessions.c.created_at == created) & (sessions.c.id < last))
        question = question.where(earlier)
    found = [_session(row) for row in await db.execute(question)]
    shown = found[:limit]
    theirs: dict[str, list[Stage]] = {session.id: [] for session in shown}
    if shown:
        rows = sa.select(stages).where(stages.c.session_id.in_(list(theirs))).order_by(stages.c.position)
        for row in await db.execute(rows):
            theirs[row.session_id].append(Stage(**row._mapping))
    listed = [
        Listed(session=session, stage=current(theirs[session.id]), stage_count=len(theirs[session.id]))
        for session in shown
    ]
    return listed, _closed(shown[-1]) if len(found) > limit else None


def current(of_session: Sequence[Stage]) -> Stage | None:
    """The stage that is worked on, or the last one that was."""
    return next((stage for stage in reversed(of_session) if stage.started_at), None)


def _chosen(filters: Filters) -> list[sa.ColumnElement[bool]]:
    chosen: list[sa.ColumnElement[bool]] = []
    if filters.statuses:
        chosen.append(sessions.c.status.in_(list(filters.statuses)))
    if filters.alert_type is not None:
        chosen.append(sessions.c.alert_type == storable(filters.alert_type))
    if filters.created_after is not None:
        chosen.append(sessions.c.created_at >= filters.created_after)
    if filters.created_before is not None:
        chosen.append(sessions.c.created_at < filters.created_before)
    for word in storable(filters.q).split()[:_MOST_WORDS]:
        texts = (sessions.c.title, sessions.c.alert, sessions.c.analysis)
        chosen.append(sa.or_(*(text.icontains(word, autoescape=True) for text in texts)))
    return chosen


def _closed(session: Session) -> str:
    return base64.urlsafe_b64encode(f"{session.created_at.isoformat()} {session.id}".encode()).decode().rstrip("=")


def _opened(cursor: str) -> tuple[datetime, str]:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
        created, _, last = text.partition(" ")
        moment = datetime.fromisoformat(created)
        if not last or "\x00" in last or moment.tzinfo is None:
            raise ValueError(text)
    except (ValueError, binascii.Error):
        raise InputError("The cursor is not one that a list of sessions gave. Start again without one.") from None
    return moment.astimezone(UTC), last


# Working


async def claim(db: AsyncConnection, session_id: str, executor: str, *, now: datetime) -> ClaimedSession:
    """Take a session over: from now on only writes with this attempt count.

    Raises:
        LostSession: It has ended, or is gone.
    """
    # Whether it was pending is known by its first attempt: nothing goes back there.
    row = (
        await db.execute(_CLAIMING, {"the_session": session_id, "executor": storable(executor), "now": now})
    ).one_or_none()
    if row is None:
        raise LostSession(f"Session {session_id} has ended; nobody can take it over.")
    logged: list[Logged] = []
    if row.attempt == 1:
        logged = await _tell_status(db, session_id, row.last_seq, [], SessionStatus(status="in_progress"), now)
    return ClaimedSession(attempt=row.attempt, status=row.status, events=logged)


_IS_PENDING = sessions.c.status == sa.literal_column("'pending'")
_CLAIMING = (
    sa.update(sessions)
    .where(sessions.c.id == sa.bindparam("the_session"), events.IS_OPEN)
    .values(
        attempt=sessions.c.attempt + 1,
        executor=sa.bindparam("executor"),
        status=sa.case((_IS_PENDING, "in_progress"), else_=sessions.c.status),
        started_at=sa.func.coalesce(sessions.c.started_at, sa.bindparam("now", type_=sessions.c.started_at.type)),
        last_seq=sessions.c.last_seq + sa.case((_IS_PENDING, 1), else_=0),
    )
    .returning(sessions.c.attempt, sessions.c.status, sessions.c.last_seq)
)


async def release(db: AsyncConnection, session_id: str, attempt: int) -> None:
    """Stop working on a session that others go on with: nobody has it until the next claim.

    Raises:
        LostSession: Somebody else has it already, or it has ended.
    """
    await events.advance(db, session_id, attempt, _RELEASING, by=0)


_RELEASING = events.advancing(changes={"executor": None})


async def record_crash(db: AsyncConnection, session_id: str, executor: str) -> int | None:
    """A process died while it worked on a session: how many did so in a row without getting any further.

    None when another process works on it by now, or it has ended; the same death is counted once. Should the process be
    alive
    after all, it can write nothing from now on: the attempt is a new one.
    """
    got_further = sessions.c.last_seq > sessions.c.seq_at_death
    change = (
        sa.update(sessions)
        .where(sessions.c.id == session_id, sessions.c.executor == storable(executor), sessions.c.status.in_(OPEN))
        .values(
            crashes=sa.case((got_further, 1), else_=sessions.c.crashes + 1),
            seq_at_death=sessions.c.last_seq,
            executor=None,
            attempt=sessions.c.attempt + 1,
        )
    )
    crashes: int | None = await db.scalar(change.returning(sessions.c.crashes))
    return crashes


async def request_cancel(db: AsyncConnection, session_id: str, *, reason: str, now: datetime) -> Cancellation:
    """Have a session stopped. One that nobody works on ends at once; asking again changes nothing.

    Raises:
        SessionNotFound: There is none.
    """
    asked = (
        sa.select(sessions.c.status, sessions.c.executor, sessions.c.reason)
        .where(sessions.c.id == storable(session_id))
        .with_for_update()
    )
    row = (await db.execute(asked)).one_or_none()
    if row is None:
        raise SessionNotFound(session_id)
    if row.status in OPEN and row.executor is None:
        return Cancellation(
            status="cancelled", events=await end_all(db, session_id, None, "cancelled", row.reason or reason, now=now)
        )
    if row.status != "in_progress":
        return Cancellation(status=row.status, events=())
    changed = await events.advance(db, session_id, None, _CANCELLING, {"why": storable(reason), "now": now})
    assert changed is not None
    told = await _tell_status(
        db, session_id, changed.last_seq, [], SessionStatus(status="cancelling", reason=storable(reason)), now
    )
    return Cancellation(status="cancelling", events=told)


_NOW = sa.bindparam("now", type_=sessions.c.ended_at.type)
_CANCELLING = events.advancing(
    changes={"status": "cancelling", "reason": sa.bindparam("why"), "cancel_requested_at": _NOW}
)


async def resolve(db: AsyncConnection, session_id: str, *, now: datetime) -> bool:
    """Record that whoever sent the alert says it is over; the investigation goes on. False when there is no such
    session.
    """
    change = sa.update(sessions).where(sessions.c.id == storable(session_id))
    first = sa.func.coalesce(sessions.c.resolved_at, sa.literal(now, sessions.c.resolved_at.type))
    return (await db.execute(change.values(resolved_at=first))).rowcount > 0


async def end_all(
    db: AsyncConnection,
    session_id: str,
    attempt: int | None,
    status: End,
    reason: str = "",
    *,
    analysis: str = "",
    now: datetime,
) -> list[Logged]:
    """End a session and everything of its own that is still open: once, and for good.

    Args:
        attempt: The worker's; None for those who end a session that nobody works on, or whose worker is to be shut out.

    Raises:
        LostSession: It has ended already, or belongs to another attempt.
    """
    given = {"end": status, "why": storable(reason), "found": storable(analysis) or None, "now": now}
    row = await events.advance(db, session_id, attempt, _ENDING, given, by=0)
    assert row is not None
    ended: list[tuple[str, StoredEvent]] = []
    ended += await timeline.end_streaming(db, session_id, "failed" if status == "failed" else "cancelled", now)
    await _end_parts(db, executions, session_id, status, now)
    for stage in sorted(await _end_parts(db, stages, session_id, status, now), key=lambda row: cast(int, row.position)):
        event = StageStatus(stage_id=stage.id, stage_name=stage.name, stage_index=stage.position, status=stage.status)
        ended.append((_stage_step(stage.id, stage.status), event))
    last_seq = row.last_seq + len(ended) + 1
    await db.execute(_NUMBERING, {"the_session": session_id, "last_seq": last_seq})
    return await _tell_status(
        db, session_id, last_seq, ended, SessionStatus(status=status, reason=storable(reason)), now
    )


_BEGAN = sa.func.coalesce(sessions.c.started_at, sessions.c.created_at)
_ENDING = events.advancing(
    changes={
        "status": sa.bindparam("end"),
        "reason": sa.bindparam("why"),
        "analysis": sa.func.coalesce(sa.bindparam("found", type_=sa.Text()), sessions.c.analysis),
        # Clocks can be set back; nothing ends before it began.
        "ended_at": sa.case((_BEGAN > _NOW, _BEGAN), else_=_NOW),
    }
)
_NUMBERING = sa.update(sessions).where(sessions.c.id == sa.bindparam("the_session"))


async def _end_parts(db: AsyncConnection, table: sa.Table, session_id: str, status: End, now: datetime) -> list[Any]:
    return list(await db.execute(_ending_parts(table), {"the_session": session_id, "end": status, "now": now}))


@functools.cache
def _ending_parts(table: sa.Table) -> Any:
    # What had not begun never will; what had begun ends as the session does.
    end = sa.case((table.c.status == "pending", "cancelled"), else_=sa.bindparam("end", type_=table.c.status.type))
    change = sa.update(table).where(table.c.session_id == sa.bindparam("the_session"), _is_open(table))
    return change.values(status=end, ended_at=_NOW).returning(table)


def _is_open(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.status.in_([sa.literal_column(f"'{status}'") for status in _PART_OPEN])


async def _tell_status(
    db: AsyncConnection,
    session_id: str,
    last_seq: int,
    before: Sequence[tuple[str, StoredEvent]],
    event: SessionStatus,
    now: datetime,
) -> list[Logged]:
    logged = await events.write(db, session_id, last_seq, [*before, (f"session/{event.status}", event)], now)
    return [*logged, await events.feed_append(db, session_id, event, now=now)]


# Stages and executions


async def plan_stages(db: AsyncConnection, session_id: str, attempt: int, names: Sequence[str]) -> list[str]:
    """The session's stages, pending, in their order; their ids. Planning again changes nothing.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    await events.advance(db, session_id, attempt, by=0)
    ids = [stage_id(session_id, position) for position in range(len(names))]
    rows = [
        {
            "id": id_,
            "session_id": session_id,
            "position": position,
            "name": storable(name),
            "status": "pending",
            "reason": "",
            "analysis": "",
        }
        for position, (id_, name) in enumerate(zip(ids, names, strict=True))
    ]
    if rows:
        await db.execute(_adding_once(db.dialect.name, stages), rows)
    return ids


@functools.cache
def _adding_once(dialect: str, table: sa.Table) -> Any:
    return events.insert_into(dialect, table).on_conflict_do_nothing()


def stage_id(session_id: str, position: int) -> str:
    return derived_id(session_id, f"stage/{position}")


async def move_stage(
    db: AsyncConnection,
    session_id: str,
    attempt: int,
    stage: str,
    status: PartStatus,
    *,
    reason: str = "",
    analysis: str = "",
    now: datetime,
) -> Logged | None:
    """Begin or end a planned stage; None when it was there already, or has ended otherwise.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    how = _UNLESS_BEGUN if status == "in_progress" else _UNLESS_ENDED
    row = await events.advance(db, session_id, attempt, how, {"the_stage": stage})
    if row is None:
        return None
    changes: dict[str, Any] = {"status": status, "reason": storable(reason), "analysis": storable(analysis)}
    changes |= {"started_at": now} if status == "in_progress" else {"ended_at": now}
    moved = (await db.execute(_MOVING, {"the_stage": stage, **changes})).one()
    event = StageStatus(stage_id=stage, stage_name=moved.name, stage_index=moved.position, status=status)
    (logged,) = await events.write(db, session_id, row.last_seq, [(_stage_step(stage, status), event)], now)
    return logged


_THE_STAGE = (stages.c.id == sa.bindparam("the_stage")) & (stages.c.session_id == sa.bindparam("the_session"))
_UNLESS_BEGUN = events.advancing(unless=~sa.exists().where(_THE_STAGE, stages.c.status == "pending"))
_UNLESS_ENDED = events.advancing(unless=~sa.exists().where(_THE_STAGE, _is_open(stages)))
_MOVING = sa.update(stages).where(stages.c.id == sa.bindparam("the_stage")).returning(stages.c.name, stages.c.position)


def _stage_step(stage: str, status: str) -> str:
    return f"stage/{stage}/{status}"


async def begin_execution(
    db: AsyncConnection,
    session_id: str,
    attempt: int,
    *,
    execution_id: str,
    stage_id: str,
    agent: str,
    controller: str,
    provider: str,
    model: str,
    now: datetime,
) -> None:
    """An agent begins with a stage. Beginning again changes nothing.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    await events.advance(db, session_id, attempt, by=0)
    row = {
        "id": execution_id,
        "session_id": session_id,
        "stage_id": stage_id,
        "agent": storable(agent),
        "controller": controller,
        "provider": storable(provider),
        "model": storable(model),
        "status": "in_progress",
        "reason": "",
        "started_at": now,
    }
    await db.execute(_adding_once(db.dialect.name, executions), row)


async def end_execution(
    db: AsyncConnection,
    session_id: str,
    attempt: int,
    execution_id: str,
    status: End,
    *,
    reason: str = "",
    now: datetime,
) -> None:
    """Raises: LostSession: The session has ended, or belongs to another attempt."""
    await events.advance(db, session_id, attempt, by=0)
    given = {
        "the_execution": execution_id,
        "the_session": session_id,
        "status": status,
        "reason": storable(reason),
        "ended_at": now,
    }
    await db.execute(_ENDING_EXECUTION, given)


_ENDING_EXECUTION = sa.update(executions).where(
    executions.c.id == sa.bindparam("the_execution"),
    executions.c.session_id == sa.bindparam("the_session"),
    _is_open(executions),
)


# Letting go


async def expired(db: AsyncConnection, *, days: float, now: datetime, limit: int = 100) -> list[str]:
    """Sessions that ended longer ago than this, the oldest first."""
    question = (
        sa.select(sessions.c.id)
        .where(sessions.c.ended_at < now - timedelta(days=days))
        .order_by(sessions.c.ended_at)
        .limit(limit)
    )
    return list(await db.scalars(question))


async def delete(db: AsyncConnection, session_id: str) -> int:
    """Delete an ended session with everything of its own, kept results included; how many results there were.

    Raises:
        SessionNotFound: There is none.
        SessionNotEnded: It is worked on, or will be.
    """
    gone = sa.delete(sessions).where(sessions.c.id == storable(session_id), sessions.c.status.in_(ENDS))
    if not (await db.execute(gone)).rowcount:
        raise SessionNotEnded(session_id, (await find(db, session_id)).status)
    await db.execute(sa.delete(feed).where(feed.c.session_id == session_id))
    await db.execute(sa.delete(idempotency_keys).where(idempotency_keys.c.session_id == session_id))
    return await results.forget(db, scope=results_scope(session_id))


# Processes that work


@dataclass(frozen=True, kw_only=True)
class Executor:
    id: str
    host: str
    version: str
    started_at: datetime
    seen_at: datetime
    leaving: bool


async def heartbeat(db: AsyncConnection, executor: str, *, host: str, version: str, leaving: bool = False) -> datetime:
    """A process says that it lives; when, is the database's clock to say, because all have the same. It comes back."""
    now = _database_time(db)
    row = {
        "id": executor,
        "host": storable(host),
        "version": version,
        "started_at": now,
        "seen_at": now,
        "leaving": leaving,
    }
    insert = events.insert(db, executors).values(row)
    seen = insert.on_conflict_do_update(index_elements=["id"], set_={"seen_at": now, "leaving": leaving})
    return cast(datetime, await db.scalar(seen.returning(executors.c.seen_at)))


async def alive(db: AsyncConnection, *, lease: float) -> list[Executor]:
    """Processes that were seen within this many seconds."""
    rows = await db.execute(sa.select(executors).where(~_unseen(db, lease)).order_by(executors.c.started_at))
    return [Executor(**row._mapping) for row in rows]


async def dead(db: AsyncConnection, *, lease: float) -> list[str]:
    """Processes that were not seen for this many seconds."""
    return list(await db.scalars(sa.select(executors.c.id).where(_unseen(db, lease))))


def _unseen(db: AsyncConnection, lease: float) -> sa.ColumnElement[bool]:
    # Seen in the future: the clock was set back. The living are seen again soon, the dead never.
    return (executors.c.seen_at < _database_time(db, -lease)) | (executors.c.seen_at > _database_time(db, lease))


async def forget_executor(db: AsyncConnection, executor: str) -> None:
    await db.execute(sa.delete(executors).where(executors.c.id == executor))


def _database_time(db: AsyncConnection, seconds: float = 0.0) -> sa.ColumnElement[datetime]:
    if db.dialect.name == "sqlite":
        # As SQLAlchemy writes times there, so that they compare as texts.
        text = sa.func.strftime("%Y-%m-%d %H:%M:%f", "now", f"{seconds:+.3f} seconds").concat("000")
        return sa.type_coerce(text, executors.c.seen_at.type)
    return cast(
        "sa.ColumnElement[datetime]", sa.func.clock_timestamp() + sa.func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    )


_COLUMNS = [one.name for one in fields(Session)]


def _session(row: Any) -> Session:
    values = {name: getattr(row, name) for name in _COLUMNS}
    values["override"] = None if row.override is None else json.loads(row.override)
    values["mark_key"] = bytes(row.mark_key)
    return Session(**values)
