"""Opening, migrating, and several at once."""

import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import tersely.store.database as module
from tersely.errors import ConfigError, StoreUnavailable
from tersely.store.database import Database
from tersely.store.tables import SCHEMA, metadata


async def test_a_migrated_empty_database_has_the_declared_tables(url: str) -> None:
    assert await Database.migrate(url) == (None, SCHEMA)

    def is_ours(name: str | None, *_: object) -> bool:
        # The full-text index, which is a table with others behind it on SQLite and an expression on PostgreSQL.
        return not (name or "").startswith("past_sessions_fts")

    def differences(connection: sa.Connection) -> list[object]:
        options = {"compare_type": True, "compare_server_default": True, "include_name": is_ours}
        context = MigrationContext.configure(connection, opts=options)
        return list(compare_metadata(context, metadata))

    def checks(connection: sa.Connection) -> set[str | None]:
        return {
            check["name"] for table in metadata.tables for check in sa.inspect(connection).get_check_constraints(table)
        }

    async with Database.open(url) as database, database.reading() as connection:
        assert await connection.run_sync(differences) == []
        assert await connection.run_sync(checks) == {
            constraint.name
            for table in metadata.tables.values()
            for constraint in table.constraints
            if isinstance(constraint, sa.CheckConstraint)
        }


