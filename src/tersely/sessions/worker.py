"""One worker process: claims sessions, sends heartbeats, stops sessions, recovers those of dead workers.

* **Claim**: `claim` raises the session's attempt. The previous worker can no longer
  write.
* **Lock**: on PostgreSQL a worker holds a lock that is released the moment its process
  dies (`store.liveness`). The sessions of a worker without its lock, which sends no
  heartbeat either, are queued again after about a second, by one surviving worker at a
  time.
* **Heartbeat**: sent five times per lease. A worker without a heartbeat for a lease
  counts as dead too: its host may be lost. A worker that was itself suspended or without
  its database declares no other dead by its lease until a lease has passed. If such a
  worker still holds its lock, it may only get no CPU time: its sessions are queued again,
  but that does not count as a crash.
* **Stop**: a session stops on a worker when it is cancelled, times out, belongs to
  another worker, or when the process shuts down. In the last two cases it has not
  ended: another worker resumes it.
* **Rewind**: stored steps of another release that this one cannot use are deleted. The
  session resumes after the steps before them, and its timeline says so.

A session can crash its worker, which also raises the crash count of the sessions beside
it; so do crashes for other reasons. So a session whose workers crashed repeatedly
without progress is only a suspect, and runs in a child process (`sessions.suspects`).
If the parent dies before the child has proven anything, the next worker runs the session
itself once: where processes die all the time, a child process may never get to work.

The work on a session is handed in by kind (`works`); how steps are stored is
`sessions.durable`. All times are the database's.
"""

import logging
import re
import socket
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal, Never, Protocol, TypeVar

import anyio
import anyio.lowlevel

from tersely.agent.tool_executor import Step
from tersely.agent.verdict import Verdict
from tersely.errors import LostSession, SessionNotFound, StoreUnavailable, TerselyError
from tersely.events import log
from tersely.events.bus import Bus
from tersely.events.recorder import SessionRecorder
from tersely.log_context import log_context
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, own_words
from tersely.pipeline.admit import admit_words
from tersely.sessions.codec import RecordCodec
from tersely.sessions.durable import FORK, Branch, Engine, IncompatibleStep, Interrupted
from tersely.sessions.suspects import SUSPECTED_AFTER, ChildProcess, SuspectProcesses, parent_of
from tersely.store import claims, executors, liveness
from tersely.store import sessions as rows
from tersely.store.claims import SessionEnd
from tersely.store.database import Connection, Database
from tersely.store.health import DatabaseHealth
from tersely.store.liveness import WorkerLock, worker_lock
from tersely.store.retrying import LAST_PAUSE, retry_while_unavailable
from tersely.store.sessions import Session
from tersely.store.timeline import REWOUND_STEP

logger = logging.getLogger(__name__)

T = TypeVar("T")

SUSPECTS_POLL_SECONDS = 0.5
IDLE_SECONDS = 3.0
"""How long a child process waits for another suspect."""

ENQUEUE_SECONDS = 3.0
"""How long an accepted session waits for the engine's queue before `_queue_unqueued` has to find it."""

CANCELLATION_POLL_SECONDS = 0.5
LOCK_POLL_SECONDS = 0.4
UNLOCKED_SECONDS = 0.8
"""How long a worker without its lock and without a heartbeat is considered alive. It would notice at once."""

RELOCK_SECONDS = 3.0
"""How long a worker that lost its own lock waits before it declares others dead that have lost theirs."""

ORPHAN_POLL_SECONDS = 1.0
"""Poll interval for orphans: sessions assigned to this worker in two consecutive polls but not running here."""

UNQUEUED_POLL_SECONDS = 5.0
"""Also the age from which a session without a worker may never have been queued: its intake died before that."""

MOST_REWINDS = 3
"""Rewinds to the same step by the same release; more would not help."""

RESUMED = own_words(
    "Another version of Tersely stored the next step in a form that this version cannot use. The session was resumed "
    "after the steps before it."
)
RESTARTED = own_words(
    "Another version of Tersely stored steps that this version cannot use. The session was started again."
)

StopReason = Literal["cancel", "lost", "leave", "again", "rewind", "suspect"]
"""Why a session stops on this worker. `again`: it broke in an unexpected way, so it is queued again."""


