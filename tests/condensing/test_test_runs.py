"""Runs of tests: the outcome is shown whatever the question, and successes are only counted."""

import re

import pytest

from tersely.condensing.detect import kind_of
from tersely.condensing.focus import ARGUMENTS, Focus
from tersely.condensing.readers import test_runs
from tersely.condensing.structural import condense_structurally
from tersely.text.tokens import O200K


def _pytest(count: int = 2_000, failing: tuple[int, ...] = ()) -> str:
    lines = ["=" * 26 + " test session starts " + "=" * 26, "platform linux -- Python 3.11.7, pytest-9.2.0"]
    lines += [f"rootdir: /oven\ncollected {count} items", ""]
    lines += [
        f"tests/test_bread{at % 20}.py::test_errors_are_kept_{at} {'FAILED' if at in failing else 'PASSED'} [ {at % 99}%]"
        for at in range(count)
    ]
    if failing:
        lines += ["", "=" * 30 + " FAILURES " + "=" * 30]
        for at in failing:
            lines += [f"{'_' * 20} test_errors_are_kept_{at} {'_' * 20}", "", f"    def test_errors_are_kept_{at}():"]
            lines += [f">       assert crust({at}) == 'brown'", f"E       AssertionError: assert 'pale{at}' == 'brown'"]
            lines += ["", f"tests/test_bread{at % 20}.py:{at}: AssertionError"]
        lines.append("=" * 25 + " short test summary info " + "=" * 25)
        lines += [f"FAILED tests/test_bread{at % 20}.py::test_errors_are_kept_{at} - AssertionError" for at in failing]
    failed = f"{len(failing)} failed, " if failing else ""
    return "\n".join([*lines, f"{'=' * 20} {failed}{count - len(failing)} passed in 12.30s {'=' * 20}", ""])


UNITTEST = (
    "\n".join(f"test_failures_{at} (oven.Bread.test_failures_{at}) ... ok" for at in range(500))
    + "\ntest_lid (oven.Lid.test_lid) ... FAIL\n\n"
    + "=" * 70
    + "\nFAIL: test_lid (oven.Lid.test_lid)\n"
    + "-" * 70
    + '\nTraceback (most recent call last):\n  File "/oven/test_lid.py", line 12, in test_lid\n    self.check(lid)\n'
    + "AssertionError: lid is open\n\n"
    + "-" * 70
    + "\nRan 501 tests in 0.4s\n\nFAILED (failures=1)\n"
)
GO = (
    "".join(f"=== RUN   TestError{at}\n--- PASS: TestError{at} (0.00s)\n" for at in range(300))
    + "=== RUN   TestLid\n    lid_test.go:12: lid is open\n--- FAIL: TestLid (0.00s)\nFAIL\nFAIL\toven/lid\t0.4s\n"
)
CARGO = (
    "running 301 tests\n"
    + "".join(f"test errors::case_{at} ... ok\n" for at in range(300))
    + "test lid::closes ... FAILED\n\nfailures:\n\n---- lid::closes stdout ----\n"
    + "thread 'lid::closes' panicked at src/lid.rs:12:5:\nlid is open\n\n"
    + "failures:\n    lid::closes\n\ntest result: FAILED. 300 passed; 1 failed; 0 ignored; finished in 0.20s\n"
)
MOCHA = (
    "  Errors\n"
    + "".join(f"    ✔ should handle render error {at}\n" for at in range(300))
    + "    1) closes the lid\n\n  300 passing (2s)\n  1 failing\n\n  1) Errors\n       closes the lid:\n"
    + "     AssertionError: lid is open\n      at Context.<anonymous> (test/lid.js:12:5)\n"
)


COMMAND = f"{ARGUMENTS}pytest -v tests/test_bread3.py"


@pytest.mark.parametrize("focus", ["", "Did the tests pass?", "pytest -v tests", COMMAND])
def test_a_passing_run_takes_forty_tokens(focus: str) -> None:
    condensed = condense_structurally(_pytest(), 1_000, focus)

    assert "2000 passed in 12.30s" in condensed.text
    assert condensed.tokens_after <= (70 if focus == "pytest -v tests" else 40)  # There it shows which pytest it was.
    assert not condensed.account.lost


