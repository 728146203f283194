"""The trace: every exchange with a model or a tool, with its usage and price.

A conversation grows by a message or two with every call, so each message is stored
once in `messages` and an interaction refers to the messages it sent. Usage is added
to the session's sums and to the tool statistics in the same transaction, and only
if the interaction is new: a session's sums are those of its trace.
"""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import InputError
from tersely.llm.messages import Message, Usage
from tersely.store import events
from tersely.store import usage as tool_usage
from tersely.store.packing import storable
from tersely.store.tables import interactions, messages, sessions
from tersely.store.tally import Tally

InteractionType = Literal["iteration", "final_analysis", "executive_summary", "chat_response", "summarization", "mcp"]

UNKNOWN = "(unknown)"
"""Server and tool in the statistics of calls to tools that do not exist; no server can have this name."""


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """One exchange. Everything in it is masked."""

    type: InteractionType
    provider: str = ""
    """Empty for a tool call."""

    model: str = ""
    messages: Sequence[Message] = ()
    """Sent to the model."""

    request: Mapping[str, Any] = field(default_factory=dict)
    """What else was sent. For a tool call: `server`, `tool` and `arguments`; for a call that read a kept result instead
    of calling a server: `read_back` with the `server` and `tool` of that result, or empty; `unknown` if there is no
    such tool.
    """

    response: Mapping[str, Any] = field(default_factory=dict)
    """`text`, `thinking`, `tool_calls` and `outcome`; for a tool call the displayed part as `content`, `handle`,
    `tokens`, `tokens_after`, and `summary` if the result was condensed.
    """

    usage: Usage = field(default_factory=Usage)
    duration_ms: int = 0
    error: str = ""
    tokens_before: int = 0
    """Of a tool result as it arrived. Added to the session's sum, so only the interaction of the tool call sets it."""

    tokens_after: int = 0
    """Of the part that entered the conversation."""

    started_at: datetime | None = None
    """When it was sent, which decides its place in the trace; None: now."""

    parent_step: str = ""
    """For an exchange that summarizes a tool's result: the step of the tool call."""


@dataclass(frozen=True, kw_only=True)
class NewInteraction:
    """An exchange to add, with its identity and its place in the session."""

    id: str
    step: str
    stage_id: str | None = None
    execution_id: str | None = None
    parent_id: str | None = None
    """The tool call to which an exchange belongs."""

    exchange: Interaction


@dataclass(frozen=True, kw_only=True)
class StoredInteraction:
    id: str
    session_id: str
    stage_id: str | None
    execution_id: str | None
    type: InteractionType
    provider: str
    model: str
    request: Mapping[str, Any]
    """As recorded; if messages were sent, `messages` has their digests."""

    response: Mapping[str, Any]
    error: str
    input_tokens: int
    output_tokens: int
    price_micros: int | None
    duration_ms: int
    created_at: datetime
    """When it was sent."""

    parent_id: str | None = None
    """The tool call whose result this exchange summarizes."""


def micros(price: Decimal | None) -> int | None:
    """US dollars in millionths."""
    return None if price is None else int((price * 1_000_000).to_integral_value(ROUND_HALF_UP))


def digest_and_text(message: Message) -> tuple[str, str]:
    """The digest under which a message is stored in its session, and the stored text."""
    called = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    answers = message.answers and {"id": message.answers.id, "name": message.answers.name}
    text = events.dumped({"role": message.role, "text": message.text, "tool_calls": called, "answers": answers})
    return hashlib.sha256(text.encode()).hexdigest(), text


