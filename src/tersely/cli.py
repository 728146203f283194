"""The command line. Each command imports what it needs when it runs, so that `--help` answers at once."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tersely.errors import TerselyError

if TYPE_CHECKING:
    from tersely.condensing.budget import Condensed
    from tersely.config import Settings
    from tersely.tools.kept import KeptResult

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Commands(click.Group):
    """Mistakes that somebody can act on end in one or two sentences, not in a traceback."""

    def main(self, *args: Any, **options: Any) -> Any:
        try:
            outcome = super().main(*args, **{**options, "standalone_mode": False})
            raise SystemExit(outcome if isinstance(outcome, int) else 0)
        except click.exceptions.Abort:
            raise SystemExit(130) from None
        except click.UsageError as mistake:
            helped = mistake.ctx.command_path if mistake.ctx else "tersely"
            _fail(f"{mistake.format_message()} See {helped} --help.")
        except click.ClickException as mistake:
            _fail(mistake.format_message())
        except TerselyError as mistake:
            _fail(str(mistake))
        except BrokenPipeError:
            # Whoever read us has seen enough: `tersely condense … | head`.
            _forget_output()
            raise SystemExit(0) from None
        except OSError as problem:
            _forget_output()
            _fail(f"{problem.strerror or problem}{f': {problem.filename}' if problem.filename else ''}")


def _forget_output() -> None:
    """What could not be written must not be tried again when the interpreter ends: it would complain once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    from tersely.condensing.budget import SMALLEST_BUDGET

    if file.name == "<stdin>" and sys.stdin.isatty():
        _fail("Nothing to condense. Name a file, or pipe something in: journalctl -u api | tersely condense --budget 800")
    text = file.read().decode("utf-8", "replace").removeprefix("\ufeff")
    if budget < SMALLEST_BUDGET:
        _fail(f"--budget {budget} is too small: at least {SMALLEST_BUDGET} tokens are needed for anything readable.")
    began = time.perf_counter()
    condensed = _summarize(text, budget, focus, schema_hint) if llm else _condense(text, budget, schema_hint or focus)
    seconds = time.perf_counter() - began
    if as_json:
        click.echo(json.dumps(_as_json(condensed, seconds), ensure_ascii=False))
        return
    click.echo(condensed.text, nl=not condensed.text.endswith("\n"))
    if explain:
        _explain(condensed)
    click.secho(_closing_line(condensed, seconds), dim=True, err=True)


def _condense(text: str, budget: int, focus: str) -> Condensed:
    from tersely.condensing.ladder import condense

    return condense(text, budget=budget, focus=focus)


def _summarize(text: str, budget: int, focus: str, schema_hint: str) -> Condensed:
    import logging

    import anyio

    from tersely.config import Settings
    from tersely.runtime import runtime

    settings = Settings.load()
    if not settings.model.specs():
        _fail(f"--llm needs a model: set {settings.model.missing()}. Without --llm no model is needed.")

    # What went wrong is said in the closing line; a log line in between would only be in the way.
    logging.getLogger("tersely").addHandler(logging.NullHandler())

    async def run() -> Condensed:
        progress = _progress_line()
        async with runtime(settings, fallback="structural") as parts:
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
    from tersely.tools.kept import user_scope

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

    # Kept results belong to the user who runs this; only callers on this machine may name them.
    scope = user_scope() if stdio or is_loopback(options.host) else None

    async def run() -> None:
        async with runtime(settings, handles_of=scope) as parts:
            server = summarizer.build(parts.summarizer)
            if stdio:
                announce("stdio")
                await server.run_async(transport="stdio", show_banner=False)
            else:
                app = http.http_app(server, allowed_hosts=options.allowed_hosts, max_body_bytes=options.max_body_bytes)
                await http.serve(app, host=options.host, port=options.port, on_ready=lambda address: announce(f"{address}/mcp"))

    anyio.run(run)


