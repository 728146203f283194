"""`tersely stats`: calls, tokens before and after condensing, and latency, by server and tool; ratings by chain."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tersely.cli.errors import fail

if TYPE_CHECKING:
    from tersely.settings.model import Settings
    from tersely.store.triage import RatingCounts
    from tersely.store.usage import ToolUse

_SUMS = ("calls", "errors", "condensed", "cached", "read_backs", "tokens_before", "tokens_after", "milliseconds")


@click.command()
@click.option(
    "--since",
    default="",
    metavar="WHEN",
    help="First day to count: 2026-11-01, 7d (the last seven days), yesterday, today.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(since: str, as_json: bool) -> None:
    """Show calls and saved tokens by server and tool.

    Counts the calls of the gateway, of investigations, of `tersely run` and of hooks, today and in total. A hook's
    result counts as condensed if the client's transcript has it, with our note. Days are UTC days. Only sums are
    stored: no arguments, no results, no callers. Below them, how people rated the verdicts of each chain.
    """
    import anyio

    from tersely.settings.model import Settings, find_file

    today = datetime.now(UTC).date()
    first = _day(since, today)
    uses, ratings = anyio.run(_read_uses, Settings.load(None, find_file(), sections=("store",), here=True), first)
    report = {**summary(uses, today, first), "verdicts": [_rating_counts(one) for one in ratings]}
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
        return
    if not uses:
        _show_nothing(first)
    else:
        _show(report)
    if ratings:
        _show_ratings(report["verdicts"])


def _day(value: str, today: date) -> date | None:
    if not value:
        return None
    if value in ("today", "yesterday"):
        return today - timedelta(days=value == "yesterday")
    if days := re.fullmatch(r"([1-9][0-9]{0,4})d", value):
        return today - timedelta(days=int(days[1]) - 1)
    try:
        return date.fromisoformat(value)
    except ValueError:
        fail(f"--since {value!r} is not a day. Use 2026-11-01, 7d, yesterday or today.")


async def _read_uses(settings: Settings, since: date | None) -> tuple[list[ToolUse], list[RatingCounts]]:
    from tersely.coding.counting import spooled_tally
    from tersely.store.database import Database
    from tersely.store.triage import count_ratings
    from tersely.store.usage import add, take_in, used

    moment = datetime.combine(since, datetime.min.time(), UTC) if since else None
    async with Database.open(settings.store.url) as database:
        await take_in(database, settings.store.spool)
        if tally := spooled_tally(settings.store.spool):
            async with database.transaction() as db:
                await add(db, tally)
        async with database.reading() as db:
            return await used(db, since=since), await count_ratings(db, since=moment)


def _rating_counts(one: RatingCounts) -> dict[str, Any]:
    names = ("chain", "verdicts", "rated", "right", "partly", "wrong")
    return {name: getattr(one, name) for name in names}


def summary(uses: Iterable[ToolUse], today: date, since: date | None) -> dict[str, Any]:
    """The report as `--json` prints it."""
    rows = list(uses)
    tools: defaultdict[tuple[str, str, str], list[ToolUse]] = defaultdict(list)
    servers: defaultdict[tuple[str, str], list[ToolUse]] = defaultdict(list)
    for row in rows:
        tools[row.door, row.server, row.tool].append(row)
        servers[row.door, row.server].append(row)

    def totals(group: list[ToolUse]) -> dict[str, Any]:
        return {"today": _sum(row for row in group if row.day == today), "all": _sum(group)}

    return {
        "since": str(since or min((row.day for row in rows), default=today)),
        "encoding": "o200k_base",
        **totals(rows),
        "servers": [
            {"door": door, "server": server, **totals(group)} for (door, server), group in _most_tokens_first(servers)
        ],
        "tools": [
            {"door": door, "server": server, "tool": tool, **totals(group)}
            for (door, server, tool), group in _most_tokens_first(tools)
        ],
    }


def _most_tokens_first(groups: Mapping[Any, list[ToolUse]]) -> list[tuple[Any, list[ToolUse]]]:
    return sorted(groups.items(), key=lambda group: (-sum(row.tokens_before for row in group[1]), group[0]))


def _sum(rows: Iterable[ToolUse]) -> dict[str, Any]:
    sums: Counter[str] = Counter()
    latency: Counter[int] = Counter()
    for row in rows:
        sums.update({name: getattr(row, name) for name in _SUMS})
        latency.update(row.latency)
    return {
        "calls": sums["calls"],
        "errors": sums["errors"],
        "tokens_in": sums["tokens_before"],
        "tokens_out": sums["tokens_after"],
        "condensed": sums["condensed"],
        "cache_hits": sums["cached"],
        "read_backs": sums["read_backs"],
        "p50_ms": _percentile(latency, 0.5),
        "p95_ms": _percentile(latency, 0.95),
        "mean_ms": round(sums["milliseconds"] / sums["calls"]) if sums["calls"] else None,
    }


def _percentile(latency: Mapping[int, int], share: float) -> int | None:
    """The upper edge of the histogram bucket that contains this percentile."""
    wanted, seen = share * sum(latency.values()), 0
    for edge, calls in sorted(latency.items()):
        seen += calls
        if seen >= wanted and calls:
            return edge
    return None


# Terminal output


def _show_nothing(since: date | None) -> None:
    if since:
        click.echo(f"No calls since {since}. Without --since, `tersely stats` shows all of them.")
        return
    click.echo(
        "No calls yet. Put the gateway in front of your MCP servers and call a tool:\n\n"
        "  tersely gateway install claude-desktop    or claude-code, cursor, vscode, windsurf\n"
        "  tersely gateway --config mcp.json         for any other client\n\n"
        "For the tools of a coding agent itself:\n\n"
        "  tersely hook install claude-code"
    )


def _show(report: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    totals = Table(box=None, pad_edge=False, header_style="dim")
    totals.add_column("")
    for title in ("today", f"since {report['since']}"):
        totals.add_column(title, justify="right")
    today, everything = report["today"], report["all"]
    totals.add_row(Text("tokens", style="bold"), _token_change(today), _token_change(everything))
    for name, title in (
        ("calls", "calls"),
        ("condensed", "condensed"),
        ("cache_hits", "summaries from the cache"),
        ("read_backs", "read-backs"),
    ):
        totals.add_row(title, f"{today[name]:,}", f"{everything[name]:,}")
    totals.add_row("errors", _errors(today), _errors(everything))
    totals.add_row("p50 latency", _duration(today["p50_ms"]), _duration(everything["p50_ms"]))
    totals.add_row("p95 latency", _duration(today["p95_ms"]), _duration(everything["p95_ms"]))
    console.print(totals)
    console.print()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tool", no_wrap=True, overflow="ellipsis")
    for title in ("calls", "today", "errors", "condensed", "cached", "read-backs", "tokens", "p50", "p95"):
        table.add_column(title, justify="right")
    for server in report["servers"]:
        door = {"session": " · sessions", "run": " · tersely run", "hook": " · hook"}.get(server["door"], "")
        table.add_row(Text(_printable(server["server"]), style="bold") + Text(door, style="dim"), *_cells(server))
        for tool in report["tools"]:
            if (tool["door"], tool["server"]) == (server["door"], server["server"]):
                table.add_row(Text(f"  {_printable(tool['tool'])}"), *_cells(tool))
    console.print(table)


def _show_ratings(chains: Iterable[Mapping[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("chain", no_wrap=True, overflow="ellipsis")
    for title in ("verdicts", "rated", "right", "partly", "wrong"):
        table.add_column(title, justify="right")
    for chain in chains:
        numbers = (chain[name] for name in ("verdicts", "rated", "right", "partly", "wrong"))
        table.add_row(Text(_printable(chain["chain"])), *(f"{number:,}" if number else "·" for number in numbers))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    console.print()
    console.print(table)


def _cells(group: Mapping[str, Any]) -> list[Any]:
    sums = group["all"]
    numbers = [f"{sums[name]:,}" if sums[name] else "·" for name in ("condensed", "cache_hits", "read_backs")]
    today = f"{group['today']['calls']:,}" if group["today"]["calls"] else "·"
    durations = [_duration(sums[name]) for name in ("p50_ms", "p95_ms")]
    return [f"{sums['calls']:,}", today, _errors(sums), *numbers, _token_change(sums), *durations]


def _token_change(sums: Mapping[str, Any]) -> Any:
    from rich.text import Text

    before, after = sums["tokens_in"], sums["tokens_out"]
    if not before:
        # What the gateway's own tools cost has no size before.
        return Text(f"+{after:,}") if after else Text("·", style="dim")
    if after >= before:
        return Text(f"{before:,}")
    saved = 1000 * (before - after) // before / 10  # rounded down: −100 % would mean that nothing is left
    return Text(f"{before:,} → {after:,} ") + Text(
        f"−{saved:.1f} %" if saved > 99 else f"−{saved:.0f} %", style="green"
    )


def _errors(sums: Mapping[str, Any]) -> Any:
    from rich.text import Text

    return Text(f"{sums['errors']:,}", style="red") if sums["errors"] else Text("·", style="dim")


def _duration(edge: int | None) -> str:
    if edge is None:
        return "·"
    return f"{edge} ms" if edge < 1000 else "over 5 min" if edge > 300_000 else f"{edge / 1000:g} s"


def _printable(name: str) -> str:
    """Names come from servers and may contain control sequences."""
    return "".join(char if char.isprintable() else "?" for char in name)[:80]