async def add(
    db: AsyncConnection,
    session_id: str,
    attempt: int,
    new: NewInteraction,
    *,
    now: datetime,
    known: Mapping[Message, str] = {},
) -> int | None:
    """Add an exchange and its usage; returns the number of the event log reserved for the event.

    None if this step added it before.

    Args:
        known: Digests of messages that are certainly stored, so that a long conversation is not sent again each time.

    Raises:
        LostSession: The session has ended, or belongs to another attempt.
    """
    record = new.exchange
    usage, price = record.usage, micros(record.usage.price)
    more = {
        "model_calls": usage.calls,
        "tool_calls": int(record.type == "mcp"),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "tokens_before": record.tokens_before,
        "tokens_after": record.tokens_after,
        "price_micros": price,
    }
    given = {
        "the_step": storable(new.step),
        "the_type": record.type,
        **{f"more_{name}": number for name, number in more.items()},
    }
    row = await events.advance(db, session_id, attempt, _UNLESS_THERE, given)
    if row is None:
        return None
    digests = await _store_messages(db, session_id, record.messages, known)
    request = {
        **record.request,
        **({"messages": digests} if digests else {}),
        **({"parent_id": new.parent_id} if new.parent_id else {}),
    }
    stored = {
        "id": new.id,
        "session_id": session_id,
        "stage_id": new.stage_id,
        "execution_id": new.execution_id,
        "step": storable(new.step),
        "interaction_type": record.type,
        "provider": storable(record.provider),
        "model": storable(record.model),
        "request": events.dumped(request),
        "response": events.dumped(record.response),
        "error": storable(record.error),
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "price_micros": price,
        "duration_ms": record.duration_ms,
        "created_at": record.started_at or now,
    }
    await db.execute(_ADDING, stored)
    return int(row.last_seq)


async def count(db: AsyncConnection, record: Interaction, *, now: datetime) -> None:
    """Add a tool call to the statistics, in the transaction that adds it to the trace, so that it counts once.

    Call it last in the transaction: the tool's row is locked until the transaction ends, for every session.
    """
    if record.type == "mcp":
        await tool_usage.add(db, _tally(record, now))


_SUMS = ("model_calls", "tool_calls", "input_tokens", "output_tokens", "tokens_before", "tokens_after", "price_micros")
_ADDING = sa.insert(interactions)
# NULL plus anything is NULL: a sum with an unknown price is unknown.
_UNLESS_THERE = events.advancing(
    unless=sa.exists().where(
        interactions.c.session_id == sa.bindparam("the_session"),
        interactions.c.step == sa.bindparam("the_step"),
        interactions.c.interaction_type == sa.bindparam("the_type"),
    ),
    changes={name: sessions.c[name] + sa.bindparam(f"more_{name}", type_=sessions.c[name].type) for name in _SUMS},
)


def _tally(record: Interaction, now: datetime) -> Tally:
    """The statistics of one call."""
    tally = Tally()
    read = record.request.get("read_back")
    source = record.request if read is None else read
    # A name that a model made up would be a new row, and a new label of the metrics, each time.
    source = {"server": UNKNOWN, "tool": UNKNOWN} if record.request.get("unknown") else source
    server, tool = (storable(str(source.get(name, "")))[:200] for name in ("server", "tool"))
    key = (now.date(), "session", server, tool)
    if read is not None:
        if read:
            tally.read_back(key)
        return tally
    summary = record.response.get("summary", {})
    tally.call(
        key,
        milliseconds=record.duration_ms,
        tokens_before=record.tokens_before,
        tokens_after=record.tokens_after,
        is_error=bool(record.error or record.response.get("is_error")),
        condensed=record.tokens_after < record.tokens_before,
        cached=bool(summary.get("chunks")) and summary.get("cache_hits") == summary.get("answers"),
    )
    return tally


async def page(
    db: AsyncConnection, session_id: str, *, after: tuple[datetime, str] | None = None, limit: int = 100
) -> list[StoredInteraction]:
    """A session's exchanges, oldest first; `after` is `created_at` and id of the last one of the previous page."""
    question = (
        sa.select(interactions)
        .where(interactions.c.session_id == session_id)
        .order_by(interactions.c.created_at, interactions.c.id)
        .limit(limit)
    )
    if after:
        at, last = after
        later = (interactions.c.created_at > at) | ((interactions.c.created_at == at) & (interactions.c.id > last))
        question = question.where(later)
    return [_record(row) for row in await db.execute(question)]


