"""How a result is processed: masking, the size from which it is condensed, the target size, and the means."""

from dataclasses import dataclass
from typing import Literal

from tersely.condensing.options import SummarizationOptions
from tersely.masking.mask import Masker
from tersely.masking.options import MaskingOptions


@dataclass(frozen=True, kw_only=True)
class Policy:
    masker: Masker
    """Always applied to arguments and intents, and to results unless `masks_results` is off."""

    masks_results: bool = True
    """Off if the operator turned masking off for a server."""

    condenses: bool = True
    """Off if the operator turned condensing off for a tool; then only the reader's window limits its results."""

    threshold: int = 5_000
    """Tokens up to which a result is not condensed."""

    budget: int = 1_000
    """Maximum tokens of a condensed result, including its note."""

    fallback: Literal["original", "structural"] = "structural"
    """What is returned when the model fails."""

    keep: Literal["required", "optional", "never"] = "required"
    """Whether the whole result is kept. `optional`: if the store is unavailable, the result has no handle."""

    most_unsupported: float = 0.05
    """Share of unsupported items in a summary above which it is asked for again."""

    provider: str | None = None
    """The provider that summarizes; None for the default one."""

    uses_model: bool | None = None
    """Whether a model summarizes; None if the entry point decides."""

    @classmethod
    def of_tool(
        cls,
        condensing: SummarizationOptions,
        masking: MaskingOptions,
        *,
        key: bytes | None,
        keep: Literal["required", "optional", "never"] = "required",
    ) -> "Policy":
        """The policy of one tool, from the options of its server; `key` is the masking key of the scope."""
        return cls(
            masker=masking.masker(key),
            masks_results=masking.enabled,
            condenses=condensing.enabled,
            threshold=condensing.size_threshold_tokens,
            budget=condensing.summary_max_token_limit,
            keep=keep,
            most_unsupported=condensing.max_unsupported_share,
            provider=condensing.llm_provider,
            uses_model=condensing.use_model,
        )

    @property
    def result_masker(self) -> Masker | None:
        return self.masker if self.masks_results else None

    def limit(self, *, is_error: bool = False, window: int | None = None) -> int | None:
        """Tokens up to which a result is not condensed; None for no limit.

        With a known window, errors and results of tools that are never condensed are limited by it alone.
        """
        if window is None:
            return self.threshold if self.condenses else None
        return min(self.threshold, window) if self.condenses and not is_error else window

    def target(self, *, is_error: bool = False, window: int | None = None) -> int:
        """Tokens to which a result over the limit is condensed."""
        if window is None:
            return self.budget
        return min(self.budget, self.threshold, window) if self.condenses and not is_error else window

    def may_ask_model(self, *, is_error: bool) -> bool:
        """Whether a model may summarize the result; never for errors and tools that are not condensed."""
        return self.condenses and not is_error and self.uses_model is not False
