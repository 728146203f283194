"""What a subject may cost, and a model that is not asked once that is spent.

Whoever asks hears of it as of a model that does not answer, so every part does what
it does without one: pages are condensed by structure, facts are found by rules, and
the result says why. What is needed for the extraction is laid aside.
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
"""How every refusal begins, so that a report that ended with one can be told from others, also after a restart."""


class BudgetExceeded(LLMError):
    """Nobody was asked: the research has used what it may."""


@dataclass
class UsageBudget:
    max_tokens: int = 0
    max_price: Decimal = Decimal(0)
    laid_aside: int = 0
    """Tokens that only the last part of the work may use."""

    spent: Usage = field(default_factory=Usage)

    @property
    def is_limited(self) -> bool:
        return bool(self.max_tokens or self.max_price)

    def refusal(self, coming: int, *, last: bool = False) -> str:
        """Why a question of so many tokens is not asked; empty when it may be."""
        used = self.spent.input_tokens + self.spent.output_tokens
        if self.max_tokens:
            aside = 0 if last or self.laid_aside * 2 > self.max_tokens else self.laid_aside
            if used + coming > self.max_tokens - aside:
                kept = f", {aside:,} are laid aside for the extraction" if aside else ""
                return (
                    f"{SPENT}of {self.max_tokens:,} tokens {used:,} are spent{kept}, and the next question needs "
                    f"{coming:,}."
                )
        if self.max_price:
            if self.spent.price is None:
                return f"{SPENT}nobody knows what the model costs, so ${self.max_price} cannot be kept to."
            if self.spent.price >= self.max_price:
                return f"{SPENT}of ${self.max_price} ${self.spent.price:.4f} are spent."
        return ""


@dataclass(frozen=True)
class BudgetedLLM(WrapperLLM):
    """A model that is asked as long as the usage_budget allows."""

    wrapped: LLM
    usage_budget: UsageBudget
    last: bool = False
    """For the last part of the work, which may use what was laid aside."""

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
