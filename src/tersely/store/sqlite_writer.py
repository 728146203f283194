"""Group commit for SQLite: one writing connection per process, several transactions per commit.

A commit waits for the disk, and a thread switch costs as much as several small
statements. So statements run on the event loop, in microseconds each; only what blocks
runs in a thread: committing, and waiting for the file's write lock while another process
has it. Transactions that arrive meanwhile join the next commit. Each is a savepoint, so
that a failing one undoes only itself, and none returns before it is committed.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")


class _Batch:
    """Transactions that share a commit."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.over = anyio.Event()
        self.failure: BaseException | None = None


class Direct:
    """The part of `AsyncConnection` that store functions use, executed without a thread switch."""

    def __init__(self, connection: sa.Connection, in_thread: bool) -> None:
        self._connection = connection
        self._in_thread = in_thread

    @property
    def dialect(self) -> sa.Dialect:
        return self._connection.dialect

    async def execute(
        self, statement: Any, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> Any:
        return await self._do(lambda: self._connection.execute(statement, parameters))

    async def scalar(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        return await self._do(lambda: self._connection.scalar(statement, parameters))

    async def scalars(self, statement: Any, parameters: Mapping[str, Any] | None = None) -> Any:
        return await self._do(lambda: self._connection.scalars(statement, parameters))

    async def run_sync(self, work: Callable[..., T], *given: Any) -> T:
        return await self._do(lambda: work(self._connection, *given))

    async def _do(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work) if self._in_thread else work()


class Writer:
    def __init__(self, engine: sa.Engine, timeout: float) -> None:
        """
        Args:
            timeout: Seconds to wait for another process that is writing.
        """
        self._engine = engine
        self._timeout = timeout
        self._turn = anyio.Lock(fast_acquire=True)
        self._batch: _Batch | None = None

    @asynccontextmanager
    async def transaction(self, *, heavy: bool) -> AsyncIterator[AsyncConnection]:
        """See `Database.transaction`.

        Args:
            heavy: Run the statements in a thread, because they take long.
        """
        await self._turn.acquire()
        # Shielded: a batch that has begun must be committed or rolled back.
        with anyio.CancelScope(shield=True):
            leads = self._batch is None
            try:
                if leads:
                    self._batch = self._begin_without_waiting() or await anyio.to_thread.run_sync(
                        self._begin, self._timeout
                    )
                batch = self._batch
                assert batch is not None
            except BaseException:
                self._turn.release()
                raise
            try:
                savepoint = batch.connection.begin_nested()
                try:
                    yield cast(AsyncConnection, Direct(batch.connection, heavy))
                except BaseException:
                    self._undo(batch, savepoint)
                    raise
                savepoint.commit()
            finally:
                self._turn.release()
                if leads:
                    # After the transactions that already wait: they join this commit.
                    await self._turn.acquire()
                    try:
                        await anyio.to_thread.run_sync(self._end, batch)
                    finally:
                        self._batch = None
                        batch.over.set()
                        self._turn.release()
            await batch.over.wait()
            if batch.failure is not None:
                raise batch.failure

    def _begin_without_waiting(self) -> _Batch | None:
        """A batch, or None if another process is writing."""
        try:
            return self._begin(seconds=0)
        except sa.exc.OperationalError:
            return None

    def _begin(self, seconds: float) -> _Batch:
        connection = self._engine.connect()
        try:
            # On the driver's connection: the engine would begin a transaction first.
            cast(Any, connection.connection.driver_connection).execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
            connection.begin()
        except BaseException:
            connection.close()
            raise
        return _Batch(connection)

    def _undo(self, batch: _Batch, savepoint: sa.NestedTransaction) -> None:
        try:
            savepoint.rollback()
        except sa.exc.SQLAlchemyError as problem:
            # A full disk rolls back the whole batch.
            batch.failure = problem

    def _end(self, batch: _Batch) -> None:
        try:
            if batch.failure is None:
                batch.connection.commit()
        except BaseException as problem:  # noqa: BLE001 — raised in every transaction of the batch
            batch.failure = problem
        finally:
            if batch.failure is not None:
                batch.connection.invalidate()
            batch.connection.close()

    def close(self) -> None:
        self._engine.dispose()
