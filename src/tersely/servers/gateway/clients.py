"""Clients and their requests: where a server's notifications and requests are delivered.

A client of the older protocol stays connected and can be notified and asked at any
time; one of the newer protocol is a single request, and its notifications precede
its response. `upstreams` decides which client a message is for.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection as ClientConnection
from mcp.server.context import ServerRequestContext
from mcp.shared.dispatcher import Outbound
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tersely.errors import ToolRejected
from tersely.mcp.connect.supervisor import Connection
from tersely.results.spool import user_scope
from tersely.servers.gateway.call_limits import client_name
from tersely.servers.gateway.upstreams import Pool

Context = ServerRequestContext[Any, Any]

_INITIALIZE_SECONDS = 5.0
"""Some servers send requests as soon as they start, while the client still waits for our `initialize` response."""


@dataclass(eq=False)
class ConnectedClient:
    """A client of the older protocol, which stays connected."""

    connection: ClientConnection
    log_level: str = "debug"
    watched: set[tuple[Connection, str]] = field(default_factory=set)
    _outbox: deque[tuple[str, dict[str, Any]]] = field(default_factory=lambda: deque(maxlen=1_000))
    _has_messages: anyio.Event = field(default_factory=anyio.Event)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._outbox.append((method, params))
        self._has_messages.set()

    async def send_notifications(self) -> None:
        """Send the queued notifications until cancelled; one task per client, so that a slow one delays no other."""
        while True:
            await self._has_messages.wait()
            self._has_messages = anyio.Event()
            while self._outbox:
                method, params = self._outbox.popleft()
                await self.connection.notify(method, params or None)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request outside of any client request.

        Raises:
            ToolRejected: The client does not support the request, or refused it.
        """
        with anyio.move_on_after(_INITIALIZE_SECONDS):
            await self.connection.initialized.wait()
        if not self.connection.initialized.is_set():
            raise ToolRejected("The client is not initialized yet.", code=types.INVALID_REQUEST)
        return await _request(self.connection.client_capabilities, self.connection.send_raw_request, method, params)


class ClientRequest:
    """A client's request in progress; implements `RequestOrigin` of `upstreams`."""

    def __init__(self, context: Context, pool: Pool, client: object, start_soon: Callable[..., None]) -> None:
        self.context = context
        self.pool = pool
        self.client = client
        self.params: Mapping[str, Any] = context.params or {}
        self._start_soon = start_soon
        self._notifications: deque[tuple[str, dict[str, Any]]] = deque(maxlen=1_000)
        self._delivering = anyio.Lock()

    @property
    def is_modern(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def _outbound(self) -> Outbound:
        # The library's typed methods would parse and rebuild messages that are only passed on.
        outbound: Outbound = self.context.session._request_outbound
        return outbound

    def least_level(self) -> str | None:
        """The lowest log level the client wants; None for no log messages."""
        if self.is_modern:
            level = self.meta.get(types.LOG_LEVEL_META_KEY)
            return level if isinstance(level, str) else None
        return self.client.log_level if isinstance(self.client, ConnectedClient) else "debug"

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass on a server's notification for this request; delivered in order, before the response."""
        self._notifications.append((method, dict(params)))
        self._start_soon(self.flush)

    async def flush(self) -> None:
        # One that is being delivered is no longer queued, and the response must not overtake it.
        if not self._notifications and not self._delivering.locked():
            return
        async with self._delivering:
            while self._notifications:
                method, params = self._notifications.popleft()
                try:
                    await self._outbound.notify(method, params or None)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._notifications.clear()

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Pass on a server's request to the client.

        Raises:
            ToolRejected: The client does not support the request, or refused it.
        """
        await self.flush()
        return await _request(self.context.session.client_capabilities, self._outbound.send_raw_request, method, params)


def check_mode(capabilities: types.ClientCapabilities, method: str, params: Mapping[str, Any]) -> None:
    """Check that a client shows elicitations of this kind: forms, or web pages. Without a kind it shows forms.

    Raises:
        ToolRejected: It does not; with the code that the client itself would answer.
    """
    if method != "elicitation/create" or (declared := capabilities.elicitation) is None:
        return
    mode = params.get("mode") or "form"
    if declared.url is None if mode == "url" else declared.form is None and declared.url is not None:
        raise ToolRejected(f"The client does not support elicitation in {mode} mode.", code=types.INVALID_PARAMS)


async def _request(
    capabilities: types.ClientCapabilities | None,
    send: Callable[[str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]],
    method: str,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    capability = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}[
        method
    ]
    if capabilities is None or getattr(capabilities, capability) is None:
        raise ToolRejected(f"The client does not support {capability}.", code=types.METHOD_NOT_FOUND)
    check_mode(capabilities, method, params)
    try:
        return await send(method, dict(params) or None)
    except MCPError as refused:
        raise ToolRejected(refused.message, code=refused.code, data=refused.data) from None


def connection_of(ctx: Context) -> ClientConnection:
    # Private in the library; its state identifies a client that stays connected, and its exit stack closes with it.
    connection: ClientConnection = ctx.session._connection
    return connection


def scope_of(request: Any) -> str:
    """The scope that results are kept in: that of the token's owner, or of the user who runs the gateway."""
    name = client_name(request)
    return f"principal:{name}" if name else user_scope()
