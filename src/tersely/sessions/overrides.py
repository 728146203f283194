"""What one alert may change for itself: which servers and tools are used, and which of the provider's own tools.

An override replaces the chain's servers; it never adds to them. It is checked
twice against what exists: at the door, where whoever sent it can still mend it,
and again when the session runs, because the configuration may have changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tersely.errors import InputError
from tersely.llm.providers import NativeTools
from tersely.mcp.raw import Tool
from tersely.mcp.selection import is_selected, why_forbidden, why_unusable
from tersely.mcp.servers import Server

_CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

_SHOWN = 30


class ServerChoice(BaseModel):
    """One server that may be used."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """As in the configuration."""

    tools: (
        Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(min_length=1, max_length=500)]
        | None
    ) = None
    """Only these of its tools; left out, all of them."""


class Override(BaseModel):
    """Servers and native tools of one alert."""

    model_config = _CONFIG

    servers: Annotated[tuple[ServerChoice, ...], Field(min_length=1, max_length=100)] | None = None
    """Instead of the chain's servers; left out, the chain's are used."""

    native_tools: NativeTools | None = None
    """Tools that run at the model's provider: on, off, or (left out) as configured."""

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.servers is None and self.native_tools is None:
            raise ValueError("names neither servers nor native_tools; leave it out to use what is configured")
        names = [server.name for server in self.servers or ()]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"names the server {twice!r} twice")
        return self

    @property
    def restrictions(self) -> dict[str, tuple[str, ...]]:
        """The tools that may be used, of the servers that name some."""
        return {server.name: server.tools for server in self.servers or () if server.tools is not None}


@dataclass(frozen=True)
class OverrideProblem:
    """What is wrong with an override, and where."""

    field: str
    message: str


class Connected(Protocol):
    """What is known of a server's tools right now."""

    @property
    def server(self) -> Server: ...

    @property
    def tools(self) -> tuple[Tool, ...]: ...


def mistakes(override: Override, servers: Mapping[str, Connected]) -> list[OverrideProblem]:
    """What the override names and cannot be used: it does not exist, or the configuration does not let agents have it.

    Tools of a server that is down cannot be checked, and count as right.
    """
    found: list[OverrideProblem] = []
    for number, choice in enumerate(override.servers or ()):
        if choice.name not in servers:
            known = f"There are: {_listed(sorted(servers))}." if servers else "No server is configured."
            found.append(OverrideProblem(f"mcp.servers.{number}.name", f"There is no server {choice.name!r}. {known}"))
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
            message = refusals.get(tool) or f"Server {choice.name!r} has no tool {tool!r}. It has: {usable}."
            found.append(OverrideProblem(f"mcp.servers.{number}.tools.{place}", message))
    return found


def of_session(stored: Mapping[str, Any] | None, servers: Mapping[str, Connected]) -> Override | None:
    """The override that a session was accepted with, checked against what is configured now.

    Raises:
        InputError: It names what is not there any more.
    """
    if not stored:
        return None
    try:
        override = Override.model_validate(stored)
    except ValidationError:
        raise InputError("The alert's override cannot be read by this version.") from None
    if wrong := mistakes(override, servers):
        raise InputError(" ".join(mistake.message for mistake in wrong))
    return override


def unreachable(override: Override, servers: Mapping[str, Connected]) -> list[str]:
    """Servers the override names that offer nothing at the moment."""
    return [
        choice.name for choice in override.servers or () if choice.name in servers and not servers[choice.name].tools
    ]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
