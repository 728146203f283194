"""Alerts at the service of services that are set up for one test each."""

from pathlib import Path

import anyio
import pytest

from tersely.settings.model import Settings
from tests.mcp.connections import stdio
from tests.web.running import ALERT, endless, running, settings_for
from tests.web.test_alerts import group_of, refused
from tests.web.test_auth import bearer, with_tokens


@pytest.mark.process
async def test_servers_and_tools_of_an_override_must_exist(tmp_path: Path) -> None:
    async with running(f"sqlite:///{tmp_path / 't.db'}", servers=[stdio("honest")]) as service:
        error = await refused(
            service,
            {**ALERT, "mcp": {"servers": [{"name": "cluster"}, {"name": "honest", "tools": ["echo", "ecko"]}]}},
            400,
        )
        told = {detail["field"]: detail["message"] for detail in error["details"]}
        assert told["mcp.servers.0.name"] == "There is no server 'cluster'. There are: honest."
        assert told["mcp.servers.1.tools.1"].startswith(
            "Server 'honest' has no tool 'ecko'. Did you mean 'echo'? It has: count, echo, environment, "
        )
        override = {"servers": [{"name": "honest", "tools": ["echo"]}], "native_tools": {"google_search": False}}
        session_id = await service.submit(mcp=override)
        assert (await service.get(f"/sessions/{session_id}"))["mcp"] == override
        (server,) = (await service.get("/system/mcp-servers"))["items"]
        assert server["healthy"] and server["policy"]["summarization"]["size_threshold_tokens"] == 5_000
        assert not any(tool["odd"] or tool["redefined"] or tool["policy"] for tool in server["tools"])
        assert {tool["name"]: tool["called"] for tool in server["tools"]}["echo"] == "honest__echo"


@pytest.mark.slow
async def test_a_full_queue_says_when_to_come_again_and_stores_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    async with running(url, settings=settings_for(url, max_pending=2), work=endless, at_once=1) as service:
        first = await service.submit()
        await service.until(first, "in_progress")
        for _ in range(2):
            await service.submit()
        answer = await service.http.post("/api/v1/alerts", json=ALERT)
        assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0
        assert answer.json()["error"]["code"] == "queue_full"
        group = await service.http.post("/api/v1/alerts/alertmanager", json=group_of("HighLoad"))
        assert group.status_code == 503 and int(group.headers["Retry-After"]) > 0, "Alertmanager drops what gets a 4xx"
        assert len((await service.get("/sessions"))["items"]) == 3


@pytest.mark.process
async def test_how_far_an_override_reaches_depends_on_token_and_chain(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    settings = with_tokens(url)
    lab = {name: agent.model_copy(update={"mcp_servers": ("honest",)}) for name, agent in settings.agents.items()}

    def chains(policy: str) -> Settings:
        changed = {name: chain.model_copy(update={"override": policy}) for name, chain in settings.chains.items()}
        return settings.model_copy(update={"agents": lab, "chains": changed})

    async def submitted(policy: str, who: str, server: str) -> tuple[int, str]:
        async with running(url, settings=chains(policy), servers=[stdio("honest"), stdio("other")]) as service:
            body = {**ALERT, "mcp": {"servers": [{"name": server}]}}
            answer = await service.http.post("/api/v1/alerts", json=body, headers=bearer(who))
            return answer.status_code, answer.text

    assert (await submitted("any", "boss", "other"))[0] == 202
    status, text = await submitted("any", "ci", "other")
    assert status == 400 and "may only choose among what its chain uses" in text
    assert (await submitted("any", "ci", "honest"))[0] == 202
    assert (await submitted("narrow", "boss", "other"))[0] == 400
    status, text = await submitted("none", "boss", "honest")
    assert status == 400 and "cannot choose servers or tools" in text


@pytest.mark.process
async def test_a_stored_override_is_checked_again_when_its_session_is_run_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 't.db'}"
    settings = with_tokens(url)
    lab = {name: agent.model_copy(update={"mcp_servers": ("honest",)}) for name, agent in settings.agents.items()}

    def configured(policy: str, scopes: tuple[str, ...]) -> Settings:
        chains = {name: chain.model_copy(update={"override": policy}) for name, chain in settings.chains.items()}
        tokens = tuple(
            token.model_copy(update={"scopes": scopes}) if token.name == "ci" else token
            for token in settings.auth.tokens
        )
        auth = settings.auth.model_copy(update={"tokens": tokens})
        return settings.model_copy(update={"agents": lab, "chains": chains, "auth": auth})

    servers, wide = [stdio("honest"), stdio("other")], {"servers": [{"name": "other"}]}
    async with running(url, settings=configured("any", ("submit", "override", "read")), servers=servers) as service:
        accepted = await service.http.post("/api/v1/alerts", json={**ALERT, "mcp": wide}, headers=bearer("ci"))
        session_id = accepted.json()["session_id"]
        with anyio.fail_after(60):
            while True:
                found = await service.http.get(f"/api/v1/sessions/{session_id}", headers=bearer("ci"))
                if found.json()["status"] in ("completed", "failed"):
                    break
                await anyio.sleep(0.05)

    async def run_again(policy: str, *scopes: str) -> tuple[int, str]:
        async with running(url, settings=configured(policy, scopes), servers=servers) as service:
            answer = await service.http.post(f"/api/v1/sessions/{session_id}/rerun", json={}, headers=bearer("ci"))
            return answer.status_code, answer.text

    status, text = await run_again("any", "submit")
    assert status == 400 and "may only choose among what its chain uses" in text
    status, text = await run_again("none", "submit", "override")
    assert status == 400 and "cannot choose servers or tools" in text
    assert (await run_again("narrow", "submit", "override"))[0] == 400
    assert (await run_again("any", "submit", "override"))[0] == 202
