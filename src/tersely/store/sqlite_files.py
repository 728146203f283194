"""The two SQLite files that belong together, ours and the workflow engine's: lock, backups, and what can be wrong.

A backup is a ZIP file with a copy of both, taken at the same moment while the service
runs, and a manifest. Restoring keeps the earlier files under another name. A damaged or
foreign file is named, with what to do about it.
"""

import json
import os
import re
import shutil
import sqlite3
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tersely.errors import ConfigError, InputError, StoreUnavailable
from tersely.store.private import private_folder
from tersely.store.tables import SCHEMA

BUSY_SECONDS = 30
_OURS, _ENGINES, _MANIFEST = "tersely.db", "tersely-workflows.db", "manifest.json"
OUR_SCHEMA = re.compile(r"\d{4}")
_ENGINES_TABLES = {"workflow_status", "dbos_migrations"}
_SIDE_FILES = ("", "-wal", "-shm")
_NOT_A_DATABASE = {sqlite3.SQLITE_NOTADB: "is not an SQLite database", sqlite3.SQLITE_CORRUPT: "is damaged"}


@dataclass(frozen=True, kw_only=True)
class BackupInfo:
    """What a backup contains."""

    made_at: datetime
    version: str
    """Of the Tersely that made it."""

    schema: str
    sessions: int


def file_of(database_url: str) -> Path | None:
    """The SQLite file of a database; None for PostgreSQL."""
    return Path(database_url.split("///", 1)[1]) if database_url.startswith("sqlite") else None


def engine_file(file: Path) -> Path:
    """The workflow engine's file beside ours."""
    return file.with_name(f"{file.stem if file.suffix == '.db' else file.name}-workflows.db")


# What is wrong with a file


def damage(file: Path, problem: BaseException | None) -> str | None:
    """Which file is damaged or no database, and what to do; None if the problem is another one."""
    what = _NOT_A_DATABASE.get(getattr(problem, "sqlite_errorcode", 0) & 0xFF)
    return None if what is None else _what_to_do(file, what, str(problem))


def _what_to_do(file: Path, what: str, problem: str) -> str:
    return (
        f"The database file {str(file)!r} {what} ({problem}). Is TERSELY_DATABASE_URL right? If it is, restore a "
        f"backup with: tersely restore FILE. Without one, move it and {_partner(file).name} away and start anew."
    )


def check_pages(file: Path) -> None:
    """Read all of a database, which may be in use, to find damaged pages; a missing or empty one is fine.

    Raises:
        StoreUnavailable: It is damaged, not a database, or cannot be read.
    """
    if file.exists():
        with _naming(file), closing(_read_only(file)) as reader:
            _check_pages(reader, file)


def _check_pages(reader: sqlite3.Connection, file: Path) -> None:
    """
    Args:
        file: The file to name, if the reader reads a copy of it.
    """
    if problem := _wrong_page(reader):
        raise StoreUnavailable(_what_to_do(file, "is damaged", problem))


def _wrong_page(reader: sqlite3.Connection) -> str | None:
    (state,) = reader.execute("PRAGMA quick_check(1)").fetchone()
    return None if state == "ok" else " ".join(state.split())


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Raise SQLite's errors as `StoreUnavailable` that names the file."""
    try:
        yield
    except sqlite3.Error as problem:
        told = damage(file, problem) or f"The database file {str(file)!r} could not be read: {problem}."
        raise StoreUnavailable(told) from None


