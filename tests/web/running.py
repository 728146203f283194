"""A real service for the tests of its API: real HTTP and WebSocket, queue and store; only the work on a session is
scripted.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
from websockets.asyncio.client import ClientConnection, connect

from tersely.agent.options import AgentOptions
from tersely.agent.verdict import Citation, Verdict
from tersely.events.recorder import SessionRecorder
from tersely.events.replicas import open_bus
from tersely.http.listen import build_server, listen
from tersely.masking.masked import assume_masked
from tersely.mcp.registry import registered
from tersely.mcp.servers import Server
from tersely.results.kept import KeptResults
from tersely.sessions.chains import ChainOptions, Defaults, StageOptions
from tersely.sessions.codec import RecordCodec
from tersely.sessions.intake import AlertIntake
from tersely.sessions.plan import InvestigationPlan
from tersely.sessions.records import SESSION_TYPES
from tersely.sessions.worker import SessionOutcome, Worker, WorkerTimeouts
from tersely.settings.model import (
    AuthSettings,
    ProxySettings,
    QueueSettings,
    Settings,
    StoreSettings,
    TokenSettings,
    UpSettings,
)
from tersely.store.database import Database
from tersely.store.keys import LOGIN_COOKIES, shared_key
from tersely.store.results import Origin
from tersely.store.sessions import Session
from tersely.web.app import build_web_app
from tersely.web.dependencies import WebDependencies

ALERT = {"data": "Pod web-1 restarts again and again"}

Work = Callable[[Session, SessionRecorder, KeptResults], Awaitable[SessionOutcome]]


async def quick(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    """Looks at one thing and is done."""
    (stage,) = await recorder.plan(["look"])
    await recorder.stage_status(stage, "in_progress")
    lines = "".join(
        f"line {number}: pod web-{number} {'Failed' if number == 7 else 'Running'} ü\n" for number in range(1, 101)
    )
    origin = Origin(server="cluster", tool="get_pods", arguments={"namespace": "shop"}, called_at=datetime.now(UTC))
    handle = await kept.keep(assume_masked(lines), scope=session.results_scope, origin=origin)
    await recorder.record(
        "1",
        "llm_tool_call",
        assume_masked(lines[:100]),
        {"server_name": "cluster", "tool_name": "get_pods", "handle": handle},
    )
    await recorder.record("2", "final_analysis", assume_masked("web-7 failed"))
    await recorder.stage_status(stage, "completed", analysis="web-7 failed")
    cited = Citation(source="ops.logs", handle="", first_line=3, last_line=3, quote="web-7: disk full")
    verdict = Verdict(cause="web-7 has no disk", summary="web-7 has no disk.", confidence="high", evidence=(cited,))
    return SessionOutcome(status="completed", analysis=assume_masked("web-7 failed"), verdict=verdict)


async def endless(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
    """Runs until it is cancelled."""
    await recorder.record("1", "llm_response", assume_masked("I am looking"))
    await anyio.sleep_forever()
    raise AssertionError


@dataclass
class Running:
    address: str
    http: httpx2.AsyncClient
    parts: WebDependencies
    stop: Callable[[], None]
    headers: Mapping[str, str] = field(default_factory=dict)

    async def submit(self, **fields: Any) -> str:
        answer = await self.http.post("/api/v1/alerts", json={**ALERT, **fields})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["session_id"])

    async def get(self, path: str, **params: Any) -> Any:
        answer = await self.http.get(f"/api/v1{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def until(self, session_id: str, status: str) -> Any:
        with anyio.fail_after(300):
            while (session := await self.get(f"/sessions/{session_id}"))["status"] != status:
                await anyio.sleep(0.02)
        return session

    @asynccontextmanager
    async def viewer(self, **how: Any) -> "AsyncIterator[Viewer]":
        """A viewer who has been greeted."""
        how.setdefault("additional_headers", self.headers)
        async with connect(
            self.address.replace("http", "ws") + "/api/v1/ws", proxy=None, compression=None, **how
        ) as socket:
            viewer = Viewer(socket)
            assert (await viewer.hear())["type"] == "connection.established"
            yield viewer


@dataclass
class Viewer:
    socket: ClientConnection

    async def say(self, **what: Any) -> None:
        await self.socket.send(json.dumps(what))

    async def raw(self) -> str:
        with anyio.fail_after(300):
            text = await self.socket.recv()
        assert isinstance(text, str)
        return text

    async def hear(self) -> Any:
        return json.loads(await self.raw())

    async def stored(self, last: str) -> list[str]:
        """The texts of stored events, up to and with the first that contains this."""
        found: list[str] = []
        while not found or last not in found[-1]:
            text = await self.raw()
            if "seq" in json.loads(text):
                found.append(text)
        return found


def settings_for(
    url: str,
    *,
    tokens: Sequence[TokenSettings] = (),
    proxies: ProxySettings | None = None,
    max_pending: int = 1_000,
    **up: Any,
) -> Settings:
    return Settings(
        store=StoreSettings.model_validate({"database_url": url}),
        up=UpSettings.model_validate({"host": "127.0.0.1", **up}),
        queue=QueueSettings.model_validate({"max_pending": max_pending}),
        auth=AuthSettings.model_validate({"tokens": tuple(tokens), "trusted_proxies": proxies or ProxySettings()}),
        agents={"looker": AgentOptions()},
        chains={
            "default": ChainOptions(alert_types=("default",), stages=(StageOptions(name="look", agent="looker"),)),
            "pods": ChainOptions(
                alert_types=("PodRestarts", "PodPending"),
                description="Pods in trouble",
                stages=(StageOptions(name="look", agent="looker"),),
            ),
        },
        defaults=Defaults.model_validate({"alert_type": "default"}),
    )


@asynccontextmanager
async def running(
    url: str,
    *,
    settings: Settings | None = None,
    servers: Sequence[Server] = (),
    work: Work = quick,
    at_once: int = 5,
    host: str | None = None,
    headers: Mapping[str, str] | None = None,
    dashboard: Path | None = None,
    slow_seconds: float = 20,
) -> AsyncIterator[Running]:
    """The service on a free port, for as long as the block lasts."""
    settings = settings or settings_for(url)
    plan = InvestigationPlan(
        agents=settings.agents, chains=settings.chains, providers=settings.llm_providers, defaults=settings.defaults
    )
    if not url.startswith("sqlite"):
        await Database.migrate(url)
    async with Database.open(url) as database, open_bus(database) as bus, registered(servers, wait=20) as registry:
        kept = KeptResults(database)

        async def scripted(session: Session, recorder: SessionRecorder) -> SessionOutcome:
            return await work(session, recorder, kept)

        worker = Worker(
            database=database,
            bus=bus,
            codec=RecordCodec(SESSION_TYPES),
            works={"investigation": scripted},
            timeouts=WorkerTimeouts(grace=2),
            version="test",
        )
        async with worker.running(url, at_once=at_once, poll=0.05) as engine:
            intake = AlertIntake(
                database=database,
                bus=bus,
                engine=engine,
                worker=worker,
                plan=plan,
                servers=registry.connections,
                max_pending=settings.queue.max_pending,
            )
            async with database.transaction() as db:
                login_key = await shared_key(db, LOGIN_COOKIES)
            parts = WebDependencies(
                settings=settings,
                intake=intake,
                database=database,
                bus=bus,
                kept=kept,
                registry=registry,
                login_key=login_key,
            )
            more: dict[str, Any] = {"dashboard": dashboard} if dashboard else {}
            app = build_web_app(parts, host=host, slow_seconds=slow_seconds, **more)
            async with (
                serving(app) as (address, stop),
                httpx2.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=300) as http,
            ):
                yield Running(address, http, parts, stop, headers or {})


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """An application on a free port of loopback; its address, and how to end it as SIGTERM would."""
    listener = listen("127.0.0.1", 0)
    serving = build_server(app, lifespan=False)

    def stop() -> None:
        serving.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(serving.serve, [listener])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", stop
        finally:
            stop()
