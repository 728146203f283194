"""The servers behind the gateway: connections in the protocol the client speaks, and who of the clients is meant.

A server that knows both eras of the protocol is spoken to in the client's, over
a connection of its own, because what a server may ask and tell differs between
them. One that knows only one era has one connection, which all clients share.

What a server says on its own belongs to the request it says it for. Over HTTP the
library tells which one that is; on a pipe it is known as long as one client at a
time is waiting. Where it is not known, `door` decides whether anybody can be meant:
a question must not reach the wrong person.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread
from mcp.shared.uri_template import UriTemplate
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tersely.errors import ToolError, ToolRejected, ToolUnavailable
from tersely.mcp.connect.supervisor import Connection, connected
from tersely.mcp.registry import ToolRegistry
from tersely.mcp.servers import Server
from tersely.mcp.suspicion import suspicions
from tersely.servers.gateway.catalogue import Catalogue, IntentParameter, catalogue
from tersely.servers.gateway.tool_pins import ToolPins
from tersely.settings.environment import process_environment

logger = logging.getLogger(__name__)

_MOST_PAGES = 50
_MOST_ENTRIES = 5_000


class RequestOrigin(Protocol):
    """A client's request that is under way."""

    @property
    def client(self) -> object:
        """Whose it is; requests of one client have equal ones."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


OnNotification = Callable[["Pool", Connection, str, dict[str, Any], "RequestOrigin | None"], None]
"""Hears what a server tells on its own, and for which request, where that is known."""

Asked = Callable[[Server, str, dict[str, Any], "RequestOrigin | None"], Awaitable[dict[str, Any]]]
"""Answers what a server asks on its own, and for which request, where that is known."""

_caller: ContextVar[RequestOrigin | None] = ContextVar("caller", default=None)


@dataclass(eq=False)
class Pool:
    """The servers as clients of one era see them."""

    is_modern: bool
    intent: IntentParameter
    connections: dict[str, Connection] = field(default_factory=dict)
    registry: ToolRegistry = field(default_factory=lambda: ToolRegistry({}))
    busy: dict[Connection, list[RequestOrigin]] = field(default_factory=dict)
    _listed: tuple[object, ...] = ()
    _catalogue: Catalogue | None = None
    _resources: dict[str, Connection] = field(default_factory=dict)
    _templates: list[tuple[UriTemplate, Connection]] = field(default_factory=list)

    @property
    def catalogue(self) -> Catalogue:
        """What can be called now; made anew when a listing changed."""
        listed = tuple(connection.tools for connection in self.connections.values())
        if self._catalogue is None or any(now is not then for now, then in zip(listed, self._listed, strict=True)):
            self._catalogue = catalogue(self.registry, self.intent)
            self._listed = listed
        return self._catalogue

    @property
    def only(self) -> Connection | None:
        """The one server there is, if it is only one: then everything keeps its name."""
        return next(iter(self.connections.values())) if len(self.connections) == 1 else None

    def having(self, ability: str) -> list[Connection]:
        """The servers that declare an ability."""
        return [one for one in self.connections.values() if ability in (one.introduction.get("capabilities") or {})]

    @contextmanager
    def asking(self, connection: Connection, caller: RequestOrigin) -> Iterator[None]:
        """While a client's request is with a server."""
        callers = self.busy.setdefault(connection, [])
        callers.append(caller)
        token = _caller.set(caller)
        try:
            yield
        finally:
            _caller.reset(token)
            callers.remove(caller)

    def meant(self, connection: Connection) -> RequestOrigin | None:
        """For whom a server says what it says just now."""
        if (known := _caller.get()) is not None:
            return known
        waiting = self.busy.get(connection) or []
        return waiting[-1] if waiting and all(one.client == waiting[0].client for one in waiting) else None

    # Names of several servers

    def prompt_name(self, connection: Connection, name: str) -> str:
        return name if self.only else f"{connection.name}__{name}"

    def prompt(self, name: str) -> tuple[Connection, str] | None:
        """The server that a prompt belongs to, and its own name for it."""
        if self.only:
            return self.only, name
        fitting = [one for one in self.having("prompts") if name.startswith(f"{one.name}__")]
        best = max(fitting, key=lambda one: len(one.name), default=None)
        return (best, name.removeprefix(f"{best.name}__")) if best else None

    async def resource(self, uri: str) -> Connection | None:
        """The server that a resource belongs to: who listed it, or whose template fits; else who has resources at all,
        if one only.
        """
        if self.only:
            return self.only
        if (found := self._known_resource(uri)) is None:
            await self.list_all("resources/list", "resources")
            await self.list_all("resources/templates/list", "resourceTemplates")
            found = self._known_resource(uri)
        having = self.having("resources")
        return found or (having[0] if len(having) == 1 else None)

    def _known_resource(self, uri: str) -> Connection | None:
        if (listed := self._resources.get(uri)) is not None:
            return listed
        return next((connection for template, connection in self._templates if template.match(uri) is not None), None)

    async def list_all(self, method: str, key: str) -> list[tuple[Connection, dict[str, Any]]]:
        """All entries of all servers' listings, in the servers' order; of those that answer."""
        ability = "prompts" if key == "prompts" else "resources"
        asked = self.having(ability)
        found: dict[str, list[dict[str, Any]]] = {}

        async def ask(connection: Connection) -> None:
            try:
                found[connection.name] = await _pages(connection, method, key)
            except ToolError as problem:
                if not (isinstance(problem, ToolRejected) and problem.code == -32601):
                    logger.warning(
                        "listing_failed",
                        extra={"server": connection.name, "method": method, "problem": type(problem).__name__},
                    )

        async with anyio.create_task_group() as tasks:
            for connection in asked:
                tasks.start_soon(ask, connection)
        entries = [(connection, entry) for connection in asked for entry in found.get(connection.name, ())]
        self._learn(key, entries)
        return entries

    def _learn(self, key: str, entries: Sequence[tuple[Connection, dict[str, Any]]]) -> None:
        if key == "resources":
            self._resources = {}
            for connection, entry in entries:
                self._resources.setdefault(str(entry.get("uri")), connection)
        elif key == "resourceTemplates":
            self._templates = []
            for connection, entry in entries:
                try:
                    self._templates.append((UriTemplate.parse(str(entry.get("uriTemplate"))), connection))
                except ValueError:
                    continue


