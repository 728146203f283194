"""Composition root of sessions: `sessions_app` builds every component once and closes them in reverse order."""

import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import Process

from tersely.agent.skills import load_skills
from tersely.condensing.summarize.cache import NoCache, SummaryCache
from tersely.events.bus import Bus
from tersely.events.replicas import open_bus
from tersely.masking.mask import Masker
from tersely.mcp.registry import ToolRegistry, registered
from tersely.pipeline.admit import admit_arguments
from tersely.research.records import RESEARCH_TYPES
from tersely.research.request import request_of
from tersely.research.work import Researches
from tersely.results.kept import KeptResults
from tersely.sessions.chat import Chats
from tersely.sessions.chat_intake import KIND as CHAT
from tersely.sessions.codec import RecordCodec
from tersely.sessions.housekeeping import Housekeeping, Webhooks
from tersely.sessions.intake import AlertIntake
from tersely.sessions.investigate import Investigations
from tersely.sessions.models import Models
from tersely.sessions.notifications import Notifications
from tersely.sessions.past_sessions import HistoryServer
from tersely.sessions.plan import InvestigationPlan
from tersely.sessions.records import SESSION_TYPES
from tersely.sessions.rerun import Reruns
from tersely.sessions.runbooks import Runbooks
from tersely.sessions.worker import Work, Worker, WorkerTimeouts, new_worker_name
from tersely.settings.environment import process_environment
from tersely.settings.model import Settings
from tersely.store.database import Database
from tersely.store.sqlite_files import file_of, worker_file_lock
from tersely.store.summaries import SummaryFile

CALLS_AT_ONCE = 32
"""Concurrent model calls per provider unless configured: many sessions run at once, each with few calls."""


@dataclass(frozen=True, kw_only=True)
class SessionsApp:
    """The components that accept alerts, work on sessions and publish their events."""

    settings: Settings
    plan: InvestigationPlan
    database: Database
    bus: Bus
    kept: KeptResults
    registry: ToolRegistry
    worker: Worker
    intake: AlertIntake

    def not_ready(self) -> list[str]:
        """The reasons why this process should get no new requests, besides its database.

        A server is only waited for while it starts for the first time: one that failed keeps no replica unready.
        """
        reasons = [
            f"The MCP server {status.name} is starting." for status in self.registry.statuses() if status.is_starting
        ]
        return [*(["The process is stopping."] if self.worker.leaving else []), *reasons]

    def gauges(self) -> dict[str, float]:
        return {"tersely_sessions_running_here": len(self.worker.session_ids)}


