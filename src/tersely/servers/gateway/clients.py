"""Clients and their requests: what a server's messages are delivered to.

A client of the older protocol stays connected and can be told and asked things at
any time; one of the newer is a request, and what belongs to it comes before its
answer. Which of them a message is for is `upstreams`' to find out.
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
from tersely.servers.gateway.upstreams import Pool

Context = ServerRequestContext[Any, Any]

_TO_INTRODUCE_ITSELF = 5.0
"""Seconds. Some servers ask as soon as they have started, while their client still waits for our own introduction."""


@dataclass(eq=False)
class ConnectedClient:
    """A client that stays connected, as those of the older protocol do."""

    connection: ClientConnection
    log_level: str = "debug"
    watched: set[tuple[Connection, str]] = field(default_factory=set)
    _waiting: deque[tuple[str, dict[str, Any]]] = field(default_factory=lambda: deque(maxlen=1_000))
    _news: anyio.Event = field(default_factory=anyio.Event)

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self._waiting.append((method, params))
        self._news.set()

    async def keep_telling(self) -> None:
        """One task for each client, so that a slow one delays nobody else."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            while self._waiting:
                method, params = self._waiting.popleft()
                await self.connection.notify(method, params or None)

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask outside of any request.

        Raises:
            ToolRejected: It cannot be asked, or refused.
        """
        with anyio.move_on_after(_TO_INTRODUCE_ITSELF):
            await self.connection.initialized.wait()
        if not self.connection.initialized.is_set():
            raise ToolRejected("The client is not ready to be asked.", code=types.INVALID_REQUEST)
        return await _answer(self.connection.client_capabilities, self.connection.send_raw_request, method, params)


class ClientRequest:
    """A client's request under way; the `Caller` of `upstreams`."""

    def __init__(self, context: Context, pool: Pool, client: object, start_soon: Callable[..., None]) -> None:
        self.context = context
        self.pool = pool
        self.client = client
        self.params: Mapping[str, Any] = context.params or {}
        self._start_soon = start_soon
        self._notes: deque[tuple[str, dict[str, Any]]] = deque(maxlen=1_000)
        self._delivering = anyio.Lock()

    @property
    def is_modern(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def _way(self) -> Outbound:
        # The library's typed ways would take apart and rebuild what is only to be passed on.
        way: Outbound = self.context.session._request_outbound
        return way

    def least_level(self) -> str | None:
        """From which level on the client wants to hear what is logged; None when not at all."""
        if self.is_modern:
            level = self.meta.get(types.LOG_LEVEL_META_KEY)
            return level if isinstance(level, str) else None
        return self.client.log_level if isinstance(self.client, ConnectedClient) else "debug"

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass on what a server told for this request. Delivered before the answer, in order."""
        self._notes.append((method, dict(params)))
        self._start_soon(self.flush)

    async def flush(self) -> None:
        if not self._notes:
            return
        async with self._delivering:
            while self._notes:
                method, params = self._notes.popleft()
                try:
                    await self._way.notify(method, params or None)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    self._notes.clear()

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the client what a server wants to know.

        Raises:
            ToolRejected: It cannot be asked, or refused.
        """
        await self.flush()
        return await _answer(self.context.session.client_capabilities, self._way.send_raw_request, method, params)


async def _answer(
    able: types.ClientCapabilities | None,
    send: Callable[[str, Mapping[str, Any] | None], Awaitable[dict[str, Any]]],
    method: str,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    wanted = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}[method]
    if able is None or getattr(able, wanted) is None:
        raise ToolRejected(f"The client does not offer {wanted}.", code=types.METHOD_NOT_FOUND)
    try:
        return await send(method, dict(params) or None)
    except MCPError as refusal:
        raise ToolRejected(refusal.message, code=refusal.code, data=refusal.data) from None


def connection_of(ctx: Context) -> ClientConnection:
    # The library keeps it to itself; its state and its end are what a client that stays is known by.
    connection: ClientConnection = ctx.session._connection
    return connection