async def _pages(connection: Connection, method: str, key: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        params = {"cursor": cursor} if cursor else {}
        page = await connection.request(method, params, timeout=connection.server.options.list_timeout, harmless=True)
        listed = page.get(key)
        entries += [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        cursor = page.get("nextCursor") if isinstance(page.get("nextCursor"), str) else None
        if cursor is None or len(entries) > _MOST_ENTRIES:
            break
    return entries


class Upstreams:
    """Opens the pools, as clients of either era come.

    Args:
        wait: Seconds to wait for servers before a pool is used with those that are ready. A single server is waited for
            as long
            as it may take to start: without it there is nothing to say.
        strict: Withhold tools that are described otherwise than when they were first seen.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        intent: IntentParameter,
        seen: ToolPins,
        strict: bool = False,
        wait: float = 8.0,
        on_notification: OnNotification,
        asked: Asked,
        changed: Callable[[Pool], None],
    ) -> None:
        self.servers = [server for server in servers if not server.options.disabled]
        self.pools: dict[bool, Pool] = {}
        self.redefined: set[str] = set()
        """Tools that are described otherwise than when they were first seen, as `server.tool`."""

        self._intent = intent
        self._seen = seen
        self._strict = strict
        self._wait = max(wait, self.servers[0].options.start_timeout) if len(self.servers) == 1 else wait
        self._notify = on_notification
        self._asked = asked
        self._changed = changed
        self._openings: dict[bool, anyio.Event] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._suspected: set[str] = set()
        self._held: list[tuple[anyio.CancelScope, anyio.Event]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self._tasks = None

    async def stop(self) -> None:
        """End all connections, and the commands behind them."""
        for scope, _ in self._held:
            scope.cancel()
        for _, is_over in self._held:
            await is_over.wait()

    async def pool(self, *, is_modern: bool) -> Pool:
        """The servers for clients of this era; waits for them the first time.

        Raises:
            ToolUnavailable: We are about to end.
        """
        if (ready := self.pools.get(is_modern)) is not None:
            return ready
        if (opened := self._openings.get(is_modern)) is None:
            opened = self._openings[is_modern] = anyio.Event()
            assert self._tasks is not None, "running() surrounds every request"
            # Not in the task of who asks first: when that one hangs up, the others still want the servers.
            self._tasks.start_soon(self._hold, is_modern, opened)
        await opened.wait()
        if (ready := self.pools.get(is_modern)) is None:
            raise ToolUnavailable("The gateway is being stopped.", sent=False)
        return ready

    async def _hold(self, is_modern: bool, opened: anyio.Event) -> None:
        scope, is_over = anyio.CancelScope(), anyio.Event()
        self._held.append((scope, is_over))
        try:
            with scope:
                await self._open(is_modern, opened)
        finally:
            opened.set()
            is_over.set()

    async def _open(self, is_modern: bool, opened: anyio.Event) -> None:
        other = self.pools.get(not is_modern)
        shared = (
            {}
            if other is None
            else {name: one for name, one in other.connections.items() if not _knows_both(one, is_modern)}
        )
        pool = Pool(is_modern, self._intent)
        own = [_in_era(server, is_modern) for server in self.servers if server.name not in shared]
        async with connected(
            own,
            environment=process_environment(),
            wait=self._wait,
            on_change=partial(self._on_change, pool),
            on_notification=partial(self._on_notification, pool),
            on_request=partial(self._on_asked, pool),
        ) as connections:
            pool.connections = {
                server.name: shared.get(server.name) or connections[server.name] for server in self.servers
            }
            if other is not None:
                # What one client waits for on a shared connection is known in both pools.
                pool.busy = other.busy
            pool.registry = ToolRegistry(
                pool.connections,
                keep_names=True,
                obey_declarations=False,
                strict=self._strict,
                first_seen=self._seen.of(self.servers),
            )
            self._look_at(pool)
            self.pools[is_modern] = pool
            opened.set()
            await anyio.sleep_forever()

    def _on_change(self, pool: Pool, server: str) -> None:
        if server not in pool.connections:
            return  # still being opened; looked at when it is
        self._look_at(pool)
        self._changed(pool)

    def _on_notification(self, pool: Pool, server: str, method: str, params: dict[str, Any]) -> None:
        if (connection := pool.connections.get(server)) is not None:
            self._notify(pool, connection, method, params, pool.meant(connection))

    async def _on_asked(self, pool: Pool, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        connection = pool.connections.get(server)  # none yet while it is being opened
        asking = next(one for one in self.servers if one.name == server)
        return await self._asked(asking, method, params, pool.meant(connection) if connection is not None else None)

    def _look_at(self, pool: Pool) -> None:
        """Notice what is new and what is not what it was."""
        for change in pool.registry.changes():
            for tool in change.redefined:
                self.redefined.add(f"{change.server}.{tool}")
                logger.warning(
                    "tool_redefined",
                    extra={
                        "server": change.server,
                        "tool": tool,
                        "consequence": "withheld" if self._strict else "offered as it is now",
                    },
                )
        names = {named.tool.dotted: named for named in pool.registry.tools()}
        for dotted, named in names.items():
            if dotted in self._suspected:
                continue
            elsewhere = [other.tool.name for other in names.values() if other.tool.server != named.tool.server]
            if reasons := suspicions(named.tool, elsewhere):
                self._suspected.add(dotted)
                extra = {"server": named.tool.server, "tool": named.tool.name, "reasons": "; ".join(reasons[:3])}
                logger.warning("tool_suspicious", extra=extra)
        if self._tasks is not None:
            self._tasks.start_soon(
                self._remember, {name: dict(tools) for name, tools in pool.registry.first_seen.items()}
            )

    async def _remember(self, first_seen: dict[str, dict[str, str]]) -> None:
        await anyio.to_thread.run_sync(self._seen.remember, self.servers, first_seen)


def _in_era(server: Server, is_modern: bool) -> Server:
    if is_modern or server.options.protocol != "auto":
        return server
    return server.model_copy(update={"options": server.options.model_copy(update={"protocol": "handshake-first"})})


def _knows_both(connection: Connection, is_modern: bool) -> bool:
    """Whether a server that speaks the other era with us may speak this one too."""
    if connection.server.options.protocol not in ("auto", "handshake-first"):
        return False
    return (connection.protocol in MODERN_PROTOCOL_VERSIONS) != is_modern if connection.protocol else False
