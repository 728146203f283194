"""Builds a gateway from the settings, and serves it on standard input and output; `web` serves it over HTTP."""

import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import anyio
from mcp.server.stdio import stdio_server

from tersely.cpu.memory import collect_rarely, release_memory
from tersely.cpu.run import run_in_thread
from tersely.mcp.servers import Server
from tersely.servers.gateway.call_limits import CallLimits, limits_from
from tersely.servers.gateway.catalogue import ListingOptions
from tersely.servers.gateway.counting import Counting
from tersely.servers.gateway.frequent_tools import load_frequent
from tersely.servers.gateway.known_servers import KNOWN_FOLDER, KnownServers
from tersely.servers.gateway.policies import Policies
from tersely.servers.gateway.protocol import GREETING_SECONDS, LIST_SECONDS, Gateway
from tersely.servers.gateway.tool_pins import SEEN_FILE, ToolPins
from tersely.settings.model import Settings
from tersely.store.private import masking_key

if TYPE_CHECKING:
    from tersely.servers.gateway.backend import Backend

SERVICE_ID = "mcp_gateway"


@asynccontextmanager
async def running_gateway(
    settings: Settings,
    servers: Sequence[Server],
    *,
    strict: bool = False,
    models: bool = False,
    list_seconds: float = LIST_SECONDS,
    greeting_seconds: float = GREETING_SECONDS,
) -> AsyncIterator[Gateway]:
    """A gateway in front of these servers, running inside the block.

    Args:
        models: Summarize with the configured model unless a policy forbids it; otherwise only where a policy asks
            for it.
    """
    folder = settings.store.data_dir
    policies = Policies(masking_key(folder))
    counting = Counting(settings.store.spool)
    is_lazy = bool(settings.gateway.lazy_above) or any(server.options.lazy for server in servers)

    @asynccontextmanager
    async def load_backend() -> "AsyncIterator[Backend]":
        # In a thread, so that requests which do not need it are answered meanwhile.
        module = await run_in_thread(_import_backend)
        async with module.open_backend(settings, servers, policies, counting, models=models) as backend:
            release_memory()  # of imports, and of a database that was made
            yield backend

    options = settings.gateway
    gateway = Gateway(
        list(servers),
        policies=policies,
        load_backend=load_backend,
        counting=counting,
        # Lazy lists show the tools that the statistics name, and a wrong database is told at once.
        loads_early=models or is_lazy or not _is_usable(settings.store.url),
        pins=ToolPins(folder / SEEN_FILE),
        known=KnownServers(folder / KNOWN_FOLDER, policies),
        listing=ListingOptions(
            options.intent_argument, options.intent_description, options.lazy_above, load_frequent(folder)
        ),
        strict=strict,
        list_seconds=list_seconds,
        greeting_seconds=greeting_seconds,
        logins=settings.store.logins,
        limits=CallLimits(*limits_from(settings)),
    )
    release_memory()  # of the imports
    collect_rarely()
    async with gateway.running():
        yield gateway


def _is_usable(url: str) -> bool:
    """Whether the database is a file of SQLite, or will be one; it is then opened when it is needed."""
    if not url.startswith("sqlite:///"):
        return False
    file = Path(url.removeprefix("sqlite:///"))
    try:
        with file.open("rb") as content:
            return content.read(len(_SQLITE)) in (b"", _SQLITE)
    except FileNotFoundError:
        return os.access(file.parent, os.W_OK)
    except OSError:
        return False


_SQLITE = b"SQLite format 3\0"


def _import_backend() -> ModuleType:
    from tersely.servers.gateway import backend

    return backend


async def serve_stdio(gateway: Gateway) -> None:
    """Serve until standard input ends. The servers start when the client has sent its protocol version."""
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for number in signals:
                    await gateway.stop()
                    # A thread blocks on standard input and cannot be cancelled; everything else has stopped.
                    os._exit(128 + number)

        async def stop_on_failure() -> None:
            await gateway.failed.wait()
            await gateway.stop()
            sys.stderr.write(f"tersely: {gateway.failure}\n")
            sys.stderr.flush()
            os._exit(2)

        tasks.start_soon(stop_on_signal)
        tasks.start_soon(stop_on_failure)
        await gateway.protocol.run(read, write, gateway.protocol.create_initialization_options())
        tasks.cancel_scope.cancel()
