"""Records that `protocol` and `results` exchange: a call to a server, and its result for the client."""

from dataclasses import dataclass, field
from typing import Any

from tersely.mcp.servers import Server


@dataclass(frozen=True, kw_only=True)
class UpstreamCall:
    """A call to a server, and the scope of its caller."""

    server: Server
    tool: str
    """The tool's name on the server; the method for resources, the name for prompts."""

    arguments: Any
    looking_for: str = ""
    scope: str
    has_output_schema: bool = False
    """Whether the client was shown an output schema; its library then insists on structured content."""

    reader: str = "read_result"
    """The name under which this client sees the tool that reads kept results."""


@dataclass(frozen=True, kw_only=True)
class CallResult:
    """The result for the client, and the figures for the statistics."""

    result: dict[str, Any]
    is_error: bool = False
    text: str = ""
    """Text that was passed on without condensing; empty if it was condensed."""

    statistics: dict[str, Any] = field(default_factory=dict)
    """Of a condensed result; see `pipeline.meta.tally`."""
