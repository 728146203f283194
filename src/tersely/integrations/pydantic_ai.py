"""pydantic-ai: a toolset around another one.

    agent = Agent(model, toolsets=[CondensingToolset(MCPToolset(…))])

It condenses what the tools return, and adds the tool that reads the rest.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_ai import RunContext, Tool, ToolReturn
from pydantic_ai.tools import AgentDepsT
from pydantic_ai.toolsets import AbstractToolset, CombinedToolset, FunctionToolset, WrapperToolset

from tersely.integrations.condenser import READ_DESCRIPTION, ResultCondenser, content_of_value, renamed, value_of
from tersely.results.read_back_tool import READ_RESULT


@dataclass
class CondensedResults(WrapperToolset[AgentDepsT]):
    """Condenses what the tools of another toolset return; `CondensingToolset` adds the tool that reads the rest."""

    condenser: ResultCondenser = field(default_factory=lambda: ResultCondenser(name="pydantic-ai"))

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: Any) -> Any:
        result = await super().call_tool(name, tool_args, ctx, tool)
        value = result.return_value if isinstance(result, ToolReturn) else result
        content = content_of_value(value)
        if content is None:
            return result
        question = ctx.prompt if isinstance(ctx.prompt, str) else ""
        processed = await self.condenser.condense(content, tool=name, arguments=tool_args, question=question[:2_000])
        shown = value_of(processed, value)
        return replace(result, return_value=shown) if isinstance(result, ToolReturn) else shown


def CondensingToolset(  # noqa: N802 — stands where a toolset is built
    wrapped: AbstractToolset[AgentDepsT], condenser: ResultCondenser | None = None
) -> AbstractToolset[AgentDepsT]:
    """The tools of a toolset with condensed results, and the tool that reads the rest.

    Texts and JSON values are condensed; images, files and other binary content are passed on.
    """
    condenser = renamed(condenser, "pydantic-ai")

    async def read(**arguments: Any) -> str:
        return await condenser.read(arguments)

    reader: Tool[AgentDepsT] = Tool.from_schema(
        read, name=condenser.reader, description=READ_DESCRIPTION, json_schema=READ_RESULT.schema
    )
    own: FunctionToolset[AgentDepsT] = FunctionToolset([reader])
    return CombinedToolset([CondensedResults(wrapped, condenser), own])
