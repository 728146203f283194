"""Messages between a transport and the session: lenient parsing, size limits and a rate limit.

A failure below the protocol (no connection, a response over the limit, a line that
is not JSON) is reported to the one request it concerns, as a protocol error that
carries a `TransportProblem`. A random key marks it, so that no server can forge one.
"""

import json
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import anyio
import mcp_types as types
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage

ProblemKind = Literal["not_sent", "broken", "too_large", "http", "session_gone", "malformed", "login"]

Inbound = SessionMessage | Exception

_SEAL = f"tersely-{secrets.token_hex(12)}"
"""Random per process, so that no server can make its own error look like ours."""


@dataclass(frozen=True)
class TransportProblem:
    kind: ProblemKind
    message: str
    size: int | None = None
    status: int = 0

    def error(self) -> types.ErrorData:
        sealed = {_SEAL: [self.kind, self.message, self.size, self.status]}
        return types.ErrorData(code=types.CONNECTION_CLOSED, message=self.message, data=sealed)

    def answer(self, request_id: types.RequestId) -> SessionMessage:
        return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=self.error()))

    @classmethod
    def of(cls, data: object) -> "TransportProblem | None":
        """The problem in an error's data, if this process put one there."""
        if isinstance(data, dict) and isinstance(sealed := data.get(_SEAL), list):
            return cls(*sealed)
        return None

    def in_text(self) -> str:
        """As text, for places where the SDK passes on only the message of an exception."""
        return f"{_SEAL}:{json.dumps([self.kind, self.message, self.size, self.status])}:{_SEAL}"

    @classmethod
    def from_text(cls, text: str) -> "TransportProblem | None":
        start, end = text.find(f"{_SEAL}:"), text.rfind(f":{_SEAL}")
        return cls(*json.loads(text[start + len(_SEAL) + 1 : end])) if 0 <= start < end else None


@dataclass(frozen=True)
class TooLong:
    """A line over the limit, which was dropped."""

    head: bytes
    tail: bytes
    size: int | None
    """None until the end of the line arrives."""


SPOOLED = "spooled"
"""Message of a `too_large` problem if the limit of spooled messages is exceeded."""


class Spool(Protocol):
    """Reads a message over the limit in bounded memory; implemented by `spool.MessageSpool`."""

    @property
    def is_too_large(self) -> bool: ...

    def feed(self, chunk: bytes) -> None: ...

    def finish(self) -> bytes:
        """A short message in the place of the long one."""

    def discard(self) -> None: ...


MakeSpool = Callable[[], Spool]


class LineSplitter:
    """Split a byte stream into lines of limited length, in linear time.

    Args:
        spool: Reads a line over the limit; a short line takes its place.
    """

    def __init__(self, limit: int, spool: MakeSpool | None = None) -> None:
        self._limit = limit
        self._make_spool = spool
        self._spool: Spool | None = None
        self._pieces: list[bytes] = []
        self._size = 0
        self._head = self._tail = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | TooLong]:
        """The lines this chunk completes. A line over the limit is reported when it crosses it and when it ends."""
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            yield from self._add(piece)
            size, self._size = self._size, 0
            if self._spool is not None:
                spool, self._spool = self._spool, None
                yield spool.finish()
                continue
            # Free the pieces before the line is used: together they may be as large as the limit.
            line, self._pieces = b"".join(self._pieces), []
            if size > self._limit:
                yield TooLong(self._head, self._tail, size)
            elif size:
                yield line
        yield from self._add(rest)

    def _add(self, piece: bytes) -> Iterator[TooLong]:
        if not piece:
            return
        before, self._size = self._size, self._size + len(piece)
        if self._size <= self._limit:
            self._pieces.append(piece)
            return
        if before <= self._limit:
            begin = b"".join(self._pieces[:1]) + piece[:400]
            self._head, self._tail = begin[:400], b""
            whole, self._pieces = [*self._pieces, piece], []
            if self._make_spool is not None:
                self._spool = self._make_spool()
                for one in whole:
                    self._spool.feed(one)
                return
            yield TooLong(self._head, b"", None)
        elif self._spool is not None:
            self._spool.feed(piece)
            if not self._spool.is_too_large:
                return
            self._spool.discard()
            self._spool = None
            yield TooLong(self._head, b"", None)
        self._tail = (self._tail + piece)[-400:]


class EventLines:
    """The lines of an event stream, as they arrive; a `data` line over the limit is read by a spool."""

    _DATA = b"data:"

    def __init__(self, limit: int, spool: MakeSpool) -> None:
        self._limit = limit
        self._make_spool = spool
        self._held: list[bytes] = []
        self._size = 0
        self._spool: Spool | None = None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            self._add(piece)
            yield self._line()
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._spool is not None:
            self._spool.feed(piece)
            return
        self._held.append(piece)
        if self._size > self._limit:
            start = b"".join(self._held)
            # Lines that are not data are passed on and refused by the parser of events.
            if start.startswith(self._DATA):
                self._spool, self._held = self._make_spool(), []
                self._spool.feed(start.removeprefix(self._DATA))
            else:
                self._held = [start]

    def _line(self) -> bytes:
        spool, self._spool, self._size = self._spool, None, 0
        if spool is not None:
            return self._DATA + b" " + spool.finish() + b"\n"
        line, self._held = b"".join(self._held) + b"\n", []
        return line


_ID = re.compile(rb'"id"\s*:\s*(\d{1,18}|"[^"\\]{1,60}")')


