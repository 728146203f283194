"""One negotiated connection to a server: requests out, plain answers in.

Speaks both eras of the protocol and hides the difference. Answers come back as the
server wrote them, not through the library's models: those refuse a whole result
for one unknown piece and a whole listing for one bad tool, and cost time on every call.
Knows nothing of reconnecting; `supervisor` does.
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
from importlib.metadata import version
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from tersely.errors import ResultMalformed, ResultTooLarge, ToolError, ToolRejected, ToolUnavailable
from tersely.mcp.connect import http, stdio
from tersely.mcp.connect.wire import Inbox, Line, TransportProblem
from tersely.mcp.raw import Tool, is_too_deep, read_tool
from tersely.mcp.servers import Server

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with how far, of how much, and a word about it."""

Notified = Callable[[str, dict[str, Any]], None]
"""Called with the method and the parameters of what a server tells on its own."""

Asked = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Answers what a server asks its client for: a model's words, a person's input, folders. Raises `ToolRejected` to
refuse.
"""

MOST_PAGES = 100
MOST_TOOLS = 2_000

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_WORTH_A_HANDSHAKE = frozenset((400, 404, 405, 406, 415, 501))
"""Statuses by which an older server says that it does not know the newer protocol."""


class _AnyRequest(types.Request[dict[str, Any] | None, str]):
    pass


class _AboutATask(_AnyRequest):
    """Of the extension for tasks, whose requests name the task in a header."""

    name_param = "taskId"


class _NoQuotes(logging.Filter):
    """The library logs messages it cannot read, with their content. That is nobody's to keep."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.exc_info[0]:
            record.msg, record.args, record.exc_info = f"{record.msg} ({record.exc_info[0].__name__})", (), None
        return True


for _name in ("mcp.client.streamable_http", "mcp.client.session", "mcp.shared.jsonrpc_dispatcher"):
    logging.getLogger(_name).addFilter(_NoQuotes())


@dataclass
class _Exchange:
    """A request of ours, on its way through the library and back."""

    id: int
    keep: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    """What the library may see of the answer; without it, nothing."""

    said: Mapping[str, Any] = field(default_factory=dict)
    """What the asker put into `_meta`: it wins over what the library says about us, so that a client behind us
    speaks for itself.
    """

    answer: dict[str, Any] = field(default_factory=dict)


class _Answered(Exception):
    """Carries a raw answer past the library's models, straight back to who asked."""


_exchange: ContextVar[_Exchange | None] = ContextVar("exchange", default=None)


_ASKED_OF_CLIENTS = frozenset(("sampling/createMessage", "elicitation/create", "roots/list"))


async def _never_called(*_: object, **__: object) -> Any:
    """Stands where the library wants a function before it tells servers that they may ask; `_Dispatcher` answers
    before it is reached.
    """
    raise NotImplementedError


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    asked: Asked | None = None

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def answer(context: Any, method: str, params: Mapping[str, Any] | None) -> dict[str, Any]:
            if self.asked is None or method not in _ASKED_OF_CLIENTS:
                return await on_request(context, method, params)
            try:
                return await self.asked(method, dict(params or {}))
            except ToolRejected as refusal:
                raise MCPError(code=refusal.code, message=str(refusal), data=refusal.data) from None

        await super().run(answer, on_notify, on_notify_intercept, task_status=task_status)

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
        if exchange.said and params is not None:
            params = {**params, "_meta": {**(params.get("_meta") or {}), **exchange.said}}
        exchange.answer = await super().send_raw_request(method, params, named)
        if exchange.keep is None:
            raise _Answered
        return exchange.keep(exchange.answer)


@dataclass(frozen=True)
class Listing:
    tools: tuple[Tool, ...]
    refused: tuple[str, ...]
    """Definitions that cannot be used, and why."""


