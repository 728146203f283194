"""Source code: verbatim lines below their definitions, detection that does not take other texts for code."""

import inspect
import json
import re
import textwrap
import time

import pytest

from tersely.condensing import structural, units
from tersely.condensing.detect import kind_of, sample_of
from tersely.condensing.focus import Focus
from tersely.condensing.readers import diffs, source_code
from tersely.condensing.structural import condense_structurally

MODULES = (structural, units, source_code, diffs, json.decoder, textwrap)
TEXTS = [inspect.getsource(module) for module in MODULES]

GO = """package queue

import "sync"

// Queue holds items until somebody takes them.
type Queue struct {
	mutex sync.Mutex
	items []string
}

// Push adds an item at the end.
func (q *Queue) Push(item string) int {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.items = append(q.items, item)
	return len(q.items)
}

func (q *Queue) Drain() []string {
	taken := q.items
	q.items = nil
	return taken
}
"""
C = """#include <stdio.h>
#define LIMIT 40

static int
square(int value)
{
    return value * value;
}

int area(int width,
         int height)
{
    if (width > LIMIT)
        return -1;
    return width * height;
}
"""
JAVA = """package shop;

public class Basket {
    private final int most = 12;

    public Basket(int most) {
        this.most = most;
    }

    @Override
    public String toString() {
        return "Basket of " + most;
    }

    int count(List<Item> items) throws Full
    {
        return items.size();
    }
}
"""
SCRIPT = """#!/bin/sh
set -e
# Ask before anything is removed.
confirm() {
    read -r answer
    [ "$answer" = yes ] || exit 1
}
remove_all() {
    confirm
    for file in "$@"; do
        rm -f "$file"
    done
}
if [ $# -gt 0 ]; then
    remove_all "$@"
fi
"""


def names_of(text: str) -> list[str]:
    lines = text.split("\n")
    return [one.name for one in source_code._Layout(lines, lines).run()[1]]


def numbered(text: str) -> str:
    return "\n".join(f"{number:6}\t{line}" for number, line in enumerate(text.split("\n"), 1))


@pytest.mark.parametrize("text", [*TEXTS, GO, C, JAVA, SCRIPT])
def test_code_is_detected_whole_numbered_and_from_its_middle(text: str) -> None:
    assert kind_of(text) == "code"
    assert kind_of(numbered(text)) == "code"
    if len(text) > 4_000:
        assert kind_of(text[len(text) // 3 :]) == "code"


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"2026-11-15 10:00:{n % 60:02d} ERROR call failed: return parse({n}); if (x) {{" for n in range(50)),
        "\n".join(f'  File "/srv/app/mod{n}.py", line {n}, in run\n    return self.call({n})' for n in range(40)),
        "name: deploy\non: push\njobs:\n  build:\n    steps:\n" + "      - run: make test\n" * 30,
        "The function returns a list. If the list is empty, the caller stops.\nImport the module first. " * 20,
        "\n".join(f"src/app.py:{n}:    return value_{n}" for n in range(40)),
        "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,40 +1,40 @@\n" + "+    return 1\n-    return 2\n" * 20,
        "id | name | state\n" + "\n".join(f"{n} | import-{n} | return" for n in range(40)),
        "\n".join(f"namespace-{n}   import-job-{n}   Pending" for n in range(40)),
    ],
)
def test_texts_with_words_of_code_are_not_code(text: str) -> None:
    assert kind_of(text) != "code"


def test_definitions_are_found_in_several_languages() -> None:
    assert names_of(GO) == ["Queue", "Push", "Drain"]
    assert [name for name in names_of(C) if name != "LIMIT"] == ["square", "area"]
    assert names_of(JAVA) == ["Basket", "most", "Basket", "toString", "count"]
    assert names_of(SCRIPT) == ["confirm", "remove_all"]


