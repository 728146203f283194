"""Stages of a session and the agents' executions in them. Every write carries the worker's attempt."""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.packing import storable
from tersely.store.sessions import derived_id
from tersely.store.statuses import End, PartStatus
from tersely.store.tables import executions, sessions, stages

_OPEN = ("pending", "in_progress")

ExecutionKind = Literal["agent", "synthesis", "sub_agent"]
"""What an execution is: an agent of the stage, the synthesis of several agents, or an agent that works for another."""


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
class StageChange:
    """The next status of a stage."""

    stage_id: str
    status: PartStatus
    reason: str = ""
    analysis: str = ""


@dataclass(frozen=True)
class MovedStage:
    name: str
    position: int
    seq: int
    """The number of the event log that is reserved for the event."""


@dataclass(frozen=True, kw_only=True)
class NewExecution:
    """An agent that begins to work on a stage."""

    id: str
    stage_id: str
    agent: str
    controller: str
    provider: str
    model: str
    kind: ExecutionKind = "agent"
    position: int = 0
    """From 0, within the stage."""

    parent_id: str | None = None
    """Of a sub-agent: the execution that handed out the task."""

    task: str = ""


@dataclass(frozen=True, kw_only=True)
class ExecutionEnd:
    """The end of an execution, with its result."""

    execution_id: str
    status: End
    reason: str = ""
    analysis: str = ""
    verdict: Mapping[str, Any] | None = None


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
    kind: ExecutionKind
    position: int
    parent_id: str | None
    task: str
    analysis: str
    verdict: Mapping[str, Any] | None


@dataclass(frozen=True)
class MovedExecution:
    execution: Execution
    seq: int
    """The number of the event log that is reserved for the event."""


async def stages_of(db: AsyncConnection, session_id: str) -> list[Stage]:
    rows = await db.execute(sa.select(stages).where(stages.c.session_id == session_id).order_by(stages.c.position))
    return [Stage(**row._mapping) for row in rows]


async def executions_of(db: AsyncConnection, session_id: str) -> list[Execution]:
    """In the order of their positions within a stage."""
    question = (
        sa.select(executions)
        .where(executions.c.session_id == session_id)
        .order_by(executions.c.position, executions.c.started_at, executions.c.id)
    )
    return [_execution(row) for row in await db.execute(question)]


def _execution(row: sa.Row[Any]) -> Execution:
    values = dict(row._mapping)
    values["verdict"] = None if row.verdict is None else json.loads(row.verdict)
    return Execution(**values)


async def began(
    db: AsyncConnection, session_id: str, stage_id: str | None, execution_id: str | None
) -> datetime | None:
    """When an execution began, else the stage, else the session."""
    table, id_ = (
        (executions, execution_id) if execution_id else (stages, stage_id) if stage_id else (sessions, session_id)
    )
    found: datetime | None = await db.scalar(sa.select(table.c.started_at).where(table.c.id == id_))
    return found


async def family(db: AsyncConnection, session_id: str, execution_id: str | None) -> set[str | None]:
    """An execution, those that handed its task down to it, and all to which these handed out tasks."""
    question = sa.select(executions.c.id, executions.c.parent_id).where(executions.c.session_id == session_id)
    parents: dict[str | None, str | None] = {row.id: row.parent_id for row in await db.execute(question)}

    def root(id_: str | None) -> str | None:
        while parent := parents.get(id_):
            id_ = parent
        return id_

    return {execution_id} | {id_ for id_ in parents if root(id_) == root(execution_id)}


def current(of_session: Sequence[Stage]) -> Stage | None:
    """The running stage, or the last one that ran."""
    return next((stage for stage in reversed(of_session) if stage.started_at), None)


def stage_id(session_id: str, position: int) -> str:
    return derived_id(session_id, f"stage/{position}")


async def plan_stages(db: AsyncConnection, session_id: str, attempt: int, names: Sequence[str]) -> list[str]:
    """Insert a session's stages as pending, in order; returns their ids. Repeating it changes nothing.

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
        await db.execute(_insert_once(db.dialect.name, stages), rows)
    return ids


@functools.cache
def _insert_once(dialect: str, table: sa.Table) -> Any:
    return events.insert_into(dialect, table).on_conflict_do_nothing()


async def move_stage(
    db: AsyncConnection, session_id: str, attempt: int, change: StageChange, *, now: datetime
) -> MovedStage | None:
    """Begin or end a planned stage; None if it has that status already, or has ended.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    how = _UNLESS_BEGUN if change.status == "in_progress" else _UNLESS_ENDED
    row = await events.advance(db, session_id, attempt, how, {"the_stage": change.stage_id})
    if row is None:
        return None
    values: dict[str, Any] = {
        "status": change.status,
        "reason": storable(change.reason),
        "analysis": storable(change.analysis),
    }
    values |= {"started_at": now} if change.status == "in_progress" else {"ended_at": now}
    moved = (await db.execute(_MOVING, {"the_stage": change.stage_id, **values})).one()
    return MovedStage(name=moved.name, position=moved.position, seq=row.last_seq)


