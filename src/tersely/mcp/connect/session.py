"""One negotiated connection to a server: send requests, return raw responses.

Supports both eras of the protocol and hides the difference. Responses are returned
as the server wrote them, not through the SDK's models: those reject a whole result
for one unknown content item and a whole listing for one invalid tool, and they cost
time on every call. Knows nothing of reconnecting; `supervisor` does that.
"""

import contextlib
import itertools
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, encode_header_value
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tersely.errors import ResultMalformed, ResultTooLarge, ToolError, ToolRejected, ToolUnavailable
from tersely.mcp.connect import http, stdio
from tersely.mcp.connect.spool import MessageSpool, SpooledAnswer
from tersely.mcp.connect.wire import SPOOLED, Inbox, Line, Post, Reached, TransportProblem
from tersely.mcp.logins import LoginStore
from tersely.mcp.raw import OnProgress, Tool, is_too_deep, read_tool
from tersely.mcp.servers import Server

OnMessage = Callable[[str, dict[str, Any]], None]
"""Called with the method and the parameters of each notification from the server."""

OnRequestFromServer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers a request from the server: sampling, elicitation or roots. Raises `ToolRejected` to refuse."""

MOST_PAGES = 100
MOST_TOOLS = 2_000

_CANCEL_SECONDS = 5.0
"""How long the message that a request is cancelled may take."""

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_OLDER_SERVER_STATUSES = frozenset((400, 404, 405, 406, 415, 501))
"""HTTP statuses an older server returns for requests of the newer protocol."""


class _AnyRequest(types.Request[dict[str, Any] | None, str]):
    pass


class _TaskRequest(_AnyRequest):
    """A request of the tasks extension, which names the task in a header."""

    name_param = "taskId"


class _WithoutContent(logging.Filter):
    """Remove message content from the SDK's logs: it logs messages it cannot parse, with their content."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[0]:
            record.msg, record.args, record.exc_info = f"{record.msg} ({record.exc_info[0].__name__})", (), None
        return True


for _name in ("mcp.client.streamable_http", "mcp.client.session", "mcp.shared.jsonrpc_dispatcher"):
    logging.getLogger(_name).addFilter(_WithoutContent())


@dataclass
class _Exchange:
    """One request of ours and its response, while the SDK handles it."""

    id: int
    for_sdk: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """The part of the response that the SDK gets to see; without it, none."""

    meta: Mapping[str, Any] = field(default_factory=dict)
    """The caller's `_meta`. It overrides what the SDK writes about us, so that the gateway's client speaks for itself.
    """

    answer: dict[str, Any] = field(default_factory=dict)


class _Answered(Exception):
    """Raised to bypass the SDK's models once the raw response is stored in the exchange."""


_exchange: ContextVar[_Exchange | None] = ContextVar("exchange", default=None)

_REQUESTS_TO_CLIENTS = frozenset(("sampling/createMessage", "elicitation/create", "roots/list"))


async def _never_called(*_: object, **__: object) -> Any:
    """Passed to the SDK so that it declares the capability; `_Dispatcher` answers before this is reached."""
    raise NotImplementedError


class _ClientSession(ClientSession):
    declared: Mapping[str, Any] | None = None
    """What the client behind us declared, where there is only one; servers offer their tools by it."""

    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        capabilities = super()._build_capabilities(version)
        if self.declared is None:
            return capabilities
        own = types.ClientCapabilities.model_validate(self.declared, by_name=False)
        return capabilities.model_copy(
            update={name: getattr(own, name) for name in ("sampling", "elicitation", "roots")}
        )


