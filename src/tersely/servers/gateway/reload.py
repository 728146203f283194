"""Reload the configuration of a running gateway, on SIGHUP and when a file changes.

Servers, their policies, tokens and limits are replaced without ending a call. A configuration that is
invalid changes nothing; the log says why. Address, port and the way results are kept need a restart.
"""

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from tersely.cpu.run import run_in_thread
from tersely.errors import ConfigError
from tersely.mcp.servers import Server
from tersely.servers.gateway.call_limits import limits_from
from tersely.servers.gateway.protocol import Gateway
from tersely.settings.model import Settings

if TYPE_CHECKING:
    from tersely.servers.bearer_tokens import BearerTokens

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How often the files are looked at."""

Load = Callable[[], tuple[Settings, Sequence[Server]]]
"""Reads the configuration anew; raises `ConfigError` if it is invalid."""


@asynccontextmanager
async def reloading(
    gateway: Gateway, load: Load, files: Sequence[Path], verifier: "BearerTokens | None" = None
) -> AsyncIterator[None]:
    """Reload the gateway's configuration for the duration of the block."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        lock = anyio.Lock()

        async def again(why: str) -> None:
            async with lock:
                await reload_gateway(gateway, load, verifier, why=why)

        tasks.start_soon(_on_change, files, again)
        if hasattr(signal, "SIGHUP"):
            tasks.start_soon(_on_signal, again)
        try:
            yield
        except Exception as problem:  # noqa: BLE001
            # Raised again outside the task group, which would wrap it.
            failure = problem
        tasks.cancel_scope.cancel()
    if failure:
        raise failure


async def reload_gateway(
    gateway: Gateway, load: Load, verifier: "BearerTokens | None" = None, *, why: str = ""
) -> list[str] | None:
    """Read the configuration and apply it. Returns the names of the servers that changed; None if it is invalid."""
    try:
        settings, servers = await run_in_thread(load)
    except ConfigError as problem:
        logger.warning("configuration_kept", extra={"because": why, "problem": str(problem)})
        return None
    changed = await gateway.upstreams.reload(servers)
    gateway.limits.set(*limits_from(settings))
    if verifier is not None:
        from tersely.servers.gateway.web import token_digests

        # Without any token the old ones stay: an empty file must not lock everybody out or let everybody in.
        if digests := token_digests(settings):
            verifier.replace(digests)
        else:
            logger.warning("tokens_kept", extra={"problem": "the configuration names no token; restart to use none"})
    logger.info("configuration_reloaded", extra={"because": why, "changed": ", ".join(changed)})
    return changed


async def _on_signal(again: Callable[[str], Awaitable[None]]) -> None:
    with anyio.open_signal_receiver(signal.SIGHUP) as signals:
        async for _ in signals:
            await again("SIGHUP")


async def _on_change(files: Sequence[Path], again: Callable[[str], Awaitable[None]]) -> None:
    """Polled, because editors replace files and mounted configuration maps swap links; both defeat file watchers."""
    known = {file: _version(file) for file in files}
    while files:
        await anyio.sleep(LOOK_SECONDS)
        now = {file: _version(file) for file in files}
        if now == known:
            continue
        known = now
        await anyio.sleep(LOOK_SECONDS / 4)  # an editor may still be writing
        if {file: _version(file) for file in files} == now:
            await again("file")
        else:
            known = {}


def _version(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
