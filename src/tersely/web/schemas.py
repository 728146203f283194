"""What goes over the wire: the bodies we take and those we answer with, as the OpenAPI document shows them.

Shapes only. Bodies that we take refuse fields they do not know, at every depth:
a misspelt `mcp` that is silently ignored would investigate something else.
"""

from datetime import date, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

from tersely.sessions.overrides import Override

SessionStatus = Literal["pending", "in_progress", "cancelling", "completed", "failed", "cancelled", "timed_out"]

LONGEST_RUNBOOK = 64 * 1024
"""Bytes in UTF-8."""


def moment(value: datetime) -> str:
    """UTC, with milliseconds and Z: the one form of a time on the wire."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


Moment = Annotated[
    datetime,
    PlainSerializer(moment, return_type=str, when_used="json"),
    Field(description="UTC, ISO 8601 with milliseconds", examples=["2026-11-15T08:00:00.000Z"]),
]


class _Taken(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class _Given(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


# What goes wrong


class ErrorDetail(_Given):
    field: str
    """Which one, e.g. `mcp.servers.0.name`."""

    message: str


class ErrorBody(_Given):
    code: str
    """One word for programs, e.g. `queue_full`."""

    message: str
    """What happened and what to do, for people."""

    details: list[ErrorDetail]


class Error(_Given):
    error: ErrorBody


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Error, "description": "What was asked cannot be done; the message says why"},
    "5XX": {"model": Error, "description": "It cannot be done at the moment"},
}

# What we take


def _text_or_object(value: Any) -> Any:
    # Said once; by itself each of the two would complain.
    if not isinstance(value, str | dict):
        raise ValueError("must be text or an object")
    return value


class AlertIn(_Taken):
    """An alert to investigate."""

    alert_type: Annotated[str, StringConstraints(max_length=120)] | None = None
    """Chooses the chain; without it the default. `/api/v1/alert-types` lists what is known."""

    data: Annotated[str | dict[str, Any], BeforeValidator(_text_or_object)]
    """The alert: text, or a JSON object of any shape."""

    mcp: Override | None = None
    """Servers and native tools of this alert alone, instead of the chain's."""

    runbook: str | None = None
    """Text that tells how such an alert is worked on, up to 64 KiB. An address in it is not fetched."""


class GroupedAlert(BaseModel):
    """One alert of Alertmanager's group; fields we do not name are kept."""

    model_config = ConfigDict(extra="allow")

    status: str = "firing"
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    startsAt: str = ""  # noqa: N815 - their name
    fingerprint: str = ""


class AlertmanagerIn(BaseModel):
    """Alertmanager's webhook body, version 4; Grafana sends the same with more."""

    model_config = ConfigDict(extra="allow")

    status: Literal["firing", "resolved"]
    groupKey: Annotated[str, Field(min_length=1)]  # noqa: N815
    groupLabels: dict[str, Any] = {}  # noqa: N815
    commonLabels: dict[str, Any] = {}  # noqa: N815
    commonAnnotations: dict[str, Any] = {}  # noqa: N815
    alerts: Annotated[list[GroupedAlert], Field(min_length=1)]


class LoginIn(_Taken):
    token: Annotated[str, Field(min_length=1, max_length=4096)]


# What we answer with

Item = TypeVar("Item")


class CursorPage(_Given, Generic[Item]):
    items: list[Item]
    next_cursor: str | None
    """Pass as `cursor` (`after`, where that is its name) for the next page; null at the end."""


class AcceptedOut(_Given):
    session_id: str
    status: Literal["queued"]
    message: str


class GroupOut(_Given):
    session_id: str | None
    """Null where a group was resolved that nobody investigates."""

    status: Literal["queued", "resolved"]
    message: str


class StageShort(_Given):
    index: int
    """From 0."""

    name: str
    count: int


class UsageOut(_Given):
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    price_usd: float | None
    """Null once a price is unknown."""


class TokensOut(_Given):
    """What tools returned, and what of it the conversation got."""

    before: int
    after: int
    spared: int
    encoding: str


class SessionOut(_Given):
    id: str
    status: SessionStatus
    reason: str
    """Why it ended, in plain words."""

    alert_type: str
    chain: str
    title: str
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    author: str
    attempt: int
    stage: StageShort | None
    """The one that is worked on, or was last."""

    usage: UsageOut
    tokens: TokensOut
    resolved_at: Moment | None
    """When whoever sent the alert said that it is over."""

    last_seq: int
    """Of its event log: subscribe with `last_seq` of what you have seen."""


class ExecutionOut(_Given):
    id: str
    agent: str
    controller: str
    provider: str
    model: str
    status: str
    reason: str
    started_at: Moment | None
    ended_at: Moment | None


class StageOut(_Given):
    id: str
    index: int
    name: str
    status: str
    reason: str
    analysis: str
    started_at: Moment | None
    ended_at: Moment | None
    executions: list[ExecutionOut]