_TASK_STATUS = "notifications/tasks/status"


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    on_request_from_server: OnRequestFromServer | None = None
    on_task_status: OnMessage | None = None

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def answer(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            if self.on_request_from_server is None or method not in _REQUESTS_TO_CLIENTS:
                return await on_request(context, method, params)
            try:
                return await self.on_request_from_server(method, dict(params or {}))
            except ToolRejected as refusal:
                raise MCPError(code=refusal.code, message=str(refusal), data=refusal.data) from None

        async def hear(context: Any, method: str, params: Mapping[str, Any] | None) -> None:
            if method == _TASK_STATUS and self.on_task_status is not None:
                # The library does not know it, and would drop it.
                self.on_task_status(method, dict(params or {}))
            else:
                await on_notify(context, method, params)

        await super().run(answer, hear, on_notify_intercept, task_status=task_status)

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        *,
        _related_request_id: types.RequestId | None = None,
    ) -> dict[str, Any]:
        exchange = _exchange.get()
        if exchange is None:
            return await super().send_raw_request(method, params, opts, _related_request_id=_related_request_id)
        named: CallOptions = {**(opts or {}), "request_id": exchange.id}
        if exchange.meta and params is not None:
            params = {**params, "_meta": {**(params.get("_meta") or {}), **exchange.meta}}
        exchange.answer = await super().send_raw_request(method, params, named)
        if exchange.for_sdk is None:
            raise _Answered
        return exchange.for_sdk(exchange.answer)


@dataclass(frozen=True)
class Listing:
    tools: tuple[Tool, ...]
    refused: tuple[str, ...]
    """Definitions that cannot be used, each with the reason."""


