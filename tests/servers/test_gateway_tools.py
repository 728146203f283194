"""Tools of several servers behind one gateway, and the argument that every tool gains."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from mcp_types import TextContent, TextResourceContents

from tests.fakes.gateways import ERAS, Library, at, by_command, gateway, text_of
from tests.fakes.mcp_servers.web import Honest
from tests.servers.chatty import Chatty

# Several servers


@pytest.mark.parametrize("era", ERAS)
async def test_several_servers_keep_out_of_each_others_way(era: Any) -> None:
    async with Library("red").listening() as red, Library("blue").listening() as blue:
        async with gateway(at(red, "red"), at(blue, "blue")) as ours, Client(ours.url, mode=era) as client:
            names = [tool.name for tool in await client.list_tools()]
            assert {"red__talk", "blue__talk", "read_result"} <= set(names)
            assert [prompt.name for prompt in await client.list_prompts()] == ["red__greet", "blue__greet"]
            message = (await client.get_prompt("blue__greet", {"who": "Ada"})).messages[0].content
            assert isinstance(message, TextContent) and "from blue" in message.text
            assert {str(one.uri) for one in await client.list_resources()} == {"red://note", "blue://note"}
        # A resource that was not listed yet is found by the template that matches.
        async with gateway(at(red, "red"), at(blue, "blue")) as ours, Client(ours.url, mode=era) as client:
            (page,) = await client.read_resource("blue://page/7")
            assert isinstance(page, TextResourceContents) and page.text == "page 7 of blue"


@pytest.mark.process
async def test_a_server_that_dies_does_not_affect_the_others_and_comes_back(tmp_path: Path) -> None:
    async with (
        Honest().listening() as url,
        gateway(at(url, "web"), by_command("dies", str(tmp_path / "calls"), name="mortal")) as ours,
    ):
        async with Client(ours.url) as client:
            before = text_of(await client.call_tool_mcp("mortal__pid", {}))
            dead = await client.call_tool_mcp("mortal__die", {})
            assert dead.is_error and "closed the connection" in text_of(dead)
            assert text_of(await client.call_tool_mcp("web__echo", {"text": "still here"})) == "still here"
            with anyio.fail_after(300):
                while (again := await client.call_tool_mcp("mortal__pid", {})).is_error:
                    await anyio.sleep(0.05)
            assert text_of(again) != before


# What callers are looking for


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_gains_an_argument_that_never_reaches_the_server(era: Any) -> None:
    server = Chatty()
    async with server.listening() as url, gateway(at(url)) as ours, Client(ours.url, mode=era) as client:
        tool = next(tool for tool in await client.list_tools() if tool.name == "logs")
        assert tool.input_schema["properties"]["looking_for"]["type"] == "string"
        assert "looking_for" not in tool.input_schema.get("required", [])
        assert tool.output_schema == {
            "type": "object",
            "properties": {"result": {"type": "string"}},
            "x-fastmcp-wrap-result": True,
        }
        await client.call_tool_mcp("logs", {"lines": 3, "service": "api", "looking_for": "errors"})
    assert server.seen == [{"lines": 3, "service": "api"}]


async def test_the_argument_is_called_otherwise_where_its_name_is_taken_or_the_operator_says_so() -> None:
    server = Honest()
    got: list[str] = []

    @server.server.tool
    def find(looking_for: str) -> str:
        got.append(looking_for)
        return "found"

    async with server.listening() as url:
        async with gateway(at(url)) as ours, Client(ours.url) as client:
            tool = next(tool for tool in await client.list_tools() if tool.name == "find")
            assert set(tool.input_schema["properties"]) == {"looking_for", "looking_for_"}
            await client.call_tool_mcp("find", {"looking_for": "the server's own", "looking_for_": "ours"})
        async with gateway(at(url), TERSELY_INTENT_ARGUMENT="why", TERSELY_INTENT_DESCRIPTION="Because.") as ours:
            async with Client(ours.url) as client:
                tool = next(tool for tool in await client.list_tools() if tool.name == "echo")
                assert tool.input_schema["properties"]["why"]["description"] == "Because."
    assert got == ["the server's own"]


async def test_where_nothing_may_be_condensed_a_tool_is_offered_as_it_is() -> None:
    async with Honest().listening() as url:
        policy = {"add": {"summarization": {"enabled": False}}}
        async with gateway(at(url, tool_policies=policy)) as ours, Client(url) as direct, Client(ours.url) as client:
            (own,) = [tool for tool in await direct.list_tools() if tool.name == "add"]
            (shown,) = [tool for tool in await client.list_tools() if tool.name == "add"]
            assert shown.model_dump() == own.model_dump() and shown.output_schema
