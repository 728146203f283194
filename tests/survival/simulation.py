"""Thousands of bad days in one process: a virtual clock, and faults drawn from a seed.

Real here: the worker, the recorder, the bus, agents' steps side by side, and every statement
of the store, on an SQLite in memory. Played: the workflow engine (`Engine`, with the
rules of `sessions.durable` that the worker relies on), processes (they are killed, frozen
and told to leave), the agent (scripted steps) and its model. What the real engine, real
signals and real databases do is the business of `scenarios`.

A run is decided by its seed alone; a violation is repeated with
`python -m tests.survival.simulation --seed N`.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, TypeVar, cast

import anyio
import sqlalchemy as sa

from tersely.agent.ordered_gather import ordered_gather
from tersely.agent.tool_executor import Step
from tersely.errors import LostSession, StoreUnavailable
from tersely.events import log
from tersely.events.bus import Bus
from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.sessions.codec import RecordCodec
from tersely.sessions.records import SESSION_TYPES
from tersely.sessions.worker import SessionOutcome, Worker, WorkerTimeouts
from tersely.store import sessions as rows
from tersely.store.database import Database, DatabaseClock
from tersely.store.health import DatabaseHealth
from tersely.store.sessions import NewSession, Session
from tersely.store.tables import metadata
from tests.survival.checker import ENDS, Violation, check
from tests.survival.history import History

T = TypeVar("T")
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LEASE = 2.0
LONGEST = 400.0
"""Virtual seconds after which everything must have ended."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """When every task waits, time jumps to the next deadline."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector.select = self._skip  # type: ignore[attr-defined]

    def time(self) -> float:
        return self.now

    def _skip(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everybody waits for something that cannot come")
        self.now += timeout
        return []


class Ended(asyncio.CancelledError):
    """The process that wanted something is not there any more."""


@dataclass
class Process:
    """What a killed process asks for never happens; a frozen one's happens later."""

    number: int
    is_dead: bool = False
    frozen_until: float = 0.0
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    worker: Worker | None = None
    gone: anyio.Event = field(default_factory=anyio.Event)
    children: list["Process"] = field(default_factory=list)
    code: int = -9
    """How it ended; -9: it was killed."""

    async def passes(self) -> None:
        while not self.is_dead and anyio.current_time() < self.frozen_until:
            await anyio.sleep_until(self.frozen_until)
        if self.is_dead:
            raise Ended

    def kill(self) -> None:
        self.is_dead = True
        self.scope.cancel()
        for child in self.children:
            child.kill()

    # As a child process, for its parent

    async def wait(self) -> int:
        await self.gone.wait()
        return self.code

    def cpu_seconds(self) -> float:
        return 0.0

    def terminate(self) -> None:
        self.leaves.set()

    leaves: anyio.Event = field(default_factory=anyio.Event)

    async def aclose(self) -> None:
        self.kill()


@cache
def _connected() -> sa.Connection:
    """One database in memory for all runs, wiped before each: statements are compiled once."""
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    sa.event.listen(engine, "connect", lambda connection, record: setattr(connection, "isolation_level", None))
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    connection = engine.connect()
    metadata.create_all(connection)
    connection.commit()
    return connection


class World:
    """The store, the queue and the clock that all processes share."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.history = History()
        self.limit = self.draw.choice((1, 2, 3))
        self.clock_is_off = 0.0
        self.away_until = 0.0
        self.trouble = self.draw.choice((0.0, 0.0, 0.02, 0.1))
        """Share of transactions that fail, half of them after they were committed."""

        self.overbooks = self.draw.random() < 0.3
        self.lock = anyio.Lock()
        self.connection = _connected()
        raw: Any = self.connection.connection.driver_connection
        raw.create_function("strftime", -1, self._strftime)
        for table in reversed(metadata.sorted_tables):
            raw.execute(f"DELETE FROM {table.name}")
        self.queue: dict[str, Queued] = {}
        self.poison: set[str] = set()
        self.history.records.append(
            {"kind": "run", "at": 0.0, "seed": seed, "limit": self.limit, "lease": LEASE, "store": "simulated"}
        )

    def _strftime(self, form: str, moment: str, shift: str = "+0 seconds") -> str:
        at = self.database_time() + timedelta(seconds=float(shift.split()[0]))
        return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"

    def database_time(self) -> datetime:
        return NOON + timedelta(seconds=anyio.current_time() + self.clock_is_off)

    def asked(self, question: str) -> list[Any]:
        """Looked up beside whatever transaction is going on."""
        connection: Any = self.connection.connection.driver_connection
        return list(connection.execute(question))

    def note(self, kind: str, **fields: Any) -> None:
        self.history.records.append({"kind": kind, "at": anyio.current_time(), **fields})

    def answers(self) -> None:
        if anyio.current_time() < self.away_until or self.draw.random() < self.trouble / 2:
            raise StoreUnavailable("it is away")

    def was_heard(self) -> None:
        if self.draw.random() < self.trouble / 2:
            raise StoreUnavailable("it was done, and nobody heard of it")


class Statements:
    """A connection as the store's functions know it, without threads."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect

    async def execute(self, *words: Any) -> Any:
        return self._connection.execute(*words)

    async def scalar(self, *words: Any) -> Any:
        return self._connection.scalar(*words)

    async def scalars(self, *words: Any) -> Any:
        return self._connection.scalars(*words)


class Store:
    """`Database` for one process."""

    is_sqlite = False

    def __init__(self, world: World, process: Process) -> None:
        self._world, self._process = world, process
        self.clock = DatabaseClock(counted=asyncio.get_running_loop().time)
        self.health = DatabaseHealth()  # Nobody reports to it: here every task finds out by itself.

    @asynccontextmanager
    async def transaction(self, **how: bool) -> AsyncIterator[Statements]:
        world, process = self._world, self._process
        await anyio.sleep(world.draw.uniform(0, 0.004))
        await process.passes()
        with anyio.CancelScope(shield=True):
            async with world.lock:
                world.answers()
                began = world.connection.begin()
                try:
                    yield Statements(world.connection)
                    if process.is_dead:
                        raise Ended
                    began.commit()
                except BaseException:
                    began.rollback()
                    raise
            world.was_heard()
        await process.passes()

    reading = transaction


@dataclass
class Queued:
    status: str = "ENQUEUED"
    is_suspect: bool = False
    executor: str = ""
    owner: int = 0
    steps: dict[int, tuple[str, Any]] = field(default_factory=dict)


@dataclass
class _Run:
    session_id: str
    owner: int
    begun: int = 0


_run: ContextVar[_Run] = ContextVar("the workflow that runs")


class PlayedEngine:
    """The workflow engine's rules: a workflow has one owner, and only the owner's steps and end are stored."""

    def __init__(self, world: World, process: Process, executor: str, suspects: bool = False) -> None:
        self.world, self.process, self.executor = world, process, executor
        self.suspects = suspects
        self.takes = True

    @classmethod
    def launched_in(cls, world: World, process: Process) -> Any:
        @asynccontextmanager
        async def launched(
            database_url: str,
            *,
            codec: RecordCodec,
            executor: str,
            at_once: int,
            poll: float,
            work: Callable[[str], Awaitable[None]],
            health: DatabaseHealth,
            suspects: bool = False,
        ) -> AsyncIterator[PlayedEngine]:
            engine = cls(world, process, executor, suspects)
            tasks: set[asyncio.Task[None]] = set()
            poller = asyncio.create_task(engine._poll(at_once, poll, work, tasks))
            try:
                yield engine
            finally:
                for task in (poller, *tasks):
                    task.cancel()
                await asyncio.wait((poller, *tasks))

        return launched

    async def _poll(
        self, at_once: int, poll: float, work: Callable[[str], Awaitable[None]], tasks: set["asyncio.Task[None]"]
    ) -> None:
        draw, queue = self.world.draw, self.world.queue
        while self.takes:
            await anyio.sleep(poll * draw.uniform(0.9, 1.1))
            await self.process.passes()
            with suppress(StoreUnavailable):
                self.world.answers()
                begun = sum(one.status == "PENDING" for one in queue.values())
                # The real engine may count before another process's claim is visible.
                room = at_once - begun + (1 if self.world.overbooks and draw.random() < 0.3 else 0)
                if self.suspects:
                    room = min(room, 1 - len(tasks))
                taken = [
                    session_id
                    for session_id, one in queue.items()
                    if one.status == "ENQUEUED" and one.is_suspect == self.suspects
                ][: max(0, room)]
                for session_id in taken:
                    one = queue[session_id]
                    one.status, one.executor, one.owner = "PENDING", self.executor, one.owner + 1
                self.world.was_heard()
                for session_id in taken:
                    task = asyncio.create_task(self._execute(session_id, queue[session_id].owner, work))
                    tasks.add(task)
                    task.add_done_callback(tasks.discard)

    async def _execute(self, session_id: str, owner: int, work: Callable[[str], Awaitable[None]]) -> None:
        _run.set(_Run(session_id, owner))
        await work(session_id)
        await self.process.passes()
        one = self.world.queue[session_id]
        if one.status == "PENDING" and one.owner == owner and self.world.draw.random() >= self.world.trouble:
            one.status = "SUCCESS"

    async def _answering(self) -> None:
        await anyio.sleep(self.world.draw.uniform(0, 0.004))
        await self.process.passes()
        self.world.answers()

    async def enqueue(self, session_id: str) -> None:
        await self._answering()
        self.world.queue.setdefault(session_id, Queued())
        self.world.was_heard()

    async def cancel(self, session_id: str) -> None:
        await self._answering()
        if (one := self.world.queue.get(session_id)) and one.status != "SUCCESS":
            one.status = "CANCELLED"

    async def started(self) -> dict[str, str]:
        await self._answering()
        return {session_id: one.executor for session_id, one in self.world.queue.items() if one.status == "PENDING"}

    async def has_started(self, session_id: str, executor: str) -> bool:
        await self._answering()
        one = self.world.queue[session_id]
        return one.status == "PENDING" and one.executor == executor

    async def requeue(self, session_ids: Any, *, taken_from: str, is_suspect: bool = False) -> None:
        await self._answering()
        for session_id in session_ids:
            one = self.world.queue[session_id]
            if one.status == "PENDING" and one.executor == taken_from:
                one.status, one.owner, one.is_suspect = "ENQUEUED", one.owner + 1, is_suspect
        self.world.was_heard()

    async def set_aside(self, session_id: str, *, taken_from: str) -> None:
        await self.requeue([session_id], taken_from=taken_from, is_suspect=True)

    async def count_suspects(self) -> int:
        await self._answering()
        return sum(one.status == "ENQUEUED" and one.is_suspect for one in self.world.queue.values())

    async def readmit_suspects(self, *, except_for: Any = ()) -> list[str]:
        await self._answering()
        moved = [
            session_id
            for session_id, one in self.world.queue.items()
            if one.status == "ENQUEUED" and one.is_suspect and session_id not in except_for
        ]
        for session_id in moved:
            self.world.queue[session_id].is_suspect = False
        return moved

    async def adopt(self) -> int:
        return 0

    async def states(self, session_ids: Any) -> dict[str, str]:
        await self._answering()
        known = {
            session_id: self.world.queue[session_id] for session_id in session_ids if session_id in self.world.queue
        }
        return {
            session_id: "open" if one.status in ("ENQUEUED", "PENDING") else "ended"
            for session_id, one in known.items()
        }

    def stop_dequeuing(self) -> None:
        self.takes = False

    async def step(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        run = _run.get()
        run.begun += 1
        number, one = run.begun, self.world.queue[run.session_id]
        if number in one.steps:
            stored, result = one.steps[number]
            if stored != name:
                self.world.note("left", session=run.session_id, where=f"a replay asked for {name} and found {stored}")
            return cast(T, result)
        result = await work()
        await self.process.passes()
        while self.world.draw.random() < self.world.trouble / 4:
            # Its work is not done again.
            await anyio.sleep(0.2)
            await self.process.passes()
        if one.owner != run.owner or one.status != "PENDING":
            raise LostSession(name)
        one.steps[number] = (name, result)
        self.world.note("step", session=run.session_id, name=name, began=0.0, stored=anyio.current_time())
        return result


@dataclass
class ScriptedAgent:
    """Asks, looks at two things side by side, concludes: as agents do, with steps and events of the same shape."""

    world: World
    process: Process
    looks: int

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        worker = self.process.worker
        assert worker is not None
        self.world.note("claim", session=session.id, attempt=session.attempt, executor=worker.name)
        (stage,) = await recorder.plan(["look"])
        inner = recorder.within(stage, rows.derived_id(session.id, "execution/0"))
        await inner.stage_status(stage, "in_progress")
        await inner.execution_began(agent="a", controller="c", provider="p", model="m")
        for iteration in range(1, self.looks + 1):
            name = f"s/{iteration}/model"
            await worker.step(name, partial(self._ask, session, inner, name))

            async def look(number: int, in_turn: Step, iteration: int = iteration) -> None:
                name = f"s/{iteration}/{number}/call"
                await in_turn(name, partial(self._look, session, inner, name))
                if number == 1:
                    name = f"s/{iteration}/{number}/condense"
                    await in_turn(name, partial(self._ask, session, inner, name))

            await ordered_gather(worker.step, [partial(look, number) for number in (1, 2)])
        await inner.execution_ended("completed")
        await inner.stage_status(stage, "completed", analysis="done")
        return SessionOutcome(status="completed", analysis=assume_masked("done"))

    async def _ask(self, session: Session, recorder: SessionRecorder, name: str) -> str:
        self._called(session, name)
        async with recorder.opened(name, "llm_response") as event:
            for word in range(2):
                await self._takes_a_while(0.3)
                event.delta(assume_masked(f"word {word} "))
            await event.complete(assume_masked("said"))
        return "said"

    async def _look(self, session: Session, recorder: SessionRecorder, name: str) -> str:
        self._called(session, name)
        async with recorder.opened(name, "llm_tool_call", metadata={"tool_name": "look"}) as event:
            await self._takes_a_while(0.5)
            if session.id in self.world.poison:
                self.world.note("fault", what="poison", executor=self.process.worker and self.process.worker.name)
                self.process.kill()
                await self.process.passes()
            await event.complete(assume_masked("seen"))
        return "seen"

    async def _takes_a_while(self, seconds: float) -> None:
        await anyio.sleep(self.world.draw.uniform(0, seconds))
        await self.process.passes()

    def _called(self, session: Session, name: str) -> None:
        parts = name.split("/")
        what = "model" if name.endswith("model") else "tool" if name.endswith("/1/call") else "summary"
        self.world.note("call", what=what, case=session.id, number=int(parts[1]) - 1)


# A day


async def _live(world: World, process: Process, looks: int, suspects_worker: str = "") -> None:
    """A process, from its start to its end; or the child process of one."""
    store = cast(Database, Store(world, process))
    bus = Bus(store)
    agent = ScriptedAgent(world, process, looks)
    name = suspects_worker or f"p{process.number}"

    async def start_child(name: str) -> Process:
        child = Process(process.number)
        process.children.append(child)
        asyncio.get_running_loop().create_task(_live(world, child, looks, name))
        return child

    process.worker = worker = Worker(
        codec=RecordCodec(SESSION_TYPES),
        database=store,
        bus=bus,
        works={"investigation": agent},
        timeouts=WorkerTimeouts(lease=LEASE, grace=2, session=120),
        version="1",
        name=name,
        hold_lock=_no_lock,
        launch=PlayedEngine.launched_in(world, process),
        start_child=None if suspects_worker else start_child,
        takes_suspects=bool(suspects_worker),
    )
    try:
        with process.scope, suppress(StoreUnavailable):
            while True:
                try:
                    async with worker.running("", at_once=world.limit, poll=0.1):
                        if suspects_worker:
                            with anyio.move_on_after(LONGEST):
                                process.code = 0 if await _ended_in_order(process, worker) else 70
                            return
                        await anyio.sleep_forever()
                except StoreUnavailable:
                    await anyio.sleep(0.5)  # It is started again, until its store answers.
    except Ended:
        pass
    finally:
        process.gone.set()


@asynccontextmanager
async def _no_lock(database: Database, name: str) -> AsyncIterator[None]:
    """As behind a connection pooler: only leases count."""
    yield None


async def _ended_in_order(process: Process, worker: Worker) -> bool:
    """As `tersely suspects` does it."""
    in_order = True

    async def until_told() -> None:
        await process.leaves.wait()
        await worker.leave()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(until_told)
        in_order = await worker.until_idle()
        group.cancel_scope.cancel()
    return in_order


async def _leaves(process: Process) -> None:
    if process.worker and not process.is_dead:
        with suppress(Ended):
            await process.worker.leave()
        process.scope.cancel()


async def day(seed: int) -> History:
    """A run: sessions, faults, and afterwards quiet until everything has ended."""
    world = World(seed)
    draw = world.draw
    looks = draw.choice((1, 1, 2))
    processes: list[Process] = []
    async with anyio.create_task_group() as group:

        def start() -> None:
            processes.append(Process(len(processes) + 1))
            group.start_soon(_live, world, processes[-1], looks)

        for _ in range(draw.choice((1, 2, 3))):
            start()
        sessions = [
            await _submitted(world, processes, expected="completed|failed|given up|timed_out")
            for _ in range(draw.randint(1, 3))
        ]
        if draw.random() < 0.1:
            world.poison.add(draw.choice(sessions))
        for _ in range(draw.randint(0, 4)):
            await anyio.sleep(draw.uniform(0, 2.5))
            await _something_happens(world, processes, sessions, start, group)
        world.trouble, world.away_until = min(world.trouble, 0.02), 0.0
        while anyio.current_time() < LONGEST:
            if all(process.gone.is_set() for process in processes):
                start()
            if _all_ended(world):
                break
            await anyio.sleep(0.5)
        world.trouble = 0.0
        for _ in range(20):
            if all(one.status in ("SUCCESS", "CANCELLED") for one in world.queue.values()):
                break
            await anyio.sleep(0.5)
            if all(process.gone.is_set() for process in processes):
                start()  # The last one was killed after the last session's end: the queue needs somebody to notice.
        _look_back(world)
        for process in processes:
            process.kill()
        group.cancel_scope.cancel()
    return world.history


async def _submitted(world: World, processes: list[Process], expected: str) -> str:
    """As the intake does it: the row first, then the queue; the process may die in between."""
    session_id = str(uuid.UUID(int=world.draw.getrandbits(128), version=4))
    new = NewSession(
        id=session_id,
        scope="me",
        kind="investigation",
        alert_type="default",
        chain="default",
        title="t",
        alert="a",
        encoding="o200k_base",
        mark_key=b"k" * 32,
    )
    store = Store(world, Process(0))
    while True:
        try:
            async with store.transaction() as db:
                if not await rows.exists(cast(Any, db), session_id):
                    await log.create_session(cast(Any, db), new, now=world.database_time())
            break
        except StoreUnavailable:
            await anyio.sleep(0.1)
    world.note("submit", session=session_id, case=session_id, accepted=True, expected=expected)
    if world.draw.random() < 0.9:
        with suppress(StoreUnavailable):
            await PlayedEngine(world, Process(0), "intake").enqueue(session_id)
    return session_id


async def _something_happens(
    world: World, processes: list[Process], sessions: list[str], start: Callable[[], None], group: anyio.abc.TaskGroup
) -> None:
    draw = world.draw
    living = [process for process in processes if not process.is_dead and process.worker]
    what = draw.choice(("kill", "kill", "freeze", "leave", "outage", "clock", "cancel", "start"))
    if what in ("kill", "freeze", "leave") and not living:
        return
    world.note("fault", what=what)
    match what:
        case "kill":
            draw.choice(living).kill()
            if draw.random() < 0.7:
                start()
        case "freeze":
            draw.choice(living).frozen_until = anyio.current_time() + draw.uniform(0.5, 3) * LEASE
        case "leave":
            group.start_soon(_leaves, draw.choice(living))
            start()
        case "outage":
            world.away_until = anyio.current_time() + draw.uniform(0.2, 2 * LEASE)
        case "clock":
            world.clock_is_off += draw.choice((3600.0, -3600.0, 600.0, -600.0))
        case "cancel":
            session_id = draw.choice(sessions)
            store = Store(world, Process(0))
            with suppress(StoreUnavailable):
                async with store.transaction() as db:
                    asked = await log.request_cancel(
                        cast(Any, db), session_id, reason="asked", now=world.database_time()
                    )
                if asked.status == "cancelled":
                    with suppress(StoreUnavailable):
                        await PlayedEngine(world, Process(0), "intake").cancel(session_id)
            for record in world.history.of("submit"):
                if record["session"] == session_id:
                    record["expected"] = "completed|failed|given up|cancelled|timed_out"
        case "start":
            start()


def _all_ended(world: World) -> bool:
    return not world.asked(f"SELECT count(*) FROM sessions WHERE status NOT IN {ENDS}")[0][0]


_QUESTIONS = (
    ("SELECT session_id, id FROM timeline_events WHERE status = 'streaming'", "streaming event"),
    ("SELECT session_id, id FROM stages WHERE status IN ('pending', 'in_progress')", "open stage"),
    ("SELECT session_id, id FROM executions WHERE status IN ('pending', 'in_progress')", "open execution"),
)


def _look_back(world: World) -> None:
    asked = world.asked
    for one in asked("SELECT id, status, reason, attempt, started_at, ended_at FROM sessions"):
        began, ended = (moment and datetime.fromisoformat(moment).timestamp() for moment in one[4:6])
        world.note("end", session=one[0], status=one[1], reason=one[2], attempt=one[3], began=began, ended=ended)
        if one[1] == "failed" and "It was set aside" not in one[2]:
            world.note("left", session=one[0], where=f"it failed: {one[2]}")
        if one[1] == "failed" and one[0] in world.poison:
            world.note("convicted", session=one[0], executor="")
        elif one[1] == "completed" and one[0] in world.poison:
            world.note("left", session=one[0], where="it cannot have completed")
        # The one thing that a database's clock decides once a session is taken over.
        if one[1] == "timed_out" and not any(fault["what"] == "clock" for fault in world.history.of("fault")):
            world.note("left", session=one[0], where="it timed out")
    for session_id, seq, payload in asked("SELECT session_id, seq, payload FROM event_log ORDER BY session_id, seq"):
        world.note("event", session=session_id, seq=seq, payload=payload)
    for question, where in _QUESTIONS:
        for session_id, what in asked(question):
            world.note("left", session=session_id, where=f"{where} {what}")
    for session_id, queued in world.queue.items():
        if queued.status not in ("SUCCESS", "CANCELLED"):
            world.note("left", session=session_id, where=f"queue {queued.status} {queued.executor}")


# Many


def play(seed: int) -> tuple[History, list[Violation]]:
    """One day and what was wrong with it."""
    uuid_before = random.getstate()
    random.seed(seed)
    try:
        history = anyio.run(day, seed, backend_options={"loop_factory": VirtualLoop})
    finally:
        random.setstate(uuid_before)
    # The engine's clock is virtual, the database's may jump: limits are told by claims in `scenarios`, not here.
    return history, [violation for violation in check(history) if "ran at once" not in violation.what]


@dataclass(frozen=True)
class Played:
    runs: int
    sessions: int
    faults: int
    bad: tuple[tuple[int, str], ...]
    """Seeds with violations, and the shortest of each."""


def play_for(seconds: float, first: int, every: int = 1, most: int = 1_000_000) -> Played:
    """One day after the other, each with a seed of its own, for as long as there is time."""
    logging.disable(logging.CRITICAL)
    until, runs, sessions, faults = time.monotonic() + seconds, 0, 0, 0
    bad: list[tuple[int, str]] = []
    try:
        while time.monotonic() < until and runs < most and len(bad) < 5:
            seed = first + every * runs
            history, violations = play(seed)
            runs, sessions, faults = runs + 1, sessions + len(history.of("submit")), faults + len(history.of("fault"))
            if violations:
                bad.append((seed, str(violations[0])))
    finally:
        logging.disable(logging.NOTSET)
    return Played(runs, sessions, faults, tuple(bad))


def play_on_all_cores(seconds: float, first: int) -> Played:
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as pool:
        parts = list(pool.map(play_for, [seconds] * cores, range(first, first + cores), [cores] * cores))
    return Played(
        sum(part.runs for part in parts),
        sum(part.sessions for part in parts),
        sum(part.faults for part in parts),
        tuple(sorted(one for part in parts for one in part.bad)),
    )


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seed", type=int, help="Play this one only, and show what happened.")
    arguments.add_argument("--from", dest="first", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=20.0)
    given = arguments.parse_args()
    if given.seed is not None:
        history, violations = play(given.seed)
        for record in history.records:
            print(json.dumps(record)[:300])
        for violation in violations:
            print(violation)
        return 1 if violations else 0
    played = play_on_all_cores(given.seconds, given.first)
    for seed, shortest in played.bad:
        print(f"seed {seed}: {shortest}")
    rate = played.runs / given.seconds * 60
    print(
        f"{played.runs} runs, {played.sessions} sessions, {played.faults} faults, {len(played.bad)} with violations; "
        f"{rate:.0f} a minute"
    )
    return 1 if played.bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
