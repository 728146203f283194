"""The start of the gateway: clients are answered whatever the servers do, and its tools cost few tokens."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client

from tersely.cli.gateway_check import check_servers
from tersely.results.read_back_tool import READ_RESULT
from tersely.servers.gateway.catalogue import Catalogue
from tersely.text.tokens import count_tokens
from tests.fakes.gateways import at, by_command, gateway, text_of
from tests.fakes.mcp_servers.web import Honest

LATE = "Still starting: late; more tools will follow."


@pytest.mark.process
async def test_a_server_that_takes_long_joins_later_and_is_known_from_then_on(tmp_path: Path) -> None:
    """Clients give up after 5 s, and a command that is killed while it is downloaded never gets ready."""
    may_start = tmp_path / "may_start"
    late = by_command("waits", str(may_start), name="late", start_timeout=0.2)
    heard: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with Honest().listening() as url, gateway(late, at(url, "web"), wait=0.3) as ours:
        async with Client(ours.url, mode="legacy", message_handler=listen) as client:
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert "web__echo" in tools and "late__pid" not in tools
            assert (tools["read_result"].description or "").endswith(LATE)
            connection = ours.gateway.upstreams.pools[False].connections["late"]
            with anyio.fail_after(300):
                while "still starting" not in connection.status().last_error or not connection.progress:
                    await anyio.sleep(0.01)
            assert connection.status().state == "starting" and connection.status().restarts == 0
            assert connection.progress.startswith("downloading, password=[MASKED:")
            may_start.touch()
            with anyio.fail_after(300):
                while "notifications/tools/list_changed" not in heard:
                    await anyio.sleep(0.01)
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert "late__pid" in tools and LATE not in (tools["read_result"].description or "")
            assert text_of(await client.call_tool_mcp("late__pid", {})) == str(connection.status().pid)
            assert connection.status().restarts == 0 and not connection.status().last_error
        may_start.unlink()
        async with gateway(late, at(url, "web"), wait=0.3) as again:
            async with Client(again.url, mode="legacy", message_handler=listen) as client:
                heard.clear()
                assert {tool.name: tool.model_dump() for tool in await client.list_tools()} == {
                    name: tool.model_dump() for name, tool in tools.items()
                }
                connection = again.gateway.upstreams.pools[False].connections["late"]
                assert connection.status().state == "starting"
                may_start.touch()
                with anyio.fail_after(300):
                    await connection.tried.wait()
                    while (answer := await client.call_tool_mcp("late__pid", {})).is_error:
                        await anyio.sleep(0.01)
                assert text_of(answer) == str(connection.status().pid)
                assert heard == [], "the tools are those that the client saw"


@pytest.mark.process
async def test_check_waits_for_a_slow_server_and_shows_what_it_does(tmp_path: Path, capsys: Any) -> None:
    late = by_command("waits", str(tmp_path / "never"), name="late", start_timeout=0.2)
    # As long as the command takes to say its first word.
    for patience in (0.5, 5, 60):
        report = await check_servers([late], tmp_path, patience=patience)
        (server,) = report["servers"]
        if "downloading" in server["reason"]:
            break
    assert not report["ok"] and server["state"] == "starting"
    assert "still starting" in server["reason"] and "downloading" in server["reason"]
    assert "hunter2" not in json.dumps(report) + capsys.readouterr().err


@pytest.mark.process
def test_the_heavy_libraries_are_loaded_after_the_client_was_greeted() -> None:
    """They take longer than the MCP SDK, which decides how soon `initialize` can be answered at all."""
    heavy = ("sqlalchemy", "tersely.condensing.structural", "tersely.pipeline.process", "fastmcp", "openai")
    code = f"import sys, tersely.servers.gateway.serving; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_our_own_tools_cost_little() -> None:
    """As a client sends them to a model, in every turn: 980 tokens and 34 for each tool before."""

    def cost(definition: dict[str, Any]) -> int:
        function = {
            "name": definition["name"],
            "description": definition.get("description", ""),
            "parameters": definition["inputSchema"],
        }
        return count_tokens(json.dumps({"type": "function", "function": function}, ensure_ascii=False))

    async with Honest().listening() as url, gateway(at(url)) as ours, Client(url) as direct, Client(ours.url) as client:
        own = {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in await direct.list_tools()}
        shown = {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in await client.list_tools()}
        await client.call_tool_mcp("echo", {"text": "hi"})
        await ours.gateway.counting.count()
        (counted,) = [sums for key, sums in ours.gateway.counting.total.sums.items() if key[2] == "tersely"]
    added = sum(map(cost, shown.values())) - sum(map(cost, own.values()))
    assert abs(counted["tokens_after"] - added) <= 0.1 * added and not counted["tokens_before"]
    assert set(shown) - set(own) == {READ_RESULT.name}
    assert cost(shown[READ_RESULT.name]) <= 150
    assert max(cost(shown[name]) - cost(own[name]) for name in own) <= 12
    (renamed,) = Catalogue({}, "tersely_read_result", "looking_for").definitions()
    assert cost(renamed) <= 155
