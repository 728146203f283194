"""Streams that clients of 2025-11-25 can resume: the events that a client may have missed, for a short time in memory.

Each event has a number that the client names when it returns. Numbers are looked up
in the client's own session only. What is held is bounded per session and in total;
a client that returns too late for an answer makes its call again.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import (
    CONTENT_TYPE_SSE,
    MCP_SESSION_ID_HEADER,
    REQUEST_STREAM_BUFFER_SIZE,
    EventCallback,
    EventMessage,
    EventStore,
    StreamableHTTPServerTransport,
    check_accept_headers,
)
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from tersely.mcp.connect.wire import parse

RETRY_MILLISECONDS = 500
"""After which time clients are told to return."""

RETURN_SECONDS = 5.0
"""How long a call goes on without its client; then it is cancelled at the server."""

MOST_EVENTS = 256
"""Events held per session."""

MOST_BYTES = 32 * 2**20
"""Estimated size of all events held, of all sessions."""

LARGEST_EVENT = 8 * 2**20
_OVERHEAD = 2_000

QUICK_SECONDS = 0.1
"""How long the answer to a request is waited for before a stream of events is opened for it."""


class Departure:
    """Whether the client of a request has disconnected."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._callback: Callable[[], None] | None = None

    def set(self) -> None:
        self._event.set()
        if self._callback is not None:
            self._callback()

    async def wait(self) -> None:
        await self._event.wait()

    def call(self, callback: Callable[[], None] | None) -> None:
        """Call this when the client disconnects; at once if it has."""
        self._callback = callback
        if callback is not None and self._event.is_set():
            callback()


connection_gone: ContextVar[Departure | None] = ContextVar("connection_gone", default=None)
"""Of the client of the current HTTP request."""


@dataclass(eq=False)
class _Held:
    session: str
    stream: str
    number: int
    message: types.JSONRPCMessage | None
    size: int


@dataclass(eq=False)
class ResumableStreams:
    """The events of all sessions, and which streams were resumed."""

    return_seconds: float = RETURN_SECONDS
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _events: dict[str, deque[_Held]] = field(default_factory=dict)
    _order: deque[_Held] = field(default_factory=deque)
    _size: int = 0
    _resumed: dict[tuple[str, str], Departure] = field(default_factory=dict)
    _waiting: dict[tuple[str, str], anyio.Event] = field(default_factory=dict)

    def of(self, session: str) -> EventStore:
        return _SessionEvents(self, session)

    def hold(self, session: str, stream: str, message: types.JSONRPCMessage | None) -> str:
        size = _size(message)
        event = _Held(session, stream, next(self._numbers), message if size <= LARGEST_EVENT else None, _OVERHEAD)
        event.size = size if event.message is not None else _OVERHEAD
        events = self._events.setdefault(session, deque())
        events.append(event)
        self._order.append(event)
        self._size += event.size
        if len(events) > MOST_EVENTS:
            self._drop(events.popleft())
        while self._size > MOST_BYTES and self._order:
            oldest = self._order.popleft()
            if oldest.size:
                self._events[oldest.session].popleft()
                self._drop(oldest)
        while self._order and not self._order[0].size:
            self._order.popleft()
        return str(event.number)

    def _drop(self, event: _Held) -> None:
        """Free an event that is no longer in its session."""
        self._size -= event.size
        event.message, event.size = None, 0

    def after(self, session: str, number: str) -> tuple[str, list[_Held]] | None:
        """The stream of an event, and the later events of the stream; None if the event is not held."""
        events = self._events.get(session, ())
        found = next((one for one in events if str(one.number) == number), None)
        if found is None:
            return None
        self._resumed[session, found.stream] = connection_gone.get() or Departure()
        if (waiting := self._waiting.pop((session, found.stream), None)) is not None:
            waiting.set()
        return found.stream, [one for one in events if one.stream == found.stream and one.number > found.number]

    async def returned(self, session: str, stream: str) -> Departure | None:
        """Wait until the client resumes a stream that broke; returns its next disconnect.

        Returns None if the client does not return in time.
        """
        key = (session, stream)
        if key not in self._resumed:
            waiting = self._waiting.setdefault(key, anyio.Event())
            with anyio.move_on_after(self.return_seconds):
                await waiting.wait()
            self._waiting.pop(key, None)
        return self._resumed.pop(key, None)

    def forget(self, session: str) -> None:
        for event in self._events.pop(session, ()):
            self._drop(event)
        for key in [key for key in self._resumed if key[0] == session]:
            del self._resumed[key]


