"""A session that is run again: with another model, chain or tools, or from a failed stage; and the comparison."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.fakes.llm_server import Body
from tests.flows.service import FlowService, calls, flow_service, said, server_of
from tests.test_cli_sessions import tersely

pytestmark = pytest.mark.process


def configuration(models: Mapping[str, str]) -> dict[str, Any]:
    def provider(name: str) -> dict[str, Any]:
        address = {"base_url": models[name], "api_key": "k"}
        return {"type": "openrouter", "model": f"test/{name}", "context_window": 60_000, **address}

    stages = [{"name": name, "agent": "looker"} for name in ("look", "conclude")]
    own = {"name": "looker", "llm_provider": "main", "mcp_servers": ["side"]}
    both = {"name": "look", "agents": [own, own], "synthesis": {"llm_provider": "main"}}
    return {
        "llm_providers": {"main": provider("main"), "strong": provider("strong")},
        "mcp_servers": {"side": server_of("large"), "ops": server_of("ops")},
        "agents": {"looker": {"mcp_servers": ["side"]}},
        "chains": {
            "plain": {"alert_types": ["plain"], "stages": stages},
            "short": {"alert_types": ["short"], "stages": stages[1:]},
            "pair": {"alert_types": ["pair"], "stages": [both, stages[1]]},
        },
        "defaults": {"alert_type": "plain", "llm_provider": "main"},
        "queue": {"max_concurrent_sessions": 6, "poll": 0.05, "grace": 2},
    }


@pytest.fixture(scope="module")
async def service(store_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FlowService]:
    folder = tmp_path_factory.mktemp("rerun")
    async with flow_service(store_url, folder, configuration, providers=("main", "strong")) as service:
        yield service


async def rerun(service: FlowService, session_id: str, **changes: Any) -> str:
    answer = await service.web.http.post(f"/api/v1/sessions/{session_id}/rerun", json=changes)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["session_id"])


def verdict(cause: str) -> str:
    quoted = "ERROR shop lost its database db-7: connection refused"
    evidence = [{"handle": "", "quote": quoted}]
    fields = {"cause": cause, "summary": cause, "confidence": "high", "service": "shop", "evidence": evidence}
    return json.dumps({**fields, "since": "2026-11-15T12:00:00Z", "actions": [], "against": []})


def answering(cause: str, *, fails: bool = False) -> Any:
    """Looks in the first stage; concludes in the second, or fails there."""

    def answer(body: Body) -> Any:
        text = said(body)
        if "JSON object" in str(body["messages"][-1]["content"]):
            return verdict(cause)
        if "What the stage 'look' found" not in text:
            is_called = any(message["role"] == "tool" for message in body["messages"])
            return "The log names db-7." if is_called else calls("side__lines", count=4)
        if fails:
            return 401
        is_called = any(message["role"] == "tool" for message in body["messages"])
        return f"It is {cause}." if is_called else calls("side__lines", count=5)

    return answer


async def test_a_failed_stage_is_run_again_with_another_model_and_the_two_are_compared(service: FlowService) -> None:
    case = service.case(main=answering("db-7", fails=True), strong=answering("db-7 is gone"))
    first = await service.submit(case)
    before = await service.web.until(first, "failed")
    assert [stage["status"] for stage in before["stages"]] == ["completed", "failed"]
    asked = len(case.requests())

    second = await rerun(service, first, from_stage="conclude", llm_provider="strong")
    story = await service.story(second)
    assert story.session["origin_id"] == first
    assert story.session["changes"] == {"llm_provider": "strong", "from_stage": "conclude"}
    assert [stage["name"] for stage in story.session["stages"]] == ["conclude"]
    assert len(case.requests()) == asked, "only the other model was asked"
    assert "The log names db-7." in case.prompt(0, "strong")
    assert any("Taken over from session" in one["content"] for one in story.shown("notice"))
    assert (await service.web.get(f"/sessions/{first}"))["reruns"] == [second]

    # The same again, whole: the model of the second run stays, and a follow-up question is answered by it.
    third = await rerun(service, second)
    whole = await service.story(third)
    assert [stage["name"] for stage in whole.session["stages"]] == ["look", "conclude"]
    assert {one["model"] for one in whole.traced("iteration")} == {"test/strong"}
    question = await service.web.http.post(f"/api/v1/sessions/{third}/chat", json={"question": "And?"})
    chat = await service.story(question.json()["chat_id"])
    assert {one["model"] for one in chat.traced("chat_response")} == {"test/strong"}

    found = await service.web.get(f"/sessions/{second}/compare/{third}")
    assert [one["id"] for one in found["sessions"]] == [second, third] and found["same_cause"]
    assert [one["models"] for one in found["sessions"]] == [["test/strong"]] * 2
    assert all(one["duration_seconds"] >= 0 and one["usage"]["model_calls"] for one in found["sessions"])
    look, conclude = sorted(found["stages"], key=lambda one: str(one["name"]), reverse=True)
    assert look["sessions"][0] is None and look["sessions"][1]["status"] == "completed"
    assert [one["status"] for one in conclude["sessions"]] == ["completed"] * 2
    (lines,) = found["tools"]
    assert lines["name"] == "side.lines" and [one["calls"] for one in lines["sessions"]] == [1, 2]
    assert len(found["evidence"]["both"]) == 1 and not found["evidence"]["only_first"]

    table = await tersely("compare", first, second, "--url", service.web.address, COLUMNS="140")
    shown = table.stdout.decode()
    assert table.returncode == 0 and "db-7 is gone" in shown and "test/strong" in shown and "stage look" in shown
    again = await tersely("rerun", first, "--chain", "short", "--json", "--watch", "--url", service.web.address)
    events = [json.loads(line) for line in again.stdout.splitlines()]
    assert again.returncode == 0 and events[-1]["status"] == "completed"


async def test_other_tools_and_changes_that_cannot_be_made(service: FlowService) -> None:
    case = service.case(main=answering("db-7"), strong=answering("db-7"))
    first = await service.submit(case)
    await service.web.until(first, "completed")
    other = await rerun(service, first, mcp={"servers": [{"name": "ops"}]})
    await service.web.until(other, "completed")
    offered = {tool["function"]["name"] for tool in case.requests()[-1].get("tools", [])}
    assert "ops__logs" in offered and "side__lines" not in offered

    async def refused(session_id: str, changes: dict[str, Any]) -> str:
        answer = await service.web.http.post(f"/api/v1/sessions/{session_id}/rerun", json=changes)
        assert 400 <= answer.status_code < 500, answer.text
        return str(answer.json()["error"]["message"])

    assert "Did you mean 'strong'?" in await refused(first, {"llm_provider": "strnog"})
    assert "Did you mean 'plain'?" in await refused(first, {"chain": "plian"})
    assert "Did you mean 'conclude'?" in await refused(first, {"from_stage": "concludes"})
    assert "first stage" in await refused(first, {"chain": "short", "from_stage": "conclude"})
    assert "Did you mean 'side'?" in await refused(first, {"mcp": {"servers": [{"name": "sied"}]}})
    assert "unknown field" in await refused(first, {"model": "strong"})
    missing = await service.web.http.get(f"/api/v1/sessions/{first}/compare/00000000-0000-4000-8000-000000000000")
    assert missing.status_code == 404
    assert len(await service.all("/sessions")) == len({one["id"] for one in await service.all("/sessions")})


async def test_parallel_agents_are_run_again_with_another_model_other_tools_and_from_a_later_stage(
    service: FlowService,
) -> None:
    case = service.case(main=answering("db-7"), strong=answering("db-7"))
    first = await service.submit(case)
    await service.web.until(first, "completed")
    asked = len(case.requests())
    only = {"servers": [{"name": "ops", "tools": ["logs"]}]}
    second = await rerun(service, first, chain="pair", llm_provider="strong", mcp=only)
    story = await service.story(second)
    look, conclude = story.session["stages"]
    assert [one["kind"] for one in look["executions"]] == ["agent", "agent", "synthesis"]
    ran = [*look["executions"], *conclude["executions"]]
    assert {(one["model"], one["status"]) for one in ran} == {("test/strong", "completed")}
    assert len(case.requests()) == asked, "only the other model was asked"
    tools = [
        {tool["function"]["name"] for tool in body["tools"]} for body in case.requests("strong") if "tools" in body
    ]
    assert "ops__logs" in tools[0] and not any(name.startswith("side__") for offered in tools for name in offered)

    third = await service.story(await rerun(service, second, from_stage="conclude"))
    assert [stage["name"] for stage in third.session["stages"]] == ["conclude"]
    assert {one["model"] for one in third.traced("iteration")} == {"test/strong"} and len(case.requests()) == asked
    found = await service.web.get(f"/sessions/{second}/compare/{third.session['id']}")
    assert found["same_cause"]
