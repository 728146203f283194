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


def test_a_day_is_decided_by_its_seed() -> None:
    first, second = (play(7)[0].records for _ in range(2))
    assert first == second
