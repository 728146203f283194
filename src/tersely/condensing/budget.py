"""Budgets of a condenser and the record it returns."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

Status = Literal["passthrough", "structural", "summarized", "partial", "fallback"]

SMALLEST_BUDGET = 16
"""In tokens; nothing readable fits in fewer."""

CONDENSE_SECONDS = 180.0
"""Time limit for a summary. When a summarizer stalls, the structural condenser takes over."""

ACCOUNT_FROM_TOKENS = 200
"""Under this budget the list of omissions is in `Condensed.lost` only: the text has no room for it."""


@dataclass(frozen=True)
class Lost:
    """Something that is in the source but not in the condensed text."""

    what: str
    """A short phrase, e.g. "412 of 420 pods with status Running"."""

    lines: tuple[tuple[int, int], ...] = ()
    """Location in the source: first and last line of each run, counted from 1."""

    def __str__(self) -> str:
        if not self.lines:
            return self.what
        runs = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in self.lines[:3])
        more = ", …" if len(self.lines) > 3 else ""
        plural = len(self.lines) > 1 or self.lines[0][0] != self.lines[0][1]
        return f"{self.what} (line{'s' if plural else ''} {runs}{more})"


@dataclass(frozen=True, kw_only=True)
class ModelWork:
    """Model calls and tokens that one summary took."""

    model: str
    chunks: int
    levels: int
    """Levels of merging above the chunk summaries."""

    calls: int
    """Answers used, from the model or from the cache."""

    cache_hits: int
    input_tokens: int
    """As counted by the provider; cached answers cost nothing."""

    output_tokens: int
    price_usd: Decimal | None
    provider: str = ""
    """The provider of the model; several, separated by commas, when a fallback took over midway."""

    invented: list[str]
    """Numbers and identifiers in the summary that the source does not contain."""


@dataclass(frozen=True, kw_only=True)
class Condensed:
    """Text that fits the budget, and an account of what it omits."""

    text: str
    status: Status
    tokens_before: int
    tokens_after: int
    encoding: str = "o200k_base"
    """Encoding in which the tokens are counted."""

    lost: list[Lost] = field(default_factory=list)
    work: ModelWork | None = None
    """Set when a model was called."""

    returned: Literal["original", "structural"] | None = None
    """With status `fallback`: what was returned instead of a summary."""

    reason: str = ""
    """With status `fallback`: why there is no summary."""

    kind: str = ""
    """Detected kind of the text, e.g. `json` or `log`; empty when it was not detected."""

    cleaned: int = 0
    """Characters that were removed from the source because they only deceive: escapes, hidden and bidi characters."""

    masked: bool = False
    """Whether secrets in the source were masked."""