def _is_open(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.status.in_([sa.literal_column(f"'{status}'") for status in _OPEN])


_THE_STAGE = (stages.c.id == sa.bindparam("the_stage")) & (stages.c.session_id == sa.bindparam("the_session"))
_UNLESS_BEGUN = events.advancing(unless=~sa.exists().where(_THE_STAGE, stages.c.status == "pending"))
_UNLESS_ENDED = events.advancing(unless=~sa.exists().where(_THE_STAGE, _is_open(stages)))
_MOVING = sa.update(stages).where(stages.c.id == sa.bindparam("the_stage")).returning(stages.c.name, stages.c.position)


async def begin_execution(
    db: AsyncConnection, session_id: str, attempt: int, new: NewExecution, *, now: datetime
) -> MovedExecution | None:
    """Insert a running execution; None if it was there.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    row = await events.advance(db, session_id, attempt, _UNLESS_THERE, {"the_execution": new.id})
    if row is None:
        return None
    values = {
        "id": new.id,
        "session_id": session_id,
        "stage_id": new.stage_id,
        "agent": storable(new.agent),
        "controller": new.controller,
        "provider": storable(new.provider),
        "model": storable(new.model),
        "status": "in_progress",
        "reason": "",
        "started_at": now,
        "kind": new.kind,
        "position": new.position,
        "parent_id": new.parent_id,
        "task": storable(new.task),
        "analysis": "",
    }
    added = (await db.execute(_ADDING_EXECUTION, values)).one()
    return MovedExecution(_execution(added), row.last_seq)


async def end_execution(
    db: AsyncConnection, session_id: str, attempt: int, end: ExecutionEnd, *, now: datetime
) -> MovedExecution | None:
    """End a running execution; None if it has ended.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    row = await events.advance(db, session_id, attempt, _UNLESS_OVER, {"the_execution": end.execution_id})
    if row is None:
        return None
    values = {
        "the_execution": end.execution_id,
        "status": end.status,
        "reason": storable(end.reason),
        "analysis": storable(end.analysis),
        "verdict": None if end.verdict is None else events.dumped(end.verdict),
        "ended_at": now,
    }
    return MovedExecution(_execution((await db.execute(_ENDING_EXECUTION, values)).one()), row.last_seq)


_THE_EXECUTION = (executions.c.id == sa.bindparam("the_execution")) & (
    executions.c.session_id == sa.bindparam("the_session")
)
_UNLESS_THERE = events.advancing(unless=sa.exists().where(_THE_EXECUTION))
_UNLESS_OVER = events.advancing(unless=~sa.exists().where(_THE_EXECUTION, _is_open(executions)))
_ADDING_EXECUTION = sa.insert(executions).returning(executions)
_ENDING_EXECUTION = sa.update(executions).where(executions.c.id == sa.bindparam("the_execution")).returning(executions)


async def replace_end(db: AsyncConnection, session_id: str, attempt: int, end: StageChange | ExecutionEnd) -> None:
    """Store how a stage or an execution ended that had ended before: after a rewind it may end in another way.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    await events.advance(db, session_id, attempt, by=0)
    values: dict[str, Any] = {
        "status": end.status,
        "reason": storable(end.reason),
        "analysis": storable(end.analysis),
    }
    if isinstance(end, StageChange):
        table, id_ = stages, end.stage_id
    else:
        table, id_ = executions, end.execution_id
        values["verdict"] = None if end.verdict is None else events.dumped(end.verdict)
    await db.execute(sa.update(table).where(table.c.id == id_, table.c.session_id == session_id).values(values))


async def end_open(
    db: AsyncConnection, session_id: str, status: End, now: datetime
) -> tuple[list[Stage], list[Execution]]:
    """End the open stages and executions of a session; returns them. The caller has locked the session."""
    given = {"the_session": session_id, "end": status, "now": now}
    running = [_execution(row) for row in await db.execute(_ending(executions), given)]
    ended = [Stage(**row._mapping) for row in await db.execute(_ending(stages), given)]
    return sorted(ended, key=lambda stage: stage.position), sorted(running, key=lambda one: (one.position, one.id))


@functools.cache
def _ending(table: sa.Table) -> Any:
    # What has not begun is cancelled; what has begun ends as the session does.
    end = sa.case((table.c.status == "pending", "cancelled"), else_=sa.bindparam("end", type_=table.c.status.type))
    change = sa.update(table).where(table.c.session_id == sa.bindparam("the_session"), _is_open(table))
    now = sa.bindparam("now", type_=sessions.c.ended_at.type)
    return change.values(status=end, ended_at=now).returning(table)