@pytest.mark.parametrize("focus", ["", "pytest -v tests", "which tests are kept in tests/test_bread?", COMMAND])
@pytest.mark.parametrize("budget", [300, 1_000, 3_000])
def test_what_is_left_of_a_budget_is_not_filled_with_tests_that_passed(focus: str, budget: int) -> None:
    condensed = condense_structurally(_pytest(failing=(77,)), budget, focus)

    assert condensed.text.startswith("[1,999 lines of passed tests, 4 lines about the test runner's setup]\n")
    assert "PASSED" not in condensed.text


def test_a_failing_run_names_the_failure_with_message_and_place() -> None:
    condensed = condense_structurally(_pytest(failing=(77,)), 1_000, "")

    assert "1 failed, 1999 passed" in condensed.text
    assert "assert 'pale77' == 'brown'" in condensed.text
    assert "tests/test_bread17.py:77: AssertionError" in condensed.text
    assert condensed.tokens_after <= 300


@pytest.mark.parametrize("focus", ["", "Which tests are slow?", "errors kept by the render error handler", "lid"])
@pytest.mark.parametrize("text", [UNITTEST, GO, CARGO, MOCHA], ids=["unittest", "go", "cargo", "mocha"])
def test_the_outcome_is_shown_whatever_the_question(text: str, focus: str) -> None:
    shown = condense_structurally(text, 300, focus).text

    assert "lid is open" in shown
    assert "lid" in shown.replace("lid is open", "").lower()
    assert any(place in shown for place in ("test_lid.py", "lid_test.go:12", "lid.rs:12", "test/lid.js:12"))
    assert any(total in shown for total in ("Ran 501 tests", "FAIL\toven/lid", "test result: FAILED", "1 failing"))


@pytest.mark.parametrize("text", [UNITTEST, GO, CARGO, MOCHA], ids=["unittest", "go", "cargo", "mocha"])
def test_names_of_passed_tests_are_no_severity(text: str) -> None:
    shown = condense_structurally(text, 1_000, "Why did the run fail?").text

    assert sum(line.rstrip().endswith(" ok") or "✔" in line or "PASS:" in line for line in shown.split("\n")) == 0


def test_a_passed_test_is_shown_if_the_question_names_it() -> None:
    assert "test_failures_123 " in condense_structurally(UNITTEST, 300, "Did test_failures_123 run?").text


def test_failures_without_room_are_counted_by_file() -> None:
    failing = tuple(range(0, 1_000, 2))
    text = condense_structurally(_pytest(failing=failing), 500, "").text

    assert "500 failed, 1500 passed" in text
    named = text.count("FAILED tests/")
    counted = next(line for line in text.split("\n") if " failures after the first " in line)
    after, first = map(int, re.findall(r"^\[(\d+) failures after the first (\d+):", counted)[0])
    assert after + first == 500 and first <= named
    assert O200K.count(text) <= 500


def test_no_failure_is_said_to_be_missing_that_is_shown() -> None:
    outcomes = [f"{'FAIL' if at % 40 == 0 else 'PASS'} test_{at // 20}.py::case_{at} (3 ms)" for at in range(500)]
    text = condense_structurally("\n".join([*outcomes, "13 failed, 487 passed in 3.4s"]), 250, "").text

    assert text.count("FAIL test_") == 13
    assert "[3 failures after the first 10: test_20.py 1, test_22.py 1, test_24.py 1]" in text
    assert "more" not in text


def _alike(outcomes: list[tuple[str, str]], *, passed: int = 0) -> str:
    """A run in which each test has a message, with the names in three places as pytest writes them."""
    return "\n".join(
        [
            *(f"tests/test_lid.py::test_warm_{at} PASSED [ {at % 100:2}%]" for at in range(passed)),
            *(f"tests/test_lid.py::{name} FAILED [ 99%]" for name, _ in outcomes),
            "=================================== FAILURES ===================================",
            *(
                f"____________ {name} ____________\n\n    def {name.partition('[')[0]}(oven):\n        oven.preheat()\n"
                f">       oven.close(lid=True)\n\n{message}\n\ntests/test_lid.py:12: OvenError"
                for name, message in outcomes
            ),
            "=========================== short test summary info ============================",
            *(f"FAILED tests/test_lid.py::{name} - OvenErr..." for name, _ in outcomes),
            f"================== {len(outcomes)} failed, {passed} passed in 3.20s ==================",
        ]
    )


