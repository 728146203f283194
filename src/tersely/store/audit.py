"""The audit log: who did what, from which address, and how it was answered.

Entries are added, never changed, and deleted by age only; triggers in the database refuse everything else.
"""

import getpass
import logging
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

import anyio
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import StoreUnavailable
from tersely.masking.mask import mask
from tersely.store import events
from tersely.store.database import Database
from tersely.store.packing import storable
from tersely.store.tables import audit_log, audit_retention

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    action: str
    """What was asked for, e.g. `submit` or `export`; `web.access` lists those of the API."""

    principal: str
    """Who asked; empty where the credentials were wrong."""

    method: str
    address: str
    target: str
    """The session or result it was about."""

    status: int
    """The status of the answer: from 400 on, it was refused."""


@dataclass(frozen=True)
class StoredEntry:
    id: int
    at: datetime
    entry: AuditEntry


class AuditWriter:
    """Adds entries; those that come while others are written share the next transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[dict[str, Any]] = []
        self._turn = anyio.Lock()

    async def __call__(self, entry: AuditEntry) -> None:
        """Returns when the entry is stored. If the store does not answer, the entry is in the log at least.

        What an address names is masked: whoever mistypes one may have put a token there.
        """
        entry = replace(entry, target=mask(entry.target))
        row = {name: storable(value) if isinstance(value, str) else value for name, value in asdict(entry).items()}
        row["at"] = self._database.clock.now()
        self._waiting.append(row)
        async with self._turn:
            if not any(one is row for one in self._waiting):
                return  # It was stored with another.
            rows, self._waiting = self._waiting, []
            try:
                async with self._database.transaction() as db:
                    await db.execute(sa.insert(audit_log), rows)
            except StoreUnavailable as problem:
                for one in rows:
                    logger.error("audit_entry_not_stored", extra={**one, "reason": str(problem)})


async def record(database: Database, entry: AuditEntry) -> None:
    """Add one entry; see `AuditWriter`."""
    await AuditWriter(database)(entry)


def shell_entry(action: str, target: str, *, status: int = 200) -> AuditEntry:
    """The entry for a command that uses the store itself, without the API."""
    return AuditEntry(
        action=action, principal=getpass.getuser(), method="shell", address="", target=target, status=status
    )


async def page(
    db: AsyncConnection, *, after: int = 0, since: datetime | None = None, limit: int = 200
) -> list[StoredEntry]:
    """Entries in the order they were written."""
    question = sa.select(audit_log).where(audit_log.c.id > after).order_by(audit_log.c.id).limit(limit)
    if since is not None:
        question = question.where(audit_log.c.at >= since)
    names = AuditEntry.__dataclass_fields__
    return [
        StoredEntry(row.id, row.at, AuditEntry(**{name: getattr(row, name) for name in names}))
        for row in (await db.execute(question)).all()
    ]


async def delete_before(db: AsyncConnection, moment: datetime, *, limit: int = 1_000) -> int:
    """Delete entries from before this time; returns how many. The database refuses to delete later ones."""
    bound = events.insert(db, audit_retention).values(id=1, kept_from=moment)
    later = audit_retention.c.kept_from < moment
    await db.execute(bound.on_conflict_do_update(index_elements=["id"], set_={"kept_from": moment}, where=later))
    old = sa.select(audit_log.c.id).where(audit_log.c.at < moment).limit(limit)
    return (await db.execute(sa.delete(audit_log).where(audit_log.c.id.in_(old)))).rowcount
