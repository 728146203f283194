"""Where the finders look, and what they may pass over: bounded work that loses nothing."""

import subprocess
import sys
from types import FrameType
from typing import Any

import pytest

from bench.secrets.cases import plain_texts, positives
from tersely.masking import normalise, search, structures
from tersely.masking.mask import Masker
from tersely.masking.patterns import Pattern, Places
from tersely.masking.windows import _SIGNS, NameWindows

SIGNED = {
    "header": search._SCHEMES,
    "key": search._KEY_SIGN,
    "rows": structures._ROWS,
    "link": search._SECRET_LINK,
    "store": search._STORED,
    "pair": search._PAIR,
    "dsn": search._DSN,
    "mailbox": search._MAILBOX,
    "digest": search._DIGEST_LINE,
    "heading": structures._HEADER,
    "foreign": normalise._LATIN_NAME,
}


def test_a_pattern_that_is_passed_over_without_its_sign_never_matches_without_it() -> None:
    cases = [case.text for case in positives(17)] + [case.text for case in plain_texts(17)]
    texts = {text.encode("utf-8", "surrogatepass") for text in cases}
    texts |= {b"Authorization: Bearer qT8vR2mZ5xW9bK4n", b"bob@mail.example.org:Sommer-Wiese-81\n"}
    texts.add(b"bob:Private Area:5f1d7a84db00d2fce00b31a7fc73224f")
    seen: set[str] = set()
    commands: set[int] = set()
    for text in texts:
        windows = NameWindows(text)
        for sign, pattern in SIGNED.items():
            if pattern.search(text):
                assert windows.has_sign(sign), (sign, text)
                seen.add(sign)
        if normalise._change().search(text):
            assert normalise._sign_of_change().search(text), text
        if search._ANY_COMMAND.search(text):
            present = search._command_signs().found(text)
            matching = {number for number, command in enumerate(search._COMMANDS) if command.search(text)}
            assert matching <= present, text
            commands |= matching
    assert seen == SIGNED.keys() == _SIGNS.keys() and len(commands) > 20


def test_the_sign_of_a_command_is_its_program_and_none_where_there_are_alternatives() -> None:
    assert search._sign_of(r"\b(?:sqlplus|rman)\b[^\n|;]*?[ \t][\w$#]+/([^\s@/]+)@") == r"\b(?:sqlplus|rman)\b"
    assert search._sign_of(r"a[ \t]+(b)|c[ \t]+(d)") == ""


class Counting(Pattern):
    """Counts the bytes that it may have read."""

    read = 0

    def search(self, text: bytes, start: int = 0, end: int | None = None) -> Places | None:
        places = super().search(text, start, end)
        self.read += (places[0][1] if places else len(text) if end is None else end) - start
        return places


def test_matches_that_reach_to_the_end_of_a_text_are_not_read_again_and_again() -> None:
    text = b"<" * 100_000
    pattern = Counting(r"<<<\S+")
    windows = NameWindows(text, pattern)
    assert windows.size == len(text) and pattern.read < 40 * len(text), "200 times before"


def test_a_match_after_a_very_long_one_is_found_wherever_it_begins() -> None:
    for distance in (16_000, 16_384, 20_000, 40_000):
        text = b"<<<" + b"a" * 5_000 + b" " * distance + b"<<<b" + b" " * 9_000
        windows = NameWindows(text, Pattern(r"<<<\S+"))
        assert windows.search(Pattern("<<<b"), 0) is not None, distance


SIZES = """
import gc
from tersely.masking import announced, search
from tersely.masking.patterns import Pattern
search.token_table(), announced._all_forms()
patterns = [found for found in gc.get_objects() if isinstance(found, Pattern)]
sizes = [pattern.compile()._regexp.ProgramSize() for pattern in patterns]
print(len(sizes), max(sizes))
"""
"""In a process of its own: another test may have frozen the patterns or made invalid ones."""


@pytest.mark.process
def test_no_automaton_is_so_large_that_a_variety_of_texts_overflows_it() -> None:
    # One of 15,000 instructions overflowed after some 4 MB of different texts; from then on it was 20 times as slow.
    printed = subprocess.run([sys.executable, "-c", SIZES], capture_output=True, text=True, check=True).stdout
    patterns, largest = map(int, printed.split())
    assert patterns > 100 and largest < 6_000


def _steps(text: str) -> int:
    """How many lines of Python are executed to mask a text."""
    count = 0

    def step(_frame: FrameType, event: str, _value: Any) -> Any:
        nonlocal count
        count += event == "line"
        return step

    masker, before = Masker(key=b"tests"), sys.gettrace()
    masker.mask(text)  # Compiles.
    sys.settrace(step)
    try:
        masker.mask(text)
    finally:
        sys.settrace(before)
    return count


def test_names_in_front_of_one_long_match_are_not_read_again_for_each_of_them() -> None:
    template = 'password: <%= ENV.fetch("DB_PASS", "ember-Juniper-82") %> '
    end = 'password: <%= ENV.fetch("DB_PASS", "x'
    assert _steps(template * 1_200 + end) < 2.5 * _steps(template * 600 + end)
