"""The tools of all servers: list them, name them, and call them.

Every tool call goes through here. Filters and declarations are checked again with
every call, independent of earlier listings. The error for an unknown name lists the
known names and close matches, so that a model can correct itself. Results are raw;
cleaning, masking and keeping are the pipeline's responsibility.
"""

import difflib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tersely.errors import ToolForbidden, ToolNotFound
from tersely.mcp.raw import OnProgress, RawResult, Tool
from tersely.mcp.selection import is_selected, names_for_models, why_forbidden, why_unusable
from tersely.mcp.servers import Server

if TYPE_CHECKING:
    from tersely.mcp.connect.supervisor import Backoff, OnServerNotification, OnServerRequest, ServerStatus
    from tersely.mcp.logins import LoginStore

_SHOWN_NAMES = 40
"""Maximum number of names listed in the error for an unknown tool."""


class ServerConnection(Protocol):
    """A server that can be called; implemented by `connect.supervisor.Connection`."""

    server: Server
    tools: tuple[Tool, ...]

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult: ...

    def status(self) -> "ServerStatus": ...

    def retry(self) -> None: ...


def starting_servers(connections: Mapping[str, ServerConnection], names: Iterable[str]) -> list[str]:
    """Of these servers, those whose first start is under way: their tools are not known yet."""
    return [name for name in names if name in connections and connections[name].status().is_starting]


def missing_servers(connections: Mapping[str, ServerConnection], names: Iterable[str]) -> dict[str, str]:
    """Of these servers, those whose tools cannot be called at the moment, with the reason, if it is known."""
    missing: dict[str, str] = {}
    for name in names:
        if name not in connections:
            missing[name] = "not configured"
        elif not connections[name].tools and (status := connections[name].status()).state != "ready":
            missing[name] = status.last_error
    return missing


@dataclass(frozen=True)
class NamedTool:
    """A tool and the name by which it is called."""

    name: str
    """`server__tool`, as shown to models and clients."""

    tool: Tool


@dataclass(frozen=True)
class ListingChange:
    """The differences between two listings of a server."""

    server: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    redefined: tuple[str, ...] = ()
    """Known tools whose definition differs from the one first seen."""


