"""The servers behind the gateway: connections per protocol era, and which client request a server's message is for.

A remote server that supports both eras of the protocol gets one connection per era,
because the requests and notifications a server may send differ between them. A
server that supports one era has one connection, which all clients share; so has a
command, because a second process would have a state of its own. Its era is that of
the client that came first.

A server's own requests and notifications belong to a client request. Over HTTP the
library identifies it; on a pipe it is known while only one client is waiting.
Where it is not known, `protocol` decides whether a client can be asked: a request
must not reach the wrong client.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
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
from tersely.mcp.logins import LoginStore
from tersely.mcp.raw import read_tool
from tersely.mcp.registry import ToolRegistry
from tersely.mcp.selection import is_selected, why_unusable
from tersely.mcp.servers import Server
from tersely.mcp.suspicion import suspicions
from tersely.servers.gateway.catalogue import Catalogue, ListingOptions, Offer, catalogue
from tersely.servers.gateway.known_servers import KnownServers
from tersely.servers.gateway.tool_pins import ToolPins
from tersely.settings.environment import process_environment

logger = logging.getLogger(__name__)

_MOST_PAGES = 50
_MOST_ENTRIES = 5_000
_RELOAD_SECONDS = 8.0
"""How long a changed configuration waits for its new servers before clients hear of it."""


class RequestOrigin(Protocol):
    """A client's request in progress."""

    @property
    def client(self) -> object:
        """Identifies the client: equal for requests of one client."""

    def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]: ...


OnNotification = Callable[["Pool", Connection, str, dict[str, Any], "RequestOrigin | None"], None]
"""Receives a server's notification, with the client request it belongs to, if known."""

OnServerRequest = Callable[[Server, str, dict[str, Any], "RequestOrigin | None"], Awaitable[dict[str, Any]]]
"""Answers a server's request, given the client request it belongs to, if known."""

_caller: ContextVar[RequestOrigin | None] = ContextVar("caller", default=None)


