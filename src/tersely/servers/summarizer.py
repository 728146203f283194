"""The summarizer's MCP server, with the tools `summarize` and `summarize_for_extraction`.

Over StreamableHTTP or stdio. `Summarizer` does the work; this module declares the
tools, and writes each call's `_meta`, log line and progress notifications.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Annotated

import anyio
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from mcp_types import TextContent, ToolAnnotations
from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse

from tersely.app.summarizer import Summarizer
from tersely.condensing.budget import Condensed
from tersely.condensing.summarize.map_reduce import Progress
from tersely.errors import InputError, MaskingFailed, StoreUnavailable
from tersely.http.auth import token_digest
from tersely.pipeline.meta import describe, log_fields
from tersely.servers.bearer_tokens import BearerTokens
from tersely.servers.http_app import ArgumentErrors, FastMCPTokens

logger = logging.getLogger(__name__)

SERVICE_ID = "mcp_summarizer"

_READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


def build_summarizer_server(summarizer: Summarizer) -> FastMCP:
    """The MCP server for a summarizer."""
    token = summarizer.settings.summarizer.token
    tokens = BearerTokens({"bearer": token_digest(token.get_secret_value().encode())}) if token else None
    server = FastMCP(
        name="Summarizer Service",
        instructions="Condenses large texts. Content that is short enough already comes back unchanged.",
        auth=FastMCPTokens(tokens) if tokens else None,
        version=version("tersely"),
        mask_error_details=True,
        middleware=[ArgumentErrors()],
    )

    @server.tool(annotations=_READ_ONLY, output_schema=None)
    async def summarize(
        ctx: Context,
        content: Annotated[
            str, Field(description="The text to summarize, or the handle of a kept result: result:r_...")
        ],
        max_output_tokens: Annotated[
            int, Field(description="Target summary size in tokens. 0 = use service default.")
        ] = 0,
        focus_areas: Annotated[
            str | list[str],
            Field(
                description=(
                    'Topics to emphasize, comma-separated or as a list (e.g. "NPCs, factions, lore"). Empty = '
                    "general summary."
                )
            ),
        ] = "",
        strategy: Annotated[str, Field(description='Chunking strategy: "semantic" (default) or "token".')] = "semantic",
    ) -> ToolResult:
        """Summarize large text content using map-reduce chunking.

        Returns a compressed summary; content that already fits comes back unchanged.
        """
        return await _call(
            ctx,
            summarizer,
            "summarize",
            strategy,
            lambda on_progress: summarizer.summarize(
                content,
                max_output_tokens=max_output_tokens,
                focus_areas=focus_areas,
                strategy=strategy,
                on_progress=on_progress,
            ),
        )

    @server.tool(annotations=_READ_ONLY, output_schema=None)
    async def summarize_for_extraction(
        ctx: Context,
        content: Annotated[
            str, Field(description="The text to summarize, or the handle of a kept result: result:r_...")
        ],
        schema_hint: Annotated[
            str,
            Field(
                description="Description of the target extraction schema: which categories of information to preserve "
                '(e.g. "zone metadata, NPCs with faction allegiances, faction hierarchy, lore events").'
            ),
        ],
        max_output_tokens: Annotated[
            int, Field(description="Target summary size in tokens. 0 = use service default.")
        ] = 0,
    ) -> ToolResult:
        """Summarize content optimized for downstream structured extraction.

        Preserves named entities, relationships and structured details that match the schema hint; discards boilerplate.
        """
        return await _call(
            ctx,
            summarizer,
            "summarize_for_extraction",
            "semantic",
            lambda on_progress: summarizer.summarize_for_extraction(
                content, schema_hint, max_output_tokens=max_output_tokens, on_progress=on_progress
            ),
        )

    @server.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    return server


async def _call(
    ctx: Context,
    summarizer: Summarizer,
    tool: str,
    strategy: str,
    work: Callable[[Callable[[Progress], None]], Awaitable[Condensed]],
) -> ToolResult:
    started = time.perf_counter()
    try:
        condensed = await _with_progress(ctx, work)
    except (InputError, MaskingFailed, StoreUnavailable) as problem:
        logger.info("request_refused", extra={"tool": tool, "reason": str(problem)})
        raise ToolError(str(problem), log_level=logging.DEBUG) from problem
    except anyio.get_cancelled_exc_class():
        logger.info("request_cancelled", extra={"tool": tool, "seconds": round(time.perf_counter() - started, 3)})
        raise
    meta = describe(condensed, strategy=strategy)
    if summarizer.llm is None and condensed.status == "structural":
        meta["note"] = (
            f"No model is configured: condensed without one. Set {summarizer.settings.model.missing()} to summarize."
        )
    logger.info(
        "request_served",
        extra={
            "tool": tool,
            "seconds": round(time.perf_counter() - started, 3),
            **log_fields(meta),
        },
    )
    return ToolResult(content=[TextContent(type="text", text=condensed.text)], meta=meta)


async def _with_progress(ctx: Context, work: Callable[[Callable[[Progress], None]], Awaitable[Condensed]]) -> Condensed:
    """Run the work, and send a progress notification for each finished part, in order."""
    sending, receiving = anyio.create_memory_object_stream[Progress](max_buffer_size=100_000)

    async def report() -> None:
        async with receiving:
            async for progress in receiving:
                await ctx.report_progress(progress.done, progress.total, f"{progress.done} of {progress.total} parts")

    failure: InputError | MaskingFailed | StoreUnavailable | None = None
    condensed: Condensed | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(report)
        with sending:
            try:
                condensed = await work(sending.send_nowait)
            except (InputError, MaskingFailed, StoreUnavailable) as problem:
                failure = problem  # Raised outside, so that the task group does not wrap it.
    if failure:
        raise failure
    assert condensed is not None
    return condensed
