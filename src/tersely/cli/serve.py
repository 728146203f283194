"""`tersely serve`: runs the summarizer as an MCP service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra

if TYPE_CHECKING:
    from tersely.settings.model import Settings


@click.command()
@click.option("--host", metavar="ADDRESS", help="Address to listen on  [env: TERSELY_HOST; default: 127.0.0.1]")
@click.option(
    "--port",
    type=int,
    metavar="PORT",
    help="Port to listen on, 0 for a free one  [env: MCP_SUMMARIZER_PORT; default: 8007]",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Settings file  [env: TERSELY_CONFIG; default: tersely.yaml here or in your configuration folder]",
)
@click.option("--stdio", is_flag=True, help="Speak MCP on standard input and output instead of HTTP.")
def serve(host: str | None, port: int | None, config: Path | None, stdio: bool) -> None:
    """Run the summarizer as an MCP service.

    Tools: summarize, summarize_for_extraction. StreamableHTTP at /mcp, health at /health. Without a model
    (OPENROUTER_API_KEY, or OPENROUTER_BASE_URL for a local server) text is condensed structurally.
    All settings: docs/reference/settings.md.
    """
    check_extra("serve")

    from tersely.settings.model import SUMMARIZING, Settings, find_file

    settings = Settings.load(
        None, find_file(config), sections=SUMMARIZING, here=True, TERSELY_HOST=host, MCP_SUMMARIZER_PORT=port
    )
    try:
        _serve(settings, stdio=stdio)
    except OSError as error:
        fail(
            f"Cannot listen on {settings.summarizer.host}:{settings.summarizer.port}: {error.strerror}. Try another "
            "--port."
        )
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _serve(settings: Settings, *, stdio: bool) -> None:
    import logging

    import anyio

    from tersely.app.summarizer import summarizer_app
    from tersely.cpu.run import cpu_workers
    from tersely.http.auth import is_loopback, refuse_open
    from tersely.http.listen import serve_http
    from tersely.logging_setup import FOR_PEOPLE, configure_logging
    from tersely.results.kept import user_scope
    from tersely.servers.http_app import build_fastmcp_app
    from tersely.servers.summarizer import SERVICE_ID, build_summarizer_server

    configure_logging(SERVICE_ID, settings.log_level, settings.log_format)
    logger = logging.getLogger("tersely.serve")
    options = settings.summarizer

    if not stdio:
        refuse_open(
            options.host,
            has_authentication=options.token is not None,
            allow_open=settings.allow_open,
            remedy="Set TERSELY_TOKEN",
        )

    def announce(address: str) -> None:
        models = [spec.model for spec in settings.specs(*settings.summarizing())]
        if not models:
            logger.warning(
                "no_model_configured",
                extra={
                    "consequence": "texts are condensed structurally",
                    "set": settings.model.missing(),
                    FOR_PEOPLE: f"No model: texts are condensed structurally. For one, set {settings.model.missing()}.",
                },
            )
        if not stdio and settings.allow_open and not options.token and not is_loopback(options.host):
            logger.warning("open_to_the_network", extra={"host": options.host, "set": "TERSELY_TOKEN"})
        words = f"MCP at {address}   tools: summarize, summarize_for_extraction   Ctrl-C stops it."
        extra = {"address": address, "model": models[0] if models else None, FOR_PEOPLE: words}
        logger.info("listening", extra=extra)

    # Kept results belong to the user who runs this process; only callers on this machine may pass their handles.
    scope = user_scope() if stdio or is_loopback(options.host) else None

    async def run() -> None:
        async with cpu_workers(settings.cpu_workers), summarizer_app(settings, handles_of=scope) as parts:
            server = build_summarizer_server(parts.summarizer)
            if stdio:
                announce("stdio")
                await server.run_async(transport="stdio", show_banner=False)
            else:
                app = build_fastmcp_app(
                    server, allowed_hosts=options.allowed_hosts, max_body_bytes=options.max_body_bytes
                )
                await serve_http(
                    app,
                    host=options.host,
                    port=options.port,
                    on_ready=lambda address: announce(f"{address}/mcp"),
                    trust_proxy_headers=True,
                    websockets=False,
                )

    anyio.run(run)
