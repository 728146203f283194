"""Condensing takes time in proportion to the text: twice the text, about twice the steps, whatever it consists of.

Steps are executed lines of Python, which do not depend on the machine. `python -m bench.linearity` measures the time.
"""

import pytest

from bench.kinds import HOSTILE, KINDS, text_of
from tersely.condensing.detect import readers
from tersely.condensing.structural import condense_structurally
from tests.fakes.tracing import count_steps

MOST = 2.3
"""Times as many steps for twice the text."""


def steps(text: str) -> int:
    """Return how many lines are executed to condense a text."""
    return count_steps(lambda: condense_structurally(text, 300, "What failed, and why?", tokens_before=0))


def test_there_is_a_text_of_every_kind_that_has_a_reader() -> None:
    assert readers().keys() == KINDS.keys()


@pytest.mark.parametrize("kind", [*KINDS, *HOSTILE])
def test_twice_the_text_takes_about_twice_the_steps(kind: str) -> None:
    """Over two doublings, because a longer text may just need one more round of filling the budget."""
    size = 10_000
    condense_structurally(text_of(kind, size // 4), 300, "What failed, and why?")  # What is prepared once is no step.
    one, four = steps(text_of(kind, size)), steps(text_of(kind, 4 * size))
    assert one > 1_000
    assert four <= MOST**2 * one, f"{one:,} steps for {size:,} characters, {four:,} for four times as many"