def id_in(long: TooLong) -> types.RequestId | None:
    """Which request a dropped line answered. Servers write the id first or last; the rest is content."""
    before_content = long.head.split(b'"result"')[0].split(b'"error"')[0]
    found = _ID.search(before_content) or next(reversed(list(_ID.finditer(long.tail))), None)
    try:
        return None if found is None else json.loads(found[1])
    except ValueError:
        return None  # Not the text of an id: bytes that are no UTF-8, or an unknown escape.


def parse(line: bytes | str) -> types.JSONRPCMessage | None:
    """The parsed message, or None if the line is not one."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        pass
    # The fast parser rejects invalid UTF-8 and lone surrogates; a response should not be lost because of one character.
    try:
        repaired = _without_lone_surrogates(
            json.loads(line.decode("utf-8", "replace") if isinstance(line, bytes) else line)
        )
        return types.jsonrpc_message_adapter.validate_python(repaired, by_name=False)
    except (ValueError, RecursionError):
        return None


def answered(line: bytes | str) -> types.RequestId | None:
    """Which request an unreadable line appears to answer."""
    raw = line.encode("utf-8", "replace") if isinstance(line, str) else line
    return id_in(TooLong(raw[:400], raw[-400:], len(raw)))


_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.|\Z)", re.DOTALL
)
_UNFINISHED = re.compile(
    rb"\\(?:u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?"
)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


class HalfCharacters:
    """Replace escaped lone surrogates in a stream of JSON with the replacement character.

    Programs that cut text by UTF-16 code units produce them. The fast parser rejects
    the whole message for one, and neither a database nor a socket accepts it.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes, *, is_last: bool = False) -> bytes:
        buffer = self._held + chunk if self._held else chunk
        end = len(buffer) if is_last else self._finished(buffer)
        self._held, ready = buffer[end:], buffer[:end]
        return _ESCAPE.sub(_replaced, ready) if _HALF.search(ready) else ready

    def _finished(self, buffer: bytes) -> int:
        """The end of the last complete escape. Never holds back the end of a whole message, which is not an escape."""
        start = max(0, len(buffer) - 12)
        if b"\\" not in buffer[start:]:
            return len(buffer)
        while start and buffer[start - 1] == 0x5C:
            start -= 1
        found = (escape.start() for escape in _ESCAPE.finditer(buffer, start))
        return next((at for at in found if _UNFINISHED.fullmatch(buffer, at)), len(buffer))


def _replaced(escape: re.Match[bytes]) -> bytes:
    return b"\\ufffd" if len(escape[0]) == 6 else escape[0]


def _without_lone_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_without_lone_surrogates(name): _without_lone_surrogates(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_lone_surrogates(inner) for inner in value]
    return value


class Inbox:
    """The messages of a server, rate-limited; `ended` is set when no more will come.

    Responses always pass. Notifications and requests pass up to a burst, and then at a
    fixed rate; the rest are dropped and counted.
    """

    BURST = 2_000
    PER_SECOND = 500

    def __init__(self, stream: ReadStream[Inbound]) -> None:
        self._stream = stream
        self._allowance = float(self.BURST)
        self._updated_at = time.monotonic()
        self.last_received = self._updated_at
        self.dropped = 0
        self.ended = anyio.Event()

    async def receive(self) -> Inbound:
        while True:
            try:
                item = await self._stream.receive()
            except (anyio.EndOfStream, anyio.ClosedResourceError):
                self.ended.set()
                raise
            if not isinstance(item, SessionMessage) or self.admits(item.message):
                return item

    def admits(self, message: types.JSONRPCMessage) -> bool:
        """Note a message that arrived; whether it may pass."""
        now = self.last_received = time.monotonic()
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return True
        self._allowance = min(float(self.BURST), self._allowance + (now - self._updated_at) * self.PER_SECOND)
        self._updated_at = now
        if self._allowance < 1:
            self.dropped += 1
            return False
        self._allowance -= 1
        return True

    @property
    def last_context(self) -> Context | None:
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Inbound:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self.ended.set()
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Reached(Exception):
    """An item among a server's messages: when the session gets it, all messages before it were handled."""

    def __init__(self) -> None:
        super().__init__()
        self.is_reached = anyio.Event()


Hear = Callable[[types.JSONRPCMessage], Awaitable[bool]]
"""Gets each message that precedes a response; whether it was meant for the caller, and not for the session."""

Post = Callable[[types.JSONRPCRequest, Mapping[str, str], Hear], Awaitable[types.JSONRPCResponse | types.JSONRPCError]]
"""Sends a request with these headers and returns its response."""


class Line:
    """An open transport to a server: streams of messages in and out, and the transport's knowledge about them."""

    def __init__(
        self,
        incoming: ReadStream[Inbound],
        outgoing: WriteStream[SessionMessage],
        on_detached: dict[types.RequestId, Callable[[], None]] | None = None,
        post: Post | None = None,
    ) -> None:
        self.incoming = incoming
        self.outgoing = outgoing
        self.post = post
        """Where each request is an exchange of its own: sends it in the task of its caller, past the streams."""

        self.on_detached = on_detached if on_detached is not None else {}
        """By request: called when the server ends the stream of the response, to be asked for the rest later."""

        self.unanswered: set[types.RequestId] = set()
        """Requests that this transport has started to send and that have no response yet."""

        self.knows_what_was_sent = False
        """Whether a request that is not in `unanswered` was certainly never sent."""

        self.pid: int | None = None

    def recent_output(self) -> str:
        """The last lines that the server wrote beside the protocol; empty where there is no such channel."""
        return ""

    def note_answer(self, message: types.JSONRPCMessage) -> None:
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError) and message.id is not None:
            self.unanswered.discard(message.id)

    def last_error(self) -> str:
        """The last error output of the server and its exit status; empty if unknown."""
        return ""
