"""What `tersely doctor` says of a database."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import psycopg
import pytest
from click.testing import CliRunner

from tersely.cli import main
from tersely.events.log import claim_session, create_session
from tersely.store import claims, executors
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.sqlite_files import file_of

pytestmark = [pytest.mark.process, pytest.mark.slow]


def looked() -> dict[str, tuple[str, str]]:
    answer = CliRunner().invoke(main, ["doctor", "--offline", "--json"])
    findings = json.loads(answer.stdout)["findings"]
    assert all(bool(one["next_step"]) == (one["verdict"] != "fine") for one in findings), (
        "what to do, for every failure"
    )
    return {one["what"]: (one["verdict"], f"{one['words']}. {one['next_step']}") for one in findings}


@pytest.fixture
def at_home(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERSELY_DATABASE_URL", url)
    monkeypatch.chdir(tmp_path)


async def fill(url: str) -> None:
    """A suspect, and a worker of another version."""
    new = rows.NewSession(
        id=str(uuid.uuid4()),
        scope="me",
        kind="k",
        alert_type="a",
        chain="c",
        title="t",
        alert="x",
        encoding="o200k_base",
        mark_key=b"k",
    )
    async with Database.open(url) as database, database.transaction() as db:
        now = database.clock.now()
        await create_session(db, new, now=now)
        for name in ("a", "b"):
            await claim_session(db, new.id, name, now=now)
            await claims.record_crash(db, new.id, name)
        await executors.heartbeat(db, "c", host="h", version="0.0.9")


def test_the_doctor_sees_suspects_other_versions_old_backups_and_a_database_that_cannot_be_written(
    url: str, at_home: None
) -> None:
    anyio.run(Database.migrate, url)
    before = looked()
    assert {before[what][0] for what in ("database", "takeover", "versions", "suspects", "backup")} == {"fine"}
    anyio.run(fill, url)
    file = file_of(url)
    if file:
        assert looked()["backup"] == ("look", "none is known. Make one: tersely backup FILE")
        old = {"made_at": (datetime.now(UTC) - timedelta(days=9)).isoformat(), "version": "1", "schema": "0003"}
        file.with_name(f"{file.name}.last-backup").write_text(json.dumps({**old, "sessions": 1}))
    found = looked()
    assert found["suspects"][0] == "look" and "1 open session is" in found["suspects"][1]
    assert found["versions"][0] == "look" and "0.0.9" in found["versions"][1]
    if file:
        assert found["backup"][0] == "look" and "the last one is of" in found["backup"][1]
    else:
        assert "pg_dump" in found["backup"][1]
        with psycopg.connect(url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
            try:
                read_only = looked()["database"]
            finally:
                connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        assert read_only[0] == "wrong" and "cannot be written" in read_only[1] and "read-only" in read_only[1]
