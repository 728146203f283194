"""What people do with a session: assign, acknowledge, close, and rate its verdict.

One row per session, added with the first action. Repeating an action changes nothing:
the first acknowledgement and the first close stay until the session is reopened.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.store import events
from tersely.store.packing import storable
from tersely.store.tables import sessions
from tersely.store.tables import triage as rows

Rating = Literal["right", "partly", "wrong"]
TriageState = Literal["open", "acknowledged", "closed"]
RATINGS: tuple[Rating, ...] = get_args(Rating)


@dataclass(frozen=True, kw_only=True)
class Triage:
    """Texts are masked."""

    assignee: str | None = None
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    closed_by: str | None = None
    closed_at: datetime | None = None
    close_note: str = ""
    rating: Rating | None = None
    rating_note: str = ""
    rated_by: str | None = None
    rated_at: datetime | None = None

    @property
    def state(self) -> TriageState:
        return "closed" if self.closed_at else "acknowledged" if self.acknowledged_at else "open"


UNTOUCHED = Triage()
_NAMES = [field.name for field in fields(Triage)]


async def find_triage(db: AsyncConnection, session_id: str) -> Triage:
    return (await triage_of(db, [session_id])).get(session_id, UNTOUCHED)


async def triage_of(db: AsyncConnection, session_ids: Sequence[str]) -> dict[str, Triage]:
    """By session; those without any action are missing."""
    if not session_ids:
        return {}
    found = await db.execute(sa.select(rows).where(rows.c.session_id.in_(list(session_ids))))
    return {row.session_id: Triage(**{name: getattr(row, name) for name in _NAMES}) for row in found}


async def rate(
    db: AsyncConnection, session_id: str, rating: Rating | None, note: str, *, by: str, now: datetime
) -> None:
    """Rate the verdict of a session, or withdraw the rating with None. The last rating counts."""
    rated = {"rating": rating, "rating_note": storable(note), "rated_by": storable(by), "rated_at": now}
    await _change(db, session_id, rated if rating else {**dict.fromkeys(rated), "rating_note": ""})


async def assign(db: AsyncConnection, session_id: str, assignee: str | None) -> None:
    await _change(db, session_id, {"assignee": storable(assignee) if assignee else None})


async def acknowledge(db: AsyncConnection, session_id: str, *, by: str, now: datetime) -> None:
    await _change(db, session_id, _first("acknowledged_at", acknowledged_by=storable(by), acknowledged_at=now))


async def close(db: AsyncConnection, session_id: str, note: str, *, by: str, now: datetime) -> None:
    closed = _first("closed_at", closed_by=storable(by), closed_at=now, close_note=storable(note))
    await _change(db, session_id, closed)


async def reopen(db: AsyncConnection, session_id: str) -> None:
    """Back to open: neither acknowledged nor closed. Assignee and rating stay."""
    gone = ("acknowledged_by", "acknowledged_at", "closed_by", "closed_at")
    await _change(db, session_id, {**dict.fromkeys(gone), "close_note": ""})


def _first(once: str, **values: Any) -> dict[str, Any]:
    """Values that are set unless the column `once` is set already."""
    return {
        name: (value, sa.case((rows.c[once].is_(None), sa.literal(value, rows.c[name].type)), else_=rows.c[name]))
        for name, value in values.items()
    }


async def _change(db: AsyncConnection, session_id: str, changes: Mapping[str, Any]) -> None:
    """Args:
    changes: By column, the value; or a pair of the value in a new row and the expression in an existing one.
    """
    new = {name: value[0] if isinstance(value, tuple) else value for name, value in changes.items()}
    changed = {name: value[1] if isinstance(value, tuple) else value for name, value in changes.items()}
    row = {"session_id": session_id, "close_note": "", "rating_note": "", **new}
    insert = events.insert(db, rows).values(row)
    await db.execute(insert.on_conflict_do_update(index_elements=["session_id"], set_=changed))


def state_condition(states: Sequence[TriageState]) -> sa.ColumnElement[bool]:
    """Whether a session, joined with its triage, has one of these states."""
    closed, acknowledged = rows.c.closed_at.is_not(None), rows.c.acknowledged_at.is_not(None)
    conditions = {"closed": closed, "acknowledged": ~closed & acknowledged, "open": ~closed & ~acknowledged}
    return sa.or_(*(conditions[state] for state in states))


@dataclass(frozen=True, kw_only=True)
class RatingCounts:
    """The verdicts of one chain's sessions, and how people rated them."""

    chain: str
    verdicts: int
    """Sessions that ended with a verdict."""

    right: int
    partly: int
    wrong: int

    @property
    def rated(self) -> int:
        return self.right + self.partly + self.wrong


async def count_ratings(db: AsyncConnection, *, since: datetime | None = None) -> list[RatingCounts]:
    """By chain, in the order of their names."""
    question = (
        sa.select(sessions.c.chain, rows.c.rating, sa.func.count().label("number"))
        .select_from(sessions.outerjoin(rows))
        .where(sessions.c.verdict.is_not(None) | rows.c.rating.is_not(None))
        .group_by(sessions.c.chain, rows.c.rating)
    )
    if since is not None:
        question = question.where(sessions.c.ended_at >= since)
    counted: dict[str, Counter[str | None]] = {}
    for row in await db.execute(question):
        counted.setdefault(row.chain, Counter())[row.rating] += row.number
    return [
        RatingCounts(chain=chain, verdicts=counts.total(), **{rating: counts[rating] for rating in RATINGS})
        for chain, counts in sorted(counted.items())
    ]
