"""Handles the clients' requests: routes each to the server it is for and translates the answer.

Runs as middleware before the library's own handlers, so that answers are passed on
as the servers wrote them: the library's models reject a whole result for one
unknown part, and parsing costs time on every call. Both eras of the protocol are
supported, and translated into each other as far as possible.

Routing is in `upstreams`, the translation of results in `results`.
"""

import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server as ProtocolServer
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp_types import methods as protocol_methods
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tersely.errors import (
    ConfigError,
    InputError,
    MaskingFailed,
    StoreUnavailable,
    ToolError,
    ToolForbidden,
    ToolNotFound,
    ToolRejected,
    ToolTimedOut,
)
from tersely.masking.clean import clean_json
from tersely.masking.mask import Masker
from tersely.mcp.connect.session import as_json
from tersely.mcp.connect.spool import SpooledAnswer
from tersely.mcp.connect.supervisor import Connection
from tersely.mcp.descriptions import without_secrets
from tersely.mcp.logins import LoginStore
from tersely.mcp.raw import check_depth
from tersely.mcp.servers import Server
from tersely.pipeline.admit import admit_value
from tersely.results.read_back_tool import READ_RESULT
from tersely.results.references import handles_in
from tersely.servers.gateway.call_limits import CallLimits, TooManyCalls, client_name
from tersely.servers.gateway.calls import CallResult, UpstreamCall
from tersely.servers.gateway.catalogue import Catalogue, ListingOptions, Offer, task_support
from tersely.servers.gateway.clients import ClientRequest, ConnectedClient, Context, connection_of, scope_of
from tersely.servers.gateway.counting import Counting
from tersely.servers.gateway.known_servers import KnownServers
from tersely.servers.gateway.parked import ParkedRequest, ParkedRequests
from tersely.servers.gateway.policies import Policies, admit_except, admit_message, admit_question
from tersely.servers.gateway.results import ResultTranslator
from tersely.servers.gateway.streams import Departure, ResumableStreams
from tersely.servers.gateway.tasks import OwnedTasks, created_task
from tersely.servers.gateway.tool_pins import ToolPins
from tersely.servers.gateway.upstreams import Pool, Upstreams, list_pages, runs_tasks

if TYPE_CHECKING:
    from tersely.servers.gateway.backend import Backend
    from tersely.servers.gateway.condensing import LargeResults

logger = logging.getLogger(__name__)

GONE = "tersely.gone"
"""ASGI scope key of the `Departure` of the client."""

LIST_SECONDS = 3.5
"""How long a listing waits for servers that were never seen before. Common clients give up after 5 seconds."""

GREETING_SECONDS = 0.2
"""How long `initialize` waits for such servers: a few milliseconds are enough for many, and then the client also gets
their instructions."""

LONGEST_CALL = 3_600.0
"""Seconds a call may take unless configured; clients have timeouts of their own."""

_MOST_ROUNDS = 10
"""Rounds of `input_required` answers to one request."""

_RESERVED = "io.modelcontextprotocol/"
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_ONE_ERA = ("resultType", "ttlMs", "cacheScope")
_ONE_ERA_PARAMS = ("inputResponses", "requestState")
_TASK_METHODS = frozenset(("tasks/get", "tasks/result", "tasks/cancel", "tasks/list"))
_LISTS: dict[str, ServerEvent] = {
    "notifications/prompts/list_changed": PromptsListChanged(),
    "notifications/resources/list_changed": ResourcesListChanged(),
}

Answer = dict[str, Any]


Handler = Callable[[ClientRequest], Awaitable[Answer]]


