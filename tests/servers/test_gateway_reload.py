"""A gateway that reads its configuration again while it runs."""

import json
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client, FastMCP

from tersely.servers.bearer_tokens import BearerTokens
from tersely.servers.gateway import reload as module
from tersely.servers.gateway.reload import reloading
from tersely.servers.gateway.web import token_digests
from tersely.settings.files import read_servers
from tersely.settings.model import Settings
from tests.fakes.gateways import gateway, text_of
from tests.fakes.llm_server import serving
from tests.fakes.mcp_servers.web import Honest


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(120):
        while not condition():
            await anyio.sleep(0.01)


async def test_servers_are_replaced_without_ending_a_call_and_a_broken_file_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    release, slow = anyio.Event(), FastMCP("slow")

    @slow.tool
    async def wait() -> str:
        await release.wait()
        return "not lost"

    file, settings = tmp_path / "mcp.json", {"calls": "0"}

    def write(**servers: Any) -> None:
        file.write_text(json.dumps({"mcpServers": servers}))

    def load() -> tuple[Settings, Any]:
        environment = {"TERSELY_GATEWAY_CALLS_PER_MINUTE": settings["calls"], "TERSELY_TOKEN": "new"}
        return Settings.load({"TERSELY_DATA_DIR": os.environ["TERSELY_DATA_DIR"], **environment}), read_servers(file)

    verifier = BearerTokens({})
    async with (
        Honest().listening() as one,
        serving(slow.http_app(), lifespan="on") as two,
        Honest().listening() as three,
    ):
        write(one={"url": one}, two={"url": f"{two}/mcp"})
        async with (
            gateway(*read_servers(file)) as ours,
            reloading(ours.gateway, load, [file], verifier),
            Client(ours.url) as client,
            Client(ours.url, mode="legacy") as older,
        ):
            assert "two__wait" in {tool.name for tool in await older.list_tools()}
            upstreams = ours.gateway.upstreams
            kept = upstreams.pools[True].connections["one"]
            ended = upstreams.pools[True].connections["two"]
            answers: list[str] = []

            def uses(*names: str) -> bool:
                return all(set(pool.connections) == set(names) for pool in upstreams.pools.values())

            async def call() -> None:
                answers.append(text_of(await client.call_tool_mcp("two__wait", {})))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                await until(lambda: ours.waiting == 1)
                write(one={"url": one, "tools": {"deny": ["add"]}}, three={"url": three})
                await until(lambda: uses("one", "three"))
                for reader in (client, older):
                    names = {tool.name for tool in await reader.list_tools()}
                    assert {"one__echo", "three__echo"} < names and not {"two__wait", "one__add"} & names
                assert text_of(await older.call_tool_mcp("three__echo", {"text": "new"})) == "new"
                assert upstreams.pools[True].connections["one"] is kept, "only its policy changed"
                assert answers == [] and ended.status().state == "ready"
                release.set()
            assert answers == ["not lost"]
            await until(lambda: ended.status().state == "closed")

            file.write_text('{"mcpServers": {\n  "one": {"command": "x",,}}}')
            await until(lambda: any(record.getMessage() == "configuration_kept" for record in caplog.records))
            (problem,) = [record for record in caplog.records if record.getMessage() == "configuration_kept"]
            assert f"{file}:2: is not valid JSON" in vars(problem)["problem"]
            assert text_of(await client.call_tool_mcp("three__echo", {"text": "still"})) == "still"

            monkeypatch.setattr(module, "LOOK_SECONDS", 3600)  # from here on only the signal
            settings["calls"] = "1"
            write(one={"url": one})
            os.kill(os.getpid(), signal.SIGHUP)
            await until(lambda: any(vars(record).get("because") == "SIGHUP" for record in caplog.records))
            assert uses("one")
            assert text_of(await client.call_tool_mcp("echo", {"text": "alone"})) == "alone"
            assert "may make 1 per minute" in text_of(await client.call_tool_mcp("echo", {"text": "more"}))
            assert await verifier.verify_token("new") and token_digests(load()[0])
