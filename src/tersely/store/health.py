"""Whether the database answers, known at any time without asking it.

Every transaction reports how it ended, and `watch` asks a small question every second. A
probe or an error response reads the reason from here; it never waits for the database.

Damage stays a problem until the process ends, although most statements do not touch the
damaged page and succeed. Nothing is written any more: it could make the damage worse,
and what is accepted could not be worked on.
"""

import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable

import anyio

from tersely.errors import StoreUnavailable

logger = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
SLOW_SECONDS = 2.0
"""A database that takes longer for the smallest question does not answer. From then on, transactions are refused
instead of adding to those that hang.
"""

FULL_SECONDS = 5.0
"""How long a disk counts as full after a write failed: a small one may still find room in the file."""

_NAP_SECONDS = 0.2

UNAVAILABLE = "The database is unavailable."
NO_ANSWER = "The database does not answer."
NOT_REACHED = "The database cannot be reached."
DISK_FULL = "The disk of the database is full."
READ_ONLY = "The database is read-only."
LOCKED = "The database is locked by another process."
DAMAGED = (
    "The database file is damaged, or is not a database. Stop tersely and restore a backup with: tersely restore FILE."
)
STARTING = "The database is starting or stopping."
NO_CONNECTIONS = "The database accepts no more connections."

_SQLITE = {
    5: LOCKED,
    6: LOCKED,
    8: READ_ONLY,
    10: UNAVAILABLE,
    11: DAMAGED,
    13: DISK_FULL,
    14: NOT_REACHED,
    26: DAMAGED,
}
"""By SQLite's primary result code."""

_POSTGRESQL = {"25006": READ_ONLY, "53100": DISK_FULL, "53300": NO_CONNECTIONS, "57P01": STARTING, "57P03": STARTING}
"""By SQLSTATE."""


def reason_of(error: BaseException | None) -> str:
    """A driver's error in words that name no host and no file."""
    if isinstance(error, sqlite3.Error):
        return _SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, UNAVAILABLE)
    state = getattr(error, "sqlstate", None)
    if state:
        return _POSTGRESQL.get(state, UNAVAILABLE)
    text = str(error).lower()
    if "timeout" in text or "timed out" in text:
        return NO_ANSWER
    return NOT_REACHED if "connect" in text or "server closed" in text else UNAVAILABLE


class DatabaseHealth:
    def __init__(self) -> None:
        self._problem = ""
        self._full_until = 0.0
        self._is_asking = False
        self._waited = 0.0
        self._damage = ""
        self.is_unwritable = False
        """Whether the problem was found in writing: only a write shows that it is gone."""

    @property
    def problem(self) -> str:
        """The reason why the database is unavailable; empty if it answers."""
        if self._damage:
            return DAMAGED
        return NO_ANSWER if self._waited > SLOW_SECONDS else self._problem

    @property
    def is_damaged(self) -> bool:
        return bool(self._damage)

    def refuse_in_vain(self, *, writing: bool) -> None:
        """Refuse a transaction that would only wait, or write to a damaged file.

        Raises:
            StoreUnavailable: The database has not answered for some time, or is damaged.
        """
        if self._damage and writing:
            raise StoreUnavailable(self._damage, reason=DAMAGED)
        if self._waited > SLOW_SECONDS:
            raise StoreUnavailable(f"The database has not answered for {self._waited:.0f} s.", reason=NO_ANSWER)

    def succeeded(self, *, writing: bool) -> None:
        if (writing or not self.is_unwritable) and time.monotonic() >= self._full_until:
            self._problem, self.is_unwritable = "", False

    def failed(self, reason: str, *, writing: bool) -> None:
        if reason == DISK_FULL:
            self._full_until = time.monotonic() + FULL_SECONDS
        self._problem = reason
        self.is_unwritable = self.is_unwritable or writing

    def damaged(self, message: str) -> None:
        """
        Args:
            message: Names the file and what to do.
        """
        if not self._damage:
            self._damage = message
            logger.error("database_damaged", extra={"problem": message})

    async def wait_while_unavailable(self, seconds: float) -> None:
        """Wait until the database is known to answer again, at most for some time."""
        until = anyio.current_time() + seconds
        while self.problem and anyio.current_time() < until:  # noqa: ASYNC110 — transactions report from threads, too
            await anyio.sleep(_NAP_SECONDS)

    async def watch(self, check: Callable[[], Awaitable[None]], write: Callable[[], Awaitable[None]]) -> None:
        """Ask the database every second, until cancelled; after a write failed, also with a write.

        Both report their outcome here themselves.
        """
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._count)
            before = ""
            while True:
                self._is_asking = True
                try:
                    await check()
                    if self.is_unwritable:
                        await write()
                except StoreUnavailable as problem:
                    if problem.reason != before:
                        fields = {"reason": problem.reason, "problem": str(problem)}
                        logger.warning("database_unavailable", extra=fields)
                except Exception as problem:  # noqa: BLE001
                    # Broad: an error that is not known to mean an outage must not end the service.
                    logger.error("database_check_failed", extra={"problem": type(problem).__name__})
                finally:
                    self._is_asking, self._waited = False, 0.0
                if before and not self._problem:
                    logger.info("database_available")
                before = self._problem
                await anyio.sleep(CHECK_SECONDS)

    async def _count(self) -> None:
        """Count how long a question takes, in naps: a process that gets no CPU time naps less and blames nobody."""
        while True:
            await anyio.sleep(_NAP_SECONDS)
            if self._is_asking:
                self._waited += _NAP_SECONDS
