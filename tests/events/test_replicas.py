"""Replicas on one PostgreSQL see each other's events; an event whose notification was lost is found by polling."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import psycopg
import pytest

from tersely.events.bus import Bus
from tersely.events.recorder import SessionRecorder
from tersely.events.replicas import open_bus
from tersely.masking.masked import assume_masked
from tersely.store.database import Database
from tests.fakes.begun import begun, log


@asynccontextmanager
async def replica(url: str) -> AsyncIterator[tuple[Database, Bus]]:
    async with Database.open(url) as database, open_bus(database) as bus:
        yield database, bus


async def listeners(url: str, number: int) -> None:
    """Wait until this many connections listen."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' OR query = 'SELECT 1'"
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as admin:
        with anyio.fail_after(300):
            while True:
                row = await (await admin.execute(query)).fetchone()
                if row and row[0] >= number:
                    return
                await anyio.sleep(0.02)


@pytest.fixture
async def address(postgresql_url: str) -> str:
    await Database.migrate(postgresql_url)
    return postgresql_url


async def test_events_and_chunks_of_one_replica_reach_viewers_of_another(address: str) -> None:
    async with replica(address) as (database, here), replica(address) as (_, there):
        await listeners(address, 2)
        session_id = await begun(database)
        recorder = SessionRecorder(database, here, session_id, 1, execution_id="e")
        with anyio.fail_after(300):
            async with there.subscribe(f"session:{session_id}", 2) as subscription:
                long, text = "é\x1b" * 5_000, ""
                async with recorder.opened("1", "llm_response") as event:
                    assert json.loads(await anext(subscription))["type"] == "timeline_event.created"
                    event.delta(assume_masked(long))
                    while text != long:
                        chunk = json.loads(await anext(subscription))
                        assert chunk["offset"] == len(text)
                        text += chunk["delta"]
                    recorder.progress("distilling", "almost there")
                    assert json.loads(await anext(subscription))["message"] == "almost there"
                    # Too large for a notice: announced, and read from the store.
                    await event.complete(assume_masked(long))
                completed = await anext(subscription)
        assert completed == (await log(database, session_id))[-1].payload and json.loads(completed)["content"] == long


async def test_events_published_without_a_listener_are_found_by_polling(address: str) -> None:
    """NOTIFY lost: events arrive by poll. Here one replica has no wire at all."""
    async with Database.open(address) as database, replica(address) as (_, there):
        session_id = await begun(database)
        mute = SessionRecorder(database, Bus(database), session_id, 1)
        async with (
            there.subscribe(f"session:{session_id}", 2) as subscription,
            there.subscribe("sessions", None) as everything,
        ):
            await mute.record("1", "error", assume_masked("oh"))
            await mute.session_status("completed")
            with anyio.fail_after(300):
                told = [json.loads(await anext(subscription))["type"] for _ in range(2)]
                assert json.loads(await anext(everything))["status"] == "completed"
    assert told == ["timeline_event.created", "session.status"]


async def test_replicas_find_each_other_again_after_their_connections_were_cut(address: str) -> None:
    async with replica(address) as (database, here), replica(address) as (_, there):
        await listeners(address, 2)
        session_id = await begun(database)
        recorder = SessionRecorder(database, here, session_id, 1)
        async with there.subscribe(f"session:{session_id}", 2) as subscription:
            async with await psycopg.AsyncConnection.connect(address, autocommit=True) as admin:
                others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
                await admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
            await listeners(address, 2)
            with anyio.fail_after(300):
                async with recorder.opened("1", "llm_response") as event:
                    assert json.loads(await anext(subscription))["type"] == "timeline_event.created"
                    # Only the wire carries chunks: looking would not find them.
                    event.delta(assume_masked("again"))
                    assert json.loads(await anext(subscription))["delta"] == "again"


async def test_a_malformed_notification_is_ignored(address: str) -> None:
    """Any client of the database can send anything on the channel."""
    async with replica(address) as (database, here), replica(address) as (_, there):
        await listeners(address, 2)
        session_id = await begun(database)
        recorder = SessionRecorder(database, here, session_id, 1)
        async with there.subscribe(f"session:{session_id}", 2) as subscription:
            async with await psycopg.AsyncConnection.connect(address, autocommit=True) as admin:
                for text in (
                    "no json",
                    "[]",
                    '["x", "stored"]',
                    '["x", "stored", "sessions", 9, "no json", null]',
                    '["x"]',
                ):
                    await admin.execute("SELECT pg_notify('tersely_events', %s)", (text,))
            with anyio.fail_after(20):
                await recorder.record("1", "error", assume_masked("oh"))
                assert json.loads(await anext(subscription))["content"] == "oh"