@pytest.mark.parametrize("text", [*TEXTS, *map(numbered, TEXTS)])
@pytest.mark.parametrize("question", ["", "where is read defined?", "what does __init__ return", "lines 20 to 30"])
@pytest.mark.parametrize("budget", [120, 500])
def test_every_unit_is_lines_of_the_source(text: str, question: str, budget: int) -> None:
    reading = source_code.read(text, Focus.parse(question), budget)
    assert reading is not None
    lines = [line.rstrip() for line in text.split("\n")]
    for unit in reading.units:
        assert unit.text.split("\n") == lines[unit.first - 1 : unit.last]
    covered = [line for unit in reading.units for line in range(unit.first, unit.last + 1)]
    assert len(covered) == len(set(covered)), "a line is in two units"
    for index, unit in enumerate(reading.units):
        assert unit.parent is None or unit.parent < index


def test_a_hit_is_shown_below_its_function_and_class() -> None:
    shown = condense_structurally(
        inspect.getsource(textwrap), 300, "where is _fix_sentence_endings called?"
    ).text.split("\n")
    at = next(index for index, line in enumerate(shown) if "self._fix_sentence_endings(chunks)" in line)
    assert any(line.startswith("class TextWrapper") for line in shown[:at])
    assert any("def _split_chunks(self, text)" in line or "def wrap(self, text)" in line for line in shown[:at])


def test_the_body_of_the_function_in_question_comes_first() -> None:
    output = condense_structurally(inspect.getsource(textwrap), 500, "what does indent return?").text
    for line in inspect.getsource(textwrap.indent).split("\n"):
        assert line.rstrip() in output


@pytest.mark.parametrize("text", TEXTS, ids=[module.__name__ for module in MODULES])
@pytest.mark.parametrize("budget", [300, 1_000])
def test_the_number_of_every_shown_line_follows_from_the_marks(text: str, budget: int) -> None:
    """So that a coding agent can cite and edit them; blank lines are there, too."""
    source = text.split("\n")
    condensed = condense_structurally(text, budget, "where is a line shortened or decoded?")
    assert condensed.kind == "code" and condensed.tokens_after <= budget
    known = others = 0
    at: int | None = 1
    for line in condensed.text.split("\n")[1:-1]:
        if (mark := re.fullmatch(r"…(\d+)", line)) is not None:
            at = int(mark[1])
        elif at is not None and source[at - 1].rstrip() == line.rstrip():
            at, known = at + 1, known + 1
        else:
            assert "…" in line or at is None, "a line that is shown in part"
            at, others = None, others + 1
    assert known >= 8 * others, condensed.text


def test_numbers_of_a_listing_stay() -> None:
    listing = numbered(inspect.getsource(textwrap))
    at = next(line for line in listing.split("\n") if "def shorten(" in line)
    assert at in condense_structurally(listing, 300, "where is shorten defined?").text


def test_a_text_that_begins_inside_a_docstring_keeps_its_definitions() -> None:
    text = inspect.getsource(textwrap)
    middle = text[text.index("Object for wrapping/filling") :]
    assert {"_munge_whitespace", "wrap", "fill", "dedent"} <= set(names_of(middle))


@pytest.mark.parametrize(
    "line",
    ["/*" * 50_000, "`" * 99_999, "((" * 50_000, "a " * 50_000 + "(", "'''" * 33_333, "int " * 25_000, "\t" * 100_000],
)
def test_hostile_lines_take_linear_time(line: str) -> None:
    began = time.process_time()
    source_code.read(GO * 60 + line + "\n" + GO * 60, Focus.parse("Push"), 500)
    source_code.detect(sample_of(GO * 60 + line + "\n" + GO * 60))
    assert time.process_time() - began < 2


def test_import_times_are_no_source_code() -> None:
    lines = ["import time: self [us] | cumulative | imported package"]
    lines += [f"import time: {n:9} | {2 * n:10} | {'  ' * (n % 4)}package{n}" for n in range(200)]
    assert kind_of("\n".join(lines)) != "code"
