"""The workflow engine, DBOS; no other module imports it.

A session is one workflow with the session's id. Each step's result is stored once, so
a session that runs again resumes after its last stored step. A result that cannot be
stored is held and stored later; its work is not repeated. Which process may run a
session, and what happens after a crash, is decided in `sessions.worker`.

The engine hands workflows only to processes of the version that queued them. Any
release resumes the sessions of any other: steps that it cannot read raise
`IncompatibleStep`, and `rewind` removes them. So queued sessions of other versions are
adopted.

On SQLite the engine has its own file next to the database, with the same durability:
WAL and `synchronous=FULL`, readable by its owner only. On PostgreSQL it has its own
schema in the database.
"""

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread
import sqlalchemy as sa
from dbos import DBOS, DBOSConfig, Serializer, SetWorkflowID
from dbos import error as dbos_errors
from dbos._context import DBOSContext, get_local_dbos_context
from dbos._core import run_step_async
from dbos._schemas.system_database import SystemSchema

from tersely.errors import InputError, LostSession, StoreUnavailable
from tersely.sessions.codec import RecordCodec, UnreadableRecord
from tersely.store.database import POSTGRESQL_TIMEOUTS
from tersely.store.health import DatabaseHealth, reason_of
from tersely.store.retrying import FIRST_PAUSE, LAST_PAUSE
from tersely.store.sqlite_files import check_file, damage, engine_file, file_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

QUEUE = "sessions"
SUSPECTS = "suspects"
"""The queue of sessions that run in a child process, one at a time: they may have crashed their workers."""

WORKFLOW = "session"
_UNAVAILABLE = (sa.exc.DBAPIError, sa.exc.TimeoutError)
_SERIALIZATION_FAILURE = "40001"
_OPEN = ("ENQUEUED", "PENDING", "DELAYED")
_IS_QUEUED_SUSPECT = (SystemSchema.workflow_status.c.queue_name == SUSPECTS) & (
    SystemSchema.workflow_status.c.status == "ENQUEUED"
)
VERSION = "1"
"""The engine's application version. It separates nothing: sessions that other versions queued are adopted."""


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


class IncompatibleStep(Exception):
    """The stored steps of a session do not fit this release from `position` on."""

    def __init__(self, name: str, position: int) -> None:
        super().__init__(f"The stored step {position} is not {name} as this release knows it.")
        self.name = name
        self.position = position


BRANCH = 2**20
"""Step numbers of a branch: branch n has those from n × BRANCH on, the session itself is branch 0."""

MOST_BRANCHES = 2_000
FORK = "/fork"
"""How the name of a step ends that stores the numbers of new branches."""


@dataclass
class Branch:
    """Concurrent work of a session with step numbers of its own: its steps are found again in whatever order the steps
    of other branches begin.
    """

    number: int
    taken: int = 0

    def next_position(self) -> int:
        self.taken += 1
        return self.number * BRANCH + self.taken


def dependent_steps(position: int, forks: Mapping[int, Sequence[int]]) -> list[tuple[int, int]]:
    """Ranges (first, last) of the steps that came after a step, in its branch, in the branches forked since, and in the
    branches that wait for its own.

    Args:
        forks: For the position of each fork, the numbers of its branches.
    """
    ranges: list[tuple[int, int]] = []

    def add(first: int) -> None:
        branch = first // BRANCH
        last = (branch + 1) * BRANCH - 1
        ranges.append((first, last))
        for fork, numbers in forks.items():
            if first <= fork <= last:
                for number in numbers:
                    add(number * BRANCH)

    while True:
        add(position)
        branch = position // BRANCH
        parent = next((fork for fork, numbers in forks.items() if branch in numbers), None)
        if parent is None:
            return ranges
        position = parent + 1


class Interrupted(asyncio.CancelledError):
    """Leaves a workflow without ending it, so that any process can resume it. The engine stores nothing for it."""