def test_a_message_that_failures_share_is_shown_once_with_its_number() -> None:
    same = "E       OvenError: the thermostat was not calibrated"
    outcomes = [(f"test_bakes_{at}[{at}]", same) for at in range(120)]
    outcomes[70] = ("test_grills[70]", "E       OvenError: the lid is open")
    condensed = condense_structurally(_alike(outcomes, passed=200), 500, "")

    assert f"{same} ×119" in condensed.text
    assert "E       OvenError: the lid is open" in condensed.text
    assert condensed.text.count("the thermostat was not calibrated") == 1
    assert sum(last - first + 1 for first, last in condensed.account.folded) >= 118 + 200


def test_a_failure_is_named_once() -> None:
    outcomes = [(f"test_bakes_{at}[{at}]", f"E       OvenError: tray {at} is stuck") for at in range(12)]
    text = condense_structurally(_alike(outcomes, passed=200), 700, "").text

    assert all(f"test_bakes_{at}[{at}] - OvenErr" in text for at in range(12))
    assert "FAILED [ 99%]" not in text


def test_the_failure_that_the_question_names_has_its_own_message() -> None:
    same = "E       OvenError: the thermostat was not calibrated"
    text = condense_structurally(
        _alike([(f"test_bakes_{at}", same) for at in range(120)]), 500, "Why does test_bakes_77 fail?"
    ).text

    assert text.partition("____ test_bakes_77 ____________\n")[2].partition("____")[0].count(same) == 1


def test_the_title_of_a_section_counts_for_the_lines_below_it() -> None:
    lines = _alike([(f"test_bakes_{at}", f"E       OvenError: tray {at} is stuck") for at in range(20)]).split("\n")
    slow = [f"{at / 10:.2f}s call     tests/test_lid.py::test_item_{at}" for at in range(90, 60, -1)]
    lines[-1:-1] = ["============ slowest durations ============", *slow]

    assert (
        "9.00s call     tests/test_lid.py::test_item_90"
        in condense_structurally("\n".join(lines), 500, "Which tests have the slowest durations?").text
    )


def test_reasons_for_skipping_are_shown_if_the_question_is_about_them() -> None:
    lines = [f"test_bakes_{at} (oven.Lid.test_bakes_{at}) ... ok" for at in range(300)]
    lines[40] = "test_grill (oven.Lid.test_grill) ... skipped 'needs a grill'"
    lines[90:96] = [f"test_gas_{at} (oven.Lid.test_gas_{at}) ... skipped 'no gas here'" for at in range(6)]
    text = "\n".join([*lines, "-" * 70, "Ran 300 tests in 0.1s", "", "OK (skipped=7)"])

    shown = condense_structurally(text, 200, "Which tests were skipped and why?").text

    assert "skipped 'needs a grill'" in shown
    assert "skipped 'no gas here'" in shown
    assert "skipped '" not in condense_structurally(text, 200, "").text


def test_other_texts_are_no_test_runs() -> None:
    for text in (
        "\n".join(f"- item {at}\n- heading: ok" for at in range(60)),
        "\n".join(f"2024-05-01 10:00:00 INFO check {at} ... done" for at in range(60)),
        "\n".join(f"{at} passed the oven in {at} minutes." for at in range(60)),
    ):
        assert kind_of(text) != "test_run"


def test_hostile_texts_are_read_in_time() -> None:
    for text in ("." * 300_000, "ok " * 100_000, ("... " * 400 + "\n") * 500, "test a ... ok\n" * 100_000):
        test_runs.detect(text)
        test_runs.read(text, Focus.parse("a"), 100)


def test_the_statement_that_failed_and_its_place_come_before_the_rest_of_a_test() -> None:
    sections = "".join(
        f"{f' test_thing_{at} ':_^80}\n\n    def test_thing_{at}():\n        data = {{'a': {at}}}\n"
        f"        value = data['a'] + 1\n>       assert value == {at * 7}\nE       assert {at + 1} == {at * 7}\n\n"
        f"test_d.py:{5 * at + 5}: AssertionError\n"
        for at in range(12)
    )
    listed = "".join(f"FAILED test_d.py::test_thing_{at} - assert {at + 1} == {at * 7}\n" for at in range(12))
    text = (
        f"{' test session starts ':=^80}\ncollected 13 items\n\ntest_d.py FFFFFFFFFFFF.\n\n{' FAILURES ':=^80}\n{sections}"
        f"{' short test summary info ':=^80}\n{listed}{' 12 failed, 1 passed in 0.12s ':=^80}\n"
    )
    lines = condense_structurally(text, 400).text.split("\n")
    assert ">       assert value == 0" in lines and "test_d.py:5: AssertionError" in lines
    assert not any("data = " in line for line in lines)
