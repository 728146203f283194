"""The workflow engine, DBOS; no other module imports it.

A session is one workflow with the session's id. Each step's result is stored once, so
a session that runs again resumes after its last stored step. Which process may run it,
and what happens after a crash, is decided in `sessions.worker`.

On SQLite the engine has its own file next to the database, with the same durability:
WAL and `synchronous=FULL`, readable by its owner only. On PostgreSQL it has its own
schema in the database.
"""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread
import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, Serializer, SetWorkflowID
from dbos import error as dbos_errors

from tersely.errors import LostSession, StoreUnavailable
from tersely.sessions.codec import RecordCodec
from tersely.store.database import POSTGRESQL_TIMEOUTS

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUEUE = "sessions"
WORKFLOW = "session"
_UNAVAILABLE = (sa.exc.DBAPIError, sa.exc.TimeoutError)
_SERIALIZATION_FAILURE = "40001"
_OPEN = ("ENQUEUED", "PENDING", "DELAYED")
VERSION = "1"
"""Of the workflow's steps, not of the package: a release that keeps the steps resumes sessions of the previous one."""


class _RecordSerializer(Serializer):
    """Stores step results as JSON records."""

    def __init__(self, codec: RecordCodec) -> None:
        self._codec = codec

    def name(self) -> str:
        return "tersely_json"

    def serialize(self, data: Any) -> str:
        if isinstance(data, _UNAVAILABLE):
            # The engine reports a result that it could not store as the error of the step, and would store that error.
            raise StoreUnavailable(f"A step could not be stored: {type(data).__name__}.")
        return self._codec.to_json(data)

    def deserialize(self, serialized_data: str) -> Any:
        return self._codec.from_json(serialized_data)


class Interrupted(asyncio.CancelledError):
    """Leaves a workflow without ending it, so that any process can resume it. The engine stores nothing for it."""