@main.command()
@click.argument("handle", default="")
@click.option("--lines", default="", metavar="FROM:TO", help="These lines, from 1, both included; either end may be left out.")
@click.option("--bytes", "span", default="", metavar="FROM:TO", help="These bytes, from 0, the last not included.")
@click.option("--grep", "pattern", default="", metavar="PATTERN", help="Lines that match a regular expression (re2).")
@click.option("-C", "--context", type=click.IntRange(0, 20), default=0, metavar="N", help="With --grep: lines around each match.")
@click.option("-i", "--ignore-case", is_flag=True, help="With --grep: capitals do not matter.")
@click.option("--sql", default="", metavar="SELECT", help="Ask the table `result`, or `lines` (number, line), with SQL.")
@click.option("--scope", default="", metavar="SCOPE", help="Whose results; yours unless said otherwise.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def read(handle: str, lines: str, span: str, pattern: str, context: int, ignore_case: bool, sql: str, scope: str, as_json: bool) -> None:
    """Read a kept result by its HANDLE; without one, list what is kept.

    \b
    tersely read r_0h3kq9x7v2m5c8dz --lines 100:140
    tersely read r_0h3kq9x7v2m5c8dz --grep "timeout|refused" --context 2
    tersely read r_0h3kq9x7v2m5c8dz --sql "SELECT status, count(*) FROM result GROUP BY 1"
    """
    if sum(map(bool, (lines, span, pattern, sql))) > 1:
        _fail("--lines, --bytes, --grep and --sql are different questions: ask one at a time.")
    if not handle and (lines or span or pattern or sql):
        _fail("Which result? Name its handle: tersely read r_… (`tersely read` alone lists them).")

    import anyio

    from tersely.config import Settings
    from tersely.tools.kept import user_scope

    settings = Settings.load()
    scope = scope or user_scope()
    if not handle:
        anyio.run(_list_kept, settings, scope, as_json)
    elif pattern:
        anyio.run(_grep_kept, settings, scope, handle, pattern, context, ignore_case, as_json)
    elif sql:
        anyio.run(_query_kept, settings, scope, handle, sql, as_json)
    else:
        anyio.run(_print_kept, settings, scope, handle, _range(lines, "--lines", 1), _range(span, "--bytes", 0), as_json)


def _range(words: str, option: str, least: int) -> tuple[int, int | None] | None:
    """`a:b`, `a:`, `:b` or `a` alone, which is one line or byte."""
    if not words:
        return None
    first, colon, last = words.partition(":")
    try:
        start = int(first) if first else least
        end = int(last) if last else None if colon else start + 1 - least
    except ValueError:
        start, end = -1, None
    if start < least or (end is not None and end < start):
        _fail(f"{option} {words!r} must look like {least}:100, {least}: or :100, the smaller number first.")
    return start, end


async def _list_kept(settings: Settings, scope: str, as_json: bool) -> None:
    from tersely.runtime import kept_results

    async with kept_results(settings) as kept:
        found = await kept.list(scope, limit=100)
    if as_json:
        click.echo(json.dumps([_known(result) for result in found], ensure_ascii=False))
        return
    if not found:
        click.secho("Nothing is kept. The gateway and agents keep what they condense.", dim=True, err=True)
    for result in found:
        size = f"{result.tokens:,} tokens" if result.tokens is not None else f"{result.size:,} bytes {result.mime_type}"
        when = result.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
        click.echo(f"{click.style(result.handle, bold=True)}  {when}  {result.origin}  {click.style(size, dim=True)}")


async def _print_kept(
    settings: Settings, scope: str, handle: str, lines: tuple[int, int | None] | None, span: tuple[int, int | None] | None, as_json: bool
) -> None:
    from tersely.runtime import kept_results

    async with kept_results(settings) as kept:
        result = await kept.find(handle, scope)
        if not result.is_text:
            if sys.stdout.isatty() or as_json or lines or span:
                _fail(f"{result.handle} is {result.mime_type}, not text. Write it to a file: tersely read {result.handle} > FILE")
            sys.stdout.buffer.write((await kept.load_bytes(handle, scope))[0])
            return
        where: dict[str, Any] = {}
        if lines:
            last = min(lines[1] or result.lines, result.lines)
            text = await kept.read_lines(result, lines[0], last)
            where = {"first_line": lines[0], "last_line": last}
            account = f"lines {lines[0]:,}-{last:,} of {result.lines:,}" if text else f"no such lines: there are {result.lines:,}"
        elif span:
            stretch = await kept.read_stretch(result, span[0], result.size if span[1] is None else span[1])
            text = stretch.text
            where = {"start_byte": stretch.start, "end_byte": stretch.end}
            account = f"bytes {stretch.start:,}-{stretch.end:,} of {result.size:,}"
        else:
            text = await kept.load(handle, scope)
            account = f"{result.lines:,} lines, {result.tokens or 0:,} tokens"
    if as_json:
        click.echo(json.dumps({**_known(result), **where, "text": text}, ensure_ascii=False))
        return
    click.echo(text, nl=not text.endswith("\n"))
    called = result.origin.called_at.astimezone().strftime("%Y-%m-%d %H:%M")
    click.secho(f"{result.handle} · {result.origin} · {called} · {account}", dim=True, err=True)


async def _grep_kept(settings: Settings, scope: str, handle: str, pattern: str, context: int, ignore_case: bool, as_json: bool) -> None:
    from tersely.runtime import kept_results
    from tersely.tools.mask import Masker
    from tersely.tools.read_back import ReadBack, SearchArguments

    async with kept_results(settings) as kept:
        result = await kept.find(handle, scope)
        # One page as large as a person's patience.
        back = ReadBack(kept, masker=Masker(), page_tokens=1_000_000)
        asked = SearchArguments(handle=handle, pattern=pattern, context=context, ignore_case=ignore_case)
        answer = await back.search(asked, scope)
    if as_json:
        click.echo(json.dumps({**_known(result), **answer.facts, "text": answer.body}, ensure_ascii=False))
        return
    for line in answer.body.splitlines():
        number, sign, rest = line.partition(" ")
        found = number.endswith(":")
        click.echo(f"{click.style(number, fg='green' if found else None, dim=not found)}{sign}{click.style(rest, dim=not found)}")
    more = f" (shown up to line {answer.next['start_line'] - 1:,})" if answer.next else ""
    click.secho(f"{answer.facts['matching_lines']:,} of {result.lines:,} lines match{more}", dim=True, err=True)


async def _query_kept(settings: Settings, scope: str, handle: str, sql: str, as_json: bool) -> None:
    from tersely.runtime import kept_results
    from tersely.tools.sql_over_results import Limits, ask

    async with kept_results(settings) as kept:
        result = await kept.find(handle, scope)
        text = await kept.load(handle, scope)
    limits = Limits(seconds=60, memory_mb=2048, rows=100_000, answer_bytes=50_000_000, cell_characters=1_000_000)
    table = await ask(text, sql, limits=limits)
    if as_json:
        columns = [{"name": name, "type": kind} for name, kind in table.columns]
        click.echo(json.dumps({**_known(result), "columns": columns, "rows": table.rows, "more": table.more}, ensure_ascii=False))
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table(*(name for name, _ in table.columns), header_style="bold", box=None, pad_edge=False)
        for row in table.rows:
            drawn.add_row(*("" if cell is None else str(cell) for cell in row))
        Console(highlight=False, markup=False).print(drawn)
    else:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([name for name, _ in table.columns])
        writer.writerows(table.rows)
    more = ", and there are more" if table.more else ""
    click.secho(f"{len(table.rows):,} rows{more} · from {table.source or f'{result.lines:,} lines'}", dim=True, err=True)


def _known(result: KeptResult) -> dict[str, Any]:
    return {
        "handle": result.handle,
        "server": result.origin.server,
        "tool": result.origin.tool,
        "arguments": result.origin.arguments,
        "called_at": result.origin.called_at.isoformat(),
        "kind": result.kind,
        "mime_type": result.mime_type,
        "bytes": result.size,
        "lines": result.lines,
        "tokens": result.tokens,
        "encoding": result.encoding,
        "expires_at": result.expires_at.isoformat(),
    }


@main.command()
def migrate() -> None:
    """Bring the database to the schema this version needs.

    PostgreSQL needs it before the first start and after an update that says so; SQLite is migrated by itself.
    """
    import anyio

    from tersely.config import Settings
    from tersely.store.database import Database

    settings = Settings.load()
    before, now = anyio.run(Database.migrate, settings.store.url)
    if before == now:
        click.echo(f"The database has schema {now} already.")
    else:
        click.echo(f"Migrated the database from {f'schema {before}' if before else 'nothing'} to schema {now}.")


@main.command()
@click.option("--seed", type=int, default=None, help="Draw the same sample again.")
@click.option("--tokens", type=int, default=200_000, show_default=True, help="Size of the sample.")
def demo(seed: int | None, tokens: int) -> None:
    """See it work: a real MCP client calls a real `tersely serve` with a large sample. No key, no network."""
    from tersely.demo.show import show

    raise SystemExit(show(seed=seed, tokens=tokens))
