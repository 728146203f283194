"""Interface of the summary cache; the storage is passed in by the composition root.

A key covers everything that determines an answer (content, focus, sizes, model, prompt version), so entries never
have to be invalidated. Only text derived from `Masked` is cached.
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