class Engine:
    """Use `Engine.launched`."""

    def __init__(self, dbos: DBOS) -> None:
        self._dbos = dbos
        self._branches: dict[str, int] = {}
        """By running session, the last branch that was numbered here."""

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
        health: DatabaseHealth,
        suspects: bool = False,
    ) -> AsyncIterator["Engine"]:
        """Run queued sessions through `work` inside the block.

        Args:
            codec: Serializes step results.
            executor: The name of this process, never used before.
            at_once: Maximum number of concurrent sessions in all processes.
            poll: Seconds between two polls of the queue.
            health: Told of damage to the engine's file; while it knows a problem, the engine raises connection errors.
            suspects: Run the suspects, one at a time, and no other sessions.
        """
        url = engine_url(database_url)
        file = file_of(url)
        if file:
            await anyio.to_thread.run_sync(_prepare_file, file)
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
            try:
                await work(session_id)
            finally:
                engine._branches.pop(session_id, None)

        # Crashes are counted by `sessions.worker`, which knows whether a session made progress in between.
        DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(session)
        engine = cls(dbos)
        engine._session = session
        queue = SUSPECTS if suspects else QUEUE
        DBOS.listen_queues([queue])
        try:
            with _translating_errors(file):
                DBOS.launch()
            # The engine would run a workflow on its own loop if ours is not running at that moment, but the objects
            # that sessions use belong to ours.
            here = asyncio.get_running_loop()
            dbos._background_event_loop.target_loop = lambda: here  # type: ignore[method-assign]
            sa.event.listen(dbos._sys_db.engine, "handle_error", _mark_retryable)
            if file:
                sa.event.listen(dbos._sys_db.engine, "handle_error", partial(_report_damage, file, health))
            else:
                sa.event.listen(dbos._sys_db.engine, "do_connect", partial(_refuse_if_away, health))
            dbos._sys_db._retry_connection_errors = _UnlessAway(health)  # type: ignore[assignment]
            with _translating_errors(file):
                await DBOS.register_queue_async(
                    queue,
                    global_concurrency=at_once,
                    worker_concurrency=1 if suspects else None,
                    polling_interval_sec=poll,
                    on_conflict="always_update",
                )
            await engine.adopt()
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

    async def has_started(self, session_id: str, executor: str) -> bool:
        """Whether the session was dequeued last by this process and has not ended."""
        status = SystemSchema.workflow_status
        question = sa.select(sa.literal(1)).where(
            status.c.workflow_uuid == session_id, status.c.status == "PENDING", status.c.executor_id == executor
        )

        def ask() -> bool:
            with self._dbos._sys_db.engine.begin() as connection:
                return bool(connection.scalar(question))

        with _translating_errors():
            return await anyio.to_thread.run_sync(ask)

    async def requeue(self, session_ids: Collection[str], *, taken_from: str) -> None:
        """Queue sessions again that a process started; those that another process has taken since are left alone."""
        await self._move(session_ids, taken_from, QUEUE)

    async def set_aside(self, session_id: str, *, taken_from: str) -> None:
        """Queue a session of this process again, as a suspect."""
        await self._move([session_id], taken_from, SUSPECTS)

    async def count_suspects(self) -> int:
        """How many suspects are queued."""

        def ask() -> int:
            with self._dbos._sys_db.engine.begin() as connection:
                return int(connection.scalar(sa.select(sa.func.count()).where(_IS_QUEUED_SUSPECT)) or 0)

        with _translating_errors():
            return await anyio.to_thread.run_sync(ask)

    async def readmit_suspects(self, *, except_for: Collection[str] = ()) -> list[str]:
        """Queue the queued suspects as ordinary sessions; returns them."""
        status = SystemSchema.workflow_status
        moved = (
            sa.update(status)
            .where(_IS_QUEUED_SUSPECT, status.c.workflow_uuid.not_in(list(except_for)))
            .values(queue_name=QUEUE)
        )

        def change() -> list[str]:
            with self._dbos._sys_db.engine.begin() as connection:
                return list(connection.scalars(moved.returning(status.c.workflow_uuid)))

        # Asked first: a statement that changes nothing would wait for other writers on SQLite.
        if not await self.count_suspects():
            return []
        with _translating_errors():
            return await anyio.to_thread.run_sync(change)

    async def _move(
        self, session_ids: Collection[str], taken_from: str, queue: str, *, steps_from: int | None = None
    ) -> int:
        """Queue sessions that a process started; returns how many it still had.

        Args:
            steps_from: Delete the stored steps from this position on.
        """
        # The public `resume_workflows` would also take sessions away from a process that has just resumed them.
        status, steps = SystemSchema.workflow_status, SystemSchema.operation_outputs
        theirs = (
            status.c.workflow_uuid.in_(list(session_ids))
            & (status.c.status == "PENDING")
            & (status.c.executor_id == taken_from)
        )
        # Without an owner, a step of theirs that is being stored is refused from then on.
        moved = (
            sa.update(status)
            .where(theirs)
            .values(
                status="ENQUEUED",
                queue_name=queue,
                owner_xid=None,
                started_at_epoch_ms=None,
                application_version=VERSION,
            )
        )

        def change() -> int:
            with self._dbos._sys_db.engine.begin() as connection:
                count = connection.execute(moved).rowcount
                if count and steps_from is not None:
                    for session_id in session_ids:
                        ranges = dependent_steps(steps_from, self._forks(connection, session_id))
                        stale = sa.or_(*(steps.c.function_id.between(*one) for one in ranges))
                        connection.execute(sa.delete(steps).where(steps.c.workflow_uuid == session_id, stale))
                return count

        with _translating_errors():
            return await anyio.to_thread.run_sync(change)

    async def adopt(self) -> int:
        """Take over queued sessions of other versions of the engine's application; returns how many."""
        status = SystemSchema.workflow_status
        foreign = (
            status.c.queue_name.in_((QUEUE, SUSPECTS))
            & status.c.status.in_(("ENQUEUED", "DELAYED"))
            & status.c.application_version.is_distinct_from(VERSION)
        )

        def change() -> int:
            with self._dbos._sys_db.engine.begin() as connection:
                # Asked first: a statement that changes nothing would wait for other writers on SQLite.
                if not connection.scalar(sa.select(sa.exists().where(foreign))):
                    return 0
                return connection.execute(sa.update(status).where(foreign).values(application_version=VERSION)).rowcount

        with _translating_errors():
            adopted = await anyio.to_thread.run_sync(change)
        if adopted:
            logger.info("sessions_adopted", extra={"sessions": adopted})
        return adopted

    async def rewind(self, session_id: str, position: int, *, taken_from: str) -> None:
        """Delete the stored steps of a session of this process from a position on, and queue it again.

        Raises:
            LostSession: Another process has the session.
        """
        if not await self._move([session_id], taken_from, QUEUE, steps_from=position):
            raise LostSession(f"Session {session_id} belongs to another process.")

    async def stored_steps(self, session_id: str) -> Collection[str]:
        """Names of the steps of a session whose results are stored."""
        steps = SystemSchema.operation_outputs
        question = sa.select(steps.c.function_name).where(steps.c.workflow_uuid == session_id)

        def ask() -> Collection[str]:
            with self._dbos._sys_db.engine.begin() as connection:
                return set(connection.scalars(question))

        with _translating_errors():
            return await anyio.to_thread.run_sync(ask)

    def _forks(self, connection: sa.Connection, session_id: str) -> dict[int, list[int]]:
        """For the position of each stored fork of a session, the numbers of its branches."""
        steps = SystemSchema.operation_outputs
        question = sa.select(steps.c.function_id, steps.c.output).where(
            steps.c.workflow_uuid == session_id, steps.c.function_name.like(f"%{FORK}"), steps.c.output.is_not(None)
        )
        return {row.function_id: json.loads(row.output) for row in connection.execute(question)}

    async def new_branches(self, count: int) -> list[int]:
        """Numbers of branches that the current workflow has not used; to be stored by a step whose name ends in `FORK`.

        Raises:
            InputError: The session has too many branches.
        """
        context = get_local_dbos_context()
        assert context is not None, "a fork outside of a workflow"
        session_id = context.workflow_id

        def ask() -> int:
            with self._dbos._sys_db.engine.begin() as connection:
                return max((max(numbers) for numbers in self._forks(connection, session_id).values()), default=0)

        with _translating_errors():
            stored = await anyio.to_thread.run_sync(ask)
        # Another fork may have numbers that are not stored yet.
        last = max(stored, self._branches.get(session_id, 0))
        if last + count > MOST_BRANCHES:
            raise InputError(f"A session can start {MOST_BRANCHES:,} agents; these would be {last + count:,}.")
        self._branches[session_id] = last + count
        return list(range(last + 1, last + count + 1))

    async def step(self, name: str, work: Callable[[], Awaitable[T]], branch: Branch | None = None) -> T:
        """Run a step of the current workflow and store its result, or return the stored result.

        While the result cannot be stored, storing is retried; the work is done once.

        Args:
            branch: The branch whose step it is; None for the session's own.

        Raises:
            LostSession: Another process runs the workflow, so the result was not stored.
            IncompatibleStep: Another release stored something else in its place.
        """
        done: list[Callable[[], T]] = []

        async def run() -> T:
            if not done:
                done.append(await _outcome(work))
            return done[0]()

        # One position for all attempts.
        position = _position(branch)
        pause = FIRST_PAUSE
        while True:
            try:
                return await run_step_async(self._dbos, position, run, {"name": name}, (), {})
            except (dbos_errors.DBOSWorkflowConflictIDError, dbos_errors.DBOSWorkflowCancelledError):
                raise LostSession(f"The step {name} was not stored: its session belongs to another process.") from None
            except (UnreadableRecord, dbos_errors.DBOSUnexpectedStepError) as problem:
                if done:
                    raise
                logger.warning("step_incompatible", extra={"step": name, "reason": str(problem)})
                raise IncompatibleStep(name, position.function_id) from problem
            except (StoreUnavailable, *_UNAVAILABLE) as problem:
                logger.warning("step_not_stored", extra={"step": name, "reason": type(problem).__name__, "in": pause})
            await anyio.sleep(pause)
            pause = min(LAST_PAUSE, pause * 2)

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