@dataclass(frozen=True, kw_only=True)
class SessionOutcome:
    """How a session's work ended."""

    status: Literal["completed", "failed"]
    reason: str = ""
    analysis: Masked = NOTHING
    verdict: Verdict | None = None


class Work(Protocol):
    """The work on sessions of one kind."""

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome: ...


class Launch(Protocol):
    """Starts the workflow engine; see `Engine.launched`."""

    def __call__(
        self,
        database_url: str,
        *,
        codec: RecordCodec,
        executor: str,
        at_once: int,
        poll: float,
        work: Callable[[str], Awaitable[None]],
        health: DatabaseHealth,
        suspects: bool = False,
    ) -> AbstractAsyncContextManager[Engine]: ...


@dataclass(frozen=True, kw_only=True)
class WorkerTimeouts:
    """Seconds."""

    lease: float = 30.0
    session: float = 3600.0
    grace: float = 30.0


@dataclass
class _Running:
    """A session that runs on this worker."""

    scope: anyio.CancelScope
    recorder: SessionRecorder | None = None
    stop_reason: StopReason | None = None
    stopped: anyio.Event = field(default_factory=anyio.Event)
    replayed: bool = False
    """Whether a stored step was used, which another release may have stored."""

    rewind_to: int = 1
    """With the reason `rewind`: the first step that is deleted."""

    def stop(self, reason: StopReason) -> None:
        if self.stop_reason is None or reason == "lost":
            self.stop_reason = reason
            if self.recorder and reason != "cancel":
                # Its streaming events are not ended here: the next worker completes them.
                self.recorder.release()
        self.scope.cancel()

    async def stop_from_inside(self, reason: StopReason) -> Never:
        """Stop the session whose work calls this."""
        self.stop(reason)
        await anyio.sleep_forever()
        raise AssertionError("the scope is cancelled")


_current: ContextVar[_Running] = ContextVar("the session that is running")


def new_worker_name() -> str:
    """A name that no other process has or had."""
    return f"{socket.gethostname()[:24]}-{uuid.uuid4().hex[:12]}"


