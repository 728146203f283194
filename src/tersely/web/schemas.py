"""Request and response bodies, as the OpenAPI document shows them.

Only schemas. Request bodies forbid unknown fields at every depth: ignoring a
misspelt `mcp` would investigate with the wrong servers.
"""

from datetime import date, datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

from tersely.sessions.chat_intake import LONGEST_QUESTION
from tersely.sessions.overrides import Override
from tersely.store.stages import ExecutionKind
from tersely.store.statuses import Status as SessionStatus
from tersely.store.triage import Rating, TriageState

MAX_RUNBOOK_BYTES = 64 * 1024
"""In UTF-8."""


def format_moment(value: datetime) -> str:
    """UTC with milliseconds and `Z`, the only time format of the API."""
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"


Moment = Annotated[
    datetime,
    PlainSerializer(format_moment, return_type=str, when_used="json"),
    Field(description="UTC, ISO 8601 with milliseconds", examples=["2026-11-15T08:00:00.000Z"]),
]


Spared = Annotated[
    int, Field(description="Deprecated alias of `saved`, with the same value.", json_schema_extra={"deprecated": True})
]


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class _ResponseBody(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


# Errors


class ErrorDetail(_ResponseBody):
    field: str
    """Path of the field, e.g. `mcp.servers.0.name`."""

    message: str


class ErrorBody(_ResponseBody):
    code: str
    """For programs, e.g. `queue_full`."""

    message: str
    """For people: what happened and what to do."""

    details: list[ErrorDetail]


class Error(_ResponseBody):
    error: ErrorBody


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": Error, "description": "The request cannot be fulfilled; `message` says why"},
    "5XX": {"model": Error, "description": "The service cannot fulfil the request at the moment"},
}

# Requests


def _text_or_object(value: Any) -> Any:
    # One error instead of one for each type of the union.
    if not isinstance(value, str | dict):
        raise ValueError("must be text or an object")
    return value


class AlertIn(_RequestBody):
    """An alert to investigate."""

    alert_type: Annotated[str, StringConstraints(max_length=120)] | None = None
    """Selects the chain; by default the default chain. `/api/v1/alert-types` lists the known types."""

    data: Annotated[str | dict[str, Any], BeforeValidator(_text_or_object)]
    """The alert: text, or a JSON object of any shape."""

    mcp: Override | None = None
    """Servers and native tools for this alert only, instead of the chain's."""

    fingerprint: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """The same for alike alerts; by default derived from the alert's type and title."""

    runbook: str | None = None
    """Instructions for investigating this alert, up to 64 KiB. URLs in it are not fetched."""


class RatingIn(_RequestBody):
    rating: Rating
    note: Annotated[str, StringConstraints(max_length=2_000)] = ""
    """Why; masked before it is stored."""


class AssignIn(_RequestBody):
    assignee: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """Who looks after the session; the caller if it is left out, nobody if it is null."""


class CloseIn(_RequestBody):
    note: Annotated[str, StringConstraints(max_length=2_000)] = ""
    """What was done; masked before it is stored."""


class GroupedAlert(BaseModel):
    """One alert of an Alertmanager group; unknown fields are kept."""

    model_config = ConfigDict(extra="allow")

    status: str = "firing"
    labels: dict[str, Any] = {}
    annotations: dict[str, Any] = {}
    startsAt: str = ""  # noqa: N815 - Alertmanager's name
    fingerprint: str = ""


class AlertmanagerIn(BaseModel):
    """Alertmanager's webhook body, version 4; Grafana sends the same with more fields."""

    model_config = ConfigDict(extra="allow")

    status: Literal["firing", "resolved"]
    groupKey: Annotated[str, Field(min_length=1)]  # noqa: N815
    groupLabels: dict[str, Any] = {}  # noqa: N815
    commonLabels: dict[str, Any] = {}  # noqa: N815
    commonAnnotations: dict[str, Any] = {}  # noqa: N815
    alerts: Annotated[list[GroupedAlert], Field(min_length=1)]


class LoginIn(_RequestBody):
    token: Annotated[str, Field(min_length=1, max_length=4096)]


# Responses

Item = TypeVar("Item")


class CursorPage(_ResponseBody, Generic[Item]):
    items: list[Item]
    next_cursor: str | None
    """Pass it as `cursor` (or `after`, where the parameter has that name) for the next page; null on the last page."""


