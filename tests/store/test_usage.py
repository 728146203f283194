"""Sums of what tools were used for."""

from datetime import date

import anyio

from tersely.store import usage
from tersely.store.database import Database
from tersely.store.tally import EDGES, Tally

TODAY = date(2026, 11, 15)
KEY = (TODAY, "gateway", "shop", "orders")


async def test_tallies_of_several_writers_add_up(url: str) -> None:
    await Database.migrate(url)
    async with Database.open(url) as database:

        async def write() -> None:
            tally = Tally()
            tally.call(KEY, milliseconds=3.4, tokens_before=9000, tokens_after=1000, condensed=True)
            tally.call(KEY, milliseconds=70_000_000, is_error=True)
            tally.read_back(KEY)
            async with database.transaction() as connection:
                await usage.add(connection, tally)

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(write)
        async with database.reading() as connection:
            (found,) = await usage.used(connection)
            assert await usage.used(connection, since=date(2026, 11, 16)) == []
            assert await usage.used(connection, door="session") == []
    assert (found.calls, found.errors, found.condensed, found.read_backs) == (6, 3, 3, 3)
    assert (found.tokens_before, found.tokens_after, found.milliseconds) == (27_000, 3_000, 3 * 70_000_003)
    assert found.latency == {5: 3, EDGES[-1]: 3}
