"""Counters of this process's model calls, for metrics.

Like other Prometheus counters they start at zero with each process. What a session
costs is stored with the session.
"""

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

from tersely.llm.exchanges import Exchange

Model = tuple[str, str]
"""Provider and model."""


@dataclass
class Meter:
    answered: Counter[Model] = field(default_factory=Counter)
    failed: Counter[Model] = field(default_factory=Counter)
    """Failed attempts, including each retry."""

    cancelled: Counter[Model] = field(default_factory=Counter)
    input_tokens: Counter[Model] = field(default_factory=Counter)
    output_tokens: Counter[Model] = field(default_factory=Counter)
    cached_tokens: Counter[Model] = field(default_factory=Counter)
    """Of the input tokens, those that providers read from their prompt caches."""

    price: dict[Model, Decimal] = field(default_factory=dict)
    """In US dollars; only models with a known price."""

    def count(self, exchange: Exchange) -> None:
        """Count a request that was sent, with the usage that the trace records for it."""
        model, usage = (exchange.provider, exchange.model), exchange.usage
        outcomes = {"failed": self.failed, "cancelled": self.cancelled}
        outcomes.get(exchange.outcome, self.answered)[model] += 1
        self.input_tokens[model] += usage.input_tokens
        self.output_tokens[model] += usage.output_tokens
        self.cached_tokens[model] += usage.cached_tokens
        if usage.price is not None and usage.input_tokens + usage.output_tokens:
            self.price[model] = self.price.get(model, Decimal(0)) + usage.price


METER = Meter()
"""The counters of this process."""
