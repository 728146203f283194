"""All of a process's writing to SQLite: one connection, several transactions to a commit.

A commit waits for the disk, and a hop to a thread and back costs as much as several
small statements. So statements run where they are, which takes some microseconds
each; only what waits is done in a thread: committing, and taking the file's write
lock where another process has it. Whoever comes while that happens joins the next commit. Each
transaction is a savepoint, so that one that fails takes nothing of the others with
it, and nobody is told that something is stored before it is.
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
    """Transactions that are committed together."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self.over = anyio.Event()
        self.failure: BaseException | None = None


class Direct:
    """What store functions use of an `AsyncConnection`, answered at once."""

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
    def __init__(self, engine: sa.Engine, patience: float) -> None:
        """
        Args:
            patience: Seconds that it waits for another process which is writing.
        """
        self._engine = engine
        self._patience = patience
        self._turn = anyio.Lock(fast_acquire=True)
        self._batch: _Batch | None = None

    @asynccontextmanager
    async def transaction(self, *, heavy: bool) -> AsyncIterator[AsyncConnection]:
        """See `Database.transaction`.

        Args:
            heavy: Statements that take long (much data, many rows) go to a thread.
        """
        await self._turn.acquire()
        # From here on nobody cancels: a batch that is begun is ended.
        with anyio.CancelScope(shield=True):
            leads = self._batch is None
            try:
                if leads:
                    self._batch = self._begun_at_once() or await anyio.to_thread.run_sync(self._begin, self._patience)
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
                    # Behind those who wait already, whose transactions go with this commit.
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

    def _begun_at_once(self) -> _Batch | None:
        """A batch, unless another process is writing."""
        try:
            return self._begin(seconds=0)
        except sa.exc.OperationalError:
            return None

    def _begin(self, seconds: float) -> _Batch:
        connection = self._engine.connect()
        try:
            # As the driver's own, because the engine would begin before it.
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
            # A full disk undoes the whole transaction, whosever statement it was.
            batch.failure = problem

    def _end(self, batch: _Batch) -> None:
        try:
            if batch.failure is None:
                batch.connection.commit()
        except BaseException as problem:  # noqa: BLE001 — told to everybody whose transaction it was
            batch.failure = problem
        finally:
            if batch.failure is not None:
                batch.connection.invalidate()
            batch.connection.close()

    def close(self) -> None:
        self._engine.dispose()
