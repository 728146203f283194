"""Choose the strategy for a text: whole, structural, summary by a model, or fallback.

Called by the pipeline with text that is masked; the result says which strategy
was used. `structural` is the part that needs no model.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import anyio

from tersely.condensing.account import Account, Lost
from tersely.condensing.budget import CONDENSE_SECONDS, Condensed, ModelWork
from tersely.condensing.structural import condense_structurally, condense_within, whole_text
from tersely.condensing.summarize.cache import SummaryCache
from tersely.condensing.summarize.map_reduce import OnText, Progress, SummaryRequest, summarize_text
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import LLMError
from tersely.llm.client import LLM
from tersely.llm.provider_errors import log_fields_of
from tersely.masking.masked import Masked
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)


async def condense_with(
    text: Masked,
    *,
    request: SummaryRequest,
    llm: LLM | None,
    cache: SummaryCache | None = None,
    fallback: Literal["original", "structural"] = "structural",
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_text: OnText | None = None,
) -> Condensed:
    """Fit the text into the request's target with the least lossy strategy.

    If the model fails, `fallback` decides what is returned; the result names it and the reason.
    """
    if whole := await run_in_thread(whole_text, text, request.target):
        return whole
    if text.isspace():
        return Condensed(
            text="",
            status="structural",
            tokens_before=O200K.count(text),
            tokens_after=0,
            lost=[Lost("nothing but white space")],
        )
    if llm is None:
        return await run_cpu(condense_structurally, text, request.target, request.focus)
    try:
        return await summarize_text(
            text, request=request, llm=llm, cache=cache, on_progress=on_progress, on_text=on_text
        )
    except LLMError as failure:
        # The only place that decides what replaces a failed summary; the failure is part of the result. Its message may
        # quote the content or a key, so the log gets its type and status only.
        logger.warning("summarize_failed", extra={"model": llm.model, **log_fields_of(failure), "returned": fallback})
        condensed = await run_cpu(_fallen_back, text, request.target, request.focus, fallback)
        work = failure.work if isinstance(failure.work, ModelWork) else None
        return replace(condensed, status="fallback", returned=fallback, reason=str(failure), work=work)


async def condense_in_time(
    text: Masked,
    request: SummaryRequest,
    *,
    llm: LLM | None,
    cache: SummaryCache | None,
    fallback: Literal["original", "structural"] = "structural",
    seconds: float = CONDENSE_SECONDS,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_text: OnText | None = None,
) -> Condensed:
    """Condense within a time limit; if the model takes too long, condense structurally and record the reason."""
    with anyio.move_on_after(seconds):
        return await condense_with(
            text, request=request, llm=llm, cache=cache, fallback=fallback, on_progress=on_progress, on_text=on_text
        )
    reason = f"the summary was not ready within {seconds:g} s"
    logger.warning(
        "summarize_failed",
        extra={
            "model": llm.model if llm else None,
            "problem": "TimeoutError",
            "hint": reason,
            "returned": "structural",
        },
    )
    condensed = await run_cpu(condense_within, text, request.target, request.focus)
    return replace(condensed, status="fallback", returned="structural", reason=reason)


def _fallen_back(text: str, target: int, focus: str, fallback: Literal["original", "structural"]) -> Condensed:
    if fallback == "structural":
        return condense_structurally(text, target, focus)
    tokens = O200K.count(text)
    return Condensed(
        text=text, status="fallback", tokens_before=tokens, tokens_after=tokens, account=Account.whole(text)
    )
