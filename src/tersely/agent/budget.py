"""Budgets of work: tokens and time of an agent, its stage and its session.

A budget is checked inside of steps, whose outcome is stored: a replay stops where the
first run stopped, whatever the clock says then. Work stops when a budget is used up;
a part of the time and of the tokens is reserved for the conclusion.

A request reserves the tokens that it may read and write before it is sent, and its
answer is limited to what is left, so that a budget is not exceeded. Not known before:
tokens that a provider counts differently, and what failed requests cost.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import anyio

from tersely.agent.budget_options import BudgetOptions
from tersely.agent.tool_executor import Step
from tersely.cpu.run import run_in_thread
from tersely.errors import LLMOutOfQuota, TerselyError
from tersely.llm.client import LLM
from tersely.llm.messages import Completion, Delta, Message, ToolSpec
from tersely.llm.providers import NativeTools
from tersely.llm.wrapper import WrapperLLM

T = TypeVar("T")

FOR_WORK = 0.8
"""Share of the time that is for work; the rest is for the conclusion."""


class OverBudget(TerselyError):
    """A budget is used up; the message says which one."""


@dataclass
class Hold:
    """Tokens that are reserved for the conclusion of one agent."""

    tokens: int = 0


@dataclass(kw_only=True)
class WorkBudget:
    """What one agent, stage or session may spend, and has spent."""

    owner: str
    """E.g. `agent kubernetes`."""

    options: BudgetOptions
    clock: Callable[[], datetime]
    began: datetime
    spent: int = 0
    """Tokens."""

    around: "WorkBudget | None" = None
    """The budget of the stage, or of the session, to which this one belongs."""

    agents: int = 1
    """How many work within it at once; each may reserve its part for its conclusion."""

    requested: int = 0
    """Tokens that requests under way may use."""

    held: int = 0
    """Tokens that are reserved for conclusions."""

    _freed: anyio.Event = field(default_factory=anyio.Event, repr=False)

    def count(self, tokens: int) -> None:
        self.spent += tokens
        if self.around:
            self.around.count(tokens)

    def used_up(self, *, share: float = FOR_WORK) -> str:
        """A sentence about the budget that is used up; empty if none is."""
        most = self.options.tokens
        if most is not None and self.spent >= most:
            return f"The budget of the {self.owner}, {most:,} tokens, is used up."
        if self._left(share) <= 0:
            return f"The time of the {self.owner}, {self.options.seconds:g} s, is used up."
        return self.around.used_up(share=share) if self.around else ""

    def left(self, *, after_requests: bool = False) -> float:
        """Tokens that are neither spent nor reserved, here and in the budgets around.

        Args:
            after_requests: As if the requests under way had cost nothing.
        """
        return min(one._own_left(after_requests) for one in self._chain())

    def _own_left(self, after_requests: bool) -> float:
        if self.options.tokens is None:
            return math.inf
        return self.options.tokens - self.spent - self.held - (0 if after_requests else self.requested)

    def request(self, tokens: int) -> None:
        """Reserve tokens for a request; a negative number frees them."""
        self.requested += tokens
        if tokens < 0:
            freed, self._freed = self._freed, anyio.Event()
            freed.set()
        if self.around:
            self.around.request(tokens)

    @contextmanager
    def holding(self, tokens: int) -> Iterator[Hold]:
        """Reserve tokens for a conclusion while the block is open.

        An agent may reserve its part of half of a budget, and no more than is left: what all reserve has to be there,
        or none of them could conclude.
        """
        agents, granted = 1, float(tokens)
        for one in self._chain():
            agents *= one.agents
            if one.options.tokens is not None:
                granted = min(granted, one.options.tokens // 2 // agents, max(0.0, one._own_left(after_requests=True)))
        hold = Hold()
        self._hold(hold, int(granted))
        try:
            yield hold
        finally:
            self._hold(hold, -hold.tokens)

    def _hold(self, hold: Hold, tokens: int) -> None:
        hold.tokens += tokens
        for one in self._chain():
            one.held += tokens

    @asynccontextmanager
    async def reserved(
        self, *, read: int, write: int, least: int, hold: Hold | None = None, leave: int = 0
    ) -> AsyncIterator[int]:
        """Reserve the tokens of a request while the block is open; returns how many its answer may have.

        Requests under way, of parallel agents, are waited for if what they leave may be enough.

        Args:
            read: Tokens of the request.
            write: Tokens that the answer should be able to have.
            least: Tokens that it has to be able to have.
            hold: Tokens that are reserved for this request and the next ones; it uses them first.
            leave: How many of them are for the next ones.

        Raises:
            OverBudget: Not enough is left.
        """
        held = max(0, hold.tokens - leave) if hold else 0
        while (left := self.left() + held - read) < least:
            if self.left(after_requests=True) + held - read < least:
                raise OverBudget(self.shortage(read + least, held))
            await self._chain()[-1]._freed.wait()
        most, before = int(min(write, left)), self.spent
        self.request(read + most)
        try:
            yield most
        finally:
            if hold:
                # What is spent is no longer reserved.
                self._hold(hold, -min(self.spent - before, held))
            self.request(-read - most)

    def shortage(self, needed: int, held: int = 0) -> str:
        """A sentence about the budget that does not have the tokens; empty if all do.

        Args:
            held: Tokens that are reserved for it.
        """
        if self.left(after_requests=True) + held >= needed:
            return ""
        tightest = min(self._chain(), key=lambda one: one._own_left(after_requests=True))
        most, kept = tightest.options.tokens, tightest.held - held
        for_conclusions = f", {kept:,} are reserved for conclusions" if kept > 0 else ""
        return (
            f"The budget of the {tightest.owner}, {most:,} tokens, is used up: {tightest.spent:,} are spent"
            f"{for_conclusions}, and going on needs {needed:,}."
        )

    def _chain(self) -> "list[WorkBudget]":
        return [self, *(self.around._chain() if self.around else ())]

    def seconds(self, share: float) -> float:
        """Seconds until the first of the budgets is used up."""
        return min(self._left(share), self.around.seconds(share) if self.around else float("inf"))

    def _left(self, share: float) -> float:
        if self.options.seconds is None:
            return float("inf")
        return self.options.seconds * share - (self.clock() - self.began).total_seconds()


def within_budget(step: Step, budget: WorkBudget | None, *, share: float = FOR_WORK) -> Step:
    """A step that is cut off when the time is used up.

    Its steps raise `OverBudget`; that is stored, so that a replay raises it too.
    """
    if budget is None:
        return step

    async def limited(name: str, work: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            with anyio.move_on_after(max(0.0, budget.seconds(share))):
                return await work()
            raise OverBudget(budget.used_up(share=share) or "The time is used up.")

        return await step(name, run)

    return limited


class ReservingLLM(WrapperLLM):
    """A model for summaries within a budget: a request that does not fit fails, so that the text is condensed without a
    model.
    """

    def __init__(self, wrapped: LLM, budget: WorkBudget) -> None:
        self.wrapped = wrapped
        self._budget = budget

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> Completion:
        async with self._reserved(messages, max_tokens):
            return await self.wrapped.complete(messages, max_tokens=max_tokens, tools=tools, native=native)

    async def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        tools: Sequence[ToolSpec] = (),
        native: NativeTools | None = None,
    ) -> AsyncIterator[Delta]:
        async with self._reserved(messages, max_tokens):
            stream: Any = self.wrapped.stream(messages, max_tokens=max_tokens, tools=tools, native=native)
            async with aclosing(stream) as deltas:
                async for delta in deltas:
                    yield delta

    @asynccontextmanager
    async def _reserved(self, messages: Sequence[Message], max_tokens: int) -> AsyncIterator[None]:
        text = "\n".join(message.text for message in messages)
        read = await run_in_thread(self.tokenizer.count, text)
        try:
            reserving = self._budget.reserved(read=read, write=max_tokens, least=max_tokens)
            async with reserving:
                yield
        except OverBudget as problem:
            raise LLMOutOfQuota(str(problem)) from None
