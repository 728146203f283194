"""Backups of both files at one moment, and files that are damaged, foreign or too new."""

import json
import sqlite3
import sys
import threading
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner, Result

from tersely.cli import main
from tersely.errors import InputError, TerselyError
from tersely.sessions.durable import _prepare_file, engine_url
from tersely.store.database import Database
from tersely.store.sqlite_files import back_up, engine_file, last_backup, restore, worker_file_lock
from tests.fakes.damage import spoil_a_page

pytestmark = pytest.mark.process
"""A library asks a program what machine this is."""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "data" / "tersely.db"
    monkeypatch.setenv("TERSELY_DATABASE_URL", f"sqlite:///{file}")
    monkeypatch.chdir(tmp_path)
    return file


async def make(file: Path) -> None:
    async with Database.open(f"sqlite:///{file}"):
        pass


def tersely(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


# Damaged and foreign files


def text(file: Path) -> None:
    file.write_text("Dear diary, " * 1_000)


def truncated(file: Path) -> None:
    anyio.run(make, file)
    with closing(sqlite3.connect(file)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2 + 100])


def of_another_program(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE moz_places (id INTEGER)")


def of_another_program_with_migrations(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE alembic_version (version_num TEXT)")
        db.execute("INSERT INTO alembic_version VALUES ('f00dfeed1234')")


def newer(file: Path) -> None:
    anyio.run(make, file)
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE alembic_version SET version_num = '0999'")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (text, "is not an SQLite database"),
        (truncated, "is damaged"),
        (of_another_program, "belongs to another program: it has tables (moz_places)"),
        (of_another_program_with_migrations, "belongs to another program"),
        (newer, "has schema 0999, this version of tersely knows"),
    ],
)
def test_a_file_that_is_not_ours_is_named_with_what_to_do_and_left_alone(
    file: Path, spoil: Callable[[Path], None], told: str
) -> None:
    file.parent.mkdir()
    spoil(file)
    before = file.read_bytes()
    for command in (["migrate"], ["stats"], ["read", "r_0h3kq9x7v2m5c8dz"]):
        outcome = tersely(*command)
        assert outcome.exit_code == 2 and told in outcome.stderr and str(file) in outcome.stderr, (command, outcome)
        assert any(remedy in outcome.stderr for remedy in ("tersely restore", "another file", "version that wrote it"))
    doctor = tersely("doctor", "--offline", "--json")
    (finding,) = [one for one in json.loads(doctor.stdout)["findings"] if one["what"] == "database"]
    assert finding["verdict"] == "wrong" and told in finding["words"] and str(file) in finding["words"]
    if spoil is not newer:  # SQLite keeps a counter in the file.
        assert file.read_bytes() == before


@pytest.mark.parametrize(("spoil", "told"), [(text, "is not an SQLite"), (of_another_program, "another program")])
def test_the_workflow_engines_file_is_checked_too(file: Path, spoil: Callable[[Path], None], told: str) -> None:
    file.parent.mkdir()
    engines = Path(engine_url(f"sqlite:///{file}").removeprefix("sqlite:///"))
    assert engines == engine_file(file)
    spoil(engines)
    with pytest.raises(TerselyError, match=told) as problem:
        _prepare_file(engines)
    assert str(engines) in str(problem.value)


@pytest.mark.parametrize("which", ["ours", "the engine's"])
def test_a_damaged_page_is_found_before_a_good_backup_is_replaced(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    anyio.run(make, file)
    with closing(sqlite3.connect(engine_file(file))) as db, db:
        db.execute("CREATE TABLE workflow_status (id INTEGER PRIMARY KEY, text TEXT)")
    target = tmp_path / "backup.zip"
    assert tersely("backup", str(target)).exit_code == 0 and "no damaged page" in database_finding("fine")
    good, known = target.read_bytes(), last_backup(file)

    damaged, table = (file, "timeline_events") if which == "ours" else (engine_file(file), "workflow_status")
    spoil_a_page(damaged, table)
    refused = tersely("backup", str(target))
    assert refused.exit_code == 2 and f"{str(damaged)!r} is damaged" in refused.stderr, refused
    assert "tersely restore" in refused.stderr
    assert target.read_bytes() == good and last_backup(file) == known
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.zip", "data"]
    assert f"{str(damaged)!r} is damaged" in database_finding("wrong")
    monkeypatch.setattr(sys.modules["tersely.cli.doctor"], "CHECKED_BYTES", 100)
    assert "larger than" in database_finding("fine")

    assert tersely("restore", str(target)).exit_code == 0
    assert tersely("backup", str(target)).exit_code == 0


def database_finding(verdict: str) -> str:
    """What the doctor says of the database."""
    findings = json.loads(tersely("doctor", "--offline", "--json").stdout)["findings"]
    (finding,) = [one for one in findings if one["what"] == "database"]
    assert finding["verdict"] == verdict, finding
    return str(finding["words"])


# Backups


def test_a_backup_has_both_files_as_they_were_at_one_moment(file: Path, tmp_path: Path) -> None:
    """Whoever writes does so in the first file, then in the second: a backup never has more in the second."""
    anyio.run(make, file)
    for one in (file, engine_file(file)):
        with closing(sqlite3.connect(one)) as db, db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE steps (id INTEGER PRIMARY KEY, text TEXT)")
    stop = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(file, timeout=30)) as first:
            with closing(sqlite3.connect(engine_file(file), timeout=30)) as second:
                while not stop.is_set():
                    for db in (first, second):
                        with db:
                            db.execute("INSERT INTO steps (text) VALUES (?)", ("x" * 2_000,))

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    try:
        for number in range(10):
            back_up(file, tmp_path / f"{number}.zip", version="1")
    finally:
        stop.set()
        writer.join()
    for number in range(10):
        copy = tmp_path / f"copy{number}" / "other.db"
        restore(tmp_path / f"{number}.zip", copy)
        found = []
        for one in (copy, engine_file(copy)):
            with closing(sqlite3.connect(one)) as db:
                found += db.execute("SELECT count(*) FROM steps").fetchone()
        counts.append(tuple(found))
        assert found[0] - found[1] in (0, 1), counts
    assert counts[0] < counts[-1] and (tmp_path / "0.zip").stat().st_mode & 0o077 == 0


