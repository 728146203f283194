"""Lists of tools: floods of notifications, changes, pages, malformed definitions."""

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from tersely.mcp.connect.wire import Inbox
from tests.fakes.mcp_servers.web import Honest
from tests.mcp.connections import ERAS, HASTY, call, one, said, stdio, tool, until, web

pytestmark = pytest.mark.process


@pytest.mark.parametrize("noise", ["flood", "ask_for_models"])
async def test_a_flood_is_bounded_and_the_answer_behind_it_arrives(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inbox, "PER_SECOND", 0)
    heard: list[str] = []

    async with one(stdio("floods"), on_notification=lambda server, method, params: heard.append(method)) as connection:
        assert await said(connection, noise) == "done"
        assert connection.status().dropped > 900
        assert len(heard) <= 2_000
        assert await said(connection, "count_listings") == "1"


async def test_a_storm_of_changes_leads_to_few_listings() -> None:
    async with one(stdio("floods")) as connection:
        began, listings = anyio.current_time(), 0
        for _ in range(5):
            await said(connection, "storm")
        while listings < 2:
            listings = int(await said(connection, "count_listings"))
        # The first one, and one after each pause.
        assert listings <= 1 + (anyio.current_time() - began) / HASTY.between_lists


@pytest.mark.parametrize("tell", [True, False])
async def test_changed_tools_are_noticed_by_being_told_or_after_a_while(tell: bool) -> None:
    changes: list[str] = []

    async with one(stdio("changes", list_ttl=1), on_change=changes.append) as connection:
        before = {tool.name: tool.fingerprint for tool in connection.tools}
        await call(connection, "change", tell=tell)
        await until(lambda: {tool.name for tool in connection.tools} == {"change", "get", "new"})
        after = {tool.name: tool.fingerprint for tool in connection.tools}

    assert set(before) == {"change", "get", "gone"}
    assert before["change"] == after["change"]
    assert before["get"] != after["get"], "its description is another one"
    assert changes == ["changes", "changes"]


async def test_a_tool_added_to_a_server_of_the_newer_protocol_is_noticed() -> None:
    honest = Honest()
    async with honest.listening() as url, one(web(url, list_ttl=1, protocol=ERAS[1])) as connection:

        @honest.server.tool
        def new() -> str:
            return "new"

        await until(lambda: "new" in {tool.name for tool in connection.tools})


@pytest.mark.parametrize(("how", "expected"), [([], 35), (["--endless"], 100), (["--circle"], 3)])
async def test_pages_are_followed_and_have_an_end(how: list[str], expected: int) -> None:
    async with one(stdio("paginates", *how)) as connection:
        assert len(connection.tools) == expected
        if not how:
            assert await said(connection, "tool_34") == "tool_34"
        if how == ["--endless"]:
            assert connection.status().refused == ("everything after page 100 of the listing",)
        else:
            assert len(connection.status().refused) <= 1, "a circle is left where it closes"


async def test_one_bad_definition_does_not_cost_the_others() -> None:
    async with one(stdio("poisoned")) as connection:
        names = [tool.name for tool in connection.tools]
        assert "fine" in names and "ref" in names and "no_schema" not in names
        assert len(tool(connection, "long").description) < 20_000
        refused = "\n".join(connection.status().refused)
        assert "'fine' is listed twice" in refused
        assert "'no_schema' has no input schema" in refused
        assert "a tool without a name" in refused
        assert await said(connection, "fine") == "fine"
