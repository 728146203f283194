"""`tersely gateway`: an MCP proxy between any client and any servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click
from click.core import ParameterSource

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.gateway_check import check
from tersely.cli.gateway_install import install
from tersely.cli.gateway_login import login, logout
from tersely.cli.upstreams import UpstreamOptions, check_providers, upstream_options, upstream_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tersely.mcp.servers import Server
    from tersely.settings.model import Settings

COMMAND = "tersely.command"
WAIT_FOR_SERVERS = 8.0
"""Seconds to wait for the servers before listening over HTTP."""

HTTP_GREETING_SECONDS = 1.0
"""Over HTTP the gateway is running already, so `initialize` may take a moment for servers it has never seen."""


class _Gateway(click.Group):
    """A group that also runs without a subcommand; words after `--` are a server's command, not a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        server_command: list[str] = []
        if "--" in args:
            at = args.index("--")
            _, words, _ = self.make_parser(ctx).parse_args(args[:at])
            if not words:  # no sub-command before it
                args, server_command = args[:at], args[at + 1 :]
        ctx.meta[COMMAND] = server_command
        return super().parse_args(ctx, args)


@click.group(cls=_Gateway, invoke_without_command=True, subcommand_metavar="[-- COMMAND ARGUMENTS | SUBCOMMAND]")
@upstream_options
@click.option("--http", is_flag=True, help="Serve StreamableHTTP at /mcp instead of standard input and output.")
@click.option(
    "--host", metavar="ADDRESS", help="With --http: address to listen on  [env: TERSELY_HOST; default: 127.0.0.1]"
)
@click.option(
    "--port",
    type=int,
    metavar="PORT",
    help="With --http: port to listen on, 0 for a free one  [env: TERSELY_GATEWAY_PORT; default: 8008]",
)
@click.option(
    "--stateless",
    is_flag=True,
    help="With --http: keep no sessions for clients of the older protocol, so that any replica can answer.",
)
@click.option("--strict", is_flag=True, help="Withhold tools whose description changed since they were first seen.")
@click.option("--llm", is_flag=True, help="Summarize with the configured model unless a policy says otherwise.")
@click.pass_context
def gateway(
    ctx: click.Context,
    http: bool,
    host: str | None,
    port: int | None,
    stateless: bool,
    strict: bool,
    llm: bool,
    **upstreams: Unpack[UpstreamOptions],
) -> None:
    """Run a proxy between an MCP client and its servers.

    Large results are masked, condensed and kept whole; one more call reads the original. Everything else passes
    unchanged.

    \b
    tersely gateway --config mcp.json
    tersely gateway -- npx -y @modelcontextprotocol/server-filesystem ~
    tersely gateway --upstream http://localhost:9000/mcp --http --port 8008

    How it works: docs/reference/gateway.md. Policies for servers and tools: docs/reference/servers.md.
    """
    if ctx.invoked_subcommand is not None:
        if misplaced := [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]:
            option = f"--{misplaced[0].replace('_', '-')}"
            fail(f"Put {option} after the subcommand: tersely gateway {ctx.invoked_subcommand} {option} …")
        return
    check_extra("gateway")
    if not http and (host or port is not None or stateless):
        fail("--host, --port and --stateless need --http; without it the gateway uses standard input and output.")
    from tersely.settings.model import GATEWAY, Settings, find_file

    # With stdio the client chose the current folder; a tersely.yaml in it may belong to any project.
    file = find_file(here=http)

    def load() -> tuple[Settings, tuple[Server, ...]]:
        servers = upstream_servers(ctx.meta[COMMAND], **upstreams)
        settings = Settings.load(None, file, sections=GATEWAY, here=http, TERSELY_HOST=host, TERSELY_GATEWAY_PORT=port)
        check_providers(servers, settings.llm_providers)
        return settings, servers

    settings, servers = load()
    if llm and not settings.summarizing():
        fail(f"--llm needs a model: set {settings.model.missing()}.")
    watched = [path for path in (upstreams["config"], file) if path is not None]
    try:
        _run(settings, servers, load, watched, http=http, stateless=stateless, strict=strict, models=llm)
    except OSError as error:
        if not http:
            raise
        fail(
            f"Cannot listen on {settings.summarizer.host}:{settings.gateway.port}: {error.strerror}. Try another "
            "--port."
        )
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _run(
    settings: Settings,
    servers: Sequence[Server],
    load: Callable[[], tuple[Settings, Sequence[Server]]],
    watched: Sequence[Path],
    *,
    http: bool,
    stateless: bool,
    strict: bool,
    models: bool,
) -> None:
    import logging

    import anyio

    from tersely.cpu.memory import release_memory
    from tersely.cpu.run import LARGE, cpu_workers
    from tersely.logging_setup import configure_logging
    from tersely.servers.gateway import serving
    from tersely.servers.gateway.reload import reloading

    configure_logging(serving.SERVICE_ID, settings.log_level, settings.log_format)
    logger = logging.getLogger("tersely.gateway")

    def announce(address: str) -> None:
        logger.info(
            "listening",
            extra={
                "address": address,
                "servers": ", ".join(server.name for server in servers if not server.options.disabled),
            },
        )

    async def run_stdio() -> None:
        async with (
            cpu_workers(settings.cpu_workers, from_size=LARGE),
            serving.running_gateway(settings, servers, strict=strict, models=models) as running,
        ):
            announce("stdio")
            async with reloading(running, load, watched):
                await serving.serve_stdio(running)

    async def run_http() -> None:
        from tersely.http.auth import refuse_open
        from tersely.http.listen import serve_http
        from tersely.servers.gateway.web import build_gateway_app, gateway_tokens

        options = settings.summarizer
        verifier = gateway_tokens(settings)
        refuse_open(
            options.host,
            has_authentication=verifier is not None,
            allow_open=settings.allow_open,
            remedy="Set TERSELY_TOKEN",
        )
        async with (
            cpu_workers(settings.cpu_workers, from_size=LARGE),
            serving.running_gateway(
                settings, servers, strict=strict, models=models, greeting_seconds=HTTP_GREETING_SECONDS
            ) as running,
        ):
            await running.prepare()
            # So that the first client finds all servers, as far as they start in time.
            pool = await running.upstreams.pool(is_modern=True)
            await pool.known(WAIT_FOR_SERVERS)
            release_memory()
            app = build_gateway_app(
                running,
                verifier=verifier,
                allowed_hosts=options.allowed_hosts,
                max_body_bytes=options.max_body_bytes,
                stateless=stateless,
            )
            async with reloading(running, load, watched, verifier):
                await serve_http(
                    app,
                    host=options.host,
                    port=settings.gateway.port,
                    on_ready=lambda address: announce(f"{address}/mcp"),
                    trust_proxy_headers=True,
                    websockets=False,
                )

    anyio.run(run_http if http else run_stdio)


for command in (install, check, login, logout):
    gateway.add_command(command)
