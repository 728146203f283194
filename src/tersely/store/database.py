"""The database: opened once, handed to store functions as a connection inside a transaction.

SQLite in a file of the user, or a PostgreSQL that several processes on several machines
share. Code above this module is the same for both.

On SQLite: WAL with `synchronous=FULL`, so what a transaction wrote survives a crash of
the process and a power cut once the block is left. Writers queue (BEGIN IMMEDIATE) for
up to ten seconds, and those of one process share commits (`sqlite_writer`). Readers
never wait, and small queries run on the event loop. The file is readable by its owner
only.
"""

import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self, cast

import anyio
import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from tersely.errors import ConfigError, StoreUnavailable
from tersely.store.health import DISK_FULL, DatabaseHealth, reason_of
from tersely.store.private import private_folder
from tersely.store.sqlite_files import OUR_SCHEMA, check_file, damage
from tersely.store.sqlite_writer import Direct, Writer
from tersely.store.tables import SCHEMA

BUSY_SECONDS = 10
IDLE_SECONDS = 4
"""How long PostgreSQL waits for the next statement of a transaction before it rolls it back."""

TEST_AFTER_SECONDS = 1.0
"""How long a connection to PostgreSQL may be unused before it is tested."""

POSTGRESQL_TIMEOUTS: dict[str, int] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 12_000,
}
"""Seconds (the last: milliseconds) until an unresponsive server counts as lost. The system's default is a quarter of an
hour.
"""

Connection = AsyncConnection
"""A connection inside a transaction, for packages that must not import SQLAlchemy."""

_NOT_OUR_BUGS = ("25006", "25P03")
"""A read-only database, and a transaction that the server ended while this process or the server stood still."""

_PASSING = ("25P03", "40001", "40P01", "55P03", "57014")
"""Conflicts between transactions, and cancelled statements: they say nothing about the database."""

LEAST_FREE_BYTES = 2 * 2**20
"""With less, a disk counts as full: an alert with its events would not fit."""

_ANSWER = sa.text("SELECT 1")
_READS = "tersely_reads_only"
_HIGHLIGHTER = "mako.ext.pygmentplugin"
_MIGRATION_LOCK = 7_237_110  # An arbitrary number that only we use.


def make_database(url: str) -> None:
    """Make a database in a process that ends afterwards: what migrates it takes 12 MB."""
    anyio.run(Database.migrate, url)


class DatabaseClock:
    """The database's time without a query each time, so that processes whose clocks differ or jump agree on it.

    `synchronize` sets it to a time that the database returned; from then on a monotonic clock advances it. Before
    that, it is this machine's clock.
    """

    def __init__(self, counted: Callable[[], float] = time.monotonic) -> None:
        self._counted = counted
        self._synchronized: tuple[datetime, float] | None = None

    def synchronize(self, moment: datetime) -> None:
        self._synchronized = (moment, self._counted())

    def now(self) -> datetime:
        if self._synchronized is None:
            return datetime.now(UTC)
        moment, at = self._synchronized
        return moment + timedelta(seconds=self._counted() - at)