class AuditEntryOut(_ResponseBody):
    """One entry of the audit log."""

    id: int
    at: datetime
    action: str
    """What was asked for: submit, cancel, run_again, ask, cancel_question, rate, assign, acknowledge, close, reopen,
    delete, export, read_result, search_result, query_result, summarize_result, download_result, migrate, login, logout,
    read_audit_log, retry_server, read_configuration, or wrong_token.
    """

    principal: str
    """Who asked; empty where the credentials were wrong or missing."""

    method: str
    """How they proved it: loopback, token, cookie or proxy; mcp for the gateway, shell for commands on the machine."""

    address: str
    target: str
    """The session, or session and result, it was about."""

    status: int
    """The status of the answer: from 400 on, it was refused."""


class AcceptedOut(_ResponseBody):
    session_id: str
    status: SessionStatus
    """`pending`; of an alert that was accepted before: the present status of its session."""

    message: str


class RerunIn(_RequestBody):
    """What to change when a session is run again; nothing by default."""

    llm_provider: Annotated[str | None, Field(max_length=200)] = None
    """Another provider of `llm_providers`, for all stages."""

    chain: Annotated[str | None, Field(max_length=200)] = None
    """Another chain."""

    mcp: Override | None = None
    """Servers and tools as in an alert, instead of the first run's."""

    from_stage: Annotated[str | None, Field(max_length=200)] = None
    """Begin with this stage; the analyses of those before it are taken over."""


class QuestionIn(_RequestBody):
    question: Annotated[str, Field(max_length=LONGEST_QUESTION)]
    """The follow-up question, in plain words."""


class QuestionAcceptedOut(_ResponseBody):
    session_id: str
    """The session that the question is about."""

    chat_id: str
    """Of the question itself: its events are on the channel `session:CHAT_ID`."""

    number: int
    """Of the question in its session, from 1."""

    status: SessionStatus
    message: str


class GroupOut(_ResponseBody):
    session_id: str | None
    """Null if there is no session for a resolved group."""

    status: SessionStatus | Literal["resolved"]
    """Of the session; or `resolved`, if the group is."""

    message: str


class StageShort(_ResponseBody):
    index: int
    """From 0."""

    name: str
    count: int


class UsageOut(_ResponseBody):
    model_calls: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    price_usd: float | None
    """Null if the price of any call is unknown."""


class TokensOut(_ResponseBody):
    """Tokens of tool results, before and after condensing."""

    before: int
    after: int
    saved: int
    spared: Spared
    encoding: str


class ActionOut(_ResponseBody):
    text: str
    command: str
    """Empty if none is known."""


class CitationOut(_ResponseBody):
    source: str
    """`server.tool`"""

    handle: str
    """The kept result; empty if it was not kept. The quotation outlives it."""

    first_line: int
    last_line: int
    quote: str
    count: int
    """How often it occurs."""


class VerdictShort(_ResponseBody):
    cause: str
    """At most 120 characters; empty if none was found."""

    confidence: Literal["high", "medium", "low"]
    service: str
    """What is affected."""

    since: str
    """When it began, in ISO 8601; empty if unknown."""


class VerdictOut(VerdictShort):
    summary: str
    """One to four lines."""

    actions: list[ActionOut]
    evidence: list[CitationOut]
    against: list[CitationOut]
    """What another cause would explain, or this one does not."""

    unverified: int
    """Quotations of a model that no result contains; they were left out."""


class RatingOut(_ResponseBody):
    rating: Rating
    note: str
    by: str
    at: Moment


class TriageOut(_ResponseBody):
    """What people did with a session."""

    state: TriageState
    assignee: str | None
    acknowledged_by: str | None
    acknowledged_at: Moment | None
    closed_by: str | None
    closed_at: Moment | None
    close_note: str
    rating: RatingOut | None
    """Of the verdict; null if nobody rated it."""


class EarlierSessionOut(_ResponseBody):
    id: str
    created_at: Moment
    cause: str
    rating: Rating | None


class SeenBeforeOut(_ResponseBody):
    """Earlier sessions with a verdict that have the alert's fingerprint, or its type and the affected service."""

    count: int
    sessions: list[EarlierSessionOut]
    """The latest five, newest first."""


