"""Lazy tools: with many tools a client sees a search and a call in their place."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastmcp import Client, FastMCP

from mcp import MCPError
from tersely.servers.gateway.lazy_tools import search
from tests.fakes.gateways import at, gateway, text_of
from tests.fakes.llm_server import serving

AREAS = ("pod", "node", "volume", "secret", "route", "queue", "invoice", "customer", "image", "alert")
VERBS = {
    "list": "List every",
    "get": "Read one",
    "create": "Make a new",
    "restart": "Stop and start a",
    "count": "Count each",
}


def answering(verb: str, area: str) -> Callable[..., str]:
    def tool(name: str = "", rows: int = 1) -> str:
        return "\n".join(f"{verb} {area} {name} row {row}" for row in range(rows))

    return tool


def many() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("many")
    for area in AREAS:
        for verb, words in VERBS.items():
            server.tool(answering(verb, area), name=f"{verb}_{area}", description=f"{words} {area}.")
    return server


async def test_many_tools_are_found_and_called_instead_of_listed() -> None:
    async with serving(many().http_app(), lifespan="on") as address:
        lazy = at(f"{address}/mcp", "ops", listed=["list_pod"])
        async with gateway(lazy, TERSELY_GATEWAY_LAZY_ABOVE="20") as ours, Client(ours.url) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert set(tools) == {"list_pod", "search_tools", "call_tool", "read_result"}
            assert "49 tools of: ops" in (tools["search_tools"].description or "")
            found = text_of(await client.call_tool_mcp("search_tools", {"query": "restarting queues"}))
            first = json.loads(found.splitlines()[0])
            assert first["name"] == "restart_queue" and "rows" in first["inputSchema"]["properties"]
            assert "There are: count_alert, " in text_of(await client.call_tool_mcp("search_tools", {"query": "xyzzy"}))
            asked = {"name": "get_invoice", "arguments": {"name": "A-7"}}
            assert text_of(await client.call_tool_mcp("call_tool", asked)) == "get invoice A-7 row 0"
            # The question goes with the call, the result is condensed as any other, and wrong names are refused.
            large = {"name": "list_node", "arguments": {"rows": 3_000}, "looking_for": "row 2718"}
            condensed = text_of(await client.call_tool_mcp("call_tool", large))
            assert "row 2718" in condensed and "read_result(" in condensed and len(condensed) < 8_000
            with pytest.raises(MCPError, match="list_nodes"):
                await client.call_tool_mcp("call_tool", {"name": "list_nodes"})
        async with gateway(at(f"{address}/mcp", "ops")) as ours, Client(ours.url) as client:
            assert len(await client.list_tools()) == len(AREAS) * len(VERBS) + 1, "opt-in"


def test_a_search_prefers_names_rare_words_and_other_forms_of_a_word() -> None:
    definitions = [
        {"name": f"{verb}_{area}", "description": f"{words} {area}."} for area in AREAS for verb, words in VERBS.items()
    ]
    assert search("count_alert", definitions)[0]["name"] == "count_alert"
    assert {one["name"].split("_")[1] for one in search("volumes", definitions)} == {"volume"}
    assert search("list all customers", definitions)[0]["name"] == "list_customer"
    assert search("", definitions) == []


async def test_tools_that_are_used_often_are_listed_after_the_next_start() -> None:
    async with serving(many().http_app(), lifespan="on") as address:
        for expected in (set(), {"get_pod"}):
            async with (
                gateway(at(f"{address}/mcp", "ops", lazy=True)) as ours,
                Client(ours.url) as client,
            ):
                listed = {tool.name for tool in await client.list_tools()}
                assert listed == expected | {"search_tools", "call_tool", "read_result"}
                for name in ("get_pod", "get_pod", "get_pod", "get_node"):
                    await client.call_tool_mcp("call_tool", {"name": name})
                assert {tool.name for tool in await client.list_tools()} == listed, "stable while a client is there"
                search = text_of(await client.call_tool_mcp("search_tools", {"query": "get pod"}))
                assert ("get_pod" in search) == (not expected), "a tool is either listed or found"
