"""An app without agents: what is done for a session is up to the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio

from tersely.agent.options import AgentOptions
from tersely.events.bus import Bus
from tersely.events.recorder import SessionRecorder
from tersely.sessions.chains import ChainOptions, StageOptions
from tersely.sessions.codec import RecordCodec
from tersely.sessions.durable import Engine
from tersely.sessions.intake import AlertIntake
from tersely.sessions.plan import InvestigationPlan
from tersely.sessions.records import SESSION_TYPES
from tersely.sessions.suspects import ChildProcess
from tersely.sessions.worker import Launch, SessionOutcome, Worker, WorkerTimeouts
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.sessions import Session

PLAN = InvestigationPlan(
    agents={"one": AgentOptions()},
    chains={"default": ChainOptions(alert_types=("default",), stages=(StageOptions(name="look", agent="one"),))},
)


@dataclass
class SmallApp:
    database: Database
    worker: Worker
    intake: AlertIntake
    engine: Engine

    async def session(self, session_id: str) -> Session:
        async with self.database.reading() as db:
            return await rows.find(db, session_id)

    async def until(self, session_id: str, *statuses: str) -> Session:
        with anyio.fail_after(300):
            while True:
                session = await self.session(session_id)
                if session.status in statuses:
                    return session
                await anyio.sleep(0.02)


Working = Callable[[Session, SessionRecorder, Worker], Awaitable[SessionOutcome]]
Opening = Callable[..., AbstractAsyncContextManager[SmallApp]]


def opening(url: str) -> Opening:
    @asynccontextmanager
    async def opened(
        work: Working,
        *,
        at_once: int = 2,
        max_pending: int = 100,
        timeouts: WorkerTimeouts = WorkerTimeouts(lease=2, grace=5),  # noqa: B008 — frozen
        start_child: Callable[[str], Awaitable[ChildProcess]] | None = None,
        launch: Launch = Engine.launched,
    ) -> AsyncIterator[SmallApp]:
        async with Database.open(url) as database:
            bus = Bus(database)

            async def kind(session: Session, recorder: SessionRecorder) -> SessionOutcome:
                return await work(session, recorder, worker)

            worker = Worker(
                database=database,
                bus=bus,
                codec=RecordCodec(SESSION_TYPES),
                works={"investigation": kind},
                timeouts=timeouts,
                version="test",
                start_child=start_child,
                launch=launch,
            )
            async with worker.running(url, at_once=at_once, poll=0.05) as engine:
                intake = AlertIntake(
                    database=database,
                    bus=bus,
                    engine=engine,
                    worker=worker,
                    plan=PLAN,
                    servers={},
                    max_pending=max_pending,
                )
                yield SmallApp(database, worker, intake, engine)

    return opened
