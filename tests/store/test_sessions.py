"""Sessions move forward only, belong to one attempt at a time, and end with everything of their own; on both
databases.
"""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from tersely.errors import InputError, LostSession, SessionNotEnded, SessionNotFound
from tersely.events.log import (
    add_interaction,
    append,
    begin_execution,
    claim_session,
    complete_timeline_event,
    create_session,
    create_timeline_event,
    end_session,
    move_stage,
    request_cancel,
)
from tersely.events.types import SessionStatus
from tersely.llm.messages import Message
from tersely.masking.masked import assume_masked
from tersely.store import claims, events, idempotency, listing, results, sessions, stages, timeline
from tersely.store import executors as workers
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tersely.store.idempotency import IdempotencyKey
from tersely.store.interactions import Interaction, NewInteraction
from tersely.store.listing import Filters, Listed
from tersely.store.packing import pack
from tersely.store.sessions import Session
from tersely.store.stages import ExecutionEnd, NewExecution, StageChange
from tersely.store.statuses import ENDS, End
from tersely.store.tables import executors, metadata
from tersely.store.timeline import NewTimelineEvent, TimelineCompletion
from tests.fakes.begun import NOON, alert, begun, log, pending

LATER = NOON + timedelta(minutes=5)


async def find(database: Database, session_id: str) -> Session:
    async with database.reading() as db:
        return await sessions.find(db, session_id)


async def end(
    database: Database, session_id: str, attempt: int | None, status: End = "completed", reason: str = ""
) -> list[events.Logged]:
    async with database.transaction() as db:
        return await end_session(db, session_id, attempt, SessionEnd(status=status, reason=reason), now=LATER)


def new_execution(id_: str, stage_id: str, *, model: str = "m") -> NewExecution:
    return NewExecution(id=id_, stage_id=stage_id, agent="a", controller="react", provider="p", model=model)


def interaction(step: str) -> NewInteraction:
    exchange = Interaction(type="iteration", messages=[Message("user", assume_masked("hi"))])
    return NewInteraction(id=str(uuid.uuid4()), step=step, exchange=exchange)


async def open_event(database: Database, session_id: str, step: str, *, attempt: int = 1) -> str:
    event_id = sessions.derived_id(session_id, step)
    async with database.transaction() as db:
        new = NewTimelineEvent(
            event_id=event_id, event_type="llm_response", content=f"so far {step}", metadata={"of": step}
        )
        await create_timeline_event(db, session_id, attempt, step, new, now=NOON)
    return event_id


def told(logged: list[events.Logged]) -> list[tuple[str, str]]:
    """Type and status of each event."""
    payloads = [json.loads(one.payload) for one in logged]
    return [(payload["type"], payload["status"]) for payload in payloads]


async def test_a_submitted_session_is_pending_and_both_channels_tell_of_it(database: Database) -> None:
    async with database.transaction() as db:
        created, logged = await create_session(db, alert(override={"servers": [{"name": "cluster"}]}), now=NOON)
    session = await find(database, created.session_id)
    assert (
        created.is_new
        and session.status == "pending"
        and not session.has_ended
        and session.override == {"servers": [{"name": "cluster"}]}
    )
    assert (session.created_at, session.started_at, session.price_micros, session.mark_key) == (
        NOON,
        None,
        0,
        b"0123456789abcdef",
    )
    assert [(one.channel, one.seq) for one in logged] == [(f"session:{session.id}", 1), ("sessions", 1)]
    assert told(logged) == [("session.status", "pending")] * 2


async def test_the_key_of_the_marks_is_not_shown_when_a_session_is_printed(database: Database) -> None:
    assert "0123456789abcdef" not in repr(await find(database, await pending(database)))


async def test_text_that_a_database_refuses_is_stored_all_the_same(database: Database) -> None:
    session_id = await begun(database, title="a\x00b", alert="half \ud800", override={"x\x00": "\udfff"}, scope="u\x00")
    await end(database, session_id, 1, "failed", "why \x00 not")
    session = await find(database, session_id)
    assert (session.title, session.alert, session.reason, session.override) == (
        "a�b",
        "half �",
        "why � not",
        {"x�": "�"},
    )
    with pytest.raises(SessionNotFound):
        await find(database, "no\x00ne")