def check_file(file: Path) -> None:
    """Check a file before anything is written to it; a missing or empty one is fine.

    Raises:
        StoreUnavailable: It is damaged, or not a database.
        ConfigError: It belongs to another program.
    """
    if not file.exists():
        return
    try:
        with closing(_read_only(file)) as reader:
            tables = {name for (name,) in reader.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            is_ours = bool(tables & _ENGINES_TABLES) or ("alembic_version" in tables and _has_our_schema(reader))
    except sqlite3.Error as problem:
        if told := damage(file, problem):
            raise StoreUnavailable(told) from None
        return  # Locked, or not readable: whoever opens it says so.
    if tables and not is_ours:
        raise ConfigError(
            f"The database file {str(file)!r} belongs to another program: it has tables "
            f"({', '.join(sorted(tables)[:3])}), but none of tersely. It was not changed. "
            "Set TERSELY_DATABASE_URL to another file."
        )


def _has_our_schema(connection: sqlite3.Connection) -> bool:
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return row is None or OUR_SCHEMA.fullmatch(str(row[0])) is not None


def _partner(file: Path) -> Path:
    suffix = "-workflows.db"
    return file.with_name(file.name.removesuffix(suffix) + ".db") if file.name.endswith(suffix) else engine_file(file)


# The lock


@contextmanager
def worker_file_lock(file: Path) -> Iterator[None]:
    """Hold the lock that allows one worker per SQLite file; the operating system releases it when the process ends.

    Raises:
        ConfigError: Another process holds the lock.
    """
    with file.with_name(file.name + ".worker").open("w") as lock:
        try:
            _lock(lock.fileno())
        except OSError:
            raise ConfigError(
                f"Another tersely process uses {file}. Stop it, or give this one its own database "
                "(TERSELY_DATABASE_URL); several processes can share a PostgreSQL."
            ) from None
        yield


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


# Backups


def back_up(file: Path, target: Path, *, version: str) -> BackupInfo:
    """Write a backup of a database, which may be in use; an existing target is replaced when it is complete.

    Raises:
        InputError: There is no database.
        StoreUnavailable: It is damaged or cannot be read, or the target cannot be written.
    """
    if not file.exists():
        raise InputError(f"There is no database at {file}.")
    unfinished = target.with_name(target.name + ".part")
    try:
        with TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as folder:
            copies = _copies(file, Path(folder))
            with _naming(file), closing(sqlite3.connect(copies[_OURS])) as ours:
                tables = {name for (name,) in ours.execute("SELECT name FROM sqlite_master")}
                (sessions,) = ours.execute("SELECT count(*) FROM sessions").fetchone() if "sessions" in tables else (0,)
                info = BackupInfo(made_at=datetime.now(UTC), version=version, schema=_schema(ours), sessions=sessions)
            descriptor = os.open(unfinished, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
            with os.fdopen(descriptor, "wb") as out:
                with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                    archive.writestr(_MANIFEST, json.dumps(_manifest(info), indent=2))
                    for name, copy in copies.items():
                        archive.write(copy, name)
                out.flush()
                os.fsync(out.fileno())
            unfinished.replace(target)
    except OSError as problem:
        raise StoreUnavailable(f"The backup {str(target)!r} could not be written: {problem.strerror}.") from None
    finally:
        unfinished.unlink(missing_ok=True)
    _last_backup(file).write_text(json.dumps(_manifest(info)), encoding="utf-8")
    return info


def _copies(file: Path, folder: Path) -> dict[str, Path]:
    """Copies of both files as they were at one moment, by their names in a backup."""
    sources = {_OURS: file} | ({_ENGINES: engine_file(file)} if engine_file(file).exists() else {})
    with ExitStack() as stack:
        readers: dict[str, sqlite3.Connection] = {}
        with ExitStack() as locks:
            # Both are locked for the moment in which both snapshots begin. Ours first, as the worker does it.
            for source in sources.values():
                with _naming(source):
                    writer = locks.enter_context(closing(_connected(source)))
                    writer.execute("BEGIN IMMEDIATE")
            for name, source in sources.items():
                with _naming(source):
                    readers[name] = reader = stack.enter_context(closing(_connected(source)))
                    reader.execute("BEGIN")
                    reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
        for name, reader in readers.items():
            with _naming(sources[name]), closing(sqlite3.connect(folder / name)) as copy:
                reader.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # One file, without a WAL beside it.
                _check_pages(copy, sources[name])  # Pages are copied as they are.
    return {name: folder / name for name in readers}


def restore(source: Path, file: Path) -> tuple[BackupInfo, Path | None]:
    """Put the files of a backup in place; returns what it contains, and where the earlier file is, if there was one.

    Raises:
        InputError: It is not a backup, is damaged, or a newer version of Tersely made it.
        ConfigError: A process uses the database.
        StoreUnavailable: A file cannot be written.
    """
    try:
        private_folder(file.parent)
        with worker_file_lock(file), TemporaryDirectory(dir=file.parent, prefix=f".{file.name}-") as folder:
            info, restored = _unpacked(source, Path(folder))
            earlier = _set_aside(file)
            for name, target in ((_OURS, file), (_ENGINES, engine_file(file))):
                if name in restored:
                    restored[name].chmod(0o600)
                    restored[name].replace(target)
            return info, earlier
    except OSError as problem:
        raise StoreUnavailable(f"The backup {str(source)!r} could not be restored: {problem.strerror}.") from None


def _unpacked(source: Path, folder: Path) -> tuple[BackupInfo, dict[str, Path]]:
    try:
        with zipfile.ZipFile(source) as archive:
            names = set(archive.namelist())
            if not {_MANIFEST, _OURS} <= names:
                raise InputError(f"{source} is not a backup of tersely.")
            info = _info(json.loads(archive.read(_MANIFEST)))
            if info.schema > SCHEMA:
                raise InputError(
                    f"{source} has schema {info.schema}, this version of tersely knows {SCHEMA}. "
                    f"Restore it with tersely {info.version} or a newer version."
                )
            unpacked = {}
            for name in names & {_OURS, _ENGINES}:
                # Copied in pieces, which also checks the checksum.
                with archive.open(name) as packed, (folder / name).open("wb") as out:
                    shutil.copyfileobj(packed, out, 2**20)
                unpacked[name] = folder / name
        for copy in unpacked.values():
            with closing(sqlite3.connect(copy)) as connection:
                if wrong := _wrong_page(connection):
                    raise InputError(f"{source} is damaged: {wrong}")
    except (zipfile.BadZipFile, EOFError, ValueError, KeyError, TypeError, sqlite3.Error) as problem:
        raise InputError(f"{source} is not a backup of tersely, or is damaged: {problem}.") from None
    return info, unpacked


def _set_aside(file: Path) -> Path | None:
    """Rename the present files, with what SQLite keeps beside them."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    earlier = None
    for present in (file, engine_file(file)):
        for suffix in _SIDE_FILES:
            old = present.with_name(present.name + suffix)
            if old.exists():
                kept = present.with_name(f"{present.name}.before-{moment}{suffix}")
                old.replace(kept)
                earlier = earlier or kept
    return earlier


def last_backup(file: Path) -> BackupInfo | None:
    """The last backup that was made of this database; None if none is known."""
    try:
        return _info(json.loads(_last_backup(file).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last_backup(file: Path) -> Path:
    return file.with_name(file.name + ".last-backup")


def _manifest(info: BackupInfo) -> dict[str, Any]:
    return {
        "made_at": info.made_at.isoformat(),
        "version": info.version,
        "schema": info.schema,
        "sessions": info.sessions,
    }


def _info(manifest: dict[str, Any]) -> BackupInfo:
    return BackupInfo(
        made_at=datetime.fromisoformat(manifest["made_at"]),
        version=str(manifest["version"]),
        schema=str(manifest["schema"]),
        sessions=int(manifest["sessions"]),
    )


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", timeout=BUSY_SECONDS, uri=True)


def _connected(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None)


def _schema(connection: sqlite3.Connection) -> str:
    return str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])
