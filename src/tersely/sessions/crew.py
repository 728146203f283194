"""This process as a worker: it takes sessions, is seen alive, stops when asked, and goes on with what the dead left.

* It **takes** a session with `claim`, which raises the session's attempt. Whoever
  worked on it before can write nothing from then on.
* It is **seen** every third of a lease. Sessions of a process that was not seen
  for a lease are queued again, by one survivor at a time.
* It **stops** a session when somebody cancels it, when its time is over, when it
  belongs to somebody else, or when the process is told to leave. In the last two
  cases the session has no end yet: it is gone on with elsewhere.

What is done for a session is handed in by its kind (`works`); how steps are
remembered is `sessions.durable`.
"""

import logging
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, TypeVar

import anyio
import anyio.lowlevel

from tersely.errors import LostSession, StoreUnavailable, TerselyError
from tersely.events.bus import Bus
from tersely.events.diary import SessionDiary
from tersely.faults import crash_point, place_of
from tersely.sessions.durable import Engine, Interrupted, stored_step
from tersely.store import executors
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.sessions import Session
from tersely.text.masked import Masked, assume_masked
from tersely.tools.mask import Masker

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_DEATHS = 3
LOOK_SECONDS = 0.5
"""Between two looks for sessions that are to be stopped here."""

FORGOTTEN_SECONDS = 5.0
"""After which a session that nobody works on may have been forgotten: whoever accepted it died before it was queued."""

