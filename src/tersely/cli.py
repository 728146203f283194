"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tersely.errors import TerselyError

if TYPE_CHECKING:
    from tersely.condensing.budget import Condensed
    from tersely.config import Settings

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Commands(click.Group):
    """Mistakes that somebody can act on end in one or two sentences, not in a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TerselyError as mistake:
            _fail(str(mistake))
        except BrokenPipeError:
            # Whoever read us has seen enough (`tersely condense … | head`).
            sys.stderr.close()
            raise SystemExit(0) from None


def _fail(message: str) -> NoReturn:
    click.secho(f"tersely: {message}", fg="red" if sys.stderr.isatty() else None, err=True)
    raise SystemExit(2)


@click.group(cls=_Commands, context_settings=CONTEXT)
@click.version_option(package_name="tersely", message="tersely %(version)s")
def main() -> None:
    """Tool results that fit.

    Masked, kept whole, and handed to the model in the size and with the emphasis it needs.

    \b
    Try it:     tersely demo
    With a pipe: kubectl get pods -A -o json | tersely condense --budget 1000 --focus "which pods fail, and why"
    As a service: tersely serve
    """


@main.command()
@click.argument("file", type=click.File("rb"), default="-")
@click.option("--budget", type=int, default=1000, show_default=True, metavar="TOKENS", help="What the result may take, at most.")
@click.option("--focus", default="", metavar="TEXT", help="What you are looking for; it decides what stays.")
@click.option("--schema-hint", default="", metavar="TEXT", help="What a program will extract from the result; used instead of --focus.")
@click.option("--llm", is_flag=True, help="Let the configured model summarize (sends the masked text to it).")
@click.option("--explain", is_flag=True, help="Say on stderr what the text was taken for, and what was left out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with the text and the account of it.")
def condense(file: Any, budget: int, focus: str, schema_hint: str, llm: bool, explain: bool, as_json: bool) -> None:
    """Bring FILE (or standard input) down to a budget of tokens.

    Without --llm nothing is sent and nothing is stored: what the text is (JSON, log, table, page, prose ...)
    decides how it is cut, and the focus decides what stays.

    \b
    journalctl -u api | tersely condense --budget 800 --focus "why does it restart"
    tersely condense page.md --schema-hint "people, dates, prices" --explain
    """
    if file.name == "<stdin>" and sys.stdin.isatty():
        _fail("Nothing to condense. Name a file, or pipe something in: journalctl -u api | tersely condense --budget 800")
    text = file.read().decode("utf-8", "replace").removeprefix("\ufeff")
    began = time.perf_counter()
    condensed = _summarize(text, budget, focus, schema_hint) if llm else _condense(text, budget, schema_hint or focus)
    seconds = time.perf_counter() - began
    if as_json:
        click.echo(json.dumps(_as_json(condensed, seconds), ensure_ascii=False))
        return
    click.echo(condensed.text)
    if explain:
        _explain(condensed)
    click.secho(_closing_line(condensed, seconds), dim=True, err=True)


def _condense(text: str, budget: int, focus: str) -> Condensed:
    from tersely.condensing.ladder import condense

    return condense(text, budget=budget, focus=focus)


def _summarize(text: str, budget: int, focus: str, schema_hint: str) -> Condensed:
    import anyio

    from tersely.config import Settings
    from tersely.runtime import runtime

    settings = Settings.load()
    if not settings.model.specs():
        _fail(f"--llm needs a model: set {settings.model.missing()}. Without --llm no model is needed.")

    async def run() -> Condensed:
        progress = _progress_line()
        async with runtime(settings) as parts:
            if schema_hint:
                return await parts.summarizer.summarize_for_extraction(
                    text, schema_hint, max_output_tokens=budget, on_progress=lambda at: progress(at.done, at.total)
                )
            return await parts.summarizer.summarize(
                text, max_output_tokens=budget, focus_areas=focus, on_progress=lambda at: progress(at.done, at.total)
            )

    return anyio.run(run)


def _progress_line() -> Any:
    """Redraws one line on a terminal; says nothing where nobody is watching."""

    def show(done: int, total: int) -> None:
        if sys.stderr.isatty():
            end = "\n" if done >= total else ""
            click.echo(f"\r  summarizing … {done} of {total} parts", nl=False, err=True)
            click.echo(end, nl=False, err=True)

    return show


def _closing_line(condensed: Condensed, seconds: float) -> str:
    sizes = f"{condensed.tokens_before:,} → {condensed.tokens_after:,} tokens"
    parts = [sizes, condensed.status, f"{seconds:.1f} s"]
    if condensed.status == "passthrough":
        parts[1] = "passthrough: it fits"
    if condensed.returned:
        parts[1] = f"fallback: the {condensed.returned} text, because {condensed.reason}"
    if condensed.work:
        parts.insert(2, condensed.work.model)
        if condensed.work.price_usd:
            parts.append(f"${condensed.work.price_usd:.4f}")
    return " · ".join(parts)


def _explain(condensed: Condensed) -> None:
    if condensed.kind:
        click.echo(f"\nTaken for: {condensed.kind}", err=True)
    if condensed.lost:
        click.echo("Left out:", err=True)
        for lost in condensed.lost:
            click.echo(f"  - {lost}", err=True)
    if condensed.work and condensed.work.invented:
        click.echo(f"Not in the source, so perhaps made up: {', '.join(condensed.work.invented[:10])}", err=True)


def _as_json(condensed: Condensed, seconds: float) -> dict[str, Any]:
    work = condensed.work
    return {
        "text": condensed.text,
        "status": condensed.status,
        "kind": condensed.kind,
        "tokens_before": condensed.tokens_before,
        "tokens_after": condensed.tokens_after,
        "encoding": condensed.encoding,
        "seconds": round(seconds, 3),
        "lost": [{"what": lost.what, "lines": [list(run) for run in lost.lines]} for lost in condensed.lost],
        "returned": condensed.returned,
        "reason": condensed.reason,
        "model": work.model if work else None,
        "calls": work.calls if work else 0,
        "price_usd": float(work.price_usd) if work and work.price_usd is not None else None,
        "invented": work.invented if work else [],
    }


@main.command()
@click.option("--host", help="Address to listen on  [env: TERSELY_HOST; default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on, 0 for a free one  [env: MCP_SUMMARIZER_PORT; default: 8007]")
@click.option("--stdio", is_flag=True, help="Speak MCP on standard input and output instead of HTTP.")
def serve(host: str | None, port: int | None, stdio: bool) -> None:
    """Run the summarizer as an MCP service.

    Tools: summarize, summarize_for_extraction. StreamableHTTP at /mcp, health at /health. Without a model
    (OPENROUTER_API_KEY, or OPENROUTER_BASE_URL for a local server) texts are condensed structurally.
    All settings: docs/reference/settings.md.
    """
    from tersely.config import Settings

    settings = Settings.load(TERSELY_HOST=host, MCP_SUMMARIZER_PORT=port)
    try:
        _serve(settings, stdio=stdio)
    except OSError as problem:
        _fail(f"Cannot listen on {settings.summarizer.host}:{settings.summarizer.port}: {problem.strerror}. Try another --port.")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _serve(settings: Settings, *, stdio: bool) -> None:
    import ipaddress
    import logging

    import anyio

    from tersely.journal import write_journal
    from tersely.runtime import runtime
    from tersely.servers import http, summarizer

    write_journal(summarizer.SERVICE_ID, settings.log_level)
    logger = logging.getLogger("tersely.serve")
    options = settings.summarizer

    def is_loopback(host: str) -> bool:
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    def announce(address: str) -> None:
        models = [spec.model for spec in settings.model.specs()]
        if not models:
            logger.warning(
                "no_model_configured", extra={"consequence": "texts are condensed structurally", "set": settings.model.missing()}
            )
        if not stdio and not is_loopback(options.host) and not options.token:
            logger.warning("open_to_the_network", extra={"host": options.host, "set": "TERSELY_TOKEN"})
        logger.info("listening", extra={"address": address, "model": models[0] if models else None})

    async def run() -> None:
        async with runtime(settings) as parts:
            server = summarizer.build(parts.summarizer)
            if stdio:
                announce("stdio")
                await server.run_async(transport="stdio", show_banner=False)
            else:
                app = http.http_app(server, allowed_hosts=options.allowed_hosts, max_body_bytes=options.max_body_bytes)
                await http.serve(app, host=options.host, port=options.port, on_ready=lambda address: announce(f"{address}/mcp"))

    anyio.run(run)


@main.command()
@click.option("--seed", type=int, default=None, help="Draw the same sample again.")
@click.option("--tokens", type=int, default=200_000, show_default=True, help="Size of the sample.")
def demo(seed: int | None, tokens: int) -> None:
    """See it work: a real MCP client calls a real `tersely serve` with a large sample. No key, no network."""
    from tersely.demo.show import show

    raise SystemExit(show(seed=seed, tokens=tokens))
