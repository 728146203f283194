"""Connections to fake servers, for the tests of `mcp.connect`."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from tersely.mcp.connect.supervisor import Backoff, Connection, connected
from tersely.mcp.raw import RawResult, Tool
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tests.fakes.mcp_servers.web import Honest

ROOT = Path(__file__).parents[2]
HASTY = Backoff(first_delay=0.05, longest_delay=0.4, between_lists=0.05)
ERAS = ["2025-11-25", "2026-07-28"]


def stdio(
    habit: str,
    *args: str,
    name: str = "",
    env: dict[str, str] | None = None,
    inherit: tuple[str, ...] = (),
    **options: Any,
) -> Server:
    transport = TransportOptions.model_validate(
        {
            "command": sys.executable,
            "args": ["-m", f"tests.fakes.mcp_servers.{habit}", *args],
            "env": {"PYTHONPATH": str(ROOT), **(env or {})},
            "inherit_env": inherit,
        }
    )
    options.setdefault("start_timeout", 300)
    return Server(name=name or habit, options=ServerOptions(transport=transport, **options))


def web(
    url: str, name: str = "web", *, kind: str = "http", transport: dict[str, Any] | None = None, **options: Any
) -> Server:
    reached = TransportOptions.model_validate({"type": kind, "url": url, **(transport or {})})
    return Server(name=name, options=ServerOptions(transport=reached, **options))


@asynccontextmanager
async def one(server: Server, backoff: Backoff = HASTY, **how: Any) -> AsyncIterator[Connection]:
    """A connection to one server; nothing in the block may take longer than it should."""
    with anyio.fail_after(300):
        async with connected([server], backoff=backoff, **how) as connections:
            yield connections[server.name]


def tool(connection: Connection, name: str) -> Tool:
    return next(tool for tool in connection.tools if tool.name == name)


async def call(
    connection: Connection, name: str, *, timeout: float | None = None, on_progress: Any = None, **arguments: Any
) -> RawResult:
    return await connection.call(tool(connection, name), arguments, timeout=timeout, on_progress=on_progress)


async def said(connection: Connection, name: str, **arguments: Any) -> str:
    (only,) = (await call(connection, name, **arguments)).texts
    return only


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(300):
        while not condition():
            await anyio.sleep(0.01)


def is_running(pid: int) -> bool:
    """Not even a zombie of it is left when this is false."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_at_work(pid: int) -> bool:
    """Another process's child is not ours to bury; dead is enough."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@asynccontextmanager
async def every_way(way: str, era: str) -> AsyncIterator[Server]:
    if way == "stdio":
        yield stdio("honest", *(["--modern"] if era == ERAS[1] else []), protocol=era)
    else:
        async with Honest().listening("sse" if way == "sse" else "http") as url:
            yield web(url, kind=way, protocol=era)