async def test_capitals_do_not_matter_in_a_search_in_any_alphabet(database: Database) -> None:
    session_id = await begun(database, title="ÄNDERUNG: Диск переполнен")
    for words in ("änderung", "ДИСК", "Änderung диск"):
        async with database.reading() as db:
            found, _ = await listing.list_page(db, Filters(q=words))
        assert [one.session.id for one in found] == [session_id], words


async def test_the_same_idempotency_key_finds_the_session_it_was_used_for(database: Database) -> None:
    key = IdempotencyKey(key="k1", digest="body")
    first, second = alert(), alert()
    async with database.transaction() as db:
        await sessions.create(db, first, now=NOON, key=key)
    async with database.transaction() as db:
        again = await sessions.create(db, second, now=NOON + timedelta(hours=23), key=key)
        other_body = await sessions.create(db, alert(), now=NOON, key=IdempotencyKey(key="k1", digest="another"))
        other_scope = await sessions.create(db, alert(scope="user:2"), now=NOON, key=key)
        assert await idempotency.session_of_key(db, "user:1", "k1") == first.id
    assert (again.session_id, again.is_new, again.same_body) == (first.id, False, True)
    assert (other_body.session_id, other_body.is_new, other_body.same_body) == (first.id, False, False)
    assert other_scope.is_new
    with pytest.raises(SessionNotFound):
        await find(database, second.id)


async def test_an_idempotency_key_can_be_used_anew_after_a_day(database: Database) -> None:
    key = IdempotencyKey(key="k1", digest="body")
    second = alert()
    async with database.transaction() as db:
        await sessions.create(db, alert(), now=NOON, key=key)
        created = await sessions.create(db, second, now=NOON + timedelta(hours=25), key=key)
        assert created.is_new and await idempotency.session_of_key(db, "user:1", "k1") == second.id
        assert await idempotency.delete_before(db, NOON + timedelta(days=2)) == 1


async def test_of_many_submissions_with_one_key_at_once_one_makes_a_session(database: Database) -> None:
    made: list[sessions.Created] = []

    async def submit() -> None:
        async with database.transaction() as db:
            made.append(await sessions.create(db, alert(), now=NOON, key=IdempotencyKey(key="k", digest="d")))

    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(submit)
    assert sum(one.is_new for one in made) == 1 and len({one.session_id for one in made}) == 1


async def test_a_claim_begins_a_session_once_and_later_claims_only_take_it_over(database: Database) -> None:
    session_id = await pending(database)
    async with database.transaction() as db:
        first, first_events = await claim_session(db, session_id, "worker-1", now=NOON)
    async with database.transaction() as db:
        second, second_events = await claim_session(db, session_id, "worker-2", now=LATER)
    assert (first.attempt, second.attempt) == (1, 2) and second.status == "in_progress"
    assert told(first_events) == [("session.status", "in_progress")] * 2 and second_events == []
    session = await find(database, session_id)
    assert (session.started_at, session.executor, session.last_seq) == (NOON, "worker-2", 2)


