"""The usage budget of a subject, and an LLM wrapper that refuses calls beyond it.

A refusal is an `LLMError`, so every part falls back to working without a model: pages
are condensed structurally, facts are extracted by rules, and the result gives the
reason. Tokens for the extraction are reserved.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tersely.errors import LLMError
from tersely.llm.client import LLM
from tersely.llm.messages import Completion, Delta, Message, ToolSpec, Usage
from tersely.llm.providers import NativeTools
from tersely.llm.wrapper import WrapperLLM

SPENT = "The budget is used up: "
"""Prefix of every refusal, by which a report that ended with one is recognized, also after a restart: a stored text."""


class BudgetExceeded(LLMError):
    """The model was not called because the research has used up its budget."""


@dataclass
class UsageBudget:
    max_tokens: int = 0
    max_price: Decimal = Decimal(0)
    reserved: int = 0
    """Tokens that only the extraction may use."""

    spent: Usage = field(default_factory=Usage)

    @property
    def is_limited(self) -> bool:
        return bool(self.max_tokens or self.max_price)

    def refusal(self, coming: int, *, last: bool = False) -> str:
        """Why a request of this many tokens is not sent; empty if it may be."""
        used = self.spent.input_tokens + self.spent.output_tokens
        if self.max_tokens:
            reserved = 0 if last or self.reserved * 2 > self.max_tokens else self.reserved
            if used + coming > self.max_tokens - reserved:
                reserve = f", {reserved:,} are reserved for the extraction" if reserved else ""
                return (
                    f"{SPENT}{used:,} of {self.max_tokens:,} tokens are spent{reserve}, and the next request needs "
                    f"{coming:,}."
                )
        if self.max_price:
            if self.spent.price is None:
                return f"{SPENT}the model's price is unknown, so the limit of ${self.max_price} cannot be enforced."
            if self.spent.price >= self.max_price:
                return f"{SPENT}${self.spent.price:.4f} of ${self.max_price} are spent."
        return ""


@dataclass(frozen=True)
class BudgetedLLM(WrapperLLM):
    """Calls the model as long as the budget allows."""

    wrapped: LLM
    usage_budget: UsageBudget
    last: bool = False
    """For the extraction, which may use the reserved tokens."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        self._check(messages)
        answer = await self.wrapped.complete(messages, max_tokens=max_tokens, tools=tools, native=native)
        self.usage_budget.spent += answer.usage
        return answer

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]:
        self._check(messages)
        deltas: Any = self.wrapped.stream(messages, max_tokens=max_tokens, tools=tools, native=native)
        async with aclosing(deltas):
            async for delta in deltas:
                if isinstance(delta, Completion):
                    self.usage_budget.spent += delta.usage
                yield delta

    def _check(self, messages: Sequence[Message]) -> None:
        if not self.usage_budget.is_limited:
            return
        coming = sum(self.wrapped.tokenizer.count(message.text) for message in messages)
        if why := self.usage_budget.refusal(coming, last=self.last):
            raise BudgetExceeded(why)
