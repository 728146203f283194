"""Retry while the database is unavailable: what was done is not repeated because it could not be stored."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from tersely.errors import StoreUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE, LAST_PAUSE = 0.2, 2.0
"""Seconds between two attempts."""


async def retry_while_unavailable(task: Callable[[], Awaitable[T]]) -> T:
    """Repeat a task that only reads from or writes to the store, until the store answers or the caller is cancelled."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await task()
        except StoreUnavailable as problem:
            logger.warning("store_unavailable", extra={"reason": str(problem), "trying_again_in": pause})
        await anyio.sleep(pause)
        pause = min(LAST_PAUSE, pause * 2)
