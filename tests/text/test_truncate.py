"""Cutting an answer where a reader would stop."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.text.tokens import O200K, Tokenizer
from tersely.text.truncate import cut_at_sentence, without_half_sentence


def test_a_text_within_the_limit_comes_back_unchanged_even_without_a_full_stop() -> None:
    assert cut_at_sentence("- one\n- two, and no stop\n", 100) == "- one\n- two, and no stop\n"


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("The disk filled up at noon. ", "English"),
        ("Das Laufwerk war um zwölf Uhr voll! ", "German"),
        ("ディスクが正午にいっぱいになりました。", "Japanese"),
        ("磁盘在中午已满。", "Chinese"),
        ("डिस्क दोपहर में भर गई। ", "Hindi"),
        ("امتلأ القرص عند الظهر؟ ", "Arabic"),
        ("Диск заполнился в полдень. ", "Russian"),
    ],
)
def test_the_cut_falls_behind_a_whole_sentence_in_any_language(sentence: str, language: str) -> None:
    text = sentence * 40
    cut = cut_at_sentence(text, 100)

    assert cut.endswith(sentence.strip()), language
    assert O200K.count(text) > 100 >= O200K.count(cut) > 50


def test_a_list_is_cut_behind_a_whole_item() -> None:
    text = "".join(f"- pod-{number} restarted {number} times within an hour\n" for number in range(40))
    cut = cut_at_sentence(text, 100)

    assert cut.splitlines() == text.splitlines()[: len(cut.splitlines())]
    assert O200K.count(cut) > 50


def test_a_huge_second_line_does_not_take_everything_with_it() -> None:
    """A predecessor cut at the last newline and kept 22 bytes of 640,025."""
    text = "a heading of few words\n" + "word " * 128_000
    cut = cut_at_sentence(text, 1_000)

    assert 900 <= O200K.count(cut) <= 1_000
    assert cut.endswith("word")


def test_the_number_of_a_list_item_and_an_abbreviation_end_no_sentence() -> None:
    assert (
        without_half_sentence("1. The first thing is over.\n2. The second, e.g. when") == "1. The first thing is over."
    )
    assert without_half_sentence("It failed twice. Then Dr. Who") == "It failed twice."


def test_a_sentence_that_ends_exactly_at_the_cut_is_kept() -> None:
    whole = "It failed. Then it was started again. It works now."
    assert without_half_sentence(whole) == whole


def test_text_without_any_place_to_stop_is_still_cut() -> None:
    assert 1 <= O200K.count(cut_at_sentence("x" * 50_000, 100)) <= 100


def test_millions_of_full_stops_are_read_in_one_pass() -> None:
    """A pattern that looks ahead from each of them would not come back within the time a test has."""
    for text in ("." * 3_000_000 + "x", '.")' * 1_000_000 + "x", "." + '"' * 3_000_000 + "x", "。" * 1_000_000):
        assert without_half_sentence(text)


def test_no_room_leaves_nothing() -> None:
    assert cut_at_sentence("Some words.", 0) == ""


@given(st.text(), st.integers(0, 40), st.sampled_from([O200K, Tokenizer("cl100k_base"), Tokenizer("o200k_base", 1.25)]))
@settings(deadline=None)
def test_a_cut_is_a_beginning_of_the_text_within_the_limit(text: str, limit: int, tokenizer: Tokenizer) -> None:
    cut = cut_at_sentence(text, limit, tokenizer)

    assert text.startswith(cut)
    assert tokenizer.count(cut) <= limit
