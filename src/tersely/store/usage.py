"""Tool statistics: calls, sizes and latency, summed by day, entry point, server and tool.

Sums only: no arguments, no results, no callers. Callers collect a `Tally` in memory and
add it now and then, so that a call costs no write.
"""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import StoreUnavailable
from tersely.store.database import Database
from tersely.store.events import insert_into
from tersely.store.tables import tool_latency, tool_use
from tersely.store.tally import SUMS, Door, Tally


class SumsSpool(Protocol):
    """Where processes without a database write sums; implemented by `results.spool.ResultSpool`."""

    def add_sums(self, rows: Sequence[Mapping[str, Any]]) -> bool: ...

    def take_sums(self) -> list[dict[str, Any]]: ...


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
            uses, {"day": day, "door": door, "server": server, "tool": tool, **{name: sums[name] for name in SUMS}}
        )
    for (day, door, server, tool), buckets in sorted(tally.latency.items()):
        for edge, calls in sorted(buckets.items()):
            row = {"day": day, "door": door, "server": server, "tool": tool, "up_to_ms": edge, "calls": calls}
            await db.execute(latencies, row)


async def take_in(database: Database, spool: SumsSpool) -> None:
    """Store the sums that processes without a database wrote to the spool.

    Raises:
        StoreUnavailable: The database did not answer; the sums are in the spool again.
    """
    if not (rows := spool.take_sums()):
        return
    try:
        async with database.transaction() as db:
            await add(db, Tally.from_rows(rows))
    except StoreUnavailable:
        spool.add_sums(rows)
        raise


@functools.cache
def _adding(dialect: str) -> tuple[Any, Any]:
    """Statements that add to the stored sums. Built once: building takes longer than executing."""

    def adding(table: sa.Table, names: Sequence[str]) -> Any:
        row = insert_into(dialect, table)
        more = {name: table.c[name] + row.excluded[name] for name in names}
        return row.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=more)

    return adding(tool_use, SUMS), adding(tool_latency, ["calls"])


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
