"""Searching a kept text: the lines grep would find, whatever the pattern costs."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tersely.errors import InputError
from tersely.results import find_lines as module
from tersely.results.find_lines import find_lines

texts = st.lists(st.sampled_from(["a", "ab", "error", "é", "\n", "\r\n", " ", "x" * 30]), max_size=60).map("".join)


@given(
    texts,
    st.sampled_from(["a", "^a", "b$", "err.r", "é", "x{5}", "$", "^$", "[^a]", r"\s", "a|b", "(?i)ERROR"]),
    st.integers(1, 8),
)
def test_it_finds_the_lines_that_match_by_themselves(text: str, pattern: str, from_line: int) -> None:
    lines = text.split("\n")[: -1 if text.endswith("\n") or not text else None]
    expected = [number for number, line in enumerate(lines, 1) if re.search(pattern, line)]
    found = find_lines(text.encode(), pattern, from_line=from_line)
    assert found.total == len(expected) and found.counted_all
    assert [hit.number for hit in found.hits] == [number for number in expected if number >= from_line]
    assert [text.encode()[hit.start : hit.end].decode() for hit in found.hits] == [
        lines[hit.number - 1] for hit in found.hits
    ]


@given(texts, st.sampled_from(["a", "error", "^", "x{30}"]))
def test_segments_change_nothing(text: str, pattern: str) -> None:
    whole = find_lines((text * 3).encode(), pattern)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SEGMENT", 40)
        patch.setattr(module, "_LONGEST_SEGMENT", 120)
        patch.setattr(module, "_OVERLAP", 35)
        assert [hit.number for hit in find_lines((text * 3).encode(), pattern).hits] == [
            hit.number for hit in whole.hits
        ]


def test_a_match_deep_in_an_endless_line_is_found() -> None:
    text = b"a" * 300_000 + b" needle " + b"b" * 300_000 + b"\nsecond needle\n"
    assert [(hit.number, hit.match) for hit in find_lines(text, "needle").hits] == [
        (1, (300_001, 300_007)),
        (2, (600_016, 600_022)),
    ]


def test_matches_are_counted_in_all_though_few_are_returned() -> None:
    found = find_lines(b"hit\n" * 5000, "hit", limit=10, from_line=100)
    assert (found.total, found.hits[0].number, len(found.hits)) == (5000, 100, 10)


def test_counting_ends_somewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_COUNTED", 50)
    found = find_lines(b"hit\n" * 5000, "hit", limit=10)
    assert (found.total, found.counted_all) == (50, False)


@pytest.mark.parametrize(
    "wrong", ["(", "a)(b", "[z-a]", "(?=x)", r"(a)\1", "a{5000}", "*", ")", "((((((((((x{100}){100}){100})))))))"]
)
def test_a_bad_pattern_is_explained(wrong: str) -> None:
    with pytest.raises(InputError, match="is not a valid re2 expression"):
        find_lines(b"text", wrong)


def test_a_pattern_without_end_is_refused() -> None:
    with pytest.raises(InputError, match="at most 1,000"):
        find_lines(b"text", "x" * 1001)


@pytest.mark.parametrize("hostile", ["(a?){1000}b", "(a{1,100}){1,9}b", "(a+)+$b", "(.*a){100}b"])
def test_a_hostile_pattern_is_stopped_by_the_clock_or_done(hostile: str) -> None:
    """Without the time limit this takes half a minute."""
    with contextlib.suppress(InputError):
        assert find_lines(b"a" * 500_000, hostile, seconds=0.5).total == 0


def test_a_pattern_that_costs_too_much_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match=r"too expensive: the search took more than 0\.1 s"):
        find_lines(b"a" * 500_000, "(a?){1000}b", seconds=0.1)
