"""MCP servers at the beginning of a session's work: wait for those that start, and say which are missing.

The timeline says both. A session is not investigated without a server only because it
arrived while the server was starting.
"""

from collections.abc import Collection, Mapping, Sequence

import anyio

from tersely.events.recorder import SessionRecorder
from tersely.masking.mask import Masker
from tersely.mcp.registry import ToolRegistry, missing_servers, starting_servers
from tersely.pipeline.admit import admit_words

POLL_SECONDS = 0.1


async def wait_for_servers(
    registry: ToolRegistry,
    names: Sequence[str],
    recorder: SessionRecorder,
    masker: Masker,
    *,
    key: str,
    restarts: bool = False,
) -> Mapping[str, str]:
    """Wait for the first start of these servers, at most for their `start_timeout`.

    Returns those that are missing then, with the reason, if it is known.

    Args:
        key: Of the notices; the same on replay.
        restarts: Wait as long for servers that failed and are started again.
    """
    awaited = missing_servers if restarts else starting_servers
    if starting := [name for name in awaited(registry.connections, names) if name in registry.connections]:
        said = f"Waiting for {_named(starting)} to start."
        recorder.progress("gathering_info", said)
        await recorder.notice(f"{key}/starting", admit_words(said, masker))
        longest = max(registry.server(name).options.start_timeout for name in starting)
        with anyio.move_on_after(longest):
            while awaited(registry.connections, starting):  # noqa: ASYNC110 — several servers, each with its events
                await anyio.sleep(POLL_SECONDS)
    missing = missing_servers(registry.connections, names)
    if missing:
        reasons = "".join(f" {name}: {why}" for name, why in missing.items() if why)
        said = f"{without(missing)}{reasons}"
        await recorder.notice(f"{key}/missing", admit_words(said, masker), {"missing_servers": list(missing)})
    return missing


def without(missing: Collection[str]) -> str:
    """The sentence about missing servers; empty if there are none."""
    return f"Investigated without {_named(missing)}, which could not be reached." if missing else ""


def _named(servers: Collection[str]) -> str:
    return f"the MCP server{'s' if len(servers) > 1 else ''} {', '.join(servers)}"
