"""The pool of worker processes: order, deaths, cancellation, and that nothing of it stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from tersely.cpu import pool as pools
from tersely.cpu.pool import HUGE, WorkerDied, WorkerPool
from tersely.cpu.run import SMALL, cpu_workers, run_cpu
from tersely.errors import MaskingFailed
from tersely.masking.mask import Masker
from tersely.pipeline.admit import admit
from tersely.pipeline.content import Content
from tersely.text.tokens import O200K
from tests.cpu import jobs

pytestmark = pytest.mark.process

SECONDS = 60.0


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    built = WorkerPool(1)
    yield built
    built.close()


def test_work_whose_process_was_killed_is_done_again_once_and_then_fails(pool: WorkerPool, tmp_path: Path) -> None:
    again = pool.submit(jobs.die_while_missing, (str(tmp_path / "died"),), 1).future
    assert again.result(SECONDS) == pool.process_ids[0]
    killer = pool.submit(jobs.die, (), 1).future
    with pytest.raises(WorkerDied, match="2 worker processes died while they ran die"):
        killer.result(SECONDS)
    assert pool.submit(len, ("it goes on",), 1).future.result(SECONDS) == 10


def test_an_error_reaches_the_caller_and_one_that_cannot_be_copied_is_named(pool: WorkerPool) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, ("x",), 1).future.result(SECONDS)
    with pytest.raises(RuntimeError, match=r"^Awkward cannot be returned by a worker process$"):
        pool.submit(jobs.fail_awkwardly, (), 1).future.result(SECONDS)
    with pytest.raises(Exception, match="lambda"):
        pool.submit(lambda: None, (), 1).future.result(SECONDS)


def test_small_work_overtakes_large_work_that_waits_but_not_for_ever(tmp_path: Path) -> None:
    now = [0.0]
    pool = WorkerPool(1, clock=lambda: now[0])
    started, gate, log = tmp_path / "started", tmp_path / "gate", tmp_path / "log"
    pool.submit(jobs.wait_for, (str(started), str(gate)), 1)
    until(started.exists)
    waiting = [pool.submit(jobs.write, (str(log), "large"), 1_000_000), pool.submit(jobs.write, (str(log), "small"), 9)]
    now[0] = 60.0
    waiting.append(pool.submit(jobs.write, (str(log), "late and small"), 9))
    gate.touch()
    for job in waiting:
        job.future.result(SECONDS)
    pool.close()
    assert log.read_text("ascii").splitlines() == ["small", "large", "late and small"]


def test_huge_work_leaves_a_process_to_the_others(tmp_path: Path) -> None:
    pool = WorkerPool(2)
    gate = tmp_path / "gate"
    huge = [
        pool.submit(jobs.wait_for, (str(tmp_path / name), str(gate)), HUGE + 1).future for name in ("first", "second")
    ]
    until((tmp_path / "first").exists)
    assert pool.submit(len, ("small",), 5).future.result(SECONDS) == 5
    assert not (tmp_path / "second").exists()
    gate.touch()
    assert [Path(one.result(SECONDS)).name for one in huge] == ["first", "second"]
    pool.close()


def test_idle_processes_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "IDLE_SECONDS", 0.05)
    pool = WorkerPool(2)
    assert pool.process_ids == []
    assert pool.submit(len, ("text",), 4).future.result(SECONDS) == 4
    until(lambda: pool.process_ids == [])
    assert pool.submit(len, ("text",), 4).future.result(SECONDS) == 4
    pool.close()


async def test_a_cancelled_caller_leaves_at_once_and_its_work_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "ABANDONED_SECONDS", 0.05)
    started, never = tmp_path / "started", tmp_path / "never"
    async with cpu_workers(1):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: run_cpu(jobs.wait_for, str(started), str(never), size=SMALL))
            while not (started.exists() and started.read_text("ascii")):
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        process_id = int(started.read_text("ascii"))
        assert await run_cpu(len, "x" * SMALL) == SMALL  # by another process
        assert not is_alive(process_id)


async def test_large_texts_are_masked_and_counted_in_other_processes_without_our_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-canary")
    masker = Masker(custom={"badge": r"B-[0-9]{4}"})
    content = Content.of_text("password=hunter2-abc badge B-1234 and more\n" * 1_000)
    async with cpu_workers():
        admitted = await run_cpu(admit, content, masker, size=SMALL)
        assert admitted == admit(content, masker)
        assert type(admitted.text) is type(masker.mask(""))
        assert await run_cpu(O200K.count, content.texts[0]) == O200K.count(content.texts[0])
        assert await run_cpu(os.getpid) == os.getpid()
        assert await run_cpu(os.getpid, size=SMALL) != os.getpid()
        assert "sk-canary" not in (await run_cpu(jobs.environment, size=SMALL)).values()
        with pytest.raises(MaskingFailed, match="could not be masked"):
            await run_cpu(masker.mask_json, {"not": object}, size=SMALL)
    assert await run_cpu(os.getpid, size=SMALL) == os.getpid()
    async with cpu_workers(0):
        assert await run_cpu(os.getpid, size=SMALL) == os.getpid()


def test_processes_end_with_a_killed_parent_and_leave_signals_to_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = f"""
from tersely.cpu.pool import WorkerPool
from tests.cpu import jobs
WorkerPool(1).submit(jobs.wait_for, ({str(started)!r}, {str(tmp_path / "never")!r}), 1).future.result()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = subprocess.Popen([sys.executable, "-c", program], env=environment)
    until(lambda: started.exists() and bool(started.read_text("ascii")))
    worker = int(started.read_text("ascii"))
    os.kill(worker, signal.SIGTERM)
    os.kill(worker, signal.SIGINT)
    assert is_alive(worker)
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(worker))
