"""A row of the timeline is begun and ended once, and the log tells of both; on both databases."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from tersely.events.log import complete_timeline_event, create_timeline_event
from tersely.store import sessions, timeline
from tersely.store.database import Database
from tersely.store.events import Logged
from tersely.store.timeline import EventStatus, NewTimelineEvent, TimelineCompletion, TimelineEvent
from tests.fakes.begun import NOON, begun, log

LATER = NOON + timedelta(seconds=3)


async def create(
    database: Database, session_id: str, step: str, *, status: EventStatus = "streaming", content: str = ""
) -> Logged | None:
    async with database.transaction() as db:
        new = NewTimelineEvent(
            event_id=sessions.derived_id(session_id, step),
            stage_id="st",
            execution_id="ex",
            event_type="llm_tool_call",
            content=content,
            metadata={"server_name": "cluster"},
            status=status,
        )
        return await create_timeline_event(db, session_id, 1, step, new, now=NOON)


async def complete(
    database: Database,
    session_id: str,
    step: str,
    content: str,
    *,
    metadata: Mapping[str, Any] = {},
    status: EventStatus = "completed",
) -> Logged | None:
    async with database.transaction() as db:
        completion = TimelineCompletion(
            event_id=sessions.derived_id(session_id, step),
            event_type="llm_tool_call",
            content=content,
            metadata=metadata,
            status=status,
        )
        return await complete_timeline_event(db, session_id, 1, step, completion, now=LATER)


async def shown(database: Database, session_id: str, **which: int) -> list[TimelineEvent]:
    async with database.reading() as db:
        return await timeline.page(db, session_id, **which)


async def test_an_event_is_published_when_it_begins_and_when_it_ends(database: Database) -> None:
    session_id = await begun(database)
    first = await create(database, session_id, "s")
    second = await complete(database, session_id, "s", "pods", metadata={"server_name": "cluster", "is_error": False})
    assert first and second and [first, second] == (await log(database, session_id))[2:]
    created, completed = json.loads(first.payload), json.loads(second.payload)
    (event,) = await shown(database, session_id)
    assert list(created)[5:] == [
        "event_id",
        "stage_id",
        "execution_id",
        "event_type",
        "status",
        "content",
        "metadata",
        "sequence",
    ]
    assert list(completed)[5:] == ["event_id", "event_type", "status", "content", "metadata"]
    assert (created["status"], created["sequence"], completed["status"], completed["content"]) == (
        "streaming",
        1,
        "completed",
        "pods",
    )
    assert asdict(event) == {
        **{
            name: created[name]
            for name in ("event_id", "session_id", "stage_id", "execution_id", "event_type", "sequence")
        },
        **{name: completed[name] for name in ("status", "content", "metadata")},
        "created_at": NOON,
        "completed_at": LATER,
    }


async def test_beginning_and_ending_again_changes_nothing(database: Database) -> None:
    session_id = await begun(database)
    await create(database, session_id, "s")
    assert await create(database, session_id, "s") is None
    await complete(database, session_id, "s", "first")
    assert await complete(database, session_id, "s", "second", status="failed") is None
    assert await create(database, session_id, "s") is None
    (event,) = await shown(database, session_id)
    assert (event.content, event.status, event.sequence) == ("first", "completed", 1)
    assert [one.seq for one in await log(database, session_id)] == [1, 2, 3, 4]


async def test_an_event_that_is_complete_at_once_is_published_once(database: Database) -> None:
    session_id = await begun(database)
    logged = await create(database, session_id, "s", status="completed", content="the cause")
    assert logged is not None and json.loads(logged.payload)["status"] == "completed"
    (event,) = await shown(database, session_id)
    assert (event.status, event.content, event.completed_at) == ("completed", "the cause", NOON)
    assert await complete(database, session_id, "s", "another") is None


async def test_the_timeline_keeps_the_order_in_which_events_began(database: Database) -> None:
    session_id = await begun(database)
    for step in "abcde":
        await create(database, session_id, step)
    for step in "edcba":
        await complete(database, session_id, step, step)
    assert [event.content for event in await shown(database, session_id)] == list("abcde")
    assert [event.sequence for event in await shown(database, session_id, after=1, limit=2)] == [2, 3]
    assert await shown(database, session_id, after=10**12) == []
