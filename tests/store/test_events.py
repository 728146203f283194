"""The event log: numbered without a gap, each step published once, the same text for every reader."""

import json
import uuid
from datetime import timedelta

import anyio
import pytest

from tersely.errors import LostSession, SessionNotFound
from tersely.events.log import claim_session, complete_timeline_event, create_timeline_event
from tersely.events.types import SessionStatus, StageStatus, stored_row
from tersely.store import events, timeline
from tersely.store.database import Database
from tersely.store.events import Logged
from tersely.store.timeline import NewTimelineEvent, TimelineCompletion
from tests.fakes.begun import NOON, begun, log, pending


async def append(
    database: Database, session_id: str, step: str, *, attempt: int | None = 1, name: str = "look"
) -> Logged | None:
    event = StageStatus(stage_id="s", stage_name=name, stage_index=0, status="in_progress")
    async with database.transaction() as db:
        return await events.append(db, session_id, attempt, stored_row(step, event), now=NOON)


async def test_a_payload_is_one_line_of_json_with_its_fields_in_one_order(database: Database) -> None:
    session_id = await begun(database)
    logged = await append(database, session_id, "a", name='Ünïcode "quoted"\n')
    assert logged is not None
    assert logged.payload == (
        f'{{"type":"stage.status","v":1,"session_id":"{session_id}","seq":3,"timestamp":"2026-11-15T12:00:00.000Z",'
        '"stage_id":"s","stage_name":"Ünïcode \\"quoted\\"\\n","stage_index":0,"status":"in_progress"}'
    )
    assert (await log(database, session_id))[-1] == logged


async def test_a_repeated_step_tells_nothing_and_takes_no_number(database: Database) -> None:
    session_id = await begun(database)
    first = await append(database, session_id, "a")
    again = await append(database, session_id, "a")
    other = await append(database, session_id, "b")
    assert first and other and again is None
    assert (first.seq, other.seq) == (3, 4)
    assert [one.seq for one in await log(database, session_id)] == [1, 2, 3, 4]


async def test_a_repeated_step_of_a_lost_worker_is_refused_rather_than_passed_over(database: Database) -> None:
    session_id = await begun(database)
    await append(database, session_id, "a")
    async with database.transaction() as db:
        await claim_session(db, session_id, "worker-2", now=NOON)
    with pytest.raises(LostSession, match="another attempt than 1"):
        await append(database, session_id, "a", attempt=1)
    assert await append(database, session_id, "a", attempt=2) is None


async def test_a_transaction_that_fails_leaves_no_gap(database: Database) -> None:
    session_id = await begun(database)

    async def fail() -> None:
        async with database.transaction() as db:
            await events.append(db, session_id, 1, stored_row("a", SessionStatus(status="failed")), now=NOON)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    logged = await append(database, session_id, "b")
    assert logged is not None and logged.seq == 3


async def test_writers_side_by_side_get_numbers_without_gap_or_double(database: Database) -> None:
    session_id = await begun(database)

    async def write(step: str) -> None:
        await append(database, session_id, step)

    async with anyio.create_task_group() as group:
        for number in range(30):
            group.start_soon(write, str(number))
    assert [one.seq for one in await log(database, session_id)] == list(range(1, 33))


async def test_pages_end_by_number_or_by_size_and_always_get_on(database: Database) -> None:
    session_id = await begun(database)
    for number in range(10):
        await append(database, session_id, str(number), name="x" * 1_000)
    everything = await log(database, session_id)

    async def pages(limit: int, characters: int) -> list[list[Logged]]:
        turned: list[list[Logged]] = []
        after = 0
        while True:
            async with database.reading() as db:
                page = await events.page(db, session_id, after=after, limit=limit, characters=characters)
            if not page:
                return turned
            turned.append(page)
            after = page[-1].seq

    by_number, by_size, one_by_one = await pages(5, 10**9), await pages(1_000, 3_000), await pages(1_000, 1)
    assert [len(page) for page in by_number] == [5, 5, 2]
    assert max(len(page) for page in by_size[1:]) == 3
    assert [len(page) for page in one_by_one] == [1] * 12
    for turned in (by_number, by_size, one_by_one):
        assert [one for page in turned for one in page] == everything
    async with database.reading() as db:
        assert await events.page(db, session_id, after=2**70) == []


async def test_what_no_database_and_no_viewer_takes_is_made_storable(database: Database) -> None:
    session_id = await begun(database)
    deep: list[object] = []
    for _ in range(2_000):
        deep = [deep]
    async with database.transaction() as db:
        logged = await create_timeline_event(
            db,
            session_id,
            1,
            "nul\x00step",
            NewTimelineEvent(
                event_id=str(uuid.uuid4()),
                event_type="error",
                content="a\x00b\ud800",
                metadata={"k\x00": ["\udc00", float("nan"), float("inf"), NOON, {1: b"x"}], "deep": deep},
            ),
            now=NOON,
        )
        (shown,) = await timeline.page(db, session_id)
    assert logged is not None
    payload = json.loads(logged.payload, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert payload["content"] == shown.content == "a�b�"
    assert payload["metadata"] == shown.metadata
    assert payload["metadata"]["k�"] == ["�", "nan", "inf", "2026-11-15T12:00:00.000Z", {"1": "b'x'"}]


async def test_the_feed_of_all_sessions_has_a_count_of_its_own_without_gaps(database: Database) -> None:
    ids: list[str] = []

    async def submit() -> None:
        ids.append(await begun(database))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(submit)
    async with database.reading() as db:
        told = await events.feed_page(db)
        assert await events.feed_head(db) == 20
        assert await events.feed_page(db, after=5, limit=3) == told[5:8]
        assert await events.heads(db, ids) == dict.fromkeys(ids, 2)
    payloads = [json.loads(one.payload) for one in told]
    assert [payload["seq"] for payload in payloads] == list(range(1, 21))
    for id_ in ids:
        assert [payload["status"] for payload in payloads if payload["session_id"] == id_] == ["pending", "in_progress"]


async def test_old_feed_entries_are_deleted_and_the_sequence_continues(database: Database) -> None:
    await begun(database, now=NOON - timedelta(days=10))
    await pending(database)
    async with database.transaction() as db:
        assert await events.trim_feed(db, before=NOON - timedelta(days=1)) == 2
        assert [one.seq for one in await events.feed_page(db)] == [3]
    await pending(database)
    async with database.reading() as db:
        assert [one.seq for one in await events.feed_page(db)] == [3, 4]


async def test_the_position_of_a_session_is_a_consistent_snapshot(database: Database) -> None:
    session_id = await begun(database)
    event_id = str(uuid.uuid4())
    async with database.transaction() as db:
        assert await events.position(db, session_id) == (2, [])
        await create_timeline_event(
            db, session_id, 1, "s", NewTimelineEvent(event_id=event_id, event_type="error", metadata={}), now=NOON
        )
        assert await events.position(db, session_id) == (3, [event_id])
        completion = TimelineCompletion(event_id=event_id, event_type="error", content="", metadata={})
        await complete_timeline_event(db, session_id, 1, "s", completion, now=NOON)
        assert await events.position(db, session_id) == (4, [])
        with pytest.raises(SessionNotFound):
            await events.position(db, "nothing")