class UpstreamSession:
    """A negotiated connection; created by `opened`."""

    def __init__(self, server: Server, line: Line, inbox: Inbox, client: ClientSession) -> None:
        self._server = server
        self._line = line
        self._inbox = inbox
        self._client = client
        self._ids = itertools.count(1_000)
        self.in_flight = 0
        self.ended = inbox.ended
        self.latency = 0.0
        self.is_forgotten = False
        """The server is reachable but no longer knows our session, for example after a restart."""

    @property
    def protocol(self) -> str:
        return self._client.protocol_version or ""

    @property
    def pid(self) -> int | None:
        return self._line.pid

    @property
    def dropped(self) -> int:
        return self._inbox.dropped

    def silence(self) -> float:
        """Seconds since the last message from the server."""
        return time.monotonic() - self._inbox.last_received

    @property
    def is_modern(self) -> bool:
        return self.protocol in MODERN_PROTOCOL_VERSIONS

    def introduction(self) -> dict[str, Any]:
        """The server's description of itself: `serverInfo`, `capabilities`, `instructions`."""
        info, capabilities = self._client.server_info, self._client.server_capabilities
        return {
            "serverInfo": info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {},
            "capabilities": (
                capabilities.model_dump(by_alias=True, mode="json", exclude_none=True) if capabilities else {}
            ),
            "instructions": self._client.instructions or "",
        }

    def end_reason(self) -> str:
        """Why the connection ended, as far as known."""
        why = self._line.last_error()
        return f"Server {self._server.name!r} closed the connection{f': {why}' if why else ''}."

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
        on_detached: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Send a request and return the raw response. Cancelling the caller cancels the request at the server.

        `on_detached` is called if the server ends the stream of the response, to be asked for the rest later.

        Raises:
            ToolUnavailable: The connection was lost; `sent` says whether the server may have received the request.
            ToolRejected: The server answered with an error.
            ResultTooLarge: The response was over the limit.
            ResultMalformed: The response could not be parsed.
        """
        exchange = _Exchange(next(self._ids), meta=(params or {}).get("_meta") or {})
        if on_detached is not None:
            self._line.on_detached[exchange.id] = on_detached
        with self._tracked(exchange):
            if self._line.post is not None:
                await self._post(self._line.post, method, params, exchange, on_progress)
                return SpooledAnswer.of(exchange.answer) or exchange.answer
            kind = _TaskRequest if _named_task(method, params) else _AnyRequest
            request = kind(method=method, params=dict(params) if params is not None else None)
            if on_progress is None:
                await self._send(request, exchange, None)
            else:
                await _with_progress(on_progress, lambda report: self._send(request, exchange, report))
        return SpooledAnswer.of(exchange.answer) or exchange.answer

    async def _send(
        self, request: "types.Request[dict[str, Any] | None, str]", exchange: _Exchange, on_progress: ProgressFnT | None
    ) -> None:
        try:
            await self._client.send_request(request, _ANYTHING, progress_callback=on_progress)
        except _Answered:
            return
        except MCPError as problem:
            raise self._explained(problem, exchange) from None

    async def _post(
        self,
        post: Post,
        method: str,
        params: Mapping[str, Any] | None,
        exchange: _Exchange,
        on_progress: OnProgress | None,
    ) -> None:
        """As `_send`, but in this task and past the SDK's models."""
        data: dict[str, Any] = {"method": method}
        if params is not None:
            data["params"] = {**params, "_meta": dict(exchange.meta)}
        options: CallOptions = {}
        self._client._stamp(data, options)
        headers = options.get("headers") or {}
        if task := _named_task(method, params):
            headers.setdefault(MCP_NAME_HEADER, encode_header_value(task))
        passed = data.get("params") or {}
        meta = {**(passed.pop("_meta", None) or {}), **exchange.meta}
        if on_progress is not None:
            meta["progressToken"] = exchange.id
        if meta:
            passed["_meta"] = meta
        if passed:
            request = types.JSONRPCRequest(jsonrpc="2.0", id=exchange.id, method=method, params=passed)
        else:
            request = types.JSONRPCRequest(jsonrpc="2.0", id=exchange.id, method=method)

        async def hear(message: types.JSONRPCMessage) -> bool:
            # Reported here, so that no progress arrives after the answer.
            nonlocal on_progress
            if on_progress is None or (step := _progress(message, exchange.id)) is None:
                return False
            if self._inbox.admits(message):
                try:
                    await on_progress(*step)
                except Exception:  # noqa: BLE001
                    # An error in the callback must not end the call.
                    on_progress = None
            return True

        try:
            answer = await post(request, headers, hear)
        except anyio.get_cancelled_exc_class():
            if not self.is_modern:
                with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
                    what = types.CancelledNotificationParams(request_id=exchange.id, reason="caller cancelled")
                    await self._client.send_notification(types.CancelledNotification(params=what))
            raise
        except MCPError as problem:
            raise self._explained(problem, exchange) from None
        self._inbox.admits(answer)
        if isinstance(answer, types.JSONRPCError):
            raise self._explained(MCPError.from_jsonrpc_error(answer), exchange)
        exchange.answer = answer.result

    @contextlib.contextmanager
    def _tracked(self, exchange: _Exchange) -> Iterator[None]:
        if self.ended.is_set():
            raise ToolUnavailable(f"Server {self._server.name!r} is no longer connected.", sent=False)
        token = _exchange.set(exchange)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._line.unanswered.discard(exchange.id)
            self._line.on_detached.pop(exchange.id, None)
            _exchange.reset(token)

    def _explained(self, error: MCPError, exchange: _Exchange) -> ToolError:
        """Translate an error of the SDK into one of ours."""
        name = self._server.name
        problem = TransportProblem.of(error.error.data) or TransportProblem.from_text(error.error.message)
        if problem is None and error.error.message.startswith("SSE stream failed: Server-sent event exceeded"):
            problem = TransportProblem("too_large", "")
        if (
            problem is None
            and error.error.code == types.PARSE_ERROR
            and error.error.message.startswith("Failed to parse ")
        ):
            # The SDK's own message quotes what it could not parse.
            problem = TransportProblem("malformed", "it is not a valid message")
        if problem is None and error.error.code == types.CONNECTION_CLOSED:
            sent = exchange.id in self._line.unanswered or not self._line.knows_what_was_sent
            why = self._line.last_error()
            return ToolUnavailable(
                f"Server {name!r} closed the connection before it answered{f': {why}' if why else ''}.", sent=sent
            )
        if problem is None:
            message = error.error.message
            return ToolRejected(
                f"Server {name!r} refused: {message}", code=error.error.code, data=error.error.data, said=message
            )
        match problem.kind:
            case "too_large":
                return too_large(self._server, problem.size, is_spooled=problem.message == SPOOLED)
            case "malformed":
                return ResultMalformed(f"The response of server {name!r} cannot be parsed: {problem.message}.")
            case "login":
                return ToolUnavailable(
                    f"Server {name!r} cannot be used: {problem.message}.", sent=problem.status != 401
                )
            case "not_sent" | "session_gone":
                self.is_forgotten = problem.kind == "session_gone"
                return ToolUnavailable(f"Server {name!r} cannot be reached: {problem.message}.", sent=False)
            case _:
                return ToolUnavailable(f"Server {name!r} did not answer: {problem.message}.", sent=True)

    async def roots_changed(self) -> None:
        """Notify the server that the client's roots changed. The newer protocol has no such notification."""
        if not self.is_modern:
            await self._client.send_notification(types.RootsListChangedNotification())

    async def list_tools(self) -> Listing:
        """List all tools, over all pages up to a limit.

        Raises:
            ToolError: As `request`.
        """
        tools: dict[str, Tool] = {}
        refused: list[str] = []
        cursor: str | None = None
        cursors: set[str] = set()
        for _ in range(MOST_PAGES):
            page = await self._page(cursor)
            for raw in page["tools"]:
                try:
                    tool = read_tool(self._server.name, raw)
                except ValueError as wrong:
                    refused.append(str(wrong))
                    continue
                if tool.name in tools:
                    refused.append(f"{tool.name!a} is listed twice; only the first definition is used")
                elif len(tools) >= MOST_TOOLS:
                    return Listing(
                        tuple(tools.values()), (*refused, f"everything after the first {MOST_TOOLS:,} tools")
                    )
                else:
                    tools[tool.name] = tool
            cursor = page.get("nextCursor") if isinstance(page.get("nextCursor"), str) else None
            if cursor is None or cursor in cursors:
                return Listing(tuple(tools.values()), tuple(refused))
            cursors.add(cursor)
        return Listing(tuple(tools.values()), (*refused, f"everything after page {MOST_PAGES} of the listing"))

    async def _page(self, cursor: str | None) -> dict[str, Any]:
        """One page as received. The SDK gets the valid tools: it has to know which arguments are sent as headers."""
        exchange = _Exchange(next(self._ids), for_sdk=_only_valid_tools)
        began = time.perf_counter()
        with self._tracked(exchange):
            try:
                accepted = await self._client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            except MCPError as problem:
                raise self._explained(problem, exchange) from None
            except ValidationError:
                if not isinstance(exchange.answer.get("tools"), list):
                    raise ResultMalformed(
                        f"The tool listing of server {self._server.name!r} cannot be parsed."
                    ) from None
                return exchange.answer
            finally:
                self.latency = time.perf_counter() - began
        if not isinstance(exchange.answer.get("tools"), list):
            raise ResultMalformed(f"The tool listing of server {self._server.name!r} contains no list of tools.")
        names = {tool.name for tool in accepted.tools}
        # Leave out valid tools that the SDK rejected: they violate its rules for headers. Invalid definitions stay in,
        # so that `read_tool` reports them.
        return {
            **exchange.answer,
            "tools": [
                tool
                for tool in exchange.answer["tools"]
                if not _is_valid_tool(tool) or (isinstance(tool, dict) and tool["name"] in names)
            ],
        }

    async def changes(self, changed: Callable[[], None]) -> None:
        """Call `changed` for every list-changed event of a server of the newer protocol, until the stream ends."""
        capabilities = self._client.server_capabilities
        lists = (
            (capabilities.tools, capabilities.prompts, capabilities.resources) if capabilities else (None, None, None)
        )
        tools, prompts, resources = (bool(kind and kind.list_changed) for kind in lists)
        if not self.is_modern or not (tools or prompts or resources):
            return
        with contextlib.suppress(MCPError, SubscriptionLost, ListenNotSupportedError, TimeoutError):
            async with listen(
                self._client, tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as subscription:
                # The server did not report changes that happened before the subscription began.
                changed()
                async for _ in subscription:
                    changed()

    async def watch(self, uri: str, begun: Callable[[], None]) -> None:
        """Subscribe to a resource until the stream or the connection ends; changes arrive as notifications.

        `begun` is called once the subscription is active.

        Raises:
            ToolError: The server refused the subscription.
        """
        if self.is_modern:
            try:
                async with listen(self._client, resource_subscriptions=[uri]) as subscription:
                    begun()
                    async for _ in subscription:
                        pass  # the change itself arrives as a notification, like all others
            except MCPError as problem:
                raise self._explained(problem, _Exchange(0)) from None
            except (SubscriptionLost, ListenNotSupportedError, TimeoutError):
                return
            return
        await self.request("resources/subscribe", {"uri": uri})
        begun()
        try:
            await self.ended.wait()
        finally:
            if not self.ended.is_set():
                with anyio.CancelScope(shield=True), anyio.move_on_after(2), contextlib.suppress(ToolError):
                    await self.request("resources/unsubscribe", {"uri": uri})


def _named_task(method: str, params: Mapping[str, Any] | None) -> str:
    """The task that a request is about; empty if it is about none."""
    task = (params or {}).get("taskId") if method.startswith("tasks/") else None
    return task if isinstance(task, str) else ""


def _progress(message: types.JSONRPCMessage, request: int) -> tuple[float, float | None, str | None] | None:
    """The progress of a request that a message reports, if it does."""
    if not isinstance(message, types.JSONRPCNotification) or message.method != "notifications/progress":
        return None
    said = message.params or {}
    token, progress, total, text = (said.get(name) for name in ("progressToken", "progress", "total", "message"))
    if str(token) != str(request) or isinstance(progress, bool) or not isinstance(progress, int | float):
        return None
    return (
        float(progress),
        float(total) if isinstance(total, int | float) else None,
        text if isinstance(text, str) else None,
    )


def _only_valid_tools(answer: dict[str, Any]) -> dict[str, Any]:
    listed = answer.get("tools")
    if not isinstance(listed, list):
        return answer
    return {**answer, "tools": [tool for tool in listed if _is_valid_tool(tool)]}


def _is_valid_tool(tool: object) -> bool:
    if is_too_deep(tool):
        return False
    try:
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    return True


def too_large(server: Server, size: int | None, *, is_spooled: bool = False) -> ResultTooLarge:
    name = "max_spooled_bytes" if is_spooled else "max_result_bytes"
    limit: int = getattr(server.options, name)
    actual = f"it has {size:,} bytes, and" if size else "it is larger than the limit:"
    return ResultTooLarge(
        f"The result was refused: {actual} at most {limit:,} bytes are read from server {server.name!r}. "
        "Ask for less: a narrower filter, fewer fields, or one page. The operator can raise "
        f"`{name}`.",
        limit=limit,
        size=size,
    )


async def _with_progress(on_progress: OnProgress, work: Callable[[ProgressFnT], Awaitable[None]]) -> None:
    """Run `work` and deliver its progress in order from a bounded queue.

    A server that sends much progress cannot fill the memory, and a slow callback does not delay other messages.
    """
    send, receive = anyio.create_memory_object_stream[tuple[float, float | None, str | None]](256)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        with contextlib.suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            send.send_nowait((progress, total, message))

    async def deliver() -> None:
        async for step in receive:
            try:
                await on_progress(*step)
            except Exception:  # noqa: BLE001
                # An error in the callback must not end the call.
                return

    failure: ToolError | None = None
    with send, receive:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver)
            try:
                await work(report)
            except ToolError as problem:
                # Raised outside the group, which would wrap it.
                failure = problem
            send.close()
            tasks.cancel_scope.deadline = anyio.current_time() + 1
    if failure:
        raise failure


