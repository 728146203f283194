"""The Python door to summaries: one call, with whatever model the environment configures."""

from collections.abc import Sequence

from tersely.condensing.budget import Condensed
from tersely.config import Settings
from tersely.runtime import runtime


async def summarize(text: str, max_output_tokens: int = 0, focus_areas: str | Sequence[str] = "", strategy: str = "semantic") -> Condensed:
    """Summarize a text with the configured model; without one, condense it structurally.

    Raises:
        InputError: A size or a text is out of range.
        ConfigError: The environment holds a setting that makes no sense.
    """
    async with runtime(Settings.load()) as parts:
        return await parts.summarizer.summarize(text, max_output_tokens=max_output_tokens, focus_areas=focus_areas, strategy=strategy)


async def summarize_for_extraction(text: str, schema_hint: str, max_output_tokens: int = 0) -> Condensed:
    """Like `summarize`, for a program that extracts what the hint describes."""
    async with runtime(Settings.load()) as parts:
        return await parts.summarizer.summarize_for_extraction(text, schema_hint, max_output_tokens=max_output_tokens)