class ToolRegistry:
    """The tools of a set of connections. Reads the connections on every access, so it is never out of date.

    Args:
        connections: By server name.
        keep_names: Keep the server's own tool names if there is only one server.
        obey_declarations: Refuse tools that `read_only` and `allow_destructive` do not allow. Off in the gateway, whose
            client asks its user.
        strict: Withhold tools whose definition changed after they were first seen, until `accept` is called.
        first_seen: Fingerprints of an earlier run by server and tool, to detect changes between runs.
    """

    def __init__(
        self,
        connections: Mapping[str, ServerConnection],
        *,
        keep_names: bool = False,
        obey_declarations: bool = True,
        strict: bool = False,
        first_seen: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.connections = connections
        self._keep_names = keep_names and len(connections) == 1
        self._obey = obey_declarations
        self._strict = strict
        self._seen_tools: dict[str, tuple[Tool, ...]] = {}
        self._named: dict[str, Tool] = {}
        self._reported: dict[str, dict[str, str]] = {name: {} for name in connections}
        self.first_seen: dict[str, dict[str, str]] = {
            name: dict((first_seen or {}).get(name, {})) for name in connections
        }
        """Fingerprints by server and tool, to compare later definitions with."""

    # Listing

    def tools(self, servers: Sequence[str] | None = None) -> list[NamedTool]:
        """The callable tools of all servers or of these, in the order of the servers and their listings."""
        return [
            NamedTool(name, tool)
            for name, tool in self._by_name().items()
            if (servers is None or tool.server in servers) and not self._refusal(tool)
        ]

    def resolve(self, name: str) -> Tool:
        """The tool of a name: `server__tool`, or `server.tool` as in configuration and prompts.

        With `keep_names`, the name is the server's own.

        Raises:
            ToolNotFound: There is no such tool; the message lists known names and close matches.
            ToolForbidden: The tool exists, and the configuration does not allow it.
        """
        named = self._by_name()
        own = name if self._keep_names else None
        found = (
            [named[name]]
            if name in named
            else [tool for tool in named.values() if name == tool.dotted or own == tool.name]
        )
        if len(found) != 1:
            raise ToolNotFound(self._not_found(name), name=name)
        return self._allowed(found[0], name)

    def server(self, name: str) -> Server:
        """The configuration of a server."""
        return self.connections[name].server

    def name_of(self, tool: Tool) -> str:
        """The name of this tool for models and clients."""
        return next(
            name for name, known in self._by_name().items() if (known.server, known.name) == (tool.server, tool.name)
        )

    def fingerprints(self) -> dict[str, str]:
        """Hashes of the definitions of all usable tools, by `server.tool`."""
        return {tool.dotted: tool.fingerprint for tool in self._by_name().values()}

    def refused(self) -> dict[str, str]:
        """The reasons why listed tools cannot be used, by `server.tool`."""
        reasons = {}
        for connection in self.connections.values():
            for tool in connection.tools:
                if why := why_unusable(tool):
                    reasons[tool.dotted] = why
        return reasons

    def statuses(self) -> list["ServerStatus"]:
        return [connection.status() for connection in self.connections.values()]

    def changes(self) -> list[ListingChange]:
        """The changes in the servers' listings since the previous call."""
        named = self._by_name().values()
        changes: list[ListingChange] = []
        for server, last in self._reported.items():
            own = [tool for tool in named if tool.server == server]
            current = {tool.name: tool.fingerprint for tool in own}
            change = ListingChange(
                server,
                added=tuple(name for name in current if name not in last),
                removed=tuple(name for name in last if name not in current),
                redefined=tuple(
                    tool.name for tool in own if self.is_redefined(tool) and last.get(tool.name) != tool.fingerprint
                ),
            )
            if change.added or change.removed or change.redefined:
                changes.append(change)
            self._reported[server] = current
        return changes

    def is_redefined(self, tool: Tool) -> bool:
        """Whether the definition differs from the one first seen and has not been accepted."""
        return self.first_seen[tool.server].get(tool.name, tool.fingerprint) != tool.fingerprint

    def accept(self, tool: Tool) -> None:
        """Accept the current definition of a redefined tool."""
        self.first_seen[tool.server][tool.name] = tool.fingerprint

    # Calling

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult:
        """Call a tool that `resolve` returned. The result is raw: neither cleaned nor masked.

        Raises:
            ToolError: There is no result; the message may quote the server and is not masked.
        """
        # The tool may have disappeared since, or may never have been callable.
        current = next(
            (known for known in self._by_name().values() if (known.server, known.name) == (tool.server, tool.name)),
            None,
        )
        if current is None:
            raise ToolNotFound(self._not_found(tool.dotted), name=tool.dotted)
        allowed = self._allowed(current, tool.dotted)
        return await self.connections[tool.server].call(
            allowed, arguments, timeout=timeout, on_progress=on_progress, meta=meta
        )

    def _by_name(self) -> dict[str, Tool]:
        listed = {name: connection.tools for name, connection in self.connections.items()}
        if listed != self._seen_tools:
            usable = [
                tool
                for name, tools in listed.items()
                for tool in tools
                if is_selected(tool.name, self.connections[name].server.options) and not why_unusable(tool)
            ]
            self._named = names_for_models(usable, keep=self._keep_names)
            self._seen_tools = listed
            for tool in usable:
                self.first_seen[tool.server].setdefault(tool.name, tool.fingerprint)
        return self._named

    def _allowed(self, tool: Tool, name: str) -> Tool:
        if refusal := self._refusal(tool):
            raise ToolForbidden(refusal, name=name)
        return tool

    def _refusal(self, tool: Tool) -> str | None:
        if self._strict and self.is_redefined(tool):
            return (
                f"The definition of tool {tool.dotted!r} has changed since it was first seen. The tool is withheld "
                "until the change is accepted."
            )
        return why_forbidden(tool, self.connections[tool.server].server.options) if self._obey else None

    def _not_found(self, name: str) -> str:
        shown = ascii(name) if len(name) <= 100 else f"{name[:100]!a}…"
        if not self.connections:
            return f"Tool {shown} does not exist: no server is configured, so there are no tools."
        names = [named.name for named in self.tools()]
        down = [
            status for status in self.statuses() if status.state != "ready" and not self.connections[status.name].tools
        ]
        away = "".join(
            f" Server {status.name!r} is not connected{f' ({status.last_error})' if status.last_error else ''}; "
            "its tools are missing."
            for status in down[:5]
        )
        if not names:
            return f"Tool {shown} does not exist, and no other tool is available at the moment.{away}"
        lowered = {known.lower(): known for known in names}
        tail = {known.rpartition("__")[2].lower(): known for known in names}
        wanted = _with_two_underscores(name)
        close = [lowered[near] for near in difflib.get_close_matches(wanted, list(lowered), n=3, cutoff=0.6)]
        close += [
            tail[near] for near in difflib.get_close_matches(wanted.rpartition("__")[2], list(tail), n=3, cutoff=0.75)
        ]
        nearest = list(dict.fromkeys(close))[:3]
        hint = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return f"Tool {shown} does not exist.{hint} There are: {', '.join(names[:_SHOWN_NAMES])}{more}.{away}"


def _with_two_underscores(name: str) -> str:
    """The name in lower case, with `__` for a dot, slash or colon that a model wrote between server and tool."""
    lowered = name[:200].lower()
    for separator in (".", "/", ":"):
        if separator in lowered and "__" not in lowered:
            return lowered.replace(separator, "__", 1)
    return lowered


@asynccontextmanager
async def registered(
    servers: Sequence[Server],
    *,
    keep_names: bool = False,
    obey_declarations: bool = True,
    strict: bool = False,
    first_seen: Mapping[str, Mapping[str, str]] | None = None,
    backoff: "Backoff | None" = None,
    on_change: Callable[[str], None] | None = None,
    on_notification: "OnServerNotification | None" = None,
    on_request: "OnServerRequest | None" = None,
    environment: Mapping[str, str] | None = None,
    logins: "LoginStore | None" = None,
    wait: float = 8.0,
    history: Callable[[Server], ServerConnection] | None = None,
) -> AsyncIterator[ToolRegistry]:
    """Connect to these servers and return a registry of their tools, for the duration of the block.

    Args:
        history: Makes the connection of a server of type `history`; without it, those are left out.
    """
    # Imported here, because the MCP SDK takes a second to load and a program without servers never needs it.
    from tersely.mcp.connect import supervisor

    options: dict[str, Any] = {
        "backoff": backoff,
        "on_change": on_change,
        "on_notification": on_notification,
        "on_request": on_request,
        "environment": environment,
        "logins": logins,
    }
    given = {name: value for name, value in options.items() if value is not None}
    async with supervisor.connected(servers, wait=wait, **given) as connections:
        mine = [one for one in servers if one.options.transport.kind == "history" and not one.options.disabled]
        own = {one.name: history(one) for one in mine} if history else {}
        yield ToolRegistry(
            {**connections, **own} if own else connections,
            keep_names=keep_names,
            obey_declarations=obey_declarations,
            strict=strict,
            first_seen=first_seen,
        )
