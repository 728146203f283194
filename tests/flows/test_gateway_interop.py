"""The gateway between third-party clients and servers.

Clients: the MCP Inspector's command line; the TypeScript SDK, both generations; the Python SDK of the older protocol,
langchain-mcp-adapters, OpenAI Agents, pydantic-ai and FastMCP, with their default time limits, also beside two busy
loops. Servers: filesystem,
everything, memory and sequential-thinking from npm; git, time, fetch and sqlite from PyPI; each is called.
`make interop` installs them and runs this; without them the tests are skipped.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from conformance.processes import TERSELY, listening
from tersely.shapes.pieces import LONGEST_LINE
from tersely.text.tokens import O200K
from tests.fakes.llm_server import serving

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent.parent
INTEROP = ROOT / "conformance" / "interop"
NODE_TOOLS = INTEROP / "node_modules" / ".bin"
PYTHON_TOOLS = ROOT / ".venv-interop" / "bin"
OLDER_TOOLS = ROOT / ".venv-interop-older" / "bin"
ERAS = ("legacy", "2026-07-28")
SDK = INTEROP / "node_modules" / "@modelcontextprotocol" / "sdk" / "dist" / "esm"
SOURCES = [
    *(Path(sysconfig.get_path("stdlib")) / name for name in ("argparse.py", "tarfile.py", "typing.py")),
    SDK / "shared" / "protocol.js",
    SDK / "types.js",
    SDK / "types.d.ts",
]
BUDGETS = {"files_brief": 300, "files": 1_000, "files_long": 4_000}
NEEDLE = "ERROR payments refused: certificate of ledger-7 expired"


@pytest.fixture(scope="module")
def node() -> Path:
    if not (NODE_TOOLS / "node").exists():
        pytest.skip("no clients and servers from npm: `make interop` installs them")
    return NODE_TOOLS


@pytest.fixture(scope="module")
def python_servers() -> Path:
    if not (PYTHON_TOOLS / "mcp-server-git").exists():
        pytest.skip("no servers from PyPI: `make interop` installs them")
    return PYTHON_TOOLS


@pytest.fixture(scope="module")
def older() -> Path:
    if not (OLDER_TOOLS / "mcp-server-sqlite").exists():
        pytest.skip("no servers and clients on the older SDK: `make interop` installs them")
    return OLDER_TOOLS


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small file and a log of several MB in which one line matters."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "small.txt").write_text("All is well.\n")
    lines = [
        f"2026-11-15T10:{n // 1000:02d}:{n % 60:02d}Z INFO api GET /cart/{n} 200 in {n % 97} ms user={n % 5000}"
        for n in range(60_000)
    ]
    lines[43_210] = f"2026-11-15T10:43:12Z {NEEDLE}"
    (folder / "api.log").write_text("\n".join(lines))
    assert (folder / "api.log").stat().st_size > 4_000_000
    for source in SOURCES:
        if source.exists():
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with one commit."""
    folder = tmp_path_factory.mktemp("repository")
    git = ["git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "Begin"], check=True)
    return folder


@pytest.fixture(scope="module")
def gateway(files: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One gateway over HTTP in front of all servers that are installed; its address."""
    commands: dict[str, tuple[Path, *tuple[Path | str, ...]]] = {
        "files": (NODE_TOOLS / "mcp-server-filesystem", files),
        "everything": (NODE_TOOLS / "mcp-server-everything",),
        "git": (PYTHON_TOOLS / "mcp-server-git", "--repository", repository),
        "time": (PYTHON_TOOLS / "mcp-server-time",),
        "memory": (NODE_TOOLS / "mcp-server-memory",),
        "thinking": (NODE_TOOLS / "mcp-server-sequential-thinking",),
        "fetch": (OLDER_TOOLS / "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
        "sqlite": (OLDER_TOOLS / "mcp-server-sqlite", "--db-path", files / "shop.db"),
    }
    servers: dict[str, dict[str, Any]] = {
        name: {"command": str(program), "args": [*map(str, arguments)]}
        for name, (program, *arguments) in commands.items()
        if program.exists()
    }
    for name, budget in BUDGETS.items():
        if "files" in servers:
            servers[name] = {
                **servers["files"],
                "summarization": {"size_threshold_tokens": 5_000, "summary_max_token_limit": budget},
            }
    if "memory" in servers:
        servers["memory"]["env"] = {"MEMORY_FILE_PATH": str(files / "memory.jsonl")}
    config = tmp_path_factory.mktemp("gateway") / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PATH", f"{NODE_TOOLS}{os.pathsep}{os.environ['PATH']}"
        )  # the servers from npm want the Node from npm
        with listening([*TERSELY, "gateway", "--http", "--port", "0", "--config", str(config)]) as running:
            yield running.address


def on_node(*command: str | Path, tmp_path: Path) -> Any:
    """What a program says in JSON, run by the Node of the interop tools."""
    environment = {
        **os.environ,
        "PATH": f"{NODE_TOOLS}{os.pathsep}{os.environ['PATH']}",
        "TERSELY_DATA_DIR": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }
    run = subprocess.run(
        [str(part) for part in command],
        cwd=INTEROP,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def typescript(
    generation: str, address: str, tool: str, arguments: dict[str, Any], *, node: Path, tmp_path: Path
) -> Any:
    where = json.dumps({"url": address})
    return on_node(node / "node", "client.mjs", generation, where, tool, json.dumps(arguments), tmp_path=tmp_path)


def text_of(result: Any) -> str:
    return "\n".join(part["text"] for part in result["content"] if part["type"] == "text")


# Clients


def test_the_inspector_lists_and_calls_a_server_through_us_as_if_we_were_not_there(
    node: Path, files: Path, tmp_path: Path
) -> None:
    filesystem = [str(node / "mcp-server-filesystem"), str(files)]
    config = tmp_path / "inspector.json"
    entries = {
        "direct": {"command": filesystem[0], "args": filesystem[1:]},
        "through": {
            "command": sys.executable,
            "args": ["-m", "tersely", "gateway", "--", *filesystem],
            "env": {"TERSELY_DATA_DIR": str(tmp_path)},
        },
    }
    config.write_text(json.dumps({"mcpServers": entries}))

    def inspector(server: str, *options: str) -> Any:
        return on_node(
            node / "mcp-inspector", "--cli", "--config", config, "--server", server, *options, tmp_path=tmp_path
        )

    names = {
        server: {tool["name"] for tool in inspector(server, "--method", "tools/list")["tools"]} for server in entries
    }
    assert names["direct"] <= names["through"]
    assert {"read_result"} == names["through"] - names["direct"]

    call = ("--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", f"path={files / 'small.txt'}")
    direct, through = inspector("direct", *call), inspector("through", *call)
    assert (through["content"], through.get("structuredContent")) == (
        direct["content"],
        direct.get("structuredContent"),
    )


@pytest.mark.parametrize(("generation", "protocol"), [("v1", "2025-11-25"), ("v2", "2026-07-28")])
def test_a_client_on_the_typescript_sdk_gets_the_line_it_looks_for_out_of_several_megabytes(
    generation: str, protocol: str, node: Path, files: Path, gateway: str, tmp_path: Path
) -> None:
    arguments = {"path": str(files / "api.log"), "looking_for": "why are payments refused?"}
    said = typescript(generation, gateway, "files__read_text_file", arguments, node=node, tmp_path=tmp_path)

    assert said["protocol"] == protocol
    text = text_of(said["result"])
    assert NEEDLE in text
    assert O200K.count(text) <= 1_500
    assert not said["result"].get("isError")


@pytest.mark.parametrize("generation", ["v1", "v2"])
def test_the_typescript_sdk_hears_progress_of_a_server_from_npm(
    generation: str, node: Path, gateway: str, tmp_path: Path
) -> None:
    arguments = {"duration": 0.5, "steps": 5}
    said = typescript(
        generation, gateway, "everything__trigger-long-running-operation", arguments, node=node, tmp_path=tmp_path
    )

    assert said["progress"] == [1, 2, 3, 4, 5]
    assert "completed" in text_of(said["result"])


@pytest.mark.parametrize(
    ("client", "limit"), [("mcp1", None), ("langchain", None), ("openai-agents", 5), ("pydantic-ai", 5)]
)
@pytest.mark.parametrize("loops", [0, 2])
def test_a_python_client_connects_within_its_default_time_limits(
    client: str,
    limit: float | None,
    loops: int,
    older: Path,
    python_servers: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """OpenAI Agents and pydantic-ai give up after five seconds, so on a busy machine a timeout is only reported."""
    load = max(os.getloadavg()[0], loops)
    with ExitStack() as busy:
        for _ in range(loops):
            loop = busy.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            busy.callback(loop.kill)
        began = time.perf_counter()
        run = python_client(
            client,
            [str(python_servers / "mcp-server-time")],
            "get_current_time",
            '{"timezone": "Europe/Lisbon"}',
            tmp_path,
        )
        seconds = time.perf_counter() - began
    with capsys.disabled():
        outcome = "gave up" if gave_up(run) else "called" if not run.returncode else "failed"
        print(f"\n  {client}, limit {limit or 'none'}, {loops} busy loops, load {load:.1f}: {outcome}, {seconds:.1f} s")
    if gave_up(run) and load > 1:
        pytest.skip(f"{client} gave up in its default time; the machine is busy (load {load:.1f})")
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert seen["limit"] == limit, "the client has the time limit that it has by itself"
    assert "get_current_time" in seen["tools"] and "Europe/Lisbon" in str(seen["said"])


def python_client(
    client: str, server: list[str], tool: str, arguments: str, tmp_path: Path
) -> subprocess.CompletedProcess[str]:
    """Run one of the clients of `client.py` with the gateway in front of this server."""
    python = sys.executable if client == "pydantic-ai" else str(OLDER_TOOLS / "python")
    command = [sys.executable, "-m", "tersely", "gateway", "--", *server]
    environment = {
        **os.environ,
        "PATH": f"{NODE_TOOLS}{os.pathsep}{os.environ['PATH']}",
        "TERSELY_DATA_DIR": str(tmp_path / "data"),
        "HOME": str(tmp_path),
    }
    return subprocess.run(
        [python, "client.py", client, json.dumps(command), tool, arguments],
        cwd=INTEROP,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def gave_up(run: subprocess.CompletedProcess[str]) -> bool:
    """Whether a client ended because it waited too long."""
    return bool(run.returncode and re.search("(?i)tim(ed?|e) ?out|Failed to initialize", run.stderr))


WEATHER = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
"""What the everything server says of Chicago, with an output schema."""


@pytest.mark.parametrize("generation", ["v1", "v2"])
def test_the_typescript_sdk_gets_typed_data_of_a_small_result(
    generation: str, node: Path, gateway: str, tmp_path: Path
) -> None:
    """It checks the data against the listed output schema itself."""
    tool = "everything__get-structured-content"
    said = typescript(generation, gateway, tool, {"location": "Chicago"}, node=node, tmp_path=tmp_path)

    assert said["result"]["structuredContent"] == WEATHER
    listed = next(one for one in said["tools"] if one["name"] == tool)["outputSchema"]
    assert set(WEATHER) <= set(listed["properties"])


def test_pydantic_ai_gets_typed_data_of_a_small_result(node: Path, older: Path, tmp_path: Path) -> None:
    run = python_client(
        "pydantic-ai",
        [str(node / "mcp-server-everything")],
        "get-structured-content",
        '{"location": "Chicago"}',
        tmp_path,
    )

    if gave_up(run) and os.getloadavg()[0] > 1:
        pytest.skip("pydantic-ai gave up in its default time; the machine is busy")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["said"] == WEATHER


# Servers


@pytest.mark.parametrize("era", ERAS)
async def test_servers_that_keep_a_state_and_one_that_reads_the_web_are_called(
    era: str, node: Path, older: Path, gateway: str
) -> None:
    async def page(request: Request) -> PlainTextResponse:
        return PlainTextResponse("The harbour opens at seven.")

    async with (
        serving(Starlette(routes=[Route("/page", page)])) as site,
        Client(gateway, mode=era) as client,
    ):

        async def call(tool: str, **arguments: Any) -> str:
            return text_of((await client.call_tool_mcp(tool, arguments)).model_dump())

        entity = {"name": f"ada-{era}", "entityType": "person", "observations": ["drinks tea"]}
        await call("memory__create_entities", entities=[entity])
        assert f"ada-{era}" in await call("memory__read_graph")
        step = {"thought": "Look.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
        assert '"thoughtNumber": 1' in await call("thinking__sequentialthinking", **step)
        await call("sqlite__create_table", query="CREATE TABLE IF NOT EXISTS carts (id INTEGER, name TEXT)")
        await call("sqlite__write_query", query=f"INSERT INTO carts VALUES (7, 'blue {era}')")
        assert f"blue {era}" in await call("sqlite__read_query", query="SELECT * FROM carts WHERE id = 7")
        assert "The harbour opens at seven." in await call("fetch__fetch", url=f"{site}/page")


@pytest.mark.parametrize("era", ERAS)
async def test_several_megabytes_from_the_filesystem_server_fit_and_can_be_read_whole(
    era: str, node: Path, files: Path, gateway: str
) -> None:
    async with Client(gateway, mode=era) as client:
        arguments = {"path": str(files / "api.log"), "looking_for": "why are payments refused?"}
        text = text_of((await client.call_tool_mcp("files__read_text_file", arguments)).model_dump())
        handle = re.search(r"r_[A-Za-z0-9]{16}", text)
        assert handle is not None
        last = await client.call_tool_mcp("read_result", {"handle": handle[0], "pattern": "GET /cart/59999 "})

    assert NEEDLE in text
    assert "GET /cart/59999 200" in text_of(last.model_dump())


@pytest.mark.parametrize("server", BUDGETS)
async def test_every_line_quoted_from_a_source_file_is_the_line_of_that_number(
    server: str, node: Path, files: Path, gateway: str
) -> None:
    quoted = 0
    async with Client(gateway) as client:
        for source in SOURCES:
            lines = (files / source.name).read_text().split("\n")
            arguments = {"path": str(files / source.name), "looking_for": "how are errors reported?"}
            text = text_of((await client.call_tool_mcp(f"{server}__read_text_file", arguments)).model_dump())
            assert O200K.count(text) <= BUDGETS[server] + 150
            found = list(numbered_lines(text))
            assert found, source
            for number, line in found:
                whole = lines[number - 1]
                # Of a very long line, only a part may be quoted.
                assert line in whole if len(whole) > LONGEST_LINE else line == whole, (source, number)
            quoted += len(found)
    assert quoted > 10 * len(SOURCES)


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that a condensed source quotes, with the numbers it gives them."""
    number = 0
    for line in text.split("\n"):
        if (mark := re.fullmatch(r"…(\d*)", line)) is not None:
            number = int(mark[1] or 0)
        elif number and line.startswith("[") and line.endswith("]"):
            return
        elif number:
            yield number, line
            number += 1


async def test_the_git_and_time_servers_answer_side_by_side(
    python_servers: Path, repository: Path, gateway: str
) -> None:
    async with Client(gateway) as client:
        log = await client.call_tool_mcp("git__git_log", {"repo_path": str(repository), "max_count": 1})
        now = await client.call_tool_mcp("time__get_current_time", {"timezone": "Europe/Lisbon"})

    assert "Begin" in text_of(log.model_dump())
    assert "Europe/Lisbon" in text_of(now.model_dump())


async def test_resources_prompts_and_pictures_of_the_everything_server_pass(node: Path, gateway: str) -> None:
    async with Client(gateway) as client:
        resources = await client.list_resources()
        read = await client.read_resource(resources[0].uri)
        prompt = await client.get_prompt("everything__simple-prompt")
        picture = await client.call_tool_mcp("everything__get-tiny-image", {})

    assert read
    assert prompt.messages
    assert [part.type for part in picture.content].count("image") == 1
