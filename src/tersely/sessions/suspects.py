"""The child processes of a worker in which suspects run: started, watched and judged.

A suspect is a session whose workers crashed repeatedly without progress. A child process
runs one suspect at a time, so its end says something about that one:

* It **dies** while its parent lives: the session ends as failed, with that proof.
* It **hangs**, i.e. sends no heartbeat while its parent's are stored: it is killed. If it
  was computing meanwhile, that counts as a crash, and the second one is proof: on a busy
  machine a sound session, too, may compute for so long once. One that was stopped or got
  no CPU proves nothing, and the session is tried again until its time limit.
* Its **parent dies**: nothing is proven, and `sessions.worker` tries it again.

Several children run at once, so that one long suspect does not delay the others. They
start one after the other, because a start takes seconds of CPU.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import anyio
import anyio.abc

from tersely.errors import LostSession, SessionNotFound, StoreUnavailable
from tersely.sessions.durable import Engine
from tersely.store import claims, executors, liveness
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tersely.store.retrying import retry_while_unavailable

logger = logging.getLogger(__name__)

SUSPECTED_AFTER = 2
"""Crashes in a row without progress after which a session runs in a child process."""

MOST_CHILDREN = 3
START_SECONDS = 120.0
"""How long a child process may take until its first heartbeat, and from its last one to its end."""

HANGS_AFTER = 0.75
"""Leases without a heartbeat after which a child process is killed: before other workers count it as dead."""

COMPUTING = 0.25
"""The share of that time which a child process must have spent computing, so that the hang counts."""

_CHILD = re.compile(r"-child\d+(?=$|" + re.escape(liveness.LOCKED) + ")")
_WATCHES = 10
"""How often a child process is looked at until it counts as hanging."""


class ChildProcess(Protocol):
    """A process that works on suspects until there are none."""

    async def wait(self) -> int:
        """The exit code; 0: it ended in order."""

    def cpu_seconds(self) -> float:
        """CPU time that it has used; always 0 where the system does not tell."""

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(eq=False)
class _Child:
    name: str
    process: ChildProcess | None = None
    hung: str = ""
    """How it hung, if it was killed for that."""

    is_proof: bool = True
    """Whether its end says something about the session that it ran."""


@dataclass(kw_only=True)
class SuspectProcesses:
    """The child processes of one worker."""

    database: Database
    engine: Engine
    parent: str
    """The name of the worker."""

    lease: float
    start: Callable[[str], Awaitable[ChildProcess]]
    """Starts a child process with a worker of this name."""

    end_session: Callable[[str, SessionEnd], Awaitable[None]]
    last_heartbeat: Callable[[], datetime | None]
    """When the parent's last heartbeat was stored, by the database's clock."""

    tasks: anyio.abc.TaskGroup
    is_leaving: bool = False
    _children: dict[str, _Child] = field(default_factory=dict)
    _started: int = 0

    @property
    def names(self) -> set[str]:
        """The names of the workers in the child processes."""
        return set(self._children)

    def leave(self) -> None:
        """Start no more child processes, and let the running ones release their sessions."""
        self.is_leaving = True
        for child in self._children.values():
            if child.process:
                with suppress(ProcessLookupError):
                    child.process.terminate()

    async def start_if_needed(self) -> None:
        """Start a child process if suspects wait for one."""
        if self.is_leaving or not (waiting := await self.engine.count_suspects()):
            return
        busy = self.names & set((await self.engine.started()).values())
        if len(self._children) >= min(MOST_CHILDREN, waiting + len(busy)):
            return
        async with self.database.reading() as db:
            registered = await executors.registered(db)
        if self.names - registered.keys():
            return  # One after the other: together they would slow down each other and the worker.
        self._started += 1
        base = self.parent.removesuffix(liveness.LOCKED)
        child = _Child(f"{base}-child{self._started}{self.parent.removeprefix(base)}")
        self._children[child.name] = child
        self.tasks.start_soon(self._run, child)

    async def _run(self, child: _Child) -> None:
        try:
            child.process = process = await self.start(child.name)
            try:
                async with anyio.create_task_group() as watching:
                    watching.start_soon(self._kill_if_it_hangs, child, process)
                    code = await process.wait()
                    watching.cancel_scope.cancel()
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                with anyio.CancelScope(shield=True):
                    await process.aclose()
            if not self.is_leaving:
                await retry_while_unavailable(lambda: self._judge(child, code))
        except Exception as problem:
            # A broad catch: the worker continues with its own sessions.
            logger.error("suspect_process_failed", extra={"executor": child.name}, exc_info=problem)
            await anyio.sleep(5)
        finally:
            del self._children[child.name]

    async def _kill_if_it_hangs(self, child: _Child, process: ChildProcess) -> None:
        limit = self.lease * HANGS_AFTER
        pause = limit / _WATCHES
        seen: datetime | None = None
        used, silent = 0.0, 0
        while True:
            await anyio.sleep(pause)
            try:
                async with self.database.reading() as db:
                    now_seen = (await executors.registered(db)).get(child.name)
            except StoreUnavailable:
                silent = 0
                continue
            own = self.last_heartbeat()
            if now_seen != seen or (now_seen and own and (own - now_seen).total_seconds() < 0):
                seen, used, silent = now_seen, process.cpu_seconds(), 0
                continue
            # Counted, not timed: a parent that was stopped itself has seen nothing.
            silent += 1
            computed = process.cpu_seconds() - used
            if silent * pause < (limit if seen else START_SECONDS):
                continue
            if seen and (own is None or (own - seen).total_seconds() < limit / 2):
                continue  # The parent's heartbeats are not stored either.
            child.is_proof = bool(seen) and computed >= limit * COMPUTING
            child.hung = f"it hung for {limit:.3g} s, in which it computed for {computed:.3g} s"
            logger.warning("suspect_process_hung", extra={"executor": child.name, "computed": computed})
            process.kill()
            return

    async def _judge(self, child: _Child, code: int) -> None:
        """Queue the sessions of a child process again that has ended; end the one that made it crash or hang."""
        mine = [session_id for session_id, name in (await self.engine.started()).items() if name == child.name]
        async with self.database.transaction() as db:
            held = await executors.held(db, child.name)
        for session_id in mine:
            if session_id not in held:
                continue
            # It may have ended meanwhile, or the answer to its end was lost. Its workflow has to end all the same.
            with suppress(LostSession, SessionNotFound):
                if code and child.is_proof:
                    await self._record_crash(session_id, child, code)
                else:
                    async with self.database.transaction() as db:
                        await claims.release(db, session_id, held[session_id])
        await self.engine.requeue(mine, taken_from=child.name)
        async with self.database.transaction() as db:
            await executors.unregister(db, child.name)

    async def _record_crash(self, session_id: str, child: _Child, code: int) -> None:
        async with self.database.transaction() as db:
            crashes = await claims.record_crash(db, session_id, child.name)
        if crashes is None or crashes <= SUSPECTED_AFTER + bool(child.hung):
            return  # It ended, made progress since the previous crash, or hung for the first time.
        how = child.hung or ("it crashed too, with " + (f"signal {-code}" if code < 0 else f"exit code {code}"))
        before = f"{crashes - 1} {'crashes or hangs' if child.hung else 'crashes'} of its workers"
        reason = (
            f"It was set aside: after {before} without progress it ran alone in a process, "
            f"and {how}. It can be run again."
        )
        logger.error("session_convicted", extra={"session_id": session_id, "executor": child.name, "code": code})
        await self.end_session(session_id, SessionEnd(status="failed", reason=reason))


def parent_of(executor: str) -> str | None:
    """The worker whose child process this one is; None if it is not in a child process."""
    parent, count = _CHILD.subn("", executor)
    return parent if count else None
