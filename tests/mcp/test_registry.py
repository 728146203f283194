"""The registry over real connections: what exists, what it is called, and what happens to a wrong name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from tersely.errors import ToolForbidden, ToolNotFound
from tersely.mcp.connect.supervisor import Backoff
from tersely.mcp.registry import ListingChange, ToolRegistry, registered
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tests.mcp.connections import stdio, until

pytestmark = pytest.mark.process

HASTY = Backoff(first_delay=0.05, longest_delay=0.4, between_lists=0.05)
MISSING = Server(name="missing", options=ServerOptions(transport=TransportOptions(command="/no/such/program")))


@asynccontextmanager
async def over(*servers: Server, **how: Any) -> AsyncIterator[ToolRegistry]:
    with anyio.fail_after(20):
        async with registered(servers, backoff=HASTY, **how) as registry:
            yield registry


async def said(registry: ToolRegistry, name: str, **arguments: Any) -> str:
    (only,) = (await registry.call(registry.resolve(name), arguments)).texts
    return only


async def test_a_tool_is_called_by_the_name_models_use_and_by_the_name_people_use() -> None:
    async with over(stdio("honest"), stdio("paginates")) as registry:
        assert await said(registry, "honest__echo", text="x") == "x"
        assert await said(registry, "paginates.tool_3") == "tool_3"
        assert registry.name_of(registry.resolve("honest.echo")) == "honest__echo"
        assert len(registry.tools()) == 7 + 35
        assert len(registry.tools(servers=["paginates"])) == 35


async def test_a_wrong_name_is_answered_with_what_exists_and_what_is_close() -> None:
    async with over(stdio("honest"), stdio("hangs"), MISSING) as registry:
        for wrong in ("honest__ecko", "honest/echo", "honest:echo", "echo", "Honest__Echo"):
            with pytest.raises(ToolNotFound, match="Did you mean 'honest__echo'"):
                registry.resolve(wrong)
        with pytest.raises(ToolNotFound) as unknown:
            registry.resolve("kubectl_delete_everything" * 100)
        message = str(unknown.value)
        assert "There are: honest__echo, honest__environment" in message
        assert "Server 'missing' is not connected (Server 'missing' could not be started" in message
        assert len(message) < 2_000


async def test_without_any_server_a_made_up_call_is_an_error() -> None:
    """LESSONS: with no server configured, a made-up tool call was answered as a success by a stub."""
    async with over() as registry:
        with pytest.raises(ToolNotFound, match="no server is configured, so there are no tools"):
            registry.resolve("kubernetes__get_pods")
        assert registry.tools() == []


async def test_a_filter_holds_when_listing_and_when_calling() -> None:
    async with over(
        stdio("honest"), stdio("honest", name="narrow", tools={"allow": ["e*"], "deny": ["environment"]})
    ) as registry:
        assert [named.name for named in registry.tools(["narrow"])] == ["narrow__echo"]
        with pytest.raises(ToolNotFound):
            registry.resolve("narrow__count")
        hidden = next(tool for tool in registry.connections["narrow"].tools if tool.name == "count")
        with pytest.raises(ToolNotFound):
            await registry.call(hidden, {})
        assert await said(registry, "honest__count") == "1"


async def test_what_the_configuration_does_not_allow_is_refused_by_that_reason() -> None:
    async with over(stdio("honest", read_only=True)) as registry:
        assert [named.tool.name for named in registry.tools()] == ["echo", "pid"]
        with pytest.raises(ToolForbidden, match="does not declare itself read-only"):
            registry.resolve("honest__count")
        undeclared = next(tool for tool in registry.connections["honest"].tools if tool.name == "count")
        with pytest.raises(ToolForbidden):
            await registry.call(undeclared, {})
        assert len(ToolRegistry(registry.connections, obey_declarations=False).tools()) == 7


async def test_a_disabled_server_is_not_there() -> None:
    async with over(stdio("honest", disabled=True)) as registry:
        assert registry.connections == {}


async def test_poisoned_definitions_are_left_out_and_listed_with_the_reason() -> None:
    async with over(stdio("poisoned")) as registry:
        names = {named.tool.name for named in registry.tools()}
        assert names == {"fine", "files/read it", "long", "ref", "loop"}
        reasons = registry.refused()
        assert len(reasons) == 4
        assert any("not plain ASCII" in why for why in reasons.values())
        assert all(len(why) < 200 and why.isascii() for why in reasons.values())
        odd = next(named.name for named in registry.tools() if named.tool.name == "files/read it")
        assert odd.startswith("poisoned__files_read_it_")


async def test_a_tool_that_is_described_otherwise_later_is_noticed_until_somebody_accepts_it() -> None:
    async with over(stdio("changes")) as registry:
        assert registry.changes() == [ListingChange("changes", added=("change", "get", "gone"))]
        assert registry.changes() == []
        await said(registry, "changes__change")
        await until(lambda: len(registry.tools()) == 3 and "new" in {named.tool.name for named in registry.tools()})

        assert registry.changes() == [ListingChange("changes", added=("new",), removed=("gone",), redefined=("get",))]
        assert registry.changes() == []
        get = registry.resolve("changes__get")
        assert registry.is_redefined(get)
        with pytest.raises(ToolNotFound):
            registry.resolve("changes__gone")
        remembered = ToolRegistry(registry.connections, first_seen=registry.first_seen)
        assert remembered.is_redefined(get), "also after a restart"
        registry.accept(get)
        assert not registry.is_redefined(get)


async def test_a_strict_registry_withholds_a_tool_that_changed_until_it_is_accepted() -> None:
    async with over(stdio("changes"), strict=True) as registry:
        get = registry.resolve("changes__get")
        await said(registry, "changes__change")
        await until(lambda: "new" in {named.tool.name for named in registry.tools()})

        assert {named.tool.name for named in registry.tools()} == {"change", "new"}
        with pytest.raises(ToolForbidden, match="withheld until the change is accepted"):
            await registry.call(get, {})
        registry.accept(next(tool for tool in registry.connections["changes"].tools if tool.name == "get"))
        assert await said(registry, "changes__get") == "got"


async def test_a_single_server_keeps_its_names_if_asked_to_and_two_do_not() -> None:
    async with over(stdio("honest"), keep_names=True) as registry:
        assert await said(registry, "echo", text="x") == "x"
        assert registry.tools()[0].name == "echo"
    async with over(stdio("honest"), stdio("hangs"), keep_names=True) as registry:
        assert registry.tools()[0].name == "honest__echo"


async def test_tools_stay_listed_while_their_server_is_restarted(tmp_path: Path) -> None:
    async with over(stdio("dies", str(tmp_path / "calls"))) as registry:
        before = [named.name for named in registry.tools()]
        assert await said(registry, "dies__die_once_harmlessly") == "alive"
        assert [named.name for named in registry.tools()] == before
        assert registry.statuses()[0].restarts == 1
