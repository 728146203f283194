"""The listener and the serve loop that `serve`, `gateway --http` and `up` share."""

import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tersely.http.listen import build_server, handled_signals, listen, serve_http


def application(events: list[str]) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        events.append("started")
        yield
        events.append("closed")

    async def scheme(request: Request) -> Response:
        return JSONResponse({"scheme": request.url.scheme})

    return Starlette(routes=[Route("/", scheme)], lifespan=lifespan)


@asynccontextmanager
async def served(app: Starlette, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[str]:
    """The address of an application under `serve_http`; the caller ends it with a signal."""
    sending, receiving = anyio.create_memory_object_stream[str](1)

    async def run() -> None:
        await serve_http(app, host=host, port=0, on_ready=sending.send_nowait, **options)

    with anyio.fail_after(30), sending, receiving:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield await receiving.receive()


async def get(address: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False) as client:
        return await client.get(address, headers=headers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_server_and_closes_what_is_around_it(number: signal.Signals) -> None:
    events: list[str] = []

    async def on_stop() -> None:
        events.append(f"stopping, answers {(await get(address)).status_code}")

    async with served(application(events), on_stop=on_stop) as address:
        assert (await get(address)).status_code == 200
        os.kill(os.getpid(), number)
    assert events == ["started", "stopping, answers 200", "closed"]
    with pytest.raises(httpx2.ConnectError):
        await get(address)


async def test_a_second_signal_ends_at_once_even_when_stopping_hangs() -> None:
    events: list[str] = []
    stopping = anyio.Event()

    async def on_stop() -> None:
        stopping.set()
        await anyio.sleep_forever()

    async with served(application(events), on_stop=on_stop):
        os.kill(os.getpid(), signal.SIGTERM)
        await stopping.wait()
        os.kill(os.getpid(), signal.SIGTERM)


async def test_listeners_to_streams_do_not_delay_the_end_and_requests_in_flight_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 25 event streams, 25 WebSockets and a request; without waiting for the grace of the latter."""
    monkeypatch.setattr("tersely.http.listen.GRACE_SECONDS", 600)
    listening, ended = 0, anyio.Event()

    async def stream(request: Request) -> Response:
        async def events() -> AsyncIterator[str]:
            nonlocal listening
            listening += 1
            yield ": welcome\n\n"
            await anyio.sleep_forever()

        return StreamingResponse(events(), media_type="text/event-stream")

    async def follow(websocket: WebSocket) -> None:
        nonlocal listening
        await websocket.accept()
        listening += 1
        with suppress(WebSocketDisconnect):
            await websocket.receive_text()

    async def slow(request: Request) -> Response:
        nonlocal listening
        listening += 1
        await ended.wait()
        return JSONResponse({"whole": True})

    async def listen_to(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            async with client.stream("GET", f"{address}/events", headers={"Accept": "text/event-stream"}) as response:
                received = [line async for line in response.aiter_lines()]
        assert received[0] == ": welcome"
        ends.append("stream")

    async def watch(address: str) -> None:
        async with connect(f"{address.replace('http', 'ws')}/ws", proxy=None) as socket:
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        ends.append("viewer")

    async def ask(address: str) -> None:
        async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.post(f"{address}/slow")).json() == {"whole": True}
        ends.append("request")

    ends: list[str] = []
    routes = [Route("/events", stream), WebSocketRoute("/ws", follow), Route("/slow", slow, methods=["POST"])]
    async with served(Starlette(routes=routes)) as address:
        async with anyio.create_task_group() as clients:
            for _ in range(25):
                clients.start_soon(listen_to, address)
                clients.start_soon(watch, address)
            clients.start_soon(ask, address)
            while listening < 51:
                await anyio.sleep(0.01)
            os.kill(os.getpid(), signal.SIGTERM)
            while len(ends) < 50:
                await anyio.sleep(0.01)
            assert "request" not in ends
            ended.set()
    assert sorted(ends) == ["request", *["stream"] * 25, *["viewer"] * 25]


def test_clients_and_proxies_close_silent_connections_first() -> None:
    """Otherwise a request may meet the server closing: nginx keeps its connections for 60 s, httpx for 5."""
    assert build_server(application([])).config.timeout_keep_alive > 60


async def test_forwarded_headers_count_only_where_they_are_trusted() -> None:
    for trusted, scheme in ((False, "http"), (True, "https")):
        async with served(application([]), trust_proxy_headers=trusted) as address:
            answer = await get(address, **{"X-Forwarded-Proto": "https"})
            os.kill(os.getpid(), signal.SIGTERM)
        assert answer.json() == {"scheme": scheme}
        assert "server" not in answer.headers


def test_an_address_in_use_is_an_os_error() -> None:
    with listen("127.0.0.1", 0) as first, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", first.getsockname()[1])


@pytest.mark.parametrize("host", ["::1", "[::1]"])
async def test_an_ipv6_address_is_shown_in_brackets(host: str) -> None:
    try:
        listen("::1", 0).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    async with served(application([]), host=host) as address:
        assert address.startswith("http://[::1]:")
        assert (await get(address)).status_code == 200
        os.kill(os.getpid(), signal.SIGTERM)


async def test_signals_arrive_also_where_the_event_loop_takes_no_handlers() -> None:
    """As on Windows."""
    before = signal.getsignal(signal.SIGINT)
    with handled_signals(signal.SIGINT) as signals, anyio.fail_after(60):
        os.kill(os.getpid(), signal.SIGINT)
        assert await anext(signals) == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before


async def test_a_small_answer_leaves_at_once_and_in_one_piece() -> None:
    async with served(application([])) as address:
        where = httpx2.URL(address)
        async with await anyio.connect_tcp(where.host, where.port or 0) as client:
            for _ in range(3):
                await client.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await client.receive()).endswith(b'{"scheme":"http"}'), "headers and body come together"
        os.kill(os.getpid(), signal.SIGTERM)


async def test_answers_are_not_held_back_by_nagles_algorithm() -> None:
    """asyncio turns it off on accepted connections, but only if the listener names its protocol."""
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP
