"""`/ready`, the API and sessions while the database is in trouble or MCP servers are starting or away."""

import os
import signal
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import psycopg
import pytest
import sqlalchemy as sa

from tersely.errors import StoreUnavailable
from tersely.sessions.worker import WorkerTimeouts
from tersely.store.health import DAMAGED, DISK_FULL, LOCKED, NO_ANSWER, NOT_REACHED, READ_ONLY, reason_of
from tersely.store.sqlite_files import engine_file
from tests.fakes.damage import spoil_a_page
from tests.flows.service import FlowService, calls, flow_service, said, server_of

pytestmark = pytest.mark.process

PROBE_SECONDS = 5.0
"""Generous: a probe that waited for the database would wait until the test ends the trouble."""


def nothing(addresses: Mapping[str, str]) -> dict[str, Any]:
    return {}


async def reasons_of(service: FlowService) -> list[str]:
    with anyio.fail_after(PROBE_SECONDS):
        answer = await service.web.http.get("/ready")
    body = answer.json()
    assert (answer.status_code, body["status"]) == ((503, "not_ready") if body["reasons"] else (200, "ready"))
    return list(body["reasons"])


async def until_ready_says(service: FlowService, *reasons: str) -> None:
    with anyio.fail_after(120):
        while await reasons_of(service) != list(reasons):
            await anyio.sleep(0.05)


async def refused_with(request: Any) -> str:
    answer: httpx2.Response = await request
    assert (answer.status_code, answer.headers.get("Retry-After")) == (503, "5"), answer.text
    return str(answer.json()["error"]["message"])


@contextmanager
def paused(url: str) -> Iterator[None]:
    """All processes of the PostgreSQL stand still."""
    processes: dict[int, int] = {}
    with psycopg.connect(url) as connection:
        backend = connection.info.backend_pid
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with_name, _, rest = stat.read_text("utf-8", "replace").rpartition(")")
            processes[int(with_name.split()[0])] = int(rest.split()[1])
    server = processes[backend]
    stopped = [server, *(one for one, parent in processes.items() if parent == server and one != backend)]
    for one in stopped:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in stopped:
            os.kill(one, signal.SIGCONT)


async def test_a_paused_or_read_only_postgresql(postgresql_url: str, tmp_path: Path) -> None:
    async with flow_service(postgresql_url, tmp_path, nothing, TERSELY_LEASE="5") as service:
        assert await reasons_of(service) == []
        with paused(postgresql_url):
            await until_ready_says(service, NO_ANSWER)
            with anyio.fail_after(60):
                said = await refused_with(service.web.http.get("/api/v1/sessions"))
            assert said == f"{NO_ANSWER} Try again in a moment."
        await until_ready_says(service)
        with psycopg.connect(postgresql_url, autocommit=True) as admin:
            try:
                admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
                admin.execute("SELECT pg_reload_conf()")
                await until_ready_says(service, READ_ONLY)
                said = await refused_with(service.web.http.post("/api/v1/alerts", json={"data": "x"}))
                assert said == f"{READ_ONLY} Try again in a moment."
                assert (await service.web.http.get("/api/v1/sessions")).status_code == 200
            finally:
                admin.execute("SET default_transaction_read_only = off")
                admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
                admin.execute("SELECT pg_reload_conf()")
        await until_ready_says(service)


