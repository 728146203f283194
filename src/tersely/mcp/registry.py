"""All tools of all servers under one roof: what there is, what it is called, and calling it.

The one place through which a tool is called. Filters and declarations are asked
again with every call, whatever was listed before. A name nobody knows is answered
so that a model can correct itself, and without any server it is still an error.
Results come back raw; cleaning, masking and keeping are `tools.execute`'s.
"""

import difflib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from tersely.errors import ToolForbidden, ToolNotFound
from tersely.mcp.raw import RawResult, Tool
from tersely.mcp.selection import is_selected, names_for_models, why_forbidden, why_unusable
from tersely.mcp.servers import Server

if TYPE_CHECKING:
    from tersely.mcp.connect.supervisor import Asked, Backoff, Notified, ServerStatus

Progress = Callable[[float, float | None, str | None], Awaitable[None]]

_SHOWN_NAMES = 40


class Link(Protocol):
    """A server that can be called: a `connect.supervisor.Connection`, or anything of that shape."""

    server: Server
    tools: tuple[Tool, ...]

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult: ...

    def status(self) -> "ServerStatus": ...


@dataclass(frozen=True)
class NamedTool:
    """A tool and the name it is called by."""

    name: str
    """`server__tool`, as models and clients see it."""

    tool: Tool


@dataclass(frozen=True)
class Changed:
    """What a new listing of a server brought."""

    server: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    redefined: tuple[str, ...] = ()
    """Known tools whose description or schema is another than when they were first seen."""


class ToolRegistry:
    """Looks at the connections anew with every question, so it is never out of date.

    Args:
        connections: By server name.
        keep_names: A single server's tools keep the names the server gave them.
        obey_declarations: Refuse what `read_only` and `allow_destructive` do not allow. The gateway does not: its
            client asks its user.
        strict: Withhold tools whose definition changed after they were first seen, until `accept`ed.
        first_seen: Fingerprints from an earlier run, by server and tool, so that a change in between is noticed too.
    """

    def __init__(
        self,
        connections: Mapping[str, Link],
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
        self._last_told: dict[str, dict[str, str]] = {name: {} for name in connections}
        self.first_seen: dict[str, dict[str, str]] = {
            name: dict((first_seen or {}).get(name, {})) for name in connections
        }
        """Fingerprints by server and tool; a later definition is measured against them."""

    # What there is

    def tools(self, servers: Sequence[str] | None = None) -> list[NamedTool]:
        """The tools that may be called, of all servers or of these, in the order of the servers and their listings."""
        return [
            NamedTool(name, tool)
            for name, tool in self._by_name().items()
            if (servers is None or tool.server in servers) and not self._refusal(tool)
        ]

    def resolve(self, name: str) -> Tool:
        """The tool of that name: `server__tool`, or `server.tool` as in configuration and prompts; a single server's by
        its own.

        Raises:
            ToolNotFound: There is none; the message says what there is, and what is close.
            ToolForbidden: It exists, and the configuration does not allow it.
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
        """What the operator said about a server."""
        return self.connections[name].server

    def name_of(self, tool: Tool) -> str:
        """What models and clients call this tool."""
        return next(
            name for name, known in self._by_name().items() if (known.server, known.name) == (tool.server, tool.name)
        )

    def fingerprints(self) -> dict[str, str]:
        """Of every usable tool, by `server.tool`; one changes when anything about the tool's definition does."""
        return {tool.dotted: tool.fingerprint for tool in self._by_name().values()}

    def refused(self) -> dict[str, str]:
        """Tools that servers list and nobody may use, by `server.tool`, and why."""
        reasons = {}
        for connection in self.connections.values():
            for tool in connection.tools:
                if why := why_unusable(tool):
                    reasons[tool.dotted] = why
        return reasons

    def statuses(self) -> list["ServerStatus"]:
        return [connection.status() for connection in self.connections.values()]

    def changes(self) -> list[Changed]:
        """What changed in the servers' listings since this was last asked."""
        named = self._by_name().values()
        news: list[Changed] = []
        for server, last in self._last_told.items():
            own = [tool for tool in named if tool.server == server]
            current = {tool.name: tool.fingerprint for tool in own}
            change = Changed(
                server,
                added=tuple(name for name in current if name not in last),
                removed=tuple(name for name in last if name not in current),
                redefined=tuple(
                    tool.name for tool in own if self.is_redefined(tool) and last.get(tool.name) != tool.fingerprint
                ),
            )
            if change.added or change.removed or change.redefined:
                news.append(change)
            self._last_told[server] = current
        return news

    def is_redefined(self, tool: Tool) -> bool:
        """Whether a tool is another than when it was first seen, and nobody has accepted that."""
        return self.first_seen[tool.server].get(tool.name, tool.fingerprint) != tool.fingerprint

    def accept(self, tool: Tool) -> None:
        """Take a redefined tool as it is now."""
        self.first_seen[tool.server][tool.name] = tool.fingerprint

    # Calling

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: Progress | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> RawResult:
        """Call a tool that `resolve` found. The result is raw: neither cleaned nor masked.

        Raises:
            ToolError: Why there is no result; its text may quote the server and is not masked.
        """
        # It may have vanished since, or never have been ours to call.
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

    # Inside

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
                f"Tool {tool.dotted!r} is described otherwise than when it was first seen, and withheld until "
                "somebody accepts that."
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
            (
                f" Server {status.name!r} is not connected{f' ({status.last_error})' if status.last_error else ''}; "
                "its "
                "tools are missing."
            )
            for status in down[:5]
        )
        if not names:
            return f"Tool {shown} does not exist, and no other does at the moment.{away}"
        lowered = {known.lower(): known for known in names}
        tail = {known.rpartition("__")[2].lower(): known for known in names}
        wanted = _as_meant(name)
        close = [lowered[near] for near in difflib.get_close_matches(wanted, list(lowered), n=3, cutoff=0.6)]
        close += [
            tail[near] for near in difflib.get_close_matches(wanted.rpartition("__")[2], list(tail), n=3, cutoff=0.75)
        ]
        nearest = list(dict.fromkeys(close))[:3]
        hint = f" Did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        return f"Tool {shown} does not exist.{hint} There are: {', '.join(names[:_SHOWN_NAMES])}{more}.{away}"


