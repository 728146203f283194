"""What sessions cost and saved, summed by day and chain, and by model. Derived from the sessions; nothing is stored."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store.sessions import IS_NO_QUESTION
from tersely.store.tables import interactions, sessions


@dataclass(frozen=True, kw_only=True)
class DaySpending:
    """The sessions of one chain that were submitted on one day (UTC), with the follow-up questions of that day."""

    day: date
    chain: str
    sessions: int
    """Without questions, which are counted with what they cost."""
    unknown: int
    """Sessions whose price is not known; `price_micros` does not contain them."""
    price_micros: int
    input_tokens: int
    output_tokens: int
    tokens_saved: int


@dataclass(frozen=True, kw_only=True)
class ModelSpending:
    """All calls of one model; what came from our cache was no call."""

    model: str
    provider: str
    calls: int
    unknown: int
    price_micros: int
    input_tokens: int
    output_tokens: int


_FROM_CACHE = (
    (interactions.c.input_tokens + interactions.c.output_tokens == 0)
    & (interactions.c.error == "")
    & interactions.c.response.contains('"outcome":"cached"', autoescape=True)
)


def _sum(column: Any) -> Any:
    return sa.func.coalesce(sa.func.sum(column), 0)


def _start(since: date) -> datetime:
    return datetime.combine(since, time(), UTC)


async def spent_by_day(db: AsyncConnection, *, since: date) -> list[DaySpending]:
    is_postgresql = db.dialect.name == "postgresql"
    moment = sa.func.timezone("UTC", sessions.c.created_at) if is_postgresql else sessions.c.created_at
    day = sa.cast(sa.func.date(moment), sa.String)
    saved = sessions.c.tokens_before - sessions.c.tokens_after
    question = (
        sa.select(
            day.label("day"),
            sessions.c.chain,
            _sum(sa.case((IS_NO_QUESTION, 1), else_=0)).label("sessions"),
            (sa.func.count() - sa.func.count(sessions.c.price_micros)).label("unknown"),
            _sum(sessions.c.price_micros).label("price_micros"),
            _sum(sessions.c.input_tokens).label("input_tokens"),
            _sum(sessions.c.output_tokens).label("output_tokens"),
            _sum(sa.case((saved > 0, saved), else_=0)).label("tokens_saved"),
        )
        .where(sessions.c.created_at >= _start(since))
        .group_by(day, sessions.c.chain)
        .order_by(day, sessions.c.chain)
    )
    return [
        DaySpending(
            day=date.fromisoformat(str(row.day)),
            chain=row.chain,
            **{
                name: int(getattr(row, name))
                for name in ("sessions", "unknown", "price_micros", "input_tokens", "output_tokens", "tokens_saved")
            },
        )
        for row in await db.execute(question)
    ]


async def spent_by_model(db: AsyncConnection, *, since: date) -> list[ModelSpending]:
    question = (
        sa.select(
            interactions.c.model,
            interactions.c.provider,
            sa.func.count().label("calls"),
            (sa.func.count() - sa.func.count(interactions.c.price_micros)).label("unknown"),
            _sum(interactions.c.price_micros).label("price_micros"),
            _sum(interactions.c.input_tokens).label("input_tokens"),
            _sum(interactions.c.output_tokens).label("output_tokens"),
        )
        .join(sessions, sessions.c.id == interactions.c.session_id)
        .where(sessions.c.created_at >= _start(since), interactions.c.interaction_type != "mcp", ~_FROM_CACHE)
        .group_by(interactions.c.model, interactions.c.provider)
    )
    names = ("calls", "unknown", "price_micros", "input_tokens", "output_tokens")
    found = [
        ModelSpending(model=row.model, provider=row.provider, **{name: int(getattr(row, name)) for name in names})
        for row in await db.execute(question)
    ]
    return sorted(found, key=lambda one: (-one.price_micros, one.model))