async def test_a_full_disk_under_sqlite(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tersely.db'}"
    async with flow_service(url, tmp_path, nothing, TERSELY_LEASE="5") as service:
        engine = service.web.parts.database._writer._engine  # type: ignore[union-attr]
        (pages,) = sqlite3.connect(tmp_path / "tersely.db").execute("PRAGMA page_count").fetchone()
        # The file may not grow any more, which SQLite reports like a full disk.
        most = pages

        def limit(connection: Any, record: Any = None) -> None:
            connection.execute(f"PRAGMA max_page_count = {most}")

        sa.event.listen(engine, "connect", limit)
        engine.dispose()
        large = {"data": "\n".join(f"pod web-{number * 7919} restarts" for number in range(20_000))}
        assert (
            await refused_with(service.web.http.post("/api/v1/alerts", json=large))
            == f"{DISK_FULL} Try again in a moment."
        )
        assert await reasons_of(service) == [DISK_FULL]
        most = 1_000_000
        engine.dispose()
        await until_ready_says(service)
        assert (await service.web.http.post("/api/v1/alerts", json=large)).status_code == 202


@pytest.mark.parametrize("which", ["ours", "the engine's"])
async def test_a_page_that_is_damaged_under_a_running_service_stays_a_problem(tmp_path: Path, which: str) -> None:
    file = tmp_path / "tersely.db"
    damaged, table = (file, "timeline_events") if which == "ours" else (engine_file(file), "operation_outputs")
    async with flow_service(f"sqlite:///{file}", tmp_path, nothing, TERSELY_LEASE="5") as service:
        assert await reasons_of(service) == []
        await anyio.to_thread.run_sync(spoil_a_page, damaged, table)
        await service.web.http.post("/api/v1/alerts", json={"data": "x"})
        await until_ready_says(service, DAMAGED)
        assert "tersely restore" in DAMAGED
        # Other pages can be read, which is no reason to call the database healthy.
        database = service.web.parts.database
        await database.check()
        assert (await service.web.http.get("/api/v1/sessions")).status_code == 200
        with pytest.raises(StoreUnavailable, match=f"{damaged.name}' is damaged"):
            async with database.transaction():
                pass
        assert await reasons_of(service) == [DAMAGED]
        assert await refused_with(service.web.http.post("/api/v1/alerts", json={"data": "y"})) == DAMAGED
        problems = (await service.web.http.get("/api/v1/system/problems")).json()["items"]
        assert [one["message"] for one in problems if one["subject"] == "database"] == [DAMAGED]
        stopped = anyio.current_time()
    # What runs is not waited for: it could not be stored.
    assert anyio.current_time() - stopped < 0.8 * WorkerTimeouts().grace


def test_errors_of_the_drivers_are_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "some.db"
    first = sqlite3.connect(file, isolation_level=None)
    first.execute("CREATE TABLE t (x)")
    first.execute("BEGIN IMMEDIATE")
    second = sqlite3.connect(file, timeout=0)
    with pytest.raises(sqlite3.OperationalError) as locked:
        second.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError) as read_only:
        sqlite3.connect(f"file:{file}?mode=ro", uri=True).execute("INSERT INTO t VALUES (1)")
    with pytest.raises(psycopg.OperationalError) as away:
        psycopg.connect("postgresql://127.0.0.1:1/x", connect_timeout=5)
    found = [reason_of(one.value) for one in (locked, read_only, away)]
    assert found == [LOCKED, READ_ONLY, NOT_REACHED]


async def test_a_session_waits_for_a_server_that_is_starting_and_names_one_that_stays_away(
    url: str, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"

    def configuration(addresses: Mapping[str, str]) -> dict[str, Any]:
        provider = {"type": "openai", "model": "test/model", "base_url": addresses["main"], "api_key": "k"}
        away = {"type": "stdio", "command": "no-such-program"}
        return {
            "llm_providers": {"main": {**provider, "context_window": 100_000}},
            "mcp_servers": {"late": server_of("late", str(gate)), "away": {"transport": away}},
            "agents": {"one": {"llm_provider": "main"}},
            "chains": {"plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "one"}]}},
            "defaults": {"alert_type": "plain", "llm_provider": "main", "verdict": False},
            "queue": {"poll": 0.05, "lease": 5},
        }

    async with flow_service(url, tmp_path, configuration, providers=("main",), wait_for_servers=0.0) as service:
        # The server that failed does not keep it unready.
        await until_ready_says(service, "The MCP server late is starting.")
        case = service.case(main=[calls("late__look"), "The queue is full."])
        accepted = await service.web.http.post("/api/v1/alerts", json={"data": case.alert()})
        assert accepted.json()["message"] == (
            "Alert of type plain accepted; it is queued. Starting, and waited for when it runs: late. "
            "Not reachable at the moment, and tried again when it runs: away."
        )
        session_id = accepted.json()["session_id"]
        waiting = "Waiting for the MCP server late to start."
        with anyio.fail_after(120):
            while waiting not in [item["content"] for item in await service.all(f"/sessions/{session_id}/timeline")]:
                await anyio.sleep(0.05)
        assert service.models["main"].requests == []
        gate.touch()
        story = await service.story(session_id)
        await until_ready_says(service)
    sentence = "Investigated without the MCP server away, which could not be reached."
    assert "the queue is full" in said(case.requests()[1])
    notices = [item["content"] for item in story.shown("notice")]
    assert notices[0] == waiting and notices[1].startswith(f"{sentence} away: ") and len(notices) == 2
    assert story.session["reason"] == story.session["stages"][0]["reason"] == sentence
    assert story.session["analysis"] == f"The queue is full.\n\n{sentence}"
    assert story.shown("final_analysis")[0]["content"] == story.session["analysis"], "viewers read the same"
