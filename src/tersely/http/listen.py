"""One listener and one serve loop for every HTTP entry point.

Serves until SIGINT or SIGTERM, lets requests in flight finish, and returns, so
that everything around it is closed in order. A second signal ends it at once.
"""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import anyio.abc
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

GRACE_SECONDS = 5
"""How long requests in flight may take to finish after a signal; clients retry elsewhere."""

HEADER_SECONDS = 30
"""How long a client may take to send a request's headers; half-sent ones would use up the sockets."""

KEEP_ALIVE_SECONDS = 75
"""How long a silent connection stays open. Longer than clients and proxies keep theirs (up to a minute), so that these
close first: a request that is sent while the server closes is lost, and only some of them may be sent again.
"""

MAX_WEBSOCKET_MESSAGE_BYTES = 64 * 1024
"""Largest WebSocket message accepted from a client."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on `host`, an address with or without brackets or a name; port 0 picks a free one.

    Raises:
        OSError: The address is in use or does not belong to this machine.
    """
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol, because only then asyncio turns off Nagle's algorithm, which delays an answer by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # Connections queue from here on, so the address can be published at once.
    except OSError:
        listener.close()
        raise
    return listener


def build_server(
    app: ASGIApp, *, lifespan: bool = True, trust_proxy_headers: bool = False, websockets: bool = True
) -> uvicorn.Server:
    """The uvicorn server for an application, without signal handling.

    Args:
        websockets: Whether the application has any.
        lifespan: Whether the application has ASGI lifespan events.
        trust_proxy_headers: Take scheme and client address from `X-Forwarded-*` sent by a proxy on this machine (or in
            uvicorn's FORWARDED_ALLOW_IPS). Off where the client address decides who is asking.
    """
    config = uvicorn.Config(
        app,
        http=_Protocol,
        log_config=None,  # Events are logged where they happen.
        access_log=False,
        lifespan="on" if lifespan else "off",
        proxy_headers=trust_proxy_headers,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        ws="auto" if websockets else "none",
        ws_max_size=MAX_WEBSOCKET_MESSAGE_BYTES,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        # Compressing the same event for every viewer costs more than it saves.
        ws_per_message_deflate=False,
    )
    return _Server(config)


class _JoinedWrites:
    """A transport that writes at once what is written in one turn of the event loop.

    uvicorn writes the headers of a response and its body one after the other. Each write is a system call that wakes
    the client, and for small responses these take more time than anything else.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self.inner = transport
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not data:
            return
        if not self._held:
            asyncio.get_running_loop().call_soon(self.flush)
        self._held.append(data)
        if len(data) > _LARGE_WRITE:
            self.flush()

    def flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self.inner.write(held[0] if len(held) == 1 else b"".join(held))

    def close(self) -> None:
        self.flush()
        self.inner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


_LARGE_WRITE = 64 * 1024
"""Bytes that are written without waiting for more."""


class _Protocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
    """uvicorn's protocol, whose responses leave in one piece, and which does not wait for headers forever.

    uvicorn waits for them as long as they take: of a connection's first request, and of each further one.
    """

    transport: Any
    _timer: asyncio.TimerHandle | None = None
    _after: object = None
    """The request before the headers that the timer is about."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(_JoinedWrites(transport))
        self._expect_headers()

    def handle_websocket_upgrade(self, *event: Any) -> None:
        self.transport.flush()
        self.transport = self.transport.inner
        super().handle_websocket_upgrade(*event)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # After half of the headers, the last request is still the one before. uvicorn closes silent connections.
        if self.cycle is not None and self.cycle.response_complete and self._after is not self.cycle:
            self._expect_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._after = self.cycle
        self._timer = asyncio.get_running_loop().call_later(HEADER_SECONDS, self._close_if_still_waiting)

    def _close_if_still_waiting(self) -> None:
        # A WebSocket has another protocol by then.
        if self.cycle is self._after and self.transport.get_protocol() is self:
            self.transport.close()


class _Server(uvicorn.Server):
    """uvicorn raises a captured signal again when it ends; then nothing around it would be closed in order."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _EndingStreams:
    """Ends event streams that a client only listens to when the server stops; they would last for the whole grace."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.stopping = anyio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _accepts_events(scope):
            await self._app(scope, receive, send)
            return
        is_open = False

        async def noting(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or bool(message.get("more_body"))
            await send(message)

        async with anyio.create_task_group() as tasks:

            async def end_when_stopping() -> None:
                await self.stopping.wait()
                tasks.cancel_scope.cancel()

            tasks.start_soon(end_when_stopping)
            await self._app(scope, receive, noting)
            tasks.cancel_scope.cancel()
        if is_open and self.stopping.is_set():
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _accepts_events(scope: Scope) -> bool:
    return any(name == b"accept" and b"text/event-stream" in value for name, value in scope["headers"])


async def serve_http(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    on_stop: Callable[[], Awaitable[None]] | None = None,
    lifespan: bool = True,
    trust_proxy_headers: bool = False,
    websockets: bool = True,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends at once.

    Args:
        on_ready: Called with the address, which has the actual port where 0 was requested.
        on_stop: Awaited after the signal and before the listener closes, while requests are still answered.
        lifespan: See `build_server`.
        trust_proxy_headers: See `build_server`.
        websockets: See `build_server`.

    Raises:
        OSError: The address is in use or does not belong to this machine.
    """
    listener = listen(host, port)
    streams = _EndingStreams(app)
    server = build_server(streams, lifespan=lifespan, trust_proxy_headers=trust_proxy_headers, websockets=websockets)
    stopping = anyio.Event()

    async def stop() -> None:
        if on_stop:
            await on_stop()
        streams.stopping.set()
        server.should_exit = True

    async def stop_on_signal(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        with stop_signals() as signals:
            task_status.started()
            async for _ in signals:
                if stopping.is_set():
                    server.force_exit = server.should_exit = True
                    return
                stopping.set()
                tasks.start_soon(stop)

    async with anyio.create_task_group() as tasks:
        await tasks.start(stop_on_signal)
        on_ready(_address(host, listener.getsockname()[1]))
        await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


@contextmanager
def stop_signals() -> Iterator[AsyncIterator[object]]:
    """The signals that ask a process to stop: SIGINT and SIGTERM, on Windows Ctrl-C and Ctrl-Break."""
    if sys.platform == "win32":
        # Its event loops take no signal handlers.
        with handled_signals(signal.SIGINT, signal.SIGBREAK) as signals:
            yield signals
    else:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            yield signals


@contextmanager
def handled_signals(*numbers: signal.Signals) -> Iterator[AsyncIterator[object]]:
    """Signals by way of the interpreter's own handlers, which every system has."""
    loop = asyncio.get_running_loop()
    send, receive = anyio.create_memory_object_stream[int](8)

    def pass_on(number: int, _: object) -> None:
        def deliver() -> None:
            with suppress(anyio.WouldBlock, anyio.BrokenResourceError):
                send.send_nowait(number)

        loop.call_soon_threadsafe(deliver)

    previous = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        with send, receive:
            yield receive
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _address(host: str, port: int) -> str:
    host = host.strip("[]")
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
