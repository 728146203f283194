"""This process as a worker: it takes sessions, is seen alive, stops when asked, and goes on with what the dead left.

* It **takes** a session with `claim`, which raises the session's attempt. Whoever
  worked on it before can write nothing from then on.
* It is **seen** five times in a lease. Sessions of a process that was not seen
  for a lease are queued again, by one survivor at a time. Whoever was away itself
  (stopped, or without its database) judges nobody until a lease has passed.
* It **stops** a session when somebody cancels it, when its time is over, when it
  belongs to somebody else, or when the process is told to leave. In the last two
  cases the session has no end yet: it is gone on with elsewhere.

A session may kill its worker, and the others that run there are counted as many
crashes as it is; so are all of them where processes die for reasons of their own.
So one that is about to be given up gets its last try alone among its like, in a
process that has lived for a while: only the guilty dies again. And when a process
dies that it does not run in, something else kills here, and it is not suspected
any more.

What is done for a session is handed in by its kind (`works`); how steps are
remembered is `sessions.durable`. All times are the database's.
"""

import logging
import math
import re
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, Never, Protocol, TypeVar

import anyio
import anyio.lowlevel

from tersely.errors import LostSession, SessionNotFound, StoreUnavailable, TerselyError
from tersely.events.bus import Bus
from tersely.events.recorder import SessionRecorder
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, assume_masked
from tersely.sessions.codec import RecordCodec
from tersely.sessions.durable import Engine, Interrupted
from tersely.store import executors
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.sessions import Session

logger = logging.getLogger(__name__)

T = TypeVar("T")

MAX_CRASHES = 3
LOOK_SECONDS = 0.5
"""Between two looks for sessions that are to be stopped here."""

IDLE_SECONDS = 1.0
"""Between two looks; what is ours by name at both and does not run here is left over: its beginning or its end was lost
on the way.
"""

FORGOTTEN_SECONDS = 5.0
"""After which a session that nobody works on may have been forgotten: whoever accepted it died before it was queued."""

Stop = Literal["cancel", "lost", "leave", "again"]
"""Why a session stops here. `again`: what was done could not be stored."""


@dataclass(frozen=True, kw_only=True)
class SessionOutcome:
    """How a session's work ended."""

    status: Literal["completed", "failed"]
    reason: str = ""
    analysis: Masked = assume_masked("")  # noqa: RUF009 — it is a str


class Work(Protocol):
    """What is done for a session of some kind."""

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome: ...


class Launch(Protocol):
    """How the workflow engine is started; see `Engine.launched`."""

    def __call__(
        self,
        database_url: str,
        *,
        codec: RecordCodec,
        executor: str,
        at_once: int,
        poll: float,
        work: Callable[[str], Awaitable[None]],
    ) -> AbstractAsyncContextManager[Engine]: ...


@dataclass(frozen=True, kw_only=True)
class WorkerTimeouts:
    """How long things may take."""

    lease: float = 30.0
    session: float = 3600.0
    grace: float = 30.0
    steady: float = 15.0
    """How long a process has to have lived before it gives a session its last try."""


@dataclass
class _Running:
    scope: anyio.CancelScope
    recorder: SessionRecorder | None = None
    stop: Stop | None = None
    stopped: anyio.Event = field(default_factory=anyio.Event)
    alone: anyio.Semaphore | None = None
    """Held while it is suspected of killing its workers."""

    def halt(self, why: Stop) -> None:
        if self.stop is None or why == "lost":
            self.stop = why
            if self.recorder and why != "cancel":
                # Its open events are not ended here: whoever goes on with the session goes on with them.
                self.recorder.release()
        self.scope.cancel()

    async def halted(self, why: Stop) -> Never:
        """Stop the very work that asks for it."""
        self.halt(why)
        await anyio.sleep_forever()
        raise AssertionError("nobody gets here")

    def cleared(self) -> None:
        """Its worker is alive after something new was done: it is not what killed the others."""
        if self.alone:
            self.alone.release()
            self.alone = None


_current: ContextVar[_Running] = ContextVar("the session that is running")


