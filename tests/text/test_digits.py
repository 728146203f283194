import re

import pytest

from tersely.text.digits import masked_forms, of_each_form

_VALUE = re.compile(r"\d[\w.:]*")
LINES = ["took 12 ms at 10:02:11", "took 97 ms at 23:59:00", "", "no value", "größe 7b", "took 12 ms at 10:02:11"]


def _without_values(text: str) -> str:
    return _VALUE.sub("#", text)


@pytest.mark.parametrize("lines", [LINES, [], [""], ["one"], ["7", "two\nlines 8", "9"]])
def test_forms_are_masked_as_each_line_would_be(lines: list[str]) -> None:
    expected = [_without_values(line) for line in lines]
    assert masked_forms(_without_values, lines) == expected
    assert of_each_form(_without_values, lines) == expected


def test_lines_that_differ_only_in_digits_are_masked_once() -> None:
    seen: list[str] = []

    def mask(text: str) -> str:
        seen.extend(text.split("\n"))
        return _without_values(text)

    masked_forms(mask, LINES)
    assert len(seen) == 4
