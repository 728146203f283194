"""`tersely stats`: what went through, what it weighed before and after, and how long it took."""

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
    from tersely.store.usage import ToolUse

_SUMS = ("calls", "errors", "condensed", "cached", "read_backs", "tokens_before", "tokens_after", "milliseconds")


@click.command()
@click.option(
    "--since", default="", metavar="WHEN", help="Only from this day on: 2026-11-01, 7d (the last seven days), today."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stats(since: str, as_json: bool) -> None:
    """What went through the gateway and into investigations: today, and in all.

    Days are those of UTC. Only sums are kept: no arguments, no results, no callers.
    """
    import anyio

    from tersely.settings.model import Settings, find_file

    today = datetime.now(UTC).date()
    first = _day(since, today)
    used = anyio.run(_used, Settings.load(None, find_file(), sections=("store",)), first)
    report = summary(used, today, first)
    if as_json:
        click.echo(json.dumps(report, ensure_ascii=False))
    elif not used:
        _show_nothing(first)
    else:
        _show(report)


def _day(words: str, today: date) -> date | None:
    if not words:
        return None
    if words in ("today", "yesterday"):
        return today - timedelta(days=words == "yesterday")
    if days := re.fullmatch(r"([1-9][0-9]{0,4})d", words):
        return today - timedelta(days=int(days[1]) - 1)
    try:
        return date.fromisoformat(words)
    except ValueError:
        fail(f"--since {words!r} is no day. Write 2026-11-01, 7d, yesterday or today.")


async def _used(settings: Settings, since: date | None) -> list[ToolUse]:
    from tersely.store.database import Database
    from tersely.store.usage import used

    async with Database.open(settings.store.url) as database, database.reading() as db:
        return await used(db, since=since)


def summary(used: Iterable[ToolUse], today: date, since: date | None) -> dict[str, Any]:
    """The report, as `--json` prints it."""
    rows = list(used)
    tools: defaultdict[tuple[str, str, str], list[ToolUse]] = defaultdict(list)
    servers: defaultdict[tuple[str, str], list[ToolUse]] = defaultdict(list)
    for row in rows:
        tools[row.door, row.server, row.tool].append(row)
        servers[row.door, row.server].append(row)

    def both(of: list[ToolUse]) -> dict[str, Any]:
        return {"today": _added(row for row in of if row.day == today), "all": _added(of)}

    return {
        "since": str(since or min((row.day for row in rows), default=today)),
        "encoding": "o200k_base",
        **both(rows),
        "servers": [{"door": door, "server": server, **both(of)} for (door, server), of in _heaviest_first(servers)],
        "tools": [
            {"door": door, "server": server, "tool": tool, **both(of)}
            for (door, server, tool), of in _heaviest_first(tools)
        ],
    }


def _heaviest_first(groups: Mapping[Any, list[ToolUse]]) -> list[tuple[Any, list[ToolUse]]]:
    return sorted(groups.items(), key=lambda group: (-sum(row.tokens_before for row in group[1]), group[0]))


def _added(rows: Iterable[ToolUse]) -> dict[str, Any]:
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
        "p50_ms": _within(latency, 0.5),
        "p95_ms": _within(latency, 0.95),
        "mean_ms": round(sums["milliseconds"] / sums["calls"]) if sums["calls"] else None,
    }


def _within(latency: Mapping[int, int], part: float) -> int | None:
    """The edge of the bucket within which this part of the calls was answered."""
    wanted, seen = part * sum(latency.values()), 0
    for edge, calls in sorted(latency.items()):
        seen += calls
        if seen >= wanted and calls:
            return edge
    return None


# Looking at it


def _show_nothing(since: date | None) -> None:
    if since:
        click.echo(f"Nothing was called since {since}. `tersely stats` alone shows everything.")
        return
    click.echo(
        "Nothing was called yet. Put tersely in front of your MCP servers, call a tool, and look again:\n\n"
        "  tersely gateway install claude-desktop    or claude-code, cursor, vscode, windsurf\n"
        "  tersely gateway --config mcp.json         for any other client"
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
    totals.add_row(Text("tokens", style="bold"), _shrunk(today), _shrunk(everything))
    for name, title in (
        ("calls", "calls"),
        ("condensed", "condensed"),
        ("cache_hits", "summaries from the cache"),
        ("read_backs", "read-backs"),
    ):
        totals.add_row(title, f"{today[name]:,}", f"{everything[name]:,}")
    totals.add_row("errors", _errors(today), _errors(everything))
    totals.add_row("half of the calls within", _took(today["p50_ms"]), _took(everything["p50_ms"]))
    totals.add_row("95 of 100 within", _took(today["p95_ms"]), _took(everything["p95_ms"]))
    console.print(totals)
    console.print()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tool", no_wrap=True, overflow="ellipsis")
    for title in ("calls", "today", "errors", "condensed", "cached", "read-backs", "tokens", "p50", "p95"):
        table.add_column(title, justify="right")
    for server in report["servers"]:
        door = f" · {server['door']}s" if server["door"] == "session" else ""
        table.add_row(Text(_plain(server["server"]), style="bold") + Text(door, style="dim"), *_cells(server))
        for tool in report["tools"]:
            if (tool["door"], tool["server"]) == (server["door"], server["server"]):
                table.add_row(Text(f"  {_plain(tool['tool'])}"), *_cells(tool))
    console.print(table)


def _cells(group: Mapping[str, Any]) -> list[Any]:
    of = group["all"]
    numbers = [f"{of[name]:,}" if of[name] else "·" for name in ("condensed", "cache_hits", "read_backs")]
    today = f"{group['today']['calls']:,}" if group["today"]["calls"] else "·"
    return [f"{of['calls']:,}", today, _errors(of), *numbers, _shrunk(of), _took(of["p50_ms"]), _took(of["p95_ms"])]


def _shrunk(of: Mapping[str, Any]) -> Any:
    from rich.text import Text

    before, after = of["tokens_in"], of["tokens_out"]
    if not before:
        return Text("·", style="dim")
    if after >= before:
        return Text(f"{before:,}")
    spared = 1000 * (before - after) // before / 10  # rounded down: −100 % would say that nothing is left
    return Text(f"{before:,} → {after:,} ") + Text(
        f"−{spared:.1f} %" if spared > 99 else f"−{spared:.0f} %", style="green"
    )


def _errors(of: Mapping[str, Any]) -> Any:
    from rich.text import Text

    return Text(f"{of['errors']:,}", style="red") if of["errors"] else Text("·", style="dim")


def _took(edge: int | None) -> str:
    if edge is None:
        return "·"
    return f"{edge} ms" if edge < 1000 else "over 5 min" if edge > 300_000 else f"{edge / 1000:g} s"


def _plain(name: str) -> str:
    """Names come from servers; a terminal must not obey them."""
    return "".join(sign if sign.isprintable() else "?" for sign in name)[:80]
