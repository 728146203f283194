"""The trace adds each exchange and its usage once, and keeps each message once; on both databases."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa

from tersely.errors import InputError
from tersely.events.log import add_interaction
from tersely.llm.messages import Message, ToolCall, Usage
from tersely.masking.masked import assume_masked
from tersely.store import interactions, sessions, usage
from tersely.store.database import Database
from tersely.store.events import Logged
from tersely.store.interactions import Interaction, NewInteraction
from tersely.store.sessions import Session
from tersely.store.tables import messages
from tests.fakes.begun import NOON, begun

QUESTION = Message("user", assume_masked("Why does checkout crash?"))
CALL = ToolCall("c1", "cluster__get_pods", '{"namespace": "shop"}')
ANSWER = Message("tool", assume_masked("pod \x00 checkout-7"), answers=CALL)
ASKED = Message("assistant", assume_masked("I look."), tool_calls=(CALL,))


def identity(session_id: str, step: str) -> str:
    return sessions.derived_id(session_id, step)


async def add(
    database: Database, session_id: str, step: str, record: Interaction, *, known: Any = None, seconds: int = 0
) -> Logged | None:
    async with database.transaction() as db:
        return await add_interaction(
            db,
            session_id,
            1,
            NewInteraction(
                id=identity(session_id, f"{step}/{record.type}"),
                step=step,
                stage_id="st",
                execution_id="ex",
                exchange=record,
            ),
            now=NOON + timedelta(seconds=seconds),
            known=known or {},
        )


async def find(database: Database, session_id: str) -> Session:
    async with database.reading() as db:
        return await sessions.find(db, session_id)


async def test_an_exchange_is_read_back_with_the_messages_it_was_about(database: Database) -> None:
    session_id = await begun(database)
    record = Interaction(
        type="iteration", provider="openai", model="gpt", messages=[QUESTION, ASKED, ANSWER, QUESTION],
        request={"temperature": 0.1},
        response={"text": "It crashes \ud800."}, usage=Usage(1, 100, 20, Decimal("0.0012345")), duration_ms=1234,
    )  # fmt: skip
    logged = await add(database, session_id, "s", record)
    async with database.reading() as db:
        found, told = await interactions.one(db, session_id, identity(session_id, "s/iteration"))
    assert logged is not None and logged.payload.endswith(
        f'"interaction_id":"{found.id}","interaction_type":"iteration"}}'
    )
    assert (found.provider, found.model, found.input_tokens, found.price_micros, found.duration_ms) == (
        "openai",
        "gpt",
        100,
        1235,
        1234,
    )
    assert found.response == {"text": "It crashes �."} and found.request["temperature"] == 0.1
    assert [(one["role"], one["text"]) for one in told] == [
        ("user", "Why does checkout crash?"), ("assistant", "I look."), ("tool", "pod � checkout-7"), ("user",
        "Why does checkout crash?")
    ]  # fmt: skip
    assert told[1]["tool_calls"] == [{"id": "c1", "name": "cluster__get_pods", "arguments": '{"namespace": "shop"}'}]
    assert told[2]["answers"] == {"id": "c1", "name": "cluster__get_pods"}


async def test_a_growing_conversation_is_stored_once(database: Database) -> None:
    session_id = await begun(database)
    conversation: list[Message] = []
    for number in range(6):
        conversation.append(Message("user", assume_masked(f"message {number}")))
        await add(database, session_id, str(number), Interaction(type="iteration", messages=list(conversation)))
    async with database.reading() as db:
        assert await db.scalar(sa.select(sa.func.count()).select_from(messages)) == 6
        _, told = await interactions.one(db, session_id, identity(session_id, "5/iteration"))
    assert [one["text"] for one in told] == [f"message {number}" for number in range(6)]


async def test_messages_that_are_known_to_be_stored_are_not_sent_again_and_still_found(database: Database) -> None:
    session_id = await begun(database)
    await add(database, session_id, "1", Interaction(type="iteration", messages=[QUESTION]))
    known = {QUESTION: interactions.digest_and_text(QUESTION)[0]}
    await add(database, session_id, "2", Interaction(type="iteration", messages=[QUESTION, ASKED]), known=known)
    async with database.reading() as db:
        _, told = await interactions.one(db, session_id, identity(session_id, "2/iteration"))
    assert [one["text"] for one in told] == ["Why does checkout crash?", "I look."]


async def test_usage_is_added_with_the_exchange_and_not_a_second_time(database: Database) -> None:
    session_id = await begun(database)
    model = Interaction(type="iteration", usage=Usage(1, 100, 20, Decimal("0.5")))
    tool = Interaction(type="mcp", request={"server": "cluster"}, tokens_before=40_000, tokens_after=900)
    summary = Interaction(type="summarization", usage=Usage(3, 1_000, 50, Decimal("0.25")))
    for record in (model, tool, summary):
        assert await add(database, session_id, "s", record) is not None
        assert await add(database, session_id, "s", record) is None
    session = await find(database, session_id)
    assert (session.model_calls, session.tool_calls, session.input_tokens, session.output_tokens) == (4, 1, 1_100, 70)
    assert (session.price_micros, session.tokens_before, session.tokens_after) == (750_000, 40_000, 900)
    assert session.last_seq == 5


async def test_the_price_of_a_session_is_unknown_once_one_part_is(database: Database) -> None:
    session_id = await begun(database)
    await add(database, session_id, "1", Interaction(type="iteration", usage=Usage(1, 1, 1, Decimal("0.5"))))
    assert (await find(database, session_id)).price_micros == 500_000
    await add(database, session_id, "2", Interaction(type="iteration", usage=Usage(1, 1, 1, None)))
    assert (await find(database, session_id)).price_micros is None
    await add(database, session_id, "3", Interaction(type="iteration", usage=Usage(1, 1, 1, Decimal("0.5"))))
    assert (await find(database, session_id)).price_micros is None


async def test_the_trace_is_paged_in_order_also_within_one_moment(database: Database) -> None:
    session_id = await begun(database)
    for number in range(7):
        await add(database, session_id, str(number), Interaction(type="iteration"), seconds=number // 3)
    seen: list[interactions.StoredInteraction] = []
    while True:
        async with database.reading() as db:
            after = (seen[-1].created_at, seen[-1].id) if seen else None
            page = await interactions.page(db, session_id, after=after, limit=2)
        if not page:
            break
        seen += page
    assert {one.id for one in seen} == {identity(session_id, f"{number}/iteration") for number in range(7)} and len(
        seen
    ) == 7
    assert [one.created_at for one in seen] == sorted(one.created_at for one in seen)


async def test_another_sessions_exchange_is_not_found(database: Database) -> None:
    mine, other = await begun(database), await begun(database)
    await add(database, mine, "s", Interaction(type="iteration"))
    async with database.reading() as db:
        with pytest.raises(InputError, match="has no interaction"):
            await interactions.one(db, other, identity(mine, "s/iteration"))


async def test_tool_calls_of_sessions_count_among_the_savings_once(database: Database) -> None:
    session_id = await begun(database)
    record = Interaction(
        type="mcp", request={"server": "cluster", "tool": "get_pods", "arguments": {}}, response={"is_error": False},
        duration_ms=40, tokens_before=9_000, tokens_after=800,
    )  # fmt: skip
    await add(database, session_id, "s", record)
    await add(database, session_id, "s", record)
    await add(database, session_id, "t", Interaction(type="mcp", request=record.request, error="it hung up"))
    async with database.reading() as db:
        (use,) = await usage.used(db, door="session")
    assert (use.server, use.tool, use.calls, use.errors, use.condensed) == ("cluster", "get_pods", 2, 1, 1)
    assert (use.tokens_before, use.tokens_after, use.milliseconds, sum(use.latency.values())) == (9_000, 800, 40, 2)


async def test_a_summary_from_the_cache_alone_counts_as_cached_and_a_made_up_tool_as_unknown(
    database: Database,
) -> None:
    session_id = await begun(database)
    request = {"server": "cluster", "tool": "get_pods"}
    for number, (hits, answers) in enumerate([(3, 3), (2, 3), (0, 0)]):
        summary = {"chunks": 2, "cache_hits": hits, "answers": answers} if answers else {}
        record = Interaction(
            type="mcp", request=request, response={"summary": summary}, tokens_before=9, tokens_after=1
        )
        await add(database, session_id, str(number), record)
    made_up = Interaction(type="mcp", request={"server": "a", "tool": "b", "unknown": True}, error="There is no tool.")
    await add(database, session_id, "made up", made_up)
    async with database.reading() as db:
        found = {(one.server, one.tool): (one.calls, one.cached, one.errors) for one in await usage.used(db)}
    assert found[interactions.UNKNOWN, interactions.UNKNOWN] == (1, 0, 1) and ("a", "b") not in found
    assert found["cluster", "get_pods"] == (3, 1, 0)