async def test_a_worker_that_lost_the_session_changes_nothing(database: Database) -> None:
    """I of the invariants: a zombie writes into the void."""
    session_id = await begun(database)
    async with database.transaction() as db:
        ids = await stages.plan_stages(db, session_id, 1, ["look"])
        await stages.begin_execution(db, session_id, 1, new_execution("e", ids[0], model="m"), now=NOON)
    event_id = await open_event(database, session_id, "s")
    async with database.transaction() as db:
        await claim_session(db, session_id, "worker-2", now=NOON)
    before = await _all_rows(database)
    writes: list[Any] = [
        lambda db: append(db, session_id, 1, "x", SessionStatus(status="failed"), now=NOON),
        lambda db: create_timeline_event(
            db, session_id, 1, "x", NewTimelineEvent(event_id="x", event_type="error", metadata={}), now=NOON
        ),
        lambda db: complete_timeline_event(
            db,
            session_id,
            1,
            "s",
            TimelineCompletion(event_id=event_id, event_type="llm_response", content="", metadata={}),
            now=NOON,
        ),
        lambda db: add_interaction(db, session_id, 1, interaction("x"), now=NOON),
        lambda db: stages.plan_stages(db, session_id, 1, ["look", "again"]),
        lambda db: move_stage(db, session_id, 1, StageChange(stage_id=ids[0], status="in_progress"), now=NOON),
        lambda db: stages.begin_execution(db, session_id, 1, new_execution("f", ids[0], model="m"), now=NOON),
        lambda db: stages.end_execution(db, session_id, 1, ExecutionEnd(execution_id="e", status="failed"), now=NOON),
        lambda db: claims.release(db, session_id, 1),
        lambda db: end_session(db, session_id, 1, SessionEnd(status="completed"), now=NOON),
    ]
    for write in writes:
        with pytest.raises(LostSession):
            async with database.transaction() as db:
                await write(db)
    assert await _all_rows(database) == before


async def _all_rows(database: Database) -> dict[str, list[Any]]:
    async with database.reading() as db:
        return {name: sorted(map(repr, await db.execute(sa.select(table)))) for name, table in metadata.tables.items()}


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "timed_out"])
async def test_a_session_that_has_ended_takes_no_more_writes_and_keeps_its_end(database: Database, status: End) -> None:
    session_id = await begun(database)
    await end(database, session_id, 1, status, "first reason")
    for other in ENDS:
        with pytest.raises(LostSession):
            await end(database, session_id, 1, other)
        with pytest.raises(LostSession):
            await end(database, session_id, None, other)
    with pytest.raises(LostSession):
        await open_event(database, session_id, "late")
    with pytest.raises(LostSession):
        async with database.transaction() as db:
            await claim_session(db, session_id, "worker-2", now=LATER)
    async with database.transaction() as db:
        cancelled = await request_cancel(db, session_id, reason="too late", now=LATER)
    session = await find(database, session_id)
    assert (session.status, session.reason, session.ended_at) == (status, "first reason", LATER)
    assert (cancelled.status, cancelled.events) == (status, ())


async def test_open_stages_and_executions_end_with_the_session_and_are_published(database: Database) -> None:
    session_id = await begun(database)
    async with database.transaction() as db:
        done, running, waiting = await stages.plan_stages(db, session_id, 1, ["look", "dig", "conclude"])
        for stage in (done, running):
            await move_stage(db, session_id, 1, StageChange(stage_id=stage, status="in_progress"), now=NOON)
        await move_stage(db, session_id, 1, StageChange(stage_id=done, status="completed", analysis="found"), now=NOON)
        await begin_execution(db, session_id, 1, new_execution("e", running, model="m"), now=NOON)
    opened = [await open_event(database, session_id, step) for step in ("one", "two")]
    before = len(await log(database, session_id))

    published = await end(database, session_id, 1, "timed_out", "It took longer than an hour.")

    async with database.reading() as db:
        shown = await timeline.page(db, session_id)
        theirs = await stages.stages_of(db, session_id)
        (execution,) = await stages.executions_of(db, session_id)
    assert [(one.event_id, one.status, one.content, one.completed_at) for one in shown] == [
        (opened[0], "cancelled", "so far one", LATER),
        (opened[1], "cancelled", "so far two", LATER),
    ]
    assert [(stage.status, stage.ended_at) for stage in theirs] == [
        ("completed", NOON),
        ("timed_out", LATER),
        ("cancelled", LATER),
    ]
    assert (execution.status, execution.ended_at) == ("timed_out", LATER)
    assert told(published) == [
        ("timeline_event.completed", "cancelled"),
        ("timeline_event.completed", "cancelled"),
        ("execution.status", "timed_out"),
        ("stage.status", "timed_out"),
        ("stage.status", "cancelled"),
        ("session.status", "timed_out"),
        ("session.status", "timed_out"),
    ]
    assert published[:-1] == await log(database, session_id, after=before) and published[-1].channel == "sessions"
    assert json.loads(published[0].payload)["metadata"] == {"of": "one"}
    assert (await find(database, session_id)).last_seq == published[-2].seq
    assert waiting


