"""Kept results: what a tool returned, masked, readable by its handle in its scope until it expires.

Content lies once per digest in `blobs`; `kept_results` says who may read it,
where it came from and for how long. When the content goes, the row stays a
while as a tombstone, so that "expired" and "never existed" differ.

Each function is one question to the database: connection first, records out.
Packing and unpacking, which cost time, are `store.packing`'s and happen outside
of transactions.
"""

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import ResultExpired, ResultNotFound
from tersely.store.packing import Frames, PackedText, storable
from tersely.store.tables import blobs, kept_results

Kind = Literal["text", "structured", "image", "other"]

HANDLE_SYMBOLS = "0123456789abcdefghjkmnpqrstvwxyz"
"""32 signs without those that are taken for one another; sixteen of them are 80 bits."""

TOMBSTONE_DAYS = 30
"""How long an expired handle is still said to have expired."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The call that a result came from."""

    server: str
    tool: str
    arguments: Any
    """Masked, as JSON values."""

    called_at: datetime

    def __str__(self) -> str:
        return f"{self.server}.{self.tool}" if self.server else self.tool


@dataclass(frozen=True, kw_only=True)
class KeptResult:
    """What is known of a kept result without reading it."""

    handle: str
    scope: str
    blob: str
    part: int
    kind: Kind
    mime_type: str
    origin: Origin
    size: int
    """Bytes, in UTF-8 where it is text."""

    lines: int
    tokens: int | None
    encoding: str | None
    created_at: datetime
    expires_at: datetime
    frames: Frames

    @property
    def is_text(self) -> bool:
        return self.kind in ("text", "structured")


@dataclass(frozen=True, kw_only=True)
class Swept:
    expired: int
    """Results whose content went, because of their age or to make room."""

    freed: int
    """PackedText bytes."""

    more: bool
    """Whether another sweep would find work."""


def new_handle() -> str:
    return "r_" + "".join(secrets.choice(HANDLE_SYMBOLS) for _ in range(16))


async def has_blob(db: AsyncConnection, sha256: str) -> bool:
    """Whether this content is there, so that it need not be packed again; until the transaction ends, nobody takes
    it away.
    """
    return await db.scalar(sa.select(1).where(blobs.c.sha256 == sha256).with_for_update()) is not None


async def keep(
    db: AsyncConnection,
    content: PackedText,
    *,
    scope: str,
    origin: Origin,
    kind: Kind,
    mime_type: str,
    part: int,
    tokens: int | None,
    encoding: str | None,
    now: datetime,
    retention: timedelta,
) -> str:
    """Keep packed, masked content and return its handle.

    The same content from the same origin in the same scope has one handle; keeping it again only makes it live longer.
    Replicas may race: the loser's inserts change nothing and find the winner's handle.
    """
    scope, server, tool = storable(scope), storable(origin.server), storable(origin.tool)
    arguments = json.dumps(origin.arguments, ensure_ascii=True, sort_keys=True, default=str)
    if not await has_blob(db, content.sha256):
        row = {
            "sha256": content.sha256,
            "data": content.data,
            "frames": content.frames,
            "size": content.size,
            "packed_size": len(content.data),
            "lines": content.lines,
        }
        # An update that changes nothing locks the row of a winner, and a sweep cannot take it from under us.
        insert = _insert(db, blobs).values(row)
        await db.execute(
            insert.on_conflict_do_update(index_elements=["sha256"], set_={"sha256": insert.excluded.sha256})
        )
    fields = (scope, content.sha256, part, kind, mime_type, server, tool, arguments)
    kept = {
        "handle": new_handle(),
        "scope": scope,
        "identity": hashlib.sha256(json.dumps(fields).encode()).hexdigest(),
        "blob": content.sha256,
        "part": part,
        "kind": kind,
        "mime_type": storable(mime_type),
        "server": server,
        "tool": tool,
        "arguments": arguments,
        "called_at": origin.called_at,
        "tokens": tokens,
        "encoding": encoding,
        "created_at": now,
        "kept_at": now,
        "expires_at": now + retention,
    }
    insert = _insert(db, kept_results).values(kept)
    later = sa.case(
        (insert.excluded.expires_at > kept_results.c.expires_at, insert.excluded.expires_at),
        else_=kept_results.c.expires_at,
    )
    statement = insert.on_conflict_do_update(
        index_elements=["identity"], set_={"kept_at": insert.excluded.kept_at, "expires_at": later}
    )
    return str(await db.scalar(statement.returning(kept_results.c.handle)))