class Engine:
    """Use `Engine.launched`."""

    def __init__(self, dbos: DBOS) -> None:
        self._dbos = dbos

    @classmethod
    @asynccontextmanager
    async def launched(
        cls,
        database_url: str,
        *,
        codec: RecordCodec,
        executor: str,
        at_once: int,
        poll: float,
        work: Callable[[str], Awaitable[None]],
    ) -> AsyncIterator["Engine"]:
        """Run queued sessions through `work` inside the block.

        Args:
            codec: Serializes step results.
            executor: The name of this process, never used before.
            at_once: Maximum number of concurrent sessions in all processes.
            poll: Seconds between two polls of the queue.
        """
        url = engine_url(database_url)
        if url.startswith("sqlite"):
            await anyio.to_thread.run_sync(_prepare_file, Path(url.split("///", 1)[1]))
        config = DBOSConfig(
            name="tersely",
            system_database_url=url,
            executor_id=executor,
            application_version=VERSION,
            serializer=_RecordSerializer(codec),
            log_level="WARNING",
            run_migrations=True,
            notification_listener_polling_interval_sec=1.0,
            db_engine_kwargs={"connect_args": _timeouts(url)},
        )
        _use_our_logging()
        dbos = DBOS(config=config)

        async def session(session_id: str) -> None:
            await work(session_id)

        # Crashes are counted by `sessions.worker`, which knows whether a session made progress in between.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(session)
        engine = cls(dbos)
        engine._session = session
        try:
            with _translating_errors():
                DBOS.launch()
            # The engine would run a workflow on its own loop if ours is not running at that moment, but the objects
            # that sessions use belong to ours.
            here = asyncio.get_running_loop()
            dbos._background_event_loop.target_loop = lambda: here  # type: ignore[method-assign]
            sa.event.listen(dbos._sys_db.engine, "handle_error", _mark_retryable)
            with _translating_errors():
                await DBOS.register_queue_async(
                    QUEUE, global_concurrency=at_once, polling_interval_sec=poll, on_conflict="always_update"
                )
            yield engine
        finally:
            # Joins threads; must not be interrupted.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lambda: DBOS.destroy(destroy_registry=True))

    _session: Callable[[str], Awaitable[None]]

    async def enqueue(self, session_id: str) -> None:
        """Queue a session. Repeating it changes nothing."""
        with _translating_errors(), SetWorkflowID(session_id):
            await DBOS.enqueue_workflow_async(QUEUE, self._session, session_id)  # type: ignore[arg-type]

    async def cancel(self, session_id: str) -> None:
        """Remove a session from the queue that no process runs."""
        with _translating_errors():
            await DBOS.cancel_workflow_async(session_id)

    async def started(self) -> dict[str, str]:
        """Sessions that a process has dequeued and not ended, with that process."""
        with _translating_errors():
            started = await DBOS.list_workflows_async(
                status="PENDING", load_input=False, load_output=False, limit=10_000
            )
        return {one.workflow_id: one.executor_id or "" for one in started}

    async def requeue(self, session_ids: Collection[str], *, taken_from: str) -> None:
        """Queue sessions again that this process started; those that another process has taken since are left alone."""

        def reenqueue() -> None:
            # The public `resume_workflows` would also take sessions away from a process that has just resumed them.
            for session_id in session_ids:
                self._dbos._sys_db.reenqueue_for_recovery(session_id, [taken_from], QUEUE)

        with _translating_errors():
            await anyio.to_thread.run_sync(reenqueue)

    async def step(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """Run a step of the current workflow and store its result, or return the stored result.

        Raises:
            LostSession: Another process runs the workflow, so the result was not stored.
            StoreUnavailable: The result could not be stored.
        """

        async def run() -> T:
            return await work()

        try:
            return await DBOS.run_step_async({"name": name}, run)
        except (dbos_errors.DBOSWorkflowConflictIDError, dbos_errors.DBOSWorkflowCancelledError):
            raise LostSession(f"The step {name} was not stored: its session belongs to another process.") from None
        except _UNAVAILABLE as problem:
            raise StoreUnavailable(f"The step {name} could not be stored: {type(problem).__name__}.") from None

    async def states(self, session_ids: Sequence[str]) -> dict[str, Literal["open", "ended"]]:
        """The engine's state of these sessions; unknown ones are missing."""
        if not session_ids:
            return {}
        with _translating_errors():
            found = await DBOS.list_workflows_async(workflow_ids=list(session_ids), load_input=False, load_output=False)
        return {one.workflow_id: "open" if one.status in _OPEN else "ended" for one in found}

    async def delete(self, session_ids: Sequence[str]) -> None:
        """Delete the stored steps of these sessions."""
        if session_ids:
            with _translating_errors():
                await DBOS.delete_workflows_async(list(session_ids))

    def stop_dequeuing(self) -> None:
        """Start no more sessions; running ones continue."""
        for event in self._dbos.background_thread_stop_events:
            event.set()


def engine_url(database_url: str) -> str:
    """The URL of the engine's tables, given that of ours."""
    if database_url.startswith("sqlite"):
        path = database_url.split("///", 1)[1]
        stem = path[: -len(".db")] if path.endswith(".db") else path
        return f"sqlite:///{stem}-workflows.db"
    parts = urlsplit(database_url)
    return urlunsplit(parts._replace(scheme="postgresql"))


def _prepare_file(path: Path) -> None:
    """Create the engine's file in WAL mode, which is stored in the file; `synchronous` is FULL by default."""
    try:
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    except (OSError, sqlite3.Error) as problem:
        raise StoreUnavailable(f"The workflow engine's file {str(path)!r} cannot be opened: {problem}.") from None


def _timeouts(url: str) -> dict[str, int]:
    """The same connection timeouts as for our tables."""
    if url.startswith("sqlite"):
        return {}
    return {name: value for name, value in POSTGRESQL_TIMEOUTS.items() if name not in url}


def _mark_retryable(context: sa.engine.ExceptionContext) -> None:
    """Make the engine retry serialization failures, as it does lost connections and deadlocks."""
    if getattr(context.original_exception, "sqlstate", None) == _SERIALIZATION_FAILURE:
        context.is_disconnect = True
        context.invalidate_pool_on_disconnect = False


def _use_our_logging() -> None:
    """Send the engine's log to the root logger instead of its own console handler."""
    dbos_logger = logging.getLogger("dbos")
    dbos_logger.handlers = [logging.NullHandler()]
    dbos_logger.propagate = True


@contextmanager
def _translating_errors() -> Iterator[None]:
    """Raise errors of the engine's database as `StoreUnavailable`."""
    try:
        yield
    except (*_UNAVAILABLE, dbos_errors.DBOSException) as problem:
        raise StoreUnavailable(f"The workflow engine's database did not answer: {type(problem).__name__}.") from None
