"""The tools of one agent: those of its servers that the assignment allows, and those that read kept results.

Queries the registry on every use. The error for an unknown name lists this agent's
tools, never those of other agents.
"""

import difflib
from dataclasses import dataclass, replace

from tersely.agent.assignment import Assignment
from tersely.agent.skills import LOAD_SKILL
from tersely.agent.sub_agents import ASK_AGENT
from tersely.errors import ToolForbidden, ToolNotFound
from tersely.llm.messages import ToolSpec
from tersely.mcp.descriptions import without_secrets
from tersely.mcp.raw import Tool
from tersely.mcp.registry import NamedTool, ToolRegistry
from tersely.results.read_back_tool import READ_RESULT, ReadBackTool

OURS = "tersely"
"""The server name in the timeline for tools that read kept results."""

_SHOWN = 40


@dataclass(frozen=True)
class Toolbox:
    registry: ToolRegistry
    assignment: Assignment
    asks_agents: bool = False
    """Whether it may hand tasks to other agents."""

    def tools(self) -> list[NamedTool]:
        """The servers' tools that this agent may call."""
        return [named for named in self.registry.tools(self.assignment.servers) if self._is_granted(named.tool)]

    def described(self) -> list[NamedTool]:
        """The same tools with masked descriptions: a server's descriptions are masked like its results."""
        described: list[NamedTool] = []
        for named in self.tools():
            _, masking = self.registry.server(named.tool.server).options.policy(named.tool.name)
            declared = {"description": named.tool.description, "schema": named.tool.input_schema}
            safe = without_secrets(declared, masking)
            tool = replace(named.tool, description=safe["description"], input_schema=safe["schema"])
            described.append(replace(named, tool=tool))
        return described

    @property
    def read_back_tools(self) -> tuple[ReadBackTool, ...]:
        """From the first turn on, so that the list never changes; none for an agent without servers, as nothing is
        kept for it, and some models cannot combine declared tools with native ones.
        """
        reading = (READ_RESULT,) if self.assignment.servers or self.assignment.known_results else ()
        skills = (LOAD_SKILL,) if self.assignment.skills else ()
        agents = (ASK_AGENT,) if self.asks_agents else ()
        return (*reading, *skills, *agents)

    def specs(self) -> list[ToolSpec]:
        """All callable tools, as declared to the model."""
        return [
            *(ToolSpec(named.name, named.tool.description, named.tool.input_schema) for named in self.described()),
            *(ToolSpec(tool.name, tool.description, tool.schema) for tool in self.read_back_tools),
        ]

    def find(self, name: str) -> Tool | ReadBackTool:
        """Find a tool by `server__tool`, `server.tool`, or its bare name if that is unique.

        Raises:
            ToolNotFound: This agent has no such tool; the message lists those it has.
            ToolForbidden: The tool exists on one of the agent's servers, but the configuration forbids calling it.
        """
        wanted = name.strip().strip("`\"'*").removesuffix("()")
        for tool in self.read_back_tools:
            if tool.answers_to(wanted.removeprefix(f"{OURS}.").removeprefix(f"{OURS}__").lower()):
                return tool
        offered = self.tools()
        for named in offered:
            if wanted in (named.name, named.tool.dotted):
                return named.tool
        by_name = [named.tool for named in offered if named.tool.name.lower() == wanted.lower()]
        if len(by_name) == 1:
            return by_name[0]
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
        names = [named.tool.dotted for named in offered] + [tool.name for tool in self.read_back_tools]
        plain = name.replace("__", ".", 1)
        near = difflib.get_close_matches(plain.lower(), [one.lower() for one in names], n=3, cutoff=0.6)
        hint = f" Did you mean {' or '.join(repr(one) for one in names if one.lower() in near)}?" if near else ""
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        offers = f"There are: {', '.join(names[:_SHOWN])}{more}." if names else "There are no tools."
        return f"There is no tool {name[:100]!a}.{hint} {offers}"
