"""Budgets of work: tokens and time of an agent, its stage and its session.

A budget is checked inside of steps, whose outcome is stored: a replay stops where the
first run stopped, whatever the clock says then. Work stops when a budget is used up;
the conclusion is still asked for, and a part of the time is reserved for it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import anyio

from tersely.agent.budget_options import BudgetOptions
from tersely.agent.tool_executor import Step
from tersely.errors import TerselyError

T = TypeVar("T")

FOR_WORK = 0.8
"""Share of the time that is for work; the rest is for the conclusion."""


class OverBudget(TerselyError):
    """A budget is used up; the message says which one."""


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