def test_a_backup_is_made_and_restored_from_the_shell_and_the_earlier_files_are_kept(
    file: Path, tmp_path: Path
) -> None:
    anyio.run(make, file)
    target = tmp_path / "backup.zip"
    made = tersely("backup", str(target))
    assert made.exit_code == 0 and "0 sessions" in made.stdout, made
    known = last_backup(file)
    assert known and known.sessions == 0
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("CREATE TABLE written_later (id INTEGER)")
    with worker_file_lock(file):
        refused = tersely("restore", str(target))
        assert refused.exit_code == 2 and "Another tersely process uses" in refused.stderr
    done = tersely("restore", str(target))
    assert done.exit_code == 0 and "earlier files" in done.stdout, done
    with closing(sqlite3.connect(file)) as db:
        assert not db.execute("SELECT name FROM sqlite_master WHERE name = 'written_later'").fetchall()
    (earlier,) = file.parent.glob("tersely.db.before-*Z")
    with closing(sqlite3.connect(earlier)) as db:
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'written_later'").fetchall()
    anyio.run(make, file)


@pytest.mark.parametrize("wrong", ["text", "zip", "cut", "newer"])
def test_what_is_no_backup_changes_nothing(file: Path, tmp_path: Path, wrong: str) -> None:
    anyio.run(make, file)
    target = tmp_path / "backup.zip"
    back_up(file, target, version="9.9")
    if wrong == "text":
        target.write_text("nothing")
    if wrong == "cut":
        target.write_bytes(target.read_bytes()[:-2_000])
    if wrong in ("zip", "newer"):
        with zipfile.ZipFile(target) as archive:
            manifest, database = json.loads(archive.read("manifest.json")), archive.read("tersely.db")
        with zipfile.ZipFile(target, "w") as archive:
            archive.writestr("tersely.db", database)
            if wrong == "newer":
                archive.writestr("manifest.json", json.dumps({**manifest, "schema": "0999"}))
    before = sorted(path.name for path in file.parent.iterdir())
    with pytest.raises(InputError, match=r"tersely 9\.9 or a newer" if wrong == "newer" else "is not a backup"):
        restore(target, file)
    assert sorted({*(path.name for path in file.parent.iterdir())} - {"tersely.db.worker"}) == before


def test_without_a_database_or_with_postgresql_the_command_says_what_to_do(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = tersely("backup", str(tmp_path / "b.zip"))
    assert nothing.exit_code == 2 and "There is no database at" in nothing.stderr
    monkeypatch.setenv("TERSELY_DATABASE_URL", "postgresql://me:secret-word@db/tersely")
    (tmp_path / "b.zip").touch()
    for command, tool in (("backup", "pg_dump --format=custom"), ("restore", "pg_restore --clean")):
        told = tersely(command, str(tmp_path / "b.zip"))
        assert told.exit_code == 2 and tool in told.stderr and "secret-word" not in told.stderr
        assert "$TERSELY_DATABASE_URL" in told.stderr
    # A shell that has no such variable needs another command.
    monkeypatch.delenv("TERSELY_DATABASE_URL")
    (tmp_path / ".env").write_text(
        "TERSELY_DATABASE_URL=postgresql+psycopg://me:secret-word@db/tersely?sslmode=require"
    )
    for place in (".env", "tersely.yaml:2"):
        for command in ("backup", "restore"):
            told = tersely(command, str(tmp_path / "b.zip"))
            assert '"postgresql://me@db/tersely?sslmode=require"' in told.stderr, told.stderr
            assert "$TERSELY" not in told.stderr and "secret-word" not in told.stderr
            assert f"which is in {place}" in told.stderr, told.stderr
        (tmp_path / ".env").unlink(missing_ok=True)
        (tmp_path / "tersely.yaml").write_text(
            "store:\n  database_url: postgresql://me@db/tersely?sslmode=require&password=secret-word\n"
        )