def test_the_tables_name_the_last_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(module.__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [SCHEMA]


async def test_migrating_twice_changes_nothing(url: str) -> None:
    await Database.migrate(url)
    assert await Database.migrate(url) == (SCHEMA, SCHEMA)


async def test_sqlite_is_migrated_when_it_is_opened_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "tersely.db"
    async with Database.open(f"sqlite:///{path}") as database:
        async with database.transaction() as connection:
            assert await connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == SCHEMA
        files = sorted(path.parent.iterdir())
        assert {file.name for file in files} >= {"tersely.db", "tersely.db-wal"}
        assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


async def test_sqlite_keeps_its_promises(tmp_path: Path) -> None:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database, database.reading() as connection:
        said = {
            name: await connection.scalar(sa.text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
        assert said == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
        assert int(await connection.scalar(sa.text("PRAGMA busy_timeout")) or 0) >= 5000


async def test_postgresql_without_our_tables_is_refused_with_the_command_that_helps(postgresql_url: str) -> None:
    with pytest.raises(ConfigError, match=r"no tables of tersely yet. Run: tersely migrate"):
        async with Database.open(postgresql_url):
            pass


async def test_an_old_schema_on_postgresql_is_refused_with_both_numbers(postgresql_url: str) -> None:
    await Database.migrate(postgresql_url)
    async with Database.open(postgresql_url) as database, database.transaction() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '0000'"))
    with pytest.raises(ConfigError, match=rf"schema 0000, this version needs {SCHEMA}. Run: tersely migrate"):
        async with Database.open(postgresql_url):
            pass


async def test_a_schema_of_the_future_is_refused_and_left_alone(database: Database, url: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigError, match="schema 9999, this version of tersely knows"):
        async with Database.open(url):
            pass
    async with database.reading() as connection:
        assert await connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "9999"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://x/y", "sqlite and postgresql are known"),
        ("nonsense", "must look like"),
        ("sqlite://", "names no file"),
    ],
)
async def test_a_wrong_url_is_a_mistake_of_the_operator(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        async with Database.open(url):
            pass


async def test_an_unreachable_server_is_unavailable_and_the_password_is_not_shown() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        async with Database.open("postgresql://me:hunter2@127.0.0.1:1/nothing?connect_timeout=3"):
            pass
    assert "hunter2" not in str(caught.value)


async def test_a_file_that_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_text("not a database, certainly not one " * 50)
    with pytest.raises(StoreUnavailable, match="not a database"):
        async with Database.open(f"sqlite:///{tmp_path / 'broken.db'}"):
            pass


async def _write_and_fail(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(sa.text("INSERT INTO notes VALUES ('half')"))
        await connection.execute(sa.text("INSERT INTO notes VALUES ('half')"))


async def test_a_transaction_that_fails_leaves_nothing(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute(sa.text("CREATE TABLE notes (word TEXT UNIQUE)"))
    with pytest.raises(sa.exc.IntegrityError):
        await _write_and_fail(database)
    async with database.reading() as connection:
        assert await connection.scalar(sa.text("SELECT count(*) FROM notes")) == 0


async def test_concurrent_writes_are_independent_and_stored_when_confirmed(database: Database) -> None:
    """On SQLite they share commits: one that fails must take nothing of the others with it."""
    async with database.transaction() as connection:
        await connection.execute(sa.text("CREATE TABLE notes (number INTEGER PRIMARY KEY)"))
    stored: list[int] = []
    failed: list[int] = []

    async def write(number: int) -> None:
        try:
            async with database.transaction(heavy=number % 5 == 0) as connection:
                await connection.execute(sa.text("INSERT INTO notes VALUES (:number)"), {"number": number})
                if number % 3 == 0:
                    raise LookupError
        except LookupError:
            failed.append(number)
            return
        async with database.reading(light=number % 2 == 0) as connection:
            assert (
                await connection.scalar(sa.text("SELECT number FROM notes WHERE number = :number"), {"number": number})
                == number
            )
        stored.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(60):
            tasks.start_soon(write, number)
    async with database.reading() as connection:
        assert list(await connection.scalars(sa.text("SELECT number FROM notes ORDER BY number"))) == sorted(stored)
    assert sorted(failed) == list(range(0, 60, 3)) and len(stored) == 40


async def test_work_that_is_cancelled_in_a_crowd_leaves_the_database_usable(database: Database) -> None:
    """A statement that was cancelled half-way left a connection behind, and the process never ended."""
    async with database.transaction() as connection:
        await connection.execute(sa.text("CREATE TABLE notes (word TEXT)"))

    async def write() -> None:
        async with database.transaction() as connection:
            await connection.execute(sa.text("INSERT INTO notes VALUES ('one')"))
            await connection.execute(sa.text("INSERT INTO notes VALUES ('two')"))

    for _ in range(5):
        with anyio.fail_after(300):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(write)
                await anyio.lowlevel.checkpoint()
                async with database.reading() as connection:
                    await connection.execute(sa.text("SELECT 1"))
                tasks.cancel_scope.cancel()
    with anyio.fail_after(300):
        async with database.transaction() as connection:
            ones = await connection.scalar(sa.text("SELECT count(*) FROM notes WHERE word = 'one'"))
            assert ones == await connection.scalar(sa.text("SELECT count(*) FROM notes WHERE word = 'two'"))


async def test_readers_on_sqlite_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database:
        async with database.transaction() as writing:
            await writing.execute(sa.text("CREATE TABLE notes (word TEXT)"))
            with anyio.fail_after(300):
                for light in (False, True):
                    async with database.reading(light=light) as connection:
                        assert await connection.scalar(sa.text("SELECT count(*) FROM kept_results")) == 0


async def test_a_writer_waits_for_one_of_another_process(tmp_path: Path) -> None:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database:
        other = sqlite3.connect(tmp_path / "tersely.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        told = anyio.Event()

        async def write() -> None:
            async with database.transaction() as connection:
                await connection.execute(sa.text("CREATE TABLE notes (word TEXT)"))
            told.set()

        with anyio.fail_after(300):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                # The loop is not blocked meanwhile.
                await anyio.sleep(0.05)
                assert not told.is_set()
                other.execute("COMMIT")
        other.close()
        assert told.is_set()


@pytest.mark.process
def test_many_processes_may_open_a_new_file_at_the_same_moment(tmp_path: Path) -> None:
    code = (
        "import sys, anyio\n"
        "from tersely.store.database import Database\n"
        "async def main():\n"
        "    async with Database.open(sys.argv[1]): pass\n"
        "anyio.run(main)\n"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'tersely.db'}"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, said