async def find(db: AsyncConnection, handle: str, *, scope: str, now: datetime) -> KeptResult:
    """What a handle stands for.

    Raises:
        ResultNotFound: There is none for this scope.
        ResultExpired: There was one.
    """
    columns = [column for column in blobs.c if column.name in ("size", "lines", "frames")]
    # Expired, so found without its blob: hence the outer join.
    question = (
        sa.select(kept_results, *columns)
        .join(blobs, kept_results.c.blob == blobs.c.sha256, isouter=True)
        .where(kept_results.c.handle == storable(handle), kept_results.c.scope == storable(scope))
    )
    row = (await db.execute(question)).one_or_none()
    if row is None:
        raise ResultNotFound(handle)
    if row.expired_at is not None or row.expires_at <= now:
        gone = row.expired_at or row.expires_at
        raise ResultExpired(handle, expired=f"{gone.astimezone(UTC):%Y-%m-%d %H:%M} UTC", origin=_told(row))
    return _record(row)


async def listed(
    db: AsyncConnection, *, scope: str, now: datetime, before: tuple[datetime, str] | None = None, limit: int = 50
) -> list[KeptResult]:
    """A scope's results, the last kept first; `before` is `created_at` and handle of the last one of the page
    before.
    """
    columns = [column for column in blobs.c if column.name in ("size", "lines", "frames")]
    question = (
        sa.select(kept_results, *columns)
        .join(blobs, kept_results.c.blob == blobs.c.sha256)
        .where(kept_results.c.scope == storable(scope), kept_results.c.expires_at > now)
        .order_by(kept_results.c.created_at.desc(), kept_results.c.handle.desc())
        .limit(limit)
    )
    if before:
        created, handle = before
        question = question.where(
            (kept_results.c.created_at < created)
            | ((kept_results.c.created_at == created) & (kept_results.c.handle < handle))
        )
    return [_record(row) for row in await db.execute(question)]


async def packed_range(db: AsyncConnection, result: KeptResult, frames: range) -> bytes:
    """The packed bytes of these frames, and of no others.

    Raises:
        ResultExpired: The content went since the result was looked up.
    """
    start, end = result.frames.span(frames)
    data = await db.scalar(
        sa.select(sa.func.substr(blobs.c.data, start + 1, end - start)).where(blobs.c.sha256 == result.blob)
    )
    if data is None:
        raise ResultExpired(result.handle, expired="just now", origin=str(result.origin))
    return bytes(data)


async def forget(db: AsyncConnection, *, scope: str) -> int:
    """Delete a scope's results, tombstones included, and the content that nobody else keeps; how many there were."""
    gone = list(
        await db.scalars(
            sa.delete(kept_results).where(kept_results.c.scope == storable(scope)).returning(kept_results.c.blob)
        )
    )
    await _drop_unused(db, [blob for blob in gone if blob is not None])
    return len(gone)


async def sweep(db: AsyncConnection, *, now: datetime, max_bytes: int, limit: int = 500) -> Swept:
    """Let go what is too old and, oldest first, what is too much; at most about `limit` results a time."""
    old = await _too_old(db, now, limit)
    expired = await _entomb(db, old, now)
    freed = await _drop_unused(db, [blob for _, blob in old])
    surplus, enough = await _too_much(db, max_bytes, limit) if len(old) < limit else ([], False)
    expired += await _entomb(db, surplus, now)
    freed += await _drop_unused(db, [blob for _, blob in surplus])
    freed += await _drop_unused(db, await _orphans(db, limit))
    long_gone = kept_results.c.expired_at <= now - timedelta(days=TOMBSTONE_DAYS)
    stale = sa.select(kept_results.c.handle).where(long_gone).limit(limit)
    forgotten = await db.execute(sa.delete(kept_results).where(kept_results.c.handle.in_(stale.scalar_subquery())))
    return Swept(expired=expired, freed=freed, more=len(old) == limit or not enough or forgotten.rowcount == limit)


Chosen = list[tuple[str, str]]
"""Handles and their blobs."""


async def _too_old(db: AsyncConnection, now: datetime, limit: int) -> Chosen:
    question = (
        sa.select(kept_results.c.handle, kept_results.c.blob)
        .where(kept_results.c.expires_at <= now, kept_results.c.blob.is_not(None))
        .order_by(kept_results.c.expires_at)
        .limit(limit)
    )
    return [(row.handle, row.blob) for row in await db.execute(question.with_for_update(skip_locked=True))]


