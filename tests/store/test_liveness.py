"""Locks of workers: gone with the process, taken again after a cut, none behind a connection pooler."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.abc
import psycopg
import pytest

from tersely.store.database import Database
from tersely.store.liveness import LOCKED, WorkerLock, can_lock, held_locks, key_of, worker_lock

pytestmark = pytest.mark.slow


@pytest.fixture
async def postgres(postgresql_url: str) -> AsyncIterator[Database]:
    await Database.migrate(postgresql_url)
    async with Database.open(postgresql_url) as database:
        yield database


async def held(database: Database) -> set[int]:
    async with database.reading() as db:
        return await held_locks(db)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(60):
        while not await condition():
            await anyio.sleep(0.02)


async def test_a_lock_is_held_while_its_worker_lives_and_seen_by_others(postgres: Database) -> None:
    async with worker_lock(postgres, "one") as one, worker_lock(postgres, "two") as two:
        assert one and two
        assert (one.executor, two.executor) == (f"one{LOCKED}", f"two{LOCKED}")
        assert await held(postgres) == {key_of(one.executor), key_of(two.executor)}
    await until(lambda: _nothing_held(postgres))


async def _nothing_held(database: Database) -> bool:
    return not await held(database)


async def test_a_lock_whose_connection_was_cut_is_taken_again(postgres: Database, postgresql_url: str) -> None:
    async with worker_lock(postgres, "one") as lock:
        assert lock and lock.is_held and lock.is_steady(60)
        with psycopg.connect(postgresql_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        await until(lambda: _is_taken_again(lock))
        assert await held(postgres) == {key_of(lock.executor)}
        assert not lock.is_steady(60), "others may not have theirs again yet"


async def _is_taken_again(lock: WorkerLock) -> bool:
    return lock.is_held and not lock.is_steady(60)


async def test_behind_a_pooler_there_is_no_lock(postgres: Database, postgresql_url: str) -> None:
    """A pooler answers a new client itself, with a process id of its own; which server it gets is decided later."""
    assert await can_lock(postgres)
    async with pooler(postgresql_url) as url, Database.open(url) as database:
        assert not await can_lock(database)
        async with worker_lock(database, "one") as lock:
            assert lock is None
    assert await held(postgres) == set()


@asynccontextmanager
async def pooler(url: str) -> AsyncIterator[str]:
    """PostgreSQL through a program that shows its clients another process id, as poolers do."""
    parts = urlsplit(url)
    host = parse_qs(parts.query).get("host", [parts.hostname or "localhost"])[0]

    async def connected(client: anyio.abc.SocketStream) -> None:
        server = await (
            anyio.connect_unix(f"{host}/.s.PGSQL.{parts.port or 5432}")
            if host.startswith("/")
            else anyio.connect_tcp(host, parts.port or 5432)
        )
        async with client, server, anyio.create_task_group() as both:
            both.start_soon(pass_on, client, server)
            both.start_soon(pass_on, server, client, True)

    async def pass_on(source: anyio.abc.ByteStream, target: anyio.abc.ByteStream, renames: bool = False) -> None:
        try:
            async for piece in source:
                # BackendKeyData: a letter, the length 12, the process id, the key.
                place = piece.find(b"K\x00\x00\x00\x0c") if renames else -1
                if place >= 0:
                    piece = piece[: place + 5] + b"\x7f\x00\x00\x01" + piece[place + 9 :]
                    renames = False
                await target.send(piece)
            await target.aclose()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
            pass

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, connected)
        user = parts.username or "postgres"
        yield f"postgresql://{user}@127.0.0.1:{port}{parts.path}"
        group.cancel_scope.cancel()
