"""One bus per process, and the wire between them.

What is told in one process is heard in all that share the database: by NOTIFY
within milliseconds; where that was lost, by a look at the database every second.
Stored events too large for a notice are only announced; who watches reads them
from the store. Chunks that were lost are lost: the completed event has it all.
"""

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from tersely.events import types
from tersely.events.bus import Bus
from tersely.store.database import Database
from tersely.store.events import Logged, dumped
from tersely.store.notify import MAX_BYTES, Notices

_PIECE_CHARACTERS = 1_200
"""Of a chunk in one notice: few enough for `MAX_BYTES` when each is written as six."""


@asynccontextmanager
async def open_bus(database: Database) -> AsyncIterator[Bus]:
    """This process's bus, connected with those of the others."""
    bus = Bus(database)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.keep_looking)
        if not database.is_sqlite:
            notices = Notices(database)
            wire = _Wire(notices, bus)
            bus.relay = wire
            tasks.start_soon(notices.deliver)
            tasks.start_soon(notices.listen, wire.hear)
        try:
            yield bus
        finally:
            tasks.cancel_scope.cancel()


class _Wire:
    """Puts what is told into notices, and notices of others into the bus."""

    def __init__(self, notices: Notices, bus: Bus) -> None:
        self._notices = notices
        self._bus = bus
        self._origin = uuid.uuid4().hex[:12]

    def stored(self, logged: Logged) -> None:
        if not self._send("stored", logged.channel, logged.seq, logged.payload, None):
            self._send("stored", logged.channel, logged.seq, None, types.ends(logged.payload))

    def chunk(self, session_id: str, event_id: str, offset: int, delta: str, attempt: int) -> None:
        for start in range(0, max(len(delta), 1), _PIECE_CHARACTERS):
            self._send("chunk", session_id, event_id, offset + start, delta[start : start + _PIECE_CHARACTERS], attempt)

    def progress(self, channel: str, key: str, payload: str) -> None:
        self._send("progress", channel, key, payload)

    def hear(self, text: str) -> None:
        try:
            origin, kind, *values = json.loads(text)
        except (ValueError, TypeError):
            return  # Anybody with access to the database may say anything on this channel.
        if origin == self._origin:
            return
        if kind == "stored":
            channel, seq, payload, ended = values
            self._bus.hear_stored(channel, seq, payload, ended=ended)
        elif kind == "chunk":
            self._bus.hear_chunk(*values)
        elif kind == "progress":
            self._bus.hear_progress(*values)

    def _send(self, kind: str, *values: str | int | None) -> bool:
        text = dumped([self._origin, kind, *values])
        if len(text.encode()) > MAX_BYTES:
            return False
        self._notices.send(text)
        return True
