"""Clients and servers that differ in what they support: protocol eras, tasks, elicitation, tools nobody listed."""

import json
import sys
from functools import partial
from typing import Any

import anyio
import httpx2
import jsonschema  # type: ignore[import-untyped]
import mcp_types as types
import pytest
from fastmcp import Client
from mcp.shared.exceptions import MCPError

from tersely.errors import ToolRejected
from tersely.servers.gateway.calls import UpstreamCall
from tersely.servers.gateway.catalogue import relaxed_output
from tersely.servers.gateway.clients import check_mode
from tersely.servers.gateway.tasks import OwnedTasks
from tests.fakes.gateways import at, by_command, gateway, text_of
from tests.fakes.mcp_servers.web import Honest
from tests.servers.raw_stdio import RawStdio
from tests.servers.test_gateway_failures import greeted

pytestmark = pytest.mark.process

MODERN = "2026-07-28"


async def test_clients_of_both_eras_share_one_process() -> None:
    """A server with a state must not have two of them."""
    async with gateway(by_command("both_eras")) as ours:
        pids = set()
        for era in (MODERN, "legacy", MODERN):
            async with Client(ours.url, mode=era) as client:
                pids.add(text_of(await client.call_tool_mcp("pid", {})))
    assert len(pids) == 1


async def test_a_server_of_the_older_protocol_asks_a_client_of_the_newer() -> None:
    """It asks in the middle of a call, which stays open until the client returns with the answer."""
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return {}

    async def say(messages: Any, params: Any, context: Any) -> str:
        asked.append(messages[0].content.text)
        return "said it"

    async with gateway(by_command("asks")) as ours:
        async with Client(ours.url, mode=MODERN, elicitation_handler=answer, sampling_handler=say) as client:
            assert json.loads(text_of(await client.call_tool_mcp("ask", {})))["action"] == "accept"
            assert text_of(await client.call_tool_mcp("sample", {})) == "said it"
        async with Client(ours.url, mode=MODERN) as client:
            assert text_of(await client.call_tool_mcp("ask", {})) == "-32601", "a client that cannot be asked is not"
        assert ours.waiting == 0
    assert asked[0] == "Sure?" and asked[1].startswith("Say it: password=[MASKED:")


async def test_tasks_pass_and_run_here_for_clients_without_them() -> None:
    tasks = [sys.executable, "-m", "tests.fakes.mcp_servers.tasks"]
    async with RawStdio.started("--", *tasks, capabilities={}) as client:
        listed = (await client.ask("tools/list"))["tools"]
        assert client.introduction["capabilities"]["tasks"] == {
            "list": {},
            "cancel": {},
            "requests": {"tools": {"call": {}}},
        }
        assert {one["name"]: one.get("execution") for one in listed if one["name"] != "read_result"} == {
            "research": {"taskSupport": "optional"},
            "quick": {"taskSupport": "optional"},
        }
        assert (await client.call("research"))["content"][0]["text"] == "found"
        assert (await client.call("quick"))["content"][0]["text"] == "at once"

        created = await client.ask("tools/call", name="research", arguments={"long": True}, task={"ttl": 60_000})
        name = created["task"]["taskId"]
        assert "content" not in created
        assert (await client.ask("tasks/get", taskId=name))["status"] == "completed"
        assert [one["taskId"] for one in (await client.ask("tasks/list"))["tasks"]] == [name], "only its own"
        result = await client.ask("tasks/result", taskId=name)
        assert result["_meta"]["tersely/handle"] and len(result["content"][0]["text"]) < 10_000
        assert (await client.ask("tasks/cancel", taskId=name))["status"] == "cancelled"
        assert (await client.ask("tasks/get", taskId="task-1"))["message"] == "Task not found: task-1"
    async with gateway(by_command("tasks")) as ours, Client(ours.url, mode=MODERN) as client:
        assert text_of(await client.call_tool_mcp("research", {})) == "found"
        assert all("execution" not in tool.model_dump(exclude_none=True) for tool in await client.list_tools())


async def test_the_status_of_a_task_is_told_to_the_client_that_started_it() -> None:
    heard: dict[str, list[str]] = {"ada": [], "bob": []}
    call = {"name": "quick", "arguments": {}, "task": {}}

    async with (
        gateway(by_command("tasks")) as ours,
        httpx2.AsyncClient(timeout=300) as web,
        anyio.create_task_group() as listening,
    ):
        sessions = {name: await greeted(web, ours.url) for name in heard}

        async def listen(name: str, *, task_status: Any) -> None:
            accept = {"accept": "text/event-stream"}
            async with web.stream("GET", ours.url, headers=sessions[name] | accept) as stream:
                task_status.started()
                async for line in stream.aiter_lines():
                    heard[name].append(line)

        async def ask(name: str, method: str, params: dict[str, Any]) -> str:
            accept = {"accept": "application/json, text/event-stream"}
            body = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
            return (await web.post(ours.url, json=body, headers=sessions[name] | accept)).text

        for name in heard:
            await listening.start(partial(listen, name))
        created = await ask("ada", "tools/call", call)
        task = "task-1"
        assert task in created and task in await ask("ada", "tasks/get", {"taskId": task})
        with anyio.fail_after(300):
            while not any("tasks/status" in line for line in heard["ada"]):
                await anyio.sleep(0.02)
        listening.cancel_scope.cancel()
    told = next(line for line in heard["ada"] if "tasks/status" in line)
    assert task in told and "hunter2" not in told
    assert not any("tasks/status" in line for line in heard["bob"])