Stop = Literal["cancel", "lost", "leave"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a session's work ended."""

    status: Literal["completed", "failed"]
    reason: str = ""
    analysis: Masked = assume_masked("")  # noqa: RUF009 — it is a str


class Work(Protocol):
    """What is done for a session of some kind."""

    async def __call__(self, session: Session, diary: SessionDiary) -> Outcome: ...


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long things may take."""

    lease: float = 30.0
    session: float = 3600.0
    grace: float = 30.0


@dataclass
class _Running:
    scope: anyio.CancelScope
    diary: SessionDiary | None = None
    stop: Stop | None = None
    stopped: anyio.Event = field(default_factory=anyio.Event)

    def halt(self, why: Stop) -> None:
        if self.stop is None or why == "lost":
            self.stop = why
            if self.diary and why != "cancel":
                # Its open events are not ended here: whoever goes on with the session goes on with them.
                self.diary.let_go()
        self.scope.cancel()


_current: ContextVar[_Running] = ContextVar("the session that is running")


@dataclass
class Crew:
    """Use `Crew.at_work`."""

    database: Database
    bus: Bus
    works: Mapping[str, Work]
    pace: Pace
    version: str
    name: str = field(default_factory=lambda: f"{socket.gethostname()[:24]}-{uuid.uuid4().hex[:12]}")
    """Of this process: never used before, never again."""

    leaving: bool = False
    _running: dict[str, _Running] = field(default_factory=dict)
    _engine: Engine | None = None

    @asynccontextmanager
    async def at_work(self, database_url: str, *, at_once: int, poll: float) -> AsyncIterator[Engine]:
        """Work on queued sessions for as long as the block lasts; then leave in good order."""
        await self._beat()
        async with (
            Engine.launched(database_url, executor=self.name, at_once=at_once, poll=poll, work=self._work) as engine,
            anyio.create_task_group() as group,
        ):
            self._engine = engine
            group.start_soon(self._again_and_again, self._beat, self.pace.lease / 3)
            group.start_soon(self._again_and_again, self._look, LOOK_SECONDS)
            group.start_soon(self._again_and_again, self._take_over, min(1.0, self.pace.lease / 4))
            group.start_soon(self._again_and_again, self._queue_forgotten, FORGOTTEN_SECONDS)
            try:
                yield engine
            finally:
                with anyio.CancelScope(shield=True):
                    await self.leave()
                group.cancel_scope.cancel()

    @property
    def running(self) -> list[str]:
        """Sessions that are worked on here."""
        return list(self._running)

    def cancel_here(self, session_id: str) -> bool:
        """Stop a session if it runs in this process, without waiting for the next look."""
        return self._stop(session_id, "cancel")

    async def step(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        """A remembered step of the session that is running. None begins in a process that is about to leave."""
        running = _current.get()
        if self.leaving:
            running.halt("leave")
            await anyio.lowlevel.checkpoint()
        place = place_of(name)

        async def piece() -> T:
            crash_point(f"before {place}")
            result = await self._patiently(work)
            crash_point(f"after {place}, before it is stored")
            return result

        result = await stored_step(name, piece)
        crash_point(f"after {place} is stored")
        return result

    async def leave(self) -> None:
        """Take nothing new, let running steps finish, give back the rest."""
        if self.leaving:
            return
        self.leaving = True
        if self._engine:
            self._engine.take_no_more()
        await self._patiently(self._beat, seconds=2)
        with anyio.move_on_after(self.pace.grace * 0.8):
            await self._all_stopped()
        for session_id in self.running:
            self._stop(session_id, "leave")
        with anyio.move_on_after(self.pace.grace * 0.2):
            await self._all_stopped()
        await self._patiently(self._gone, seconds=5)
        logger.info("left", extra={"executor": self.name, "still_running": len(self._running)})

    async def _all_stopped(self) -> None:
        while self._running:
            stopped = [running.stopped for running in self._running.values()]
            for event in stopped:
                await event.wait()

    # One session

    async def _work(self, session_id: str) -> None:
        """The workflow of a session, from wherever it stands to its end."""
        if self.leaving:
            raise Interrupted
        running = _Running(anyio.CancelScope())
        self._running[session_id] = running
        _current.set(running)
        try:
            with running.scope:
                await self._to_its_end(session_id, running)
                return
        except LostSession:
            running.stop = "lost"
        finally:
            self._running.pop(session_id, None)
            running.stopped.set()
        # Stopped. Only a cancelled session has its end; the others go on elsewhere.
        if running.stop == "cancel":
            attempt = running.diary.attempt if running.diary else None
            await self._patiently(lambda: self._end_cancelled(session_id, attempt))
            return
        if running.stop == "leave" and running.diary:
            attempt = running.diary.attempt
            await self._patiently(lambda: self._give_back(session_id, attempt), seconds=5)
        logger.info("session_left", extra={"session_id": session_id, "why": running.stop})
        raise Interrupted

    async def _to_its_end(self, session_id: str, running: _Running) -> None:
        crash_point("before claim")
        session = await self._patiently(lambda: self._claim(session_id))
        crash_point("after claim")
        if session is None:
            return  # It has its end; only the engine did not know.
        running.diary = diary = SessionDiary(self.database, self.bus, session_id, session.attempt)
        if session.status == "cancelling":
            await self._end(session_id, session.attempt, "cancelled", session.reason or "Cancelled on request.")
            return
        if session.deaths >= MOST_DEATHS:
            reason = f"Processes that worked on it died {session.deaths} times in a row at the same point, so it was given up."
            await self._end(session_id, session.attempt, "failed", reason)
            return
        work = self.works.get(session.kind)
        if work is None:
            await self._end(session_id, session.attempt, "failed", f"This version does not know sessions of kind {session.kind!r}.")
            return
        since_start = (datetime.now(UTC) - (session.started_at or datetime.now(UTC))).total_seconds()
        with anyio.move_on_after(max(0.0, self.pace.session - since_start)) as limit:
            outcome = await self._outcome(work, session, diary)
        if limit.cancelled_caught:
            reason = f"It took longer than {self.pace.session:g} s, the time limit of a session."
            await self._end(session_id, session.attempt, "timed_out", reason)
            return
        await self._end(session_id, session.attempt, outcome.status, outcome.reason, outcome.analysis)

    async def _outcome(self, work: Work, session: Session, diary: SessionDiary) -> Outcome:
        try:
            return await work(session, diary)
        except LostSession:
            raise
        except TerselyError as problem:
            logger.warning("session_failed", extra={"session_id": session.id, "reason": str(problem)})
            return Outcome(status="failed", reason=Masker(key=session.mark_key).mask(str(problem))[:2000])
        except Exception as problem:
            logger.error("session_broke", extra={"session_id": session.id}, exc_info=problem)
            return Outcome(status="failed", reason=f"An error of our own ({type(problem).__name__}); the log has its trace.")

    async def _claim(self, session_id: str) -> Session | None:
        try:
            async with self.database.transaction() as db:
                claim = await rows.claim(db, session_id, self.name, now=datetime.now(UTC))
                session = await rows.find(db, session_id)
        except LostSession:
            return None
        self.bus.publish(*claim.told)
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
                told = await rows.end_all(db, session_id, attempt, status, reason, analysis=analysis, now=datetime.now(UTC))
            self.bus.publish(*told)

        # An end that was reached is written, whoever has lost patience meanwhile.
        crash_point("before the end is written")
        with anyio.CancelScope(shield=True):
            await self._patiently(end)
        crash_point("after the end is written")
        logger.info("session_ended", extra={"session_id": session_id, "status": status, "reason": reason})

    async def _end_cancelled(self, session_id: str, attempt: int | None) -> None:
        async with self.database.reading() as db:
            session = await rows.find(db, session_id)
        await self._end(session_id, attempt, "cancelled", session.reason or "Cancelled on request.")

    async def _give_back(self, session_id: str, attempt: int) -> None:
        async with self.database.transaction() as db:
            await rows.release(db, session_id, attempt)

    # All sessions

    def _stop(self, session_id: str, why: Stop) -> bool:
        running = self._running.get(session_id)
        if running is None:
            return False
        running.halt(why)
        return True

    async def _beat(self) -> None:
        async with self.database.transaction() as db:
            await rows.heartbeat(db, self.name, host=socket.gethostname(), version=self.version, leaving=self.leaving)

    async def _gone(self) -> None:
        async with self.database.transaction() as db:
            await executors.gone(db, self.name)

    async def _look(self) -> None:
        """Stop what is to be stopped."""
        async with self.database.reading() as db:
            cancelled = await executors.to_be_cancelled(db, self.name)
            lost = await executors.lost(db, self.name, self.running)
        for session_id in lost:
            self._stop(session_id, "lost")
        for session_id in cancelled:
            self._stop(session_id, "cancel")

    async def _take_over(self) -> None:
        """Queue what the dead were working on."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        async with self.database.transaction() as db:
            if not await executors.only_one_takes_over(db):
                return
            dead = await rows.dead(db, lease=self.pace.lease)
            # On SQLite only one process works: whoever else is named there is gone.
            alive = [] if self.database.is_sqlite else [one.id for one in await rows.alive(db, lease=self.pace.lease)]
            left = await engine.running_elsewhere({*alive, self.name})
            for session_id, executor in left.items():
                await rows.record_death(db, session_id, executor)
            if left:
                crash_point("before requeue")
                await engine.requeue(list(left))
                crash_point("after requeue")
                logger.warning("taken_over", extra={"sessions": len(left), "from": sorted(set(left.values()))})
            for executor in dead:
                if executor != self.name:
                    await rows.forget_executor(db, executor)

    async def _queue_forgotten(self) -> None:
        """Queue what was accepted by somebody who died before it was queued; end what the engine gave up."""
        engine = self._engine
        if engine is None or self.leaving:
            return
        async with self.database.reading() as db:
            waiting = await executors.waiting(db, since=datetime.now(UTC) - timedelta(seconds=FORGOTTEN_SECONDS))
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
            except LostSession:
                pass  # Somebody else was faster, which is as good.
            await anyio.sleep(seconds)

    async def _patiently(self, what: Callable[[], Awaitable[T]], *, seconds: float = 600.0) -> T:
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
            pause = min(5.0, pause * 2)
