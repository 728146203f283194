"""`tersely up`: API, dashboard and workers in one process. `tersely work`: a worker without API."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.hooks import Hooks, pass_hooks
from tersely.errors import TerselyError

if TYPE_CHECKING:
    from tersely.settings.model import Settings

CONFIG = click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Configuration file  [default: tersely.yaml]",
)


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on  [env: TERSELY_HOST; default: 127.0.0.1]")
@click.option(
    "--port", type=int, metavar="PORT", help="Port to listen on, 0 for a free one  [env: TERSELY_PORT; default: 8010]"
)
@CONFIG
@pass_hooks
def up(hooks: Hooks, host: str | None, port: int | None, file: Path | None) -> None:
    """Investigate alerts: API, dashboard and workers.

    Everything runs in one process.

    \b
    tersely config init                       write a tersely.yaml to start from
    tersely up                                dashboard and API at http://127.0.0.1:8010
    tersely investigate alert.json --watch    send an alert and show its timeline

    Without a model, agents call their read-only tools and report the results. Without PostgreSQL
    (TERSELY_DATABASE_URL), everything is stored in one SQLite file that only one process can use.
    """
    check_extra("up")

    from tersely.settings.model import Settings, find_file

    file = find_file(file)
    settings = Settings.load(file=file, here=True, TERSELY_HOST=host, TERSELY_PORT=port)
    try:
        _run(settings, _serve, hooks, _child_command(hooks, file))
    except OSError as error:
        fail(f"Cannot listen on {settings.up.host}:{settings.up.port}: {error.strerror}. Try another --port.")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@click.command()
@CONFIG
@pass_hooks
def work(hooks: Hooks, file: Path | None) -> None:
    """Run a worker without API and dashboard.

    It works on sessions beside other processes on the same PostgreSQL.
    """
    check_extra("work")

    from tersely.settings.model import Settings, find_file

    file = find_file(file)
    settings = Settings.load(file=file, here=True)
    if settings.store.url.startswith("sqlite"):
        fail(
            "tersely work needs the PostgreSQL of tersely up: set TERSELY_DATABASE_URL. With SQLite, tersely up runs "
            "the only worker."
        )
    _run(settings, _work, hooks, _child_command(hooks, file))


@click.command(hidden=True)
@CONFIG
@click.option("--name", required=True, help="Name of the worker.")
@pass_hooks
def suspects(hooks: Hooks, file: Path | None, name: str) -> None:
    """Run sessions that may crash their worker.

    One at a time. A worker starts this as its child process. It ends when none is left, and when its standard input
    is closed.
    """
    check_extra("suspects")

    from tersely.settings.model import Settings, find_file

    def end_with_parent() -> None:
        # Not through `sys.stdin`, whose lock this thread would hold when the interpreter exits.
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    _run(Settings.load(file=find_file(file), here=True), _work_on_suspects, hooks, name)


def _child_command(hooks: Hooks, file: Path | None) -> tuple[str, ...]:
    return (*hooks.program, "suspects", *(("--config", str(file)) if file else ()), "--name")


def _run(settings: Settings, work: Callable[..., Awaitable[None]], *arguments: object) -> None:
    import anyio

    from tersely.cpu.run import cpu_workers
    from tersely.logging_setup import configure_logging

    configure_logging("tersely", settings.log_level, settings.log_format)

    async def run() -> None:
        async with cpu_workers(settings.cpu_workers):
            await work(settings, *arguments)

    try:
        anyio.run(run)
    except BaseExceptionGroup as group:
        # Each task group wraps the error once more; report the error itself.
        expected, others = group.split((TerselyError, OSError))
        if expected is None or others is not None:
            raise
        raise _first(expected) from None


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


async def _serve(settings: Settings, hooks: Hooks, child_command: Sequence[str]) -> None:
    import logging

    from tersely.app.sessions import sessions_app
    from tersely.http.listen import listen, serve_http
    from tersely.logging_setup import FOR_PEOPLE
    from tersely.store.keys import LOGIN_COOKIES, shared_key
    from tersely.web.app import build_web_app
    from tersely.web.auth import build_authenticator
    from tersely.web.dependencies import WebDependencies
    from tersely.web.version import VERSION

    logger = logging.getLogger("tersely.up")
    # Checked before the database and the MCP servers are started.
    build_authenticator(settings, settings.up.host)
    listen(settings.up.host, settings.up.port).close()

    def announce(address: str) -> None:
        logger.info(
            "listening",
            extra={
                "address": address,
                "chains": sorted(settings.chains),
                "servers": sorted(settings.mcp_servers),
                "model": settings.defaults.llm_provider,
                FOR_PEOPLE: f"Dashboard: {address}   API: {address}/docs   Ctrl-C stops it.",
            },
        )

    async with sessions_app(
        settings, version=VERSION, on_point=hooks.on_point, child_command=child_command
    ) as sessions:
        async with sessions.database.transaction() as db:
            login_key = await shared_key(db, LOGIN_COOKIES)
        app = build_web_app(
            WebDependencies(
                settings=settings,
                login_key=login_key,
                intake=sessions.intake,
                database=sessions.database,
                bus=sessions.bus,
                kept=sessions.kept,
                registry=sessions.registry,
                not_ready=sessions.not_ready,
                gauges=sessions.gauges,
            )
        )
        await serve_http(
            app,
            host=settings.up.host,
            port=settings.up.port,
            on_ready=announce,
            on_stop=sessions.worker.leave,
            lifespan=False,
        )


async def _work(settings: Settings, hooks: Hooks, child_command: Sequence[str]) -> None:
    import logging

    from tersely.app.sessions import sessions_app
    from tersely.http.listen import stop_signals
    from tersely.web.version import VERSION

    async with sessions_app(
        settings, version=VERSION, on_point=hooks.on_point, child_command=child_command
    ) as sessions:
        logging.getLogger("tersely.work").info("working", extra={"executor": sessions.worker.name})
        with stop_signals() as signals:
            async for _ in signals:
                await sessions.worker.leave()
                return


async def _work_on_suspects(settings: Settings, hooks: Hooks, name: str) -> None:
    import anyio

    from tersely.app.sessions import sessions_app
    from tersely.http.listen import stop_signals
    from tersely.web.version import VERSION

    ended_in_order = True
    async with (
        sessions_app(settings, version=VERSION, on_point=hooks.on_point, suspects_worker=name) as sessions,
        anyio.create_task_group() as tasks,
    ):

        async def leave_when_told() -> None:
            with stop_signals() as signals:
                async for _ in signals:
                    await sessions.worker.leave()
                    tasks.cancel_scope.cancel()

        tasks.start_soon(leave_when_told)
        ended_in_order = await sessions.worker.until_idle()
        tasks.cancel_scope.cancel()
    if not ended_in_order:
        raise SystemExit(70)
