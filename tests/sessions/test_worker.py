"""Sessions are taken, worked on, stopped, given back and taken over."""

import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from dbos._schemas.system_database import SystemSchema

from tersely.app.sessions import _start_child
from tersely.errors import IdempotencyConflict, InputError, QueueFull, SessionEnded
from tersely.events.log import claim_session, create_session
from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import Masked, assume_masked
from tersely.sessions.durable import Engine, Interrupted
from tersely.sessions.intake import Submission
from tersely.sessions.rerun import RerunIntake
from tersely.sessions.suspects import ChildProcess
from tersely.sessions.worker import RESTARTED, RESUMED, SessionOutcome, Worker, WorkerTimeouts
from tersely.store import claims, events, executors, stages, timeline
from tersely.store import sessions as rows
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tersely.store.liveness import LOCKED, worker_lock
from tersely.store.sessions import Session
from tests.fakes.sessions_app import Opening, SmallApp, opening

ALERT = Submission(data={"alertname": "Checkout is slow", "password": "hunter2hunter2"})


@pytest.fixture
async def opened(url: str) -> Opening:
    if url.startswith("postgresql"):
        await Database.migrate(url)
    return opening(url)


async def conclude(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
    return SessionOutcome(status="completed", analysis=assume_masked(f"looked at {session.title}"))


async def wait_for_ever(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
    await anyio.sleep_forever()
    raise AssertionError("nobody wakes it")


async def test_an_accepted_alert_is_worked_on_and_ends(opened: Opening) -> None:
    async with opened(conclude) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        ended = await app.until(accepted.session_id, "completed")
        assert accepted.status == "pending"
        assert (ended.title, ended.analysis, ended.reason) == ("Checkout is slow", "looked at Checkout is slow", "")
        assert "hunter2" not in ended.alert and "[MASKED:" in ended.alert
        async with app.database.reading() as db:
            told = [logged.payload for logged in await events.page(db, accepted.session_id)]
        assert [
            status in payload for payload, status in zip(told, ["pending", "in_progress", "completed"], strict=True)
        ] == [True] * 3


async def test_a_session_that_waits_is_cancelled_at_once_and_never_begun(opened: Opening) -> None:
    begun: list[str] = []

    async def note(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        begun.append(session.id)
        return await wait_for_ever(session, recorder, worker)

    async with opened(note, at_once=1) as app:
        first = await app.intake.submit(ALERT, principal="me")
        await app.until(first.session_id, "in_progress")
        second = await app.intake.submit(ALERT, principal="me")
        assert await app.intake.cancel(second.session_id, by="ada") == "cancelled"
        assert (await app.session(second.session_id)).reason == "Cancelled by ada."
        assert await app.intake.cancel(first.session_id, by="ada") == "cancelling"
        assert (await app.until(first.session_id, "cancelled")).reason == "Cancelled by ada."
        with pytest.raises(SessionEnded, match="already ended as cancelled"):
            await app.intake.cancel(first.session_id, by="ada")
        assert begun == [first.session_id]


async def test_a_session_cancelled_through_the_store_alone_stops_too(opened: Opening) -> None:
    async with opened(wait_for_ever) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        await app.until(accepted.session_id, "in_progress")
        # As another replica does it: it cannot reach the task, only the row.
        app.worker.cancel_here = lambda session_id: False  # type: ignore[method-assign]
        await app.intake.cancel(accepted.session_id, by="another replica")
        await app.until(accepted.session_id, "cancelled")


async def test_what_takes_too_long_ends_as_timed_out(opened: Opening) -> None:
    async with opened(wait_for_ever, timeouts=WorkerTimeouts(lease=2, session=0.2, grace=5)) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        assert "0.2 s" in (await app.until(accepted.session_id, "timed_out")).reason


async def test_a_mistake_of_our_own_is_an_end_as_well(opened: Opening) -> None:
    async def broken(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        raise KeyError("oops")

    async def failed(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        raise InputError("There is no server 'x' any more, and the key is sk-ant-REDACTED.")

    for work, reason in ((broken, "An internal error (KeyError)"), (failed, "There is no server 'x' any more")):
        async with opened(work) as app:
            accepted = await app.intake.submit(ALERT, principal="me")
            ended = await app.until(accepted.session_id, "failed")
            assert ended.reason.startswith(reason) and "sk-ant-api03" not in ended.reason


async def test_a_session_given_back_goes_on_after_its_last_finished_step(opened: Opening) -> None:
    calls: list[str] = []

    async def in_steps(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        async def first() -> str:
            calls.append("first")
            return "one"

        async def second() -> str:
            calls.append("second")
            if calls.count("second") == 1:
                reached.set()
                await anyio.sleep_forever()
            return "two"

        said = [await worker.step("first", first)]
        async with recorder.opened("second", "llm_response") as event:
            said.append(await worker.step("second", second))
            await event.complete(assume_masked(" and ".join(said)))
        return SessionOutcome(status="completed", analysis=assume_masked(" and ".join(said)))

    reached = anyio.Event()
    async with opened(in_steps, timeouts=WorkerTimeouts(lease=2, grace=0.1)) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        await reached.wait()
    async with opened(in_steps) as app:
        before = await app.session(accepted.session_id)
        ended = await app.until(accepted.session_id, "completed")
        async with app.database.reading() as db:
            told = [logged.payload for logged in await events.page(db, accepted.session_id)]
    assert before.status == "in_progress"
    assert (ended.analysis, ended.attempt, ended.crashes) == ("one and two", 2, 0)
    assert calls == ["first", "second", "second"]
    assert (
        sum('"type":"timeline_event.completed"' in payload and '"status":"completed"' in payload for payload in told)
        == 1
    )


@pytest.mark.parametrize(
    ("stored", "updated", "redone", "notice"),
    [
        (["a", "b", "c"], ["a", "new", "c"], ["new", "c"], RESUMED),
        (["a", "b", "c"], ["new", "b", "c"], ["new", "b", "c"], RESTARTED),
        (["a", "b"], ["a", "b", "c"], ["c"], None),
        # It stumbles over the results of stored steps themselves.
        (["a", "b"], ["a", "b", "broken"], ["broken", "a", "b", "broken"], RESTARTED),
    ],
)
async def test_a_session_of_another_release_is_resumed_where_its_steps_fit(
    opened: Opening, stored: list[str], updated: list[str], redone: list[str], notice: Masked | None
) -> None:
    ran: list[str] = []
    reached = anyio.Event()

    async def old(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        await run(stored, recorder, worker)
        reached.set()
        return await wait_for_ever(session, recorder, worker)

    async def new(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        await run(updated, recorder, worker)
        return SessionOutcome(status="completed", analysis=assume_masked("done"))

    async def run(names: list[str], recorder: SessionRecorder, worker: Worker) -> None:
        for name in names:

            async def piece(name: str = name) -> str:
                ran.append(name)
                return name

            await worker.step(name, piece)
            await recorder.record(name, "llm_response", assume_masked(f"{name} was done"))
            if name == "broken" and ran.count("broken") == 1:
                raise AttributeError("of a record that has changed")

    async with opened(old, timeouts=WorkerTimeouts(lease=2, grace=0.1)) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        await reached.wait()
    ran.clear()
    async with opened(new) as app:
        ended = await app.until(accepted.session_id, "completed", "failed")
        async with app.database.reading() as db:
            shown = [row.content for row in await timeline.page(db, accepted.session_id)]
    assert (ended.status, ended.reason, ended.crashes) == ("completed", "", 0)
    assert ran == redone
    # What was said beside steps is not said again.
    said = [f"{name} was done" for name in dict.fromkeys(stored + updated)]
    assert sorted(shown) == sorted([*said, notice] if notice else said)


async def test_a_stage_that_an_update_runs_again_has_its_new_result(opened: Opening) -> None:
    reached = anyio.Event()

    async def run(name: str, recorder: SessionRecorder, worker: Worker) -> None:
        async def piece() -> str:
            return name

        [stage] = await recorder.plan(["look"])
        inner = recorder.within(stage, rows.derived_id(recorder.session_id, "execution/0"))
        await recorder.stage_status(stage, "in_progress")
        await inner.execution_began(agent="a", controller="c", provider="p", model="m")
        said = await worker.step(name, piece)
        await inner.execution_ended("completed", analysis=f"{said} said so")
        await recorder.stage_status(stage, "completed", analysis=f"{said} said so")

    async def old(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        await run("old", recorder, worker)
        reached.set()
        return await wait_for_ever(session, recorder, worker)

    async def new(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        await run("new", recorder, worker)
        return SessionOutcome(status="completed", analysis=assume_masked("done"))

    async with opened(old, timeouts=WorkerTimeouts(lease=2, grace=0.1)) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        await reached.wait()
    async with opened(new) as app:
        await app.until(accepted.session_id, "completed", "failed")
        async with app.database.reading() as db:
            [stage] = await stages.stages_of(db, accepted.session_id)
            [execution] = await stages.executions_of(db, accepted.session_id)
    assert (stage.status, stage.analysis, execution.analysis) == ("completed", "new said so", "new said so")


async def test_a_session_that_comes_while_the_engine_is_being_launched_is_not_lost(opened: Opening) -> None:
    """It ended as given up: its first step found no engine, and the engine takes an error for the end."""

    @asynccontextmanager
    async def slowly(*given: Any, **named: Any) -> AsyncIterator[Engine]:
        async with Engine.launched(*given, **named) as engine:
            await anyio.sleep(1)
            yield engine

    async def one_step(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        async def say() -> str:
            return "done"

        return SessionOutcome(status="completed", analysis=assume_masked(await worker.step("say", say)))

    async with opened(one_step) as app:
        app.engine.stop_dequeuing()
        accepted = await app.intake.submit(ALERT, principal="me")
    async with opened(one_step, launch=slowly) as app:
        ended = await app.until(accepted.session_id, "completed", "failed")
    assert (ended.status, ended.reason, ended.analysis) == ("completed", "", "done")


async def test_never_more_sessions_run_than_the_limit(opened: Opening) -> None:
    now, most = 0, 0
    two_run = anyio.Event()

    async def count(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        nonlocal now, most
        now += 1
        most = max(most, now)
        if now == 2:
            two_run.set()
        await two_run.wait()
        await anyio.sleep(0.1)  # So that a third would be seen.
        now -= 1
        return SessionOutcome(status="completed")

    async with opened(count, at_once=2) as app:
        ids = [(await app.intake.submit(ALERT, principal="me")).session_id for _ in range(6)]
        for session_id in ids:
            await app.until(session_id, "completed")
    assert most == 2


async def test_an_alert_is_refused_with_what_would_be_right(opened: Opening) -> None:
    async with opened(wait_for_ever, at_once=1, max_pending=1) as app:
        with pytest.raises(InputError, match="Known types: default"):
            await app.intake.submit(Submission(data="x", alert_type="nobody"), principal="me")
        with pytest.raises(InputError, match="data is empty"):
            await app.intake.submit(Submission(data=" \n "), principal="me")
        with pytest.raises(InputError, match="runbook is longer than"):
            await app.intake.submit(Submission(data="x", runbook="x" * 70_000), principal="me")
        first = await app.intake.submit(Submission(data="x"), principal="me", idempotency_key="k")
        again = await app.intake.submit(Submission(data="x"), principal="me", idempotency_key="k")
        assert again.session_id == first.session_id
        with pytest.raises(IdempotencyConflict):
            await app.intake.submit(Submission(data="y"), principal="me", idempotency_key="k")
        await app.until(first.session_id, "in_progress")
        await app.intake.submit(Submission(data="waits"), principal="me")
        with pytest.raises(QueueFull) as full:
            await app.intake.submit(Submission(data="one too many"), principal="me")
        assert full.value.retry_after > 0


async def test_a_worker_that_lost_a_session_during_a_step_neither_ends_it_nor_stores_the_step(opened: Opening) -> None:
    calls: list[str] = []

    async def in_steps(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        async def taken_away_meanwhile() -> str:
            calls.append("step")
            if len(calls) == 1:
                # As a survivor does it who takes this process for dead.
                async with app.database.transaction() as db:
                    await claims.record_crash(db, session.id, worker.name)
                await app.engine.requeue([session.id], taken_from=worker.name)
            return f"run {len(calls)}"

        return SessionOutcome(
            status="completed", analysis=assume_masked(await worker.step("step", taken_away_meanwhile))
        )

    async with opened(in_steps) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        ended = await app.until(accepted.session_id, "completed", "failed")
    assert (ended.status, ended.analysis, ended.crashes) == ("completed", "run 2", 1)


async def test_what_is_ours_by_name_and_does_not_run_here_is_taken_up_again(opened: Opening) -> None:
    runs: list[str] = []

    async def forgets_the_first_time(session: Session, recorder: SessionRecorder, worker: Worker) -> SessionOutcome:
        runs.append(session.id)
        if len(runs) == 1:
            raise Interrupted  # The engine began it, and it was never finished.
        return SessionOutcome(status="completed")

    async with opened(forgets_the_first_time) as app:
        accepted = await app.intake.submit(ALERT, principal="me")
        await app.until(accepted.session_id, "completed")
    assert len(runs) == 2


async def test_cancelling_a_session_that_no_worker_holds_ends_it_at_once(opened: Opening) -> None:
    async with opened(wait_for_ever, at_once=1) as app:
        first = await app.intake.submit(ALERT, principal="me")
        await app.until(first.session_id, "in_progress")
        second = await app.intake.submit(ALERT, principal="me")
        async with app.database.transaction() as db:
            # Begun once, given back, and waiting behind the first: as after a restart.
            await claim_session(db, second.session_id, "gone", now=app.database.clock.now())
            await claims.release(db, second.session_id, 1)
        assert await app.intake.cancel(second.session_id, by="ada") == "cancelled"


class Child:
    """A child process whose end is up to the test."""

    def __init__(self, code: int, during: Callable[[], Awaitable[None]]) -> None:
        self._code, self._during = code, during

    async def wait(self) -> int:
        await self._during()
        return self._code

    def cpu_seconds(self) -> float:
        return 0.0

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    async def aclose(self) -> None: ...


@pytest.mark.parametrize(
    ("codes", "progresses", "ends"),
    [
        ([-9], False, "set aside"),
        # The parent died, then the child left in order, then it proves itself guilty.
        ([0, 70], False, "set aside"),
        # A child process that dies after progress proves nothing.
        ([-9], True, "completed"),
    ],
)
async def test_a_session_is_set_aside_only_if_it_crashes_a_child_process_of_a_living_worker(
    opened: Opening, codes: list[int], progresses: bool, ends: str
) -> None:
    started: list[str] = []

    async def start_child(name: str) -> Child:
        async def run() -> None:
            # As the engine and the worker in the child process do it.
            started.append(name)
            await take_suspect(app, accepted.session_id, name)
            if progresses:
                async with app.database.transaction() as db:
                    attempt = (await rows.find(db, accepted.session_id)).attempt
                    recorder = SessionRecorder(app.database, app.worker.bus, accepted.session_id, attempt)
                await recorder.notice("x", assume_masked("progress"))

        return Child(codes[len(started)], run)

    async with opened(conclude, at_once=1, start_child=start_child) as app:
        app.engine.stop_dequeuing()
        accepted = await app.intake.submit(ALERT, principal="me")
        async with app.database.transaction() as db:
            for name in ("a", "b", "c", "d"):
                await claim_session(db, accepted.session_id, name, now=app.database.clock.now())
                await claims.record_crash(db, accepted.session_id, name)
    async with opened(conclude, at_once=1, start_child=start_child) as app:
        ended = await app.until(accepted.session_id, "completed", "failed")
        assert len(started) == len(codes)
        if ends == "set aside":
            assert ended.reason.startswith("It was set aside") and "can be run again" in ended.reason
            again = await RerunIntake(intake=app.intake, database=app.database).run_again(
                accepted.session_id, principal="me"
            )
            redone = await app.until(again.session_id, "completed")
            assert (redone.alert, redone.title) == (ended.alert, ended.title)
        else:
            assert ended.status == "completed"


async def test_a_session_whose_end_is_stored_without_an_answer_leaves_the_queue_too(opened: Opening) -> None:
    async def start_child(name: str) -> Child:
        return Child(-9, lambda: take_suspect(app, accepted.session_id, name))

    async def end_twice(session_id: str, end: SessionEnd) -> None:
        # The first answer was lost, so it was written again.
        await app.worker._end(session_id, None, end)
        await app.worker._end(session_id, None, end)

    async with opened(conclude, at_once=1, start_child=start_child) as app:
        app.engine.stop_dequeuing()
        accepted = await app.intake.submit(ALERT, principal="me")
        async with app.database.transaction() as db:
            for name in ("a", "b"):
                await claim_session(db, accepted.session_id, name, now=app.database.clock.now())
                await claims.record_crash(db, accepted.session_id, name)
    async with opened(conclude, at_once=1, start_child=start_child) as app:
        assert app.worker._suspects is not None
        app.worker._suspects.end_session = end_twice
        await app.until(accepted.session_id, "failed")
        with anyio.fail_after(60):
            while await app.engine.states([accepted.session_id]) != {accepted.session_id: "ended"}:
                await anyio.sleep(0.05)


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="the CPU time of a child process is known on Linux only")
async def test_a_child_process_that_hangs_is_killed_and_the_second_time_is_proof_if_it_computes(tmp_path: Path) -> None:
    """Two at once: one computes for ever, the other one is stopped, as by a debugger or a busy machine."""
    opened = opening(f"sqlite+aiosqlite:///{tmp_path}/tersely.db")
    at_once = 0
    tried: list[str] = []

    async def start_child(name: str) -> ChildProcess:
        nonlocal at_once
        taken = innocent if await is_waiting(app, innocent) else guilty
        tried.append(taken)
        at_once = max(at_once, len(app.worker._children))
        await take_suspect(app, taken, name)
        program = "while True: pass" if taken == guilty else "import time; time.sleep(3600)"
        return await _start_child([sys.executable, "-c", program], name)

    timeouts = WorkerTimeouts(lease=2, grace=5)
    async with opened(conclude, timeouts=timeouts, start_child=start_child) as app:
        app.engine.stop_dequeuing()
        guilty, innocent = [(await app.intake.submit(ALERT, principal="me")).session_id for _ in range(2)]
        async with app.database.transaction() as db:
            for session_id in (guilty, innocent):
                for name in ("a", "b"):
                    await claim_session(db, session_id, name, now=app.database.clock.now())
                    await claims.record_crash(db, session_id, name)
    async with opened(conclude, timeouts=timeouts, start_child=start_child) as app:
        assert "it hung for 1.5 s" in (await app.until(guilty, "failed")).reason
        assert tried.count(guilty) >= 2, "on a busy machine, a sound session may also compute for a moment"
        with anyio.fail_after(60):
            while tried.count(innocent) < 2:
                await anyio.sleep(0.05)
        assert (await app.session(innocent)).crashes == 2 and at_once > 1


async def test_a_child_process_starts_when_the_one_before_has_started(opened: Opening) -> None:
    started: list[str] = []

    async def start_child(name: str) -> Child:
        started.append(name)
        return Child(0, anyio.sleep_forever)

    async with opened(conclude, at_once=1, start_child=start_child) as app:
        app.engine.stop_dequeuing()
        accepted = [await app.intake.submit(ALERT, principal="me") for _ in range(2)]
        async with app.database.transaction() as db:
            for session_id in [one.session_id for one in accepted]:
                for name in ("a", "b"):
                    await claim_session(db, session_id, name, now=app.database.clock.now())
                    await claims.record_crash(db, session_id, name)
    async with opened(conclude, at_once=1, start_child=start_child) as app:
        assert app.worker._suspects is not None
        with anyio.fail_after(60):
            while not started or await app.engine.count_suspects() < 2:
                await anyio.sleep(0.02)
            await app.worker._suspects.start_if_needed()
            assert app.worker._suspects.names == {started[0]}, "it has sent no heartbeat yet"
            async with app.database.transaction() as db:
                await executors.heartbeat(db, started[0], host="h", version="1")
            while len(started) < 2:
                await anyio.sleep(0.02)


async def is_waiting(app: SmallApp, session_id: str) -> bool:
    status = SystemSchema.workflow_status
    question = sa.select(status.c.status).where(status.c.workflow_uuid == session_id, status.c.queue_name == "suspects")
    with app.engine._dbos._sys_db.engine.begin() as connection:
        return connection.scalar(question) == "ENQUEUED"


async def take_suspect(app: SmallApp, session_id: str, name: str) -> None:
    """What a child process does first."""
    status = SystemSchema.workflow_status
    with app.engine._dbos._sys_db.engine.begin() as connection:
        taken = sa.update(status).where(status.c.workflow_uuid == session_id, status.c.queue_name == "suspects")
        connection.execute(taken.values(status="PENDING", executor_id=name))
    async with app.database.transaction() as db:
        await executors.heartbeat(db, name, host="h", version="1")
        await claim_session(db, session_id, name, now=app.database.clock.now())


async def test_a_session_whose_workers_died_by_chance_is_not_given_up(opened: Opening) -> None:
    async with opened(conclude, at_once=1) as app:
        app.engine.stop_dequeuing()
        accepted = await app.intake.submit(ALERT, principal="me")
        async with app.database.transaction() as db:
            for number in range(40):
                await claim_session(db, accepted.session_id, f"{number}", now=app.database.clock.now())
                await claims.record_crash(db, accepted.session_id, f"{number}")
    async with opened(conclude, at_once=1) as app:
        assert (await app.until(accepted.session_id, "completed", "failed")).status == "completed"


async def _running_elsewhere(
    url: str, names: Mapping[str, str], timeouts: WorkerTimeouts
) -> tuple[Opening, dict[str, str]]:
    """One session for each of these other workers, which send no more heartbeats."""
    await Database.migrate(url)
    opened = opening(url)
    async with opened(conclude, timeouts=timeouts) as app:
        app.engine.stop_dequeuing()
        sessions = {name: (await app.intake.submit(ALERT, principal="me")).session_id for name in names}
        await app.worker._until_queued()
        status = SystemSchema.workflow_status
        for name, session_id in sessions.items():
            with app.engine._dbos._sys_db.engine.begin() as connection:
                taken = sa.update(status).where(status.c.workflow_uuid == session_id)
                connection.execute(taken.values(status="PENDING", executor_id=names[name]))
            async with app.database.transaction() as db:
                await executors.heartbeat(db, names[name], host="h", version="1")
                await claim_session(db, session_id, names[name], now=app.database.clock.now())
    return opened, sessions


@pytest.mark.parametrize("store", ["postgresql"])
async def test_a_process_that_stood_still_before_its_claim_takes_no_session_from_another(
    store: str, postgresql_url: str
) -> None:
    await Database.migrate(postgresql_url)
    status = SystemSchema.workflow_status
    passed: list[str] = []

    def stand_still(point: str) -> None:
        passed.append(point)
        if passed.count("before claim") == 1 and point == "before claim":
            # As if a lease had passed meanwhile: somebody has queued the session again, and another one began it.
            with app.engine._dbos._sys_db.engine.begin() as connection:
                connection.execute(sa.update(status).values(executor_id="another"))

    async with opening(postgresql_url)(conclude) as app:
        app.worker.on_point = stand_still
        session_id = (await app.intake.submit(ALERT, principal="me")).session_id
        with anyio.fail_after(60):
            while session_id in app.worker.session_ids or "before claim" not in passed:
                await anyio.sleep(0.05)
        before = await app.session(session_id)
        await app.engine.requeue([session_id], taken_from="another")
        ended = await app.until(session_id, "completed")
    assert (before.status, before.executor, before.attempt) == ("pending", None, 0)
    assert ended.attempt == 1


@pytest.mark.parametrize("store", ["postgresql"])
async def test_a_silent_worker_whose_connection_lives_did_not_crash(store: str, postgresql_url: str) -> None:
    """It may only get no CPU time. Its sessions are resumed after a lease, like those of a lost host."""
    timeouts = WorkerTimeouts(lease=1, grace=0.1)
    names = {"busy": f"busy{LOCKED}", "lost": "lost"}
    opened, sessions = await _running_elsewhere(postgresql_url, names, timeouts)
    async with Database.open(postgresql_url) as other, worker_lock(other, "busy"):
        async with opened(conclude, at_once=5, timeouts=timeouts) as app:
            for session_id in sessions.values():
                await app.until(session_id, "completed")
            assert {name: (await app.session(sessions[name])).crashes for name in names} == {"busy": 0, "lost": 1}


@pytest.mark.parametrize("store", ["postgresql"])
async def test_sessions_of_a_dead_process_are_resumed_long_before_its_lease_ends(
    store: str, postgresql_url: str
) -> None:
    """A worker that starts takes those of its predecessor at once, and none of a worker that lives or has no lock."""
    timeouts = WorkerTimeouts(lease=600, grace=0.1)
    names = {"dead": f"dead{LOCKED}", "lives": f"lives{LOCKED}", "pooled": "pooled"}
    opened, sessions = await _running_elsewhere(postgresql_url, names, timeouts)
    async with Database.open(postgresql_url) as other, worker_lock(other, "lives"):
        async with opened(conclude, at_once=5, timeouts=timeouts) as app:
            assert app.worker.name.endswith(LOCKED)
            with anyio.fail_after(60):
                await app.until(sessions["dead"], "completed")
            await anyio.sleep(2)
            for name in ("lives", "pooled"):
                session = await app.session(sessions[name])
                assert (session.status, session.executor) == ("in_progress", names[name])


async def test_no_more_sessions_are_claimed_than_may_run_whatever_the_engine_hands_out(database: Database) -> None:
    ids = [str(uuid.uuid4()) for _ in range(3)]
    now = database.clock.now()
    async with database.transaction() as db:
        for session_id in ids:
            new = rows.NewSession(
                id=session_id,
                scope="me",
                kind="k",
                alert_type="a",
                chain="c",
                title="t",
                alert="x",
                encoding="o200k_base",
                mark_key=b"k",
            )
            await create_session(db, new, now=now)
        await executors.heartbeat(db, "alive", host="h", version="1")
        await claim_session(db, ids[0], "alive", now=now)
        await claim_session(db, ids[1], "long gone", now=now)
        assert await executors.is_room_for(db, ids[2], 2), "what the dead held does not count"
        await claim_session(db, ids[1], "alive", now=now)
        assert not await executors.is_room_for(db, ids[2], 2)
        assert await executors.is_room_for(db, ids[1], 2), "who has a place keeps it"
