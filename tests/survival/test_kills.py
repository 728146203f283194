"""Real processes, really killed while they work: five times on each store. `make kills` and `make chaos` do more."""

import functools
from pathlib import Path

import pytest

from tests.survival import scenarios
from tests.survival.checker import check

pytestmark = pytest.mark.process


@pytest.mark.timeout(600)
async def test_sessions_go_on_after_kill_9_and_nothing_is_lost_or_doubled(url: str, tmp_path: Path) -> None:
    replicas = 1 if url.startswith("sqlite") else 2
    scenario = functools.partial(scenarios.kills, count=5, replicas=replicas, load=4)
    cluster, _ = await scenarios.played(scenario, tmp_path / "cluster", url, seed=1, what="kills", limit=3, looks=2)
    assert len(cluster.history.of("fault")) == 5
    assert check(cluster.history) == []
