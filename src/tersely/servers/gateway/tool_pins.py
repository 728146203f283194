"""Tools as they were first seen, remembered between runs: a description that changes later is how a server that was
trusted once turns on its users.

One small JSON file of fingerprints, by server and tool. A server is its name and
the way to it, so two configurations that call different servers alike do not
accuse each other. No definition is in it, and no secret.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from tersely.mcp.servers import Server

logger = logging.getLogger(__name__)

SEEN_FILE = "gateway_tools.json"
"""Its name, in the data folder."""

Fingerprints = dict[str, dict[str, str]]
"""By server and tool, as `ToolRegistry.first_seen` has them."""


class ToolPins:
    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, servers: Sequence[Server]) -> Fingerprints:
        """What is known of these servers."""
        known = self._read()
        return {server.name: dict(known.get(identity(server), {})) for server in servers}

    def remember(self, servers: Sequence[Server], fingerprints: Mapping[str, Mapping[str, str]]) -> None:
        """Add what is new. What was seen before stays as it was first seen, until it is accepted."""
        self._merge(servers, fingerprints, accept=False)

    def accept(self, servers: Sequence[Server], fingerprints: Mapping[str, Mapping[str, str]]) -> None:
        """Take these tools as they are now."""
        self._merge(servers, fingerprints, accept=True)

    def _merge(self, servers: Sequence[Server], fingerprints: Mapping[str, Mapping[str, str]], *, accept: bool) -> None:
        known = self._read()
        before = json.dumps(known, sort_keys=True)
        for server in servers:
            tools = known.setdefault(identity(server), {})
            for tool, fingerprint in fingerprints.get(server.name, {}).items():
                if accept or tool not in tools:
                    tools[tool] = fingerprint
        after = json.dumps(known, sort_keys=True)
        if after != before:
            self._write(after)

    def _read(self) -> Fingerprints:
        try:
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {
            server: {tool: print_ for tool, print_ in tools.items() if isinstance(print_, str)}
            for server, tools in found.items()
            if isinstance(tools, dict)
        }

    def _write(self, text: str) -> None:
        """In one stroke, so that another process never reads half of it."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", dir=self.path.parent, prefix=".seen", delete=False, encoding="utf-8") as new:
                new.write(text)
            Path(new.name).replace(self.path)
        except OSError as problem:
            logger.warning("seen_tools_not_stored", extra={"problem": str(problem)})
            with suppress(OSError, UnboundLocalError):
                os.unlink(new.name)  # noqa: PTH108 — may not exist


def identity(server: Server) -> str:
    """A server's name, and a digest of the way to it."""
    transport = server.options.transport
    way = json.dumps([transport.kind, transport.command, *transport.args, transport.url])
    return f"{server.name} {hashlib.sha256(way.encode()).hexdigest()[:16]}"