async def test_a_pending_session_is_cancelled_at_once(database: Database) -> None:
    session_id = await pending(database)
    async with database.transaction() as db:
        cancelled = await request_cancel(db, session_id, reason="ann said so", now=LATER)
    session = await find(database, session_id)
    assert (
        cancelled.status == session.status == "cancelled"
        and session.reason == "ann said so"
        and session.ended_at == LATER
    )


async def test_a_running_session_is_asked_to_stop_and_only_once(database: Database) -> None:
    session_id = await begun(database)
    async with database.transaction() as db:
        first = await request_cancel(db, session_id, reason="ann said so", now=NOON)
        second = await request_cancel(db, session_id, reason="bob said so", now=LATER)
    assert (first.status, second.status, second.events) == ("cancelling", "cancelling", ())
    session = await find(database, session_id)
    assert (session.status, session.reason, session.cancel_requested_at) == ("cancelling", "ann said so", NOON)
    async with database.transaction() as db:
        claim, _ = await claim_session(db, session_id, "worker-2", now=LATER)
        assert claim.status == "cancelling"
    await end(database, session_id, 2, "cancelled", "ann said so")
    assert told(await log(database, session_id))[-2:] == [
        ("session.status", "cancelling"),
        ("session.status", "cancelled"),
    ]


async def test_cancelling_what_does_not_exist_says_so(database: Database) -> None:
    with pytest.raises(SessionNotFound, match="no session 'nothing'"):
        async with database.transaction() as db:
            await request_cancel(db, "nothing", reason="", now=NOON)


async def test_stages_move_forward_only_and_a_repeated_move_tells_nothing(database: Database) -> None:
    session_id = await begun(database)
    async with database.transaction() as db:
        (stage,) = await stages.plan_stages(db, session_id, 1, ["look"])
        assert await stages.plan_stages(db, session_id, 1, ["look"]) == [stage]
        assert await move_stage(db, session_id, 1, StageChange(stage_id=stage, status="in_progress"), now=NOON)
        assert await move_stage(db, session_id, 1, StageChange(stage_id=stage, status="in_progress"), now=LATER) is None
        assert await move_stage(
            db, session_id, 1, StageChange(stage_id=stage, status="completed", analysis="found"), now=LATER
        )
        assert await move_stage(db, session_id, 1, StageChange(stage_id=stage, status="failed"), now=LATER) is None
        assert await move_stage(db, session_id, 1, StageChange(stage_id=stage, status="in_progress"), now=LATER) is None
        (found,) = await stages.stages_of(db, session_id)
    assert (found.status, found.analysis, found.started_at, found.ended_at) == ("completed", "found", NOON, LATER)
    assert [one.seq for one in await log(database, session_id)] == [1, 2, 3, 4]


async def test_executions_begin_and_end_once(database: Database) -> None:
    session_id = await begun(database)
    async with database.transaction() as db:
        (stage,) = await stages.plan_stages(db, session_id, 1, ["look"])
        for model in ("first", "second"):
            await stages.begin_execution(db, session_id, 1, new_execution("e", stage, model=model), now=NOON)
        failed = ExecutionEnd(execution_id="e", status="failed", reason="refused", verdict={"cause": "none"})
        assert await stages.end_execution(db, session_id, 1, failed, now=LATER)
        again = ExecutionEnd(execution_id="e", status="completed")
        assert await stages.end_execution(db, session_id, 1, again, now=LATER) is None
        (execution,) = await stages.executions_of(db, session_id)
    assert (execution.model, execution.status, execution.reason) == ("first", "failed", "refused")