async def _too_much(db: AsyncConnection, max_bytes: int, limit: int) -> tuple[Chosen, bool]:
    """The oldest results without which the rest fits, and whether `limit` of them were enough."""
    surplus = int(await db.scalar(sa.select(sa.func.coalesce(sa.func.sum(blobs.c.packed_size), 0))) or 0) - max_bytes
    if surplus <= 0:
        return [], True
    oldest = (
        sa.select(kept_results.c.handle, kept_results.c.blob)
        .where(kept_results.c.blob.is_not(None))
        .order_by(kept_results.c.kept_at, kept_results.c.handle)
        .limit(limit)
    )
    rows = (await db.execute(oldest.with_for_update(skip_locked=True))).all()
    their_blobs = {row.blob for row in rows}
    uses = sa.select(kept_results.c.blob, sa.func.count().label("users")).where(kept_results.c.blob.in_(their_blobs))
    users = Counter({row.blob: row.users for row in await db.execute(uses.group_by(kept_results.c.blob))})
    weights = sa.select(blobs.c.sha256, blobs.c.packed_size).where(blobs.c.sha256.in_(their_blobs))
    sizes = {row.sha256: row.packed_size for row in await db.execute(weights)}
    chosen: Chosen = []
    for row in rows:
        if surplus <= 0:
            break
        chosen.append((row.handle, row.blob))
        users[row.blob] -= 1
        if not users[row.blob]:
            surplus -= sizes[row.blob]
    return chosen, surplus <= 0


async def _orphans(db: AsyncConnection, limit: int) -> list[str]:
    """Blobs without a result: somebody held them while their last result went, and then did not keep them after all."""
    in_use = sa.exists().where(kept_results.c.blob == blobs.c.sha256)
    return list(await db.scalars(sa.select(blobs.c.sha256).where(~in_use).limit(limit)))


async def _entomb(db: AsyncConnection, chosen: Chosen, now: datetime) -> int:
    handles = [handle for handle, _ in chosen]
    if handles:
        gone = sa.case(
            (kept_results.c.expires_at < now, kept_results.c.expires_at),
            else_=sa.literal(now, kept_results.c.expires_at.type),
        )
        change = (
            sa.update(kept_results)
            .where(kept_results.c.handle.in_(handles))
            .values(blob=None, identity=None, expired_at=gone)
        )
        await db.execute(change)
    return len(handles)


async def _drop_unused(db: AsyncConnection, candidates: Sequence[str]) -> int:
    """Delete those blobs that no result refers to any more; the packed bytes they had."""
    if not candidates:
        return 0
    # Two questions, because the second has to see what was kept while we waited for the locks of the first.
    locking = sa.select(blobs.c.sha256).where(blobs.c.sha256.in_(sorted(set(candidates)))).order_by(blobs.c.sha256)
    locked = list(await db.scalars(locking.with_for_update(skip_locked=True)))
    in_use = sa.exists().where(kept_results.c.blob == blobs.c.sha256)
    freed = await db.scalars(sa.delete(blobs).where(blobs.c.sha256.in_(locked), ~in_use).returning(blobs.c.packed_size))
    return sum(freed)


def _insert(db: AsyncConnection, table: sa.Table) -> Any:
    """Both databases have ON CONFLICT; SQLAlchemy has it per dialect, and loading one that is not used takes a
    while.
    """
    if db.dialect.name == "sqlite":
        from sqlalchemy.dialects import sqlite

        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql

    return postgresql.insert(table)


def _told(row: Any) -> str:
    arguments = row.arguments if len(row.arguments) <= 300 else row.arguments[:300] + "…"
    return f"{row.server}.{row.tool} {arguments}" if row.server else f"{row.tool} {arguments}"


def _record(row: Any) -> KeptResult:
    return KeptResult(
        handle=row.handle,
        scope=row.scope,
        blob=row.blob,
        part=row.part,
        kind=row.kind,
        mime_type=row.mime_type,
        origin=Origin(server=row.server, tool=row.tool, arguments=json.loads(row.arguments), called_at=row.called_at),
        size=row.size,
        lines=row.lines,
        tokens=row.tokens,
        encoding=row.encoding,
        created_at=row.created_at,
        expires_at=row.expires_at,
        frames=Frames.read(row.frames),
    )
