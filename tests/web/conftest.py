"""One service for all tests of a module: they submit sessions of their own and do not see each other's."""

from collections.abc import AsyncIterator

import psycopg
import pytest

from tests.web.running import Running, running


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}"
    server = str(request.getfixturevalue("postgresql_server"))
    with psycopg.connect(server, autocommit=True) as admin:
        for schema in ("public", "dbos"):
            admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        admin.execute("CREATE SCHEMA public")
    return server


@pytest.fixture(scope="module")
async def door(store_url: str) -> AsyncIterator[Running]:
    """On SQLite, then on PostgreSQL. A module that uses it starts no other: the workflow engine is one per process."""
    async with running(store_url) as door:
        yield door