class NotificationOut(_ResponseBody):
    """A message about the session to people."""

    target: str
    """`slack:CHANNEL` or `email`."""

    kind: Literal["start", "end"]
    status: Literal["pending", "sending", "sent", "failed", "unknown"]
    """`unknown`: it may have been sent; it is not sent again."""

    reason: str
    sent_at: Moment | None


class FoundSessionOut(_ResponseBody):
    id: str
    status: SessionStatus
    alert_type: str
    title: str
    created_at: Moment
    ended_at: Moment | None
    cause: str
    service: str
    rating: Rating | None
    snippet: str
    """The part of title and verdict that matched."""

    ranges: list[tuple[int, int]]
    """Start and end of each matching word in `snippet`, in characters."""


class FoundSessionsOut(_ResponseBody):
    items: list[FoundSessionOut]


class RatingCountsOut(_ResponseBody):
    chain: str
    verdicts: int
    """Sessions that ended with a verdict."""

    rated: int
    right: int
    partly: int
    wrong: int


class RatingsOut(_ResponseBody):
    items: list[RatingCountsOut]
    """By chain."""

    verdicts: int
    rated: int
    right: int
    partly: int
    wrong: int


class SessionOut(_ResponseBody):
    id: str
    status: SessionStatus
    reason: str
    """Why the session ended, for people."""

    alert_type: str
    chain: str
    title: str
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    author: str
    attempt: int
    stage: StageShort | None
    """The current stage, or the last one."""

    severity: str
    """The label of that name in an alert in JSON, in small letters; empty if there is none."""

    verdict: VerdictShort | None
    """The result in fields; null where there is none, e.g. while the session runs."""

    usage: UsageOut
    tokens: TokensOut
    resolved_at: Moment | None
    """When the sender reported the alert as resolved."""

    fingerprint: str
    """The same for alike alerts; empty in sessions of older releases."""

    triage: TriageOut
    last_seq: int
    """Last sequence number of the event log; subscribe with the `last_seq` you have seen."""

    origin_id: str | None
    """The session that this one runs again, which may have been deleted since."""


class QuestionOut(_ResponseBody):
    """A follow-up question and its answer."""

    chat_id: str
    """Under this id as session id, its timeline, events and trace are read, and its channel is subscribed."""

    session_id: str
    number: int
    """From 1."""

    question: str
    answer: str
    """Empty until it is complete."""

    status: SessionStatus
    reason: str
    """Why the answer failed, was cut short or was cancelled; for people."""

    author: str
    created_at: Moment
    started_at: Moment | None
    ended_at: Moment | None
    usage: UsageOut
    tokens: TokensOut
    last_seq: int


class ExecutionOut(_ResponseBody):
    id: str
    agent: str
    controller: str
    provider: str
    model: str
    status: str
    reason: str
    """Why it failed, or ended early, e.g. at its budget."""

    started_at: Moment | None
    ended_at: Moment | None
    kind: ExecutionKind
    """`agent`; `synthesis` of the stage's agents; `sub_agent`, which works for another."""

    position: int
    """From 0, within the stage."""

    parent_id: str | None
    """Of a sub-agent: the execution that handed out the task."""

    task: str
    """Of a sub-agent."""

    analysis: str
    verdict: VerdictOut | None


class StageOut(_ResponseBody):
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
    """The override submitted with the alert."""

    analysis: str
    verdict: VerdictOut | None
    seen_before: SeenBeforeOut
    changes: dict[str, Any] | None
    """What was changed when it was run again: `llm_provider`, `from_stage`."""

    reruns: list[str]
    """The sessions that ran this one again, in order."""

    parent_id: str | None
    """Of a follow-up question: the session it is about."""

    questions: int
    """Follow-up questions about it."""

    notifications: list[NotificationOut]
    """Messages about it to Slack and by e-mail."""

    stages: list[StageOut]


class ComparedSessionOut(_ResponseBody):
    id: str
    title: str
    status: SessionStatus
    reason: str
    alert_type: str
    chain: str
    models: list[str]
    """Of its agents; `survey` for an agent without a model."""

    created_at: Moment
    duration_seconds: float | None
    verdict: VerdictOut | None
    analysis: str
    usage: UsageOut
    tokens: TokensOut
    origin_id: str | None


