"""The workflow engine: DBOS, and the only module that knows it.

A session is one workflow, named by the session's id; each of its steps is stored
once, so a session that is run again goes on after its last finished step. Which
process may run it, and what happens when one dies, is decided in `sessions.worker`;
here it is only carried out.

On SQLite the engine has a file of its own beside the database, with the same
promise: WAL and `synchronous=FULL`, readable by its owner only. On PostgreSQL it
has a schema of its own in it.
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
from tersely.store.database import POSTGRESQL_PATIENCE

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUEUE = "sessions"
WORKFLOW = "session"
_AWAY = (sa.exc.DBAPIError, sa.exc.TimeoutError)
_SERIALIZATION_FAILURE = "40001"
_OPEN = ("ENQUEUED", "PENDING", "DELAYED")
VERSION = "1"
"""Of the workflows' steps, not of the package: an update that keeps the steps keeps running what was begun before it.
"""


class _OurRecords(Serializer):
    """Steps are stored as JSON of our own records."""

    def __init__(self, codec: RecordCodec) -> None:
        self._codec = codec

    def name(self) -> str:
        return "tersely_json"

    def serialize(self, data: Any) -> str:
        if isinstance(data, _AWAY):
            # The engine takes a result that it could not store for a step that failed, and would remember that.
            raise StoreUnavailable(f"A step could not be stored: {type(data).__name__}.")
        return self._codec.to_json(data)

    def deserialize(self, serialized_data: str) -> Any:
        return self._codec.from_json(serialized_data)


class Interrupted(asyncio.CancelledError):
    """Leave a workflow without an end: it stays to be gone on with, here or elsewhere. The engine stores nothing for
    it.
    """


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
        """The engine, running queued sessions through `work` for as long as the block lasts.

        Args:
            codec: How step results are stored.
            executor: The name of this process; no other may ever have had it.
            at_once: Sessions that may run at the same time, in all processes together.
            poll: Seconds between looks into the queue.
        """
        url = engine_url(database_url)
        if url.startswith("sqlite"):
            await anyio.to_thread.run_sync(_prepare_file, Path(url.split("///", 1)[1]))
        config = DBOSConfig(
            name="tersely",
            system_database_url=url,
            executor_id=executor,
            application_version=VERSION,
            serializer=_OurRecords(codec),
            log_level="WARNING",
            run_migrations=True,
            notification_listener_polling_interval_sec=1.0,
            db_engine_kwargs={"connect_args": _patience(url)},
        )
        _quiet()
        dbos = DBOS(config=config)

        async def session(session_id: str) -> None:
            await work(session_id)

        # Deaths are counted by us, who know whether a session got any further in between.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(session)
        engine = cls(dbos)
        engine._session = session
        try:
            with _answering():
                DBOS.launch()
            # It would take a loop of its own whenever ours is not running at that moment, and what sessions use belongs
            # to ours.
            here = asyncio.get_running_loop()
            dbos._background_event_loop.target_loop = lambda: here  # type: ignore[method-assign]
            sa.event.listen(dbos._sys_db.engine, "handle_error", _try_again)
            with _answering():
                await DBOS.register_queue_async(
                    QUEUE, global_concurrency=at_once, polling_interval_sec=poll, on_conflict="always_update"
                )
            yield engine
        finally:
            # Joins threads for a while; nobody may interrupt that half-way.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lambda: DBOS.destroy(destroy_registry=True))

    _session: Callable[[str], Awaitable[None]]

    async def enqueue(self, session_id: str) -> None:
        """Have a session run. Asking twice changes nothing."""
        with _answering(), SetWorkflowID(session_id):
            await DBOS.enqueue_workflow_async(QUEUE, self._session, session_id)  # type: ignore[arg-type]

    async def withdraw(self, session_id: str) -> None:
        """Take a session out of the queue that nobody has begun, or has to go on with."""
        with _answering():
            await DBOS.cancel_workflow_async(session_id)

    async def begun(self) -> dict[str, str]:
        """Sessions that some process took out of the queue and has not brought to an end, and which process that is."""
        with _answering():
            begun = await DBOS.list_workflows_async(status="PENDING", load_input=False, load_output=False, limit=10_000)
        return {one.workflow_id: one.executor_id or "" for one in begun}

    async def requeue(self, session_ids: Collection[str], *, taken_from: str) -> None:
        """Let sessions go on that a process began, on whichever process comes first. Others have those they took
        meanwhile.
        """

        def put_back() -> None:
            # The public `resume_workflows` would also take sessions away from whoever has just begun to go on with
            # them.
            for session_id in session_ids:
                self._dbos._sys_db.reenqueue_for_recovery(session_id, [taken_from], QUEUE)

        with _answering():
            await anyio.to_thread.run_sync(put_back)

    async def step(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """A step of the workflow that is running: done once, and remembered.

        Raises:
            LostSession: The workflow runs elsewhere by now, so nothing was remembered.
            StoreUnavailable: It could not be remembered.
        """

        async def piece() -> T:
            return await work()

        try:
            return await DBOS.run_step_async({"name": name}, piece)
        except (dbos_errors.DBOSWorkflowConflictIDError, dbos_errors.DBOSWorkflowCancelledError):
            raise LostSession(f"The step {name} was done, and its session belongs to another process by now.") from None
        except _AWAY as problem:
            raise StoreUnavailable(f"The step {name} could not be stored: {type(problem).__name__}.") from None

    async def states(self, session_ids: Sequence[str]) -> dict[str, Literal["open", "ended"]]:
        """What the engine knows of these sessions; those it does not know are missing."""
        if not session_ids:
            return {}
        with _answering():
            found = await DBOS.list_workflows_async(workflow_ids=list(session_ids), load_input=False, load_output=False)
        return {one.workflow_id: "open" if one.status in _OPEN else "ended" for one in found}

    async def forget(self, session_ids: Sequence[str]) -> None:
        """Delete what is stored of these sessions' steps."""
        if session_ids:
            with _answering():
                await DBOS.delete_workflows_async(list(session_ids))

    def take_no_more(self) -> None:
        """Leave what is queued to others; what runs goes on."""
        for event in self._dbos.background_thread_stop_events:
            event.set()


