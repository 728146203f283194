"""Overrides of one alert: which servers, tools and native tools of the provider its session uses.

An override replaces the chain's servers; it never adds to them. One that may only
narrow is further limited to the servers of each agent. It is checked twice: when the
alert is submitted, so that the sender gets an error, and when the session runs,
because the configuration may have changed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tersely.errors import InputError
from tersely.llm.providers import NativeTools
from tersely.mcp.raw import Tool
from tersely.mcp.selection import is_selected, why_forbidden, why_unusable
from tersely.mcp.servers import Server
from tersely.sessions.near_names import did_you_mean

_CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

_SHOWN = 30


class ServerChoice(BaseModel):
    """A server that the session may use."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """As in the configuration."""

    tools: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=500)] | None = (
        None
    )
    """Only these of its tools; left out or empty, all of them."""


class Override(BaseModel):
    """Servers and native tools for one alert."""

    model_config = _CONFIG

    servers: Annotated[tuple[ServerChoice, ...], Field(min_length=1, max_length=100)] | None = None
    """Instead of the chain's servers; left out, the chain's are used."""

    native_tools: NativeTools | None = None
    """Tools that run at the model's provider: on, off, or (left out) as configured."""

    @model_validator(mode="after")
    def _is_not_empty(self) -> Self:
        if self.servers is None and self.native_tools is None:
            raise ValueError("names neither servers nor native_tools; leave it out to use what is configured")
        names = [server.name for server in self.servers or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"names the server {twice!r} twice")
        return self

    @property
    def restrictions(self) -> dict[str, tuple[str, ...]]:
        """The allowed tools of each server that restricts them."""
        return {server.name: server.tools for server in self.servers or () if server.tools}


class AcceptedOverride(Override):
    """An override as it is stored with its session."""

    narrows: bool = False
    """Whether each agent keeps to its own servers and native tools."""


@dataclass(frozen=True)
class OverrideProblem:
    """A field of an override and what is wrong with it."""

    field: str
    message: str


class Connected(Protocol):
    """A server and its tools at the moment."""

    @property
    def server(self) -> Server: ...

    @property
    def tools(self) -> tuple[Tool, ...]: ...


def mistakes(override: Override, servers: Mapping[str, Connected]) -> list[OverrideProblem]:
    """Servers and tools of the override that do not exist, or that the configuration denies to agents.

    Tools of a server that is down cannot be checked, and pass.
    """
    found: list[OverrideProblem] = []
    for number, choice in enumerate(override.servers or ()):
        if choice.name not in servers:
            known = f"There are: {_listed(sorted(servers))}." if servers else "No server is configured."
            hint = did_you_mean(choice.name, servers)
            said = f"There is no server {choice.name!r}.{hint} {known}"
            found.append(OverrideProblem(f"mcp.servers.{number}.name", said))
            continue
        link = servers[choice.name]
        offered = {
            tool.name: tool
            for tool in link.tools
            if is_selected(tool.name, link.server.options) and not why_unusable(tool)
        }
        refusals = {name: why for name, tool in offered.items() if (why := why_forbidden(tool, link.server.options))}
        for place, tool in enumerate(choice.tools or ()):
            if not link.tools or (tool in offered and tool not in refusals):
                continue
            usable = _listed(sorted(offered.keys() - refusals.keys()))
            message = refusals.get(tool) or (
                f"Server {choice.name!r} has no tool {tool!r}.{did_you_mean(tool, offered)} It has: {usable}."
            )
            found.append(OverrideProblem(f"mcp.servers.{number}.tools.{place}", message))
    return found


def additions(
    override: Override, servers: Collection[str], native_tools: Collection[str], *, chain: str
) -> list[OverrideProblem]:
    """What an override that may only narrow names beyond the servers and native tools of its chain."""
    reason = f"the chain {chain!r} does not use it, and this alert may only choose among what its chain uses"
    found = [
        OverrideProblem(f"mcp.servers.{number}.name", f"Server {choice.name!r}: {reason}.")
        for number, choice in enumerate(override.servers or ())
        if choice.name not in servers
    ]
    enabled = override.native_tools.enabled() if override.native_tools else ()
    return found + [
        OverrideProblem(f"mcp.native_tools.{name}", f"Native tool {name!r}: {reason}.")
        for name in enabled
        if name not in native_tools
    ]


def of_session(stored: Mapping[str, Any] | None, servers: Mapping[str, Connected]) -> AcceptedOverride | None:
    """The stored override of a session, checked against the present configuration.

    Raises:
        InputError: It names a server or tool that no longer exists.
    """
    if not stored:
        return None
    try:
        override = AcceptedOverride.model_validate(stored)
    except ValidationError:
        raise InputError("The alert's override cannot be read by this version.") from None
    if wrong := mistakes(override, servers):
        raise InputError(" ".join(mistake.message for mistake in wrong))
    return override


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
