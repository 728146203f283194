"""The workflow engine by itself: where it runs what it takes out of its queue, and what it remembers."""

import asyncio
import sqlite3
import time
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import anyio
import pytest

from tersely.errors import ToolTimedOut
from tersely.sessions import durable
from tersely.sessions.codec import RecordCodec
from tersely.sessions.durable import Engine, IncompatibleStep, Interrupted
from tersely.sessions.records import SESSION_TYPES
from tersely.store.health import DatabaseHealth


@pytest.mark.slow
def test_a_session_runs_on_the_loop_of_the_engine_though_it_stood_still_when_the_session_was_taken(
    tmp_path: Path,
) -> None:
    """Locks and events belong to a loop: a session on another one would wait for ever. Test runners stop their loop
    between two tests.
    """
    ran: list[asyncio.AbstractEventLoop] = []

    async def work(session_id: str) -> None:
        ran.append(asyncio.get_running_loop())

    def is_taken() -> bool:
        with closing(sqlite3.connect(tmp_path / "tersely-workflows.db", timeout=300)) as file:
            return bool(file.execute("SELECT status FROM workflow_status").fetchone()[0] != "ENQUEUED")

    async def until_it_ran() -> None:
        async with asyncio.timeout(300):
            while not ran:
                await asyncio.sleep(0.01)

    with asyncio.Runner() as runner:
        launched = Engine.launched(
            f"sqlite:///{tmp_path / 'tersely.db'}",
            codec=RecordCodec(SESSION_TYPES),
            executor="one",
            at_once=1,
            poll=0.02,
            health=DatabaseHealth(),
            work=work,
        )
        engine = runner.run(launched.__aenter__())
        try:
            runner.run(engine.enqueue("a session"))
            deadline = time.monotonic() + 300
            while not is_taken() and time.monotonic() < deadline:
                time.sleep(0.01)
            runner.run(until_it_ran())
        finally:
            runner.run(launched.__aexit__(None, None, None))
        assert ran == [runner.get_loop()]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_result_that_cannot_be_stored_is_stored_later_and_its_work_is_done_once(
    tmp_path: Path, fails: bool
) -> None:
    """F12, F14: the engine takes the problem for the step's own, and would store it where the result had no room."""
    file = tmp_path / "tersely-workflows.db"
    seen: list[str] = []
    over = anyio.Event()

    async def work(session_id: str) -> None:
        async def piece() -> str:
            seen.append("worked")
            if fails:
                raise ToolTimedOut("a tool", 1)
            return "done"

        _change(file, "CREATE TRIGGER full BEFORE INSERT ON operation_outputs BEGIN SELECT RAISE(FAIL, 'full'); END")
        async with anyio.create_task_group() as group:

            async def make_room() -> None:
                await anyio.sleep(1)
                seen.append("room")
                _change(file, "DROP TRIGGER full")

            group.start_soon(make_room)
            try:
                seen.append(await engine.step("a step", piece))
            except ToolTimedOut:
                seen.append("failed")
        over.set()

    async with Engine.launched(
        f"sqlite:///{tmp_path / 'tersely.db'}",
        codec=RecordCodec(SESSION_TYPES),
        executor="one",
        at_once=1,
        poll=0.02,
        health=DatabaseHealth(),
        work=work,
    ) as engine:
        await engine.enqueue("a session")
        with anyio.fail_after(300):
            await over.wait()
    assert seen == ["worked", "room", "failed" if fails else "done"]
    ((output, error),) = _rows(file, "SELECT output, error FROM operation_outputs")
    assert (output is None) == fails and (error is None) == (not fails)


async def test_steps_of_another_release_that_do_not_fit_are_removed_and_the_others_used(tmp_path: Path) -> None:
    """A release that reads or orders steps differently resumes where the stored steps still fit."""
    file = tmp_path / "tersely-workflows.db"
    ran: list[str] = []
    found: list[IncompatibleStep] = []
    killed, over = anyio.Event(), anyio.Event()
    is_new_release = False

    async def work(session_id: str) -> None:
        async def step(name: str) -> None:
            async def piece() -> str:
                ran.append(name)
                return name

            await engine.step(name, piece)

        names = ["first", "new", "second"] if is_new_release else ["first", "second", "third"]
        try:
            for name in names:
                await step(name)
        except IncompatibleStep as problem:
            found.append(problem)
            await engine.rewind(session_id, problem.position, taken_from="one")
            raise Interrupted from None
        if not is_new_release:
            killed.set()
            raise Interrupted  # Killed here; updated; started again.
        over.set()

    async with Engine.launched(
        f"sqlite:///{tmp_path / 'tersely.db'}",
        codec=RecordCodec(SESSION_TYPES),
        executor="one",
        at_once=1,
        poll=0.02,
        health=DatabaseHealth(),
        work=work,
    ) as engine:
        await engine.enqueue("a session")
        with anyio.fail_after(300):
            await killed.wait()
            assert len(_rows(file, "SELECT * FROM operation_outputs")) == 3
            is_new_release = True
            # And the record of one step is of a kind that this release does not know.
            _change(file, 'UPDATE operation_outputs SET output = \'{"$is": "x", "of": {}}\' WHERE function_id = 1')
            await engine.requeue(["a session"], taken_from="one")
            await over.wait()
    assert [(problem.name, problem.position) for problem in found] == [("first", 1)]
    assert ran == ["first", "second", "third", "first", "new", "second"]


async def test_sessions_that_another_version_of_the_engine_queued_or_began_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[str, str]] = []

    def launched(executor: str, at_once: int = 2) -> AbstractAsyncContextManager[Engine]:
        async def work(session_id: str) -> None:
            taken.append((executor, session_id))
            if executor == "old":
                raise Interrupted  # Begun, and its process dies.

        return Engine.launched(
            f"sqlite:///{tmp_path / 'tersely.db'}",
            codec=RecordCodec(SESSION_TYPES),
            executor=executor,
            at_once=at_once,
            poll=0.02,
            health=DatabaseHealth(),
            work=work,
        )

    with anyio.fail_after(300):
        async with launched("old", at_once=1) as engine:
            for name in ("begun", "waits"):
                await engine.enqueue(name)
            while not taken:
                await anyio.sleep(0.02)
        monkeypatch.setattr(durable, "VERSION", "2")
        async with launched("new") as engine:
            while ("new", "waits") not in taken:
                await anyio.sleep(0.02)
            await engine.requeue(["begun"], taken_from="old")
            while ("new", "begun") not in taken:
                await anyio.sleep(0.02)
            monkeypatch.setattr(durable, "VERSION", "1")
            # A replica that was not updated yet queues one; the updated ones take it as well.
            await engine.enqueue("late")
            _change(tmp_path / "tersely-workflows.db", "UPDATE workflow_status SET application_version = '0'")
            monkeypatch.setattr(durable, "VERSION", "2")
            assert await engine.adopt() <= 1
            while ("new", "late") not in taken:
                await anyio.sleep(0.02)


def _rows(file: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file, timeout=300)) as connection:
        return connection.execute(query).fetchall()


def _change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, timeout=300)) as connection:
        connection.execute(statement)
        connection.commit()
