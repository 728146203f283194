"""The HTTP transports, Streamable HTTP and SSE, with size limits while reading.

Streamable HTTP is the SDK's, on top of our HTTP client. That client limits what it
reads, follows no redirect to another origin, starts no login that a server proposes,
and never raises: a failed connection becomes the error response of the one request
it concerns, so that other requests are not affected. SSE is implemented here,
because the SDK's version has a fixed size limit and loses requests.
"""

import codecs
import json
import math
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.streams.memory
import httpcore2
import httpx2
import mcp_types as types
from mcp.client.streamable_http import RequestContext, StreamableHTTPTransport
from mcp.shared._context_streams import ContextSendStream, create_context_streams
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from tersely.errors import ConfigError, ToolUnavailable
from tersely.mcp.connect.tokens import RefreshFailed, StoredLogin, login_needed
from tersely.mcp.connect.wire import (
    SPOOLED,
    EventLines,
    HalfCharacters,
    Hear,
    Inbound,
    Line,
    MakeSpool,
    Reached,
    Spool,
    TransportProblem,
    answered,
    parse,
)
from tersely.mcp.logins import LoginStore
from tersely.mcp.servers import TransportOptions
from tersely.tls import tls_context

_OVERHEAD = 64 * 1024
_NEVER_LEFT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
_TIMEOUTS = httpx2.Timeout(connect=10, read=None, write=60, pool=10)
"""No read timeout: a tool may send nothing while it works, and each call has its own time limit."""

_EXTENSIONS = {"timeout": _TIMEOUTS.as_dict()}

_END_SECONDS = 0.2
"""How long the end of a stream is waited for, after its response was delivered."""

_LIMITS = httpx2.Limits(max_connections=256, max_keepalive_connections=32, keepalive_expiry=3.0)
"""Common servers close a connection that was idle for 5 seconds. One that is closed while a request is on its way fails
the call, so idle ones are given up before."""


@cache
def _trusted() -> ssl.SSLContext:
    """Shared by all clients: loading the certificates is the most expensive part of creating a client."""
    return httpx2.create_ssl_context()


def _context(options: TransportOptions) -> ssl.SSLContext:
    """How the certificates of a server are checked, and which one it gets.

    Raises:
        ToolUnavailable: A file cannot be used.
    """
    if options.verify_tls and not options.ca_file and not options.client_cert:
        return _trusted()
    try:
        return tls_context(
            ca_file=options.ca_file,
            client_cert=options.client_cert,
            client_key=options.client_key,
            verify=options.verify_tls,
        )
    except ConfigError as problem:
        raise ToolUnavailable(str(problem), sent=False) from None


class _Refused(httpx2.StreamError):
    """Stop reading a body. The SDK passes on only the message of the exception, so the problem is encoded in it."""

    def __init__(self, problem: TransportProblem) -> None:
        super().__init__(problem.in_text())