def _position(branch: Branch | None) -> DBOSContext:
    """The next position of the session or the branch."""
    context = get_local_dbos_context()
    assert context is not None, "a step outside of a workflow"
    own = context.function_id
    position = context.snapshot_step_ctx(reserve_sleep_id=False)
    if branch is not None:
        context.function_id = own
        position.function_id = branch.next_position()
    return position


async def _outcome(work: Callable[[], Awaitable[T]]) -> Callable[[], T]:
    """Do the work; returns a function that returns its result or raises its error. An unavailable store is neither."""
    try:
        result = await work()
    except StoreUnavailable:
        raise
    except Exception as problem:  # noqa: BLE001 — raised by the returned function
        error = problem

        def fail() -> T:
            raise error

        return fail
    return lambda: result


def engine_url(database_url: str) -> str:
    """The URL of the engine's tables, given that of ours."""
    if database_url.startswith("sqlite"):
        return f"sqlite:///{engine_file(Path(database_url.split('///', 1)[1]))}"
    parts = urlsplit(database_url)
    return urlunsplit(parts._replace(scheme="postgresql"))


def _prepare_file(path: Path) -> None:
    """Create the engine's file in WAL mode, which is stored in the file; `synchronous` is FULL by default."""
    check_file(path)
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


def _report_damage(file: Path, health: DatabaseHealth, context: sa.engine.ExceptionContext) -> None:
    if message := damage(file, context.original_exception):
        health.damaged(message)


