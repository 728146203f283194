"""Budgets of agent, stage and session: which one is used up, and that a step is cut off once for all."""

from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from tersely.agent.budget import OverBudget, WorkBudget, within_budget
from tersely.agent.budget_options import BudgetOptions
from tersely.agent.tool_executor import run_now

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def budget(owner: str, around: WorkBudget | None = None, *, late: float = 0.0, **options: float) -> WorkBudget:
    given = BudgetOptions.model_validate(options)
    return WorkBudget(
        owner=owner, options=given, clock=lambda: NOON + timedelta(seconds=late), began=NOON, around=around
    )


def test_tokens_count_for_everything_around() -> None:
    session = budget("session", tokens=100)
    one, two = (budget(f"agent {name}", session, tokens=80) for name in "ab")
    one.count(60)
    two.count(30)
    assert (one.used_up(), two.used_up(), session.spent) == ("", "", 90)
    two.count(10)
    assert one.used_up() == two.used_up() == "The budget of the session, 100 tokens, is used up."


def test_a_part_of_the_time_is_for_the_conclusion() -> None:
    assert budget("stage x", late=9, seconds=10).used_up() == "The time of the stage x, 10 s, is used up."
    assert budget("stage x", late=9, seconds=10).used_up(share=1.0) == ""
    assert budget("a", budget("s", late=9, seconds=10), late=9, seconds=100).seconds(1.0) == 1.0


async def test_a_step_is_cut_off_when_the_time_is_used_up() -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("began")
        await anyio.sleep_forever()

    with pytest.raises(OverBudget, match="is used up"):
        await within_budget(run_now, budget("agent a", seconds=0.05))("one", work)
    with pytest.raises(OverBudget, match="The time of the agent a, 5 s"):
        await within_budget(run_now, budget("agent a", late=9, seconds=5))("two", work)


async def test_a_request_reserves_its_tokens_waits_for_others_and_leaves_enough_for_the_conclusion() -> None:
    session = budget("session", tokens=1_000)
    one, two = (budget(f"agent {name}", session, tokens=900) for name in "ab")
    with one.holding(200) as hold:
        async with one.reserved(read=100, write=5_000, least=50) as most:
            assert most == 600, "the answer is limited to what is left"
            with anyio.move_on_after(0.01) as waiting:
                async with two.reserved(read=100, write=100, least=50):
                    pytest.fail("the other request may need all of it")
            assert waiting.cancelled_caught
            one.count(150)
        async with two.reserved(read=100, write=100, least=50) as most:
            assert most == 100
        with pytest.raises(OverBudget, match="session, 1,000 tokens, is used up: 150 are spent, 200 are reserved"):
            async with two.reserved(read=651, write=100, least=50):
                pytest.fail("too little is left")
        async with one.reserved(read=500, write=100, least=50, hold=hold, leave=120):
            assert session.left() == 1_000 - 150 - 200 - 600
            one.count(60)
        assert hold.tokens == 140 and session.left() == 1_000 - 210 - 140, "what is spent is no longer reserved"
        async with one.reserved(read=500, write=100, least=50, hold=hold, leave=120):
            one.count(100)
        assert hold.tokens == 120, "the rest is for the next request"
    assert (session.left(), one.left(), two.left()) == (690, 590, 690)


async def test_agents_at_once_reserve_no_more_for_their_conclusions_than_there_is() -> None:
    session = budget("session", tokens=20_000)
    stage = replace(budget("stage look", session), agents=3)
    with ExitStack() as reserving:
        holds = [reserving.enter_context(budget(f"agent {name}", stage).holding(8_000)) for name in "abc"]
        assert [hold.tokens for hold in holds] == [20_000 // 2 // 3] * 3 and session.left() == 10_001
        session.count(9_500)
        assert reserving.enter_context(session.holding(8_000)).tokens == 501, "not what the others reserved"
        assert session.left() == 0
    with budget("agent a", tokens=3_000).holding(8_000) as hold:
        assert hold.tokens == 1_500
