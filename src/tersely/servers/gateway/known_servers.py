"""How each server described itself last, remembered between runs, so that a client need not wait for it to start.

One small file per server and protocol era in a private folder, with the tools and
the introduction, masked. A file is found by the server's whole configuration: a
server that is configured otherwise is another server.
"""

import hashlib
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic import SecretStr

from tersely.errors import MaskingFailed
from tersely.mcp.connect.supervisor import LastKnown
from tersely.mcp.descriptions import without_secrets
from tersely.mcp.raw import Tool, read_tool
from tersely.mcp.servers import Server
from tersely.pipeline.admit import admit_value
from tersely.servers.gateway.policies import Policies
from tersely.store.private import private_folder

logger = logging.getLogger(__name__)

KNOWN_FOLDER = "gateway_servers"
"""Folder name in the data folder."""

_MOST_FILES = 200
"""The oldest files over this number are deleted."""

_LARGEST_FILE = 8 * 2**20


class KnownServers:
    def __init__(self, folder: Path, policies: Policies) -> None:
        self.folder = folder
        self._policies = policies

    def load(self, server: Server, *, is_modern: bool, declared: Mapping[str, Any] | None = None) -> LastKnown | None:
        """How this server described itself last to clients with these capabilities; None if it is not known."""
        try:
            path = self._path(server, is_modern, declared)
            if path.stat().st_size > _LARGEST_FILE:
                return None
            found = json.loads(path.read_text(encoding="utf-8"))
            tools = tuple(
                replace(read_tool(server.name, entry["definition"]), fingerprint=str(entry["fingerprint"]))
                for entry in found["tools"]
            )
            return LastKnown(introduction=dict(found["introduction"]), tools=tools)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(
        self,
        server: Server,
        introduction: Mapping[str, Any],
        tools: tuple[Tool, ...],
        *,
        is_modern: bool,
        declared: Mapping[str, Any] | None = None,
    ) -> None:
        """Remember a server; its file is written only if something changed."""
        try:
            masker = self._policies.of(server).masker
            known = {
                "introduction": {
                    **{name: value for name, value in introduction.items() if name != "instructions"},
                    "instructions": admit_value(introduction.get("instructions") or "", masker),
                },
                "tools": [
                    {
                        "definition": without_secrets(dict(tool.raw), server.options.policy(tool.name)[1]),
                        # Of the definition as received, so that masking it does not look like a change.
                        "fingerprint": tool.fingerprint,
                    }
                    for tool in tools
                ],
            }
        except MaskingFailed:
            return
        text = json.dumps(known, ensure_ascii=True)
        path = self._path(server, is_modern, declared)
        with suppress(OSError, ValueError):
            if path.read_text(encoding="utf-8") == text:
                path.touch()
                return
        self._write(path, text)

    def _write(self, path: Path, text: str) -> None:
        """Write atomically, so that no other process reads a partial file."""
        try:
            private_folder(self.folder)
            with NamedTemporaryFile("w", dir=self.folder, prefix=".new", delete=False, encoding="utf-8") as new:
                new.write(text)
            Path(new.name).replace(path)
            by_age = sorted(self.folder.glob("*.json"), key=lambda one: one.stat().st_mtime, reverse=True)
            for old in by_age[_MOST_FILES:]:
                old.unlink(missing_ok=True)
        except OSError as problem:
            logger.warning("known_server_not_stored", extra={"problem": str(problem)})
            with suppress(OSError, UnboundLocalError):
                os.unlink(new.name)  # noqa: PTH108 — may not exist

    def _path(self, server: Server, is_modern: bool, declared: Mapping[str, Any] | None) -> Path:
        configured = [server.name, server.options.transport.model_dump(), is_modern, declared]
        text = json.dumps(configured, sort_keys=True, default=_in_clear)
        # With the key, so that the name of a file does not confirm a guessed secret.
        digest = hashlib.blake2b(text.encode(), key=self._policies.key or b"", digest_size=16)
        return self.folder / f"{digest.hexdigest()}.json"


def _in_clear(value: Any) -> str:
    return str(value.get_secret_value() if isinstance(value, SecretStr) else value)
