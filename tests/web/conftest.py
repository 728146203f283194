"""One service for all tests of a module: they submit sessions of their own and do not see each other's."""

from collections.abc import AsyncIterator

import pytest

from tests.web.running import Running, running


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def service(store_url: str) -> AsyncIterator[Running]:
    """On SQLite, then on PostgreSQL. A module that uses it starts no other: the workflow engine is one per process."""
    async with running(store_url) as service:
        yield service