def _as_meant(name: str) -> str:
    """A name as a model may have meant it: with a dot, a slash or a colon between server and tool."""
    lowered = name[:200].lower()
    for sign in (".", "/", ":"):
        if sign in lowered and "__" not in lowered:
            return lowered.replace(sign, "__", 1)
    return lowered


@asynccontextmanager
async def registered(
    servers: Sequence[Server],
    *,
    keep_names: bool = False,
    obey_declarations: bool = True,
    strict: bool = False,
    first_seen: Mapping[str, Mapping[str, str]] | None = None,
    patience: "Backoff | None" = None,
    on_change: Callable[[str], None] | None = None,
    on_notification: "Notified | None" = None,
    on_request: "Asked | None" = None,
    environment: Mapping[str, str] | None = None,
    wait: float = 8.0,
) -> AsyncIterator[ToolRegistry]:
    """A registry over live connections to these servers, for as long as the block lasts."""
    # Imported here, because the protocol's library takes a second to load and a program without servers never needs it.
    from tersely.mcp.connect import supervisor

    how: dict[str, Any] = {
        "patience": patience,
        "on_change": on_change,
        "on_notification": on_notification,
        "on_request": on_request,
        "environment": environment,
    }
    given = {name: value for name, value in how.items() if value is not None}
    async with supervisor.connected(servers, wait=wait, **given) as connections:
        yield ToolRegistry(
            connections,
            keep_names=keep_names,
            obey_declarations=obey_declarations,
            strict=strict,
            first_seen=first_seen,
        )
