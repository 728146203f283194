"""Interface of the summary cache; the storage is passed in by the composition root.

A key covers what determines an answer (content, question, sizes, model, prompt version), so entries never have to be
invalidated. The conversation that accompanies the question is not part of the key, but its scope is: in one scope, the
same text with the same question is summarized once. Only text derived from `Masked` is cached.
"""

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol
from weakref import WeakValueDictionary

import anyio


class SummaryCache(Protocol):
    async def get(self, key: str) -> str | None: ...

    async def put(self, key: str, text: str) -> None: ...


class NoCache:
    async def get(self, key: str) -> str | None:
        return None

    async def put(self, key: str, text: str) -> None:
        return None


def cache_key(*parts: str | int) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


_locks: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def one_at_a_time(key: str) -> AsyncIterator[None]:
    """Let one caller at a time work on an answer, so that the others find it in the cache."""
    lock = _locks.get(key)
    if lock is None:
        lock = _locks[key] = anyio.Lock()
    async with lock:
        yield
