"""A registry seen through what one caller may use: some servers, and of some only some tools.

Asked again with every call, so that nothing that was listed for somebody else, or
remembered from a prompt, can be called.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tersely.errors import ToolForbidden, ToolNotFound
from tersely.tools.raw import RawResult, Tool
from tersely.tools.registry import NamedTool, ToolRegistry
from tersely.tools.servers import Server

if TYPE_CHECKING:
    from tersely.tools.connect.supervisor import ServerStatus


class Restricted:
    """
    Args:
        servers: Names of the servers that may be used.
        tools: Of the servers named here, only these tools.
    """

    def __init__(self, registry: ToolRegistry, *, servers: Sequence[str], tools: Mapping[str, Sequence[str]]) -> None:
        self._registry = registry
        self._servers = tuple(name for name in dict.fromkeys(servers) if name in registry.connections)
        self._tools = tools

    def tools(self, servers: Sequence[str] | None = None) -> list[NamedTool]:
        """The tools that may be called, in the order of the servers."""
        return [
            named
            for named in self._registry.tools(self._servers)
            if self._is_allowed(named.tool) and (servers is None or named.tool.server in servers)
        ]

    def resolve(self, name: str) -> Tool:
        """The tool of that name, if it may be used.

        Raises:
            ToolNotFound: There is none here; the message says what there is.
            ToolForbidden: The configuration does not allow it.
        """
        try:
            tool = self._registry.resolve(name)
        except ToolNotFound:
            raise ToolNotFound(self._registry.not_found(name, self.tools(), self.statuses()), name=name) from None
        except ToolForbidden:
            if self._knows(name):
                raise
            raise ToolNotFound(self._registry.not_found(name, self.tools(), self.statuses()), name=name) from None
        if not self._is_allowed(tool):
            raise ToolNotFound(self._registry.not_found(name, self.tools(), self.statuses()), name=name)
        return tool

    def server(self, name: str) -> Server:
        return self._registry.server(name)

    def statuses(self) -> list["ServerStatus"]:
        return [status for status in self._registry.statuses() if status.name in self._servers]

    async def call(self, tool: Tool, arguments: Mapping[str, Any], *, on_progress: Callable[..., Any] | None = None) -> RawResult:
        if not self._is_allowed(tool):
            raise ToolForbidden(f"Tool {tool.dotted!r} is not among those that may be used here.", name=tool.dotted)
        return await self._registry.call(tool, arguments, on_progress=on_progress)

    def _is_allowed(self, tool: Tool) -> bool:
        return tool.server in self._servers and (tool.server not in self._tools or tool.name in self._tools[tool.server])

    def _knows(self, name: str) -> bool:
        """Whether a refused name is one of a server that may be used; others need not know that it exists."""
        return name.replace("__", ".").partition(".")[0] in self._servers
