"""Summaries that were paid for once. A protocol: the storage is handed in by whoever builds the parts.

Keys hold everything that decides an answer: content, focus, sizes, model and the version of the prompt, so nothing
ever has to be invalidated. Only text derived from `Masked` goes in.
"""

import hashlib
import json
from typing import Protocol


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
