"""Fingerprints of tools as they were first seen, remembered between runs.

They reveal a server that changes the description of a tool after it was trusted.
Stored in one small JSON file by server and tool, without definitions or secrets.
A server is identified by its name and its command or URL, so that two
configurations can use one name for different servers.
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
from tersely.store.private import private_folder

logger = logging.getLogger(__name__)

SEEN_FILE = "gateway_tools.json"
"""File name in the data folder."""

Fingerprints = dict[str, dict[str, str]]
"""By server and tool, like `ToolRegistry.first_seen`."""


class ToolPins:
    def __init__(self, path: Path) -> None:
        self.path = path

    def of(self, servers: Sequence[Server]) -> Fingerprints:
        """The stored fingerprints of these servers."""
        known = self._read()
        return {server.name: dict(known.get(identity(server), {})) for server in servers}

    def remember(self, servers: Sequence[Server], fingerprints: Mapping[str, Mapping[str, str]]) -> None:
        """Add new tools. The fingerprint of a known tool changes only through `accept`."""
        self._merge(servers, fingerprints, accept=False)

    def accept(self, servers: Sequence[Server], fingerprints: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the fingerprints by the tools' current ones."""
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
            server: {tool: fingerprint for tool, fingerprint in tools.items() if isinstance(fingerprint, str)}
            for server, tools in found.items()
            if isinstance(tools, dict)
        }

    def _write(self, text: str) -> None:
        """Write atomically, so that no other process reads a partial file."""
        try:
            private_folder(self.path.parent)
            with NamedTemporaryFile("w", dir=self.path.parent, prefix=".seen", delete=False, encoding="utf-8") as new:
                new.write(text)
            Path(new.name).replace(self.path)
        except OSError as problem:
            logger.warning("seen_tools_not_stored", extra={"problem": str(problem)})
            with suppress(OSError, UnboundLocalError):
                os.unlink(new.name)  # noqa: PTH108 — may not exist


def identity(server: Server) -> str:
    """A server's name and a digest of its command or URL."""
    transport = server.options.transport
    target = json.dumps([transport.kind, transport.command, *transport.args, transport.url])
    return f"{server.name} {hashlib.sha256(target.encode()).hexdigest()[:16]}"
