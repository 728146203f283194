"""Manual pages and `--help` outputs: options are records."""

import argparse

import pytest

from tersely.condensing.detect import kind_of
from tersely.condensing.focus import Focus
from tersely.condensing.readers import manuals
from tersely.condensing.structural import condense_structurally

FILLER = (
    ("--align", "Put the columns of the listing below each other."),
    ("--brief", "Print one line for each entry and nothing more."),
    ("--colour", "Paint the names of directories in blue."),
    ("--dereference", "Show what a link points at in its place."),
)


def manual() -> str:
    lines = [
        "LIST(1)                User Commands                LIST(1)",
        "",
        "NAME",
        "       list - list entries",
        "",
    ]
    lines += ["SYNOPSIS", "       list [OPTION]... [FILE]...", "", "OPTIONS"]
    for number in range(40):
        name, what = FILLER[number % 4]
        lines += [f"       {name}-{number}", f"              {what}", "              This is the usual case.", ""]
    lines += ["       -H", "       --halt-on-damage[=N]", "              Stop as soon as N checksums differ from the"]
    lines += ["              recorded ones.  The default is to go on.", ""]
    lines += ["EXIT STATUS", "       0 if all went well.", "", "SEE ALSO", "       find(1)"]
    return "\n".join(lines) + "\n"


HELP = "Usage: list [options] [file ...]\n\nOptions:\n" + "".join(
    f"  -{chr(97 + n)}, --option-{n:02d} <value>    sets the value number {n}\n"
    f"                             for everything that follows\n"
    for n in range(26)
)


def test_manuals_and_help_are_detected() -> None:
    assert kind_of(manual()) == "manual"
    assert kind_of(HELP) == "manual"
    parser = argparse.ArgumentParser(prog="list")
    for number in range(20):
        parser.add_argument(f"--value-{number}", help=f"set the value {number}")
    assert kind_of(parser.format_help()) == "manual"


@pytest.mark.parametrize(
    "text",
    [
        "steps:\n" + "".join(f"  - name: step {n}\n    run: make --jobs {n}\n" for n in range(30)),
        "\n".join(f"2026-11-15 10:00:{n % 60:02d} INFO run --flag {n}" for n in range(40)),
        "Things to do:\n" + "".join(f"  - buy item {n}\n" for n in range(30)),
        "\n".join(f"  -{n}.5   {n}   -{n}" for n in range(40)),
    ],
)
def test_lists_and_logs_are_not_manuals(text: str) -> None:
    assert kind_of(text) != "manual"


@pytest.mark.parametrize("budget", [120, 300])
def test_the_text_of_an_option_finds_all_its_spellings_and_its_section(budget: int) -> None:
    shown = condense_structurally(manual(), budget, "how do I stop when recorded checksums differ?").text.split("\n")
    for line in (
        "OPTIONS",
        "       -H",
        "       --halt-on-damage[=N]",
        "              recorded ones.  The default is to go on.",
    ):
        assert line in shown


def test_a_line_that_announces_an_example_is_shown_with_it() -> None:
    text = manual().replace(
        "              This is the usual case.\n",
        "              This is the usual case.\n\n              Example:\n               list --align here\n",
    )
    for budget in (120, 300, 600):
        shown = condense_structurally(text, budget, "show an example of columns below each other").text.split("\n")
        announced = [at for at, line in enumerate(shown) if line.strip() == "Example:"]
        assert all(shown[at + 1].strip() == "list --align here" for at in announced)
    assert announced


def test_without_a_question_name_and_synopsis_are_kept() -> None:
    shown = condense_structurally(manual(), 200).text.split("\n")
    assert "       list - list entries" in shown
    assert "       list [OPTION]... [FILE]..." in shown


@pytest.mark.parametrize("text", [manual(), HELP, "  -a\n" * 50, "  -a\n     b\n  -c\n" * 40])
@pytest.mark.parametrize("question", ["", "checksums", "--option-07"])
def test_every_unit_is_lines_of_the_source(text: str, question: str) -> None:
    reading = manuals.read(text, Focus.parse(question), 300)
    assert reading is not None
    lines = [line.rstrip() for line in text.split("\n")]
    covered: list[int] = []
    for index, unit in enumerate(reading.units):
        assert unit.text.split("\n") == lines[unit.first - 1 : unit.last]
        assert unit.parent is None or unit.parent < index
        covered += range(unit.first, unit.last + 1)
    assert covered == [number for number, line in enumerate(lines, 1) if line]
