"""A lock that shows that a worker lives: PostgreSQL releases it the moment the worker's connection is gone.

Each worker holds a session-level advisory lock on a connection of its own. Others see
in `pg_locks` whether it is held, so a dead process is noticed in about a second; a lost
host or a suspended process keeps its connection for a while, and is noticed by its
lease. A worker that lost its connection and lives takes the lock again, and sends
heartbeats until it has it (`sessions.worker`).

Behind a connection pooler a session-level lock says nothing about the client. Such
workers hold none, and only their lease counts. The names of workers with a lock end
with `LOCKED`, so that others know.
"""

import hashlib
import logging
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection as Transaction

from tersely.errors import StoreUnavailable
from tersely.store.database import Database
from tersely.store.notify import connect

if TYPE_CHECKING:
    from psycopg import AsyncConnection

logger = logging.getLogger(__name__)

LOCKED = "+lock"
CHECK_SECONDS = 5.0
"""How often the connection is checked; the server closing it is noticed at once."""

FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 1.0
_CLASS = 723_711_3  # An arbitrary number that only we use.


class WorkerLock:
    """Use `worker_lock`."""

    def __init__(self, executor: str) -> None:
        self.executor = executor
        self._held_since: float | None = None
        self._taken = 0

    @property
    def is_held(self) -> bool:
        return self._held_since is not None

    def is_steady(self, seconds: float) -> bool:
        """Whether the lock was never lost, or is held again for some time: then others had time to do the same."""
        return self._held_since is not None and (self._taken == 1 or anyio.current_time() - self._held_since >= seconds)

    async def _take(self, connection: "AsyncConnection[Any]") -> bool:
        row = await (
            await connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (_CLASS, key_of(self.executor)))
        ).fetchone()
        if not row or not row[0]:
            return False
        self._held_since = anyio.current_time()
        self._taken += 1
        return True

    async def _keep(self, database: Database, first: "AsyncConnection[Any]") -> None:
        """Hold the lock, reconnecting when the connection is lost. Runs until cancelled."""
        pause = FIRST_RETRY_SECONDS
        connection: AsyncConnection[Any] | None = first
        while True:
            try:
                if connection is None:
                    async with connect(database) as again:
                        if await self._take(again):
                            pause = FIRST_RETRY_SECONDS
                            await _until_lost(again)
                else:
                    await _until_lost(connection)
            except (_driver_error(), OSError) as problem:
                logger.warning("worker_lock_lost", extra={"reason": type(problem).__name__})
            finally:
                self._held_since = None
            connection = None
            await anyio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LAST_RETRY_SECONDS)


def _driver_error() -> type[Exception]:
    from psycopg import Error  # An optional dependency.

    return Error


async def _until_lost(connection: "AsyncConnection[Any]") -> None:
    while True:
        async for _ in connection.notifies(timeout=CHECK_SECONDS):
            pass  # Nothing is listened to: this returns when the server closes the connection, or after the time.
        await connection.execute("SELECT 1")


@asynccontextmanager
async def worker_lock(database: Database, name: str) -> AsyncIterator[WorkerLock | None]:
    """Hold the lock of a worker with this name inside the block; None where there can be none.

    The worker's id is the lock's `executor`.
    """
    if database.is_sqlite:
        yield None  # One process works on a file, and a lock on the file shows whether it lives.
        return
    lock = WorkerLock(f"{name.removesuffix(LOCKED)}{LOCKED}")
    async with AsyncExitStack() as stack:
        try:
            connection = await stack.enter_async_context(connect(database))
            has_lock = not await is_pooled(connection) and await lock._take(connection)
        except (_driver_error(), OSError) as problem:
            raise StoreUnavailable(f"The database did not answer: {' '.join(str(problem).split())[:300]}") from None
        if not has_lock:
            logger.info("worker_lock_not_possible", extra={"reason": "a connection pooler"})
            yield None
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lock._keep, database, connection)
            try:
                yield lock
            finally:
                tasks.cancel_scope.cancel()


async def can_lock(database: Database) -> bool:
    """Whether workers on this database can hold a lock: it is a PostgreSQL without a connection pooler before it."""
    if database.is_sqlite:
        return False
    try:
        async with connect(database) as connection:
            return not await is_pooled(connection)
    except (_driver_error(), OSError) as problem:
        raise StoreUnavailable(f"The database did not answer: {' '.join(str(problem).split())[:300]}") from None


async def is_pooled(connection: "AsyncConnection[Any]") -> bool:
    """Whether a pooler answers: it cannot tell its clients the process id of the server that they will get."""
    row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    return row is None or row[0] != connection.info.backend_pid


def key_of(executor: str) -> int:
    """The number of a worker's lock."""
    digest = hashlib.sha256(executor.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big", signed=True)


async def held_locks(db: Transaction) -> set[int]:
    """The numbers of all locks that workers on this database hold."""
    return {int(number) for number in await db.scalars(_HELD, {"the_class": _CLASS})}


# `pg_locks` shows the two numbers as unsigned.
_HELD = sa.text(
    "SELECT objid::bigint - CASE WHEN objid::bigint >= 2147483648 THEN 4294967296 ELSE 0 END FROM pg_locks "
    "WHERE locktype = 'advisory' AND classid::bigint = :the_class AND objsubid = 2 AND granted "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
