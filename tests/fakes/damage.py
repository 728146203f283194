"""A damaged SQLite file."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path


def spoil_a_page(file: Path, table: str) -> None:
    """Overwrite the first page of a table, also under a process that uses the file."""
    with closing(sqlite3.connect(file, timeout=60)) as db:
        while db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            time.sleep(0.01)  # Somebody reads an earlier state.
        (page,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = db.execute("PRAGMA page_size").fetchone()
        with file.open("r+b") as out:
            out.seek((page - 1) * size)
            out.write(b"\xde\xad" * (size // 2))
        db.execute("PRAGMA user_version = 1")  # What others have in memory is out of date now.