async def test_a_task_belongs_to_the_scope_of_its_client() -> None:
    tasks = OwnedTasks()
    connection: Any = object()
    tasks.add("t", connection, UpstreamCall(server=at("http://x/mcp"), tool="one", arguments={}, scope="principal:a"))
    assert tasks.find("principal:a", "t").connection is connection
    assert not tasks.owns("principal:b", "t", connection)
    with pytest.raises(MCPError):
        tasks.find("principal:b", "t")


async def test_the_only_client_speaks_for_itself_and_unknown_tools_are_answered_by_the_server() -> None:
    asks = [sys.executable, "-m", "tests.fakes.mcp_servers.asks"]
    async with RawStdio.started("--", *asks, capabilities={"elicitation": {}}) as client:
        declared = json.loads((await client.call("declared"))["content"][0]["text"])
        assert declared == {"elicitation": {}}, "without sampling, roots, and elicitation on web pages"
        assert (await client.call("ask_on_a_page"))["content"][0]["text"] == "-32602"
        unknown = await client.call("nothing")
    assert unknown["isError"] and unknown["content"][0]["text"] == "There is no tool called nothing."


async def test_unlisted_tools_are_not_called_where_the_configuration_forbids_them() -> None:
    async with Honest().listening() as url:
        excluding: tuple[dict[str, Any], ...] = ({"tools": {"deny": ["hid*"]}}, {"tools": {"allow": ["echo"]}})
        for options in excluding:
            async with gateway(at(url, **options)) as ours, Client(ours.url) as client:
                with pytest.raises(MCPError, match="does not exist"):
                    await client.call_tool_mcp("hidden", {})
        async with gateway(at(url, "a"), at(url, "b")) as ours, Client(ours.url) as client:
            with pytest.raises(MCPError, match="There are: a__"):
                await client.call_tool_mcp("hidden", {})
            assert "hidden" in text_of(await client.call_tool_mcp("a__hidden", {}))
        async with gateway(at(url), strict=True) as ours, Client(ours.url) as client:
            with pytest.raises(MCPError, match="does not exist"):
                await client.call_tool_mcp("hidden", {})


@pytest.mark.parametrize(
    ("declared", "mode", "is_shown"),
    [
        ({}, None, True),
        ({}, "form", True),
        ({}, "url", False),
        ({"url": {}}, "url", True),
        ({"url": {}}, "form", False),
        ({"form": {}, "url": {}}, "form", True),
    ],
)
async def test_elicitation_reaches_clients_in_the_modes_they_declared(
    declared: dict[str, Any], mode: str | None, is_shown: bool
) -> None:
    capabilities = types.ClientCapabilities.model_validate({"elicitation": declared})
    params = {"message": "?", **({"mode": mode} if mode else {})}
    if is_shown:
        check_mode(capabilities, "elicitation/create", params)
    else:
        with pytest.raises(ToolRejected) as refused:
            check_mode(capabilities, "elicitation/create", params)
        assert refused.value.code == types.INVALID_PARAMS


_NODE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
    "required": ["name"],
    "additionalProperties": False,
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


@pytest.mark.parametrize(
    ("schema", "small", "wrong"),
    [
        ({"$defs": {"Node": _NODE}, "$ref": "#/$defs/Node"}, {"name": "a", "next": {"name": "b"}}, {"name": 1}),
        ({"$defs": {"Node": _NODE}, "type": "object", "anyOf": [{"$ref": "#/$defs/Node"}]}, {"name": "a"}, {}),
        ({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b": 1}, {"a": 1, "b": 1}),
        ({"type": "object", "allOf": [{"required": ["a"]}], "not": {"required": ["b"]}}, {"a": 1}, {"b": 1}),
        ({"type": "object", "if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"c": 1}, {"a": 1}),
    ],
)
def test_output_schemas_that_combine_others_are_relaxed_too(
    schema: dict[str, Any], small: dict[str, Any], wrong: dict[str, Any]
) -> None:
    relaxed = relaxed_output(schema)
    assert relaxed is not None and relaxed["type"] == "object"
    for value in (small, {"result": "condensed"}):
        assert fits(value, relaxed)
    assert not fits(wrong, relaxed)
    assert relaxed_output({"type": "object", "anyOf": [{"$ref": "#/properties/a"}], "properties": {"a": {}}}) is None