class UpstreamSession:
    """Made by `opened`."""

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
        """The server is there and has lost our session, as after a restart."""

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
        """Seconds since anything came from the server."""
        return time.monotonic() - self._inbox.last_heard

    @property
    def is_modern(self) -> bool:
        return self.protocol in MODERN_PROTOCOL_VERSIONS

    def introduction(self) -> dict[str, Any]:
        """What the server says about itself: `serverInfo`, `capabilities`, `instructions`."""
        info, abilities = self._client.server_info, self._client.server_capabilities
        return {
            "serverInfo": info.model_dump(by_alias=True, mode="json", exclude_none=True) if info else {},
            "capabilities": abilities.model_dump(by_alias=True, mode="json", exclude_none=True) if abilities else {},
            "instructions": self._client.instructions or "",
        }

    def farewell(self) -> str:
        """Why the connection ended, as far as anybody knows."""
        why = self._line.complaint()
        return f"Server {self._server.name!r} went away{f': {why}' if why else ''}."

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, on_progress: Progress | None = None
    ) -> dict[str, Any]:
        """Ask, and return the answer as it came. Cancelling the caller cancels the request at the server.

        Raises:
            ToolUnavailable: The server went away; `sent` says whether it may have got the request.
            ToolRejected: It answered with an error.
            ResultTooLarge: Its answer was over the limit.
            ResultMalformed: Its answer could not be read.
        """
        kind = (
            _AboutATask
            if method.startswith("tasks/") and isinstance((params or {}).get("taskId"), str)
            else _AnyRequest
        )
        request = kind(method=method, params=dict(params) if params is not None else None)
        exchange = _Exchange(next(self._ids), said=(params or {}).get("_meta") or {})
        with self._on_the_way(exchange):
            if on_progress is None:
                await self._send(request, exchange, None)
            else:
                await _while_delivering(on_progress, lambda note: self._send(request, exchange, note))
        return exchange.answer

    async def _send(
        self, request: "types.Request[dict[str, Any] | None, str]", exchange: _Exchange, on_progress: ProgressFnT | None
    ) -> None:
        try:
            await self._client.send_request(request, _ANYTHING, progress_callback=on_progress)
        except _Answered:
            return
        except MCPError as problem:
            raise self._explained(problem, exchange) from None

    @contextlib.contextmanager
    def _on_the_way(self, exchange: _Exchange) -> Iterator[None]:
        if self.ended.is_set():
            raise ToolUnavailable(f"Server {self._server.name!r} is gone.", sent=False)
        token = _exchange.set(exchange)
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._line.unanswered.discard(exchange.id)
            _exchange.reset(token)

    def _explained(self, problem: MCPError, exchange: _Exchange) -> ToolError:
        name = self._server.name
        trouble = TransportProblem.of(problem.error.data) or TransportProblem.from_text(problem.error.message)
        if trouble is None and problem.error.message.startswith("SSE stream failed: Server-sent event exceeded"):
            trouble = TransportProblem("too_large", "")
        if (
            trouble is None
            and problem.error.code == types.PARSE_ERROR
            and problem.error.message.startswith("Failed to parse ")
        ):
            # The library's own words, which quote what it could not read.
            trouble = TransportProblem("malformed", "it is not a valid message")
        if trouble is None and problem.error.code == types.CONNECTION_CLOSED:
            sent = exchange.id in self._line.unanswered or not self._line.knows_what_was_sent
            why = self._line.complaint()
            return ToolUnavailable(
                f"Server {name!r} went away before it answered{f': {why}' if why else ''}.", sent=sent
            )
        if trouble is None:
            said = problem.error.message
            return ToolRejected(
                f"Server {name!r} refused: {said}", code=problem.error.code, data=problem.error.data, said=said
            )
        match trouble.kind:
            case "too_large":
                return too_large(self._server, trouble.size)
            case "malformed":
                return ResultMalformed(f"Server {name!r} gave an answer that cannot be read: {trouble.message}.")
            case "not_sent" | "session_gone":
                self.is_forgotten = trouble.kind == "session_gone"
                return ToolUnavailable(f"Server {name!r} cannot be reached: {trouble.message}.", sent=False)
            case _:
                return ToolUnavailable(f"Server {name!r} gave no answer: {trouble.message}.", sent=True)

    async def roots_changed(self) -> None:
        """Tell the server that the client's folders are others now. The newer protocol knows no such notice."""
        if not self.is_modern:
            await self._client.send_notification(types.RootsListChangedNotification())

    async def list_tools(self) -> Listing:
        """All pages of the listing, up to a limit.

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
                    refused.append(f"{tool.name!a} is listed twice; the first one counts")
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
        """A page as it came. The library sees the sound part of it: it has to know which arguments travel in
        headers.
        """
        exchange = _Exchange(next(self._ids), keep=_sound_tools)
        began = time.perf_counter()
        with self._on_the_way(exchange):
            try:
                seen = await self._client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            except MCPError as problem:
                raise self._explained(problem, exchange) from None
            except ValidationError:
                if not isinstance(exchange.answer.get("tools"), list):
                    raise ResultMalformed(
                        f"Server {self._server.name!r} gave a listing of tools that cannot be read."
                    ) from None
                return exchange.answer
            finally:
                self.latency = time.perf_counter() - began
        if not isinstance(exchange.answer.get("tools"), list):
            raise ResultMalformed(f"Server {self._server.name!r} gave a listing without tools.")
        sound = {tool.name for tool in seen.tools}
        # What the library left out breaks the rules for headers. A definition that cannot be read is left for
        # `read_tool` to name.
        return {**exchange.answer, "tools": [tool for tool in exchange.answer["tools"] if _is_known(tool, sound)]}

    async def changes(self, changed: Callable[[], None]) -> None:
        """Calls back when the server says that a list changed, for servers of the newer protocol; returns when it stops
        telling.
        """
        abilities = self._client.server_capabilities
        lists = (abilities.tools, abilities.prompts, abilities.resources) if abilities else (None, None, None)
        tools, prompts, resources = (bool(kind and kind.list_changed) for kind in lists)
        if not self.is_modern or not (tools or prompts or resources):
            return
        with contextlib.suppress(MCPError, SubscriptionLost, ListenNotSupportedError, TimeoutError):
            async with listen(
                self._client, tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
            ) as subscription:
                # What changed before the server listened to us, it told nobody.
                changed()
                async for _ in subscription:
                    changed()

    async def watch(self, uri: str, begun: Callable[[], None]) -> None:
        """Has the server tell of changes of a resource, as notifications; returns when it stops telling. `begun` is
        called once it listens.

        Raises:
            ToolError: It does not want to.
        """
        if self.is_modern:
            try:
                async with listen(self._client, resource_subscriptions=[uri]) as subscription:
                    begun()
                    async for _ in subscription:
                        pass  # what changed comes as a notification, like everything else a server tells
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


def _sound_tools(answer: dict[str, Any]) -> dict[str, Any]:
    listed = answer.get("tools")
    return {**answer, "tools": [tool for tool in listed if _is_sound(tool)]} if isinstance(listed, list) else answer


def _is_sound(tool: object) -> bool:
    if is_too_deep(tool):
        return False
    try:
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError:
        return False
    return True


def _is_known(tool: object, sound: set[str]) -> bool:
    return not _is_sound(tool) or (isinstance(tool, dict) and tool["name"] in sound)


def too_large(server: Server, size: int | None) -> ResultTooLarge:
    limit = server.options.max_result_bytes
    how_large = f"{size:,} bytes" if size else "more"
    return ResultTooLarge(
        f"The result was refused: it has {how_large}, and at most {limit:,} bytes are read from server "
        f"{server.name!r}. "
        "Ask for less: a narrower filter, fewer fields, a page of it. The operator can raise `max_result_bytes`.",
        limit=limit,
        size=size,
    )


async def _while_delivering(on_progress: Progress, work: Callable[[ProgressFnT], Awaitable[None]]) -> None:
    """Hands progress on in order, from a bounded queue: a chatty server cannot fill our memory, nor a slow listener
    hold up others.
    """
    into, out = anyio.create_memory_object_stream[tuple[float, float | None, str | None]](256)

    async def note(progress: float, total: float | None, message: str | None) -> None:
        with contextlib.suppress(anyio.WouldBlock, anyio.ClosedResourceError, anyio.BrokenResourceError):
            into.send_nowait((progress, total, message))

    async def deliver() -> None:
        async for step in out:
            try:
                await on_progress(*step)
            except Exception:  # noqa: BLE001
                # The listener's own affair; the call it listens to goes on.
                return

    failure: ToolError | None = None
    with into, out:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(deliver)
            try:
                await work(note)
            except ToolError as problem:
                # Raised outside the group, which would wrap it.
                failure = problem
            into.close()
            tasks.cancel_scope.deadline = anyio.current_time() + 1
    if failure:
        raise failure


@asynccontextmanager
async def opened(
    server: Server, *, notified: Notified, asked: Asked | None = None, environment: Mapping[str, str] | None = None
) -> AsyncIterator[UpstreamSession]:
    """A connection, negotiated and ready for requests. Servers are told that they may ask us only if somebody answers.

    Raises:
        ToolError: Why there is none.
    """

    async def hear(message: IncomingMessage) -> None:
        if isinstance(message, Exception):
            return
        data = message.model_dump(by_alias=True, mode="json", exclude_none=True)
        notified(data["method"], data.get("params") or {})

    async with _transport(server, environment) as line:
        inbox = Inbox(line.incoming)
        dispatcher = _Dispatcher(inbox, line.outgoing)
        dispatcher.asked = asked
        client = ClientSession(
            dispatcher=dispatcher,
            message_handler=hear,
            sampling_callback=_never_called if asked else None,
            elicitation_callback=_never_called if asked else None,
            list_roots_callback=_never_called if asked else None,
            client_info=types.Implementation(name="tersely", version=version("tersely")),
        )
        async with client:
            session = UpstreamSession(server, line, inbox, client)
            try:
                await _negotiate(client, server.options.protocol)
            except MCPError as problem:
                raise session._explained(problem, _Exchange(0)) from None
            except (ValidationError, RuntimeError) as problem:
                why = "its introduction cannot be read" if isinstance(problem, ValidationError) else str(problem)
                raise ToolUnavailable(
                    f"Server {server.name!r} speaks no protocol we know: {why}.", sent=False
                ) from None
            yield session


def _transport(server: Server, environment: Mapping[str, str] | None) -> AbstractAsyncContextManager[Line]:
    options, limit = server.options.transport, server.options.max_result_bytes
    match options.kind:
        case "stdio":
            return stdio.started(options, name=server.name, limit=limit, environment=environment)
        case "sse":
            return http.events(options, name=server.name, limit=limit)
        case _:
            return http.streamable(options, limit=limit)


async def _negotiate(client: ClientSession, protocol: str) -> None:
    """The newer protocol where the server knows it, else the handshake of the older."""
    if protocol == "handshake-first":
        try:
            await client.initialize()
        except (MCPError, ValidationError, RuntimeError) as problem:
            if isinstance(problem, MCPError) and not _may_be_other(problem):
                raise
            await client.discover()
        return
    if protocol != "2025-11-25":
        try:
            await client.discover()
        except (MCPError, ValidationError, RuntimeError) as problem:
            if protocol != "auto" or (isinstance(problem, MCPError) and not _may_be_other(problem)):
                raise
        else:
            return
    try:
        await client.initialize()
    except MCPError as problem:
        if protocol != "auto" or problem.error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
            raise
        # Slow to start: it took our first question after we had given it up, and has been a newer server since.
        await client.discover()


def _may_be_other(problem: MCPError) -> bool:
    """Whether a refusal only says that the server speaks the other era."""
    trouble = TransportProblem.of(problem.error.data) or TransportProblem.from_text(problem.error.message)
    if trouble is None:
        return problem.error.code != types.CONNECTION_CLOSED
    return trouble.kind == "http" and trouble.status in _WORTH_A_HANDSHAKE


def as_json(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that can be written to a wire.

    Raises:
        ToolError: They are not JSON.
    """
    try:
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise ToolError(
            "The arguments are not JSON: a number such as NaN, half a character, or a value of another kind."
        ) from None
    return dict(arguments)
