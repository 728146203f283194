"""Features of units and the table that weighs them."""

from dataclasses import replace

import pytest

from tersely.condensing.features import EDGE, features_of, pinned, position, rarity
from tersely.condensing.focus import Focus
from tersely.condensing.readers.generic import read
from tersely.condensing.weights import GENERIC

LINES = [f"worker {n} did its job" for n in range(40)] + ["disk failed on node-7", "worker 41 did its job"]
SHAPES = ["worker # did its job"] * 40 + ["disk failed on node-#", "worker # did its job"]


def test_a_score_is_the_sum_of_the_features_times_their_weights() -> None:
    for question in ("", "why did node-7 fail", "workers", "unusual job since 14:00"):
        focus = Focus.parse(question)
        features = features_of(LINES, SHAPES, focus)
        features.standing = [0.1 * at for at in range(len(LINES))]
        weights = replace(GENERIC, position=0.3, position_asked=0.4, pinned=0.7, pinned_asked=0.9)
        scores = features.scores(weights, focus)
        for row, score in zip(features.rows(focus), scores, strict=True):
            assert sum(getattr(weights, name) * value for name, value in row.items()) == pytest.approx(score)


def test_what_is_relevant_severe_and_rare_scores_highest() -> None:
    for question in ("", "node-7", "why did it fail"):
        focus = Focus.parse(question)
        scores = features_of(LINES, SHAPES, focus).scores(GENERIC, focus)
        assert scores.index(max(scores)) == 40


def test_a_shape_that_all_have_is_not_rare() -> None:
    found = rarity(["a"] * 50 + ["b"])
    assert found[-1] == 1
    assert found[0] < 0.05
    assert rarity([]) == []
    assert rarity(["a"]) == [1]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 100])
def test_the_first_and_the_last_have_a_position(count: int) -> None:
    found = position(count)
    assert len(found) == count
    assert sum(1 for value in found if value) == min(count, 2 * EDGE)
    assert not count or found[0] == found[-1] == 1


@pytest.mark.parametrize(
    "line",
    [
        "======= 1 failed, 120 passed in 3.21s =======",
        "Ran 512 tests in 3.124s",
        "FAILED (failures=1, skipped=3)",
        "Found 1689 errors in 101 files (checked 200 source files)",
        "make: *** [Makefile:12: all] Error 2",
        "Plan: 2 to add, 1 to change, 0 to destroy.",
        "BUILD FAILED in 3s",
        "process exited with code 137",
    ],
)
def test_the_outcome_of_a_run_is_pinned(line: str) -> None:
    lines = ["doing something"] * 100 + [line]
    assert pinned(lines, [0.0] * 101)[-1] == 1


def test_outcomes_that_come_on_every_line_are_ordinary() -> None:
    assert pinned(["3 passed"] * 1_000, [1.0] * 1_000) == []


def test_a_reader_takes_another_table() -> None:
    text = "\n".join(LINES)
    heavy = replace(GENERIC, severity=9.0, severity_asked=9.0)
    assert max(unit.score for unit in read(text, Focus.parse("job"), 100, weights=heavy).units) > 9