@dataclass
class Worker:
    """Use `Worker.running`."""

    database: Database
    bus: Bus
    works: Mapping[str, Work]
    codec: RecordCodec
    timeouts: WorkerTimeouts
    version: str
    name: str = field(default_factory=lambda: f"{socket.gethostname()[:24]}-{uuid.uuid4().hex[:12]}")
    """Of this process: never used before, never again."""

    launch: Launch = Engine.launched
    on_point: Callable[[str], None] = lambda point: None
    """Called with the name of each crash point as it is passed; a test ends the process there."""

    leaving: bool = False
    _left: bool = False
    _running: dict[str, _Running] = field(default_factory=dict)
    _engine: Engine | None = None
    _at_once: int = 1
    _began: float = 0.0
    _suspects: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(1))
    _seen_since: datetime | None = None
    """Since when this process was seen without a gap, by the database's clock."""

    _seen_at: datetime | None = None
    _idle: dict[str, int] = field(default_factory=dict)
    _looked: bool = False
    """Whether what earlier processes left was looked for."""

    @asynccontextmanager
    async def running(self, database_url: str, *, at_once: int, poll: float) -> AsyncIterator[Engine]:
        """Work on queued sessions for as long as the block lasts; then leave in good order."""
        self._at_once, self._began = at_once, anyio.current_time()
        await self._beat()
        async with (
            self.launch(
                database_url, codec=self.codec, executor=self.name, at_once=at_once, poll=poll, work=self._work
            ) as engine,
            anyio.create_task_group() as group,
        ):
            self._engine = engine
            group.start_soon(self._again_and_again, self._beat, self.timeouts.lease / 5)
            group.start_soon(self._again_and_again, self._look, LOOK_SECONDS)
            group.start_soon(self._again_and_again, self._take_over, min(1.0, self.timeouts.lease / 4))
            group.start_soon(self._again_and_again, self._take_up, IDLE_SECONDS)
            group.start_soon(self._again_and_again, self._queue_forgotten, FORGOTTEN_SECONDS)
            try:
                yield engine
            finally:
                with anyio.CancelScope(shield=True):
                    await self.leave()
                    if not self._left:
                        await self._let_go(seconds=1.0)  # Somebody was in a hurry.
                group.cancel_scope.cancel()

    @property
    def session_ids(self) -> list[str]:
        """Sessions that are worked on here."""
        return list(self._running)

    def cancel_here(self, session_id: str) -> bool:
        """Stop a session if it runs in this process, without waiting for the next look."""
        return self._stop(session_id, "cancel")

    async def step(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """A remembered step of the session that is running. None begins in a process that is about to leave."""
        running = _current.get()
        assert self._engine is not None
        if self.leaving:
            await running.halted("leave")
        place = _kind_of_step(name)

        async def piece() -> T:
            self.on_point(f"before {place}")
            try:
                result = await self._patiently(work)
            except LostSession:
                # Not to be remembered: it says nothing about the step.
                await running.halted("lost")
            self.on_point(f"after {place}, before it is stored")
            running.cleared()
            return result

        try:
            result = await self._engine.step(name, piece)
        except LostSession:
            await running.halted("lost")
        except StoreUnavailable:
            await running.halted("again")
        self.on_point(f"after {place} is stored")
        return result

    async def leave(self) -> None:
        """Take nothing new, let running steps finish, give back the rest."""
        if self.leaving:
            return
        self.leaving = True
        if self._engine:
            self._engine.take_no_more()
        with anyio.move_on_after(2):
            await self._patiently(self._beat)
        with anyio.move_on_after(self.timeouts.grace * 0.8):
            await self._all_stopped()
        await self._let_go(seconds=self.timeouts.grace * 0.2)

    async def _let_go(self, *, seconds: float) -> None:
        """Give back what still runs; from then on others need not wait to see that this process is gone."""
        for session_id in self.session_ids:
            self._stop(session_id, "leave")
        with anyio.move_on_after(seconds):
            await self._all_stopped()
        with anyio.move_on_after(2):
            await self._patiently(self._gone)
        self._left = True
        logger.info("left", extra={"executor": self.name, "still_running": len(self._running)})

    async def _all_stopped(self) -> None:
        while self._running:
            stopped = [running.stopped for running in self._running.values()]
            for event in stopped:
                await event.wait()

    # One session

    async def _work(self, session_id: str) -> None:
        """The workflow of a session, from wherever it stands to its end.

        Nothing is raised but `Interrupted`: the engine would take it for the workflow's end, and never run it again.
        """
        running = _Running(anyio.CancelScope())
        if earlier := self._running.get(session_id):
            # It was taken from us and came back to us. Only one of the two may go on.
            earlier.halt("lost")
        self._running[session_id] = running
        _current.set(running)
        try:
            if not await self._has_come_to_its_end(session_id, running):
                logger.info("session_left", extra={"session_id": session_id, "why": running.stop})
                raise Interrupted
        finally:
            running.cleared()
            running.stopped.set()
            if self._running.get(session_id) is running:
                del self._running[session_id]

    async def _has_come_to_its_end(self, session_id: str, running: _Running) -> bool:
        try:
            if self.leaving:
                running.stop = "leave"
            else:
                with running.scope:
                    await self._to_its_end(session_id, running)
                    return True
        except LostSession:
            running.stop = "lost"
        except Exception as problem:
            # Whatever it is: a session that is accepted comes to an end. It is tried again, like after a death.
            logger.error("session_broke", extra={"session_id": session_id}, exc_info=problem)
            running.stop = "again"
        # Stopped. Only a cancelled session has its end; the others go on elsewhere.
        attempt = running.recorder.attempt if running.recorder else None
        try:
            if running.stop == "cancel":
                await self._patiently(lambda: self._end_cancelled(session_id, attempt))
                return True
            if running.stop == "leave":
                with anyio.CancelScope(shield=True), anyio.move_on_after(2):
                    await self._patiently(lambda: self._give_back(session_id, attempt))
            if running.stop == "again":
                await anyio.sleep(IDLE_SECONDS)
                await self._patiently(lambda: self._start_over(session_id))
        except LostSession:
            running.stop = "lost"
        return False

    async def _to_its_end(self, session_id: str, running: _Running) -> None:
        self.on_point("before claim")
        session = await self._claimed(session_id, running)
        self.on_point("after claim")
        if session is None:
            return  # It has its end; only the engine did not know.
        clock = self.database.clock
        running.recorder = recorder = SessionRecorder(
            self.database, self.bus, session_id, session.attempt, clock=clock.now, on_point=self.on_point
        )
        if session.status == "cancelling":
            await self._end(session_id, session.attempt, "cancelled", session.reason or "Cancelled on request.")
            return
        if session.crashes >= MAX_CRASHES:
            reason = (
                f"It was given up: {session.crashes} times in a row the process that worked on it ended at the "
                "same point."
            )
            await self._end(session_id, session.attempt, "failed", reason)
            return
        work = self.works.get(session.kind)
        if work is None:
            await self._end(
                session_id, session.attempt, "failed", f"This version does not know sessions of kind {session.kind!r}."
            )
            return
        since_start = max(timedelta(0), clock.now() - (session.started_at or clock.now())).total_seconds()
        with anyio.move_on_after(max(0.0, self.timeouts.session - since_start)) as limit:
            outcome = await self._outcome(work, session, recorder)
        if limit.cancelled_caught:
            reason = f"It took longer than {self.timeouts.session:g} s, the time limit of a session."
            await self._end(session_id, session.attempt, "timed_out", reason)
            return
        await self._end(session_id, session.attempt, outcome.status, outcome.reason, outcome.analysis)

    async def _wait_for_turn(self, session_id: str, running: _Running) -> None:
        """Those who may have killed their workers run one at a time, and not where everything dies."""
        logger.warning("session_suspected", extra={"session_id": session_id})
        await anyio.sleep_until(self._began + self.timeouts.steady)
        await self._suspects.acquire()
        running.alone = self._suspects

    async def _outcome(self, work: Work, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        try:
            return await work(session, recorder)
        except Exception as raised:
            problem = _first(raised)
            if isinstance(problem, LostSession):
                raise problem from None
            if isinstance(problem, TerselyError):
                logger.warning("session_failed", extra={"session_id": session.id, "reason": str(problem)})
                return SessionOutcome(status="failed", reason=Masker(key=session.mark_key).mask(str(problem))[:2000])
            logger.error("session_broke", extra={"session_id": session.id}, exc_info=problem)
            return SessionOutcome(
                status="failed", reason=f"An error of our own ({type(problem).__name__}); the log has its trace."
            )

    async def _claimed(self, session_id: str, running: _Running) -> Session | None:
        """The session, once there is room for it; None when it has its end already."""
        while True:
            try:
                return await self._patiently(lambda: self._claim(session_id, is_its_turn=running.alone is not None))
            except LostSession:
                return None
            except _Suspected:
                await self._wait_for_turn(session_id, running)
            except _NoRoom:
                # The engine counts too, but does not see what others count at that very moment.
                await anyio.sleep(0.1)

    async def _claim(self, session_id: str, *, is_its_turn: bool) -> Session:
        async with self.database.transaction() as db:
            if not await executors.is_room_for(db, session_id, self._at_once):
                raise _NoRoom
            claim = await rows.claim(db, session_id, self.name, now=self.database.clock.now())
            # Asked after the claim, which waits for whoever counts a death at this moment.
            if not is_its_turn and await executors.crashes_in_a_row(db, session_id) == MAX_CRASHES - 1:
                raise _Suspected
            session = await rows.find(db, session_id)
        logger.info(
            "session_claimed", extra={"session_id": session_id, "attempt": claim.attempt, "executor": self.name}
        )
        self.bus.publish(*claim.events)
        return session

    async def _end(
        self,
        session_id: str,
        attempt: int | None,
        status: Literal["completed", "failed", "cancelled", "timed_out"],
        reason: str,
        analysis: Masked = assume_masked(""),  # noqa: B008 — it is a str
    ) -> None:
        async def end() -> None:
            async with self.database.transaction() as db:
                told = await rows.end_all(
                    db, session_id, attempt, status, reason, analysis=analysis, now=self.database.clock.now()
                )
            self.bus.publish(*told)

        # An end that was reached is written, whoever has lost patience meanwhile.
        self.on_point("before the end is written")
        with anyio.CancelScope(shield=True):
            await self._patiently(end)
        self.on_point("after the end is written")
        logger.info("session_ended", extra={"session_id": session_id, "status": status, "reason": reason})

    async def _end_cancelled(self, session_id: str, attempt: int | None) -> None:
        async with self.database.reading() as db:
            session = await rows.find(db, session_id)
        await self._end(session_id, attempt, "cancelled", session.reason or "Cancelled on request.")

    async def _give_back(self, session_id: str, attempt: int | None) -> None:
        """Let others go on with a session, at once."""
        assert self._engine is not None
        if attempt is not None:
            async with self.database.transaction() as db:
                await rows.release(db, session_id, attempt)
        await self._engine.requeue([session_id], taken_from=self.name)

    async def _start_over(self, session_id: str) -> None:
        """Have a session gone through again from its last stored step; counted as a death, so that it does not go on
        for ever.
        """
        assert self._engine is not None
        async with self.database.transaction() as db:
            await rows.record_crash(db, session_id, self.name)
        await self._engine.requeue([session_id], taken_from=self.name)

    # All sessions

    def _stop(self, session_id: str, why: Stop) -> bool:
        running = self._running.get(session_id)
        if running is None:
            return False
        running.halt(why)
        return True

    async def _beat(self) -> None:
        async with self.database.transaction() as db:
            seen = await rows.heartbeat(
                db, self.name, host=socket.gethostname(), version=self.version, leaving=self.leaving
            )
        self.database.clock.heard(seen)
        if self._seen_at is None or abs((seen - self._seen_at).total_seconds()) > self.timeouts.lease:
            self._seen_since = seen
        self._seen_at = seen

    async def _gone(self) -> None:
        async with self.database.transaction() as db:
            await executors.gone(db, self.name)

    async def _look(self) -> None:
        """Stop what is to be stopped."""
        here = {
            session_id: running.recorder.attempt for session_id, running in self._running.items() if running.recorder
        }
        async with self.database.reading() as db:
            cancelled = await executors.to_be_cancelled(db, self.name)
            alone = await executors.cancelled_and_alone(db)
            lost = await executors.lost(db, here)
        for session_id in lost:
            running = self._running.get(session_id)
            if running and running.recorder and running.recorder.attempt == here[session_id]:
                running.halt("lost")
        for session_id in cancelled:
            self._stop(session_id, "cancel")
        for session_id in alone:
            async with self.database.transaction() as db:
                told = (await rows.request_cancel(db, session_id, reason="", now=self.database.clock.now())).events
            self.bus.publish(*told)

    async def _take_over(self) -> None:
        """Queue what the dead were working on."""
        engine, lease = self._engine, self.timeouts.lease
        if engine is None or self.leaving or not self._may_judge():
            return
        if self.database.is_sqlite and self._looked and set((await engine.begun()).values()) <= {self.name}:
            # Not asked inside of a transaction, as below: there is one writer, and the engine may take its time.
            return
        self._looked = True
        async with self.database.transaction() as db:
            if not await executors.only_one_takes_over(db):
                return
            # On SQLite only one process works: whoever else is named there is gone.
            alive = (
                {self.name}
                if self.database.is_sqlite
                else {self.name, *(one.id for one in await rows.alive(db, lease=lease))}
            )
            for executor in await executors.others(db, alive):
                await executors.release_quarantined(db, executor, crashes=MAX_CRASHES - 1)
                await rows.forget_executor(db, executor)
            left: dict[str, list[str]] = {}
            for session_id, executor in (await engine.begun()).items():
                if executor not in alive:
                    left.setdefault(executor, []).append(session_id)
            for executor, session_ids in left.items():
                for session_id in session_ids:
                    await rows.record_crash(db, session_id, executor)
                self.on_point("before requeue")
                await engine.requeue(session_ids, taken_from=executor)
                self.on_point("after requeue")
                logger.warning("taken_over", extra={"sessions": len(session_ids), "from": executor})

    def _may_judge(self) -> bool:
        """Whether others had the time to be seen since this process was away itself."""
        if self.database.is_sqlite:
            return True
        return bool(
            self._seen_at
            and self._seen_since
            and (self._seen_at - self._seen_since).total_seconds() >= self.timeouts.lease
        )

    async def _take_up(self) -> None:
        """Queue again what is ours by name and does not run here."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        begun = {session_id for session_id, executor in (await engine.begun()).items() if executor == self.name}
        async with self.database.reading() as db:
            held = await executors.held(db, self.name)
        idle = (begun | held.keys()) - self._running.keys()
        # Counted, not timed: a clock that is set back would leave it idle until it has caught up.
        self._idle = {session_id: self._idle.get(session_id, 0) + 1 for session_id in idle}
        for session_id, looks in self._idle.items():
            if looks > 1 and session_id not in self._running:
                logger.warning("taken_up", extra={"session_id": session_id})
                await self._give_back(session_id, held.get(session_id))

    async def _queue_forgotten(self) -> None:
        """Queue what was accepted by somebody who died before it was queued; end what the engine gave up."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        async with self.database.reading() as db:
            waiting = await executors.waiting(db, now=self.database.clock.now(), seconds=FORGOTTEN_SECONDS)
        states = await engine.states(waiting)
        for session_id in waiting:
            if session_id not in states:
                await engine.enqueue(session_id)
            elif states[session_id] == "ended":
                await self._end(session_id, None, "failed", "The workflow engine gave it up; the log says why.")

    async def _again_and_again(self, what: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                await what()
            except StoreUnavailable as problem:
                logger.warning("store_unavailable", extra={"reason": str(problem)})
            except (LostSession, SessionNotFound):
                pass  # Somebody else was faster, which is as good.
            except Exception as problem:
                # A process that cannot do this once still works on what it has; and the next time comes soon.
                logger.error("crew_stumbled", extra={"at": what.__name__}, exc_info=problem)
            await anyio.sleep(seconds)

    async def _patiently(self, what: Callable[[], Awaitable[T]], *, seconds: float = math.inf) -> T:
        """Do it; while the store does not answer, again and again."""
        pause, waited = 0.2, 0.0
        while True:
            try:
                return await what()
            except StoreUnavailable:
                if waited > seconds:
                    raise
                logger.warning("store_unavailable", extra={"trying_again_in": pause})
            await anyio.sleep(pause)
            waited += pause
            pause = min(2.0, pause * 2)


def _first(raised: BaseException) -> BaseException:
    """What went wrong where several things were done side by side: the first of it says why."""
    while isinstance(raised, BaseExceptionGroup):
        raised = raised.exceptions[0]
    return raised


_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d+")


def _kind_of_step(name: str) -> str:
    """A step's name without the ids and numbers that differ between sessions."""
    return "/".join(part for part in _IDS.sub("", name).split("/") if part)


class _NoRoom(Exception):
    """As many sessions run as may."""


class _Suspected(Exception):
    """It may have killed its workers, and has to wait for its last try."""