class _JoinedStream(httpcore2.AsyncNetworkStream):
    """A connection that writes a request at once, when its response is read: each write wakes the server."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        self._held: list[bytes] = []
        self._size = 0

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._held.append(buffer)
        self._size += len(buffer)
        if self._size > _OVERHEAD:
            await self._flush(timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        await self._flush(_TIMEOUTS.write)
        return await self._inner.read(max_bytes, timeout)

    async def _flush(self, timeout: float | None) -> None:
        if self._held:
            held, self._held, self._size = b"".join(self._held), [], 0
            await self._inner.write(held, timeout)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return _JoinedStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _JoinedWrites(httpcore2.AnyIOBackend):
    async def connect_tcp(self, *where: Any, **how: Any) -> httpcore2.AsyncNetworkStream:
        return _JoinedStream(await super().connect_tcp(*where, **how))


class UpstreamHTTPClient(httpx2.AsyncClient):
    """An HTTP client that limits response bodies and returns failures as error responses instead of raising.

    Where the configuration names no `Authorization` header, the stored login at the address is used.
    """

    def __init__(
        self,
        options: TransportOptions,
        *,
        limit: int,
        logins: LoginStore | None = None,
        spool: MakeSpool | None = None,
    ) -> None:
        headers = {name: value.get_secret_value() for name, value in options.headers.items()}
        if options.bearer_token:
            headers["Authorization"] = f"Bearer {options.bearer_token.get_secret_value()}"
        # No compression: a few compressed bytes could expand beyond every limit.
        headers["Accept-Encoding"] = "identity"
        super().__init__(
            headers=headers, timeout=_TIMEOUTS, limits=_LIMITS, verify=_context(options), follow_redirects=False
        )
        # Not on the way through a proxy, which has a transport of its own.
        self._transport._pool._network_backend = _JoinedWrites()  # type: ignore[attr-defined]
        self._own_headers = dict(self.headers)
        self._limit = limit
        self._spool = spool
        self._url = options.url or ""
        self._login = StoredLogin(logins, self._url) if logins and "authorization" not in self.headers else None
        self.on_detached: dict[types.RequestId, Callable[[], None]] = {}
        """Called when the stream of the response to a request ends without the response."""

        self.finish_later: Callable[[Callable[[], Coroutine[Any, Any, None]]], object] | None = None
        """Starts what nobody waits for: reading the end of a stream."""

        self.session: dict[str, str] = {}
        """Session headers of the older protocol, once the server has assigned a session."""

    def build_request(self, method: str, url: httpx2.URL | str, **parts: Any) -> httpx2.Request:
        """As the library's; a message to the server needs none of its merging of addresses, headers and cookies."""
        is_message = method == "POST" and isinstance(url, httpx2.URL) and set(parts) == {"json", "headers"}
        if not is_message or self.cookies:  # those of a load balancer
            return super().build_request(method, url, **parts)
        content = json.dumps(parts["json"], ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        headers = {**self._own_headers, **{name.lower(): value for name, value in parts["headers"].items()}}
        return httpx2.Request(method, url, headers=headers, content=content, extensions=_EXTENSIONS)

    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            response = await self._send_with_token(request, **how)
        except RefreshFailed as failed:
            return _failure(request, failed.problem)
        except _NEVER_LEFT as problem:
            return _failure(request, TransportProblem("not_sent", _describe(problem)))
        except httpx2.TransportError as problem:
            return _failure(request, TransportProblem("broken", _describe(problem)))
        for header in ("mcp-session-id", "mcp-protocol-version"):
            if value := response.headers.get(header) or request.headers.get(header):
                self.session[header] = value
        refused = self._check(request, response)
        if refused:
            await response.aclose()
            return _failure(request, refused, status=response.status_code)
        if not response.is_stream_consumed:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            # An event stream is endless, so its total size has no limit; each event is limited where it is read.
            if _is_stream(response):
                on_end = partial(self._stream_ended, request) if request.method == "POST" else None
                response.stream = _Events(response.stream, self._limit, self._spool, on_end, self.finish_later)
            else:
                response.stream = _Bounded(response.stream, self._limit, self._spool if _is_json(response) else None)
        return response

    def _stream_ended(self, request: httpx2.Request) -> None:
        """Note that a stream ended without the response; the SDK asks for the rest."""
        with suppress(ValueError, KeyError, httpx2.RequestNotRead):
            if (on_detached := self.on_detached.get(json.loads(request.content)["id"])) is not None:
                on_detached()

    async def _send_with_token(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        """Send with the token of the stored login, once more with a new one if the server refuses it."""
        token = await self._login.token() if self._login else ""
        if not self._login or not token:
            return await super().send(request, **how)
        request.headers["Authorization"] = f"Bearer {token}"
        response = await super().send(request, **how)
        if response.status_code != 401:
            return response
        await response.aclose()
        request.headers["Authorization"] = f"Bearer {await self._login.token(refused=token)}"
        return await super().send(request, **how)

    def _check(self, request: httpx2.Request, response: httpx2.Response) -> TransportProblem | None:
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding != "identity":
            return TransportProblem(
                "http",
                f"it sent a compressed response ({encoding[:20]}), although the request asked for none",
                status=response.status_code,
            )
        size = response.headers.get("content-length", "")
        spooled = self._spool is not None and _is_json(response) and response.status_code < 400
        if size.isdecimal() and int(size) > self._limit + _OVERHEAD and not spooled:
            return TransportProblem("too_large", "", size=int(size))
        status = response.status_code
        if status == 404 and "mcp-session-id" in request.headers:
            return TransportProblem("session_gone", "it no longer knows our session", status=status)
        if self._login and status in (401, 403) and (why := _login_challenge(response)):
            return login_needed(self._url, why, status=status)
        if status in (401, 403) or (status >= 400 and status != 404 and not _is_json(response)):
            return TransportProblem(
                "http", f"HTTP {status} {_phrase(status)}".rstrip() + _HINTS.get(status, ""), status=status
            )
        return None


_HINTS = {401: "; check bearer_token or headers", 403: "; check bearer_token or headers"}


def _login_challenge(response: httpx2.Response) -> str:
    """Why a login would help, according to the response; empty if nothing says that it would."""
    challenge = str(response.headers.get("www-authenticate", "")).lower()
    if response.status_code == 403:
        return "its login lacks a scope that this request needs" if "insufficient_scope" in challenge else ""
    return "it needs a login"


class _Bounded(httpx2.AsyncByteStream):
    """A body that stops at the limit and is always valid UTF-8. With a spool, a larger one becomes a short message."""

    def __init__(self, body: httpx2.AsyncByteStream, limit: int, make_spool: MakeSpool | None = None) -> None:
        self._body = body
        self._limit = limit
        self._make_spool = make_spool

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        mend = HalfCharacters().feed
        held: list[bytes] = []
        spool: Spool | None = None
        try:
            async for chunk in self._body:
                size += len(chunk)
                if spool is None and size <= self._limit + _OVERHEAD:
                    held.append(chunk)
                    continue
                if spool is None and self._make_spool is not None:
                    spool = self._make_spool()
                    for one in held:
                        spool.feed(one)
                    held = []
                if spool is None:
                    raise _Refused(TransportProblem("too_large", ""))
                spool.feed(chunk)
                if spool.is_too_large:
                    spool.discard()
                    raise _Refused(TransportProblem("too_large", SPOOLED))
            if spool is not None:
                yield spool.finish()
                return
            # Held until here, because the beginning of a larger body must not be passed on.
            for chunk in held:
                yield mend(decode(chunk).encode())
            yield mend(decode(b"", True).encode(), is_last=True)
        except httpx2.TransportError as problem:
            raise _Refused(TransportProblem("broken", _describe(problem))) from None

    async def aclose(self) -> None:
        await self._body.aclose()


class _Events(httpx2.AsyncByteStream):
    """An event stream. It is endless, so its total size has no limit; each event is limited where it is parsed.

    With a spool, an event over the limit becomes a short one.
    """

    def __init__(
        self,
        body: httpx2.AsyncByteStream,
        limit: int,
        make_spool: MakeSpool | None = None,
        on_end: Callable[[], None] | None = None,
        finish_later: Callable[[Callable[[], Coroutine[Any, Any, None]]], object] | None = None,
    ) -> None:
        self._body = body
        self._limit = limit
        self._make_spool = make_spool
        self._on_end = on_end
        self._finish_later = finish_later
        self._chunks: AsyncIterator[bytes] | None = None
        self._has_ended = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        mend = HalfCharacters().feed
        lines = EventLines(self._limit + _OVERHEAD, self._make_spool) if self._make_spool else None
        try:
            self._chunks = aiter(self._body)
            async for chunk in self._chunks:
                for piece in lines.feed(chunk) if lines else (chunk,):
                    yield mend(piece)
            self._has_ended = True
            # Not reached after a response: then the SDK reads no further.
            if self._on_end is not None:
                self._on_end()
        except httpx2.TransportError as problem:
            raise _Refused(TransportProblem("broken", _describe(problem))) from None

    async def aclose(self) -> None:
        is_open = self._chunks is not None and self._on_end is not None and not self._has_ended
        # To a server of the newer protocol, a closed stream says that the request is cancelled; it must not wait.
        if not is_open or anyio.current_effective_deadline() == -math.inf:
            await self._body.aclose()
        elif self._finish_later is not None:
            self._finish_later(self._read_end)
        else:
            await self._read_end()

    async def _read_end(self) -> None:
        """Read the end of the stream, which follows the response: otherwise its connection cannot be used again."""
        assert self._chunks is not None
        size = 0
        try:
            with anyio.move_on_after(_END_SECONDS), suppress(httpx2.TransportError, httpx2.StreamError):
                async for chunk in self._chunks:
                    size += len(chunk)
                    if size > _OVERHEAD:
                        return
        finally:
            await self._body.aclose()


def _is_json(response: httpx2.Response) -> bool:
    return str(response.headers.get("content-type", "")).lower().startswith("application/json")


def _is_stream(response: httpx2.Response) -> bool:
    return str(response.headers.get("content-type", "")).lower().startswith("text/event-stream")


def _failure(request: httpx2.Request, problem: TransportProblem, status: int = 503) -> httpx2.Response:
    """An error response in place of the server's. The SDK fills in the id of the request."""
    error = types.JSONRPCError(jsonrpc="2.0", id=None, error=problem.error())
    content = error.model_dump_json(by_alias=True).encode()
    return httpx2.Response(
        max(status, 400), headers={"content-type": "application/json"}, content=content, request=request
    )


def _describe(problem: httpx2.TransportError) -> str:
    match problem:
        case httpx2.ConnectTimeout():
            return "connecting to its address timed out"
        case httpx2.ConnectError():
            return f"no connection to its address ({str(problem)[:120] or 'refused'})"
        case httpx2.TimeoutException():
            return "it does not accept the data sent to it"
        case _:
            return f"the connection broke ({type(problem).__name__})"


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


@asynccontextmanager
async def streamable(
    options: TransportOptions, *, limit: int, logins: LoginStore | None = None, spool: MakeSpool | None = None
) -> AsyncIterator[Line]:
    assert options.url
    async with UpstreamHTTPClient(options, limit=limit, logins=logins, spool=spool) as client:
        # As in the SDK's `streamable_http_client`, which does not hand out its transport.
        transport = StreamableHTTPTransport(options.url, max_sse_event_size=limit + _OVERHEAD)
        transport.url = httpx2.URL(options.url)  # type: ignore[assignment]  # parsed once instead of for each request
        from_server, incoming = create_context_streams[Inbound](0)
        outgoing, to_server = create_context_streams[SessionMessage](0)
        try:
            async with from_server, incoming, outgoing, to_server, anyio.create_task_group() as tasks:

                def listen() -> None:
                    tasks.start_soon(transport.handle_get_stream, client, from_server)

                client.finish_later = tasks.start_soon
                tasks.start_soon(transport.post_writer, client, to_server, from_server, outgoing, listen, tasks)
                posts = DirectPosts(transport, client, from_server)
                try:
                    yield Line(incoming, outgoing, on_detached=client.on_detached, post=posts)
                finally:
                    await posts.close()
                    client.finish_later = None
                    tasks.cancel_scope.cancel()
        finally:
            await _delete_session(client, options.url)


@dataclass
class _Reply:
    """What arrives on the response to one request; takes the place of the stream that the SDK writes to."""

    to_session: ContextSendStream[Inbound]
    hear: Hear
    response: types.JSONRPCResponse | types.JSONRPCError | None = None
    has_passed_on: bool = False

    async def send(self, item: Inbound) -> None:
        if isinstance(item, SessionMessage):
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                self.response = item.message
                return
            if await self.hear(item.message):
                return
        self.has_passed_on = True
        await self.to_session.send(item)


class DirectPosts:
    """Sends requests in the task of their caller; a `Post`.

    For each request, the SDK would start several tasks and pass the messages through four streams, which takes longer
    than the rest of a call. Sending and reading are the SDK's; what a server sends besides the response goes to the
    session as usual, and before the response.
    """

    def __init__(
        self, transport: StreamableHTTPTransport, client: httpx2.AsyncClient, to_session: ContextSendStream[Inbound]
    ) -> None:
        self._transport = transport
        self._client = client
        self._to_session = to_session
        self._open: set[anyio.CancelScope] = set()
        self._is_idle = anyio.Event()

    async def __call__(
        self, request: types.JSONRPCRequest, headers: Mapping[str, str], hear: Hear
    ) -> types.JSONRPCResponse | types.JSONRPCError:
        reply = _Reply(self._to_session, hear)
        context = RequestContext(
            client=self._client,
            session_id=self._transport.session_id,
            session_message=SessionMessage(request),
            metadata=ClientMessageMetadata(headers=dict(headers)),
            read_stream_writer=reply,  # type: ignore[arg-type]
        )
        scope = anyio.CancelScope()
        self._open.add(scope)
        try:
            with scope, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._transport._handle_post_request(context)
                if reply.has_passed_on:
                    # The session handles messages in tasks of their own, begun in this order.
                    end = Reached()
                    await self._to_session.send(end)
                    await end.is_reached.wait()
        finally:
            self._open.discard(scope)
            if not self._open:
                self._is_idle.set()
        if reply.response is None or scope.cancelled_caught:
            raise MCPError(code=types.CONNECTION_CLOSED, message="Connection closed")
        return reply.response

    async def close(self) -> None:
        """End the requests that are still open, before their connections are closed."""
        if self._open:
            self._is_idle = anyio.Event()
            for scope in self._open:
                scope.cancel()
            with anyio.move_on_after(1, shield=True):
                await self._is_idle.wait()


async def _delete_session(client: UpstreamHTTPClient, url: str) -> None:
    """End our session at the server. The SDK does not do so when it is cancelled, which is how connections end here."""
    if "mcp-session-id" not in client.session:
        return
    with anyio.CancelScope(shield=True), anyio.move_on_after(1):
        async with client.stream("DELETE", url, headers=client.session):
            pass


@asynccontextmanager
async def events(
    options: TransportOptions,
    *,
    name: str,
    limit: int,
    logins: LoginStore | None = None,
    spool: MakeSpool | None = None,
) -> AsyncIterator[Line]:
    """Connect over SSE, the older transport: an event stream from the server, and a POST for every message to it.

    Raises:
        ToolUnavailable: The stream cannot be opened.
    """
    assert options.url
    from_server, incoming = anyio.create_memory_object_stream[Inbound](0)
    outgoing, to_server = anyio.create_memory_object_stream[SessionMessage](0)
    line = Line(incoming, outgoing)
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    async with (
        UpstreamHTTPClient(options, limit=limit, logins=logins, spool=spool) as client,
        from_server,
        incoming,
        outgoing,
        to_server,
        client.stream("GET", options.url, headers=headers) as response,
    ):
        if response.status_code != 200:
            problem = await _error_of(response)
            raise ToolUnavailable(f"Server {name!r} cannot be reached: {problem.message}.", sent=False)
        stream = aiter(httpx2.EventSource(response, max_event_size=limit + _OVERHEAD))
        address = await _post_address(stream, options.url, name)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_receive, stream, from_server, line)
            tasks.start_soon(_post, client, address, to_server, from_server, line)
            try:
                yield line
            finally:
                tasks.cancel_scope.cancel()


async def _error_of(response: httpx2.Response) -> TransportProblem:
    """Why a request was refused."""
    with suppress(httpx2.StreamError):
        message = parse(await response.aread()) if _is_json(response) else None
        if isinstance(message, types.JSONRPCError) and (problem := TransportProblem.of(message.error.data)):
            return problem
    return TransportProblem(
        "http", f"HTTP {response.status_code} {_phrase(response.status_code)}".rstrip(), status=response.status_code
    )


async def _post_address(stream: AsyncIterator[httpx2.ServerSentEvent], url: str, name: str) -> str:
    """The address for messages to the server. It must have the same origin as the stream."""
    try:
        async for event in stream:
            if event.event != "endpoint":
                continue
            address = urljoin(url, event.data)
            if urlsplit(address)[:2] != urlsplit(url)[:2]:
                raise ToolUnavailable(
                    f"Server {name!r} asked for its messages to be sent to another origin, which is refused.",
                    sent=False,
                )
            return address
    except httpx2.TransportError as problem:
        raise ToolUnavailable(f"Server {name!r} cannot be reached: {_describe(problem)}.", sent=False) from None
    raise ToolUnavailable(f"Server {name!r} closed its event stream immediately.", sent=False)


async def _receive(
    stream: AsyncIterator[httpx2.ServerSentEvent],
    from_server: "anyio.streams.memory.MemoryObjectSendStream[Inbound]",
    line: Line,
) -> None:
    async with from_server:
        try:
            async for event in stream:
                if event.event != "message" or not event.data:
                    continue
                message = parse(event.data)
                if message is not None:
                    line.note_answer(message)
                    await from_server.send(SessionMessage(message))
                elif (request_id := answered(event.data)) in line.unanswered and request_id is not None:
                    await from_server.send(
                        TransportProblem("malformed", "it is not a valid message").answer(request_id)
                    )
        except httpx2.SSEError:
            # The event is over the limit. The position in the stream is lost, so the connection ends. Which request the
            # event answered is known only if a single one is waiting.
            if len(line.unanswered) == 1:
                await from_server.send(TransportProblem("too_large", "").answer(next(iter(line.unanswered))))
        except (httpx2.TransportError, httpx2.StreamError, anyio.BrokenResourceError):
            return


async def _post(
    client: httpx2.AsyncClient,
    address: str,
    to_server: "anyio.streams.memory.MemoryObjectReceiveStream[SessionMessage]",
    from_server: "anyio.streams.memory.MemoryObjectSendStream[Inbound]",
    line: Line,
) -> None:
    line.knows_what_was_sent = True
    async for item in to_server:
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            line.unanswered.add(message.id)
        body = message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        async with client.stream("POST", address, json=body) as response:
            if response.is_success or not isinstance(message, types.JSONRPCRequest):
                continue
            problem = await _error_of(response)
        try:
            await from_server.send(problem.answer(message.id))
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
