"""Totals for metrics and diagnosis: sessions by status, tool statistics by server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import StoreUnavailable
from tersely.store.database import Database
from tersely.store.events import IS_OPEN
from tersely.store.sessions import IS_NO_QUESTION
from tersely.store.tables import sessions, tool_use


@dataclass(frozen=True, kw_only=True)
class ServerUse:
    """Statistics of a server's tools through one entry point."""

    door: str
    server: str
    calls: int
    errors: int
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, kw_only=True)
class Overview:
    sessions: Mapping[str, int]
    """By status, without zeros."""

    oldest_pending: datetime | None
    tools: Sequence[ServerUse]


async def time(db: AsyncConnection) -> datetime:
    """The database's clock."""
    if db.dialect.name == "sqlite":
        return datetime.now(UTC)  # The same machine.
    now: datetime = (await db.execute(sa.select(sa.func.clock_timestamp()))).scalar_one()
    return now


async def suspects(db: AsyncConnection, crashes: int) -> int:
    """Open sessions whose workers crashed at least so often in a row without progress."""
    is_suspect = (sessions.c.crashes >= crashes) & (sessions.c.last_seq <= sessions.c.seq_at_death)
    return int(await db.scalar(sa.select(sa.func.count()).where(IS_OPEN, is_suspect)) or 0)


async def why_read_only(database: Database) -> str | None:
    """Why the database cannot be written; None if it can. Nothing is changed."""
    try:
        async with database.transaction() as db:
            await db.execute(sa.text("UPDATE alembic_version SET version_num = version_num"))
            raise _NotMeant
    except _NotMeant:
        return None
    except StoreUnavailable as problem:
        return str(problem)
    except sa.exc.DBAPIError as problem:
        return " ".join(str(problem.orig).split())[:300]


class _NotMeant(Exception):
    """Rolls a transaction back."""


async def look(db: AsyncConnection) -> Overview:
    pending = sa.case((sessions.c.status == "pending", sessions.c.created_at))
    by_status = (
        await db.execute(
            sa.select(
                sessions.c.status,
                sa.func.count().label("number"),
                sa.func.min(pending, type_=sessions.c.created_at.type).label("oldest"),
            )
            .where(IS_NO_QUESTION)
            .group_by(sessions.c.status)
        )
    ).all()
    counted = ("calls", "errors", "tokens_before", "tokens_after")
    used = await db.execute(
        sa.select(tool_use.c.door, tool_use.c.server, *(sa.func.sum(tool_use.c[name]).label(name) for name in counted))
        .group_by(tool_use.c.door, tool_use.c.server)
        .order_by(tool_use.c.door, tool_use.c.server)
    )
    return Overview(
        sessions={row.status: row.number for row in by_status},
        oldest_pending=min((row.oldest for row in by_status if row.oldest), default=None),
        tools=[
            ServerUse(door=row.door, server=row.server, **{name: int(getattr(row, name)) for name in counted})
            for row in used
        ],
    )
