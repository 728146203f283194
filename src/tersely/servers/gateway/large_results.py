"""Results over `max_result_bytes`: each part is masked, kept and condensed by itself, one after the other.

Every statement of a condensed part is about that part, which its heading names with its lines, and every part
can be read back under its own handle. Memory depends on the size of a part, not on that of the result.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tersely.cpu.run import run_in_thread
from tersely.mcp.connect.spool import SpooledAnswer
from tersely.mcp.servers import Server
from tersely.servers.gateway.calls import CallResult, UpstreamCall
from tersely.text.spooled import PART_BYTES

SMALLEST_BUDGET = 150
"""Tokens of a condensed part, at least. The parts share the budget of the policy as long as that leaves more."""

Process = Callable[[Mapping[str, Any], UpstreamCall], Awaitable[CallResult]]


async def result_in_parts(answer: SpooledAnswer, call: UpstreamCall, process: Process) -> CallResult:
    """Process a spooled result.

    Args:
        process: Handles one part, given as a result with one text.

    Raises:
        MaskingFailed: A part must not be shown, so nothing is.
    """
    spooled = answer.spooled
    if spooled.size <= call.server.options.max_result_bytes:
        # It was over the limit only with its structured content, which repeats it.
        try:
            text = await run_in_thread(spooled.whole)
        finally:
            spooled.close()
        others = [one for one in answer.get("content", ()) if isinstance(one, dict) and one.get("type") != "text"]
        return await process({**answer, "content": [{"type": "text", "text": text}, *others]}, call)
    count = max(1, -(-spooled.size // PART_BYTES))
    call = replace(call, server=_with_shares(call.server, call.tool, count))
    texts: list[str] = []
    handles: list[str] = []
    statistics: dict[str, Any] = {}
    meta: dict[str, Any] = {}
    line = 1
    parts = spooled.parts(PART_BYTES)
    try:
        while (part := await run_in_thread(_next, parts)) is not None:
            outcome = await process({"content": [{"type": "text", "text": part}]}, call)
            lines = part.count("\n") + (not part.endswith("\n"))
            texts.append(f"[Part {len(texts) + 1}: lines {line:,}–{line + lines - 1:,}]\n{_text_of(outcome.result)}")
            line += part.count("\n")
            meta = dict(outcome.result.get("_meta") or {})
            handles += [str(meta["tersely/handle"])] if meta.get("tersely/handle") else []
            _add(statistics, outcome)
            del part
    finally:
        spooled.close()
    head = (
        f"[{spooled.size:,} bytes, more than are condensed at once. The {len(texts)} parts below were condensed "
        "separately: line numbers, counts and left-out notes in a part are about that part.]"
    )
    others = [one for one in answer.get("content", ()) if isinstance(one, dict) and one.get("type") != "text"]
    if others:
        head += f" [Left out: {len(others)} content items that are not text.]"
    text = "\n\n".join((head, *texts))
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "isError": answer.get("isError") is True,
        "_meta": {
            "tersely/status": meta.get("tersely/status", "structural"),
            "tersely/parts": len(texts),
            "tersely/handles": handles,
        },
    }
    if call.has_output_schema:
        result["structuredContent"] = {"result": text}
    return CallResult(result=result, is_error=answer.get("isError") is True, statistics=statistics)


def _next(parts: Iterator[str]) -> str | None:
    return next(parts, None)


def _text_of(result: Mapping[str, Any]) -> str:
    texts = [str(one.get("text", "")) for one in result.get("content", ()) if isinstance(one, dict)]
    # The heading above names the part; blank lines separate parts.
    return re.sub(r"\n{2,}", "\n", "\n".join(texts))


def _with_shares(server: Server, tool: str, count: int) -> Server:
    """The server with a policy whose budget is one part's share."""
    options = server.options
    condensing, masking = options.policy(tool)
    share = max(SMALLEST_BUDGET, condensing.summary_max_token_limit // count)
    changed = condensing.model_copy(
        update={
            # Also where the policy never condenses: no client can take a result of this size.
            "enabled": True,
            "summary_max_token_limit": share,
            "size_threshold_tokens": share + 1,
        }
    )
    update = {"summarization": changed, "data_masking": masking, "tool_policies": {}}
    return server.model_copy(update={"options": options.model_copy(update=update)})


def _add(statistics: dict[str, Any], outcome: CallResult) -> None:
    for name, value in outcome.statistics.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            statistics[name] = statistics.get(name, 0) + value
        else:
            statistics[name] = value
