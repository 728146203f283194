"""`tersely read` and `tersely migrate` as a person or a script meets them."""

import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner

from tersely.cli import main
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults, Origin, user_scope
from tersely.store import audit
from tersely.store.database import Database

LOG = "".join(f"{n:04d} INFO request {n} took {n % 7} ms\n" for n in range(1, 501))
PODS = "pod,restarts\nweb-1,0\nweb-2,12\n"
CALL = Origin(server="cluster", tool="logs", arguments={"pod": "web"}, called_at=datetime(2026, 11, 15, 12, tzinfo=UTC))


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: bytes
    stderr: bytes


def tersely(*arguments: str, **environment: str) -> Done:
    """In this process, as starting one takes seconds; the first test below starts one."""
    result = CliRunner().invoke(main, arguments, env=environment, catch_exceptions=False)
    return Done(result.exit_code, result.stdout_bytes, result.stderr_bytes)


@pytest.fixture(autouse=True)
def _own_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TERSELY_DATABASE_URL", raising=False)


@pytest.fixture
def handles() -> dict[str, str]:
    """Results that were kept before, in the default place."""

    async def keep() -> dict[str, str]:
        async with Database.open(f"sqlite:///{Path(os.environ['TERSELY_DATA_DIR']) / 'tersely.db'}") as database:
            kept = KeptResults(database)
            return {
                "log": await kept.keep(assume_masked(LOG), scope=user_scope(), origin=CALL),
                "pods": await kept.keep(assume_masked(PODS), scope=user_scope(), origin=CALL),
                "chart": await kept.keep_bytes(
                    b"\x89PNG\xff\x00", scope=user_scope(), origin=CALL, mime_type="image/png", kind="image"
                ),
                "other": await kept.keep(assume_masked("hers"), scope="user:hers", origin=CALL),
            }

    return anyio.run(keep)


async def audited() -> list[audit.AuditEntry]:
    async with (
        Database.open(f"sqlite:///{Path(os.environ['TERSELY_DATA_DIR']) / 'tersely.db'}") as database,
        database.reading() as db,
    ):
        return [stored.entry for stored in await audit.page(db)]