class ComparedStageSide(_ResponseBody):
    status: str
    duration_seconds: float | None
    agents: list[str]
    models: list[str]


class ComparedStageOut(_ResponseBody):
    name: str
    sessions: list[ComparedStageSide | None]
    """Of the first and of the second session; null where it has no such stage."""


class ComparedToolSide(_ResponseBody):
    calls: int
    errors: int
    result_tokens: int
    """Of its results, before they were condensed."""

    duration_ms: int


class ComparedToolOut(_ResponseBody):
    name: str
    """`server.tool`"""

    sessions: list[ComparedToolSide]


class ComparedEvidenceOut(_ResponseBody):
    both: list[CitationOut]
    """Quotations of both verdicts, as the first cites them."""

    only_first: list[CitationOut]
    only_second: list[CitationOut]


class ComparisonOut(_ResponseBody):
    """Two sessions side by side; lists of two are in the order of the path."""

    sessions: list[ComparedSessionOut]
    same_cause: bool
    """Whether both verdicts name a cause, and in the same words."""

    evidence: ComparedEvidenceOut
    stages: list[ComparedStageOut]
    tools: list[ComparedToolOut]


class SessionStatusOut(_ResponseBody):
    id: str
    status: SessionStatus
    reason: str
    last_seq: int


class TimelineEventOut(_ResponseBody):
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


class InteractionOut(_ResponseBody):
    id: str
    session_id: str
    stage_id: str | None
    execution_id: str | None
    interaction_type: str
    provider: str
    model: str
    request: dict[str, Any]
    """The arguments of a tool call; the parameters of a model call, with the number of messages."""

    response: dict[str, Any]
    error: str
    input_tokens: int
    output_tokens: int
    price_usd: float | None
    duration_ms: int
    created_at: Moment
    """When the call was sent."""

    parent_id: str | None = None
    """For a model call that summarizes a tool's result: the tool call."""


class InteractionDetailOut(InteractionOut):
    messages: list[dict[str, Any]]
    """The conversation as the model received it."""


class KeptResultOut(_ResponseBody):
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
    """The requested part, masked."""

    first_line: int
    last_line: int
    start_byte: int
    end_byte: int
    """Exclusive."""

    next: str | None
    """`lines=a-b` or `bytes=a-b` of the next part; null at the end of the requested range."""


class HitOut(_ResponseBody):
    line: int
    text: str
    """The line; of a long line, the part around the match."""

    start_byte: int
    """Of the line."""

    match: tuple[int, int]
    """Start and end of the match in `text`, in characters."""


class SearchOut(_ResponseBody):
    items: list[HitOut]
    next_cursor: str | None
    matching_lines: int
    counted_all: bool
    """False if counting stopped early: there are more matching lines."""

    lines: int


class LineRunOut(_ResponseBody):
    """Consecutive lines with the same fate."""

    first: int
    last: int
    kind: Literal["shown", "partial", "folded", "lost", "quoted", "cited", "unused"]
    """`folded` lines are represented by an exact count. A model quotes, cites or does not use a line."""


class ValuePlacesOut(_ResponseBody):
    """Paths of positions in a JSON document, counted from 0, e.g. `1.12-36,38.0`; each stands for all values below."""

    lost: list[str]
    partial: list[str]
    folded: list[str]


class LineKindOut(_ResponseBody):
    """Lines that are equal except for numbers and identifiers."""

    example: str
    count: int
    lines: list[tuple[int, int]]
    """First and last line of each run; at most 200 runs."""


class ResultAccountOut(_ResponseBody):
    method: Literal["structural", "model", "unknown"]
    """How the text was condensed; `unknown` if it was not, or not recorded."""

    lines: list[LineRunOut]
    """All lines, in order."""

    values: ValuePlacesOut
    counts: dict[str, int]
    """Lines by what became of them."""

    left_out: list[LineKindOut]
    """What the lines are that the text does not show, the most frequent kind first."""

    folded: list[LineKindOut]


class HistogramBucketOut(_ResponseBody):
    at: Moment | None
    """When it begins; null if the lines have no times."""

    first_line: int
    error: int
    warn: int
    other: int


class HistogramOut(_ResponseBody):
    items: list[HistogramBucketOut]
    first_error: int
    """The first line of level error; 0 if there is none."""


