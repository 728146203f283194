"""Composition root of the summarizer: `summarizer_app` builds every component once and closes them in reverse order.

`Summarizer` holds the two operations that the service and the shell share. They run
the content through the pipeline, and return the caller's own text if it fits or no
summary is possible.
"""

import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from tersely.condensing.account import Lost
from tersely.condensing.budget import SMALLEST_BUDGET, Condensed
from tersely.condensing.structural import whole_text
from tersely.condensing.summarize.cache import NoCache, SummaryCache
from tersely.condensing.summarize.map_reduce import Family, Progress, SummaryRequest
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import InputError
from tersely.llm.limits import LimitedLLM, RetryPolicy, build_llm
from tersely.masking.mask import Masker
from tersely.pipeline.admit import admit_text
from tersely.pipeline.content import Content
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Pipeline, Scope
from tersely.results.kept import KeptResults
from tersely.settings.model import Settings
from tersely.store.database import Database
from tersely.store.private import masking_key
from tersely.store.summaries import SummaryFile
from tersely.text.chunks import STRATEGIES
from tersely.text.tokens import O200K

LARGEST_TARGET = 1_000_000
LONGEST_FOCUS = 20_000


def _ignore(progress: Progress) -> None:
    """The default for callers that show no progress."""


@dataclass(frozen=True)
class Summarizer:
    """The operations `summarize` and `summarize_for_extraction`."""

    settings: Settings
    llm: LimitedLLM | None
    pipeline: Pipeline
    masker: Masker
    fallback: Literal["original", "structural"] = "original"
    """What is returned if the model fails: the caller's own text, or a text within the budget."""

    handles_of: str | None = None
    """The scope whose kept results may be passed as content by handle (`result:r_…`); None to disallow handles."""

    family: Family = "document"
    """Which prompts are used for a summary that is not for extraction."""

    in_chunks: bool = True
    """Whether parts have the configured size; otherwise they are as large as the model's window allows."""

    async def summarize(
        self,
        content: str,
        *,
        max_output_tokens: int = 0,
        focus_areas: str | Sequence[str] = "",
        strategy: str = "semantic",
        on_progress: Callable[[Progress], None] = _ignore,
    ) -> Condensed:
        """Summarize to `max_output_tokens` (0: the configured default); content that fits is returned unchanged.

        Raises:
            InputError: A size is out of range or a text too long; no model was called.
        """
        focus = focus_areas if isinstance(focus_areas, str) else ", ".join(focus_areas)
        _check(max_output_tokens, focus, "focus_areas")
        target = max_output_tokens or self.settings.summarizer.max_output_tokens
        content = await self._expanded(content)
        return await self._condense(
            content, target, focus.strip(), strategy=strategy, extraction=False, on_progress=on_progress
        )

    async def summarize_for_extraction(
        self,
        content: str,
        schema_hint: str,
        *,
        max_output_tokens: int = 0,
        on_progress: Callable[[Progress], None] = _ignore,
    ) -> Condensed:
        """Summarize for a program that extracts what the hint describes; without a target, by at least 5:1.

        Raises:
            InputError: A size is out of range or a text too long; no model was called.
        """
        _check(max_output_tokens, schema_hint, "schema_hint")
        default = self.settings.summarizer.max_output_tokens
        target = max_output_tokens or default
        content = await self._expanded(content)
        if not max_output_tokens:
            tokens = await run_cpu(O200K.count, content)
            if tokens > default:
                target = max(SMALLEST_BUDGET, min(default, tokens // 5))
        return await self._condense(
            content, target, schema_hint.strip(), strategy="semantic", extraction=True, on_progress=on_progress
        )

    async def _expanded(self, content: str) -> str:
        """The content, or the kept result if the content is a handle."""
        if not content.startswith("result:r_") or not self.handles_of:
            return content
        # Opened only here, so that a service that receives no handles needs no database.
        async with kept_results(self.settings) as kept:
            expanded = await kept.expand(content, self.handles_of)
        assert isinstance(expanded, str)
        return expanded

    async def _condense(
        self,
        content: str,
        target: int,
        focus: str,
        *,
        strategy: str,
        extraction: bool,
        on_progress: Callable[[Progress], None],
    ) -> Condensed:
        """Run the content through the pipeline; content that fits or falls back is returned as the caller sent it."""
        if whole := await run_in_thread(whole_text, content, target):
            return whole
        policy = Policy(masker=self.masker, threshold=target, budget=target, fallback=self.fallback, keep="never")
        request = SummaryRequest(
            target=target,
            focus=admit_text(focus, self.masker),
            family=self.family,
            extraction=extraction,
            strategy=strategy if strategy in STRATEGIES else "semantic",
            chunk_size=self.settings.summarizer.chunk_size if self.in_chunks else None,
            overlap=self.settings.summarizer.chunk_overlap,
            most_unsupported=self.settings.summarizer.max_unsupported_share,
        )
        processed = await self.pipeline.process(
            Content.of_text(content),
            policy,
            Scope("caller"),
            llm=self.llm,
            request=request,
            note=None,
            on_progress=on_progress,
        )
        tokens = await run_cpu(O200K.count, content)
        condensed = processed.condensed
        if condensed is None:
            # It fits only after cleaning and masking.
            changed = [Lost("secrets and hidden characters, which are masked and removed")]
            after = await run_cpu(O200K.count, processed.text)
            return Condensed(
                text=processed.text,
                status="structural",
                tokens_before=tokens,
                tokens_after=after,
                lost=changed,
                cleaned=processed.admitted.cleaned,
            )
        if condensed.returned == "original":
            return replace(condensed, text=content, tokens_before=tokens, tokens_after=tokens)
        return replace(condensed, tokens_before=tokens)


def _check(max_output_tokens: int, focus: str, name: str) -> None:
    if max_output_tokens != 0 and not SMALLEST_BUDGET <= max_output_tokens <= LARGEST_TARGET:
        raise InputError(
            f"max_output_tokens ({max_output_tokens}) must be 0 (the default size) or from {SMALLEST_BUDGET} to "
            f"{LARGEST_TARGET:,}."
        )
    if len(focus) > LONGEST_FOCUS:
        raise InputError(
            f"{name} has {len(focus):,} characters; at most {LONGEST_FOCUS:,} are allowed. Use fewer words."
        )


@dataclass(frozen=True)
class SummarizerApp:
    settings: Settings
    summarizer: Summarizer
    llm: LimitedLLM | None


@asynccontextmanager
async def kept_results(settings: Settings) -> AsyncIterator[KeptResults]:
    """Open the store of kept results for the duration of the block.

    Raises:
        ConfigError, StoreUnavailable: The database cannot be used.
    """
    store = settings.store
    async with Database.open(store.url) as database:
        yield KeptResults(
            database, retention=timedelta(days=store.keep_days), max_bytes=store.keep_mb * 2**20, spool=store.spool
        )


@asynccontextmanager
async def summarizer_app(
    settings: Settings,
    *,
    fallback: Literal["original", "structural"] = "original",
    handles_of: str | None = None,
    family: Family = "document",
    in_chunks: bool = True,
) -> AsyncIterator[SummarizerApp]:
    """Build the summarizer and close it; the arguments are those of `Summarizer`."""
    providers = settings.summarizing()
    llm = None
    if providers:
        concurrency = settings.llm_providers[providers[0]].concurrency or settings.model.concurrency
        llm = build_llm(settings.specs(*providers), retry_policy=RetryPolicy(concurrency=concurrency))
    cache: SummaryCache = NoCache()
    if llm and settings.store.summary_cache:
        cache = SummaryFile(settings.store.data_dir / "summaries.db", max_bytes=settings.store.summary_cache_mb * 2**20)
    try:
        masker = Masker(key=masking_key(settings.store.data_dir))
        # Without a time limit of its own; the caller's timeout applies.
        pipeline = Pipeline(cache=cache, condense_seconds=math.inf)
        summarizer = Summarizer(settings, llm, pipeline, masker, fallback, handles_of, family, in_chunks)
        yield SummarizerApp(settings, summarizer, llm)
    finally:
        if llm:
            await llm.aclose()
