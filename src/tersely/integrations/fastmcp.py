"""FastMCP: a middleware for your own server, where `ResponseLimitingMiddleware` stands.

    mcp.add_middleware(CondensingServerMiddleware())

It condenses what the tools of the server return, and adds the tool that reads the rest.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import mcp_types as mt
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import InputRequiredToolResult, Tool, ToolResult
from mcp_types import TextContent

from tersely.integrations.condenser import READ_DESCRIPTION, ResultCondenser, renamed
from tersely.mcp.raw import read_result
from tersely.pipeline.admit import admit_value
from tersely.pipeline.mcp_results import content_of
from tersely.pipeline.meta import prefixed
from tersely.results.read_back_tool import READ_RESULT


class CondensingServerMiddleware(Middleware):
    """Condenses what the tools of a server return.

    Results of small tools keep their structured content. Tools lose their output schema in the listing, because a
    condensed result would not fit it. On a server with logins each client reads its own results only.

    Args:
        condenser: Sizes and scope; the defaults if None.
        tools: Only these; all if None.
    """

    def __init__(self, condenser: ResultCondenser | None = None, *, tools: Iterable[str] | None = None) -> None:
        self.condenser = renamed(condenser, "fastmcp")
        self.names = None if tools is None else frozenset(tools)

    async def on_list_tools(
        self,
        context: MiddlewareContext[mt.ListToolsRequest],
        call_next: CallNext[mt.ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        tools = await call_next(context)
        shown = [
            tool.model_copy(update={"output_schema": None}) if self._is_ours(tool.name) and tool.output_schema else tool
            for tool in tools
        ]
        reader = Tool(name=self.condenser.reader, description=READ_DESCRIPTION, parameters=dict(READ_RESULT.schema))
        return [*shown, reader]

    async def on_call_tool(
        self,
        context: MiddlewareContext[mt.CallToolRequestParams],
        call_next: CallNext[mt.CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        name, arguments = context.message.name, context.message.arguments or {}
        if name == self.condenser.reader:
            return ToolResult(content=await self.condenser.read(arguments, scope=self._scope()))
        result = await call_next(context)
        # Requests for input and tasks have no content yet.
        if isinstance(result, InputRequiredToolResult) or not isinstance(result, ToolResult) or not self._is_ours(name):
            return result
        raw = {
            "content": [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content],
            "isError": result.is_error,
        }
        if result.structured_content is not None:
            raw["structuredContent"] = result.structured_content
        processed = await self.condenser.condense(
            content_of(read_result(raw)), tool=name, arguments=arguments, scope=self._scope()
        )
        blocks: list[Any] = []
        if processed.condensed is None:
            texts = iter(processed.admitted.texts)
            for block in result.content:
                is_text = isinstance(block, TextContent) and block.text
                blocks.append(block.model_copy(update={"text": str(next(texts))}) if is_text else block)
            structured = result.structured_content
            return ToolResult(
                content=blocks,
                structured_content=structured and admit_value(structured, self.condenser.masker()),
                meta=result.meta,
                is_error=result.is_error,
            )
        blocks = [block for block in result.content if not isinstance(block, TextContent)]
        return ToolResult(
            content=[TextContent(type="text", text=str(processed.text)), *blocks],
            meta={**(result.meta or {}), **prefixed(processed.meta)},
            is_error=result.is_error,
        )

    def _is_ours(self, name: str) -> bool:
        return self.names is None or name in self.names

    def _scope(self) -> str:
        token = get_access_token()
        return f"{self.condenser.scope}/client:{token.client_id}" if token else ""
