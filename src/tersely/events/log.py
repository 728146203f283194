"""Changes of a session, each with the events that report it, in one transaction.

The store changes the rows and reserves numbers of the session's event log; this module
appends the events under those numbers. Functions return what was appended; the caller
publishes it after the transaction (`Bus.publish`).

Every write carries the worker's attempt and is keyed by its step: a repeated step
changes and appends nothing, and a worker that lost the session gets `LostSession`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from tersely.events.types import (
    ChatStatus,
    EventType,
    ExecutionStatus,
    FinalStatus,
    InteractionCreated,
    SessionStatus,
    StageStatus,
    StoredEvent,
    TimelineEventCompleted,
    TimelineEventCreated,
    stored_row,
)
from tersely.llm.messages import Message
from tersely.masking.masked import Masked
from tersely.store import claims, events, groups, interactions, sessions, stages, timeline
from tersely.store.claims import ClaimedSession, Question, SessionEnd
from tersely.store.database import Connection
from tersely.store.events import EventRow, Logged
from tersely.store.groups import Group
from tersely.store.idempotency import IdempotencyKey
from tersely.store.interactions import NewInteraction
from tersely.store.sessions import Created, NewSession
from tersely.store.stages import Execution, ExecutionEnd, MovedExecution, NewExecution, StageChange
from tersely.store.statuses import OPEN, PartStatus, Status
from tersely.store.timeline import NewTimelineEvent, TimelineCompletion


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    status: Status
    """`cancelled` if no worker had the session, `cancelling` if one has to stop, or the end it already had."""

    events: Sequence[Logged] = ()


async def create_session(
    db: Connection, new: NewSession, *, now: datetime, once: IdempotencyKey | Group | None = None
) -> tuple[Created, list[Logged]]:
    """Add a pending session; if the key or group has one, return that one and append nothing."""
    if isinstance(once, Group):
        created = await groups.create(db, new, once, now=now)
    else:
        created = await sessions.create(db, new, now=now, key=once)
    if not created.is_new:
        return created, []
    question = Question(session_id=new.parent_id, number=new.number or 0) if new.parent_id else None
    return created, await _append_status(db, new.id, 1, SessionStatus(status="pending"), now=now, question=question)


async def claim_session(
    db: Connection, session_id: str, executor: str, *, now: datetime
) -> tuple[ClaimedSession, list[Logged]]:
    """Assign a session to a worker under a new attempt.

    Raises:
        LostSession: It has ended, or was deleted.
    """
    claim = await claims.claim(db, session_id, executor, now=now)
    if claim.seq is None:
        return claim, []
    status = SessionStatus(status="in_progress")
    return claim, await _append_status(db, session_id, claim.seq, status, now=now, question=claim.question)


async def request_cancel(db: Connection, session_id: str, *, reason: str, now: datetime) -> Cancellation:
    """Cancel a session: at once if no worker has it, otherwise by asking its worker. Repeating it changes nothing.

    Raises:
        SessionNotFound: It does not exist.
    """
    session = await claims.lock(db, session_id)
    if session.status in OPEN and session.executor is None:
        end = SessionEnd(status="cancelled", reason=session.reason or reason)
        return Cancellation(status="cancelled", events=await end_session(db, session_id, None, end, now=now))
    if session.status != "in_progress":
        return Cancellation(status=session.status)
    seq = await claims.mark_cancelling(db, session_id, reason=reason, now=now)
    status = SessionStatus(status="cancelling", reason=reason)
    logged = await _append_status(db, session_id, seq, status, now=now, question=session.question)
    return Cancellation(status="cancelling", events=logged)


async def end_session(
    db: Connection, session_id: str, attempt: int | None, end: SessionEnd, *, now: datetime
) -> list[Logged]:
    """End a session and everything of it that is still open, once.

    Args:
        attempt: The worker's; None to end a session that has no worker, or whose worker is to be fenced off.

    Raises:
        LostSession: It has ended already, or belongs to another attempt.
    """
    ended = await claims.end(db, session_id, attempt, end, now=now)
    completed = [
        stored_row(
            f"end/{one.event_id}",
            _completed(
                TimelineCompletion(
                    event_id=one.event_id,
                    event_type=one.event_type,
                    status=one.status,
                    content=one.content,
                    metadata=one.metadata,
                )
            ),
        )
        for one in ended.streaming
    ]
    moved = [_stage_row(stage.id, stage.name, stage.position, stage.status) for stage in ended.stages]
    stopped = [_execution_row(execution) for execution in ended.executions]
    status = SessionStatus(status=end.status, reason=end.reason)
    before = [*completed, *stopped, *moved]
    return await _append_status(db, session_id, ended.last_seq, status, now=now, before=before, question=ended.question)


async def move_stage(
    db: Connection, session_id: str, attempt: int, change: StageChange, *, now: datetime
) -> Logged | None:
    """Begin or end a planned stage; None if it has that status already, or has ended.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    moved = await stages.move_stage(db, session_id, attempt, change, now=now)
    if moved is None:
        return None
    row = _stage_row(change.stage_id, moved.name, moved.position, change.status)
    return await _append(db, session_id, moved.seq, row, now=now)


async def begin_execution(
    db: Connection, session_id: str, attempt: int, new: NewExecution, *, now: datetime
) -> Logged | None:
    """Add a running execution; None if it was there.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    return await _moved(db, session_id, await stages.begin_execution(db, session_id, attempt, new, now=now), now)


async def end_execution(
    db: Connection, session_id: str, attempt: int, end: ExecutionEnd, *, now: datetime
) -> Logged | None:
    """End a running execution; None if it has ended.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    return await _moved(db, session_id, await stages.end_execution(db, session_id, attempt, end, now=now), now)