@dataclass(frozen=True)
class _SessionEvents(EventStore):
    streams: ResumableStreams
    session: str

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        return self.streams.hold(self.session, stream_id, message)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if (found := self.streams.after(self.session, last_event_id)) is None:
            return None
        stream, events = found
        for event in events:
            if event.message is not None:
                await send_callback(EventMessage(event.message, str(event.number)))
        return stream


class QuickAnswers(StreamableHTTPServerTransport):
    """The library's transport of a session, which opens a stream of events only for a call that takes time.

    A stream takes several tasks, and the client has to parse it. A call that is answered at once, and without a message
    before the answer, gets a plain response; there is nothing to resume then.
    """

    async def _handle_post_request(self, scope: Scope, request: Request, receive: Receive, send: Send) -> None:
        message = parse(await request.body()) if all(check_accept_headers(request)) else None
        if (
            not isinstance(message, types.JSONRPCRequest)
            or message.method != "tools/call"
            or not self._check_content_type(request)
        ):
            # What is wrong with it, or different, is the library's; it gets the same body.
            await super()._handle_post_request(scope, request, receive, send)
        elif await self._validate_request_headers(request, send):
            await self._answer(message, scope, request, receive, send)

    async def _answer(
        self, message: types.JSONRPCRequest, scope: Scope, request: Request, receive: Receive, send: Send
    ) -> None:
        assert self._read_stream_writer is not None, "connect() surrounds every request"
        protocol = request.headers.get(MCP_PROTOCOL_VERSION_HEADER, types.DEFAULT_NEGOTIATED_VERSION)
        name = str(message.id)
        priming = await self._mint_priming_event(name, protocol)
        streams = anyio.create_memory_object_stream[EventMessage](REQUEST_STREAM_BUFFER_SIZE)
        self._request_streams[name] = streams
        first: EventMessage | None = None
        try:
            await self._read_stream_writer.send(self._create_session_message(message, request, name, protocol))
            with anyio.move_on_after(QUICK_SECONDS), suppress(anyio.EndOfStream, anyio.ClosedResourceError):
                first = await streams[1].receive()
            if first is not None and isinstance(first.message, types.JSONRPCResponse | types.JSONRPCError):
                await self._create_json_response(first.message)(scope, receive, send)
                return
            events, shown = anyio.create_memory_object_stream[Any](0)
            if name in self._request_streams:
                self._sse_stream_writers[name] = events

            async def write() -> None:
                if priming is not None:
                    await events.send(priming)
                if first is not None:
                    await events.send(self._create_event_data(first))
                await self._run_sse_writer(name, events, streams[1], None)

            headers = {
                "Cache-Control": "no-cache, no-transform",
                "Connection": "keep-alive",
                "Content-Type": CONTENT_TYPE_SSE,
                **({MCP_SESSION_ID_HEADER: self.mcp_session_id} if self.mcp_session_id else {}),
            }
            async with shown:
                await EventSourceResponse(content=shown, data_sender_callable=write, headers=headers)(
                    scope, receive, send
                )
        finally:
            if self._request_streams.get(name) is streams:
                await self._clean_up_memory_streams(name)


class ResumableSessions(StreamableHTTPSessionManager):
    """The library's sessions, each with its own events: the library would mix those of all sessions."""

    def __init__(self, app: Server[Any], *, streams: ResumableStreams, **options: Any) -> None:
        super().__init__(app, retry_interval=RETRY_MILLISECONDS, **options)
        self._streams = streams

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor)
        if transport is None or (session := transport.mcp_session_id) is None:
            return None
        quick = QuickAnswers(
            mcp_session_id=session,
            event_store=self._streams.of(session),
            security_settings=self.security_settings,
            retry_interval=self.retry_interval,
            idle_timeout=self.session_idle_timeout,
        )
        self._server_instances[session] = quick
        return quick

    async def _discard_session(self, session_id: str, transport: StreamableHTTPServerTransport) -> None:
        self._streams.forget(session_id)
        await super()._discard_session(session_id, transport)


def _size(message: types.JSONRPCMessage | None) -> int:
    """The approximate size of a message, without serializing it."""
    result = getattr(message, "result", None)
    if not isinstance(result, dict):
        return _OVERHEAD
    content = result.get("content")
    texts = (
        [value for part in content if isinstance(part, dict) for value in part.values()]
        if isinstance(content, list)
        else []
    )
    size = sum(len(value) for value in texts if isinstance(value, str))
    return _OVERHEAD + size * (2 if "structuredContent" in result else 1)
