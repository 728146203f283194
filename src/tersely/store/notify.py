"""Short texts between the processes that share one PostgreSQL: LISTEN and NOTIFY, on connections of their own.

Quick, and no more than that: what is sent while a connection is down is lost, and
nobody is told. Whoever needs all of it looks into the tables as well.
"""

import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from tersely.store.database import POSTGRESQL_PATIENCE, Database

if TYPE_CHECKING:
    from psycopg import AsyncConnection

logger = logging.getLogger(__name__)

MAX_BYTES = 7_500
"""Of a text. PostgreSQL takes less than 8,000."""

WAITING = 2_000
"""Texts that wait to be sent; when there are more, the oldest are lost."""

AT_ONCE = 100
CHECK_SECONDS = 10.0
"""A connection on which nothing comes is tried out this often."""

FIRST_RETRY_SECONDS = 0.2
LAST_RETRY_SECONDS = 5.0
_CHANNEL = "tersely_events"


class Notices:
    """`send` never waits; `deliver` and `listen` run for as long as they are not cancelled, whatever the database
    does.
    """

    def __init__(self, database: Database) -> None:
        self._address = database.address
        self._patience: dict[str, Any] = {
            name: value for name, value in POSTGRESQL_PATIENCE.items() if name not in self._address
        }
        self._waiting: deque[str] = deque(maxlen=WAITING)
        self._something = anyio.Event()

    def send(self, text: str) -> None:
        """Send a text of at most `MAX_BYTES` to everybody who listens, ourselves included."""
        self._waiting.append(text)
        self._something.set()

    async def deliver(self) -> None:
        """Send what there is to send. What waits while one statement is on its way goes with the next."""
        unsent: list[str] = []

        async def work(connection: "AsyncConnection[Any]") -> None:
            while True:
                while not unsent and not self._waiting:
                    self._something = anyio.Event()
                    await self._something.wait()
                while self._waiting and len(unsent) < AT_ONCE:
                    unsent.append(self._waiting.popleft())
                await connection.execute(
                    "SELECT pg_notify(%s, told) FROM unnest(%s::text[]) AS told", (_CHANNEL, unsent)
                )
                unsent.clear()

        await self._again_and_again(work)

    async def listen(self, on_text: Callable[[str], None]) -> None:
        """Hear what is sent."""

        async def work(connection: "AsyncConnection[Any]") -> None:
            await connection.execute(f"LISTEN {_CHANNEL}")
            while True:
                async for notice in connection.notifies(timeout=CHECK_SECONDS):
                    on_text(notice.payload)
                # A peer that vanished says nothing, and neither does one that has nothing to say.
                await connection.execute("SELECT 1")

        await self._again_and_again(work)

    async def _again_and_again(self, work: "Callable[[AsyncConnection[Any]], Any]") -> None:
        from psycopg import Error  # PostgreSQL's driver is installed where it is used.

        pause = FIRST_RETRY_SECONDS
        while True:
            try:
                async with self._connected() as connection:
                    pause = FIRST_RETRY_SECONDS
                    await work(connection)
            except (Error, OSError) as problem:
                logger.warning("The connection for notices was lost", extra={"reason": type(problem).__name__})
            await anyio.sleep(pause * random.uniform(0.5, 1.0))  # Not all replicas at once.
            pause = min(pause * 2, LAST_RETRY_SECONDS)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["AsyncConnection[Any]"]:
        from psycopg import AsyncConnection

        with anyio.CancelScope(
            shield=True
        ):  # Interrupted half-way the driver would leave a connection that nobody closes.
            connection = await AsyncConnection.connect(self._address, autocommit=True, **self._patience)
        try:
            yield connection
        finally:
            with anyio.CancelScope(shield=True):
                await connection.close()
