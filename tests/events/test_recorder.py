"""Events are stored before they are published; a repeated step publishes nothing; none is left streaming."""

import json
import uuid
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tersely.agent.recorder import Recorder
from tersely.errors import LostSession
from tersely.events.bus import Bus
from tersely.events.log import claim_session, end_session
from tersely.events.recorder import SessionRecorder
from tersely.llm.messages import Message, Usage
from tersely.masking.masked import Masked, assume_masked
from tersely.store import interactions, sessions, timeline
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tersely.store.interactions import Interaction
from tersely.store.timeline import TimelineEvent
from tests.fakes.begun import NOON, begun, log


def words(text: str) -> Masked:
    return assume_masked(text)


async def shown(database: Database, session_id: str) -> list[TimelineEvent]:
    async with database.reading() as db:
        return await timeline.page(db, session_id)


async def types_told(database: Database, session_id: str) -> list[str]:
    return [json.loads(one.payload)["type"] for one in await log(database, session_id, after=2)]


def an_agents_diary(recorder: SessionRecorder) -> Recorder:
    """For the type checker: the shapes fit, though neither knows the other."""
    return recorder


async def test_what_an_agent_tells_reaches_store_and_viewers(database: Database) -> None:
    session_id = await begun(database)
    bus = Bus(database)
    recorder = SessionRecorder(database, bus, session_id, 1)
    (stage,) = await recorder.plan(["look"])
    await recorder.stage_status(stage, "in_progress")
    inner = recorder.within(stage, sessions.derived_id(session_id, "execution"))
    await inner.execution_began(agent="a", controller="react", provider="p", model="m")
    async with bus.subscribe(f"session:{session_id}", 4) as subscription:
        async with an_agents_diary(inner).opened("1", "llm_response", metadata={"model": "m"}) as event:
            assert json.loads(await anext(subscription))["type"] == "timeline_event.created"
            event.delta(words("The pod"))
            chunk = json.loads(await anext(subscription))
            assert (chunk["type"], chunk["event_id"], chunk["offset"], chunk["delta"]) == (
                "stream.chunk",
                event.id,
                0,
                "The pod",
            )
            event.delta(words(" is"))
            event.delta(words(" gone"))
            chunk = json.loads(await anext(subscription))
            assert (chunk["offset"], chunk["delta"]) == (7, " is gone")
            event.restart()
            chunk = json.loads(await anext(subscription))
            assert (chunk["offset"], chunk["delta"]) == (0, "")
            await event.complete(words("The pod is back."), {"finish": "stop"})
        completed = json.loads(await anext(subscription))
        assert (completed["status"], completed["content"], completed["metadata"]) == (
            "completed", "The pod is back.", {"model": "m", "finish": "stop"},
        )  # fmt: skip
        inner.progress("distilling", "Condensing")
        assert json.loads(await anext(subscription))["phase"] == "distilling"
        await inner.interaction("1", Interaction(type="iteration", usage=Usage(1, 5, 2)))
        assert json.loads(await anext(subscription))["type"] == "interaction.created"
        await inner.record("1", "final_analysis", words("All is well."))
        told = json.loads(await anext(subscription))
        assert (told["status"], told["content"], told["stage_id"], told["execution_id"]) == (
            "completed", "All is well.", stage, inner.execution_id,
        )  # fmt: skip
        await inner.execution_ended("completed")
        await recorder.session_status("completed", analysis="All is well.")
        ends = [json.loads(await anext(subscription)) for _ in range(3)]
        assert [(one["type"], one["status"]) for one in ends] == [
            ("execution.status", "completed"),
            ("stage.status", "completed"),
            ("session.status", "completed"),
        ]


async def test_a_step_that_runs_again_tells_nothing_twice(database: Database) -> None:
    session_id = await begun(database)
    record = Interaction(type="iteration", messages=[Message("user", words("hi"))], usage=Usage(1, 5, 2))

    async def step(recorder: SessionRecorder) -> tuple[str, ...]:
        async with recorder.opened("1", "llm_response") as event:
            await event.complete(words("answer"))
        return event.id, await recorder.interaction("1", record), await recorder.record("1", "error", words("oh"))

    first = await step(SessionRecorder(database, Bus(database), session_id, 1))
    before = await log(database, session_id)
    async with database.transaction() as db:
        await claim_session(db, session_id, "worker-2", now=NOON)
    assert await step(SessionRecorder(database, Bus(database), session_id, 2)) == first
    assert await log(database, session_id) == before
    async with database.reading() as db:
        session = await sessions.find(db, session_id)
    assert (session.model_calls, session.input_tokens) == (1, 5)


