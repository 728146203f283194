"""The events, as viewers get them.

Each is one JSON object in one form (`store.events.encode`), and the same text
goes to live viewers, to those who catch up and to readers of the API. All begin
with `type`, `v`, `session_id`, `seq` (stored ones only) and `timestamp`; then:

| type | stored | fields |
|---|---|---|
| `timeline_event.created` | yes | `event_id, stage_id, execution_id, event_type, status, content, metadata, sequence` |
| `timeline_event.completed` | yes | `event_id, event_type, status, content, metadata` |
| `session.status` | yes | `status, reason?` |
| `stage.status` | yes | `stage_id, stage_name, stage_index, status` |
| `interaction.created` | yes | `interaction_id, interaction_type` |
| `stream.chunk` | no | `event_id, offset, delta` |
| `execution.progress` | no | `execution_id, phase, message` |
| `session.progress` | no | `stage_index, stage_count, stage_name` |

An event that is created with another status than `streaming` is whole; no `completed` follows. What a viewer has of a
streaming
event after a chunk is its first `offset` characters (code points) and then `delta`; what counts in the end is the
`content` of
`completed`. The stored shapes are declared in `store.events`, which writes them.
"""

import re
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, ClassVar, Literal

from tersely.store.events import encode

Phase = Literal["investigating", "gathering_info", "distilling", "concluding"]

TIMELINE_TYPES = ("llm_thinking", "llm_response", "llm_tool_call", "mcp_tool_summary", "error", "final_analysis")


@dataclass(frozen=True, kw_only=True)
class StreamChunk:
    type: ClassVar = "stream.chunk"
    event_id: str
    offset: int
    """Characters of the event that stand before this piece; 0 begins anew."""

    delta: str


@dataclass(frozen=True, kw_only=True)
class ExecutionProgress:
    type: ClassVar = "execution.progress"
    execution_id: str
    phase: Phase
    message: str
    """One line for a person, e.g. "Condensing cluster.get_pods (214,000 tokens)"."""


@dataclass(frozen=True, kw_only=True)
class SessionProgress:
    type: ClassVar = "session.progress"
    stage_index: int
    stage_count: int
    stage_name: str


def transient(event: StreamChunk | ExecutionProgress | SessionProgress, session_id: str, now: datetime) -> str:
    """An event that is told and not stored."""
    values: dict[str, Any] = {one.name: getattr(event, one.name) for one in fields(event)}
    return encode(event.type, session_id, now, values)


_LIFE = re.compile(
    r'\{"type":"timeline_event\.(?:(created)|completed)","v":\d+,"session_id":"[^"]*","seq":\d+,"timestamp":"[^"]*","event_id":"([^"]*)"'
    r'(?(1),"stage_id":[^,]*,"execution_id":[^,]*,"event_type":"[^"]*","status":"([^"]*)")'
)


def begins(payload: str) -> str | None:
    """The id of the timeline event that begins to stream with this stored event."""
    found = _LIFE.match(payload)
    return found[2] if found and found[3] == "streaming" else None


def ends(payload: str) -> str | None:
    """The id of the timeline event that is completed by this stored event."""
    found = _LIFE.match(payload)
    return found[2] if found and not found[1] else None


_END = re.compile(
    r'\{"type":"session\.status","v":\d+,"session_id":"[^"]*","seq":\d+,"timestamp":"[^"]*","status":"(completed|failed|cancelled|timed_out)"'
)


def session_end(payload: str) -> str | None:
    """How the session ended, where this stored event says so."""
    found = _END.match(payload)
    return found[1] if found else None