async def one(
    db: AsyncConnection, session_id: str, interaction_id: str
) -> tuple[StoredInteraction, list[dict[str, Any]]]:
    """One exchange and the messages it sent, in order.

    Raises:
        InputError: The session has no such interaction.
    """
    question = sa.select(interactions).where(
        interactions.c.id == storable(interaction_id), interactions.c.session_id == session_id
    )
    row = (await db.execute(question)).one_or_none()
    if row is None:
        raise InputError(f"Session {session_id} has no interaction {interaction_id[:80]!r}.")
    record = _record(row)
    digests: list[str] = record.request.get("messages", [])
    texts: dict[str, str] = {}
    wanted = sorted(set(digests))
    for start in range(0, len(wanted), 500):
        some = (messages.c.session_id == session_id) & messages.c.digest.in_(wanted[start : start + 500])
        texts.update((found.digest, found.message) for found in await db.execute(sa.select(messages).where(some)))
    return record, [json.loads(texts[digest]) for digest in digests]


async def _store_messages(
    db: AsyncConnection, session_id: str, sent: Sequence[Message], known: Mapping[Message, str]
) -> list[str]:
    digests: list[str] = []
    new: dict[str, str] = {}
    for message in sent:
        digest = known.get(message)
        if digest is None:
            digest, new_text = digest_and_text(message)
            new[digest] = new_text
        digests.append(digest)
    if new:
        rows = [{"session_id": session_id, "digest": digest, "message": text} for digest, text in new.items()]
        await db.execute(_insert_messages(db.dialect.name), rows)
    return digests


@functools.cache
def _insert_messages(dialect: str) -> Any:
    return events.insert_into(dialect, messages).on_conflict_do_nothing()


def _record(row: Any) -> StoredInteraction:
    request = json.loads(row.request)
    parent_id = request.pop("parent_id", None)
    return StoredInteraction(
        id=row.id,
        session_id=row.session_id,
        stage_id=row.stage_id,
        execution_id=row.execution_id,
        type=row.interaction_type,
        provider=row.provider,
        model=row.model,
        request=request,
        response=json.loads(row.response),
        error=row.error,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        price_micros=row.price_micros,
        duration_ms=row.duration_ms,
        created_at=row.created_at,
        parent_id=parent_id,
    )


@dataclass(frozen=True, kw_only=True)
class ToolTotals:
    """The calls of one tool in one session."""

    calls: int = 0
    errors: int = 0
    tokens: int = 0
    """Of the results, before they were condensed."""

    milliseconds: int = 0


async def tool_totals(db: AsyncConnection, session_id: str) -> dict[str, ToolTotals]:
    """The calls of a session's tools, by `server.tool`."""
    question = sa.select(interactions.c.request, interactions.c.response, interactions.c.duration_ms).where(
        interactions.c.session_id == storable(session_id), interactions.c.interaction_type == "mcp"
    )
    totals: dict[str, ToolTotals] = {}
    for row in await db.execute(question):
        request, response = json.loads(row.request), json.loads(row.response)
        name = f"{request.get('server', '')}.{request.get('tool', '')}".strip(".")
        so_far = totals.get(name, ToolTotals())
        totals[name] = ToolTotals(
            calls=so_far.calls + 1,
            errors=so_far.errors + bool(response.get("is_error")),
            tokens=so_far.tokens + int(response.get("tokens") or 0),
            milliseconds=so_far.milliseconds + row.duration_ms,
        )
    return totals


async def tokens_of(db: AsyncConnection, session_id: str, stage_id: str | None, execution_id: str | None) -> int:
    """Tokens that models read and wrote in a session, or only in a stage or an execution of it."""
    question = sa.select(
        sa.func.coalesce(sa.func.sum(interactions.c.input_tokens + interactions.c.output_tokens), 0)
    ).where(interactions.c.session_id == session_id)
    if stage_id:
        question = question.where(interactions.c.stage_id == stage_id)
    if execution_id:
        question = question.where(interactions.c.execution_id == execution_id)
    return int(await db.scalar(question) or 0)
