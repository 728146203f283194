"""Folding says repetitions once, and every line can be read back."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.summarize.fold import HEADER, fold, unfold_counts
from tersely.text.tokens import O200K


def _access_log(lines: int) -> str:
    return "\n".join(
        f"2026-03-{1 + at // 9000:02} {at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02} INFO [http-{at % 8}] "
        f"served /api/items/{at * 37 % 5000} for user-{at % 91} in {at * 7919 % 400} ms, status "
        f"{500 if at % 97 == 0 else 200}"
        for at in range(lines)
    )


def test_every_line_and_its_count_can_be_read_back() -> None:
    text = _access_log(3_000) + "\nsomething else\nsomething else\n"

    folded = fold(text)

    assert folded.startswith(HEADER)
    assert unfold_counts(folded) == Counter(text.split("\n"))


def test_a_repetitive_log_costs_at_most_a_third_of_its_tokens() -> None:
    text = _access_log(4_000)
    assert O200K.count(text) > 150_000

    assert O200K.count(fold(text)) * 3 <= O200K.count(text)


def test_text_without_repetition_comes_back_as_it_was() -> None:
    text = "\n".join(
        [
            "The harbour was built in two parts.",
            "Nobody remembers why.",
            "Its lamps burn gas.",
            "Ships come on Mondays.",
            "",
            "Fin.",
        ]
    )

    assert fold(text) == text


def test_what_lives_by_its_indentation_is_left_alone() -> None:
    document = "{\n" + ",\n".join(f'  "key{at}": {{\n    "value": {at}\n  }}' for at in range(200)) + "\n}"

    assert fold(document) == document


def test_identical_lines_are_said_once_with_their_number() -> None:
    folded = fold("connection refused by the database\n" * 40 + "gave up after forty attempts")

    assert "×40 connection refused by the database" in folded
    assert "gave up after forty attempts" in folded.split("\n")


def test_a_stack_trace_that_comes_again_is_said_once() -> None:
    trace = "\n\tat com.shop.Cart.total(Cart.java:17)\n\tat com.shop.Main.run(Main.java:5)"
    text = "\n".join(f"2026-03-01 10:00:{at:02} ERROR order {1000 + at} failed" + trace for at in range(30))

    folded = fold(text)

    assert folded.count("Cart.java:17") == 1
    assert unfold_counts(folded) == Counter(text.split("\n"))


def test_early_things_stay_before_late_ones() -> None:
    text = _access_log(2_500) + "\nthe pump stopped\n" + _access_log(2_500)

    folded = fold(text)

    stop = folded.index("the pump stopped")
    assert folded.index("#", len(HEADER)) < stop < folded.rindex("\n#")


def test_folding_twice_changes_nothing() -> None:
    once = fold(_access_log(500))

    assert fold(once) == once


_WORDS = st.sampled_from(
    [
        "job",
        "×3 job",
        "#2 row",
        "{1}",
        "failed",
        "7",
        "id=12a",
        "10.0.0.1:80",
        "  at a.b(C.java:1)",
        "Caused by: x",
        "Ä",
        "٣",
        "",
    ]
)
_LINES = st.lists(st.lists(_WORDS, max_size=4).map(" ".join), max_size=60)


@settings(max_examples=300, deadline=None)
@given(lines=_LINES, times=st.integers(1, 30))
def test_whatever_the_lines_are_they_can_be_read_back(lines: list[str], times: int) -> None:
    text = "\n".join(lines * times)

    folded = fold(text)

    assert unfold_counts(folded) == Counter(text.split("\n"))
    assert O200K.count(folded) <= O200K.count(text)


@settings(max_examples=150, deadline=None)
@given(numbers=st.lists(st.tuples(st.integers(0, 10**6), st.integers(-5, 5)), min_size=3, max_size=80))
def test_values_of_any_size_can_be_read_back(numbers: list[tuple[int, int]]) -> None:
    text = "\n".join(
        f"request r-{one:04} of shard {one % 7} answered after a rather long while with the result {two}"
        for one, two in numbers
    )

    assert unfold_counts(fold(text)) == Counter(text.split("\n"))
