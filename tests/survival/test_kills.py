"""Real processes, really killed while they work: twice on each store. `make kills` and `make chaos` do more."""

import functools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from tests.fakes.slack_server import FakeSlack
from tests.fakes.smtp_server import FakeMailServer
from tests.survival import scenarios
from tests.survival.checker import check
from tests.survival.cluster import cluster
from tests.survival.fork_server import fork_server

pytestmark = pytest.mark.process

one_store_at_first = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
"""`make test` kills processes on both stores in the first test; what is built on the same steps takes one."""


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


@one_store_at_first
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
        asked = await it.http.post(
            f"{replica.address}/api/v1/sessions/{session}/chat", json={"question": f"And why {it.cases[session]}?"}
        )
        assert asked.json()["status"] == "pending"

        async def shown(session_id: str) -> list[dict[str, Any]]:
            return list((await it.get(f"/api/v1/sessions/{session_id}/timeline")).json()["items"])

        with anyio.fail_after(300):
            while not any(one["event_type"] == "llm_tool_call" for one in await shown(question)):
                await anyio.sleep(0.02)
        it.kill(replica)
        replica = it.start_again(replica)
        await replica.ready()
        await it.until(question, "completed")
        await it.until(asked.json()["chat_id"], "completed")
        types = [one["event_type"] for one in await shown(question)]
        assert [types.count(one) for one in ("user_question", "llm_tool_call", "chat_response")] == [1, 3, 1]
        item, second = (await it.get(f"/api/v1/sessions/{session}/chat")).json()["items"]
        assert item["ended_at"] <= second["started_at"], "one after the other"
        assert item["answer"] == f"The cause of {it.cases[session]} was found after 3 looks."
        # A request that was on the wire is sent again; those that were stored are not.
        assert item["usage"]["model_calls"] <= 5
        events = (await it.get(f"/api/v1/sessions/{session}/events")).json()["items"]
        news = [one["status"] for one in events if one["type"] == "chat.status" and one["number"] == 1]
        assert news == ["pending", "in_progress", "completed"]


def made(folder: Path) -> tuple[Counter[str], int]:
    """How often each request was sent to the model, and the number of calls of tools."""
    lines = map(json.loads, (folder / "model.log").read_text().splitlines())
    calls = (folder / "tools.log").read_text().splitlines()
    return Counter(line["asked"] for line in lines if line["what"] == "model"), len(calls)


@one_store_at_first
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
        # What was on its way at a kill is done again, one request or call of each agent at work; what was stored is not.
        requests, calls = made(tmp_path / "cluster")
        assert requests.total() <= 10
        again = (requests.total() - 2 * 4 - 1) + (calls - 2 * 3)
        assert 0 <= again <= 2 + 1, (requests, calls)


@one_store_at_first
@pytest.mark.timeout(600)
async def test_sub_agents_and_messages_to_people_go_on_after_kill_9(url: str, tmp_path: Path) -> None:
    """Killed when the first message is in its channel, while sub-agents work, and while the last message is sent."""
    async with (
        FakeSlack().listening() as slack,
        FakeMailServer().listening() as mail,
        cluster(tmp_path / "cluster", url, looks=3, slowest=0.3) as it,
    ):
        written = yaml.safe_load(it.config.read_text())
        written |= {
            "agents": {"boss": {"mcp_servers": [], "sub_agents": ["helper"]}, "helper": {"mcp_servers": ["ops"]}},
            "chains": {"all": {"alert_types": ["default"], "stages": [{"name": "look", "agent": "boss"}]}},
            "slack": {"token": slack.token, "channel": "C0000001", "api_url": slack.url},
            "email": {
                "host": "127.0.0.1",
                "port": mail.port,
                "security": "none",
                "sender": "a@b.test",
                "to": ["c@d.test"],
            },
        }
        it.config.write_text(yaml.safe_dump(written))
        killed = anyio.Event()

        def kill() -> None:
            if not killed.is_set():
                it.kill(replica)
                killed.set()

        def lose(method: str, body: Any) -> str | None:
            if method != "chat.postMessage" or killed.is_set():
                return None
            kill()
            return "fatal_error"

        async def restarted() -> Any:
            again = it.start_again(replica)
            await again.ready()
            # Instead of waiting for the time that a try may take.
            await it.change("update notifications set due_at = created_at")
            return again

        slack.on_post = kill
        replica = it.start(0)
        await replica.ready()
        session = await it.submit()
        assert session is not None
        with anyio.fail_after(300):
            await killed.wait()
        replica = await restarted()

        async def shown() -> list[dict[str, Any]]:
            return list((await it.get(f"/api/v1/sessions/{session}/timeline")).json()["items"])

        async def messages() -> dict[tuple[str, str], str]:
            rows = await it.rows("select kind, target, status from notifications")
            return {(kind, target.partition(":")[0]): status for kind, target, status in rows}

        with anyio.fail_after(300):
            while len({one["execution_id"] for one in await shown() if one["event_type"] == "llm_tool_call"}) < 2:
                await anyio.sleep(0.02)
            while (await messages())["start", "slack"] == "sending":
                await anyio.sleep(0.05)
        assert await messages() == {("start", "slack"): "sent"} and "conversations.history" in slack.asked
        it.kill(replica)
        killed = anyio.Event()
        slack.trouble = lose
        replica = await restarted()
        with anyio.fail_after(300):
            await killed.wait()
        replica = await restarted()
        with anyio.fail_after(300):
            while set((await messages()).values()) & {"pending", "sending"}:
                await anyio.sleep(0.05)
        assert await messages() == {("start", "slack"): "sent", ("end", "slack"): "unknown", ("end", "email"): "sent"}
        assert len(slack.messages) == 1 and len(mail.received) == 1, "found, or not sent again; or never begun"
        ended = (await it.get(f"/api/v1/sessions/{session}")).json()
        assert ended["status"] == "completed"
        assert ended["id"] in mail.received[0][1].get_content() or ended["title"] in mail.received[0][1]["Subject"]
        own, *others = ended["stages"][0]["executions"]
        assert [(one["kind"], one["status"]) for one in others] == [("sub_agent", "completed")] * 2
        events = await shown()
        assert {one["status"] for one in events} == {"completed"}
        (notice,) = [one for one in events if one["event_type"] == "notice"]
        assert "not sent again" in notice["content"] and notice["metadata"]["reason"] == "it is not in the channel"
        shown_calls = [one["execution_id"] for one in events if one["event_type"] == "llm_tool_call"]
        assert [shown_calls.count(one["id"]) for one in (own, *others)] == [2, 3, 3]
        requests, calls = made(tmp_path / "cluster")
        assert len(requests) == 2 + 2 * 4
        # What was on its way at a kill is done again, one request or call of each agent at work (the first kill can find
        # both sub-agents too); what was stored is not.
        again = (requests.total() - 2 - 2 * 4) + (calls - 2 * 3)
        assert 0 <= again <= 2 + 2, (requests, calls)