@dataclass
class Worker:
    """Use `Worker.running`."""

    database: Database
    bus: Bus
    works: Mapping[str, Work]
    codec: RecordCodec
    timeouts: WorkerTimeouts
    version: str
    name: str = field(default_factory=new_worker_name)
    """Unique to this process, never reused. With a lock, it ends with `liveness.LOCKED`."""

    start_child: Callable[[str], Awaitable[ChildProcess]] | None = None
    """Starts a child process with a worker of this name that takes suspects. Without it, suspects run here."""

    takes_suspects: bool = False
    """This is the worker of a child process: it runs suspects, and looks after nothing else."""

    hold_lock: Callable[[Database, str], AbstractAsyncContextManager[WorkerLock | None]] = worker_lock
    launch: Launch = Engine.launched
    on_point: Callable[[str], None] = lambda point: None
    """Called with the name of each crash point as it is passed; a test ends the process there."""

    leaving: bool = False
    _left: bool = False
    _accepted: deque[str] = field(default_factory=deque)
    """Sessions that are stored and not queued yet, in the order in which they came."""

    _queueing: anyio.Event = field(default_factory=anyio.Event)
    """Set when there are some."""

    _running: dict[str, _Running] = field(default_factory=dict)
    _engine: Engine | None = None
    _launched: anyio.Event = field(default_factory=anyio.Event)
    _at_once: int = 1
    _broke: bool = False
    """A suspect broke in an unexpected way."""

    _suspects: SuspectProcesses | None = None
    _try_here: set[str] = field(default_factory=set)
    """Suspects that run on this worker once: the parent of their child process died."""

    _set_aside_here: set[str] = field(default_factory=set)
    _heartbeats_since: datetime | None = None
    """Since when heartbeats were sent without a gap, by the database's clock."""

    _last_heartbeat: datetime | None = None
    _unavailable_since: float | None = None
    """Since when the database does not answer, by this process's clock."""

    _lock: WorkerLock | None = None
    _unlocked: dict[str, tuple[float, datetime]] = field(default_factory=dict)
    """Workers that do not hold their lock: since when, and their last heartbeat then."""

    _orphan_polls: dict[str, int] = field(default_factory=dict)
    _recovered_once: bool = False
    """Whether the sessions of earlier processes were recovered."""

    @asynccontextmanager
    async def running(self, database_url: str, *, at_once: int, poll: float) -> AsyncIterator[Engine]:
        """Work on queued sessions inside the block; then shut down in order."""
        self._at_once = at_once
        self._claiming = anyio.Lock()
        async with self.hold_lock(self.database, self.name) as self._lock:
            if self._lock:
                self.name = self._lock.executor
            await self.update_heartbeat()
            await self._find_unlocked()
            async with self._working(database_url, poll) as engine:
                yield engine

    @asynccontextmanager
    async def _working(self, database_url: str, poll: float) -> AsyncIterator[Engine]:
        async with (
            self.launch(
                database_url,
                codec=self.codec,
                executor=self.name,
                at_once=self._at_once,
                poll=poll,
                work=self._run_workflow,
                health=self.database.health,
                suspects=self.takes_suspects,
            ) as engine,
            anyio.create_task_group() as group,
        ):
            self._engine = engine
            self._launched.set()
            group.start_soon(self._queue_accepted)
            group.start_soon(self._repeat, self.update_heartbeat, self.timeouts.lease / 5)
            if self._lock:
                group.start_soon(self._repeat, self._update_heartbeat_without_lock, LOCK_POLL_SECONDS)
            group.start_soon(self._repeat, self._poll_cancellations, CANCELLATION_POLL_SECONDS)
            if not self.takes_suspects:
                group.start_soon(self._repeat, self._recover_dead_workers, min(1.0, self.timeouts.lease / 4))
                if self._lock:
                    group.start_soon(self._repeat, self._recover_unlocked, LOCK_POLL_SECONDS)
                group.start_soon(self._repeat, self._requeue_orphans, ORPHAN_POLL_SECONDS)
                group.start_soon(self._repeat, self._queue_unqueued, UNQUEUED_POLL_SECONDS)
            if self.start_child:
                self._suspects = SuspectProcesses(
                    database=self.database,
                    engine=engine,
                    parent=self.name,
                    lease=self.timeouts.lease,
                    start=self.start_child,
                    end_session=lambda session_id, end: self._end(session_id, None, end),
                    last_heartbeat=lambda: self._last_heartbeat,
                    tasks=group,
                )
                group.start_soon(self._repeat, self._suspects.start_if_needed, SUSPECTS_POLL_SECONDS)
            try:
                yield engine
            finally:
                with anyio.CancelScope(shield=True):
                    await self.leave()
                    if not self._left:
                        await self._release_all(seconds=1.0)  # `leave` was cancelled by a second signal.
                group.cancel_scope.cancel()

    @property
    def _children(self) -> set[str]:
        """The names of the workers in this worker's child processes."""
        return self._suspects.names if self._suspects else set()

    @property
    def session_ids(self) -> list[str]:
        """Sessions that run on this worker."""
        return list(self._running)

    async def until_idle(self) -> bool:
        """Wait until there is no suspect any more, or one broke; returns whether all ended in order."""
        idle_since = anyio.current_time()
        while not self._broke and anyio.current_time() - idle_since < IDLE_SECONDS:
            await anyio.sleep(0.1)
            if self._running:
                idle_since = anyio.current_time()
        return not self._broke

    def queue_soon(self, session_id: str) -> None:
        """Queue a stored session, one after the other: of many that come at once, each is accepted first."""
        self._accepted.append(session_id)
        self._queueing.set()

    async def _queue_accepted(self) -> None:
        while True:
            await self._queueing.wait()
            self._queueing = anyio.Event()
            while self._accepted:
                await self._enqueue(self._accepted[0])
                self._accepted.popleft()

    async def _until_queued(self) -> None:
        while self._accepted:  # noqa: ASYNC110 — rarely more than one, and only when leaving
            await anyio.sleep(0.02)

    async def _enqueue(self, session_id: str) -> None:
        assert self._engine is not None
        try:
            with anyio.fail_after(ENQUEUE_SECONDS):
                await self._engine.enqueue(session_id)
        except (StoreUnavailable, TimeoutError) as problem:
            # `_queue_unqueued` does it later.
            logger.warning("not_queued_yet", extra={"session_id": session_id, "reason": str(problem)})
        self.on_point("after it is queued")

    def cancel_here(self, session_id: str) -> bool:
        """Stop a session if it runs on this worker, without waiting for the next poll."""
        return self._stop(session_id, "cancel")

    async def fork(self, step: Step, name: str, count: int) -> list[Step]:
        """Step functions for concurrent work of the current session, each with a sequence of its own: which of them
        begins its next step first does not matter on replay.

        Args:
            step: The step function of the code that forks.
        """
        engine = self._engine
        assert engine is not None
        numbers = await step(f"{name}{FORK}", lambda: engine.new_branches(count))
        return [partial(self.step, branch=Branch(number)) for number in numbers]

    async def step(self, name: str, work: Callable[[], Awaitable[T]], branch: Branch | None = None) -> T:
        """Run a durable step of the current session. No step begins while the worker is leaving."""
        running = _current.get()
        assert self._engine is not None
        if self.leaving:
            await running.stop_from_inside("leave")
        kind = _kind_of_step(name)
        ran = False

        async def run() -> T:
            nonlocal ran
            ran = True
            self.on_point(f"before {kind}")
            try:
                result = await retry_while_unavailable(work)
            except LostSession:
                # Not to be stored: it says nothing about the step.
                await running.stop_from_inside("lost")
            self.on_point(f"after {kind}, before it is stored")
            return result

        try:
            result = await self._engine.step(name, run, branch) if branch else await self._engine.step(name, run)
        except LostSession:
            await running.stop_from_inside("lost")
        except IncompatibleStep as problem:
            await self._stop_to_rewind(running, problem.name, problem.position)
            raise TerselyError(
                f"This version of Tersely cannot continue from the stored step {problem.name}."
            ) from None
        finally:
            running.replayed |= not ran
        self.on_point(f"after {kind} is stored")
        return result

    async def _stop_to_rewind(self, running: _Running, name: str, position: int, most: int = MOST_REWINDS) -> None:
        """Stop the session whose work calls this, to delete its steps from a position on. Returns if that was done too
        often.
        """
        recorder = running.recorder
        assert recorder is not None
        sentence = RESUMED if position > 1 else RESTARTED
        for time in range(1, most + 1):
            if await recorder.notice(f"update/{self.version}/{name}/{time}", sentence, {REWOUND_STEP: name}):
                running.rewind_to = position
                await running.stop_from_inside("rewind")

    async def leave(self) -> None:
        """Shut down: take no new session, let running steps finish, release the rest."""
        if self.leaving:
            return
        self.leaving = True
        if self._engine:
            self._engine.stop_dequeuing()
        if self._suspects:
            self._suspects.leave()
        await self._if_available(self._until_queued)
        await self._if_available(self.update_heartbeat)
        # Nothing that finishes could be stored in a damaged database.
        grace = 1.0 if self.database.health.is_damaged else self.timeouts.grace
        with anyio.move_on_after(grace * 0.8):
            await self._wait_until_stopped()
        await self._release_all(seconds=grace * 0.2)

    async def _release_all(self, *, seconds: float) -> None:
        """Release the running sessions and unregister, so that other workers need not wait for the lease."""
        for session_id in self.session_ids:
            self._stop(session_id, "leave")
        with anyio.move_on_after(seconds):
            await self._wait_until_stopped()
        await self._if_available(self._unregister)
        self._left = True
        logger.info("left", extra={"executor": self.name, "still_running": len(self._running)})

    async def _if_available(self, task: Callable[[], Awaitable[None]]) -> None:
        """Do what spares other workers some waiting, unless the database is known to be unavailable."""
        if not self.database.health.problem:
            with anyio.move_on_after(2):
                await retry_while_unavailable(task)

    async def _wait_until_stopped(self) -> None:
        while self._running:
            stopped = [running.stopped for running in self._running.values()]
            for event in stopped:
                await event.wait()
        while self._children:  # noqa: ASYNC110 — an event would have to follow each child process
            await anyio.sleep(0.05)

    # One session

    async def _run_workflow(self, session_id: str) -> None:
        """The workflow of a session, from its last stored step to its end.

        Raises nothing but `Interrupted`: the engine takes any other error for the workflow's end and never runs it
        again.
        """
        # The engine hands out sessions before `launch` has returned it.
        await self._launched.wait()
        running = _Running(anyio.CancelScope())
        if earlier := self._running.get(session_id):
            # The session was recovered from this worker and came back to it. Only one of the two may continue.
            earlier.stop("lost")
        self._running[session_id] = running
        _current.set(running)
        try:
            if not await self._run_or_stop(session_id, running):
                logger.info("session_left", extra={"session_id": session_id, "why": running.stop_reason})
                raise Interrupted
        finally:
            running.stopped.set()
            if self._running.get(session_id) is running:
                del self._running[session_id]

    async def _run_or_stop(self, session_id: str, running: _Running) -> bool:
        """Run a session; True if it has ended, False if it stopped here and has to be resumed."""
        try:
            if self.leaving:
                running.stop_reason = "leave"
            else:
                with running.scope:
                    await self._claim_and_run(session_id, running)
                    return True
        except (LostSession, _Retaken):
            running.stop_reason = "lost"
        except _Suspected:
            running.stop_reason = "suspect"
        except Exception as problem:
            # A broad catch: an accepted session must end. It is retried as after a crash.
            logger.error("session_broke", extra={"session_id": session_id}, exc_info=problem)
            running.stop_reason = "again"
        # Stopped. Only a cancelled session has ended; the others are resumed elsewhere.
        attempt = running.recorder.attempt if running.recorder else None
        try:
            if running.stop_reason == "cancel":
                await retry_while_unavailable(lambda: self._end_cancelled(session_id, attempt))
                return True
            if running.stop_reason == "leave":
                with anyio.CancelScope(shield=True):
                    await self._if_available(lambda: self._release_and_requeue(session_id, attempt))
            if running.stop_reason == "suspect":
                await retry_while_unavailable(lambda: self._set_aside(session_id))
            if running.stop_reason == "again" and self.takes_suspects:
                self._broke = True  # The parent process ends the session.
            elif running.stop_reason == "again":
                await anyio.sleep(ORPHAN_POLL_SECONDS)
                await retry_while_unavailable(lambda: self._requeue_as_crashed(session_id))
            if running.stop_reason == "rewind":
                await retry_while_unavailable(lambda: self._rewind(session_id, attempt, running.rewind_to))
        except LostSession:
            running.stop_reason = "lost"
        return False

    async def _claim_and_run(self, session_id: str, running: _Running) -> None:
        self.on_point("before claim")
        session = await self._claim_when_possible(session_id)
        self.on_point("after claim")
        if session is None:
            return  # It has ended; the engine did not know.
        clock = self.database.clock
        running.recorder = recorder = SessionRecorder(
            self.database, self.bus, session_id, session.attempt, clock=clock.now, on_point=self.on_point
        )
        if session.attempt > 1:
            engine = self._engine
            assert engine is not None
            await recorder.go_on(lambda: engine.stored_steps(session_id))
        if session.status == "cancelling":
            end = SessionEnd(status="cancelled", reason=session.reason or "Cancelled on request.")
        elif (work := self.works.get(session.kind)) is None:
            end = SessionEnd(status="failed", reason=f"This version has no workflow for kind {session.kind!r}.")
        else:
            end = await self._run_work(work, session, recorder)
        await self._end(session_id, session.attempt, end)

    async def _run_work(self, work: Work, session: Session, recorder: SessionRecorder) -> SessionEnd:
        now = self.database.clock.now()
        since_start = max(timedelta(0), now - (session.started_at or now)).total_seconds()
        with anyio.move_on_after(max(0.0, self.timeouts.session - since_start)) as limit:
            outcome = await self._outcome_of(work, session, recorder)
        if limit.cancelled_caught:
            reason = f"It took longer than {self.timeouts.session:g} s, the time limit of a session."
            return SessionEnd(status="timed_out", reason=reason)
        verdict = outcome.verdict.as_json() if outcome.verdict else None
        return SessionEnd(status=outcome.status, reason=outcome.reason, analysis=outcome.analysis, verdict=verdict)

    async def _outcome_of(self, work: Work, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        try:
            with log_context(session_id=session.id):
                return await work(session, recorder)
        except Exception as raised:
            problem = _first(raised)
            if isinstance(problem, LostSession):
                raise problem from None
            if isinstance(problem, TerselyError):
                logger.warning("session_failed", extra={"session_id": session.id, "reason": str(problem)})
                return SessionOutcome(
                    status="failed", reason=admit_words(str(problem), Masker(key=session.mark_key))[:2000]
                )
            logger.error("session_broke", extra={"session_id": session.id}, exc_info=problem)
            running = _current.get()
            if running.replayed:
                # The stored steps may be the reason, if another release wrote them. Without them it may work.
                await self._stop_to_rewind(running, "", 1, most=1)
            return SessionOutcome(
                status="failed", reason=f"An internal error ({type(problem).__name__}); the log has the traceback."
            )

    async def _claim_when_possible(self, session_id: str) -> Session | None:
        """Claim a session once there is room for it; None if it has ended."""
        while True:
            try:
                return await retry_while_unavailable(lambda: self._claim(session_id))
            except LostSession:
                return None
            except _NoRoom:
                # The engine limits concurrency too, but does not see uncommitted claims of other workers.
                await anyio.sleep(0.1)

    async def _claim(self, session_id: str) -> Session:
        assert self._engine is not None
        # One at a time: the database lets one claim after the other pass, and those that wait there keep a connection.
        async with self._claiming, self.database.transaction() as db:
            if not await executors.is_room_for(db, session_id, self._at_once):
                raise _NoRoom
            claim, logged = await log.claim_session(db, session_id, self.name, now=self.database.clock.now())
            # Also after the claim. The process may have stood still since the engine handed it the session. On SQLite
            # nobody else could have taken it.
            if not self.database.is_sqlite and not await self._engine.has_started(session_id, self.name):
                raise _Retaken
            # After the claim, which waits for a concurrent transaction that counts a crash.
            if (
                self.start_child
                and session_id not in self._try_here
                and await executors.crashes_in_a_row(db, session_id) >= SUSPECTED_AFTER
            ):
                raise _Suspected
            session = await rows.find(db, session_id)
        self._try_here.discard(session_id)
        logger.info(
            "session_claimed", extra={"session_id": session_id, "attempt": claim.attempt, "executor": self.name}
        )
        self.bus.publish(*logged)
        return session

    async def _end(self, session_id: str, attempt: int | None, end: SessionEnd) -> None:
        async def write() -> None:
            async with self.database.transaction() as db:
                logged = await log.end_session(db, session_id, attempt, end, now=self.database.clock.now())
            self.bus.publish(*logged)

        self.on_point("before the end is written")
        # Shielded: an end that was reached is written, even if the session is stopped meanwhile.
        with anyio.CancelScope(shield=True):
            await retry_while_unavailable(write)
        self.on_point("after the end is written")
        logger.info("session_ended", extra={"session_id": session_id, "status": end.status, "reason": end.reason})
        await self.queue_next_question(session_id)

    async def queue_next_question(self, session_id: str) -> None:
        """If the session that has ended was a question, queue the one that waited for it. If the store is unavailable
        now, `_queue_unqueued` does it later.
        """
        try:
            async with self.database.reading(light=True) as db:
                question = await rows.next_question(db, session_id)
            if question:
                await self._enqueue(question)
        except StoreUnavailable as problem:
            logger.warning("not_queued_yet", extra={"session_id": session_id, "reason": str(problem)})

    async def _end_cancelled(self, session_id: str, attempt: int | None) -> None:
        async with self.database.reading() as db:
            session = await rows.find(db, session_id)
        reason = session.reason or "Cancelled on request."
        await self._end(session_id, attempt, SessionEnd(status="cancelled", reason=reason))

    async def _release_and_requeue(self, session_id: str, attempt: int | None) -> None:
        """Let any worker resume a session, without waiting for this worker's lease."""
        assert self._engine is not None
        if attempt is not None:
            async with self.database.transaction() as db:
                await claims.release(db, session_id, attempt)
        await self._engine.requeue([session_id], taken_from=self.name)

    async def _set_aside(self, session_id: str) -> None:
        assert self._engine is not None
        logger.warning("session_suspected", extra={"session_id": session_id})
        self._set_aside_here.add(session_id)
        await self._engine.set_aside(session_id, taken_from=self.name)

    async def _rewind(self, session_id: str, attempt: int | None, position: int) -> None:
        assert self._engine is not None
        if attempt is not None:
            async with self.database.transaction() as db:
                await claims.release(db, session_id, attempt)
        await self._engine.rewind(session_id, position, taken_from=self.name)

    async def _requeue_as_crashed(self, session_id: str) -> None:
        """Repeat a session from its last stored step. It counts as a crash, so that it is not repeated for ever."""
        assert self._engine is not None
        async with self.database.transaction() as db:
            await claims.record_crash(db, session_id, self.name)
        await self._engine.requeue([session_id], taken_from=self.name)

    # All sessions

    def _stop(self, session_id: str, reason: StopReason) -> bool:
        running = self._running.get(session_id)
        if running is None:
            return False
        running.stop(reason)
        return True

    async def update_heartbeat(self) -> None:
        async with self.database.transaction() as db:
            now = await executors.heartbeat(
                db, self.name, host=socket.gethostname(), version=self.version, leaving=self.leaving
            )
        self.database.clock.synchronize(now)
        if self._unavailable_since is not None:
            seconds = round(anyio.current_time() - self._unavailable_since, 1)
            logger.warning("store_available", extra={"after": seconds})
            self._unavailable_since = None
        if self._last_heartbeat is None or abs((now - self._last_heartbeat).total_seconds()) > self.timeouts.lease:
            self._heartbeats_since = now
        self._last_heartbeat = now

    async def _update_heartbeat_without_lock(self) -> None:
        if self._lock and not self._lock.is_held:
            await self.update_heartbeat()

    async def _unregister(self) -> None:
        async with self.database.transaction() as db:
            await executors.unregister(db, self.name)

    async def _poll_cancellations(self) -> None:
        """Stop sessions that were cancelled or belong to another worker; end cancelled ones without a worker."""
        here = {
            session_id: running.recorder.attempt for session_id, running in self._running.items() if running.recorder
        }
        async with self.database.reading() as db:
            cancelled = await executors.to_be_cancelled(db, self.name)
            without_worker = await executors.cancelling_without_worker(db)
            lost = await executors.lost(db, here)
        for session_id in lost:
            running = self._running.get(session_id)
            if running and running.recorder and running.recorder.attempt == here[session_id]:
                running.stop("lost")
        for session_id in cancelled:
            self._stop(session_id, "cancel")
        for session_id in without_worker:
            async with self.database.transaction() as db:
                logged = (await log.request_cancel(db, session_id, reason="", now=self.database.clock.now())).events
            self.bus.publish(*logged)

    async def _recover_dead_workers(self) -> None:
        """Queue the sessions of dead workers again."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        unlocked = await self._find_unlocked()
        if not unlocked and not self._may_declare_others_dead():
            return
        if (
            self.database.is_sqlite
            and self._recovered_once
            and set((await engine.started()).values()) <= {self.name, *self._children}
        ):
            # Read outside of a transaction, unlike below: SQLite has one writer, and the engine may be slow.
            return
        is_first, self._recovered_once = not self._recovered_once, True
        async with self.database.transaction() as db:
            if not await executors.lock_recovery(db):
                return
            alive = await self._alive(db, unlocked)
            for executor in await executors.others(db, alive):
                if parent_of(executor) not in alive:
                    await executors.unregister(db, executor)
            by_executor: dict[str, list[str]] = {}
            for session_id, executor in (await engine.started()).items():
                # A child process is judged by its parent, as long as that lives.
                if executor not in alive and parent_of(executor) not in alive:
                    by_executor.setdefault(executor, []).append(session_id)
            locks = await liveness.held_locks(db) if by_executor and self._lock else set()
            for executor, session_ids in by_executor.items():
                is_connected = liveness.key_of(executor) in locks
                for session_id in session_ids:
                    await claims.record_crash(db, session_id, executor, is_connected=is_connected)
                self.on_point("before requeue")
                await engine.requeue(session_ids, taken_from=executor)
                self.on_point("after requeue")
                if parent_of(executor):
                    self._try_here.update(session_ids)
                logger.warning(
                    "taken_over", extra={"sessions": len(session_ids), "from": executor, "is_connected": is_connected}
                )
        if is_first and alive <= {self.name, *self._children}:
            # Their worker died before a child process could take them.
            self._try_here.update(await engine.readmit_suspects(except_for=self._set_aside_here))

    async def _recover_unlocked(self) -> None:
        if await self._find_unlocked():
            await self._recover_dead_workers()

    async def _alive(self, db: Connection, unlocked: Collection[str]) -> set[str]:
        """The workers that are not known to be dead."""
        if self.database.is_sqlite:
            # Only one process works on a file, and its children.
            return {self.name, *self._children}
        known = (
            [one.id for one in await executors.alive(db, lease=self.timeouts.lease)]
            if self._may_declare_others_dead()
            else await executors.registered(db)
        )
        return {self.name, *known} - set(unlocked)

    async def _find_unlocked(self) -> set[str]:
        """Other workers that should hold a lock, hold none, and sent no heartbeat for a moment: their process died."""
        if self._lock is None or not self._lock.is_steady(RELOCK_SECONDS):
            # Whatever took this worker's lock took those of others, too; they get time to take theirs again.
            self._unlocked = {}
            return set()
        async with self.database.reading() as db:
            # In this order: a worker takes its lock before it registers.
            registered = await executors.registered(db)
            held = await liveness.held_locks(db)
        now = anyio.current_time()
        seen: dict[str, tuple[float, datetime]] = {}
        for executor, heartbeat in registered.items():
            if executor.endswith(liveness.LOCKED) and liveness.key_of(executor) not in held and executor != self.name:
                since, earlier = self._unlocked.get(executor, (now, heartbeat))
                seen[executor] = (since, heartbeat) if heartbeat == earlier else (now, heartbeat)
        self._unlocked = seen
        return {executor for executor, (since, _) in seen.items() if now - since >= UNLOCKED_SECONDS}

    def _may_declare_others_dead(self) -> bool:
        """Whether this worker's own heartbeats had no gap for a lease, so that others had time to send theirs."""
        if self.database.is_sqlite:
            return True
        return bool(
            self._last_heartbeat
            and self._heartbeats_since
            and (self._last_heartbeat - self._heartbeats_since).total_seconds() >= self.timeouts.lease
        )

    async def _requeue_orphans(self) -> None:
        """Queue sessions again that are assigned to this worker and do not run here: a claim or an end was lost."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        started = {session_id for session_id, executor in (await engine.started()).items() if executor == self.name}
        async with self.database.reading() as db:
            held = await executors.held(db, self.name)
        orphans = (started | held.keys()) - self._running.keys()
        # Counted, not timed: a clock that is set back would delay it.
        self._orphan_polls = {session_id: self._orphan_polls.get(session_id, 0) + 1 for session_id in orphans}
        for session_id, polls in self._orphan_polls.items():
            if polls > 1 and session_id not in self._running:
                logger.warning("taken_up", extra={"session_id": session_id})
                await self._release_and_requeue(session_id, held.get(session_id))

    async def _queue_unqueued(self) -> None:
        """Queue sessions whose intake died before it queued them; end those that the engine gave up."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        async with self.database.reading() as db:
            unattended = await executors.unattended(db, now=self.database.clock.now(), seconds=UNQUEUED_POLL_SECONDS)
        await engine.adopt()
        states = await engine.states(unattended)
        for session_id in unattended:
            if session_id not in states:
                await engine.enqueue(session_id)
            elif states[session_id] == "ended":
                reason = "The workflow engine gave the session up; the log has the reason."
                await self._end(session_id, None, SessionEnd(status="failed", reason=reason))

    async def _repeat(self, task: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                await task()
            except StoreUnavailable as problem:
                self._unavailable_since = self._unavailable_since or anyio.current_time()
                logger.warning("store_unavailable", extra={"reason": str(problem)})
                # All tasks would try; `DatabaseHealth.watch` does.
                await self.database.health.wait_while_unavailable(LAST_PAUSE)
            except (LostSession, SessionNotFound):
                pass  # Another worker was faster.
            except Exception as problem:
                # A broad catch: the worker continues with its sessions, and the task is repeated soon.
                logger.error("crew_stumbled", extra={"at": task.__name__}, exc_info=problem)
            await anyio.sleep(seconds)


def _first(raised: BaseException) -> BaseException:
    """The first error of concurrent work."""
    while isinstance(raised, BaseExceptionGroup):
        raised = raised.exceptions[0]
    return raised


_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


def _kind_of_step(name: str) -> str:
    """A step's name without the ids and numbers that differ between sessions."""
    return "/".join(part for part in _IDS.sub("", name).split("/") if part)


class _NoRoom(Exception):
    """The maximum number of sessions is running."""


class _Suspected(Exception):
    """The session may have crashed its workers, and has to run in a child process."""


class _Retaken(Exception):
    """Another process is to run the session."""