@dataclass(eq=False)
class Pool:
    """The servers for clients of one protocol era."""

    is_modern: bool
    listing: ListingOptions
    declared: Mapping[str, Any] | None = None
    """What the client declared that these servers can ask, if there is only one client."""

    connections: dict[str, Connection] = field(default_factory=dict)
    registry: ToolRegistry = field(default_factory=lambda: ToolRegistry({}))
    busy: dict[Connection, list[RequestOrigin]] = field(default_factory=dict)
    opened_at: float = field(default_factory=anyio.current_time)
    shown: list[dict[str, Any]] | None = None
    """The tools as clients saw them last; None before the first listing."""

    listed: set[str] = field(default_factory=set)
    """The servers that have listed their tools."""

    is_strict: bool = False
    """Tools whose definition was never seen are not called."""

    was_guessed: bool = False
    """A client was told about capabilities that servers which had never been seen might have."""

    asked: set[str] = field(default_factory=set)
    """Of prompts and resources, what a client has listed; only that can have changed for it."""

    _listed: tuple[object, ...] = ()
    _catalogue: Catalogue | None = None
    _resources: dict[str, Connection] = field(default_factory=dict)
    _templates: list[tuple[UriTemplate, Connection]] = field(default_factory=list)

    @property
    def catalogue(self) -> Catalogue:
        """The tools that can be called now; rebuilt when a listing changes."""
        listed = tuple(connection.tools for connection in self.connections.values())
        if self._catalogue is None or any(now is not then for now, then in zip(listed, self._listed, strict=True)):
            self._catalogue = catalogue(self.registry, self.listing, with_tasks=self._with_tasks())
            self._listed = listed
        return self._catalogue

    async def known(self, seconds: float) -> None:
        """Wait until each server is ready, has failed, or is known from an earlier run; so long after the opening."""
        with anyio.CancelScope(deadline=self.opened_at + seconds):
            for connection in self.connections.values():
                await connection.known.wait()

    def definitions(self) -> list[dict[str, Any]]:
        """The listing for clients now, with a line about servers that are missing in it."""
        without_tools = {name: one.status() for name, one in self.connections.items() if not one.tools}
        starting = [name for name, status in without_tools.items() if status.state == "starting"]
        missing = [f"Still starting: {', '.join(starting)}; more tools will follow."] if starting else []
        missing += [status.last_error for status in without_tools.values() if status.needs_login]
        return self.catalogue.definitions(missing)

    @property
    def only(self) -> Connection | None:
        """The server if there is exactly one; names are then not prefixed."""
        return next(iter(self.connections.values())) if len(self.connections) == 1 else None

    def _with_tasks(self) -> frozenset[str]:
        """The servers whose calls a client of this era may run as tasks itself."""
        return (
            frozenset(one.name for one in self.supporting("tasks") if runs_tasks(one))
            if not self.is_modern
            else frozenset()
        )

    def supporting(self, capability: str) -> list[Connection]:
        """The servers that declare a capability."""
        return [one for one in self.connections.values() if capability in (one.introduction.get("capabilities") or {})]

    @contextmanager
    def asking(self, connection: Connection, caller: RequestOrigin) -> Iterator[None]:
        """Mark a client's request as waiting for this server."""
        callers = self.busy.setdefault(connection, [])
        callers.append(caller)
        token = _caller.set(caller)
        try:
            yield
        finally:
            _caller.reset(token)
            callers.remove(caller)

    def caller_of(self, connection: Connection) -> RequestOrigin | None:
        """The client request that a server's current message belongs to, if known."""
        if (known := _caller.get()) is not None:
            return known
        waiting = self.busy.get(connection) or []
        return waiting[-1] if waiting and all(one.client == waiting[0].client for one in waiting) else None

    # Names with several servers

    def unlisted(self, name: str) -> Offer | None:
        """A tool that its server does not list, so that the server answers the call; None if it must not be called."""
        if (found := self._owner(name, self.connections.values())) is None or self.is_strict:
            return None
        connection, own = found
        is_ready = connection.status().state == "ready"
        if (
            not is_ready
            or not is_selected(own, connection.server.options)
            or own in {one.name for one in connection.tools}
        ):
            return None
        if not own:
            return None
        tool = read_tool(connection.name, {"name": own, "inputSchema": {"type": "object"}})
        return None if why_unusable(tool) else Offer(tool, None, dict(tool.raw))

    def _owner(self, name: str, among: Iterable[Connection]) -> tuple[Connection, str] | None:
        """The one of these servers that a name with its prefix belongs to, and the name there."""
        if self.only:
            return self.only, name
        fitting = [one for one in among if name.startswith(f"{one.name}__")]
        best = max(fitting, key=lambda one: len(one.name), default=None)
        return (best, name.removeprefix(f"{best.name}__")) if best else None

    def prompt_name(self, connection: Connection, name: str) -> str:
        return name if self.only else f"{connection.name}__{name}"

    def prompt(self, name: str) -> tuple[Connection, str] | None:
        """The server of a prompt, and the prompt's name there."""
        return self._owner(name, self.supporting("prompts"))

    async def resource(self, uri: str) -> Connection | None:
        """The server that lists a resource or whose template matches, else the only one with resources."""
        if self.only:
            return self.only
        if (found := self._known_resource(uri)) is None:
            await self.list_all("resources/list", "resources")
            await self.list_all("resources/templates/list", "resourceTemplates")
            found = self._known_resource(uri)
        supporting = self.supporting("resources")
        return found or (supporting[0] if len(supporting) == 1 else None)

    def _known_resource(self, uri: str) -> Connection | None:
        if (listed := self._resources.get(uri)) is not None:
            return listed
        return next((connection for template, connection in self._templates if template.match(uri) is not None), None)

    async def list_all(self, method: str, key: str) -> list[tuple[Connection, dict[str, Any]]]:
        """All entries of the listings of all servers that answer, in the order of the servers."""
        asked = self.supporting("prompts" if key == "prompts" else "resources")
        found: dict[str, list[dict[str, Any]]] = {}

        async def ask(connection: Connection) -> None:
            try:
                found[connection.name] = await list_pages(connection, method, key)
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


