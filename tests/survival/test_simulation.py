"""Bad days, drawn from seeds, in virtual time: none lost, none doubled, none stuck."""

import pytest

from tests.survival.simulation import play, play_on_all_cores

pytestmark = pytest.mark.process


@pytest.mark.parametrize("seconds", [5, pytest.param(30, marks=pytest.mark.long)])
def test_nothing_is_lost_doubled_or_stuck_on_any_bad_day(seconds: float) -> None:
    played = play_on_all_cores(seconds, 1)
    assert played.runs > 0
    assert not played.bad, "\n".join(
        f"python -m tests.survival.simulation --seed {seed}: {what}" for seed, what in played.bad
    )


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1017, id="the answer to a conviction is lost"),
        pytest.param(20261238, id="the last process is killed after the last end"),
    ],
)
def test_days_that_once_were_bad_are_not(seed: int) -> None:
    assert not play(seed)[1]


def test_a_day_is_decided_by_its_seed() -> None:
    first, second = (play(7)[0].records for _ in range(2))
    assert first == second
