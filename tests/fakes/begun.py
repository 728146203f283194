"""Sessions in the store, begun, for tests that are about what comes after."""

import uuid
from datetime import UTC, datetime
from typing import Any

from tersely.events.log import claim_session, create_session
from tersely.store import events
from tersely.store.database import Database
from tersely.store.events import Logged
from tersely.store.sessions import NewSession

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def alert(**other: Any) -> NewSession:
    fields: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "scope": "user:1",
        "kind": "investigation",
        "alert_type": "PodCrashLooping",
        "chain": "kubernetes",
        "title": "checkout crashes",
        "alert": "pod checkout-7 restarts",
        "encoding": "o200k_base",
        "mark_key": b"0123456789abcdef",
    }
    return NewSession(**{**fields, **other})


async def pending(database: Database, *, now: datetime = NOON, **other: Any) -> str:
    async with database.transaction() as db:
        created, _ = await create_session(db, alert(**other), now=now)
    return created.session_id


async def begun(database: Database, *, now: datetime = NOON, **other: Any) -> str:
    """A session that its first worker, "worker-1", has claimed: attempt 1."""
    session_id = await pending(database, now=now, **other)
    async with database.transaction() as db:
        claim, _ = await claim_session(db, session_id, "worker-1", now=now)
    assert claim.attempt == 1
    return session_id


async def log(database: Database, session_id: str, *, after: int = 0) -> list[Logged]:
    async with database.reading() as db:
        return await events.page(db, session_id, after=after, limit=10_000, characters=2**40)
