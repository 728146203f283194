"""Budgets of a condenser and the record it returns."""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

from tersely.condensing.account import Account, Lost

Status = Literal["passthrough", "structural", "summarized", "partial", "fallback"]

SMALLEST_BUDGET = 16
"""In tokens; nothing readable fits in fewer."""

CONDENSE_SECONDS = 180.0
"""Time limit for a summary. When a summarizer stalls, the structural condenser takes over."""

ACCOUNT_FROM_TOKENS = 200
"""Under this budget the list of omissions is in `Condensed.lost` only: the text has no room for it."""


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
    """Numbers, names, timestamps and quotes in the summary that the source does not contain."""

    derived: list[str] = field(default_factory=list)
    """Numbers that the source does not contain and that the summary presents as counts or sums."""

    checked: int = 0
    """Numbers, names, timestamps and quotes in the summary that were looked up in the source."""

    unverified: bool = False
    """Too many of them are not in the source, even after the model was asked again."""

    cited: list[list[int]] = field(default_factory=list)
    """First and last line of the passages that the summary refers to."""

    cut: bool = False
    """The summary or that of a part was cut at its size limit."""

    folded_tokens: int = 0
    """Tokens that the model did not have to read, because repetitions were folded."""


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
    """What is left out, in words; derived from the account where there is one."""

    closing: str = ""
    """The last line of the text if it states what is left out; empty if the text has no such line."""

    account: Account = field(default_factory=Account)
    """What happened to each line of the source. Empty for a summary by a model, which shows no lines."""

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