async def test_deaths_are_counted_as_long_as_a_session_gets_no_further(database: Database) -> None:
    session_id = await pending(database)

    async def dies(executor: str, *, gets_further: bool, is_connected: bool = False) -> int | None:
        async with database.transaction() as db:
            claim, _ = await claim_session(db, session_id, executor, now=NOON)
        if gets_further:
            await open_event(database, session_id, executor, attempt=claim.attempt)
        async with database.transaction() as db:
            return await claims.record_crash(db, session_id, executor, is_connected=is_connected)

    assert await dies("w1", gets_further=True) == 1
    assert await dies("w2", gets_further=False) == 2
    assert await dies("w3", gets_further=False) == 3
    assert await dies("w4", gets_further=True) == 1
    assert await dies("busy", gets_further=True, is_connected=True) == 0
    assert await dies("blocked", gets_further=False, is_connected=True) == 1
    async with database.transaction() as db:
        assert await claims.record_crash(db, session_id, "w4") is None


async def page(
    database: Database, filters: Filters | None = None, *, cursor: str | None = None, limit: int = 50
) -> tuple[list[Listed], str | None]:
    async with database.reading() as db:
        return await listing.list_page(db, filters or Filters(), cursor=cursor, limit=limit)


async def test_pages_of_the_list_are_stable_while_sessions_come_in(database: Database) -> None:
    # Several of one moment: their ids decide, and none is skipped at the edge of a page.
    ids = [
        await pending(database, now=NOON + timedelta(seconds=number // 3), title=str(number)) for number in range(10)
    ]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        listed, cursor = await page(database, cursor=cursor, limit=3)
        seen += [one.session.id for one in listed]
        await pending(database, now=LATER)
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids) and len(seen) == 10
    created = [(await find(database, id_)).created_at for id_ in seen]
    assert created == sorted(created, reverse=True)


async def test_the_list_is_filtered_by_status_type_time_and_words(database: Database) -> None:
    crash = await begun(database, title="Checkout CRASHES", alert="pod 100%_broken\\here", now=NOON)
    disk = await pending(
        database, title="disk full", alert="volume data-1", alert_type="Disk", now=NOON + timedelta(hours=1)
    )
    await end(database, crash, 1, "failed")
    async with database.transaction() as db:
        await db.execute(
            sa.update(metadata.tables["sessions"])
            .where(sa.column("id") == crash)
            .values(analysis="The cause is a LIMIT.")
        )

    async def found(**filters: Any) -> list[str]:
        return [one.session.id for one in (await page(database, Filters(**filters)))[0]]

    assert await found() == [disk, crash]
    assert await found(statuses=["failed", "completed"]) == [crash]
    assert await found(alert_type="Disk") == [disk]
    assert await found(created_after=NOON + timedelta(minutes=1)) == [disk]
    assert await found(created_before=NOON + timedelta(minutes=1)) == [crash]
    assert await found(q="crashes checkout") == [crash]
    assert await found(q="cause limit crash") == [crash]
    assert await found(q="volume") == [disk]
    assert await found(q="volume crash") == []
    assert await found(q="100%_broken\\here") == [crash]
    assert await found(q="%") == [crash]
    assert await found(q="1_0") == []


async def test_the_list_says_which_stage_is_worked_on(database: Database) -> None:
    session_id = await begun(database)
    async with database.transaction() as db:
        ids = await stages.plan_stages(db, session_id, 1, ["look", "dig", "conclude"])
        for stage in ids[:2]:
            await move_stage(db, session_id, 1, StageChange(stage_id=stage, status="in_progress"), now=NOON)
    ((listed,), _) = await page(database)
    assert listed.stage is not None and (listed.stage.position, listed.stage.name, listed.stage_count) == (1, "dig", 3)


@pytest.mark.parametrize("cursor", ["x", "", "é", "bm9uZQ", "MjAyNi0xMS0xNVQxMjowMDowMCBh"])
async def test_a_cursor_from_elsewhere_is_refused_in_words(database: Database, cursor: str) -> None:
    with pytest.raises(InputError, match="Start again without one"):
        await page(database, cursor=cursor)


async def test_sessions_are_counted_by_status(database: Database) -> None:
    await pending(database)
    await end(database, await begun(database), 1, "failed")
    async with database.reading() as db:
        assert await sessions.counts(db) == {
            "pending": 1, "in_progress": 0, "cancelling": 0, "completed": 0, "failed": 1, "cancelled": 0, "timed_out": 0
        }  # fmt: skip
        assert [one.status for one in await sessions.with_status(db, "pending", "in_progress")] == ["pending"]


async def test_a_deleted_session_is_gone_with_its_results_and_others_stay(database: Database) -> None:
    gone, stays = await begun(database), await begun(database)
    for session_id in (gone, stays):
        await open_event(database, session_id, "s")
        async with database.transaction() as db:
            origin = results.Origin(server="cluster", tool="get_pods", arguments={}, called_at=NOON)
            handle = await results.keep(
                db, pack(b"same text"), scope=sessions.results_scope(session_id), origin=origin, kind="text",
                mime_type="text/plain",
                part=0, tokens=2, encoding="o200k_base", now=NOON, retention=timedelta(days=30),
            )  # fmt: skip
            await add_interaction(db, session_id, 1, interaction("s"), now=NOON)
        await end(database, session_id, 1)
    async with database.transaction() as db:
        assert await sessions.delete(db, gone) == 1
    async with database.reading() as db:
        left = {
            name: [repr(row) for row in await db.execute(sa.select(table))] for name, table in metadata.tables.items()
        }
        await results.find(db, handle, scope=sessions.results_scope(stays), now=NOON)
    assert not [name for name, rows in left.items() if any(gone in row for row in rows)]
    for name in ("sessions", "timeline_events", "event_log", "feed", "interactions", "messages", "kept_results"):
        assert any(stays in row for row in left[name]), name


async def test_a_session_that_is_worked_on_is_not_deleted(database: Database) -> None:
    session_id = await begun(database)
    with pytest.raises(SessionNotEnded, match="still in progress"):
        async with database.transaction() as db:
            await sessions.delete(db, session_id)
    with pytest.raises(SessionNotFound):
        async with database.transaction() as db:
            await sessions.delete(db, str(uuid.uuid4()))


async def test_only_sessions_that_ended_long_ago_have_expired(database: Database) -> None:
    old, running = await begun(database), await begun(database)
    await end(database, old, 1)
    async with database.reading() as db:
        assert await sessions.expired(db, days=90, now=LATER + timedelta(days=89)) == []
        assert await sessions.expired(db, days=90, now=LATER + timedelta(days=91)) == [old]
    assert not (await find(database, running)).has_ended


async def test_an_alert_that_is_over_is_recorded_the_first_time_it_is_said(database: Database) -> None:
    session_id = await begun(database)
    async with database.transaction() as db:
        assert await sessions.resolve(db, session_id, now=NOON)
        assert await sessions.resolve(db, session_id, now=LATER)
        assert not await sessions.resolve(db, "nothing", now=NOON)
    session = await find(database, session_id)
    assert session.resolved_at == NOON and session.status == "in_progress"


async def test_a_process_that_is_not_seen_for_a_lease_is_dead_by_the_databases_clock(database: Database) -> None:
    async with database.transaction() as db:
        await workers.heartbeat(db, "w1", host="a", version="1")
        await workers.heartbeat(db, "w2", host="b", version="1", leaving=True)
    async with database.reading() as db:
        seen = (await workers.alive(db, lease=30))[0].seen_at
        assert abs(datetime.now(UTC) - seen) < timedelta(seconds=30)
        assert {(one.id, one.leaving) for one in await workers.alive(db, lease=30)} == {("w1", False), ("w2", True)}
        assert await workers.dead(db, lease=30) == []
    async with database.transaction() as db:
        await db.execute(
            sa.update(executors).where(executors.c.id == "w1").values(seen_at=seen - timedelta(seconds=40))
        )
    async with database.reading() as db:
        assert await workers.dead(db, lease=30) == ["w1"] and [one.id for one in await workers.alive(db, lease=30)] == [
            "w2"
        ]
    async with database.transaction() as db:
        await workers.heartbeat(db, "w1", host="a", version="1")
        assert await workers.dead(db, lease=30) == []
        await workers.unregister(db, "w1")
        assert [one.id for one in await workers.alive(db, lease=30)] == ["w2"]
