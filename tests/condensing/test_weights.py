"""The table of weights: one row for each kind of text."""

from dataclasses import asdict

from tersely.condensing.weights import WEIGHTS


def test_no_weight_makes_a_unit_worse() -> None:
    for row in WEIGHTS.values():
        assert min(getattr(row, name) for name in asdict(row) if name != "roles") >= 0
        assert min(row.roles.values(), default=0.0) >= 0
