"""Alerts at the door of services that are set up for one test each."""

from pathlib import Path

from tests.mcp.test_connect import stdio
from tests.web.running import ALERT, endless, running, settings_for
from tests.web.test_alerts import group_of, refused


async def test_servers_and_tools_of_an_override_must_exist(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 't.db'}", servers=[stdio("honest")]) as door:
        error = await refused(
            door,
            {**ALERT, "mcp": {"servers": [{"name": "cluster"}, {"name": "honest", "tools": ["echo", "ecko"]}]}},
            400,
        )
        told = {detail["field"]: detail["message"] for detail in error["details"]}
        assert told["mcp.servers.0.name"] == "There is no server 'cluster'. There are: honest."
        assert told["mcp.servers.1.tools.1"].startswith(
            "Server 'honest' has no tool 'ecko'. It has: count, echo, environment, "
        )
        override = {"servers": [{"name": "honest", "tools": ["echo"]}], "native_tools": {"google_search": False}}
        session_id = await door.submit(mcp=override)
        assert (await door.get(f"/sessions/{session_id}"))["mcp"] == override
        (server,) = (await door.get("/system/mcp-servers"))["items"]
        assert server["healthy"] and server["policy"]["summarization"]["size_threshold_tokens"] == 5_000
        assert not any(tool["odd"] or tool["redefined"] or tool["policy"] for tool in server["tools"])
        assert {tool["name"]: tool["called"] for tool in server["tools"]}["echo"] == "honest__echo"


async def test_a_full_queue_says_when_to_come_again_and_stores_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    async with running(url, settings=settings_for(url, max_pending=2), work=endless, at_once=1) as door:
        first = await door.submit()
        await door.until(first, "in_progress")
        for _ in range(2):
            await door.submit()
        answer = await door.http.post("/api/v1/alerts", json=ALERT)
        assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"]["code"] == "queue_full"
        group = await door.http.post("/api/v1/alerts/alertmanager", json=group_of("HighLoad"))
        assert group.status_code == 503 and int(group.headers["Retry-After"]) > 0, "Alertmanager drops what gets a 4xx"
        assert len((await door.get("/sessions"))["items"]) == 3