async def _moved(db: Connection, session_id: str, moved: MovedExecution | None, now: datetime) -> Logged | None:
    if moved is None:
        return None
    return await _append(db, session_id, moved.seq, _execution_row(moved.execution), now=now)


async def create_timeline_event(
    db: Connection, session_id: str, attempt: int, step: str, new: NewTimelineEvent, *, now: datetime
) -> Logged | None:
    """Add a row to the timeline; None if this step added it before.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    created = await timeline.create(db, session_id, attempt, new, now=now)
    if created is None:
        return None
    event = TimelineEventCreated(
        event_id=new.event_id,
        stage_id=new.stage_id,
        execution_id=new.execution_id,
        event_type=cast(EventType, new.event_type),
        status=new.status,
        content=new.content,
        metadata=new.metadata,
        sequence=created.sequence,
    )
    return await _append(db, session_id, created.seq, stored_row(f"{step}/{new.event_type}", event), now=now)


async def add_notice(
    db: Connection, session_id: str, step: str, content: Masked, metadata: Mapping[str, Any], *, now: datetime
) -> Logged | None:
    """Add a notice to the timeline that no worker of the session reports, also after its end; None if it is there."""
    new = NewTimelineEvent(
        event_id=sessions.derived_id(session_id, step),
        event_type="notice",
        content=content,
        metadata=metadata,
        status="completed",
    )
    created = await timeline.create_afterwards(db, session_id, new, now=now)
    if created is None:
        return None
    event = TimelineEventCreated(
        event_id=new.event_id,
        stage_id=None,
        execution_id=None,
        event_type="notice",
        status=new.status,
        content=new.content,
        metadata=new.metadata,
        sequence=created.sequence,
    )
    return await _append(db, session_id, created.seq, stored_row(f"{step}/notice", event), now=now)


async def complete_timeline_event(
    db: Connection, session_id: str, attempt: int, step: str, completion: TimelineCompletion, *, now: datetime
) -> Logged | None:
    """Complete a streaming row of the timeline; None if it was complete.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    seq = await timeline.complete(db, session_id, attempt, completion, now=now)
    if seq is None:
        return None
    row = stored_row(f"{step}/{completion.event_type}", _completed(completion))
    return await _append(db, session_id, seq, row, now=now)


async def add_interaction(
    db: Connection,
    session_id: str,
    attempt: int,
    new: NewInteraction,
    *,
    now: datetime,
    known: Mapping[Message, str] = {},
) -> Logged | None:
    """Add an exchange to the trace; None if this step added it before. For `known` see `store.interactions.add`.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    seq = await interactions.add(db, session_id, attempt, new, now=now, known=known)
    if seq is None:
        return None
    event = InteractionCreated(interaction_id=new.id, interaction_type=new.exchange.type)
    logged = await _append(db, session_id, seq, stored_row(f"{new.step}/{new.exchange.type}", event), now=now)
    await interactions.count(db, new.exchange, now=now)
    return logged


async def append(
    db: Connection, session_id: str, attempt: int | None, step: str, event: StoredEvent, *, now: datetime
) -> Logged | None:
    """Append an event that reports no change of a row; None if this step appended it before.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    return await events.append(db, session_id, attempt, stored_row(step, event), now=now)


async def _append(db: Connection, session_id: str, seq: int, row: EventRow, *, now: datetime) -> Logged:
    (logged,) = await events.write(db, session_id, seq, [row], now=now)
    return logged


async def _append_status(
    db: Connection,
    session_id: str,
    last_seq: int,
    event: SessionStatus,
    *,
    now: datetime,
    before: Sequence[EventRow] = (),
    question: Question | None,
) -> list[Logged]:
    """Append a session's status to its log, after other events, and to the feed of all sessions.

    That of a follow-up question goes to the log of the session it is about, instead of the feed.
    """
    row = stored_row(f"session/{event.status}", event)
    logged = await events.write(db, session_id, last_seq, [*before, row], now=now)
    if question:
        status = ChatStatus(chat_id=session_id, number=question.number, status=event.status, reason=event.reason)
        told = stored_row(f"chat/{question.number}/{event.status}", status)
        seq = await events.advance_ended(db, question.session_id)
        return [*logged, await _append(db, question.session_id, seq, told, now=now)]
    return [*logged, await events.feed_append(db, session_id, row, now=now)]


def _stage_row(stage_id: str, name: str, position: int, status: PartStatus) -> EventRow:
    event = StageStatus(stage_id=stage_id, stage_name=name, stage_index=position, status=status)
    return stored_row(f"stage/{stage_id}/{status}", event)


def _execution_row(execution: Execution) -> EventRow:
    event = ExecutionStatus(
        execution_id=execution.id,
        stage_id=execution.stage_id,
        agent=execution.agent,
        execution_index=execution.position,
        status=execution.status,
        kind=execution.kind,
        parent_id=execution.parent_id,
        task=execution.task,
        provider=execution.provider,
        model=execution.model,
        reason=execution.reason,
    )
    return stored_row(f"execution/{execution.id}/{execution.status}", event)


def _completed(completion: TimelineCompletion) -> TimelineEventCompleted:
    return TimelineEventCompleted(
        event_id=completion.event_id,
        event_type=cast(EventType, completion.event_type),
        status=cast(FinalStatus, completion.status),
        content=completion.content,
        metadata=completion.metadata,
    )