class Database:
    """Use `Database.open`."""

    def __init__(
        self,
        engine: AsyncEngine,
        writer: Writer | None = None,
        reader: sa.Engine | None = None,
        probe: AsyncEngine | None = None,
    ) -> None:
        """
        Args:
            writer, reader: For SQLite.
            probe: For PostgreSQL, with one connection for `check`, which would wait behind transactions otherwise.
        """
        self._engine = engine
        self._probe = probe
        self._writer = writer
        self._reader = reader
        self._file = Path(engine.url.database) if self.is_sqlite and engine.url.database else None
        self.clock = DatabaseClock()
        self.health = DatabaseHealth()

    @property
    def is_sqlite(self) -> bool:
        return self._engine.dialect.name == "sqlite"

    @property
    def address(self) -> str:
        """The URL with the password, for code that opens its own connection."""
        return self._engine.url.set(drivername=self._engine.dialect.name).render_as_string(hide_password=False)

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator[Self]:
        """Open a database with the present schema: SQLite is migrated, PostgreSQL has to be migrated already.

        Raises:
            ConfigError: The URL is wrong, a driver is missing, or the schema is not the one this version needs.
            StoreUnavailable: Could not connect.
        """
        async with cls._connected(url) as database:
            found = await database._known_schema()
            if found != SCHEMA and not database.is_sqlite:
                state = f"schema {found}, this version needs {SCHEMA}" if found else "no tables of tersely yet"
                raise ConfigError(f"The database has {state}. Run: tersely migrate")
            if found != SCHEMA:
                await database._migrate()
            yield database

    @classmethod
    async def migrate(cls, url: str) -> tuple[str | None, str]:
        """Migrate a database to the schema of this version; returns the schema before and after.

        Raises:
            ConfigError, StoreUnavailable: As for `open`.
        """
        async with cls._connected(url) as database:
            await database._known_schema()
            return await database._migrate(), SCHEMA

    @asynccontextmanager
    async def transaction(self, *, heavy: bool = False) -> AsyncIterator[AsyncConnection]:
        """Commit everything done inside, or nothing.

        Use it for statements only: the block is shielded from cancellation. Cancelled in a statement, the drivers leave
        a connection and its thread behind, and the process does not exit.

        Args:
            heavy: The statements carry megabytes or touch many rows. On SQLite others are so fast that they run on the
                event loop instead of in a thread.

        Raises:
            StoreUnavailable: The database did not answer, or was locked for too long.
        """
        self.health.refuse_in_vain(writing=True)
        with _translating_errors(self._file, self.health, writing=True):
            if self._writer:
                async with self._writer.transaction(heavy=heavy) as connection:
                    yield connection
            else:
                with anyio.CancelScope(shield=True):
                    async with self._engine.begin() as connection:
                        yield connection

    @asynccontextmanager
    async def reading(self, *, light: bool = False) -> AsyncIterator[AsyncConnection]:
        """A transaction that only reads: on SQLite it does not wait for writers. Shielded from cancellation too.

        Args:
            light: The query reads a few rows by an index. On SQLite that is faster than a thread switch.
        """
        self.health.refuse_in_vain(writing=False)
        with _translating_errors(self._file, self.health, writing=False):
            if light and self._reader:
                with self._reader.connect().execution_options(**{_READS: True}) as direct, direct.begin():
                    yield cast(AsyncConnection, Direct(direct, in_thread=False))
                return
            with anyio.CancelScope(shield=True):
                async with self._engine.connect() as connection:
                    await connection.execution_options(**{_READS: True})
                    async with connection.begin():
                        yield connection

    async def check(self) -> None:
        """Ask the smallest question; for a file, also whether its disk has room.

        Raises:
            StoreUnavailable: With the reason.
        """
        if self.is_sqlite and shutil.disk_usage(Path(self._engine.url.database or "").parent).free < LEAST_FREE_BYTES:
            self.health.failed(DISK_FULL, writing=True)
            raise StoreUnavailable("The disk has no room for the database file.", reason=DISK_FULL)
        if self._probe is None:
            async with self.reading(light=True) as db:
                await db.execute(_ANSWER)
            return
        with _translating_errors(self._file, self.health, writing=False), anyio.CancelScope(shield=True):
            async with self._probe.connect() as connection:
                await connection.execute(_ANSWER)

    @classmethod
    @asynccontextmanager
    async def _connected(cls, url: str) -> AsyncIterator[Self]:
        engine = _engine(url)
        writer = reader = probe = None
        if engine.dialect.name == "sqlite":
            writer = Writer(_sync_engine(engine, poolclass=sa.StaticPool), BUSY_SECONDS)
            reader = _sync_engine(engine, max_overflow=-1)
        else:
            probe = _engine(url, pool_size=1, max_overflow=0)
        try:
            yield cls(engine, writer, reader, probe)
        finally:
            if writer and reader:
                writer.close()
                reader.dispose()
            if probe:
                await probe.dispose()
            await engine.dispose()

    async def _known_schema(self) -> str | None:
        """The schema of the database; None: it has none yet.

        Raises:
            ConfigError: A newer version of Tersely, or another program, made the database.
        """
        async with self.reading() as connection:
            found = await connection.run_sync(_schema_of)
        where = f"The database {str(self._file)!r}" if self._file else "The database"
        if found is not None and not OUR_SCHEMA.fullmatch(found):
            raise ConfigError(
                f"{where} has the migrations of another program (version {found[:40]}). Give tersely a database of its "
                "own: CREATE DATABASE tersely, and name it in TERSELY_DATABASE_URL."
            )
        if found is not None and found > SCHEMA:
            raise ConfigError(
                f"{where} has schema {found}, this version of tersely knows {SCHEMA}. "
                "Use the version that wrote it, or a newer one."
            )
        return found

    async def _migrate(self) -> str | None:
        async with self.transaction(heavy=True) as connection:
            if not self.is_sqlite:
                # A migration imports parts of alembic between statements, which takes seconds on a busy machine.
                await connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = 0"))
                # One replica at a time; the others find the database migrated.
                await connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            before = await connection.run_sync(_schema_of)
            if before != SCHEMA:
                await connection.run_sync(_upgrade)
            return before


@contextmanager
def _translating_errors(file: Path | None, health: DatabaseHealth, *, writing: bool) -> Iterator[None]:
    try:
        yield
        health.succeeded(writing=writing)
    except (sa.exc.DBAPIError, sa.exc.TimeoutError, sa.exc.PendingRollbackError) as problem:
        # An invalid statement is a bug and raised as it is. A file that is not a database raises exactly DatabaseError.
        unavailable = isinstance(
            problem, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError | sa.exc.PendingRollbackError
        )
        cut_off = isinstance(problem, sa.exc.DBAPIError) and problem.connection_invalidated
        original = getattr(problem, "orig", None) or problem
        state = getattr(original, "sqlstate", None) or ""
        is_known = state in _NOT_OUR_BUGS or type(problem) is sa.exc.DatabaseError
        if not unavailable and not cut_off and not is_known:
            raise
        reason = reason_of(original)
        if state not in _PASSING:
            health.failed(reason, writing=writing)
        # Only the driver's message: the statement and its parameters may contain content.
        message = " ".join(str(original).split())[:300]
        damaged = damage(file, getattr(problem, "orig", None)) if file else None
        if damaged:
            health.damaged(damaged)
        raise StoreUnavailable(damaged or f"The database did not answer: {message}", reason=reason) from None


