"""That condensing leaves what gives a cause away, on a few incidents; `evidence_rate` measures it on many."""

import pytest

from tests.demo.evidence_rate import measure


@pytest.mark.slow
def test_what_gives_a_cause_away_survives_condensing_in_at_least_one_answer() -> None:
    counted, lost = measure([1])
    missed = [name for name, counts in counted.items() if not counts["any kept"]]
    assert missed == [], lost
