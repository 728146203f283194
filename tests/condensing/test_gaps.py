"""The size of a gap, in texts with more lines than a reader makes units of."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from tersely.condensing.structural import condense_structurally

LINES = 8_000
BUDGET = 300
DRAW = Random(3)
WORDS = ["".join(DRAW.choices("abcdefghijklmnoprstuw", k=DRAW.randint(3, 9))) for _ in range(4_000)]
SIZED = re.compile(r"\[… ([\d,]+) lines\]")


@pytest.fixture(autouse=True)
def draw_anew() -> None:
    """Every test draws the same words, whichever ran before it in this process."""
    DRAW.seed(3)


def word() -> str:
    return DRAW.choice(WORDS)


SHAPES: dict[str, Callable[[int], str]] = {
    "numbers": lambda at: str(at + 1),
    "words, and prompts that divide them": lambda at: f"{'aws ' if at % 2_500 == 9 else ''}{word()} {word()} {word()}",
    "paths": lambda at: f"./{word()}/{word()}/{word()}.py",
    "settings": lambda at: f"{word()}.{word()}.{at} = {word()}",
    "sections of settings": lambda at: f"[{word()}{at}]" if at % 10 == 0 else f"{word()}={word()}",
    "commands": lambda at: f"gcc -c {word()}.c -o {word()}.o",
    "log": lambda at: f"2026-11-16T10:{at // 60 % 60:02d}:{at % 60:02d}Z INFO {word()} {word()} {word()}",
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("focus", ["", "which line is about nothing in particular?"])
def test_a_mark_counts_all_lines_that_its_gap_hides(shape: str, focus: str) -> None:
    lines = [SHAPES[shape](at) for at in range(LINES)]
    condensed = condense_structurally("\n".join(lines), BUDGET, focus)
    marks = [int(number.replace(",", "")) for number in SIZED.findall(condensed.text)]
    lost = [last - first + 1 for first, last in condensed.account.lost]
    assert max(marks) >= max(lost), "a run of lost lines is in one gap"
    assert sum(marks) <= sum(lost)


def test_gaps_have_no_size_where_lines_are_in_another_order() -> None:
    """Between the lines of one file are those of others, which are shown or missing elsewhere."""
    lines = [f"src/{word()}.py:{at}: {word()} {word()}" for at in range(20_000)]
    condensed = condense_structurally("\n".join(lines), 800, "")
    marks = [int(number.replace(",", "")) for number in SIZED.findall(condensed.text)]
    assert sum(marks) <= sum(last - first + 1 for first, last in condensed.account.lost)


def test_a_piece_of_a_long_line_is_marked_where_it_begins_and_ends() -> None:
    """Else it reads like a line of the source."""
    lines = [f"call({', '.join(word() for _ in range(140))})" if at % 3 else f"{word()} = {word()}" for at in range(90)]
    focus = "vexyz"  # In this line only: words are drawn without these letters.
    lines[40] = lines[40].replace(f", {lines[40].split(', ')[70]}, ", f", {focus}, ", 1)
    shown = condense_structurally("\n".join(lines), 300, f"where is {focus}?").text.split("\n")
    piece = next(line for line in shown if focus in line)
    assert piece.strip("… ") in lines[40]
    assert piece.startswith("… ")
    assert all(line in lines or "…" in line or line.startswith("[") for line in shown)


COMMITS = "\n".join(f"{at * 7_919:07x} {word()} {word()} {word()}" for at in range(300))
PODS = "\n".join(["NAME   READY   STATUS   AGE", *(f"web-{at}   1/1   Running   {at}d" for at in range(40))])
RECORDS = [{"id": at, "state": word(), "of": word()} for at in range(60)]
TEXTS = {
    "commits": COMMITS,
    "JSON": json.dumps(RECORDS, indent=1),
    "JSON on one line": json.dumps(RECORDS),
    "XML": "<all>" + "\n".join(f"<one><id>{at}</id><of>{word()}</of></one>" for at in range(60)) + "</all>",
    "settings": "\n".join(f"{word()}.{word()}.{at}: {word()}" for at in range(200)),
    "rows": PODS,
    "sentences": "\n\n".join(f"The {word()} of {word()} is {word()}. It was {word()}." for _ in range(60)),
    "outputs of two commands": f"$ kubectl get pods\n{PODS}\n$ cat f.json\n{json.dumps(RECORDS, indent=1)}",
}
MARK = re.compile(r"(?:^| )…$|\[… [\d,]+ (?:of [\d,]+ )?(?:lines|values)\]|\[\d+ of \d+\]", re.M)


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("budget", [16, 20, 24, 32, 48, 60, 100, 150])
def test_every_text_that_lost_something_has_a_mark(name: str, budget: int) -> None:
    condensed = condense_structurally(TEXTS[name], budget)
    assert condensed.lost
    assert condensed.tokens_after <= budget
    assert MARK.search(condensed.text), condensed.text


def test_a_small_budget_marks_every_gap_and_the_size_of_the_largest() -> None:
    condensed = condense_structurally(COMMITS, 60)
    shown = condensed.text.split("\n")
    numbers = [COMMITS.split("\n").index(line) for line in shown if line in COMMITS]
    assert len(numbers) > 1
    for one, other in pairwise(numbers):
        between = shown[shown.index(COMMITS.split("\n")[one]) + 1]
        assert (other == one + 1) != ("…" in between)
    largest = max(last - first + 1 for first, last in condensed.account.lost)
    assert SIZED.findall(condensed.text) == [str(largest)]


def test_the_end_of_an_outline_that_is_left_out_is_marked() -> None:
    lines = [f"bucket.b{at}: Creation complete after {at % 5}s" for at in range(200)]
    condensed = condense_structurally(
        "\n".join([*lines, "│ Error: creating role: exists", *map("│   in {}".format, WORDS[:99])]), 150
    )
    assert condensed.kind == "outline"
    assert condensed.account.lost[-1][1] == 300
    assert condensed.text.endswith("…")


def test_an_output_among_others_of_which_nothing_is_shown_is_marked() -> None:
    log = "\n".join(f"2026-11-16T10:00:{at % 60:02d}Z INFO {word()} {word()}" for at in range(50))
    text = f"$ kubectl get pods\n{PODS}\n$ cat f.json\n{json.dumps(RECORDS, indent=1)}\n$ tail app.log\n{log}"
    assert (
        "\n[… 36 lines]\n…\n$ tail app.log" in condense_structurally(text, 60, "web-3 among the pods, and the log").text
    )
