"""What one alert may change for itself: the scenarios of 001's feature 1, and LESSONS under "Overrides"."""

import json
from typing import Any

import pytest

from tersely.sessions.overrides import AcceptedOverride, Override
from tests.fakes.llm_server import Reply
from tests.flows.service import FlowService, acts, calls

pytestmark = pytest.mark.process

SIDE = {"servers": [{"name": "side"}]}


def offered(body: dict[str, Any]) -> set[str]:
    """The servers whose tools a model was offered."""
    names = {tool["function"]["name"] for tool in body.get("tools", [])}
    return {name.partition("__")[0] for name in names if "__" in name}


async def test_without_an_override_the_chains_servers_are_used(service: FlowService) -> None:
    case = service.case(main=["nothing to see"])
    await service.investigate(case)
    assert offered(case.requests()[0]) == {"ops", "side"}
    assert "OPS-RULES" in case.prompt(0) and "SIDE-RULES" in case.prompt(0) and "OWN-RULES" not in case.prompt(0)


async def test_an_override_replaces_the_servers_in_every_stage_with_their_instructions(service: FlowService) -> None:
    """LESSONS: it replaced the tools and left the default servers' instructions in the prompt."""
    case = service.case(main=["the database is gone", "restart it"])
    story = await service.investigate(case, alert_type="two", mcp={"servers": [{"name": "own"}]})
    assert [offered(body) for body in case.requests()] == [{"own"}, {"own"}]
    for index in (0, 1):
        prompt = case.prompt(index)
        assert "OWN-RULES" in prompt and "OPS-RULES" not in prompt and "SIDE-RULES" not in prompt
    assert story.session["mcp"] == {"servers": [{"name": "own"}]}
    assert "the database is gone" in case.prompt(1), "the second stage is told what the first found"


async def test_an_override_holds_after_another_provider_stepped_in(service: FlowService) -> None:
    """LESSONS: it was lost when the provider fell back to another."""
    case = service.case(main=lambda body: Reply(status=400, error="no"), spare=[calls("side__small"), "all is well"])
    await service.investigate(case, mcp=SIDE)
    assert [offered(body) for body in case.requests("spare")] == [{"side"}, {"side"}]
    assert "SIDE-RULES" in case.prompt(0, "spare") and "OPS-RULES" not in case.prompt(0, "spare")


async def test_the_tools_of_a_server_can_be_restricted_and_others_are_answered_with_what_there_is(
    service: FlowService,
) -> None:
    case = service.case(main=[calls("side__lines", "ops__pods_list", "side__small", count=1), "done"])
    story = await service.investigate(case, mcp={"servers": [{"name": "side", "tools": ["small"]}]})
    names = {tool["function"]["name"] for tool in case.requests()[0]["tools"]}
    assert "side__small" in names and "side__lines" not in names and not any(name.startswith("ops__") for name in names)
    refused, foreign, allowed = (message["content"] for message in case.requests()[1]["messages"][-3:])
    assert "There is no tool 'side__lines'" in refused and "side.small" in refused
    assert "There is no tool 'ops__pods_list'" in foreign and "NAME READY" not in foreign
    assert "all is well" in allowed
    told = {event["metadata"]["tool_name"]: event["metadata"]["is_error"] for event in story.shown("llm_tool_call")}
    assert told == {"lines": True, "pods_list": True, "small": False}


async def test_an_override_holds_for_react_too(service: FlowService) -> None:
    case = service.case(main=[acts("ops.pods_list", namespace="prod"), "Thought: enough\nFinal Answer: nothing to see"])
    await service.investigate(case, alert_type="react", mcp=SIDE)
    assert "side.small" in case.prompt(0) and "ops.pods_list" not in case.prompt(0)
    assert "There is no tool 'ops.pods_list'" in case.prompt(1)


@pytest.mark.parametrize(
    ("mcp", "status", "field", "says"),
    [
        (
            {"servers": [{"name": "nope"}]},
            400,
            "mcp.servers.0.name",
            "There is no server 'nope'. There are: away, ops, own, picky, raw, side.",
        ),
        (
            {"servers": [{"name": "side", "tools": ["small", "smal"]}]},
            400,
            "mcp.servers.0.tools.1",
            "Server 'side' has no tool 'smal'. Did you mean 'small'? It has: fail_at_length, lines, small.",
        ),
        ({"servers": []}, 422, "mcp.servers", "needs at least 1"),
        ({}, 422, "mcp", "names neither"),
        ({"servers": [{"name": "side"}, {"name": "side"}]}, 422, "mcp", "twice"),
        ({"servers": [{"name": "side", "tool": ["small"]}]}, 422, "mcp.servers.0.tool", ""),
        ({"native_tools": {"google_serch": True}}, 422, "mcp.native_tools.google_serch", ""),
        ({"native_tools": {"google_search": "yes please"}}, 422, "mcp.native_tools.google_search", ""),
    ],
)
async def test_an_invalid_override_is_refused_on_submission(
    service: FlowService, mcp: Any, status: int, field: str, says: str
) -> None:
    """LESSONS: `servers: []` was accepted and then failed the session; unknown tool names were never checked."""
    answer = await service.web.http.post("/api/v1/alerts", json={"data": "x", "mcp": mcp})
    problem = answer.json()["error"]
    assert answer.status_code == status, problem
    assert [one["field"] for one in problem["details"]] == [field] and says in str(problem)


