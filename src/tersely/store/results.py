"""Kept results: masked results of tools, readable by handle and scope until they expire.

`blobs` stores content once per digest; `kept_results` has the scope, the origin and the
expiry. When the content is deleted, the row remains for a while as a tombstone, so that
"expired" and "never existed" can be told apart.

Functions take the connection first and return records. Packing and unpacking take time
and happen outside of transactions, see `store.packing`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import ResultExpired, ResultNotFound
from tersely.store import events
from tersely.store.handles import new_handle
from tersely.store.packing import Frames, PackedText, storable
from tersely.store.tables import blobs, kept_results

Kind = Literal["text", "structured", "image", "other"]

TOMBSTONE_DAYS = 30
"""How long an expired handle is reported as expired."""


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
    """A kept result without its content."""

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
    """Results whose content was deleted, because of their age or to free space."""

    freed: int
    """Bytes of packed content."""

    more: bool
    """Whether another sweep would find more."""


async def has_blob(db: AsyncConnection, sha256: str) -> bool:
    """Whether this content is stored, so that it need not be packed; it is not deleted before the transaction ends.

    Others may refer to it at the same time: tools that answer alike do not wait for each other.
    """
    found = sa.select(1).where(blobs.c.sha256 == sha256).with_for_update(read=True, key_share=True)
    return await db.scalar(found) is not None


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
    handle: str = "",
) -> str:
    """Keep packed, masked content and return its handle.

    A result that has a `handle` already keeps it. Otherwise, the same content from the same origin in the same scope
    has one handle; keeping it again extends its expiry.
    Concurrent inserts of replicas are safe: the second changes nothing and returns the handle of the first.
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
        # On conflict, an update that changes nothing locks the row, so that no sweep deletes it.
        insert = events.insert(db, blobs).values(row)
        await db.execute(
            insert.on_conflict_do_update(index_elements=["sha256"], set_={"sha256": insert.excluded.sha256})
        )
    fields = (scope, content.sha256, part, kind, mime_type, server, tool, arguments, *filter(None, [handle]))
    kept = {
        "handle": handle or new_handle(),
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
    insert = events.insert(db, kept_results).values(kept)
    later = sa.case(
        (insert.excluded.expires_at > kept_results.c.expires_at, insert.excluded.expires_at),
        else_=kept_results.c.expires_at,
    )
    statement = insert.on_conflict_do_update(
        index_elements=["identity"], set_={"kept_at": insert.excluded.kept_at, "expires_at": later}
    )
    return str(await db.scalar(statement.returning(kept_results.c.handle)))


async def find(db: AsyncConnection, handle: str, *, scope: str, now: datetime) -> KeptResult:
    """
    Raises:
        ResultNotFound: The scope has no such handle.
        ResultExpired: The result has expired.
    """
    columns = [column for column in blobs.c if column.name in ("size", "lines", "frames")]
    # An outer join: an expired result has no blob.
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
        raise ResultExpired(handle, expired=f"{gone.astimezone(UTC):%Y-%m-%d %H:%M} UTC", origin=_describe(row))
    return _record(row)


async def listed(
    db: AsyncConnection, *, scope: str, now: datetime, before: tuple[datetime, str] | None = None, limit: int = 50
) -> list[KeptResult]:
    """A scope's results, newest first; `before` is `created_at` and handle of the last one of the previous page."""
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
    """The packed bytes of these frames.

    Raises:
        ResultExpired: The content was deleted since the result was found.
    """
    start, end = result.frames.span(frames)
    data = await db.scalar(
        sa.select(sa.func.substr(blobs.c.data, start + 1, end - start)).where(blobs.c.sha256 == result.blob)
    )
    if data is None:
        raise ResultExpired(result.handle, expired="just now", origin=str(result.origin))
    return bytes(data)


async def forget(db: AsyncConnection, *, scope: str) -> int:
    """Delete a scope's results with tombstones, and content that no other scope keeps; returns how many."""
    gone = list(
        await db.scalars(
            sa.delete(kept_results).where(kept_results.c.scope == storable(scope)).returning(kept_results.c.blob)
        )
    )
    await _drop_unused(db, [blob for blob in gone if blob is not None])
    return len(gone)


async def sweep(db: AsyncConnection, *, now: datetime, max_bytes: int, limit: int = 500) -> Swept:
    """Delete the content of expired results and, oldest first, of those beyond `max_bytes`; about `limit` at a time."""
    old = await _expired(db, now, limit)
    expired = await _tombstone(db, old, now)
    freed = await _drop_unused(db, [blob for _, blob in old])
    oldest, enough = await _surplus(db, max_bytes, limit) if len(old) < limit else ([], False)
    expired += await _tombstone(db, oldest, now)
    freed += await _drop_unused(db, [blob for _, blob in oldest])
    freed += await _drop_unused(db, await _orphans(db, limit))
    long_gone = kept_results.c.expired_at <= now - timedelta(days=TOMBSTONE_DAYS)
    stale = sa.select(kept_results.c.handle).where(long_gone).limit(limit)
    forgotten = await db.execute(sa.delete(kept_results).where(kept_results.c.handle.in_(stale.scalar_subquery())))
    return Swept(expired=expired, freed=freed, more=len(old) == limit or not enough or forgotten.rowcount == limit)


_Chosen = list[tuple[str, str]]
"""Handles and their blobs."""


async def _expired(db: AsyncConnection, now: datetime, limit: int) -> _Chosen:
    question = (
        sa.select(kept_results.c.handle, kept_results.c.blob)
        .where(kept_results.c.expires_at <= now, kept_results.c.blob.is_not(None))
        .order_by(kept_results.c.expires_at)
        .limit(limit)
    )
    return [(row.handle, row.blob) for row in await db.execute(question.with_for_update(skip_locked=True))]


async def _surplus(db: AsyncConnection, max_bytes: int, limit: int) -> tuple[_Chosen, bool]:
    """The oldest results to delete so that the rest fits, and whether `limit` of them are enough."""
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
    blob_ids = {row.blob for row in rows}
    uses = sa.select(kept_results.c.blob, sa.func.count().label("users")).where(kept_results.c.blob.in_(blob_ids))
    users = Counter({row.blob: row.users for row in await db.execute(uses.group_by(kept_results.c.blob))})
    weights = sa.select(blobs.c.sha256, blobs.c.packed_size).where(blobs.c.sha256.in_(blob_ids))
    sizes = {row.sha256: row.packed_size for row in await db.execute(weights)}
    chosen: _Chosen = []
    for row in rows:
        if surplus <= 0:
            break
        chosen.append((row.handle, row.blob))
        users[row.blob] -= 1
        if not users[row.blob]:
            surplus -= sizes[row.blob]
    return chosen, surplus <= 0


async def _orphans(db: AsyncConnection, limit: int) -> list[str]:
    """Blobs without a result: they were locked when their last result was deleted, and then not kept again."""
    in_use = sa.exists().where(kept_results.c.blob == blobs.c.sha256)
    return list(await db.scalars(sa.select(blobs.c.sha256).where(~in_use).limit(limit)))


async def _tombstone(db: AsyncConnection, chosen: _Chosen, now: datetime) -> int:
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
    """Delete blobs that no result refers to; returns their packed bytes."""
    if not candidates:
        return 0
    # Two queries: the second sees results that were kept while the first waited for locks.
    locking = sa.select(blobs.c.sha256).where(blobs.c.sha256.in_(sorted(set(candidates)))).order_by(blobs.c.sha256)
    locked = list(await db.scalars(locking.with_for_update(skip_locked=True)))
    in_use = sa.exists().where(kept_results.c.blob == blobs.c.sha256)
    freed = await db.scalars(sa.delete(blobs).where(blobs.c.sha256.in_(locked), ~in_use).returning(blobs.c.packed_size))
    return sum(freed)


def _describe(row: Any) -> str:
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
