"""How much a reader can take, and what a condenser hands back."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

Status = Literal["passthrough", "structural", "summarized", "partial", "fallback"]

SMALLEST_BUDGET = 16
"""Tokens. Under it nothing readable fits."""

CONDENSE_SECONDS = 180.0
"""A summarizer that stalls must not eat the caller's time; then the structure decides."""

ACCOUNT_FROM_TOKENS = 200
"""Under this budget the account of what was left out is in `Condensed.lost` only: there is no room for it in the text.
"""


@dataclass(frozen=True)
class Lost:
    """One thing that is in the source and not in the condensed text."""

    what: str
    """A plain phrase, e.g. "412 of 420 pods with status Running"."""

    lines: tuple[tuple[int, int], ...] = ()
    """Where it stands in the source: first and last line of each run, counted from 1."""

    def __str__(self) -> str:
        if not self.lines:
            return self.what
        runs = ", ".join(str(first) if first == last else f"{first}–{last}" for first, last in self.lines[:3])
        more = ", …" if len(self.lines) > 3 else ""
        plural = len(self.lines) > 1 or self.lines[0][0] != self.lines[0][1]
        return f"{self.what} (line{'s' if plural else ''} {runs}{more})"


@dataclass(frozen=True, kw_only=True)
class ModelWork:
    """What a model had to do for a summary."""

    model: str
    chunks: int
    levels: int
    """Rows of merges above the parts."""

    calls: int
    """Answers that were needed, from the model or from the cache."""

    cache_hits: int
    input_tokens: int
    """As the provider counted them; cached answers cost none."""

    output_tokens: int
    price_usd: Decimal | None
    provider: str = ""
    """Whose model it was; several, by commas, where a fallback stepped in half-way."""

    invented: list[str]
    """Numbers and identifiers in the summary that the source does not contain."""


@dataclass(frozen=True, kw_only=True)
class Condensed:
    """Text a model can take, and an honest account of what is not in it."""

    text: str
    status: Status
    tokens_before: int
    tokens_after: int
    encoding: str = "o200k_base"
    """What the token counts are counted in."""

    lost: list[Lost] = field(default_factory=list)
    work: ModelWork | None = None
    """Present when a model was asked."""

    returned: Literal["original", "structural"] | None = None
    """With status `fallback`: what the text is instead of a summary."""

    reason: str = ""
    """With status `fallback`: why there is no summary."""

    kind: str = ""
    """What the text was taken for, e.g. `json` or `log`; empty when it was not looked at."""

    cleaned: int = 0
    """Characters that were removed from the source because they only deceive: escapes, hidden and bidi characters."""

    masked: bool = False
    """Whether secrets in the source were masked."""