@asynccontextmanager
async def sessions_app(
    settings: Settings,
    *,
    version: str,
    on_point: Callable[[str], None] = lambda point: None,
    child_command: Sequence[str] = (),
    suspects_worker: str | None = None,
    wait_for_servers: float = 8.0,
) -> AsyncIterator[SessionsApp]:
    """Run sessions while the block is open; at its end, running steps finish and the rest is released.

    Args:
        on_point: Called with the name of each crash point as it is passed; a test ends the process there.
        child_command: Starts a child process for suspects when the name of its worker is appended.
        suspects_worker: This is that child process, and the name of its worker.
        wait_for_servers: Seconds until the block begins although MCP servers are still starting; sessions wait longer.

    Raises:
        ConfigError: The configuration cannot work, e.g. another process uses the same SQLite file.
        StoreUnavailable: The database cannot be reached.
    """
    store, queue = settings.store, settings.queue
    plan = InvestigationPlan(
        agents=settings.agents,
        chains=settings.chains,
        providers=settings.llm_providers,
        defaults=settings.defaults,
        skills=load_skills(settings.defaults.skills_folder) if settings.defaults.skills_folder else {},
    )
    models = Models(settings.llm_providers, concurrency=CALLS_AT_ONCE)
    cache: SummaryCache = NoCache()
    if store.summary_cache:
        cache = _MaskedCache(SummaryFile(store.data_dir / "summaries.db", max_bytes=store.summary_cache_mb * 2**20))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(models.aclose)
        database = await stack.enter_async_context(Database.open(store.url))
        if (file := file_of(store.url)) and not suspects_worker:
            stack.enter_context(worker_file_lock(file))
        bus = await stack.enter_async_context(open_bus(database))
        kept = KeptResults(database, retention=timedelta(days=store.keep_days), max_bytes=store.keep_mb * 2**20)
        registry = await stack.enter_async_context(
            registered(
                settings.servers,
                environment=process_environment(),
                wait=wait_for_servers,
                logins=store.logins,
                history=lambda server: HistoryServer(server, database),
            )
        )
        works: dict[str, Work] = {}
        worker = Worker(
            database=database,
            bus=bus,
            works=works,
            codec=RecordCodec((*SESSION_TYPES, *RESEARCH_TYPES)),
            timeouts=WorkerTimeouts(lease=queue.lease, session=queue.session_timeout, grace=queue.grace),
            version=version,
            on_point=on_point,
            start_child=partial(_start_child, child_command) if child_command else None,
            takes_suspects=suspects_worker is not None,
            name=suspects_worker or new_worker_name(),
        )
        runbooks = Runbooks(settings.runbooks)
        investigations = Investigations(
            plan=plan,
            models=models,
            registry=registry,
            kept=kept,
            cache=cache,
            step=worker.step,
            fork=worker.fork,
            runbooks=runbooks,
        )
        works["investigation"] = reruns = Reruns(investigations=investigations)
        works[CHAT] = Chats(reruns=reruns, options=settings.chat, database=database)
        works["research"] = Researches(
            plan=plan,
            options=settings.research,
            models=models,
            registry=registry,
            kept=kept,
            cache=cache,
            database=database,
            step=worker.step,
        )
        engine = await stack.enter_async_context(
            worker.running(store.url, at_once=queue.max_concurrent_sessions, poll=queue.poll)
        )
        intake = AlertIntake(
            database=database,
            bus=bus,
            engine=engine,
            worker=worker,
            plan=plan,
            servers=registry.connections,
            max_pending=queue.max_pending,
            checks={"research": lambda chain, data: request_of(data, plan.chains[chain].stages, settings.research)},
            runbooks=runbooks,
            on_point=on_point,
        )
        hooks = settings.webhooks
        keeper = Housekeeping(
            database=database,
            engine=engine,
            keep_sessions=timedelta(days=settings.retention.sessions_days),
            keep_audit=timedelta(days=settings.retention.audit_days),
            sweep_every=timedelta(minutes=settings.retention.sweep_minutes),
            webhooks=Webhooks(
                urls=hooks.urls,
                secret=hooks.secret.get_secret_value().encode() if hooks.secret else None,
                timeout=hooks.timeout,
                public_url=settings.up.public_url or "",
            ),
        )
        notifications = Notifications(
            database=database,
            bus=bus,
            slack=settings.slack,
            email=settings.email,
            chains=tuple(settings.chains),
            public_url=settings.up.public_url or "",
            on_point=on_point,
        )
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(database.health.watch, database.check, worker.update_heartbeat)
        if not suspects_worker:
            group.start_soon(keeper.run)
            if notifications.is_used:
                group.start_soon(notifications.run)
        try:
            yield SessionsApp(
                settings=settings,
                plan=plan,
                database=database,
                bus=bus,
                kept=kept,
                registry=registry,
                worker=worker,
                intake=intake,
            )
        finally:
            group.cancel_scope.cancel()


async def _start_child(command: Sequence[str], name: str) -> "_Child":
    """Start a child process that ends when this process closes its standard input or dies."""
    return _Child(await anyio.open_process([*command, name], stdin=subprocess.PIPE, stdout=None, stderr=None))


class _Child:
    """A child process; see `sessions.suspects.ChildProcess`."""

    def __init__(self, process: Process) -> None:
        self.wait, self.aclose = process.wait, process.aclose
        self.terminate, self.kill = process.terminate, process.kill
        self._statistics = Path(f"/proc/{process.pid}/stat")

    def cpu_seconds(self) -> float:
        try:
            # After the name of the program in parentheses: the state, and as fields 14 and 15 of all the CPU time.
            fields = self._statistics.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            return 0.0


class _MaskedCache:
    """Masks summaries before they are cached: a model wrote them."""

    def __init__(self, inner: SummaryCache) -> None:
        self._inner = inner
        self._masker = Masker()

    async def get(self, key: str) -> str | None:
        return await self._inner.get(key)

    async def put(self, key: str, value: str) -> None:
        await self._inner.put(key, json.dumps(admit_arguments(json.loads(value), self._masker)))
