"""`tersely gateway` as a process of its own: on standard input and output, with real clients of both eras."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from tersely.settings.model import Settings
from tersely.store.database import Database
from tersely.store.usage import take_in, used
from tests.fakes.gateways import ERAS, ROOT, text_of

pytestmark = pytest.mark.process

FAKE = [sys.executable, "-m", "tests.fakes.mcp_servers.honest"]


def started(*arguments: str) -> StdioTransport:
    return StdioTransport(sys.executable, ["-m", "tersely", "gateway", *arguments], env=dict(os.environ), cwd=str(ROOT))


def ended(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tersely", "gateway", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("era", ERAS)
async def test_a_command_behind_two_dashes_is_the_server(era: Any) -> None:
    async with Client(started("--", *FAKE), mode=era) as client:
        assert "echo" in [tool.name for tool in await client.list_tools()]
        assert text_of(await client.call_tool_mcp("echo", {"text": "password=hunter2-is-secret"})).startswith(
            "password=[MASKED:"
        )
        told: list[str | None] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        assert text_of(await client.call_tool_mcp("steps", {"label": "x"}, progress_handler=hear)) == "done"
        assert told == ["x1", "x2", "x3"]


async def test_a_server_learns_the_folders_of_its_client_when_it_starts_and_when_they_change() -> None:
    """As the public filesystem server does; outside of any call, so only where there is one client."""
    asking = [sys.executable, "-m", "tests.fakes.mcp_servers.asks", "--roots"]
    folders = ["file:///one"]

    async def offer(context: Any) -> list[str]:
        return folders

    async with Client(started("--", *asking), mode="legacy", roots=offer) as client:
        with anyio.fail_after(300):
            while text_of(await client.call_tool_mcp("folders", {})) != "file:///one":
                await anyio.sleep(0.05)
        folders[:] = ["file:///two"]
        await client.session.send_notification(types.RootsListChangedNotification())
        with anyio.fail_after(300):
            while text_of(await client.call_tool_mcp("folders", {})) != "file:///two":
                await anyio.sleep(0.05)


async def test_what_a_server_tells_after_its_answer_reaches_the_only_client() -> None:
    """That a question which was asked on a page of the web has been answered there."""
    heard: list[Any] = []

    async def listen(message: Any) -> None:
        heard.append(message)

    asking = [sys.executable, "-m", "tests.fakes.mcp_servers.asks"]
    async with Client(started("--", *asking), mode="legacy", message_handler=listen) as client:
        await client.call_tool_mcp("ask_elsewhere", {})
        with anyio.fail_after(300):
            while not [one for one in heard if getattr(one, "method", "") == "notifications/elicitation/complete"]:
                await anyio.sleep(0.02)


async def test_a_file_of_servers_is_what_every_client_has_already(tmp_path: Path) -> None:
    entry = {"command": FAKE[0], "args": FAKE[1:], "cwd": str(ROOT)}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"one": entry, "two": entry, "broken": {"command": "/does/not/exist"}}}))
    async with Client(started("--config", str(file))) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert {"one__echo", "two__echo"} <= set(names)
        assert text_of(await client.call_tool_mcp("two__echo", {"text": "hi"})) == "hi"


async def test_a_call_that_is_cancelled_is_cancelled_at_the_server() -> None:
    hanging = [sys.executable, "-m", "tests.fakes.mcp_servers.hangs"]
    async with Client(started("--", *hanging), mode="legacy") as client:
        # The first call waits for the server.
        assert text_of(await client.call_tool_mcp("what_was_cancelled", {})) == "0"
        with anyio.fail_after(300):
            async with anyio.create_task_group() as caller:
                caller.start_soon(client.call_tool_mcp, "hang", {})
                while text_of(await client.call_tool_mcp("what_hangs", {})) != "1":
                    await anyio.sleep(0.05)
                caller.cancel_scope.cancel()
            while text_of(await client.call_tool_mcp("what_was_cancelled", {})) != "1":
                await anyio.sleep(0.05)


def test_sigterm_stops_the_gateway_and_its_servers(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    stubborn = [sys.executable, "-m", "tests.fakes.mcp_servers.stubborn", str(ids)]
    command = [sys.executable, "-m", "tersely", "gateway", "--", *stubborn]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT
    ) as process:
        assert process.stdin and process.stdout
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
        )
        process.stdin.flush()
        assert b'"result"' in process.stdout.readline()
        deadline = time.monotonic() + 300
        while not (ids.exists() and len(ids.read_text().split()) == 2) and time.monotonic() < deadline:
            time.sleep(0.02)  # the client was answered before the server had started
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 128 + signal.SIGTERM
    assert not any(is_alive(int(pid)) for pid in ids.read_text().split())


def test_sigterm_over_http_stops_the_servers_and_stores_the_statistics(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    command = [sys.executable, "-m", "tersely", "gateway", "--http", "--port", "0", "--"]
    stubborn = [sys.executable, "-m", "tests.fakes.mcp_servers.stubborn", str(ids)]
    with subprocess.Popen([*command, *stubborn], stderr=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stderr
        address = json.loads(process.stderr.readline())["address"]
        anyio.run(called_once, address)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0
    assert not any(is_alive(int(pid)) for pid in ids.read_text().split())
    assert not Path(Settings.load().store.url.removeprefix("sqlite:///")).exists(), "nothing had to be kept"
    assert anyio.run(counted) == anyio.run(counted) == [("hello", 1), ("own tools", 0)]


async def called_once(address: str) -> None:
    async with Client(address) as client:
        await client.call_tool_mcp("hello", {})


async def counted() -> list[tuple[str, int]]:
    store = Settings.load().store
    async with Database.open(store.url) as database:
        await take_in(database, store.spool)
        async with database.reading() as db:
            return [(row.tool, row.calls) for row in await used(db)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_off_loopback_it_does_not_start_without_a_token() -> None:
    refused = ended("--upstream", "http://127.0.0.1:9/mcp", "--http", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 2 and "TERSELY_TOKEN" in refused.stderr and "Traceback" not in refused.stderr


async def test_started_by_a_client_it_reads_the_users_settings_and_not_those_of_the_folder_it_is_in(
    tmp_path: Path,
) -> None:
    """The folder may be an untrusted project; the settings say where results are kept and which model reads them."""
    project, home = tmp_path / "project", tmp_path / "home"
    (home / "tersely").mkdir(parents=True)
    project.mkdir()
    (home / "tersely" / "tersely.yaml").write_text("gateway: {intent_argument: why}\nagents: {unfinished: 3}\n")
    (project / "tersely.yaml").write_text("gateway: {intent_argument: theirs}\n")
    environment = {**os.environ, "XDG_CONFIG_HOME": str(home), "PYTHONPATH": str(ROOT)}
    command = ["-m", "tersely", "gateway", "--inherit-env", "PYTHONPATH", "--", *FAKE]
    async with Client(StdioTransport(sys.executable, command, env=environment, cwd=str(project))) as client:
        (echo,) = [tool for tool in await client.list_tools() if tool.name == "echo"]
    assert "why" in echo.input_schema["properties"]


def test_a_port_that_is_taken_is_one_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = ended("--http", "--port", port, "--", *FAKE)
    assert refused.returncode == 2 and f"127.0.0.1:{port}" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("servers", "says"), [("{}", "declares no servers"), ('{"a": {"command": "x", "disabled": true}}', "are disabled")]
)
def test_a_file_without_a_server_to_use_is_a_mistake(servers: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(f'{{"mcpServers": {servers}}}')
    refused = ended("--config", str(file))
    assert refused.returncode == 2 and says in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize("command", [(), ("check",)])
def test_a_provider_that_nobody_declared_is_a_mistake(command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    policy = {"logs": {"summarization": {"use_model": True, "llm_provider": "big"}}}
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "x", "tool_policies": policy}}}))
    refused = ended(*command, "--config", str(file))
    assert refused.returncode == 2 and "a.tool_policies.logs: llm_provider 'big' is not declared" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "No servers given"),
        (("--upstream", "http://localhost:1/mcp", "--", "x"), "Give only one of"),
        (("--port", "1", "--", "x"), "--port and --stateless need --http"),
        (("--llm", "--", "x"), "OPENROUTER_API_KEY"),
        (("nonsense",), "nonsense"),
        (("--upstream", "http://localhost:1/mcp", "check"), "Put --upstream after the subcommand"),
    ],
)
def test_a_mistake_is_a_sentence(arguments: tuple[str, ...], says: str) -> None:
    refused = ended(*arguments)
    assert refused.returncode == 2 and says in refused.stderr and "Traceback" not in refused.stderr
