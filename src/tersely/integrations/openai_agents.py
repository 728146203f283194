"""OpenAI Agents SDK: function tools with condensed results.

    agent = Agent(name="…", tools=condensed_tools([search, fetch]))

MCP servers of an agent are not function tools; put the gateway in front of them (`tersely gateway`).
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agents import FunctionTool, Tool
from agents.tool import ToolOutputText
from agents.tool_context import ToolContext

from tersely.integrations.condenser import READ_DESCRIPTION, ResultCondenser, content_of_value, renamed, value_of
from tersely.results.read_back_tool import READ_RESULT


def condensed_tools(tools: Sequence[Tool], condenser: ResultCondenser | None = None) -> list[Tool]:
    """The tools with condensed results, and the tool that reads the rest.

    Tools that run at the provider (web search, files) return nothing here and are passed on.
    """
    condenser = renamed(condenser, "openai-agents")

    async def read(context: ToolContext[Any], arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError:
            return f"{condenser.reader}: the arguments are not JSON."
        return await condenser.read(given if isinstance(given, dict) else {})

    reader = FunctionTool(
        name=condenser.reader,
        description=READ_DESCRIPTION,
        params_json_schema=dict(READ_RESULT.schema),
        on_invoke_tool=read,
        strict_json_schema=False,
    )
    return [*(_condensed(tool, condenser) if isinstance(tool, FunctionTool) else tool for tool in tools), reader]


def _condensed(tool: FunctionTool, condenser: ResultCondenser) -> FunctionTool:
    invoke = tool.on_invoke_tool

    async def invoked(context: ToolContext[Any], arguments: str) -> Any:
        result = await invoke(context, arguments)
        value = result.text if isinstance(result, ToolOutputText) else result
        content = content_of_value(value)
        if content is None:
            return result
        processed = await condenser.condense(
            content, tool=tool.name, arguments=_given(arguments), question=_question(context)
        )
        shown = value_of(processed, value)
        return ToolOutputText(text=shown) if isinstance(result, ToolOutputText) else shown

    return replace(tool, on_invoke_tool=invoked)


def _given(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return None


def _question(context: ToolContext[Any]) -> str:
    """What the user asked last."""
    for item in reversed(getattr(context, "turn_input", None) or []):
        if isinstance(item, dict) and item.get("role") == "user" and isinstance(item.get("content"), str):
            return str(item["content"])[:2_000]
    return ""
