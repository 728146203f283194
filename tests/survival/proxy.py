"""Between the replicas and PostgreSQL: passes everything on, or holds it, or cuts it off, as told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit


class Proxy:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._name = parts.path.lstrip("/")
        self._passing = asyncio.Event()
        self._passing.set()
        self._connections: set[asyncio.StreamWriter] = set()
        self.is_away = False
        """Whether connections are ended as soon as they are made."""

        self.refused = 0
        self.url = ""

    def hold(self) -> None:
        """Drop everything without closing connections."""
        self._passing.clear()

    def go_on(self) -> None:
        self._passing.set()

    def cut(self) -> int:
        """End all connections; how many there were."""
        for writer in self._connections:
            writer.transport.abort()
        return len(self._connections)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Proxy"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}/{self._name}"
        try:
            yield self
        finally:
            server.close()
            self.go_on()
            while self.cut():
                await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_away:
            self.refused += 1
            writer.close()
            return
        self._connections.add(writer)
        try:
            there, back = await asyncio.open_unix_connection(self._socket)
            await asyncio.gather(self._pass_on(reader, back), self._pass_on(there, writer))
        except OSError:
            pass  # One of the two is gone; so is the other, then.
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await self._passing.wait()
                target.write(data)
                await target.drain()
        target.close()
