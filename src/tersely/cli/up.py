"""`tersely up`: alerts in, agents at work, a live timeline out. `tersely work`: only the work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tersely.cli.errors import fail
from tersely.cli.hooks import Hooks, pass_hooks
from tersely.errors import TerselyError

if TYPE_CHECKING:
    from tersely.settings.model import Settings

CONFIG = click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The configuration file  [default: tersely.yaml]",
)


@click.command()
@click.option("--host", help="Address to listen on  [env: TERSELY_HOST; default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on, 0 for a free one  [env: TERSELY_PORT; default: 8010]")
@CONFIG
@pass_hooks
def up(hooks: Hooks, host: str | None, port: int | None, file: Path | None) -> None:
    """Take alerts and investigate them: API, dashboard and workers in one process.

    \b
    tersely config init                        writes a tersely.yaml to start from
    tersely up                                 dashboard and API at http://127.0.0.1:8010
    tersely investigate alert.json --watch     sends an alert and shows what happens

    Without a model the agents survey what their read-only tools show. Without PostgreSQL
    (TERSELY_DATABASE_URL) everything lies in one SQLite file, for one process.
    """
    from tersely.settings.model import Settings, find_file

    settings = Settings.load(file=find_file(file), TERSELY_HOST=host, TERSELY_PORT=port)
    try:
        _run(settings, hooks, door=True)
    except OSError as problem:
        fail(f"Cannot listen on {settings.up.host}:{settings.up.port}: {problem.strerror}. Try another --port.")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@click.command()
@CONFIG
@pass_hooks
def work(hooks: Hooks, file: Path | None) -> None:
    """Work on sessions without a door of its own, beside other processes on the same PostgreSQL."""
    from tersely.settings.model import Settings, find_file

    settings = Settings.load(file=find_file(file))
    if settings.store.url.startswith("sqlite"):
        fail(
            "tersely work needs a PostgreSQL that it shares with tersely up: set TERSELY_DATABASE_URL. On SQLite "
            "tersely up does it all."
        )
    _run(settings, hooks, door=False)


def _run(settings: Settings, hooks: Hooks, *, door: bool) -> None:
    import anyio

    from tersely.logging_setup import configure_logging

    configure_logging("tersely", settings.log_level)
    try:
        anyio.run(_serve if door else _work, settings, hooks)
    except BaseExceptionGroup as several:
        # Raised inside of task groups, each of which wrapped it once more; it is the same mistake, with the same
        # sentence.
        mistakes, others = several.split((TerselyError, OSError))
        if mistakes is None or others is not None:
            raise
        raise _first(mistakes) from None


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


async def _serve(settings: Settings, hooks: Hooks) -> None:
    import logging

    from tersely.app.sessions import sessions_app
    from tersely.web import serve
    from tersely.web.app import build
    from tersely.web.auth import authenticator
    from tersely.web.dependencies import WebDependencies
    from tersely.web.version import VERSION

    logger = logging.getLogger("tersely.up")
    # Before anything is started for it in vain.
    authenticator(settings, settings.up.host)
    serve.listen(settings.up.host, settings.up.port).close()

    def announce(address: str) -> None:
        logger.info(
            "listening",
            extra={
                "address": address,
                "chains": sorted(settings.chains),
                "servers": sorted(settings.mcp_servers),
                "model": settings.defaults.llm_provider,
            },
        )

    async with sessions_app(settings, version=VERSION, on_point=hooks.on_point) as parts:
        app = build(
            WebDependencies(
                settings=settings,
                intake=parts.intake,
                database=parts.database,
                bus=parts.bus,
                kept=parts.kept,
                registry=parts.registry,
                not_ready=parts.not_ready,
                gauges=parts.gauges,
            )
        )
        await serve.serve(
            app, host=settings.up.host, port=settings.up.port, on_ready=announce, on_stop=parts.worker.leave
        )


async def _work(settings: Settings, hooks: Hooks) -> None:
    import logging
    import signal

    import anyio

    from tersely.app.sessions import sessions_app
    from tersely.web.version import VERSION

    async with sessions_app(settings, version=VERSION, on_point=hooks.on_point) as parts:
        logging.getLogger("tersely.work").info("working", extra={"executor": parts.worker.name})
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for _ in signals:
                await parts.worker.leave()
                return
