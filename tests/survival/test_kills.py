"""Real processes, really killed while they work: five times on each store. `make kills` and `make chaos` do more."""

import functools
from pathlib import Path

import anyio
import pytest

from tests.survival import scenarios
from tests.survival.checker import check
from tests.survival.cluster import cluster
from tests.survival.fork_server import fork_server

pytestmark = pytest.mark.process


@pytest.mark.timeout(600)
async def test_sessions_go_on_after_kill_9_and_nothing_is_lost_or_doubled(url: str, tmp_path: Path) -> None:
    replicas = 1 if url.startswith("sqlite") else 2
    scenario = functools.partial(scenarios.kills, count=5, replicas=replicas, load=4)
    it, _ = await scenarios.played(scenario, tmp_path / "cluster", url, seed=1, what="kills", limit=3, looks=2)
    assert len(it.history.of("fault")) == 5
    assert check(it.history) == []


@pytest.mark.timeout(600)
async def test_suspects_make_progress_although_no_process_lives_long_enough_for_a_child_process(tmp_path: Path) -> None:
    """The process dies every time before or just after its child process has begun to work."""
    url = f"sqlite+aiosqlite:///{tmp_path}/tersely.db"
    with fork_server(tmp_path / "forks") as forks:
        async with cluster(tmp_path / "cluster", url, looks=2, slowest=0.1, fork_server=forks) as it:
            replica = it.start(0)
            await replica.ready()
            session = await it.submit()
            assert session is not None
            with anyio.fail_after(60):
                while not replica.executor:
                    await anyio.sleep(0.02)
            it.kill(replica)
            await it.change("update sessions set deaths = 5, seq_at_death = last_seq where status = 'in_progress'")
            for _ in range(6):
                replica = it.start_again(replica)
                await replica.ready()
                await anyio.sleep(3)
                it.kill(replica)
                if (await it.rows("select status from sessions"))[0][0] == "completed":
                    break
            assert await it.rows("select status, reason from sessions") == [("completed", "")]
            log = "".join(file.read_text() for file in (tmp_path / "cluster").glob("replica-*.log"))
            assert "session_suspected" in log
