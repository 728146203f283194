"""Streams that clients of 2025-11-25 can resume: the events that a client may have missed, for a short time in memory.

Each event has a number that the client names when it returns. Numbers are looked up
in the client's own session only. What is held is bounded per session and in total;
a client that returns too late for an answer makes its call again.
"""

import itertools
from collections import deque
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.auth.middleware.bearer_auth import AuthorizationContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

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

connection_gone: ContextVar[anyio.Event | None] = ContextVar("connection_gone", default=None)
"""Set when the client of the current HTTP request disconnects."""


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
    _resumed: dict[tuple[str, str], anyio.Event] = field(default_factory=dict)
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
        self._resumed[session, found.stream] = connection_gone.get() or anyio.Event()
        if (waiting := self._waiting.pop((session, found.stream), None)) is not None:
            waiting.set()
        return found.stream, [one for one in events if one.stream == found.stream and one.number > found.number]

    async def returned(self, session: str, stream: str) -> anyio.Event | None:
        """Wait until the client resumes a stream that broke; returns the event of its next disconnect.

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


class ResumableSessions(StreamableHTTPSessionManager):
    """The library's sessions, each with its own events: the library would mix those of all sessions."""

    def __init__(self, app: Server[Any], *, streams: ResumableStreams, **options: Any) -> None:
        super().__init__(app, retry_interval=RETRY_MILLISECONDS, **options)
        self._streams = streams

    def _admit_session(self, requestor: AuthorizationContext | None) -> StreamableHTTPServerTransport | None:
        transport = super()._admit_session(requestor)
        if transport is not None and transport.mcp_session_id is not None:
            transport._event_store = self._streams.of(transport.mcp_session_id)
        return transport

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
