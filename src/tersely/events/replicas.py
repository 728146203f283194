"""One bus per process, connected to the buses of the processes that share the database.

Events travel by NOTIFY within milliseconds; a poll of the database each second finds
stored events whose notification was lost. Stored events too large for a notification
are only announced, and subscriptions read them from the store. Lost chunks are not
repeated: the completed event has the whole content.
"""

import json
import logging
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from tersely.events.bus import Bus
from tersely.events.types import effect_of
from tersely.store.database import Database
from tersely.store.events import Logged, dumped
from tersely.store.notify import MAX_BYTES, Notices

logger = logging.getLogger(__name__)

_CHUNK_CHARACTERS = 1_200
"""Of a chunk in one notification: fits `MAX_BYTES` even if each character is escaped to six bytes."""


@asynccontextmanager
async def open_bus(database: Database) -> AsyncIterator[Bus]:
    """This process's bus, connected to the others."""
    bus = Bus(database)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.poll_forever)
        if not database.is_sqlite:
            notices = Notices(database)
            relay = _NotifyRelay(notices, bus)
            bus.relay = relay
            tasks.start_soon(notices.deliver)
            tasks.start_soon(notices.listen, relay.receive)
        try:
            yield bus
        finally:
            tasks.cancel_scope.cancel()


class _NotifyRelay:
    """Sends what is published as notifications, and puts those of other processes on the bus."""

    def __init__(self, notices: Notices, bus: Bus) -> None:
        self._notices = notices
        self._bus = bus
        self._origin = uuid.uuid4().hex[:12]

    def stored(self, logged: Logged) -> None:
        if not self._send("stored", logged.channel, logged.seq, logged.payload, None):
            self._send("stored", logged.channel, logged.seq, None, effect_of(logged.payload).closed)

    def chunk(self, session_id: str, event_id: str, offset: int, delta: str, attempt: int) -> None:
        for start in range(0, max(len(delta), 1), _CHUNK_CHARACTERS):
            self._send("chunk", session_id, event_id, offset + start, delta[start : start + _CHUNK_CHARACTERS], attempt)

    def progress(self, channel: str, key: str, payload: str) -> None:
        self._send("progress", channel, key, payload)

    def receive(self, text: str) -> None:
        try:
            origin, kind, *values = json.loads(text)
            if origin != self._origin:
                self._dispatch(kind, values)
        except (ValueError, TypeError, LookupError):
            # Any client of the database can send anything on this channel.
            logger.warning("notification_malformed", extra={"size": len(text)})

    def _dispatch(self, kind: Any, values: list[Any]) -> None:
        if kind == "stored":
            channel, seq, payload, closed = values
            self._bus.receive_stored(channel, seq, payload, closed=closed)
        elif kind == "chunk":
            self._bus.receive_chunk(*values)
        elif kind == "progress":
            self._bus.receive_progress(*values)

    def _send(self, kind: str, *values: str | int | None) -> bool:
        text = dumped([self._origin, kind, *values])
        if len(text.encode()) > MAX_BYTES:
            return False
        self._notices.send(text)
        return True