@pytest.mark.process
def test_a_handle_alone_prints_the_whole_and_the_account_goes_to_stderr(handles: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tersely", "read", handles["log"]], capture_output=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout.decode()) == (0, LOG)
    said = done.stderr.decode()
    assert handles["log"] in said and "cluster.logs" in said and "500 lines" in said and "\x1b[" not in said


@pytest.mark.parametrize(
    ("lines", "first", "last"), [("3:5", 3, 5), ("499:", 499, 500), (":2", 1, 2), ("7", 7, 7), ("499:9999", 499, 500)]
)
def test_lines_are_counted_from_one_and_both_ends_are_in(
    handles: dict[str, str], lines: str, first: int, last: int
) -> None:
    assert tersely("read", handles["log"], "--lines", lines).stdout.decode() == "".join(
        LOG.splitlines(keepends=True)[first - 1 : last]
    )


def test_bytes_are_counted_from_zero_and_the_last_is_out(handles: dict[str, str]) -> None:
    assert tersely("read", handles["log"], "--bytes", "5:9").stdout == b"INFO\n"


def test_grep_shows_numbers_and_neighbours_plain_when_piped(handles: dict[str, str]) -> None:
    done = tersely("read", handles["log"], "--grep", "REQUEST 42 ", "-i", "-C", "1")
    assert done.stdout.decode().splitlines() == [
        f"{n}{sign} {LOG.splitlines()[n - 1]}" for n, sign in ((41, "-"), (42, ":"), (43, "-"))
    ]
    assert b"1 of 500 lines match" in done.stderr and b"\x1b[" not in done.stdout + done.stderr


def test_what_is_read_and_refused_is_in_the_audit_log(handles: dict[str, str]) -> None:
    tersely("read", handles["log"], "--grep", "INFO")
    refused = CliRunner().invoke(main, ["read", handles["other"]])
    assert refused.exit_code != 0
    assert [(entry.action, entry.method, entry.target, entry.status) for entry in anyio.run(audited)] == [
        ("search_result", "shell", f"{user_scope()}/{handles['log']}", 200),
        ("read_result", "shell", f"{user_scope()}/{handles['other']}", 404),
    ]


@pytest.mark.process
def test_sql_prints_csv_when_piped(handles: dict[str, str]) -> None:
    done = tersely("read", handles["pods"], "--sql", "SELECT * FROM result WHERE restarts > 0")
    assert list(csv.reader(io.StringIO(done.stdout.decode()))) == [["pod", "restarts"], ["web-2", "12"]]
    assert b"1 rows" in done.stderr and b"CSV, 2 rows" in done.stderr


@pytest.mark.process
def test_json_tells_what_is_known_and_what_was_asked(handles: dict[str, str]) -> None:
    said = json.loads(tersely("read", handles["log"], "--lines", "1:1", "--json").stdout)
    assert (
        said["text"] == LOG.splitlines(keepends=True)[0] and said["lines"] == 500 and said["encoding"] == "o200k_base"
    )
    assert (said["server"], said["tool"], said["arguments"]) == ("cluster", "logs", {"pod": "web"})
    assert json.loads(tersely("read", handles["log"], "--grep", "took 3", "--json").stdout)["matching_lines"] == 72
    rows = json.loads(
        tersely("read", handles["pods"], "--sql", "SELECT sum(restarts) AS n FROM result", "--json").stdout
    )
    assert rows["rows"] == [[12]] and rows["columns"][0]["name"] == "n"


def test_without_a_handle_it_lists_what_is_mine(handles: dict[str, str]) -> None:
    shown = tersely("read").stdout.decode()
    assert all(handles[name] in shown for name in ("log", "pods", "chart")) and handles["other"] not in shown
    assert len(json.loads(tersely("read", "--json").stdout)) == 3
    assert b"No results are kept" in tersely("read", "--scope", "user:nobody").stderr


def test_an_image_is_written_as_it_is(handles: dict[str, str]) -> None:
    assert tersely("read", handles["chart"]).stdout == b"\x89PNG\xff\x00"


@pytest.mark.process
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["{other}"], "No kept result has the handle"),
        (["r_0000000000000000"], "`tersely read` lists those you can read."),
        (["{log}", "--lines", "9:3"], "must look like 1:100"),
        (["{log}", "--lines", "0:3"], "must look like 1:100"),
        (["{log}", "--lines", "a:b"], "must look like 1:100"),
        (["{log}", "--grep", "("], "is not a valid re2 expression"),
        (["{log}", "--grep", "x", "--sql", "SELECT 1"], "cannot be combined"),
        (["{pods}", "--sql", "SELECT * FROM read_csv('/etc/passwd')"], "file system operations are disabled"),
        (["{chart}", "--lines", "1:2"], "is image/png, not text"),
        (["--lines", "1:2"], "need a HANDLE"),
    ],
)
def test_a_mistake_gets_a_sentence(handles: dict[str, str], arguments: list[str], says: str) -> None:
    done = tersely(
        "read", *(argument.format(**handles) if argument.startswith("{") else argument for argument in arguments)
    )
    assert done.returncode == 2 and says in done.stderr.decode() and b"Traceback" not in done.stderr


def test_a_database_that_is_not_there_is_a_sentence_without_its_password() -> None:
    done = tersely("read", TERSELY_DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/x?connect_timeout=3")
    assert (
        done.returncode == 2
        and b"did not answer" in done.stderr
        and b"hunter2" not in done.stderr
        and b"Traceback" not in done.stderr
    )
    done = tersely("read", TERSELY_DATABASE_URL="oracle://me:hunter2@x/y")
    assert done.returncode == 2 and b"sqlite and postgresql are known" in done.stderr and b"hunter2" not in done.stderr


def test_migrate_says_what_it_did() -> None:
    assert b"from no schema to schema" in tersely("migrate").stdout
    assert b"already" in tersely("migrate").stdout
    assert [(entry.action, entry.method) for entry in anyio.run(audited)] == [("migrate", "shell")]
