"""What cleaning takes out, what it keeps, and that it counts."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tersely.masking.clean import clean


@pytest.mark.parametrize(
    ("text", "visible", "removed"),
    [
        ("\x1b[1;31mred\x1b[0m", "red", 11),
        ("\x1b[2J\x1b[1;1Hall good", "all good", 10),
        ("\x9b31mred", "red", 4),
        ("\x1b]0;title\x07text", "text", 10),
        ("see \x1b]8;;https://x.test\x1b\\the page\x1b]8;;\x1b\\ now", "see the page now", 28),
        ("\x1bPq#0;2;0\x1b\\after", "after", 11),
        ("bell\x07 back\x08space nul\x00 del\x7f", "bell backspace nul del", 4),
        ("pass\u200bword\u2060: \ufeffx", "password: x", 3),
        ("\u202eabc\u202c \u2066def\u2069", "abc def", 4),
        ("text\U000e0069\U000e0067\U000e006e", "text", 3),
        ("ok\U000e0154\U000e0155", "ok", 2),
        ("\u2800\u3164\uffa0\u180e", "", 4),
        ("a" + "\u0301" * 500, "a" + "\u0301" * 8, 492),
        ("half \ud83d of a pair", "half \ufffd of a pair", 1),
        ("progress 10%\rprogress 100%", "progress 10%\nprogress 100%", 1),
    ],
)
def test_what_only_deceives_is_taken_out_and_counted(text: str, visible: str, removed: int) -> None:
    cleaned = clean(text)
    assert (cleaned.text, cleaned.removed) == (visible, removed)


@pytest.mark.parametrize(
    "text",
    [
        "plain\ttext\nof two lines\r\nand a third",
        "👨‍👩‍👧 a family, ❤️ a heart, 1️⃣ a keycap, 👍🏽 a thumb",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f Scotland",
        "می‌خواهم",
        "क्‍ष",
        "é as one and é as two characters",
        "葛\U000e0100飾区",
        "日本語 العربية עברית",
    ],
)
def test_what_a_script_or_an_emoji_needs_stays(text: str) -> None:
    assert clean(text).text == text
    assert clean(text).removed == 0


def test_an_escape_without_its_end_does_not_swallow_the_text_behind_it() -> None:
    assert clean("before \x1b]0;visible after all").text == "before 0;visible after all"
    assert clean("before \x1bPvisible\nnext line").text == "before visible\nnext line"


def test_text_with_nothing_to_clean_comes_back_as_the_same_object() -> None:
    text = "an ordinary line\n" * 1000
    assert clean(text).text is text


@given(st.text(st.characters() | st.sampled_from("\x1b[]m\x07\u200d\ufe0f\u0301\r\U000e0067\ud800")))
def test_nothing_hidden_is_left_and_nothing_visible_is_lost(text: str) -> None:
    out = clean(text).text
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\ud800-\udfff]", out)
    out.encode("utf-8")
    if not re.search("[\x1b\x90-\x9f]", text):  # Else letters may be part of a terminal sequence.
        assert re.sub("[^a-zA-Z0-9]", "", out) == re.sub("[^a-zA-Z0-9]", "", text)


def test_the_shared_smuggling_cases_hide_nothing_afterwards() -> None:
    for folder in Path(__file__).resolve().parents:
        if (path := folder.parent / "shared" / "safety" / "injection_dev.jsonl").exists():
            break
    else:
        pytest.skip("The shared injection cases are not here.")
    cases = [
        case
        for case in map(json.loads, path.read_text("utf8").strip().split("\n"))
        if case["category"] in ("unicode_smuggling", "ansi")
    ]
    assert cases
    for case in cases:
        cleaned = clean(case["payload"])
        assert cleaned.removed > 0, case["id"]
        assert not re.search(
            "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e01ef]",
            cleaned.text,
        )
