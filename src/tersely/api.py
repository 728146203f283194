"""Python API: summaries with the configured model, and a single call to any MCP server."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from tersely.app.summarizer import summarizer_app
from tersely.condensing.budget import Condensed
from tersely.errors import ToolError
from tersely.extras import require_extra
from tersely.mcp.registry import registered
from tersely.mcp.servers import Server, ServerOptions, TransportOptions
from tersely.settings.model import Settings

logger = logging.getLogger(__name__)


async def summarize(
    text: str, max_output_tokens: int = 0, focus_areas: str | Sequence[str] = "", strategy: str = "semantic"
) -> Condensed:
    """Summarize a text with the configured model; without one, condense it structurally.

    Raises:
        InputError: A size or a text is out of range.
        ConfigError: The environment holds a setting that makes no sense.
    """
    async with summarizer_app(Settings.load(), in_chunks=False) as parts:
        return await parts.summarizer.summarize(
            text, max_output_tokens=max_output_tokens, focus_areas=focus_areas, strategy=strategy
        )


async def summarize_for_extraction(text: str, schema_hint: str, max_output_tokens: int = 0) -> Condensed:
    """Like `summarize`, for a program that extracts what the hint describes."""
    async with summarizer_app(Settings.load(), in_chunks=False) as parts:
        return await parts.summarizer.summarize_for_extraction(text, schema_hint, max_output_tokens=max_output_tokens)


async def mcp_call(
    url: str, tool: str, arguments: Mapping[str, Any] | None = None, *, timeout: float = 120, strict: bool = False
) -> str | None:
    """Call one tool of the MCP server at `url` (StreamableHTTP) and return its text.

    Returns None when the server cannot be reached, does not answer in time, or reports an error, so that a pipeline can
    continue without the answer. The reason is logged.

    Args:
        timeout: Seconds the call may take.
        strict: Raise instead of returning None.

    Raises:
        ToolError: With `strict`: the call failed.
        ConfigError: `url` is not an address.
        MissingExtra: The MCP client is not installed.
    """
    require_extra("gateway", "tersely.mcp_call")
    options = ServerOptions(transport=TransportOptions(url=url), timeout=timeout, allow_destructive=True)
    try:
        async with registered(
            [Server(name="server", options=options)], keep_names=True, wait=min(timeout, 30)
        ) as registry:
            result = await registry.call(registry.resolve(tool), dict(arguments or {}))
        text = "\n\n".join(result.texts)
        if result.is_error:
            raise ToolError(f"{tool} at {url} answered with an error: {text[:500]}")
    except ToolError as error:
        if strict:
            raise
        logger.warning("mcp_call_failed", extra={"tool": tool, "problem": str(error)})
        return None
    return text