class Gateway:
    """Handles the protocol's requests; usable inside `running`.

    Args:
        load_backend: Opens what condenses and keeps results. Called for the first result that needs it.
        counting: Counts the calls.
        loads_early: Open it when the first client was greeted; if it cannot be opened, the gateway has failed.
        list_seconds: See `LIST_SECONDS`.
        greeting_seconds: See `GREETING_SECONDS`.
    """

    def __init__(
        self,
        servers: list[Server],
        *,
        policies: Policies,
        load_backend: "Callable[[], AbstractAsyncContextManager[Backend]]",
        counting: Counting,
        loads_early: bool = False,
        pins: ToolPins,
        known: KnownServers,
        listing: ListingOptions = ListingOptions(),  # noqa: B008 — frozen
        strict: bool = False,
        list_seconds: float = LIST_SECONDS,
        greeting_seconds: float = GREETING_SECONDS,
        logins: LoginStore | None = None,
        limits: CallLimits | None = None,
    ) -> None:
        self.limits = limits or CallLimits()
        self.policies = policies
        self.failed = anyio.Event()
        """Set when the backend cannot be used; `failure` is the reason."""

        self.failure: ConfigError | StoreUnavailable | None = None
        self.list_seconds = list_seconds
        self._greeting_seconds = greeting_seconds
        self.counting = counting
        self.results = ResultTranslator(policies, self._condenser)
        self._load_backend = load_backend
        self._loads_early = loads_early
        self._backend: Backend | None = None
        self._is_wanted = anyio.Event()
        self._is_loaded = anyio.Event()
        self._is_over = anyio.Event()
        self.upstreams = Upstreams(
            servers,
            listing=listing,
            pins=pins,
            known=known,
            strict=strict,
            logins=logins,
            on_notification=self._on_notification,
            on_request=self._on_server_request,
            on_tools_changed=self._on_tools_changed,
        )
        self.streams = ResumableStreams()
        self._owned_tasks = OwnedTasks()
        self._parked = ParkedRequests()
        self._bus = InMemorySubscriptionBus()
        self._clients: set[ConnectedClient] = set()
        self._only_client: ConnectedClient | None = None
        """The client on standard input and output, if that is served."""

        self._cleaned_identity: tuple[object, dict[str, Any]] = (None, {})
        self._watches: dict[tuple[Connection, str], tuple[int, anyio.CancelScope]] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._handlers: dict[str, Handler] = {
            "tools/list": self._list_tools,
            "tools/call": self._limited_call,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }
        self.protocol: ProtocolServer[Any] = ProtocolServer(
            "tersely-gateway",
            version=version("tersely"),
            get_tool_input_schema=self._input_schema,
            on_subscriptions_listen=ListenHandler(self._bus),
        )
        self.protocol.middleware[:] = [self]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks, self.upstreams.running():
            self._tasks = tasks
            tasks.start_soon(self._hold_backend)
            tasks.start_soon(self.counting.keep_storing)
            try:
                yield
            except Exception as problem:  # noqa: BLE001
                # Raised again outside the task group, which would wrap it.
                failure = problem
            finally:
                self._is_over.set()
                with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                    await self.counting.store()
                tasks.cancel_scope.cancel()
        if failure:
            raise failure

    async def backend(self) -> "Backend":
        """What condenses and keeps results; loaded at the first use.

        Raises:
            ConfigError, StoreUnavailable: The database cannot be used.
        """
        is_loaded = self._is_loaded
        self._is_wanted.set()
        await is_loaded.wait()
        if self._backend is None:
            assert self.failure is not None
            raise self.failure
        return self._backend

    async def prepare(self) -> None:
        """Load what has to be there before the first client.

        Raises:
            ConfigError, StoreUnavailable: The database cannot be used.
        """
        if self._loads_early:
            await self.backend()

    async def _hold_backend(self) -> None:
        while True:
            await self._is_wanted.wait()
            try:
                # Shielded, because a database cannot be closed under cancellation; `running` says when it is over.
                with anyio.CancelScope(shield=True):
                    async with self._load_backend() as backend:
                        self._backend = backend
                        self._is_loaded.set()
                        await self._is_over.wait()
                return
            except (ConfigError, StoreUnavailable) as failure:
                self.failure = failure
                # Asked again for the next result.
                is_loaded, self._is_loaded, self._is_wanted = self._is_loaded, anyio.Event(), anyio.Event()
                is_loaded.set()
                if self._loads_early:
                    self.failed.set()
                    return

    async def _condenser(self) -> "LargeResults":
        """What condenses results; without a usable database it keeps none, as the notes then say."""
        try:
            return (await self.backend()).condenser
        except (ConfigError, StoreUnavailable) as failure:
            logger.warning("results_not_kept", extra={"problem": str(failure)})
            from tersely.pipeline.process import Pipeline
            from tersely.servers.gateway.condensing import LargeResults

            return LargeResults(Pipeline(), self.policies)

    async def stop(self) -> None:
        """Stop the servers and store the usage, for when the process exits without leaving `running`."""
        await self.upstreams.stop()
        await self.counting.store()

    # Dispatch

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method == "ping":
            if ctx.method == "notifications/roots/list_changed" and self._only_client:
                await self._roots_changed()
            return await call_next(ctx)
        if ctx.method == "initialize":
            return await self._initialize(ctx, call_next)
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        if ctx.method == "server/discover":
            return await self._discover(ctx, call_next)
        handler = self._handlers.get(ctx.method)
        if (
            handler is None
            and ctx.method in protocol_methods.SPEC_CLIENT_METHODS
            and ctx.method != "subscriptions/listen"
        ):
            return await call_next(ctx)
        self._check(ctx)
        pool = await self.upstreams.pool(is_modern=is_modern)
        if ctx.method != "tools/call":
            await pool.known(self.list_seconds)
        request = ClientRequest(ctx, pool, self._client_of(ctx), self._start_soon)
        if ctx.method == "subscriptions/listen":
            return await self._listen(request, call_next)
        answer = await self._while_connected(request, handler or self._pass_on)
        await request.flush()
        return _for_client_era(answer, request, self._identity(pool))

    def _check(self, ctx: Context) -> None:
        """Validate a request as the library would."""
        if ctx.method in protocol_methods.SPEC_CLIENT_METHODS:
            try:
                protocol_methods.validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            except KeyError:
                raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method) from None
        if not connection_of(ctx).initialize_accepted:
            raise MCPError(types.INVALID_PARAMS, "Invalid request parameters", "")

    async def _while_connected(self, request: ClientRequest, handler: Handler) -> Answer:
        """Answer a request; cancel the work if the client disconnects and does not return.

        The transport of the newer protocol cancels by itself.
        """
        http = request.context.request
        gone: Departure | None = None if request.is_modern or http is None else http.scope.get(GONE)
        if gone is None:
            return await self._answered(request, handler)
        work, watching = anyio.CancelScope(), anyio.CancelScope()

        async def watch() -> None:
            left: Departure | None = gone
            with watching:
                while left is not None:
                    await left.wait()
                    left = await self._returned(request)
                work.cancel()

        # The task that waits for its return begins when the client has left; few do.
        gone.call(lambda: self._start_soon(watch))
        try:
            with work:
                return await self._answered(request, handler)
        finally:
            gone.call(None)
            watching.cancel()
        raise MCPError(types.CONNECTION_CLOSED, "The client has disconnected.")

    async def _returned(self, request: ClientRequest) -> Departure | None:
        """Wait for a client that lost its stream; None if it cannot resume it or does not return in time."""
        session, number = connection_of(request.context).session_id, request.context.request_id
        if session is None or request.context.close_sse_stream is None:
            return None
        return await self.streams.returned(session, str(number))

    async def _answered(self, request: ClientRequest, handler: Handler) -> Answer:
        """Answer a request and translate our errors into the protocol's; the one place where they get codes."""
        masker = self.policies.of(_GATEWAY).masker
        try:
            return await handler(request)
        except ToolRejected as refusal:
            data = _admitted_or_none(refusal.data, masker)
            raise MCPError(refusal.code, admit_message(refusal.said, masker), data) from None
        except (ToolNotFound, ToolForbidden) as problem:
            raise MCPError(types.INVALID_PARAMS, admit_message(str(problem), masker)) from None
        except (ToolError, InputError, StoreUnavailable, ConfigError) as problem:
            raise MCPError(types.INTERNAL_ERROR, admit_message(str(problem), masker)) from None
        except MaskingFailed as failure:
            # Fail closed: what could not be masked is not shown, not even in an error message.
            logger.error("answer_dropped", extra={"method": request.context.method, "reason": str(failure)})
            raise MCPError(
                types.INTERNAL_ERROR, "The answer could not be checked for secrets and was dropped."
            ) from None

    def _start_soon(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(work)

    # Initialization and discovery

    async def _initialize(self, ctx: Context, call_next: CallNext) -> Answer:
        result = await call_next(ctx)
        assert isinstance(result, dict)
        connection = connection_of(ctx)
        # Before the servers start, because some send requests to the client immediately.
        if connection.has_standalone_channel and "tersely" not in connection.state and self._tasks is not None:
            client = ConnectedClient(connection)
            connection.state["tersely"] = client
            self._clients.add(client)
            if ctx.request is None:
                self._only_client = client
            sending = anyio.CancelScope()

            async def send() -> None:
                with sending:
                    await client.send_notifications()

            async def forget() -> None:
                sending.cancel()
                self._clients.discard(client)
                for connection, uri in client.watched:
                    self._unwatch(connection, uri)

            self._tasks.start_soon(send)
            connection.exit_stack.push_async_callback(forget)
        pool = await self._greeted(ctx, is_modern=False)
        return {**result, **self._introduction(pool), "serverInfo": self._identity(pool)}

    async def _discover(self, ctx: Context, call_next: CallNext) -> Answer:
        result = await call_next(ctx)
        assert isinstance(result, dict)
        pool = await self._greeted(ctx, is_modern=True)
        meta = {**(result.get("_meta") or {}), types.SERVER_INFO_META_KEY: self._identity(pool)}
        return {**result, **self._introduction(pool), "_meta": meta}

    async def _greeted(self, ctx: Context, *, is_modern: bool) -> Pool:
        """The servers as far as they are known at once; a client must not wait for a server that takes long."""
        declared: dict[str, Any] | None = None
        if ctx.request is None:
            # On standard input and output there is no other client, so servers may know what this one supports.
            params = ctx.params or {}
            meta = params.get("_meta") or {}
            declared = meta.get(types.CLIENT_CAPABILITIES_META_KEY) if is_modern else params.get("capabilities")
        pool = await self.upstreams.pool(is_modern=is_modern, declared=declared)
        await pool.known(self._greeting_seconds)
        if self._loads_early:
            # From now on, because loading takes the processor.
            self._is_wanted.set()
        return pool

    def _identity(self, pool: Pool) -> dict[str, Any]:
        """The server's own identity if there is only one; ours otherwise."""
        if pool.only and (info := pool.only.introduction.get("serverInfo")):
            if self._cleaned_identity[0] is not info:
                self._cleaned_identity = (info, _cleaned(dict(info)))
            return self._cleaned_identity[1]
        return self.protocol.server_info_stamp

    def _introduction(self, pool: Pool) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"tools": {"listChanged": True}}
        declared = [connection.introduction.get("capabilities") or {} for connection in pool.connections.values()]
        if any(not connection.known.is_set() for connection in pool.connections.values()):
            # A server that was never seen may have any of them; it answers for itself later.
            pool.was_guessed = True
            declared.append(_ANY_CAPABILITIES)
        for capability in ("prompts", "resources"):
            if any(capability in one for one in declared):
                capabilities[capability] = {"listChanged": True}
        if any((one.get("resources") or {}).get("subscribe") for one in declared):
            capabilities["resources"]["subscribe"] = True
        for capability in ("completions", "logging"):
            if any(capability in one for one in declared):
                capabilities[capability] = {}
        if not pool.is_modern and (with_tasks := [one["tasks"] for one in declared if one.get("tasks")]):
            own: dict[str, Any] = {name: {} for name in ("list", "cancel") if any(name in one for one in with_tasks)}
            capabilities["tasks"] = {**own, "requests": {"tools": {"call": {}}}}
        if pool.only:
            capabilities |= {
                name: _cleaned(declared[0][name]) for name in ("extensions", "experimental") if declared[0].get(name)
            }
        introduction: dict[str, Any] = {"capabilities": capabilities}
        texts = [(connection, _instructions(connection)) for connection in pool.connections.values()]
        if given := [text if pool.only else f"{connection.name}: {text}" for connection, text in texts if text]:
            introduction["instructions"] = "\n\n".join(given)
        return introduction

    def _client_of(self, ctx: Context) -> object:
        connection = connection_of(ctx)
        if (client := connection.state.get("tersely")) is not None:
            return client
        # On standard input and output there is one client of either era; over HTTP each connection is its own client.
        return self if ctx.request is None else connection

    # Requests to servers

    async def _ask(
        self,
        request: ClientRequest,
        connection: Connection,
        params: Mapping[str, Any],
        *,
        method: str = "",
        what: str = "",
        harmless: bool = True,
    ) -> Answer:
        """Send a client's request to a server and return the answer.

        If the answer asks for input and the client speaks the older protocol, the input is requested from the client
        and the request is sent again with it.

        Raises:
            ToolError: The server did not answer, or rejected the request.
        """
        # What is sent depends on the protocol that the server turns out to support.
        if not connection.tried.is_set():
            await connection.tried.wait()
        if request.is_modern and connection.protocol not in MODERN_PROTOCOL_VERSIONS:
            return await self._ask_older(request, connection, params, method=method, what=what, harmless=harmless)
        passed: dict[str, Any] = {**params, "_meta": self._meta(request, connection)}
        for _ in range(_MOST_ROUNDS):
            with request.pool.asking(connection, request):
                answer = await self._sent(
                    request, connection, passed, method=method, what=what, harmless=harmless, source=request
                )
            if request.is_modern or answer.get("resultType") != "input_required":
                return answer
            questions = answer.get("inputRequests")
            answers = {}
            for key, question in (questions if isinstance(questions, dict) else {}).items():
                if not isinstance(question, dict) or question.get("method") not in _QUESTIONS:
                    raise ToolRejected(
                        "The server requested input by a method that is not in the protocol.",
                        code=types.INVALID_REQUEST,
                    )
                answers[key] = await self._on_server_request(
                    connection.server, question["method"], question.get("params") or {}, request
                )
            passed = {**passed, "inputResponses": answers}
            if "requestState" in answer:
                passed["requestState"] = answer["requestState"]
        raise ToolRejected(f"The server requested input {_MOST_ROUNDS} times.", code=types.INTERNAL_ERROR)

    async def _ask_older(
        self, request: ClientRequest, connection: Connection, params: Mapping[str, Any], **how: Any
    ) -> Answer:
        """Send a request of the newer protocol to a server of the older one, which may ask the client in the middle.

        Raises:
            ToolError: The server did not answer, or rejected the request.
        """
        scope = scope_of(request.context.request)
        if (parked := self._parked.take(request, scope)) is None:
            parked = ParkedRequest(request)
            passed = {name: value for name, value in params.items() if name not in _ONE_ERA_PARAMS}
            passed["_meta"] = self._meta(request, connection)

            async def send() -> Answer:
                with request.pool.asking(connection, parked):
                    return await self._sent(request, connection, passed, source=parked, **how)

            async def run() -> None:
                await parked.run(send)

            self._start_soon(run)
        try:
            answer = await parked.outcome()
        except BaseException:
            # The client has left, so nobody will return for the answer.
            parked.scope.cancel()
            raise
        if answer.get("resultType") == "input_required":
            self._parked.park(parked, scope)
        return answer

    async def _sent(
        self,
        request: ClientRequest,
        connection: Connection,
        passed: dict[str, Any],
        *,
        method: str,
        what: str,
        harmless: bool,
        source: ClientRequest | ParkedRequest,
    ) -> Answer:
        """Send a request to a server; progress goes to the client request that waits for it."""
        options = connection.server.options
        on_progress = None
        if request.meta.get("progressToken") is not None:
            masker = self.policies.of(connection.server).masker

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                waiting = source.request if isinstance(source, ParkedRequest) else source
                await waiting.context.session.report_progress(
                    progress, total, admit_message(message, masker) if message else message
                )

        def on_detached() -> None:
            # A server that lets its stream be resumed later frees the client's, too.
            if not request.is_modern and (close := request.context.close_sse_stream) is not None:

                async def close_stream() -> None:
                    await close()

                self._start_soon(close_stream)

        answer = await connection.request(
            method or request.context.method,
            passed,
            what=what,
            on_detached=on_detached,
            timeout=options.timeout if "timeout" in options.model_fields_set else LONGEST_CALL,
            on_progress=on_progress,
            harmless=harmless,
        )
        check_depth(answer)
        return answer

    def _meta(self, request: ClientRequest, connection: Connection) -> dict[str, Any]:
        """The client's `_meta` without the entries for the connection to us; progress gets a token of our own."""
        meta = {
            name: value
            for name, value in request.meta.items()
            if name not in ("progressToken", types.PROTOCOL_VERSION_META_KEY)
            and (not name.startswith(_RESERVED) or request.is_modern)
        }
        if connection.protocol not in MODERN_PROTOCOL_VERSIONS:
            return {name: value for name, value in meta.items() if not name.startswith(_RESERVED)}
        if not request.is_modern:
            capabilities = request.context.session.client_capabilities
            meta[types.CLIENT_CAPABILITIES_META_KEY] = (
                capabilities.model_dump(by_alias=True, mode="json", exclude_none=True) if capabilities else {}
            )
            if isinstance(request.client, ConnectedClient):
                meta[types.LOG_LEVEL_META_KEY] = request.client.log_level
        return meta

    async def _pass_on(self, request: ClientRequest) -> Answer:
        """Pass on a request of an extension, if there is only one server to answer it."""
        if not request.is_modern and request.context.method in _TASK_METHODS and request.pool.supporting("tasks"):
            return await self._on_task(request)
        if request.pool.only is None:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", request.context.method)
        http, task = request.context.request, request.params.get("taskId")
        if (
            http is not None
            and task is not None
            and (named := http.headers.get(MCP_NAME_HEADER)) is not None
            and named != task
        ):
            # Checked here because the server only sees our header.
            raise MCPError(types.HEADER_MISMATCH, f"{MCP_NAME_HEADER} does not name the task that the request is about")
        answer = await self._ask(request, request.pool.only, request.params)
        call = self._call(request, request.pool.only.server, request.context.method, {})
        return await self.results.extension(answer, call)

    async def _on_task(self, request: ClientRequest) -> Answer:
        """Answer a request about a task of 2025-11-25."""
        scope = scope_of(request.context.request)
        if request.context.method == "tasks/list":
            shown = []
            for connection in request.pool.supporting("tasks"):
                if "list" in connection.introduction["capabilities"]["tasks"]:
                    call = self._call(request, connection.server, "tasks/list", {})
                    shown += [
                        await self.results.extension(task, call)
                        for task in await list_pages(connection, "tasks/list", "tasks")
                        if self._owned_tasks.owns(scope, task.get("taskId"), connection)
                    ]
            return {"tasks": shown}
        owned = self._owned_tasks.find(scope, request.params.get("taskId"))
        answer = await self._ask(request, owned.connection, request.params)
        if request.context.method != "tasks/result":
            return await self.results.extension(answer, owned.call)
        return (await self.results.tool_result(answer, owned.call)).result

    # Tools

    async def _list_tools(self, request: ClientRequest) -> Answer:
        request.pool.shown = request.pool.definitions()
        return {"tools": request.pool.shown}

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        pool = self.upstreams.pools.get(True)
        offer = pool.catalogue.offers.get(name) if pool else None
        return offer.definition["inputSchema"] if offer else None

    async def _limited_call(self, request: ClientRequest) -> Answer:
        try:
            with self.limits.slot(client_name(request.context.request)):
                return await self._call_tool(request)
        except TooManyCalls as refusal:
            return _failed(str(refusal)).result

    async def _call_tool(self, request: ClientRequest) -> Answer:
        name = request.params["name"]
        offer = request.pool.catalogue.offers.get(name)
        if offer is None and request.pool.catalogue.lazy and name == request.pool.catalogue.finder:
            query = str((request.params.get("arguments") or {}).get("query") or "")
            return {"content": [{"type": "text", "text": request.pool.catalogue.search(query)}], "isError": False}
        if offer is None and request.pool.catalogue.lazy and name == request.pool.catalogue.caller:
            request.params = _unwrapped(request.params, request.pool.catalogue)
            return await self._call_tool(request)
        if offer is None:
            if request.pool.catalogue.is_reader(name):
                return await self._read(request)
            # It may belong to a server that has not listed its tools yet.
            await request.pool.known(math.inf)
            try:
                tool = request.pool.registry.resolve(name)
            except ToolNotFound:
                # Where tools are found by searching, ours is the list that helps.
                if request.pool.catalogue.lazy or (unlisted := request.pool.unlisted(name)) is None:
                    raise
                # The server knows best what to answer; the name is not counted, because there could be any number.
                return (await self._called(request, unlisted)).result
            offer = request.pool.catalogue.offers[request.pool.registry.name_of(tool)]
        self.counting.own_tools(request.pool.catalogue.own_texts)
        began = time.perf_counter()
        try:
            outcome = await self._called(request, offer)
        except ToolRejected:
            self._count(offer, began, is_error=True)
            raise
        except MaskingFailed as failure:
            # Fail closed: what could not be masked is not shown, not even in an error message.
            logger.error(
                "result_dropped", extra={"server": offer.tool.server, "tool": offer.tool.name, "reason": str(failure)}
            )
            outcome = _failed(f"The result of {name} could not be checked for secrets and was dropped.")
        except (ToolError, InputError, StoreUnavailable) as problem:
            outcome = _failed(admit_message(str(problem), self.policies.of(_GATEWAY).masker))
        self._count(
            offer,
            began,
            text=outcome.text,
            is_error=outcome.is_error,
            **outcome.statistics,
        )
        return outcome.result

    def _count(self, offer: Offer, began: float, **what: Any) -> None:
        self.counting.call(
            offer.tool.server, offer.tool.name, milliseconds=(time.perf_counter() - began) * 1000, **what
        )

    async def _called(self, request: ClientRequest, offer: Offer) -> CallResult:
        tool = offer.tool
        connection = request.pool.connections[tool.server]
        params: dict[str, Any] = {**request.params, "name": tool.name}
        looking_for = ""
        arguments: dict[str, Any] = {}
        if isinstance(given := params.get("arguments"), dict):
            arguments = {key: value for key, value in given.items() if key != offer.intent}
            # Models send null for an omitted argument, and a list for several intents.
            wanted = given.get(offer.intent) if offer.intent else None
            looking_for = (", ".join(map(str, wanted)) if isinstance(wanted, list) else str(wanted or ""))[:2_000]
            whole = arguments
            if handles_in(arguments):
                kept = (await self.backend()).read_back.kept
                whole = await kept.expand(arguments, scope_of(request.context.request))
            params["arguments"] = as_json(whole)
        call = self._call(
            request,
            connection.server,
            tool.name,
            arguments,
            looking_for,
            has_output_schema="outputSchema" in offer.definition,
        )
        wants_task = params.pop("task", None) if not runs_tasks(connection) else params.get("task")
        if task_support(tool) == "required" and runs_tasks(connection):
            params.setdefault("task", {})
        raw = await self._ask(request, connection, params, what=tool.dotted, harmless=tool.read_only or tool.idempotent)
        if raw.get("resultType") not in (None, "complete"):
            return CallResult(result=self._unfinished(raw, connection.server))
        if (task_id := created_task(raw)) is not None:
            if wants_task is not None:
                self._owned_tasks.add(task_id, connection, call, request.client)
                return CallResult(result=await self.results.extension(raw, call))
            raw = await self._task_result(request, connection, task_id, tool.dotted)
        if isinstance(raw, SpooledAnswer):
            # Imported here, because it loads the pipeline.
            from tersely.servers.gateway.large_results import result_in_parts

            return await result_in_parts(raw, call, self.results.tool_result)
        return await self.results.tool_result(raw, call)

    async def _task_result(self, request: ClientRequest, connection: Connection, task_id: str, what: str) -> Answer:
        """The result of a task that the client does not know of: it waits as for any other call."""
        try:
            return await self._ask(request, connection, {"taskId": task_id}, method="tasks/result", what=what)
        except (anyio.get_cancelled_exc_class(), ToolTimedOut):
            with anyio.CancelScope(shield=True), anyio.move_on_after(2), suppress(ToolError):
                await connection.request("tasks/cancel", {"taskId": task_id}, timeout=2)
            raise

    def _unfinished(self, raw: Answer, server: Server) -> Answer:
        """An answer that asks the client for input or belongs to an extension; states and handles stay unchanged."""
        shown = {key: _cleaned(value) if key == "_meta" else value for key, value in raw.items()}
        questions = raw.get("inputRequests")
        if isinstance(questions, dict):
            masker = self.policies.of(server).result_masker
            shown["inputRequests"] = {
                key: {**one, "params": admit_question(str(one.get("method")), one["params"], masker)}
                if isinstance(one, dict) and isinstance(one.get("params"), dict)
                else one
                for key, one in questions.items()
            }
        return shown

    def _call(
        self,
        request: ClientRequest,
        server: Server,
        name: str,
        arguments: Any,
        looking_for: str = "",
        *,
        has_output_schema: bool = False,
    ) -> UpstreamCall:
        return UpstreamCall(
            server=server,
            tool=name,
            arguments=arguments,
            looking_for=looking_for,
            scope=scope_of(request.context.request),
            has_output_schema=has_output_schema,
            reader=request.pool.catalogue.reader,
        )

    async def _read(self, request: ClientRequest) -> Answer:
        """Read a kept result."""
        try:
            backend = await self.backend()
        except (ConfigError, StoreUnavailable) as problem:
            return _failed(admit_message(str(problem), self.policies.of(_GATEWAY).masker)).result
        scope = scope_of(request.context.request)
        name, arguments = request.params["name"], request.params.get("arguments") or {}
        own = READ_RESULT.name if name == request.pool.catalogue.reader else name
        status = 404
        try:
            answer = await backend.read_back.call(own, arguments, scope)
            found = await backend.read_back.kept.find(str(arguments.get("handle", "")), scope)
            status = 200
        except (InputError, StoreUnavailable) as problem:
            return _failed(admit_message(str(problem), self.policies.of(_GATEWAY).masker)).result
        finally:
            client = getattr(request.context.request, "client", None)
            await backend.audit(
                own, scope, str(arguments.get("handle", "")), address=client.host if client else "", status=status
            )
        self.counting.read_back(found.origin.server, found.origin.tool, answer.text)
        self.counting.own_tools(request.pool.catalogue.own_texts)
        shown = answer.text_for(request.pool.catalogue.reader)
        return {"content": [{"type": "text", "text": shown}], "isError": False}

    # Prompts, resources, completions

    async def _list_prompts(self, request: ClientRequest) -> Answer:
        answer = await self._listed(request, "prompts")
        if not request.pool.only:
            answer["prompts"] = [
                {**entry, "name": request.pool.prompt_name(connection, str(entry.get("name")))}
                for connection, entry in answer["prompts"]
            ]
        return answer

    async def _list_resources(self, request: ClientRequest) -> Answer:
        return self._without_names(request, "resources", await self._listed(request, "resources"))

    async def _list_templates(self, request: ClientRequest) -> Answer:
        return self._without_names(request, "resourceTemplates", await self._listed(request, "resourceTemplates"))

    def _without_names(self, request: ClientRequest, key: str, answer: Answer) -> Answer:
        return answer if request.pool.only else {**answer, key: [entry for _, entry in answer[key]]}

    async def _listed(self, request: ClientRequest, key: str) -> Answer:
        """The page of a single server; for several servers, all entries in one page, each with its connection."""
        capability = "prompts" if key == "prompts" else "resources"
        request.pool.asked.add(capability)
        if not request.pool.supporting(capability):
            if request.pool.was_guessed:
                return {key: []}
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", request.context.method)
        if request.pool.only:
            page: Answer = _cleaned(await self._ask(request, request.pool.only, request.params))
            shown: Answer = without_secrets(page, request.pool.only.server.options.data_masking)
            return shown
        entries = await request.pool.list_all(request.context.method, key)
        return {
            key: [
                (connection, without_secrets(_cleaned(entry), connection.server.options.data_masking))
                for connection, entry in entries
            ]
        }

    async def _get_prompt(self, request: ClientRequest) -> Answer:
        name = request.params["name"]
        found = request.pool.prompt(name) if request.pool.supporting("prompts") else None
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {str(name)[:200]}")
        connection, own = found
        began = time.perf_counter()
        raw = await self._ask(request, connection, {**request.params, "name": own})
        if raw.get("resultType") not in (None, "complete"):
            return self._unfinished(raw, connection.server)
        call = self._call(request, connection.server, own, request.params.get("arguments") or {})
        return self._counted(await self.results.prompt(raw, call), connection.server, "prompts/get", began)

    async def _read_resource(self, request: ClientRequest) -> Answer:
        connection = await self._resource(request, request.params["uri"])
        began = time.perf_counter()
        raw = await self._ask(request, connection, request.params)
        if raw.get("resultType") not in (None, "complete"):
            return self._unfinished(raw, connection.server)
        uri = request.params["uri"]
        call = self._call(request, connection.server, "resources/read", {"uri": uri})
        return self._counted(await self.results.resource(raw, call), connection.server, "resources/read", began)

    def _counted(self, outcome: CallResult, server: Server, what: str, began: float) -> Answer:
        """Count a resource or prompt under its method instead of a tool name; URIs and names would be too many."""
        self.counting.call(
            server.name,
            what,
            milliseconds=(time.perf_counter() - began) * 1000,
            text=outcome.text,
            **outcome.statistics,
        )
        return outcome.result

    async def _resource(self, request: ClientRequest, uri: str) -> Connection:
        if not request.pool.supporting("resources"):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", request.context.method)
        if (connection := await request.pool.resource(uri)) is None:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return connection

    async def _complete(self, request: ClientRequest) -> Answer:
        reference = dict(request.params["ref"])
        if not request.pool.supporting("completions"):
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", request.context.method)
        connection: Connection | None
        if reference.get("type") == "ref/prompt":
            found = request.pool.prompt(str(reference.get("name")))
            connection, reference["name"] = found or (None, "")
        else:
            connection = request.pool.only or await self._template(request, str(reference.get("uri")))
        if connection is None:
            raise MCPError(types.INVALID_PARAMS, "The reference does not match any prompt or resource.")
        answer: Answer = _cleaned(await self._ask(request, connection, {**request.params, "ref": reference}))
        return answer

    async def _template(self, request: ClientRequest, uri: str) -> Connection | None:
        for connection, entry in await request.pool.list_all("resources/templates/list", "resourceTemplates"):
            if entry.get("uriTemplate") == uri:
                return connection
        return await request.pool.resource(uri)

    # Subscriptions

    async def _subscribe(self, request: ClientRequest) -> Answer:
        uri = request.params["uri"]
        connection = await self._resource(request, uri)
        if isinstance(request.client, ConnectedClient) and (connection, uri) not in request.client.watched:
            await self._watch(connection, uri)
            request.client.watched.add((connection, uri))
        return {}

    async def _unsubscribe(self, request: ClientRequest) -> Answer:
        uri = request.params["uri"]
        connection = await self._resource(request, uri)
        if isinstance(request.client, ConnectedClient) and (connection, uri) in request.client.watched:
            request.client.watched.discard((connection, uri))
            self._unwatch(connection, uri)
        return {}

    async def _watch(self, connection: Connection, uri: str) -> None:
        """Subscribe to a resource of a server, once for all interested clients.

        Raises:
            ToolError: The server rejected the subscription.
        """
        count, scope = self._watches.get((connection, uri), (0, None))
        if scope is None:
            assert self._tasks is not None, "running() surrounds every request"
            scope = await self._tasks.start(self._hold_watch, connection, uri)
            count = self._watches.get((connection, uri), (0, None))[0]
        self._watches[connection, uri] = (count + 1, scope)

    async def _hold_watch(
        self, connection: Connection, uri: str, *, task_status: anyio.abc.TaskStatus[anyio.CancelScope]
    ) -> None:
        scope = anyio.CancelScope()
        is_started = False

        def started() -> None:
            nonlocal is_started
            if not is_started:
                is_started = True
                task_status.started(scope)

        with scope:
            try:
                await connection.watch(uri, started)
            except ToolError:
                if not is_started:
                    raise
                logger.warning("watch_lost", extra={"server": connection.name})

    def _unwatch(self, connection: Connection, uri: str) -> None:
        count, scope = self._watches.get((connection, uri), (0, None))
        if count > 1 and scope is not None:
            self._watches[connection, uri] = (count - 1, scope)
        elif scope is not None:
            del self._watches[connection, uri]
            scope.cancel()

    async def _listen(self, request: ClientRequest, call_next: CallNext) -> HandlerResult:
        """Serve the newer protocol's stream of changes; while it is open, subscribe to the resources it names."""
        wanted = request.params.get("notifications")
        uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
        watched: list[tuple[Connection, str]] = []
        try:
            for uri in dict.fromkeys(uri for uri in uris or () if isinstance(uri, str)):
                connection = await request.pool.resource(uri)
                if connection is None:
                    continue
                try:
                    await self._watch(connection, uri)
                except ToolError as problem:
                    logger.info("watch_refused", extra={"server": connection.name, "problem": type(problem).__name__})
                else:
                    watched.append((connection, uri))
            return await call_next(request.context)
        finally:
            for connection, uri in watched:
                self._unwatch(connection, uri)

    async def _set_level(self, request: ClientRequest) -> Answer:
        connections = request.pool.supporting("logging")
        if not connections:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", request.context.method)
        if isinstance(request.client, ConnectedClient):
            request.client.log_level = request.params["level"]
        for connection in connections:
            if connection.protocol not in MODERN_PROTOCOL_VERSIONS:
                await self._ask(request, connection, request.params)
        return {}

    async def _roots_changed(self) -> None:
        """Notify the servers that the roots of the only client changed."""
        for connection in {
            connection for pool in self.upstreams.pools.values() for connection in pool.connections.values()
        }:
            await connection.roots_changed()

    # Requests and notifications from servers

    async def _on_server_request(self, server: Server, method: str, params: dict[str, Any], caller: Any) -> Answer:
        """Pass a server's request on to the client and return its answer.

        Raises:
            ToolRejected: The client is unknown, does not support the request, or refused it.
        """
        receiver = caller or self._only_client
        if receiver is None:
            raise ToolRejected(
                "The request cannot be passed on: it is not clear which client it is for.", code=types.INVALID_REQUEST
            )
        try:
            question = admit_question(method, params, self.policies.of(server).result_masker)
        except MaskingFailed:
            raise ToolRejected(
                "The request could not be checked for secrets and was not passed on.", code=types.INVALID_REQUEST
            ) from None
        answer: Answer = await receiver.ask(method, question)
        return answer

    def _on_tools_changed(self, pool: Pool) -> None:
        # Clients saw these very tools already, if the listing of an earlier run is still right.
        if pool.shown == (now := pool.definitions()):
            return
        pool.shown = now if pool.shown is not None else None
        self._notify_all("notifications/tools/list_changed", ToolsListChanged())

    def _on_notification(
        self, pool: Pool, connection: Connection, method: str, params: dict[str, Any], caller: Any
    ) -> None:
        if isinstance(caller, ParkedRequest):
            caller = caller.request
        match method:
            case "notifications/progress" | "notifications/cancelled" | "notifications/tools/list_changed":
                return  # Progress has its own callback; changed tools are announced once they have been listed again.
            case "notifications/prompts/list_changed" | "notifications/resources/list_changed":
                self._notify_all(method, _LISTS[method])
            case "notifications/resources/updated":
                uri = str(params.get("uri"))
                self._publish(ResourceUpdated(uri=uri))
                for client in self._clients:
                    if (connection, uri) in client.watched:
                        client.notify(method, params)
            case "notifications/tasks/status":
                owner = self._owned_tasks.client_of(params.get("taskId"), connection)
                if isinstance(owner, ConnectedClient) and owner in self._clients:
                    with suppress(MaskingFailed):
                        owner.notify(
                            method, admit_except(params, ("taskId",), self.policies.of(connection.server).masker)
                        )
            case "notifications/message":
                self._on_logged(connection, params, caller)
            case _:
                # Some arrive after the request they belong to, e.g. that an elicitation on a web page is complete.
                receiver = caller if isinstance(caller, ClientRequest) else self._only_client
                shown = _admitted_or_none(_without_subscription(params), self.policies.of(connection.server).masker)
                if receiver is not None and shown is not None:
                    receiver.notify(method, shown)

    def _on_logged(self, connection: Connection, params: dict[str, Any], caller: Any) -> None:
        """Pass a log message on to the client request it belongs to, or to the client if there is only one."""
        receiver = (
            caller
            if isinstance(caller, ClientRequest)
            else next(iter(self._clients))
            if len(self._clients) == 1
            else None
        )
        if receiver is None:
            return
        least = receiver.least_level() if isinstance(receiver, ClientRequest) else receiver.log_level
        level = params.get("level")
        if (
            least is None
            or level not in _LEVELS
            or _LEVELS.index(level) < (_LEVELS.index(least) if least in _LEVELS else 0)
        ):
            return
        masker = self.policies.of(connection.server).masker
        if (shown := _admitted_or_none(params, masker)) is not None:
            receiver.notify("notifications/message", shown)

    def _notify_all(self, method: str, event: ServerEvent) -> None:
        self._publish(event)
        for client in self._clients:
            client.notify(method, {})

    def _publish(self, event: ServerEvent) -> None:
        async def publish() -> None:
            await self._bus.publish(event)

        self._start_soon(publish)


