"""Estimates of tokens, for sums: near the count on ordinary texts, without a vocabulary."""

from pathlib import Path

import pytest

from tersely.text.estimate import estimated_tokens
from tersely.text.tokens import O200K

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", ["README.md", "src/tersely/text/tokens.py", "docs/reference/events.schema.json"])
def test_an_estimate_is_within_a_fifth_of_the_count(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")[:8_000]
    assert estimated_tokens(text) == pytest.approx(O200K.count(text), rel=0.2)


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("x", 1), (" ", 1), ("one two three", 3), ("\ud800", 1)])
def test_any_text_has_an_estimate(text: str, expected: int) -> None:
    assert estimated_tokens(text) == expected
