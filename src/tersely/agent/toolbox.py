"""What one agent may call: the tools of its servers, as far as the assignment lets it, and those that read kept
results.

Looks at the registry anew with every question. A name that is not offered is
answered with what is, never with what other agents have.
"""

import difflib
from dataclasses import dataclass, replace

from tersely.agent.assignment import Assignment
from tersely.errors import ToolForbidden, ToolNotFound
from tersely.llm.messages import ToolSpec
from tersely.mcp.descriptions import without_secrets
from tersely.mcp.raw import Tool
from tersely.mcp.registry import NamedTool, ToolRegistry
from tersely.results.read_back import TOOLS, ReadBackTool

OURS = "tersely"
"""What the timeline calls the server of the tools that read kept results."""

_SHOWN = 40


@dataclass(frozen=True)
class Toolbox:
    registry: ToolRegistry
    assignment: Assignment

    def tools(self) -> list[NamedTool]:
        """What the servers offer to this agent."""
        return [named for named in self.registry.tools(self.assignment.servers) if self._is_granted(named.tool)]

    def described(self) -> list[NamedTool]:
        """The same in words that a model may read: what a server says of its tools is masked as what its tools say."""
        described: list[NamedTool] = []
        for named in self.tools():
            _, masking = self.registry.server(named.tool.server).options.policy(named.tool.name)
            said = {"description": named.tool.description, "schema": named.tool.input_schema}
            safe = without_secrets(said, masking)
            tool = replace(named.tool, description=safe["description"], input_schema=safe["schema"])
            described.append(replace(named, tool=tool))
        return described

    def specs(self) -> list[ToolSpec]:
        """Everything that may be called, as a model is told of it."""
        return [
            *(ToolSpec(named.name, named.tool.description, named.tool.input_schema) for named in self.described()),
            *(ToolSpec(tool.name, tool.description, tool.schema) for tool in TOOLS),
        ]

    def find(self, name: str) -> Tool | ReadBackTool:
        """The tool that is meant by `server__tool`, `server.tool`, or by its own name where only one has it.

        Raises:
            ToolNotFound: Nothing of that name is offered; says what is.
            ToolForbidden: It exists on a server of this agent, and the configuration does not let it be called.
        """
        wanted = name.strip().strip("`\"'*").removesuffix("()")
        for tool in TOOLS:
            if wanted.removeprefix(f"{OURS}.").removeprefix(f"{OURS}__").lower() == tool.name:
                return tool
        offered = self.tools()
        for named in offered:
            if wanted in (named.name, named.tool.dotted):
                return named.tool
        alone = [named.tool for named in offered if named.tool.name.lower() == wanted.lower()]
        if len(alone) == 1:
            return alone[0]
        self._check_forbidden(wanted)
        raise ToolNotFound(self._not_found(name, offered), name=name[:200])

    def _check_forbidden(self, name: str) -> None:
        dotted = {name, *(f"{server}.{name}" for server in self.assignment.servers)}
        for candidate in sorted(dotted):
            try:
                self.registry.resolve(candidate)
            except ToolNotFound:
                continue
            except ToolForbidden:
                if candidate.replace("__", ".", 1).partition(".")[0] in self.assignment.servers:
                    raise

    def _is_granted(self, tool: Tool) -> bool:
        granted = self.assignment.tools.get(tool.server)
        return not granted or tool.name in granted

    def _not_found(self, name: str, offered: list[NamedTool]) -> str:
        names = [named.tool.dotted for named in offered] + [tool.name for tool in TOOLS]
        plain = name.replace("__", ".", 1)
        near = difflib.get_close_matches(plain.lower(), [one.lower() for one in names], n=3, cutoff=0.6)
        hint = f" Did you mean {' or '.join(repr(one) for one in names if one.lower() in near)}?" if near else ""
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"There is no tool {name[:100]!a}.{hint} There are: {', '.join(names[:_SHOWN])}{more}."
