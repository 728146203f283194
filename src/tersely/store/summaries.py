"""Cache of summaries on disk, so that the same text is not paid for twice.

One SQLite file that several processes may share. Losing it costs money, not data: it is
written without syncing, and if it cannot be read or written (locked, full, damaged), the
summaries are made again.
"""

import logging
import sqlite3
import time
import zlib
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread

from tersely.store.private import private_folder

logger = logging.getLogger(__name__)

_TIMEOUT = 0.5
"""Seconds to wait for another process that is writing."""

_DISABLED_SECONDS = 30.0
"""How long the cache is not used after an error."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS summaries (
    key TEXT PRIMARY KEY,
    packed BLOB NOT NULL,
    used_at REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS summaries_by_use ON summaries (used_at);
"""


class SummaryFile:
    """The cache of `condensing.summarize.cache`, in a file of at most `max_bytes`."""

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self.path = path
        self.max_bytes = max_bytes
        self._warned = False
        self._disabled_until = 0.0
        # SQLite calls are short but block: they run in a thread, one at a time.
        self._turns = anyio.CapacityLimiter(1)

    async def get(self, key: str) -> str | None:
        return await anyio.to_thread.run_sync(self._get, key, limiter=self._turns)

    async def put(self, key: str, text: str) -> None:
        await anyio.to_thread.run_sync(self._put, key, text, limiter=self._turns)

    def _get(self, key: str) -> str | None:
        if time.monotonic() < self._disabled_until:
            return None
        try:
            with closing(self._connect()) as db, db:
                row = db.execute("SELECT packed FROM summaries WHERE key = ?", (key,)).fetchone()
                if row is None:
                    return None
                db.execute("UPDATE summaries SET used_at = ? WHERE key = ?", (time.time(), key))
                return zlib.decompress(row[0]).decode()
        except (sqlite3.Error, OSError, zlib.error, UnicodeDecodeError) as problem:
            self._warn(problem)
            return None

    def _put(self, key: str, text: str) -> None:
        if time.monotonic() < self._disabled_until:
            return
        packed = zlib.compress(text.encode("utf-8", "replace"), 6)
        try:
            with closing(self._connect()) as db, db:
                db.execute("INSERT OR REPLACE INTO summaries VALUES (?, ?, ?)", (key, packed, time.time()))
                self._make_room(db)
        except (sqlite3.Error, OSError) as problem:
            self._warn(problem)

    def _make_room(self, db: sqlite3.Connection) -> None:
        pages, page_size, free = (
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size", "freelist_count")
        )
        if (pages - free) * page_size > self.max_bytes:
            # A tenth at a time, so that a full cache does not delete at every write.
            db.execute(
                "DELETE FROM summaries WHERE key IN "
                "(SELECT key FROM summaries ORDER BY used_at LIMIT 1 + (SELECT count(*) FROM summaries) / 10)"
            )

    def _connect(self) -> sqlite3.Connection:
        new = not self.path.exists()
        private_folder(self.path.parent)
        db = sqlite3.connect(self.path, timeout=_TIMEOUT)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")
        if new:
            self.path.chmod(0o600)
        db.executescript(_SCHEMA)
        return db

    def _warn(self, problem: Exception) -> None:
        # Disabled for a while, so that a locked file does not cost its timeout at every call.
        self._disabled_until = time.monotonic() + _DISABLED_SECONDS
        if not self._warned:
            self._warned = True
            logger.warning("summary_cache_unavailable", extra={"path": str(self.path), "problem": str(problem)})
