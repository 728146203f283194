"""Findings of compilers and linters: the tool's totals, rare rules, and places with every message."""

import re

import pytest

from tersely.condensing.detect import kind_of
from tersely.condensing.focus import Focus
from tersely.condensing.readers import findings
from tersely.condensing.structural import condense_structurally

MYPY = (
    "\n".join(
        f"oven/part{at % 40}.py:{at + 3}: error: Function is missing a type annotation for batch  [no-untyped-def]"
        + (f"\noven/part{at % 40}.py:{at + 3}: note: Use -> None if it returns nothing" if at % 9 == 0 else "")
        for at in range(600)
    )
    + '\noven/lid.py:77: error: First argument to namedtuple() should be "Lid", not "Top"  [name-match]'
    + "\nFound 601 errors in 41 files (checked 50 source files)\n"
)
GCC = "".join(
    f"bread{at}.c: In function ‘bake’:\nbread{at}.c:{at}:7: warning: unused variable ‘crumb{at}’ [-Wunused-variable]\n"
    f"    {at} |   int crumb{at};\n       |       ^~~~~\n"
    for at in range(1, 60)
).replace(
    "bread31.c:31:7: warning: unused variable ‘crumb31’ [-Wunused-variable]", "bread31.c:31:7: error: expected ‘;’"
)
TSC = "error TS5083: Cannot read file 'tsconfig-oven.json'.\n" + "\n".join(
    f"src/part{at}.ts({at},7): error TS2307: Cannot find module 'crumb{at}' or its corresponding type declarations."
    for at in range(300)
)
ESLINT = (
    "\n".join(
        f"/oven/src/part{at}.js\n  {at}:5   warning  Unexpected console statement  no-console\n"
        f"  {at + 9}:12  error    'crumb{at}' is not defined        no-undef\n"
        for at in range(80)
    )
    + "\n✖ 160 problems (80 errors, 80 warnings)\n"
)
ALL = {"mypy": MYPY, "gcc": GCC, "tsc": TSC, "eslint": ESLINT}


@pytest.mark.parametrize("name", ALL)
def test_findings_are_detected(name: str) -> None:
    assert kind_of(ALL[name]) == "findings"


@pytest.mark.parametrize("focus", ["", "Where is a namedtuple wrong?", "batch"])
def test_the_totals_of_the_tool_are_shown_and_not_contradicted(focus: str) -> None:
    shown = condense_structurally(MYPY, 300, focus).text

    assert "Found 601 errors in 41 files" in shown
    assert "[lines: 601 error, 67 note; in 41 files]" in shown
    assert "✖ 160 problems" in condense_structurally(ESLINT, 300, focus).text


def test_a_rare_rule_comes_before_common_ones() -> None:
    shown = condense_structurally(MYPY, 200, "").text

    assert "oven/lid.py\n 77: error: First argument to namedtuple()" in shown


def test_the_first_error_is_shown_with_its_source() -> None:
    shown = condense_structurally(GCC, 200, "").text

    assert "31:7: error: expected ‘;’" in shown
    assert "    31 |   int crumb31;" in shown


def test_an_error_without_a_place_is_shown() -> None:
    assert "error TS5083: Cannot read file" in condense_structurally(TSC, 200, "Why does it not compile?").text


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("budget", [150, 400, 1_500])
def test_every_shown_line_is_a_line_of_the_source_up_to_marks(name: str, budget: int) -> None:
    source = [" ".join(line.split()) for line in ALL[name].split("\n")]
    shown = condense_structurally(ALL[name], budget, "crumb annotation").text

    for line in shown.split("\n"):
        if line.startswith("[") or line.strip() == "…":
            continue
        parts = [" ".join(part.split()) for part in line.split("…")]
        assert any(all(part in one for part in parts) for one in source), line


def test_repeated_messages_keep_their_place_and_what_differs() -> None:
    shown = condense_structurally(TSC, 400, "Which modules are missing?").text

    cut = re.findall(r"src/part(\d+)\.ts\(\1,7\): error TS2307: Cannot find module 'crumb\1' …", shown)
    assert len(cut) > 5


def test_search_results_are_no_findings() -> None:
    text = "\n".join(f"src/oven/part{at}.py:{at}:    heater.wait(timeout={at})" for at in range(60))

    assert kind_of(text) == "grep"
    assert findings.read(text, Focus.parse(""), 300) is None


@pytest.mark.slow
def test_hostile_texts_are_read_in_time() -> None:
    for text in ("a:1: " * 50_000, ("x" * 400 + "\n") * 2_000, "a.c:1: error: x\n" * 60_000, "(1,2): " * 40_000):
        findings.detect(text.split("\n")[:400])
        findings.read(text, Focus.parse("x"), 100)


def tsc_output() -> str:
    lines = ["error TS5083: Cannot read file '/home/dev/tsconfig-base.json'."]
    for at in range(200):
        lines.append(
            f"src/part{at // 6}/file{at}.ts({at + 3},7): error TS2580: Cannot find name 'require'. Do you need to install"
            " type definitions for node? Try `npm i --save-dev @types/node`."
        )
    lines.insert(90, "src/part9/odd.ts(4,2): error TS2339: Property 'status' does not exist on type 'Error'.")
    return "\n".join(lines)


@pytest.mark.parametrize("budget", [200, 500, 1_000])
def test_a_message_is_shown_whole_before_lines_that_omit_it(budget: int) -> None:
    lines = condense_structurally(tsc_output(), budget, "").text.split("\n")
    first = next(at for at, line in enumerate(lines) if "error TS2580:" in line)
    assert "Cannot find name 'require'. Do you need to install type definitions" in lines[first]


def test_findings_without_a_place_are_counted_too() -> None:
    head = condense_structurally(tsc_output(), 500, "").text.split("\n")[:2]
    assert head[0] == "[lines: 201 error; in 201 files; without a place: 1 error]"
    assert "TS5083 ×1" in head[1]


def test_letters_of_rules_are_severities_where_conventions_have_one_too() -> None:
    lines = [
        f"oven.py:{row}:0: C0116: Missing function or method docstring (missing-function-docstring)"
        for row in range(1, 120)
    ]
    lines[70] = "oven.py:71:8: E1101: Instance of 'Oven' has no 'bake' member (no-member)"
    lines[90] = "oven.py:91:4: W0707: Consider re-raising errors using 'except Hot as exc' (raise-missing-from)"
    shown = condense_structurally("\n".join(lines), 300, "are there real errors, not just conventions?").text
    assert "has no 'bake' member" in shown
    assert "1 error" in shown
    style = [f"oven.py:{row}:1: E501 line too long ({row} > 79 characters)" for row in range(80, 200)]
    assert "error" not in condense_structurally("\n".join([*style, "oven.py:9:1: W605 invalid escape"]), 300, "").text


@pytest.mark.parametrize("budget", [100, 300, 900])
def test_the_path_above_findings_is_a_line_that_is_shown(budget: int) -> None:
    condensed = condense_structurally(ESLINT, budget)
    lines, shown = ESLINT.split("\n"), condensed.text.split("\n")
    lost = {lines[at - 1] for first, last in condensed.account.lost for at in range(first, last + 1)}
    paths = [line for line in shown if line.startswith("/oven")]
    assert paths
    assert lost.isdisjoint(paths)
    assert "…" not in shown[: shown.index(lines[0])], "nothing is missing before the first line"