class SessionDetailOut(SessionOut):
    alert: str
    """Masked."""

    runbook: str
    mcp: dict[str, Any] | None
    """The override that came with the alert."""

    analysis: str
    stages: list[StageOut]


class SessionStatusOut(_Given):
    id: str
    status: SessionStatus
    reason: str
    last_seq: int


class TimelineEventOut(_Given):
    event_id: str
    session_id: str
    stage_id: str | None
    execution_id: str | None
    event_type: str
    status: str
    content: str
    metadata: dict[str, Any]
    sequence: int
    created_at: Moment
    completed_at: Moment | None


class EventOut(BaseModel):
    """An event exactly as the WebSocket sends it."""

    model_config = ConfigDict(extra="allow")

    type: str
    v: int
    session_id: str
    seq: int
    timestamp: str


class InteractionOut(_Given):
    id: str
    session_id: str
    stage_id: str | None
    execution_id: str | None
    interaction_type: str
    provider: str
    model: str
    request: dict[str, Any]
    """The call for tools; for models what was set, and how many messages there were."""

    response: dict[str, Any]
    error: str
    input_tokens: int
    output_tokens: int
    price_usd: float | None
    duration_ms: int
    created_at: Moment


class InteractionDetailOut(InteractionOut):
    messages: list[dict[str, Any]]
    """The conversation as the model got it."""


class KeptResultOut(_Given):
    handle: str
    server: str
    tool: str
    arguments: Any
    """Masked."""

    part: int
    kind: Literal["text", "structured", "image", "other"]
    mime_type: str
    bytes: int
    lines: int
    tokens: int | None
    encoding: str | None
    called_at: Moment
    created_at: Moment
    expires_at: Moment


class ResultRangeOut(KeptResultOut):
    text: str
    """What was asked for, masked as it was kept."""

    first_line: int
    last_line: int
    start_byte: int
    end_byte: int
    """Not included."""

    next: str | None
    """`lines=a-b` or `bytes=a-b` of what follows; null at the end of what was asked for."""


class HitOut(_Given):
    line: int
    text: str
    """The line, or what stands around the match in a long one."""

    start_byte: int
    """Of the line."""

    match: tuple[int, int]
    """Where in `text` the match stands, in characters."""


class SearchOut(_Given):
    items: list[HitOut]
    next_cursor: str | None
    matching_lines: int
    counted_all: bool
    """False where counting was ended: there are more."""

    lines: int


class AlertTypeOut(_Given):
    alert_type: str
    chain: str
    description: str
    default: bool
    """Taken for alerts that name no type."""


class AlertTypesOut(_Given):
    items: list[AlertTypeOut]
    default: str | None


class ToolOut(_Given):
    name: str
    """As the override and the timeline call it."""

    called: str
    """As models call it."""

    description: str
    read_only: bool | None
    destructive: bool | None
    refused: str | None
    """Why the configuration does not let agents call it."""

    policy: dict[str, Any] | None
    """How its results are condensed and masked, where that is otherwise than the server's."""

    odd: list[str]
    """What a person should look at in its description; empty for ordinary tools."""

    redefined: bool
    """Described otherwise than when it was first seen."""


class McpServerOut(_Given):
    name: str
    state: Literal["starting", "ready", "retrying", "closed"]
    healthy: bool
    since: Moment
    last_error: str
    """Masked; empty where there was none."""

    protocol: str
    server_info: dict[str, Any]
    latency_ms: float | None
    restarts: int
    next_try: Moment | None
    instructions: str
    policy: dict[str, Any]
    """How its results are condensed and masked, and which tools may be called."""

    tools: list[ToolOut]
    unusable: list[str]
    """Tools that it lists and that cannot be used, and why."""


class McpServersOut(_Given):
    items: list[McpServerOut]


class ToolUseOut(_Given):
    day: date
    door: str
    """`session` or `gateway`."""

    server: str
    tool: str
    calls: int
    errors: int
    condensed: int
    cached: int
    read_backs: int
    tokens_before: int
    tokens_after: int
    spared: int
    milliseconds: int
    latency: dict[int, int]
    """Calls by the upper edge of their bucket, in milliseconds."""


class SavingsOut(_Given):
    items: list[ToolUseOut]
    tokens_before: int
    tokens_after: int
    spared: int
    encoding: str


class ProviderOut(_Given):
    name: str
    type: str
    model: str


class InfoOut(_Given):
    version: str
    auth: Literal["none", "tokens", "proxy"]
    principal: str
    scopes: list[str]
    providers: list[ProviderOut]
    model: str | None
    """The model that investigates by default; null where the embedded survey does."""

    store: Literal["sqlite", "postgresql"]
    limits: dict[str, int]


class LoginOut(_Given):
    principal: str
    scopes: list[str]
    expires_in: int


class CancelOut(_Given):
    session_id: str
    status: SessionStatus
    message: str


class HealthOut(_Given):
    status: Literal["ok"]
    version: str


class ReadyOut(_Given):
    status: Literal["ready", "not_ready"]
    reasons: list[str]
