"""Equal lines are shown once with their count, in every kind of text."""

import json

import pytest

from tersely.condensing.account import size_of
from tersely.condensing.structural import condense_structurally

TEXTS: dict[str, tuple[str, str]] = {
    "diff": (
        "\n".join(["diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,0 +1,900 @@", *["+same added line here"] * 900]),
        "+same added line here ×900",
    ),
    "grep": ("\n".join(f"src/a.py:{at}:    import os" for at in range(1, 600)), " 1: import os ×599 [1–599]"),
    "findings": ("\n".join(["src/a.py:3:1: E501 line too long"] * 600), " 3:1: E501 line too long ×600"),
    "manual": (
        "NAME\n       foo - do foo\n\nOPTIONS\n" + "       -x     Same option text.\n\n" * 300,
        "       -x     Same option text. ×300",
    ),
    "XML": ("\n".join(["<items>", *["<item>same</item>"] * 900, "</items>"]), "items: item: same ×900"),
    "JSON": (json.dumps(["same"] * 900, indent=1), "same ×900"),
    "page": (
        "<html><body><h1>T</h1>\n" + "<p>The same paragraph is here again.</p>\n" * 600 + "</body></html>",
        "The same paragraph is here again. ×600",
    ),
    "text": (
        "\n".join(f'openat("/etc/x{at}") = 3' if at % 3 == 0 else f"close({at % 3}) = 0" for at in range(1_500)),
        "close(1) = 0 ×500",
    ),
}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("budget", [120, 400])
def test_equal_lines_are_one_line_with_their_count(kind: str, budget: int) -> None:
    text, line = TEXTS[kind]
    condensed = condense_structurally(text, budget)
    shown = condensed.text.split("\n")
    assert line in shown
    assert shown.count(line) == 1
    assert size_of(condensed.account.folded) >= 299
    equal = line.partition(" ×")[0].strip()
    lost = [text.split("\n")[at - 1] for first, last in condensed.account.lost for at in range(first, last + 1)]
    assert not any(equal in each for each in lost)


def test_equal_lines_of_different_hunks_are_different_places() -> None:
    hunks = [f"@@ -{at},3 +{at},4 @@ def part{at}():\n     first\n+    log(1)\n     last" for at in range(1, 400, 10)]
    diff = "\n".join(["diff --git a/x.py b/x.py", "--- a/x.py", "+++ b/x.py", *hunks])
    assert "×" not in condense_structurally(diff, 300).text


def test_few_equal_lines_and_lines_without_words_are_shown_as_they_are() -> None:
    lines = [
        "diff --git a/x b/x",
        "--- a/x",
        "+++ b/x",
        "@@ -1,2 +1,900 @@",
        "+twice",
        "+twice",
        "+",
        "+",
        "+",
        "+}",
        "+}",
    ]
    diff = "\n".join([*lines, "+}", *(f"+line number {at} of many" for at in range(200))])
    assert "×" not in condense_structurally(diff, 300).text


def test_a_few_matches_with_the_same_text_keep_their_numbers() -> None:
    hits = [f"src/a.py:{at}:        return None" for at in (12, 40, 98)]
    hits += [f"src/b{at}.py:{at}:    value_{at} = compute({at})" for at in range(200)]
    text = condense_structurally("\n".join(hits), 200, "where does it return None?").text
    assert " 12: return None ×3 [12, 40, 98]" in text.split("\n")


def test_pieces_of_one_long_line_are_not_counted_as_lines() -> None:
    text = "the same words again, " * 4_000
    assert "×" not in condense_structurally(text, 200).text
