"""Every event type, stored and transient: the one place to declare one.

An event is one JSON object in one serialization (`store.events.encode`); the same text
goes to live viewers, to viewers that catch up and to readers of the API. All begin
with `type`, `v`, `session_id`, `seq` (stored events only) and `timestamp`, followed by
the fields of their class in order. A field with a default is omitted if it has it.

`python -m tersely.events.schema` writes the JSON Schema of all types to
`docs/reference/events.schema.json`, from which clients generate theirs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Literal, get_args

from tersely.store.events import EventRow, encode
from tersely.store.interactions import InteractionType
from tersely.store.stages import ExecutionKind
from tersely.store.statuses import ENDS, End, PartStatus, Status
from tersely.store.timeline import STREAMING, EventStatus
from tersely.store.triage import Rating, TriageState

EventType = Literal[
    "llm_thinking",
    "llm_response",
    "llm_tool_call",
    "mcp_tool_summary",
    "notice",
    "error",
    "final_analysis",
    "verdict",
    "user_question",
    "chat_response",
]
"""What a timeline event shows. `notice`: a sentence about the run itself, e.g. that it was resumed after an update;
`verdict`: the executive summary, with the fields of the verdict as metadata; `user_question` and `chat_response`: a
follow-up question and its answer.
"""

FinalStatus = Literal["completed", "failed", "cancelled"]
"""How a timeline event ends."""

Phase = Literal["investigating", "gathering_info", "distilling", "concluding"]


@dataclass(frozen=True, kw_only=True)
class TimelineEventCreated:
    """A row of the timeline. With status `streaming` it grows until `timeline_event.completed`; otherwise it is
    complete, and no `timeline_event.completed` follows.
    """

    type: ClassVar = "timeline_event.created"
    event_id: str
    stage_id: str | None
    execution_id: str | None
    event_type: EventType
    status: EventStatus
    content: str
    metadata: Mapping[str, Any]
    sequence: int
    """Orders the rows of the timeline."""


@dataclass(frozen=True, kw_only=True)
class TimelineEventCompleted:
    """The final content of a row that was streaming; it replaces what the chunks showed."""

    type: ClassVar = "timeline_event.completed"
    event_id: str
    event_type: EventType
    status: FinalStatus
    content: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class SessionStatus:
    """A session has a new status. The channel `sessions` carries this event of every session, but not of follow-up
    questions, which are stored as sessions too.
    """

    type: ClassVar = "session.status"
    status: Status
    reason: str = ""
    """Why it is being cancelled, or why it ended."""


@dataclass(frozen=True, kw_only=True)
class ChatStatus:
    """A follow-up question about this session has a new status. Its own events are on the channel `session:CHAT_ID`."""

    type: ClassVar = "chat.status"
    chat_id: str
    number: int
    """Of the question, from 1."""

    status: Status
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class SessionTriaged:
    """A person assigned, acknowledged, closed, reopened or rated a session. On the channel `sessions` only: it is no
    part of the investigation.
    """

    type: ClassVar = "session.triaged"
    state: TriageState
    assignee: str = ""
    rating: Rating | Literal[""] = ""


@dataclass(frozen=True, kw_only=True)
class StageStatus:
    """A stage has a new status."""

    type: ClassVar = "stage.status"
    stage_id: str
    stage_name: str
    stage_index: int
    """From 0."""

    status: PartStatus


@dataclass(frozen=True, kw_only=True)
class ExecutionStatus:
    """An agent's execution in a stage has a new status. A stage has several: parallel agents, then their synthesis, and
    agents that work for another. Events of the timeline name theirs as `execution_id`.
    """

    type: ClassVar = "execution.status"
    execution_id: str
    stage_id: str
    agent: str
    """Its name in the stage, e.g. `kubernetes` or, of two replicas, `kubernetes #2`."""

    execution_index: int
    """From 0, within the stage."""

    status: PartStatus
    kind: ExecutionKind = "agent"
    parent_id: str | None = None
    """Of a sub-agent: the execution that handed out the task."""

    task: str = ""
    """Of a sub-agent."""

    provider: str = ""
    model: str = ""
    reason: str = ""
    """Why it failed, or ended early."""


@dataclass(frozen=True, kw_only=True)
class InteractionCreated:
    """The trace has a new entry."""

    type: ClassVar = "interaction.created"
    interaction_id: str
    interaction_type: InteractionType


@dataclass(frozen=True, kw_only=True)
class StreamChunk:
    """A streaming row of the timeline grew. Its content is now its first `offset` characters followed by `delta`."""

    type: ClassVar = "stream.chunk"
    event_id: str
    offset: int
    """Characters (code points) of the content before this chunk; 0 starts over."""

    delta: str


@dataclass(frozen=True, kw_only=True)
class ExecutionProgress:
    """What an agent is doing."""

    type: ClassVar = "execution.progress"
    execution_id: str
    phase: Phase
    message: str
    """One line, e.g. "Condensing cluster.get_pods (214,000 tokens)"."""


@dataclass(frozen=True, kw_only=True)
class SessionProgress:
    """Which stage a session is in."""

    type: ClassVar = "session.progress"
    stage_index: int
    """From 0."""

    stage_count: int
    stage_name: str


StoredEvent = (
    TimelineEventCreated
    | TimelineEventCompleted
    | SessionStatus
    | SessionTriaged
    | ChatStatus
    | StageStatus
    | ExecutionStatus
    | InteractionCreated
)
TransientEvent = StreamChunk | ExecutionProgress | SessionProgress

STORED: tuple[type[StoredEvent], ...] = get_args(StoredEvent)
TRANSIENT: tuple[type[TransientEvent], ...] = get_args(TransientEvent)


def stored_row(step: str, event: StoredEvent) -> EventRow:
    """The row with which the store appends an event, once per step and type."""
    return EventRow(step, event.type, _values(event))


def encode_transient(event: TransientEvent, session_id: str, now: datetime) -> str:
    """The text of an event that is published and not stored."""
    return encode(event.type, session_id, now, _values(event))


def _values(event: StoredEvent | TransientEvent) -> dict[str, Any]:
    values = {field.name: (field.default, getattr(event, field.name)) for field in fields(event)}
    return {name: value for name, (default, value) in values.items() if value != default}


@dataclass(frozen=True)
class Effect:
    """What a stored event changes for viewers of its channel."""

    opened: str | None = None
    """The timeline event that begins to stream."""

    closed: str | None = None
    """The timeline event that stops streaming."""

    session_end: End | None = None
    """The status with which the session ended."""


def effect_of(payload: str) -> Effect:
    """The effect of a stored event, from its text."""
    event = json.loads(payload)
    match event["type"]:
        case TimelineEventCreated.type:
            return Effect(opened=event["event_id"]) if event["status"] == STREAMING else Effect()
        case TimelineEventCompleted.type:
            return Effect(closed=event["event_id"])
        case SessionStatus.type if event["status"] in ENDS:
            return Effect(session_end=event["status"])
    return Effect()
