"""An agent searches what earlier sessions found, and what people thought of it."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest

from tests.fakes.slack_server import FakeSlack
from tests.flows.service import FlowService, calls, flow_service

pytestmark = pytest.mark.process

SECRET = "hunter2-hunter2-hunter2"
SLACK: dict[str, FakeSlack] = {}
"""By store: where the service of the module sends its messages."""


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    model = {"type": "openrouter", "model": "test/main", "base_url": models["main"], "api_key": "k"}
    return {
        "llm_providers": {"main": {**model, "context_window": 100_000}},
        "mcp_servers": {"past": {"transport": {"type": "history"}}},
        "agents": {"looker": {"mcp_servers": ["past"]}},
        "chains": {"plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "looker"}]}},
        "defaults": {"llm_provider": "main", "verdict": True},
        "queue": {"poll": 0.05, "grace": 2},
        "slack": {"token": "xoxb-1", "channel": "C0000001", "api_url": models["slack"]},
        "up": {"public_url": "https://tersely.example.org"},
    }


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder = tmp_path_factory.mktemp("history")
    async with FakeSlack().listening() as slack:
        SLACK[store_url] = slack
        address = slack.url
        async with flow_service(
            store_url, folder, lambda models: configuration({**models, "slack": address}), providers=("main",)
        ) as service:
            yield service


def verdict(cause: str) -> str:
    return json.dumps({"cause": cause, "summary": [f"{cause}."], "confidence": "high", "service": "checkout"})


async def test_an_agent_finds_earlier_verdicts_with_their_ratings(service: FlowService) -> None:
    first = await service.investigate(
        service.case(main=["The certificate is old.", verdict("The certificate expired")])
    )
    rated = {"rating": "right", "note": f"renewed with password={SECRET}"}
    answer = await service.web.http.put(f"/api/v1/sessions/{first.session['id']}/rating", json=rated)
    assert answer.status_code == 200

    case = service.case(
        main=[calls("past__search_past_sessions", query="certificates"), "Again.", verdict("The certificate expired")]
    )
    story = await service.investigate(case)
    (tool,) = case.requests()[0]["tools"][:1]
    assert tool["function"]["name"] == "past__search_past_sessions"
    observed = case.prompt(1)
    assert "The certificate expired" in observed and "rated this verdict as right" in observed
    assert first.session["id"] in observed and SECRET not in observed
    (called,) = story.shown("llm_tool_call")
    assert called["metadata"]["server_name"] == "past" and not called["metadata"]["is_error"]
    assert called["metadata"]["handle"], "kept like any other result"
    assert [one["interaction_type"] for one in story.trace].count("mcp") == 1
    assert story.session["seen_before"]["sessions"][0]["id"] == first.session["id"]

    empty = service.case(main=[calls("past__search_past_sessions", query="zq"), "Nothing.", verdict("Unknown")])
    await service.investigate(empty)
    assert "No earlier session matches" in empty.prompt(1)


async def test_the_server_is_listed_like_any_other(service: FlowService) -> None:
    servers = (await service.web.get("/system/mcp-servers"))["items"]
    assert [(one["name"], one["state"], one["tools"][0]["read_only"]) for one in servers] == [("past", "ready", True)]


async def test_a_channel_hears_of_the_end_with_the_verdict_and_a_link(service: FlowService, store_url: str) -> None:
    case = service.case(main=["The disk is full.", verdict("The log filled the disk")])
    story = await service.investigate(case, fingerprint="disk-1")
    session_id = story.session["id"]
    with anyio.fail_after(300):
        while not (told := [one for one in SLACK[store_url].messages if session_id in str(one["blocks"])][-1:]) or (
            "The log filled" not in told[0]["text"]
        ):
            await anyio.sleep(0.1)
        while (await service.web.get(f"/sessions/{session_id}"))["notifications"][-1]["status"] != "sent":
            await anyio.sleep(0.1)
    assert f"https://tersely.example.org/sessions/{session_id}" in told[0]["text"]
