"""A client of the older protocol on the pipes of `tersely gateway`. It declares what a test wants."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.fakes.gateways import ROOT


@dataclass
class RawStdio:
    process: anyio.abc.Process
    incoming: BufferedByteReceiveStream
    introduction: dict[str, Any] = field(default_factory=dict)
    last_id: int = 0

    @classmethod
    @asynccontextmanager
    async def started(cls, *arguments: str, capabilities: Mapping[str, Any]) -> AsyncIterator["RawStdio"]:
        command = [sys.executable, "-m", "tersely", "gateway", *arguments]
        async with await anyio.open_process(command, env=dict(os.environ), cwd=ROOT, stderr=None) as process:
            assert process.stdout is not None and process.stdin is not None
            client = cls(process, BufferedByteReceiveStream(process.stdout))
            about = {"clientInfo": {"name": "raw", "version": "1"}, "capabilities": dict(capabilities)}
            client.introduction = await client.ask("initialize", protocolVersion="2025-11-25", **about)
            await client.write({"method": "notifications/initialized"})
            try:
                yield client
            finally:
                await process.stdin.aclose()

    async def write(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.last_id += 1
        await self.write({"id": self.last_id, "method": method, "params": params})
        with anyio.fail_after(300):
            while True:
                message = json.loads(await self.incoming.receive_until(b"\n", 2**24))
                if message.get("id") == self.last_id and "method" not in message:
                    return message.get("result") or message["error"]  # type: ignore[no-any-return]

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.ask("tools/call", name=name, arguments=arguments)