def engine_url(database_url: str) -> str:
    """Where the engine keeps its own tables, given where ours are."""
    if database_url.startswith("sqlite"):
        path = database_url.split("///", 1)[1]
        stem = path[: -len(".db")] if path.endswith(".db") else path
        return f"sqlite:///{stem}-workflows.db"
    parts = urlsplit(database_url)
    return urlunsplit(parts._replace(scheme="postgresql"))


def _prepare_file(path: Path) -> None:
    """The engine opens its file with SQLite's defaults: `synchronous` is FULL by default, the journal's mode stays in
    the file.
    """
    try:
        path.touch(mode=0o600)
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
    except (OSError, sqlite3.Error) as problem:
        raise StoreUnavailable(f"The workflow engine's file {str(path)!r} cannot be opened: {problem}.") from None


def _patience(url: str) -> dict[str, int]:
    """A database that vanished is noticed here as quickly as elsewhere."""
    if url.startswith("sqlite"):
        return {}
    return {name: value for name, value in POSTGRESQL_PATIENCE.items() if name not in url}


def _try_again(trouble: sa.engine.ExceptionContext) -> None:
    """The engine tries again what failed for want of a connection, or in a deadlock; two transactions in each other's
    way are no more.
    """
    if getattr(trouble.original_exception, "sqlstate", None) == _SERIALIZATION_FAILURE:
        trouble.is_disconnect = True
        trouble.invalidate_pool_on_disconnect = False


def _quiet() -> None:
    """The engine logs where everybody logs, instead of to a console of its own."""
    theirs = logging.getLogger("dbos")
    theirs.handlers = [logging.NullHandler()]
    theirs.propagate = True


@contextmanager
def _answering() -> Iterator[None]:
    """Trouble with the engine's database is trouble with the store."""
    try:
        yield
    except (*_AWAY, dbos_errors.DBOSException) as problem:
        raise StoreUnavailable(f"The workflow engine's database did not answer: {type(problem).__name__}.") from None