_QUESTIONS = frozenset(("sampling/createMessage", "elicitation/create", "roots/list"))
_ANY_CAPABILITIES = {
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
    "tasks": {"list": {}, "cancel": {}},
}
_GATEWAY = Server.model_validate({"name": "gateway", "options": {"transport": {"command": "none"}}})
"""For texts that belong to no configured server: masked with the default options."""


def _instructions(connection: Connection) -> str:
    own = str(_cleaned(connection.introduction.get("instructions") or ""))
    return "\n\n".join(text for text in (own, connection.server.options.instructions) if text)


def _without_subscription(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "_meta"}


def _admitted_or_none(value: Any, masker: Masker) -> Any:
    try:
        return admit_value(value, masker)
    except MaskingFailed:
        return None


def _unwrapped(params: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Any]:
    """The call that a `call_tool` asks for."""
    given = params.get("arguments") or {}
    name, arguments = str(given.get("name") or ""), given.get("arguments")
    inner: dict[str, Any] = dict(arguments) if isinstance(arguments, dict) else {}
    offer = catalogue.offers.get(name)
    if offer and offer.intent and given.get(catalogue.intent) is not None:
        inner.setdefault(offer.intent, given[catalogue.intent])
    return {**params, "name": name, "arguments": inner}


def _failed(message: str) -> CallResult:
    return CallResult(result={"content": [{"type": "text", "text": message}], "isError": True}, is_error=True)


def _for_client_era(answer: Answer, request: ClientRequest, identity: dict[str, Any]) -> Answer:
    """The answer with the fields that the client's protocol era requires, and without those it does not know."""
    if not request.is_modern:
        if not any(name in answer for name in _ONE_ERA):
            return answer
        return {name: value for name, value in answer.items() if name not in _ONE_ERA}
    more: Answer = {}
    if answer.get("resultType") is None:
        more["resultType"] = "complete"
    if request.context.method in protocol_methods.CACHEABLE_METHODS and answer.get("resultType") in (None, "complete"):
        more |= {name: value for name, value in (("ttlMs", 0), ("cacheScope", "private")) if name not in answer}
    meta = answer.get("_meta")
    if not isinstance(meta, dict) or meta.get(types.SERVER_INFO_META_KEY) is None:
        more["_meta"] = {**(meta if isinstance(meta, dict) else {}), types.SERVER_INFO_META_KEY: identity}
    return {**answer, **more} if more else answer


def _cleaned(value: Any) -> Any:
    """Text of a server about itself or its tools, without hidden characters."""
    return clean_json(value)[0]
