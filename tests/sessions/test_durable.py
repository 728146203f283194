"""The workflow engine by itself: where it runs what it takes out of its queue, and what it remembers."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from tersely.errors import StoreUnavailable
from tersely.sessions.codec import RecordCodec
from tersely.sessions.durable import Engine, Interrupted
from tersely.sessions.records import SESSION_TYPES


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


async def test_a_result_that_could_not_be_stored_is_not_remembered_as_a_failure(tmp_path: Path) -> None:
    """F12, F14: the engine takes it for one, and has the failure stored where the result had no room."""
    file = tmp_path / "tersely-workflows.db"
    seen: list[str] = []
    over = anyio.Event()

    async def work(session_id: str) -> None:
        async def piece() -> str:
            return "done"

        if not seen:
            _change(
                file,
                (
                    "CREATE TRIGGER full BEFORE INSERT ON operation_outputs WHEN NEW.error IS NULL BEGIN SELECT "
                    "RAISE(FAIL, 'full'); END"
                ),
            )
            with pytest.raises(StoreUnavailable):
                await engine.step("a step", piece)
            _change(file, "DROP TRIGGER full")
            seen.append("not stored")
            raise Interrupted
        seen.append(await engine.step("a step", piece))
        over.set()

    async with Engine.launched(
        f"sqlite:///{tmp_path / 'tersely.db'}",
        codec=RecordCodec(SESSION_TYPES),
        executor="one",
        at_once=1,
        poll=0.02,
        work=work,
    ) as engine:
        await engine.enqueue("a session")
        with anyio.fail_after(300):
            while not over.is_set():
                await anyio.sleep(0.05)
                if seen:
                    await engine.requeue(["a session"], taken_from="one")
    assert seen == ["not stored", "done"]


def _change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file, timeout=300)) as connection:
        connection.execute(statement)
        connection.commit()
