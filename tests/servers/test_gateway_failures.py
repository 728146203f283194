"""Clients that disconnect and servers that fail behind the gateway."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from fastmcp import Client
from starlette.responses import JSONResponse

from tersely.servers.gateway.streams import MOST_BYTES, MOST_EVENTS, ResumableStreams
from tests.fakes.gateways import ERAS, at, gateway, post, text_of
from tests.fakes.mcp_servers.web import Honest, Rude
from tests.servers.chatty import SECRET, Chatty


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_hangs_up_cancels_its_call_at_the_server(era: Any) -> None:
    """F34: in both eras."""
    server = Honest()
    async with server.listening() as url, gateway(at(url)) as ours:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                async with Client(ours.url, mode=era) as client:
                    await client.call_tool_mcp("hang", {})

            tasks.start_soon(call)
            with anyio.fail_after(300):
                while not ours.waiting:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(300):
            while not server.cancelled:
                await anyio.sleep(0.01)


async def test_a_database_that_cannot_be_opened_costs_the_handle_and_not_the_result() -> None:
    file = Path(os.environ["TERSELY_DATA_DIR"]) / "tersely.db"
    async with Chatty().listening() as url, gateway(at(url), opened=False) as ours, Client(ours.url) as client:
        assert text_of(await client.call_tool_mcp("echo", {"text": "small"})) == "small" and not file.exists()
        file.write_bytes(b"not a database, and longer than its header")
        without = await client.call_tool_mcp("logs", {})
        assert "The whole could not be kept" in text_of(without) and "card declined" in text_of(without)
        refused = await client.call_tool_mcp("read_result", {"handle": "r_0000000000000000"})
        assert refused.is_error and "is not an SQLite database" in text_of(refused)
        file.unlink()
        kept = await client.call_tool_mcp("logs", {})
        read = await client.call_tool_mcp("read_result", {"handle": (kept.meta or {})["tersely/handle"]})
        assert not read.is_error and "request 1 served" in text_of(read)


async def greeted(client: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """The headers of a new session of the older protocol."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
    session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
    return session


async def test_an_older_client_resumes_a_stream_that_broke_and_nobody_else_can() -> None:
    server = Honest()
    may_answer = anyio.Event()

    @server.server.tool
    async def slow() -> str:
        await may_answer.wait()
        return "worth the wait"

    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "slow", "arguments": {}}}
    headers = {"accept": "application/json, text/event-stream"}
    async with (
        server.listening() as url,
        gateway(at(url)) as ours,
        httpx2.AsyncClient(headers=headers, timeout=300) as client,
    ):
        ours.gateway.streams.return_seconds = 300
        session, stranger = await greeted(client, ours.url), await greeted(client, ours.url)
        async with client.stream("POST", ours.url, json=call, headers=session) as broken:
            first = await anext(aiter(httpx2.EventSource(broken)))
            assert first.id and not first.data and first.retry
            with anyio.fail_after(300):
                while not ours.waiting:
                    await anyio.sleep(0.01)
        resume = {"last-event-id": first.id}
        async with client.stream("GET", ours.url, headers=stranger | resume) as other:
            assert [event.data async for event in httpx2.EventSource(other)] == []
        async with client.stream("GET", ours.url, headers=session | resume) as resumed:
            may_answer.set()
            async for event in httpx2.EventSource(resumed):
                if event.data:
                    break
        assert json.loads(event.data)["result"]["content"][0]["text"] == "worth the wait"
        assert not server.cancelled


def test_what_is_held_for_clients_that_may_return_is_bounded() -> None:
    streams = ResumableStreams()
    for number in range(2 * MOST_EVENTS):
        last = streams.hold("a", str(number), None)
    assert len(streams._events["a"]) == MOST_EVENTS and streams.after("a", "1") is None and streams.after("a", last)
    for number in range(40):
        result = {"content": [{"type": "text", "text": "x" * 2**20}]}
        streams.hold("b", str(number), types.JSONRPCResponse(jsonrpc="2.0", id=number, result=result))
    assert streams._size <= MOST_BYTES and len(streams._order) <= MOST_EVENTS + 40
    for session in "ab":
        streams.forget(session)
    assert streams._size == 0 and not streams._events


async def test_an_older_client_that_only_closes_its_connection_cancels_too() -> None:
    """It neither says that it cancels nor ends its session, as when it is killed."""
    server = Honest()
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
    headers = {"accept": "application/json, text/event-stream"}
    async with (
        server.listening() as url,
        gateway(at(url)) as ours,
        httpx2.AsyncClient(headers=headers, timeout=300) as client,
    ):
        ours.gateway.streams.return_seconds = 0.1
        session = await greeted(client, ours.url)
        async with client.stream("POST", ours.url, json=call, headers=session):
            with anyio.fail_after(300):
                while not ours.waiting:
                    await anyio.sleep(0.01)
        with anyio.fail_after(300):
            while not server.cancelled:
                await anyio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
async def test_a_hundred_clients_that_hang_up_leave_nothing_behind(protocol: str) -> None:
    """F34: closed at random moments, raw, as a killed client would."""
    server = Honest()
    async with server.listening() as url, gateway(at(url), stateless=True) as ours:
        meta = {"io.modelcontextprotocol/protocolVersion": protocol, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": "hang", "arguments": {}, **({"_meta": meta} if protocol.startswith("2026") else {})}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": protocol}
        headers |= {"mcp-method": "tools/call", "mcp-name": "hang"} if protocol.startswith("2026") else {}
        pool = await ours.gateway.upstreams.pool(is_modern=protocol.startswith("2026"))
        await pool.known(300)
        async with httpx2.AsyncClient() as client, anyio.create_task_group() as tasks:

            async def hang_up(after: float) -> None:
                with anyio.CancelScope() as connected:
                    tasks.start_soon(cut, connected, after)
                    await client.post(ours.url, json=call, headers=headers)

            async def cut(connected: anyio.CancelScope, after: float) -> None:
                while not ours.waiting and not server.cancelled:
                    await anyio.sleep(0.01)
                await anyio.sleep(after)
                connected.cancel()

            for number in range(100):
                tasks.start_soon(hang_up, number * 0.005)
        with anyio.fail_after(300):
            while ours.waiting or not server.cancelled:
                await anyio.sleep(0.01)
        async with Client(ours.url) as after:
            assert text_of(await after.call_tool_mcp("echo", {"text": "fine"})) == "fine"


async def test_a_protocol_error_of_the_server_keeps_its_code_and_words() -> None:
    def refuse(message: Any, request: Any) -> Any:
        return JSONResponse(
            {
                "jsonrpc": "2.0",
                "id": message["id"],
                "error": {"code": -32042, "message": f"no: {SECRET}", "data": {"k": [1]}},
            }
        )

    async with Rude(refuse).listening() as url, gateway(at(url)) as ours:
        error = (await post(ours.url, "tools/call", {"name": "call", "arguments": {}}))["error"]
    assert (
        error["code"] == -32042 and error["message"].startswith("no: password=[MASKED:") and error["data"] == {"k": [1]}
    )


async def test_a_tool_nobody_knows_is_an_error_that_says_what_there_is() -> None:
    """A single server, or the one that the prefix names, answers for itself."""
    async with Honest().listening() as url, gateway(at(url, "a"), at(url, "b")) as ours:
        error = (await post(ours.url, "tools/call", {"name": "ecko", "arguments": {}}))["error"]
    assert error["code"] == -32602 and "Did you mean 'b__echo'?" in error["message"]