def _refuse_if_away(health: DatabaseHealth, dialect: sa.Dialect, *given: Any) -> None:
    """Make no connection to a database that is known to be away: the engine polls its queue ten times a second, and
    `DatabaseHealth.watch` finds out when it is back.
    """
    if problem := health.problem:
        raise dialect.loaded_dbapi.OperationalError(f"No connection was made: {problem}")


class _UnlessAway:
    """Whether the engine retries a statement itself after a lost connection or a conflict: not while the database is
    known to be away. It would sleep for up to a minute and a half each time, in a thread that cannot be cancelled.
    """

    def __init__(self, health: DatabaseHealth) -> None:
        self._health = health

    def __bool__(self) -> bool:
        return not self._health.problem


def _use_our_logging() -> None:
    """Send the engine's log to the root logger instead of its own console handler."""
    dbos_logger = logging.getLogger("dbos")
    dbos_logger.handlers = [logging.NullHandler()]
    dbos_logger.propagate = True


@contextmanager
def _translating_errors(file: Path | None = None) -> Iterator[None]:
    """Raise errors of the engine's database as `StoreUnavailable`.

    Args:
        file: To be named if it is damaged, where nobody listens to errors yet.
    """
    try:
        yield
    except (*_UNAVAILABLE, dbos_errors.DBOSException) as problem:
        original = getattr(problem, "orig", None) or problem
        message = damage(file, original) if file else None
        message = message or f"The workflow engine's database did not answer: {type(problem).__name__}."
        raise StoreUnavailable(message, reason=reason_of(original)) from None
