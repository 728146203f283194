"""What the gateway counted reaches the statistics."""

from datetime import UTC, datetime
from pathlib import Path

import anyio

from tersely.servers.gateway.counting import OWN_SERVER, OWN_TOOLS, Counting
from tersely.store.database import Database
from tersely.store.usage import used


async def test_what_is_being_stored_when_the_gateway_ends_is_not_lost(tmp_path: Path) -> None:
    """A client that makes one call and leaves: the end of the call and the end of the gateway both store."""
    url = f"sqlite:///{tmp_path / 'tersely.db'}"
    counting = Counting(today=lambda: datetime.now(UTC).date())
    async with anyio.create_task_group() as tasks:
        async with Database.open(url) as database, counting.stored_in(database):
            counting.call("orders", "list_orders", milliseconds=3, tokens_before=900, tokens_after=90, condensed=True)
            counting.own_tools(("the schema of a tool",))
            tasks.start_soon(counting.store)
            await anyio.wait_all_tasks_blocked()
            await counting.store()
    async with Database.open(url) as database, database.reading() as db:
        assert {(use.server, use.tool) for use in await used(db)} == {
            ("orders", "list_orders"),
            (OWN_SERVER, OWN_TOOLS),
        }
