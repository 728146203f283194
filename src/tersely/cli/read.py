"""`tersely read`: reads kept results in a terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail
from tersely.cli.extras import check_extra

if TYPE_CHECKING:
    from tersely.results.kept import KeptResult, KeptResults
    from tersely.settings.model import Settings


@click.command()
@click.argument("handle", default="")
@click.option(
    "--lines",
    default="",
    metavar="FROM:TO",
    help="Lines FROM to TO, counted from 1, both included; either can be left out.",
)
@click.option(
    "--bytes", "span", default="", metavar="FROM:TO", help="Bytes FROM to TO, counted from 0, TO not included."
)
@click.option("--grep", "pattern", default="", metavar="PATTERN", help="Lines that match a regular expression (RE2).")
@click.option(
    "-C",
    "--context",
    type=click.IntRange(0, 20),
    default=0,
    metavar="N",
    help="With --grep: lines of context around each match.",
)
@click.option("-i", "--ignore-case", is_flag=True, help="With --grep: ignore case.")
@click.option(
    "--sql", default="", metavar="SELECT", help="SQL query over the table `result` or `lines` (number, line)."
)
@click.option("--scope", default="", metavar="SCOPE", help="Scope whose results to read; your own by default.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def read(
    handle: str,
    lines: str,
    span: str,
    pattern: str,
    context: int,
    ignore_case: bool,
    sql: str,
    scope: str,
    as_json: bool,
) -> None:
    """Read a kept result by its HANDLE, or list all of them.

    \b
    tersely read r_0h3kq9x7v2m5c8dz --lines 100:140
    tersely read r_0h3kq9x7v2m5c8dz --grep "timeout|refused" --context 2
    tersely read r_0h3kq9x7v2m5c8dz --sql "SELECT status, count(*) FROM result GROUP BY 1"
    """
    if sum(map(bool, (lines, span, pattern, sql))) > 1:
        fail("--lines, --bytes, --grep and --sql cannot be combined: give one of them.")
    if not handle and (lines or span or pattern or sql):
        fail("--lines, --bytes, --grep and --sql need a HANDLE; `tersely read` alone lists the handles.")

    if sql:
        check_extra("read --sql")

    import anyio

    from tersely.results.kept import user_scope
    from tersely.settings.model import Settings, find_file

    settings = Settings.load(None, find_file(), sections=("store",), here=True)
    scope = scope or user_scope()
    if not handle:
        anyio.run(_list_kept, settings, scope, as_json)
    elif pattern:
        anyio.run(_grep_kept, settings, scope, handle, pattern, context, ignore_case, as_json)
    elif sql:
        anyio.run(_query_kept, settings, scope, handle, sql, as_json)
    else:
        anyio.run(
            _print_kept, settings, scope, handle, _range(lines, "--lines", 1), _range(span, "--bytes", 0), as_json
        )


def _range(value: str, option: str, least: int) -> tuple[int, int | None] | None:
    """Parse `a:b`, `a:`, `:b`, or `a` for a single line or byte."""
    if not value:
        return None
    first, colon, last = value.partition(":")
    try:
        start = int(first) if first else least
        end = int(last) if last else None if colon else start + 1 - least
    except ValueError:
        start, end = -1, None
    if start < least or (end is not None and end < start):
        fail(f"{option} {value!r} must look like {least}:100, {least}: or :100, the smaller number first.")
    return start, end


async def _list_kept(settings: Settings, scope: str, as_json: bool) -> None:
    from tersely.app.summarizer import kept_results

    async with kept_results(settings) as kept:
        found = await kept.list(scope, limit=100)
    if as_json:
        click.echo(json.dumps([_metadata(result) for result in found], ensure_ascii=False))
        return
    if not found:
        click.secho("No results are kept. The gateway and agents keep the results they condense.", dim=True, err=True)
    for result in found:
        size = f"{result.tokens:,} tokens" if result.tokens is not None else f"{result.size:,} bytes {result.mime_type}"
        when = result.created_at.astimezone().strftime("%Y-%m-%d %H:%M")
        click.echo(f"{click.style(result.handle, bold=True)}  {when}  {result.origin}  {click.style(size, dim=True)}")


async def _print_kept(
    settings: Settings,
    scope: str,
    handle: str,
    lines: tuple[int, int | None] | None,
    span: tuple[int, int | None] | None,
    as_json: bool,
) -> None:
    from tersely.app.summarizer import kept_results

    async with kept_results(settings) as kept, _recorded(kept, "read_result", scope, handle):
        result = await kept.find(handle, scope)
        if not result.is_text:
            if sys.stdout.isatty() or as_json or lines or span:
                fail(
                    f"{result.handle} is {result.mime_type}, not text. Write it to a file: tersely read "
                    f"{result.handle} > FILE"
                )
            sys.stdout.buffer.write((await kept.load_bytes(handle, scope))[0])
            return
        position: dict[str, Any] = {}
        if lines:
            last = min(lines[1] or result.lines, result.lines)
            text = await kept.read_lines(result, lines[0], last)
            position = {"first_line": lines[0], "last_line": last}
            extent = (
                f"lines {lines[0]:,}-{last:,} of {result.lines:,}"
                if text
                else f"no such lines: there are {result.lines:,}"
            )
        elif span:
            stretch = await kept.read_stretch(result, span[0], result.size if span[1] is None else span[1])
            text = stretch.text
            position = {"start_byte": stretch.start, "end_byte": stretch.end}
            extent = f"bytes {stretch.start:,}-{stretch.end:,} of {result.size:,}"
        else:
            text = await kept.load(handle, scope)
            extent = f"{result.lines:,} lines, {result.tokens or 0:,} tokens"
    if as_json:
        click.echo(json.dumps({**_metadata(result), **position, "text": text}, ensure_ascii=False))
        return
    click.echo(text, nl=not text.endswith("\n"))
    called = result.origin.called_at.astimezone().strftime("%Y-%m-%d %H:%M")
    click.secho(f"{result.handle} · {result.origin} · {called} · {extent}", dim=True, err=True)


async def _grep_kept(
    settings: Settings, scope: str, handle: str, pattern: str, context: int, ignore_case: bool, as_json: bool
) -> None:
    from tersely.app.summarizer import kept_results
    from tersely.masking.mask import Masker
    from tersely.pipeline.process import Pipeline
    from tersely.results.read_back import ReadBack
    from tersely.results.read_back_tool import ReadArguments

    async with kept_results(settings) as kept, _recorded(kept, "search_result", scope, handle):
        result = await kept.find(handle, scope)
        # One large page: a terminal scrolls, so nothing has to be paged.
        read_back = ReadBack(kept, summarize=Pipeline().summarizer(Masker()), page_tokens=1_000_000)
        arguments = ReadArguments(handle=handle, pattern=pattern, context=context, ignore_case=ignore_case)
        found = await read_back.search(arguments, scope)
    if as_json:
        click.echo(json.dumps({**_metadata(result), **found.facts, "text": found.body}, ensure_ascii=False))
        return
    for line in found.body.splitlines():
        number, space, rest = line.partition(" ")
        is_match = number.endswith(":")
        click.echo(
            f"{click.style(number, fg='green' if is_match else None, dim=not is_match)}{space}"
            f"{click.style(rest, dim=not is_match)}"
        )
    more = f" (shown up to line {found.next['start_line'] - 1:,})" if found.next else ""
    click.secho(f"{found.facts['matching_lines']:,} of {result.lines:,} lines match{more}", dim=True, err=True)


async def _query_kept(settings: Settings, scope: str, handle: str, sql: str, as_json: bool) -> None:
    from tersely.app.summarizer import kept_results
    from tersely.results.sql import Limits, ask

    async with kept_results(settings) as kept, _recorded(kept, "query_result", scope, handle):
        result = await kept.find(handle, scope)
        text = await kept.load(handle, scope)
    limits = Limits(seconds=60, memory_mb=2048, rows=100_000, answer_bytes=50_000_000, cell_characters=1_000_000)
    table = await ask(text, sql, limits=limits)
    if as_json:
        columns = [{"name": name, "type": kind} for name, kind in table.columns]
        click.echo(
            json.dumps(
                {**_metadata(result), "columns": columns, "rows": table.rows, "more": table.more}, ensure_ascii=False
            )
        )
        return
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        grid = Table(*(name for name, _ in table.columns), header_style="bold", box=None, pad_edge=False)
        for row in table.rows:
            grid.add_row(*("" if cell is None else str(cell) for cell in row))
        Console(highlight=False, markup=False).print(grid)
    else:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([name for name, _ in table.columns])
        writer.writerows(table.rows)
    more = ", and there are more" if table.more else ""
    click.secho(
        f"{len(table.rows):,} rows{more} · from {table.source or f'{result.lines:,} lines'}", dim=True, err=True
    )


@asynccontextmanager
async def _recorded(kept: KeptResults, action: str, scope: str, handle: str) -> AsyncIterator[None]:
    """Put what the block does on record, also if it is refused."""
    from tersely.errors import InputError, ResultNotFound
    from tersely.store.audit import record, shell_entry

    status = 200
    try:
        yield
    except ResultNotFound:
        # Its own message is written for a model.
        status = 404
        raise InputError(
            f"No kept result has the handle {handle[:80]!r}. `tersely read` lists those you can read."
        ) from None
    except InputError:
        status = 404
        raise
    finally:
        await record(kept.database, shell_entry(action, f"{scope}/{handle}", status=status))


def _metadata(result: KeptResult) -> dict[str, Any]:
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
