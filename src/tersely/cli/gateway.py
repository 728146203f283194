"""`tersely gateway`: between any MCP client and any MCP servers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import click
from click.core import ParameterSource

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra
from tersely.cli.gateway_check import check
from tersely.cli.gateway_install import install
from tersely.cli.upstreams import UpstreamOptions, check_providers, upstream_options, upstream_servers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tersely.mcp.servers import Server
    from tersely.settings.model import Settings

COMMAND = "tersely.command"
WAIT_FOR_SERVERS = 8.0
"""Seconds, before we listen."""


class _Gateway(click.Group):
    """A group that runs by itself; what stands behind `--` is the command of a server, not one of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        behind: list[str] = []
        if "--" in args:
            at = args.index("--")
            _, words, _ = self.make_parser(ctx).parse_args(args[:at])
            if not words:  # no sub-command before it
                args, behind = args[:at], args[at + 1 :]
        ctx.meta[COMMAND] = behind
        return super().parse_args(ctx, args)


@click.group(cls=_Gateway, invoke_without_command=True, subcommand_metavar="[-- COMMAND ARGUMENTS | SUBCOMMAND]")
@upstream_options
@click.option("--http", is_flag=True, help="Serve StreamableHTTP at /mcp instead of standard input and output.")
@click.option("--host", help="With --http: address to listen on  [env: TERSELY_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=int,
    help="With --http: port to listen on, 0 for a free one  [env: TERSELY_GATEWAY_PORT; default: 8008]",
)
@click.option(
    "--stateless", is_flag=True, help="With --http: no sessions for older clients, so that any replica can answer."
)
@click.option(
    "--strict", is_flag=True, help="Withhold tools that are described otherwise than when they were first seen."
)
@click.option("--llm", is_flag=True, help="Summarize with the configured model where no policy says otherwise.")
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
    """Stand between an MCP client and its servers: oversized results arrive condensed, the whole one call away.

    \b
    tersely gateway --config mcp.json                     the servers of an `mcpServers` file
    tersely gateway -- npx -y @modelcontextprotocol/server-filesystem ~
    tersely gateway --upstream http://localhost:9000/mcp --http --port 8008

    Everything else passes as it is. Policies: docs/reference/servers.md; what it does: docs/reference/gateway.md.
    """
    if ctx.invoked_subcommand is not None:
        if misplaced := [name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE]:
            option = f"--{misplaced[0].replace('_', '-')}"
            fail(
                f"Put {option} behind the word {ctx.invoked_subcommand}: tersely gateway {ctx.invoked_subcommand} "
                f"{option} …"
            )
        return
    check_extra("gateway")
    if not http and (host or port is not None or stateless):
        fail(
            "--host, --port and --stateless are for --http; without it the gateway speaks on standard input and output."
        )
    from tersely.settings.model import GATEWAY, Settings, find_file

    servers = upstream_servers(ctx.meta[COMMAND], **upstreams)
    # On standard input and output a client has started us, in the folder that is open in it.
    settings = Settings.load(None, find_file(here=http), sections=GATEWAY, TERSELY_HOST=host, TERSELY_GATEWAY_PORT=port)
    check_providers(servers, settings.llm_providers)
    if llm and not settings.summarizing():
        fail(f"--llm needs a model: set {settings.model.missing()}.")
    try:
        _run(settings, servers, http=http, stateless=stateless, strict=strict, models=llm)
    except OSError as problem:
        if not http:
            raise
        fail(
            f"Cannot listen on {settings.summarizer.host}:{settings.gateway.port}: {problem.strerror}. Try another "
            "--port."
        )
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _run(
    settings: Settings, servers: Sequence[Server], *, http: bool, stateless: bool, strict: bool, models: bool
) -> None:
    import logging

    import anyio

    from tersely.logging_setup import configure_logging
    from tersely.servers.gateway import serving

    configure_logging(serving.SERVICE_ID, settings.log_level)
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
        async with serving.gateway(settings, servers, strict=strict, models=models) as door:
            announce("stdio")
            await serving.serve_stdio(door)

    async def run_http() -> None:
        from tersely.errors import ConfigError
        from tersely.servers.gateway import web
        from tersely.servers.http import is_loopback, serve

        options = settings.summarizer
        verifier = web.tokens(settings)
        if verifier is None and not is_loopback(options.host):
            raise ConfigError(
                f"The gateway would be open to everybody who can reach {options.host}. Set TERSELY_TOKEN, or listen "
                "on 127.0.0.1 (--host)."
            )
        async with serving.gateway(settings, servers, strict=strict, models=models) as door:
            with anyio.move_on_after(WAIT_FOR_SERVERS):
                # So that the first client finds them; those that take longer are waited for when somebody comes.
                await door.upstreams.pool(is_modern=True)
            app = web.http_app(
                door,
                verifier=verifier,
                allowed_hosts=options.allowed_hosts,
                max_body_bytes=options.max_body_bytes,
                stateless=stateless,
            )
            await serve(
                app, host=options.host, port=settings.gateway.port, on_ready=lambda address: announce(f"{address}/mcp")
            )

    anyio.run(run_http if http else run_stdio)


for command in (install, check):
    gateway.add_command(command)
