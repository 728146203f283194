"""Calls over every transport, in both protocol eras, to real servers."""

import base64
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from fastmcp.server.dependencies import get_http_request

from tersely.errors import ToolError, ToolRejected, ToolTimedOut
from tersely.mcp.connect.supervisor import connected
from tests.fakes.mcp_servers.web import Honest
from tests.mcp.connections import (
    ERAS,
    call,
    every_way,
    one,
    said,
    stdio,
    tool,
    web,
)

# Both eras, every transport


@pytest.mark.parametrize(("way", "era"), [(way, era) for way in ("stdio", "http", "sse") for era in ERAS])
async def test_a_tool_is_called_over_every_transport_in_both_eras(way: str, era: str) -> None:
    async with every_way(way, era) as server, one(server) as connection:
        result = await call(connection, "echo", text="hällo\n\0 wörld")

        assert result.texts == ("hällo\n\0 wörld",)
        assert not result.is_error
        status = connection.status()
        assert (status.state, status.protocol, status.last_error) == ("ready", era, "")
        assert status.tools == len(connection.tools) > 3
        assert status.latency_ms and status.latency_ms > 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_connection_is_used_again_after_an_answer_in_an_event_stream(era: str) -> None:
    """The SDK reads no further than the answer, and a stream that is not read to its end costs its connection."""
    server = Honest()
    ports = set()

    @server.server.tool
    def port() -> str:
        client = get_http_request().client
        return str(client.port if client else "")

    async with server.listening() as url, one(web(url, protocol=era)) as connection:
        for _ in range(6):
            ports.add(await said(connection, "port"))
            await anyio.sleep(0.05)
    assert len(ports) <= 3


@pytest.mark.parametrize("way", ["stdio", "http", "sse"])
async def test_the_newest_protocol_both_sides_know_is_found_without_being_told(way: str) -> None:
    async with every_way(way, "auto") as server, one(server) as connection:
        assert connection.status().protocol == {"stdio": ERAS[0], "http": ERAS[1], "sse": ERAS[1]}[way]
        assert await said(connection, "echo", text="x") == "x"


@pytest.mark.process
async def test_a_server_on_the_official_library_is_spoken_to_over_stdio_in_both_eras() -> None:
    with anyio.fail_after(300):
        async with connected(
            [stdio("fast", name="auto"), stdio("fast", name="old", protocol=ERAS[0])], wait=40
        ) as connections:
            assert [connections[name].status().protocol for name in ("auto", "old")] == [ERAS[1], ERAS[0]]
            for connection in connections.values():
                assert await said(connection, "echo", text="x") == "x"
                assert (await call(connection, "add", a=1, b=2)).structured == {"sum": 3}
                with pytest.raises(ToolTimedOut):
                    await call(connection, "hang", timeout=0.1)
                assert connection.status().server_info["name"] == "honest"


@pytest.mark.parametrize(("way", "era"), [("stdio", ERAS[0]), ("stdio", ERAS[1]), ("http", ERAS[0]), ("http", ERAS[1])])
async def test_each_call_gets_its_own_progress_and_only_that(way: str, era: str) -> None:
    seen: dict[str, list[str | None]] = {label: [] for label in "abcd"}

    async with every_way(way, era) as server, one(server) as connection:
        async with anyio.create_task_group() as tasks:
            for label in seen:

                async def listen(progress: float, total: float | None, message: str | None, label: str = label) -> None:
                    seen[label].append(message)

                async def ask(label: str, listen: Any) -> None:
                    await call(connection, "steps", label=label, on_progress=listen)

                tasks.start_soon(ask, label, listen)

    assert seen == {label: [f"{label}1", f"{label}2", f"{label}3"] for label in "abcd"}


async def test_pictures_structured_content_and_failures_arrive_as_what_they_are() -> None:
    async with Honest().listening() as url, one(web(url)) as connection:
        picture = await call(connection, "picture")
        added = await call(connection, "add", a=1, b=2)
        failed = await call(connection, "fail")
        echoed = await call(connection, "echo", text="x")

        assert [part.kind for part in picture.parts] == ["text", "image"]
        assert picture.parts[1].mime_type == "image/png"
        assert base64.b64decode(picture.parts[1].data).startswith(b"\x89PNG")
        assert added.structured == {"sum": 3}
        assert tool(connection, "add").output_schema
        assert failed.is_error and "broken" in failed.texts[0]
        assert tool(connection, "echo").read_only and not tool(connection, "add").read_only
        assert echoed.structured == {"result": "x"}, "as the server sent it, text repeated"


async def test_arguments_that_are_not_json_are_refused_before_anything_is_sent() -> None:
    async with Honest().listening() as url, one(web(url)) as connection:
        for wrong in (float("nan"), "\ud800", object()):
            with pytest.raises(ToolError, match="arguments are not valid JSON"):
                await call(connection, "echo", text=wrong)


async def test_a_request_of_any_kind_can_be_passed_on_and_a_refusal_keeps_its_code() -> None:
    async with Honest().listening() as url, one(web(url)) as connection:
        assert (await connection.request("prompts/list"))["prompts"] == []
        with pytest.raises(ToolRejected) as refused:
            await connection.request("resources/read", {"uri": "nothing://there"})
        assert refused.value.code < 0


# Asks


@pytest.mark.process
async def test_requests_of_a_server_are_answered_by_the_handler_and_refused_without_one() -> None:
    async def answer(server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert (server, method, params["message"]) == ("asks", "elicitation/create", "Sure?")
        return {"action": "accept", "content": {}}

    async def refuse(server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise ToolRejected("not now", code=-1)

    for listener, expected, abilities in (
        (answer, '{"action": "accept", "content": {}}', "elicitation roots sampling"),
        (refuse, "-1", "elicitation roots sampling"),
        (None, "-32600", ""),
    ):
        async with one(stdio("asks", protocol=ERAS[0]), on_request=listener) as connection:
            assert await said(connection, "ask") == expected
            assert "".join((await call(connection, "may_i")).texts) == abilities
