"""Tool statistics: calls, sizes and latency, summed by day, entry point, server and tool.

Sums only: no arguments, no results, no callers. Callers collect a `Tally` in memory and
add it now and then, so that a call costs no write.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store.tables import tool_latency, tool_use

Door = Literal["gateway", "session", "run", "hook"]
Key = tuple[date, str, str, str]
"""Day, entry point, server, tool."""

EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 2_000_000_000)
"""Upper bounds of the latency buckets, in milliseconds."""

_SUMS = ("calls", "errors", "condensed", "cached", "read_backs", "tokens_before", "tokens_after", "milliseconds")


@dataclass
class Tally:
    """Sums that are not stored yet."""

    sums: defaultdict[Key, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    latency: defaultdict[Key, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def call(
        self,
        key: Key,
        *,
        milliseconds: float,
        tokens_before: int = 0,
        tokens_after: int = 0,
        is_error: bool = False,
        condensed: bool = False,
        cached: bool = False,
    ) -> None:
        self.sums[key].update(
            calls=1,
            errors=int(is_error),
            condensed=int(condensed),
            cached=int(cached),
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            milliseconds=round(milliseconds),
        )
        self.latency[key][next(edge for edge in EDGES if milliseconds <= edge or edge == EDGES[-1])] += 1

    def read_back(self, key: Key) -> None:
        """Count a read of a kept result of this tool."""
        self.sums[key].update(read_backs=1)

    def __bool__(self) -> bool:
        return bool(self.sums)


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """Statistics of one tool on one day."""

    day: date
    door: str
    server: str
    tool: str
    calls: int
    errors: int
    condensed: int
    cached: int
    read_backs: int
    tokens_before: int
    tokens_after: int
    milliseconds: int
    latency: Mapping[int, int]
    """Calls by the upper bound of their bucket, in milliseconds."""


async def add(db: AsyncConnection, tally: Tally) -> None:
    """Add a tally to the stored sums; safe for concurrent processes."""
    uses, latencies = _adding(db.dialect.name)
    # Sorted, so that two writers cannot deadlock.
    for (day, door, server, tool), sums in sorted(tally.sums.items()):
        await db.execute(
            uses, {"day": day, "door": door, "server": server, "tool": tool, **{name: sums[name] for name in _SUMS}}
        )
    for (day, door, server, tool), buckets in sorted(tally.latency.items()):
        for edge, calls in sorted(buckets.items()):
            row = {"day": day, "door": door, "server": server, "tool": tool, "up_to_ms": edge, "calls": calls}
            await db.execute(latencies, row)


@functools.cache
def _adding(dialect: str) -> tuple[Any, Any]:
    """Statements that add to the stored sums. Built once: building takes longer than executing."""
    insert = sqlite.insert if dialect == "sqlite" else postgresql.insert

    def adding(table: sa.Table, names: Sequence[str]) -> Any:
        row = insert(table)
        more = {name: table.c[name] + row.excluded[name] for name in names}
        return row.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=more)

    return adding(tool_use, _SUMS), adding(tool_latency, ["calls"])


async def most_used(db: AsyncConnection, *, door: Door, since: date, least: int, most: int) -> list[str]:
    """The tools that were called most, as `server.tool`, if they were called at least so often."""
    calls = sa.func.sum(tool_use.c.calls)
    chosen = (
        sa.select(tool_use.c.server, tool_use.c.tool)
        .where(tool_use.c.door == door, tool_use.c.day >= since)
        .group_by(tool_use.c.server, tool_use.c.tool)
        .having(calls >= least)
        .order_by(calls.desc(), tool_use.c.server, tool_use.c.tool)
        .limit(most)
    )
    return [f"{server}.{tool}" for server, tool in await db.execute(chosen)]


async def used(db: AsyncConnection, *, since: date | None = None, door: Door | None = None) -> list[ToolUse]:
    """Statistics by day and tool, oldest day first."""

    def asked(table: sa.Table) -> sa.Select[tuple[object, ...]]:
        chosen = sa.select(table).order_by(*table.primary_key.columns)
        if since:
            chosen = chosen.where(table.c.day >= since)
        return chosen.where(table.c.door == door) if door else chosen

    latency: defaultdict[tuple[object, ...], dict[int, int]] = defaultdict(dict)
    for row in (await db.execute(asked(tool_latency))).mappings():
        latency[row["day"], row["door"], row["server"], row["tool"]][row["up_to_ms"]] = row["calls"]
    return [
        ToolUse(**row, latency=latency[row["day"], row["door"], row["server"], row["tool"]])
        for row in (await db.execute(asked(tool_use))).mappings()
    ]