async def _note_reached(item: Exception) -> None:
    if isinstance(item, Reached):
        item.is_reached.set()


@asynccontextmanager
async def opened(
    server: Server,
    *,
    on_message: OnMessage,
    on_request: OnRequestFromServer | None = None,
    environment: Mapping[str, str] | None = None,
    logins: LoginStore | None = None,
    spools: bool = False,
    declared: Mapping[str, Any] | None = None,
    on_line: Callable[[Line], None] = lambda line: None,
) -> AsyncIterator[UpstreamSession]:
    """Connect and negotiate. Capabilities for requests from the server are declared only if `on_request` is given.

    With `declared`, they are the ones of these client capabilities. `on_line` is called with the transport as soon as
    it is open, before the negotiation.

    Raises:
        ToolError: The connection failed; the message gives the reason.
    """

    async def handle(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            return
        data = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        on_message(data["method"], data.get("params") or {})

    async with _transport(server, environment, logins, spools) as line:
        on_line(line)
        inbox = Inbox(line.incoming)
        dispatcher = _Dispatcher(inbox, line.outgoing)
        dispatcher.on_stream_exception = _note_reached
        dispatcher.on_request_from_server = on_request
        dispatcher.on_task_status = on_message
        client = _ClientSession(
            dispatcher=dispatcher,
            message_handler=handle,
            sampling_callback=_never_called if on_request else None,
            elicitation_callback=_never_called if on_request else None,
            list_roots_callback=_never_called if on_request else None,
            client_info=types.Implementation(name="tersely", version=version("tersely")),
        )
        client.declared = declared if on_request else None
        async with client:
            session = UpstreamSession(server, line, inbox, client)
            try:
                await _negotiate(client, server.options.protocol)
            except MCPError as problem:
                raise session._explained(problem, _Exchange(0)) from None
            except (ValidationError, RuntimeError) as problem:
                why = (
                    "its initialize response cannot be parsed" if isinstance(problem, ValidationError) else str(problem)
                )
                raise ToolUnavailable(
                    f"Server {server.name!r} supports no known protocol version: {why}.", sent=False
                ) from None
            yield session


def _transport(
    server: Server, environment: Mapping[str, str] | None, logins: LoginStore | None, spools: bool
) -> AbstractAsyncContextManager[Line]:
    options, limit = server.options.transport, server.options.max_result_bytes
    most = server.options.max_spooled_bytes
    spool = partial(MessageSpool, most) if spools and most > limit else None
    match options.kind:
        case "stdio":
            return stdio.started(options, name=server.name, limit=limit, environment=environment, spool=spool)
        case "sse":
            return http.events(options, name=server.name, limit=limit, logins=logins, spool=spool)
        case _:
            return http.streamable(options, limit=limit, logins=logins, spool=spool)


async def _negotiate(client: ClientSession, protocol: str) -> None:
    """Use the newer protocol if the server supports it, else the handshake of the older one."""
    if protocol == "handshake-first":
        try:
            await client.initialize()
        except (MCPError, ValidationError, RuntimeError) as problem:
            if isinstance(problem, MCPError) and not _may_be_other_era(problem):
                raise
            await client.discover()
        return
    if protocol != "2025-11-25":
        try:
            await client.discover()
        except (MCPError, ValidationError, RuntimeError) as problem:
            if protocol != "auto" or (isinstance(problem, MCPError) and not _may_be_other_era(problem)):
                raise
        else:
            return
    try:
        await client.initialize()
    except MCPError as problem:
        if protocol != "auto" or problem.error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # A slow start: the server received `discover` after we gave up on it, and now expects the newer protocol.
        await client.discover()


def _may_be_other_era(error: MCPError) -> bool:
    """Whether a refusal may only mean that the server uses the other era of the protocol."""
    problem = TransportProblem.of(error.error.data) or TransportProblem.from_text(error.error.message)
    if problem is None:
        return error.error.code != types.CONNECTION_CLOSED
    return problem.kind == "http" and problem.status in _OLDER_SERVER_STATUSES


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Check that arguments can be serialized as JSON, and return a copy.

    Raises:
        ToolError: The arguments are not JSON.
    """
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise ToolError(
            "The arguments are not valid JSON: they contain NaN or infinity, a lone surrogate, or a value of another "
            "type."
        ) from None
    return dict(arguments)
