"""A view of the lines of a long text is equal to a list of them."""

import pytest

from tersely.condensing.account import source_lines
from tersely.text.long_lines import LongLines


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "one",
        "one\n",
        "one\n\ntwo",
        "\n\n\n",
        "last is blank\n\n",
        "\n".join(map(str, range(3_500))),
        "a\n" * 3_000,
    ],
)
def test_lines_are_those_of_a_list(text: str) -> None:
    lines, listed = LongLines(text), source_lines(text)
    assert list(lines) == listed
    assert [lines[at] for at in range(len(lines))] == listed
    assert lines[1:3] == listed[1:3]
    if listed:
        assert lines[-1] == listed[-1]
    with pytest.raises(IndexError):
        lines[len(listed)]


def test_blank_lines_precede_a_section() -> None:
    lines = LongLines("three\nfour", before=2)
    assert list(lines) == ["", "", "three", "four"]
    assert list(lines.own()) == ["three", "four"]
    assert (lines[0], lines[1], lines[2], lines[-1]) == ("", "", "three", "four")
    assert lines[1:] == ["", "three", "four"]


def test_lines_that_are_long_themselves() -> None:
    text = "a" * 20_000 + "\n" + "b" * 30_000
    lines = LongLines(text)
    assert lines[0] == "a" * 20_000
    assert lines[1] == lines[1] == "b" * 30_000
    assert lines[0] == "a" * 20_000