def without_password(url: str) -> tuple[str, bool]:
    """The URL as PostgreSQL's own programs take it, without its password; and whether it had one.

    Raises:
        ConfigError: It is not the URL of a database.
    """
    given = _parsed(url)
    shown = given.set(drivername="postgresql")._replace(password=None).difference_update_query(["password"])
    return shown.render_as_string(), given.password is not None or "password" in given.query


def _parsed(url: str) -> sa.URL:
    try:
        return sa.make_url(url)
    except ArgumentError:
        raise ConfigError(
            "TERSELY_DATABASE_URL must look like sqlite:////path/to/tersely.db or postgresql://user@host/name."
        ) from None


def _engine(url: str, **pool: int) -> AsyncEngine:
    parsed = _parsed(url)
    family = parsed.drivername.partition("+")[0]
    if family == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise ConfigError("TERSELY_DATABASE_URL names no file; it must look like sqlite:////path/to/tersely.db.")
        _own_file(Path(parsed.database))
        check_file(Path(parsed.database))
        engine = create_async_engine(parsed.set(drivername="sqlite+aiosqlite"), connect_args={"timeout": BUSY_SECONDS})
        sa.event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        sa.event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    if family in ("postgresql", "postgres"):
        try:
            engine = create_async_engine(
                parsed.set(drivername="postgresql+psycopg"),
                connect_args={name: value for name, value in POSTGRESQL_TIMEOUTS.items() if name not in parsed.query},
                **pool,
            )
            sa.event.listen(engine.sync_engine, "connect", _prepare_postgresql)
            _test_idle_connections(engine.sync_engine)
            return engine
        except (ModuleNotFoundError, NoSuchModuleError):
            raise ConfigError("PostgreSQL needs its driver: pip install 'tersely[postgresql]'") from None
    raise ConfigError(f"TERSELY_DATABASE_URL names {family!r}; sqlite and postgresql are known.")


def _sync_engine(engine: AsyncEngine, **pool: Any) -> sa.Engine:
    """An engine on the same file for statements that run on the event loop."""
    # A connection is used by one thread at a time, but not always by the same one.
    arguments = {"timeout": BUSY_SECONDS, "check_same_thread": False}
    sync = sa.create_engine(engine.url.set(drivername="sqlite"), connect_args=arguments, **pool)
    sa.event.listen(sync, "connect", _prepare_sqlite)
    sa.event.listen(sync, "begin", _begin_sqlite)
    return sync


def _own_file(path: Path) -> None:
    """Create the file before SQLite opens it, so that it is never readable by others; WAL files inherit the mode."""
    try:
        private_folder(path.parent)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as problem:
        raise StoreUnavailable(f"The database file {str(path)!r} cannot be opened: {problem.strerror}.") from None


def _prepare_sqlite(connection: Any, record: Any) -> None:
    # Transactions are begun in `_begin_sqlite`; the driver would begin them late, and as readers.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()
    # SQLite's own `lower` knows only A to Z, and a search for "störung" has to find "Störung".
    connection.create_function("lower", 1, _lower, deterministic=True)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _prepare_postgresql(connection: Any, record: Any) -> None:
    # A process that is suspended or disconnected in a transaction would hold its locks.
    cursor = connection.cursor()
    cursor.execute(f"SET idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000}")
    cursor.close()
    connection.commit()


def _test_idle_connections(engine: sa.Engine) -> None:
    """Test a connection before it is used if nobody has used it for a while.

    Testing each time (`pool_pre_ping`) is one more round trip for every transaction. A connection that broke since its
    last use, a moment ago, makes that transaction fail, as if it had broken a moment later.
    """

    def returned(connection: Any, record: Any) -> None:
        record.info["returned_at"] = time.monotonic()

    def taken(connection: Any, record: Any, proxy: Any) -> None:
        if time.monotonic() - record.info.get("returned_at", time.monotonic()) < TEST_AFTER_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as problem:
            # The others are probably broken too.
            raise sa.exc.InvalidatePoolError from problem

    sa.event.listen(engine, "checkin", returned)
    sa.event.listen(engine, "checkout", taken)


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that begins as a reader and then writes fails if another writer was faster, so writers lock first.
    reads = connection.get_execution_options().get(_READS)
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _schema_of(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    return None if found is None else str(found)


def _upgrade(connection: sa.Connection) -> None:
    # Imported only for migrations: it takes half a second. A library of its own would load a highlighter for its error
    # messages, which takes 5 MB and which it can do without.
    sys.modules.setdefault(_HIGHLIGHTER, None)  # type: ignore[arg-type]
    try:
        from alembic import command
        from alembic.config import Config
    finally:
        if sys.modules[_HIGHLIGHTER] is None:
            del sys.modules[_HIGHLIGHTER]

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    command.upgrade(config, SCHEMA)