async def list_pages(connection: Connection, method: str, key: str) -> list[dict[str, Any]]:
    """All entries of a listing of one server, up to a limit."""
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
    """Opens one pool per protocol era, when the first client of that era connects.

    Args:
        strict: Withhold tools whose definition differs from the one first seen.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        listing: ListingOptions,
        pins: ToolPins,
        known: KnownServers,
        strict: bool = False,
        logins: LoginStore | None = None,
        on_notification: OnNotification,
        on_request: OnServerRequest,
        on_tools_changed: Callable[[Pool], None],
    ) -> None:
        self.servers = [server for server in servers if not server.options.disabled]
        self.pools: dict[bool, Pool] = {}
        self.redefined: set[str] = set()
        """Tools whose definition differs from the one first seen, as `server.tool`."""

        self._listing = listing
        self._pins = pins
        self._known = known
        self._strict = strict
        self._logins = logins
        self._forward_notification = on_notification
        self._forward_request = on_request
        self._tools_changed = on_tools_changed
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
        """Close all connections and end the server processes."""
        for scope, _ in self._held:
            scope.cancel()
        for _, is_over in self._held:
            await is_over.wait()

    async def pool(self, *, is_modern: bool, declared: Mapping[str, Any] | None = None) -> Pool:
        """The servers for clients of this era; the first client makes them start, and does not wait for them.

        Args:
            declared: The capabilities of the client if there can be no other one.

        Raises:
            ToolUnavailable: The gateway is being stopped.
        """
        if (ready := self.pools.get(is_modern)) is not None:
            return ready
        if (opened := self._openings.get(is_modern)) is None:
            opened = self._openings[is_modern] = anyio.Event()
            assert self._tasks is not None, "running() surrounds every request"
            # In its own task, because other clients still need the servers when the first one disconnects.
            self._tasks.start_soon(self._hold, is_modern, opened, None, declared)
        await opened.wait()
        if (ready := self.pools.get(is_modern)) is None:
            raise ToolUnavailable("The gateway is being stopped.", sent=False)
        return ready

    async def reload(self, servers: Sequence[Server]) -> list[str]:
        """Use these servers from now on, and return the names of those that changed.

        A server whose connection is configured as before keeps it. Calls in flight at the others end before their
        connection does, and new calls wait for the new one.
        """
        before = {server.name: server for server in self.servers}
        self.servers = [server for server in servers if not server.options.disabled]
        now = {server.name: server for server in self.servers}
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if not changed:
            return []
        assert self._tasks is not None, "running() surrounds every reload"
        old = dict(self.pools)
        for is_modern, pool in old.items():
            kept = {
                name: connection
                for name, connection in pool.connections.items()
                if name in now and _connects_alike(before[name], now[name])
            }
            for name, connection in kept.items():
                connection.server = _in_era(now[name], is_modern)
            opened = anyio.Event()
            self._tasks.start_soon(self._hold, is_modern, opened, kept, pool.declared)
            await opened.wait()
            await self.pools[is_modern].known(_RELOAD_SECONDS)
        in_use = {id(one) for pool in self.pools.values() for one in pool.connections.values()}
        retired = {id(one): (pool, one) for pool in old.values() for one in pool.connections.values()}
        for identity, (pool, connection) in retired.items():
            if identity not in in_use:
                self._tasks.start_soon(self._retire, pool, connection)
        for pool in self.pools.values():
            self._tools_changed(pool)
        return changed

    async def _retire(self, pool: Pool, connection: Connection) -> None:
        """Close a connection once no call waits for it."""
        with anyio.move_on_after(connection.server.options.timeout):
            while pool.busy.get(connection):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        connection.close()

    async def _hold(
        self,
        is_modern: bool,
        opened: anyio.Event,
        kept: Mapping[str, Connection] | None,
        declared: Mapping[str, Any] | None,
    ) -> None:
        scope, is_over = anyio.CancelScope(), anyio.Event()
        self._held.append((scope, is_over))
        try:
            with scope:
                await self._open(is_modern, opened, kept or {}, declared)
        finally:
            opened.set()
            is_over.set()

    async def _open(
        self,
        is_modern: bool,
        opened: anyio.Event,
        kept: Mapping[str, Connection],
        declared: Mapping[str, Any] | None,
    ) -> None:
        other = self.pools.get(not is_modern)
        before = self.pools.get(is_modern)
        shared = (
            {}
            if other is None
            else {name: one for name, one in other.connections.items() if not _supports_both(one, is_modern)}
        )
        wanted = {server.name for server in self.servers}
        shared = {name: one for name, one in {**shared, **kept}.items() if name in wanted}
        pool = Pool(is_modern, self._listing, declared, is_strict=self._strict)
        own = [_in_era(server, is_modern) for server in self.servers if server.name not in shared]
        last_known = {
            server.name: known
            for server in own
            if (known := self._known.load(server, is_modern=is_modern, declared=declared))
        }
        async with connected(
            own,
            environment=process_environment(),
            logins=self._logins,
            spools=True,
            wait=0,
            last_known=last_known,
            declared=declared,
            on_change=partial(self._on_change, pool),
            on_notification=partial(self._on_notification, pool),
            on_request=partial(self._on_request, pool),
        ) as connections:
            pool.connections = {
                server.name: shared.get(server.name) or connections[server.name] for server in self.servers
            }
            if before is not None:
                pool.busy = before.busy
            elif other is not None:
                # Requests that wait for a shared connection are known in both pools.
                pool.busy = other.busy
            pool.registry = ToolRegistry(
                pool.connections,
                keep_names=True,
                obey_declarations=False,
                strict=self._strict,
                first_seen=self._pins.of(self.servers),
            )
            self.pools[is_modern] = pool
            opened.set()
            await anyio.sleep_forever()

    def _on_change(self, pool: Pool, server: str) -> None:
        pool = self._current(pool)
        if (connection := pool.connections.get(server)) is None:
            return  # no longer configured
        # Both eras may share the connection.
        for one in {id(one): one for one in (pool, *self.pools.values())}.values():
            if one.connections.get(server) is connection:
                self._check_tools(one)
                is_first = server not in one.listed
                one.listed.add(server)
                # A client that has not asked for the tools yet need not hear that a server has started.
                if not (is_first and one.shown is None):
                    self._tools_changed(one)
                if is_first and one.was_guessed:
                    self._announce_lists(one, connection)
        configured = self._configured(server)
        if self._tasks is not None and configured is not None:
            save = partial(
                self._known.save,
                configured,
                dict(connection.introduction),
                connection.tools,
                is_modern=pool.is_modern,
                declared=pool.declared,
            )
            self._tasks.start_soon(anyio.to_thread.run_sync, save)

    def _announce_lists(self, pool: Pool, connection: Connection) -> None:
        """Tell clients about the prompts and resources of a server that nothing was known of when they came."""
        for capability in ("prompts", "resources"):
            if capability in pool.asked and capability in (connection.introduction.get("capabilities") or {}):
                method = f"notifications/{capability}/list_changed"
                self._forward_notification(pool, connection, method, {}, None)

    def _configured(self, name: str) -> Server | None:
        return next((server for server in self.servers if server.name == name), None)

    def _current(self, pool: Pool) -> Pool:
        """The pool that replaced this one, if the configuration was reloaded."""
        return self.pools.get(pool.is_modern, pool)

    def _on_notification(self, pool: Pool, server: str, method: str, params: dict[str, Any]) -> None:
        pool = self._current(pool)
        if (connection := pool.connections.get(server)) is not None:
            self._forward_notification(pool, connection, method, params, pool.caller_of(connection))

    async def _on_request(self, pool: Pool, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        connection = self._current(pool).connections.get(server)
        sender = self._configured(server)
        if sender is None:
            raise ToolRejected(f"Server {server!r} is no longer configured.", code=-32601)
        caller = pool.caller_of(connection) if connection is not None else None
        return await self._forward_request(sender, method, params, caller)

    def _check_tools(self, pool: Pool) -> None:
        """Log redefined and suspicious tools, and remember new ones."""
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
        await anyio.to_thread.run_sync(self._pins.remember, self.servers, first_seen)


def runs_tasks(connection: Connection) -> bool:
    """Whether a server runs tool calls as tasks of 2025-11-25."""
    if connection.protocol in MODERN_PROTOCOL_VERSIONS:
        return False
    declared = (connection.introduction.get("capabilities") or {}).get("tasks") or {}
    return "call" in ((declared.get("requests") or {}).get("tools") or {})


def _in_era(server: Server, is_modern: bool) -> Server:
    if is_modern or server.options.protocol != "auto":
        return server
    return server.model_copy(update={"options": server.options.model_copy(update={"protocol": "handshake-first"})})


def _connects_alike(before: Server, now: Server) -> bool:
    """Whether a connection made for one configuration of a server can be used with the other."""
    return all(
        getattr(before.options, name) == getattr(now.options, name)
        for name in ("transport", "protocol", "max_result_bytes", "max_spooled_bytes")
    )


def _supports_both(connection: Connection, is_modern: bool) -> bool:
    """Whether a server that is connected in the other era may get a second connection, in this one."""
    options = connection.server.options
    if options.protocol not in ("auto", "handshake-first") or options.transport.kind == "stdio":
        return False
    return (connection.protocol in MODERN_PROTOCOL_VERSIONS) != is_modern if connection.protocol else False
