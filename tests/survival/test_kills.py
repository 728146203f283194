"""Real processes, really killed while they work: twice on each store. `make kills` and `make chaos` do more."""

import functools
import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from tests.survival import scenarios
from tests.survival.checker import check
from tests.survival.cluster import cluster
from tests.survival.fork_server import fork_server

pytestmark = pytest.mark.process


@pytest.mark.timeout(600)
async def test_sessions_go_on_after_kill_9_and_nothing_is_lost_or_doubled(url: str, tmp_path: Path) -> None:
    replicas = 1 if url.startswith("sqlite") else 2
    scenario = functools.partial(scenarios.kills, count=2, replicas=replicas, load=4)
    it, _ = await scenarios.played(scenario, tmp_path / "cluster", url, seed=1, what="kills", limit=3, looks=2)
    assert len(it.history.of("fault")) == 2
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


@pytest.mark.timeout(600)
async def test_the_answer_to_a_question_goes_on_after_kill_9(url: str, tmp_path: Path) -> None:
    async with cluster(tmp_path / "cluster", url, looks=3, slowest=0.2) as it:
        replica = it.start(0)
        await replica.ready()
        session = await it.submit()
        assert session is not None
        await it.until(session, "completed")
        asked = await it.http.post(
            f"{replica.address}/api/v1/sessions/{session}/chat", json={"question": f"Why {it.cases[session]}?"}
        )
        question = asked.json()["chat_id"]

        async def shown(session_id: str) -> list[dict[str, Any]]:
            return list((await it.get(f"/api/v1/sessions/{session_id}/timeline")).json()["items"])

        with anyio.fail_after(300):
            while not any(one["event_type"] == "llm_tool_call" for one in await shown(question)):
                await anyio.sleep(0.02)
        it.kill(replica)
        replica = it.start_again(replica)
        await replica.ready()
        await it.until(question, "completed")
        types = [one["event_type"] for one in await shown(question)]
        assert [types.count(one) for one in ("user_question", "llm_tool_call", "chat_response")] == [1, 3, 1]
        (item,) = (await it.get(f"/api/v1/sessions/{session}/chat")).json()["items"]
        assert item["answer"] == f"The cause of {it.cases[session]} was found after 3 looks."
        # A request that was on the wire is sent again; those that were stored are not.
        assert item["usage"]["model_calls"] <= 5
        events = (await it.get(f"/api/v1/sessions/{session}/events")).json()["items"]
        news = [one["status"] for one in events if one["type"] == "chat.status"]
        assert news == ["pending", "in_progress", "completed"]


@pytest.mark.timeout(600)
async def test_parallel_agents_and_their_synthesis_go_on_after_kill_9(url: str, tmp_path: Path) -> None:
    async with cluster(tmp_path / "cluster", url, looks=3, slowest=0.3) as it:
        stage = {"name": "look", "agent": "default", "replicas": 2}
        written = yaml.safe_load(it.config.read_text())
        written |= {"agents": {"default": {}}, "chains": {"all": {"alert_types": ["default"], "stages": [stage]}}}
        it.config.write_text(yaml.safe_dump(written))
        replica = it.start(0)
        await replica.ready()
        session = await it.submit()
        assert session is not None

        async def seen() -> dict[str, Any]:
            return dict((await it.get(f"/api/v1/sessions/{session}")).json())

        async def shown() -> list[dict[str, Any]]:
            return list((await it.get(f"/api/v1/sessions/{session}/timeline")).json()["items"])

        with anyio.fail_after(300):
            while len({one["execution_id"] for one in await shown() if one["event_type"] == "llm_tool_call"}) < 2:
                await anyio.sleep(0.02)
        it.kill(replica)
        replica = it.start_again(replica)
        await replica.ready()
        with anyio.fail_after(300):
            while len((await seen())["stages"][0]["executions"]) < 3:
                await anyio.sleep(0.02)
        it.kill(replica)
        replica = it.start_again(replica)
        await replica.ready()
        await it.until(session, "completed")
        ended = await seen()
        agents = [(one["agent"], one["kind"], one["status"]) for one in ended["stages"][0]["executions"]]
        assert agents == [
            ("default #1", "agent", "completed"),
            ("default #2", "agent", "completed"),
            ("synthesis", "synthesis", "completed"),
        ]
        events = await shown()
        types = [one["event_type"] for one in events]
        assert [types.count(one) for one in ("llm_tool_call", "final_analysis")] == [6, 3]
        assert {one["status"] for one in events} == {"completed"}
        # Requests that were on the wire are sent again, one of each agent; those that were stored are not.
        lines = (tmp_path / "cluster" / "model.log").read_text().splitlines()
        assert sum(json.loads(line)["what"] == "model" for line in lines) <= 10