async def test_a_field_that_does_not_exist_is_refused_and_named(service: FlowService) -> None:
    """LESSONS: `mcp_selection` for `mcp` was silently ignored."""
    answer = await service.web.http.post("/api/v1/alerts", json={"data": "x", "mcp_selection": SIDE})
    assert answer.status_code == 422 and answer.json()["error"]["details"][0]["field"] == "mcp_selection"


async def test_what_an_override_names_is_checked_again_when_the_session_runs(
    service: FlowService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """002 Q4: the configuration may have changed since."""

    def unchecked(override: Override | None, chain: str, *, may_add: bool) -> AcceptedOverride | None:
        return AcceptedOverride(**dict(override)) if override else None

    monkeypatch.setattr(service.web.parts.intake, "accepted_override", unchecked)
    for mcp, says in (
        ({"servers": [{"name": "gone"}]}, "There is no server 'gone'. There are: away, ops"),
        ({"servers": [{"name": "side", "tools": ["gone"]}]}, "Server 'side' has no tool 'gone'"),
    ):
        story = await service.investigate(service.case(), "failed", mcp=mcp)
        assert says in story.session["reason"]
        assert {stage["status"] for stage in story.session["stages"]} <= {"failed"}


async def test_a_server_that_is_down_is_accepted_said_and_named_to_the_model(service: FlowService) -> None:
    case = service.case(main=["I could not look"])
    body = {"data": case.alert(), "alert_type": "plain", "mcp": {"servers": [{"name": "away"}, {"name": "side"}]}}
    answer = await service.web.http.post("/api/v1/alerts", json=body)
    assert answer.status_code == 202 and "away" in answer.json()["message"]
    await service.story(answer.json()["session_id"])
    assert "Servers that cannot be reached" in case.prompt(0) and "- away" in case.prompt(0)
    assert offered(case.requests()[0]) == {"side"}


async def test_native_tools_alone_keep_the_chains_servers(service: FlowService) -> None:
    """LESSONS: native-tools-only overrides were accepted and then failed the session."""
    case = service.case(main=["done"])
    await service.investigate(case, mcp={"native_tools": {"code_execution": False}})
    assert offered(case.requests()[0]) == {"ops", "side"}


def native(body: dict[str, Any]) -> set[str]:
    return {name for tool in body.get("tools", []) for name in tool if name != "functionDeclarations"}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        (None, {"googleSearch", "codeExecution"}),
        ({"google_search": False}, {"codeExecution"}),
        ({"code_execution": False, "url_context": True}, {"googleSearch", "urlContext"}),
        ({"google_search": None}, {"googleSearch", "codeExecution"}),
    ],
)
async def test_native_tools_are_on_off_or_as_configured(
    service: FlowService, override: Any, expected: set[str]
) -> None:
    """002 Q7: merged provider, agent, alert; an absent value changes nothing, and the configuration stays as it is."""
    before = service.settings.model_dump_json()
    case = service.case(google=["found it"])
    more: dict[str, Any] = {"mcp": {"native_tools": override}} if override else {}
    await service.investigate(case, alert_type="search", **more)
    assert native(case.requests("google")[0]) == expected
    assert service.settings.model_dump_json() == before


async def test_a_provider_that_cannot_do_a_native_tool_says_so_and_goes_on(service: FlowService) -> None:
    case = service.case(main=["done"])
    story = await service.investigate(case, mcp={"native_tools": {"url_context": True}})
    (said,) = story.shown("error")
    assert "does not support" in said["content"] and "url_context" in json.dumps(said["metadata"])
    assert story.session["status"] == "completed"


async def test_an_empty_list_of_tools_means_all_of_them(service: FlowService) -> None:
    """001: "Tool filtering within a server is additive restriction (empty list = all tools)"."""
    case = service.case(main=[calls("side__small"), "all is well"])
    story = await service.investigate(case, mcp={"servers": [{"name": "side", "tools": []}]})
    names = {tool["function"]["name"] for tool in case.requests()[0]["tools"]}
    assert {"side__small", "side__lines", "side__fail_at_length"} <= names
    assert [event["metadata"]["is_error"] for event in story.shown("llm_tool_call")] == [False]
