"""Short messages between processes that share one PostgreSQL: LISTEN and NOTIFY on dedicated connections.

Fast but not reliable: messages sent while a connection is down are lost without notice.
A receiver that needs all of them also reads the tables.
"""

import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from tersely.store.database import POSTGRESQL_TIMEOUTS, Database

if TYPE_CHECKING:
    from psycopg import AsyncConnection

logger = logging.getLogger(__name__)

MAX_BYTES = 7_500
"""Of a message. PostgreSQL accepts less than 8,000."""

WAITING = 2_000
"""Messages that wait to be sent; if there are more, the oldest are dropped."""

AT_ONCE = 100
CHECK_SECONDS = 10.0
"""How often a connection without messages is checked."""

FIRST_RETRY_SECONDS = 0.2
LAST_RETRY_SECONDS = 5.0
_CHANNEL = "tersely_events"


class Notices:
    """`send` never blocks; `deliver` and `listen` run until cancelled and reconnect when the connection is lost."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: deque[str] = deque(maxlen=WAITING)
        self._has_messages = anyio.Event()

    def send(self, text: str) -> None:
        """Queue a message of at most `MAX_BYTES` for every listener, including this process."""
        self._waiting.append(text)
        self._has_messages.set()

    async def deliver(self) -> None:
        """Send queued messages, in batches."""
        unsent: list[str] = []

        async def work(connection: "AsyncConnection[Any]") -> None:
            while True:
                while not unsent and not self._waiting:
                    self._has_messages = anyio.Event()
                    await self._has_messages.wait()
                while self._waiting and len(unsent) < AT_ONCE:
                    unsent.append(self._waiting.popleft())
                await connection.execute(
                    "SELECT pg_notify(%s, message) FROM unnest(%s::text[]) AS message", (_CHANNEL, unsent)
                )
                unsent.clear()

        await self._with_reconnects(work)

    async def listen(self, on_text: Callable[[str], None]) -> None:
        """Call `on_text` for every message."""

        async def work(connection: "AsyncConnection[Any]") -> None:
            await connection.execute(f"LISTEN {_CHANNEL}")
            while True:
                async for notice in connection.notifies(timeout=CHECK_SECONDS):
                    on_text(notice.payload)
                # A lost connection looks like one without messages; a query tells them apart.
                await connection.execute("SELECT 1")

        await self._with_reconnects(work)

    async def _with_reconnects(self, work: "Callable[[AsyncConnection[Any]], Any]") -> None:
        from psycopg import Error  # An optional dependency.

        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                async with connect(self._database) as connection:
                    pause = FIRST_RETRY_SECONDS
                    await work(connection)
            except (Error, OSError) as problem:
                logger.warning("notices_lost", extra={"reason": type(problem).__name__})
            await anyio.sleep(
                pause * random.uniform(0.5, 1.0)
            )  # Jitter, so that replicas do not reconnect at the same time.
            pause = min(pause * 2, LAST_RETRY_SECONDS)


@asynccontextmanager
async def connect(database: Database) -> AsyncIterator["AsyncConnection[Any]"]:
    """A PostgreSQL connection of one's own, outside of the pool."""
    from psycopg import AsyncConnection

    address = database.address
    timeouts: dict[str, Any] = {name: value for name, value in POSTGRESQL_TIMEOUTS.items() if name not in address}
    # Shielded: cancelled while connecting, the driver would leave an open connection behind.
    with anyio.CancelScope(shield=True):
        connection = await AsyncConnection.connect(address, autocommit=True, **timeouts)
    try:
        yield connection
    finally:
        with anyio.CancelScope(shield=True):
            await connection.close()