async def test_the_next_worker_goes_on_with_an_event_that_a_dead_one_began(database: Database) -> None:
    session_id = await begun(database)
    dead = SessionRecorder(database, Bus(database), session_id, 1)
    # Entered and never left (and not let go of, which would leave it): that is how a process dies.
    begun_by_it = dead.opened("1", "llm_response")
    await begun_by_it.__aenter__()
    async with database.transaction() as db:
        await claim_session(db, session_id, "worker-2", now=NOON)
    async with SessionRecorder(database, Bus(database), session_id, 2).opened("1", "llm_response") as event:
        await event.complete(words("answer"))
    ((found,), told) = await shown(database, session_id), await types_told(database, session_id)
    assert (found.status, found.content) == ("completed", "answer")
    assert told == ["timeline_event.created", "timeline_event.completed"]


async def test_an_event_whose_work_fails_ends_as_failed_with_what_was_shown(database: Database) -> None:
    session_id = await begun(database)
    recorder = SessionRecorder(database, Bus(database), session_id, 1)

    async def fail() -> None:
        async with recorder.opened("1", "llm_response", content=words("> ")) as event:
            event.delta(words("half an"))
            event.delta(words(" answer"))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    (found,) = await shown(database, session_id)
    assert (found.status, found.content) == ("failed", "> half an answer")


async def test_an_event_whose_work_is_cancelled_ends_as_cancelled(database: Database) -> None:
    session_id = await begun(database)
    recorder = SessionRecorder(database, Bus(database), session_id, 1)
    with anyio.CancelScope() as scope:
        async with recorder.opened("1", "mcp_tool_summary"):
            scope.cancel()
            await anyio.sleep_forever()
    (found,) = await shown(database, session_id)
    assert found.status == "cancelled"


async def test_an_event_is_ended_even_if_the_cancellation_comes_while_it_completes(database: Database) -> None:
    session_id = await begun(database)
    recorder = SessionRecorder(database, Bus(database), session_id, 1)
    with anyio.CancelScope() as scope:
        async with recorder.opened("1", "llm_response") as event:
            scope.cancel()
            await event.complete(words("answer"))
    (found,) = await shown(database, session_id)
    assert found.status in ("completed", "cancelled")


async def test_a_session_that_is_let_go_leaves_its_open_events_to_the_next_worker(database: Database) -> None:
    session_id = await begun(database)
    recorder = SessionRecorder(database, Bus(database), session_id, 1)
    with anyio.CancelScope() as scope:
        async with recorder.within("s", "e").opened("1", "llm_response"):
            recorder.release()
            scope.cancel()
            await anyio.sleep_forever()
    (found,) = await shown(database, session_id)
    assert found.status == "streaming"
    with pytest.raises(LostSession):
        await recorder.record("2", "error", words("too late"))


async def test_leaving_an_event_of_a_session_that_ended_meanwhile_is_no_error(database: Database) -> None:
    session_id = await begun(database)
    recorder = SessionRecorder(database, Bus(database), session_id, 1)
    async with recorder.opened("1", "llm_response"):
        async with database.transaction() as db:
            await end_session(db, session_id, None, SessionEnd(status="timed_out", reason="too long"), now=NOON)
    (found,) = await shown(database, session_id)
    assert found.status == "cancelled"
    with pytest.raises(LostSession):
        await recorder.record("2", "error", words("too late"))


async def test_characters_that_nobody_takes_do_not_shift_what_viewers_see(database: Database) -> None:
    session_id = await begun(database)
    bus = Bus(database)
    recorder = SessionRecorder(database, bus, session_id, 1)
    async with bus.subscribe(f"session:{session_id}", 2) as subscription:
        async with recorder.opened("1", "llm_response") as event:
            assert json.loads(await anext(subscription))["type"] == "timeline_event.created"
            text = ""
            for piece in ("a\x00b\ud83d\ude00", "c\ud800", "d"):
                event.delta(words(piece))
                await anyio.lowlevel.checkpoint()
            while len(text) < 7:
                chunk: dict[str, Any] = json.loads(await anext(subscription))
                assert chunk["offset"] == len(text)
                text += chunk["delta"]
            await event.complete(words("end"))
    assert text == "a�b😀c�d"


async def test_a_long_conversation_is_found_in_every_exchange(database: Database) -> None:
    session_id = await begun(database)
    recorder = SessionRecorder(database, Bus(database), session_id, 1)
    conversation: list[Message] = []
    for number in range(5):
        conversation.append(Message("user", words(f"message {number}")))
        last = await recorder.interaction(str(number), Interaction(type="iteration", messages=list(conversation)))
    async with database.reading() as db:
        _, told = await interactions.one(db, session_id, last)
    assert [one["text"] for one in told] == [f"message {number}" for number in range(5)]
    assert uuid.UUID(last)


async def test_a_worker_that_lost_its_session_notices_before_it_acts(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F03: it stood still, another one has taken over, and nothing that it wrote since could have told it."""
    session_id = await begun(database)
    mine = SessionRecorder(database, Bus(database), session_id, 1)
    await mine.still_ours()
    async with database.transaction() as db:
        await claim_session(db, session_id, "another", now=NOON)
    monkeypatch.setattr("tersely.events.recorder.OURS_FOR", 0.0)
    with pytest.raises(LostSession):
        await mine.still_ours()
