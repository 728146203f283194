"""Notices arrive in the order they were sent, survive a cut connection, and cost nothing when there are too many."""

import anyio
import psycopg

from tersely.store.database import Database
from tersely.store.notify import MAX_BYTES, WAITING, Notices


async def until(heard: list[str], last: str) -> None:
    with anyio.fail_after(300):
        while last not in heard:
            await anyio.sleep(0.01)


async def test_notices_arrive_in_order_and_again_after_the_connections_were_cut(postgresql_url: str) -> None:
    await Database.migrate(postgresql_url)
    async with Database.open(postgresql_url) as database, anyio.create_task_group() as group:
        notices, heard = Notices(database), list[str]()
        group.start_soon(notices.deliver)
        group.start_soon(notices.listen, heard.append)
        with anyio.fail_after(300):
            while "ready" not in heard:
                notices.send("ready")
                await anyio.sleep(0.02)
        texts = [f"{number} " + "é" * (MAX_BYTES // 2 - 10) for number in range(300)]
        for text in texts:
            notices.send(text)
        await until(heard, texts[-1])
        assert [text for text in heard if text != "ready"] == texts

        async with await psycopg.AsyncConnection.connect(postgresql_url, autocommit=True) as admin:
            others = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
            await admin.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}")
        with anyio.fail_after(300):
            while "back" not in heard:
                notices.send("back")
                await anyio.sleep(0.02)
        group.cancel_scope.cancel()


async def test_without_a_database_sending_neither_waits_nor_grows(postgresql_url: str) -> None:
    await Database.migrate(postgresql_url)
    async with Database.open(postgresql_url) as database:
        notices = Notices(database)
        for number in range(WAITING * 3):
            notices.send(str(number))
        assert len(notices._waiting) == WAITING and notices._waiting[-1] == str(WAITING * 3 - 1)