class AlertTypeOut(_ResponseBody):
    alert_type: str
    chain: str
    description: str
    default: bool
    """Whether alerts without a type get this one."""


class AlertTypesOut(_ResponseBody):
    items: list[AlertTypeOut]
    default: str | None


class ToolOut(_ResponseBody):
    name: str
    """The name in overrides and in the timeline."""

    called: str
    """The name that models use."""

    description: str
    read_only: bool | None
    destructive: bool | None
    refused: str | None
    """Why the configuration forbids agents to call it; null if they may."""

    policy: dict[str, Any] | None
    """How its results are condensed and masked; null if the server's policy applies."""

    odd: list[str]
    """Suspicious passages in its description, for review; usually empty."""

    redefined: bool
    """Whether its description changed since it was first seen."""


class McpServerOut(_ResponseBody):
    name: str
    state: Literal["starting", "ready", "retrying", "closed"]
    healthy: bool
    since: Moment
    last_error: str
    """Masked; empty if there was none."""

    protocol: str
    server_info: dict[str, Any]
    latency_ms: float | None
    restarts: int
    next_try: Moment | None
    address: str
    """Its command without arguments, or its URL without credentials and query."""

    output: str
    """The last lines the command wrote to standard error, masked."""

    instructions: str
    policy: dict[str, Any]
    """How its results are condensed and masked, and which tools may be called."""

    tools: list[ToolOut]
    unusable: list[str]
    """Listed tools that cannot be used, each with the reason."""


class McpServersOut(_ResponseBody):
    items: list[McpServerOut]


class ToolUseOut(_ResponseBody):
    day: date
    door: str
    """The entry point: `session` or `gateway`."""

    server: str
    tool: str
    calls: int
    errors: int
    condensed: int
    cached: int
    read_backs: int
    tokens_before: int
    tokens_after: int
    saved: int
    spared: Spared
    milliseconds: int
    latency: dict[int, int]
    """Calls per latency bucket, by upper bound in milliseconds."""


class SavingsOut(_ResponseBody):
    items: list[ToolUseOut]
    tokens_before: int
    tokens_after: int
    saved: int
    spared: Spared
    encoding: str


class DaySpendingOut(_ResponseBody):
    """The sessions of one chain that were submitted on one day (UTC)."""

    day: date
    chain: str
    sessions: int
    unknown: int
    """Sessions of unknown price, which `price_usd` does not contain."""

    price_usd: float
    saved_usd: float | None
    """What the saved tokens would have cost as input of the default model, once; null if its price is unknown."""

    input_tokens: int
    output_tokens: int
    tokens_saved: int


class ModelSpendingOut(_ResponseBody):
    model: str
    provider: str
    calls: int
    unknown: int
    """Calls of unknown price."""

    price_usd: float
    input_tokens: int
    output_tokens: int


class SpendingOut(_ResponseBody):
    days: list[DaySpendingOut]
    models: list[ModelSpendingOut]


class SystemProblemOut(_ResponseBody):
    subject: Literal["server", "database", "service"]
    name: str
    """Of the MCP server; empty for others."""

    message: str
    since: Moment | None


class SystemProblemsOut(_ResponseBody):
    items: list[SystemProblemOut]


class ConfigurationValueOut(_ResponseBody):
    key: str
    value: Any
    """Masked; secrets, arguments, headers and environment variables are `***`."""

    is_default: bool


class ConfigurationOut(_ResponseBody):
    items: list[ConfigurationValueOut]


class RetryOut(_ResponseBody):
    name: str
    state: str


class ProviderOut(_ResponseBody):
    name: str
    type: str
    model: str


class InfoOut(_ResponseBody):
    version: str
    auth: Literal["none", "tokens", "proxy"]
    principal: str
    scopes: list[str]
    providers: list[ProviderOut]
    model: str | None
    """The default model for investigations; null if they run without one."""

    store: Literal["sqlite", "postgresql"]
    limits: dict[str, int]


class LoginOut(_ResponseBody):
    principal: str
    scopes: list[str]
    expires_in: int


class CancelOut(_ResponseBody):
    session_id: str
    status: SessionStatus
    message: str


class HealthOut(_ResponseBody):
    status: Literal["ok"]
    version: str


class ReadyOut(_ResponseBody):
    status: Literal["ready", "not_ready"]
    reasons: list[str]
