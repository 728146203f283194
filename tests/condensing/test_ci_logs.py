"""Logs of CI jobs: the marked errors with the output above them, before parameters of steps."""

import pytest

from tersely.condensing.detect import kind_of
from tersely.condensing.structural import condense_structurally


def _job(prefix: str = "") -> str:
    lines: list[str] = []
    for step in range(30):
        lines.append(f"##[group]Run bake/step{step}@v4")
        lines += [f"  error-on-failure{at}: false" for at in range(12)]
        lines.append("##[endgroup]")
        lines += [f"step {step} kneads dough {at}" for at in range(15)]
        if step == 17:
            lines += [
                "test_failures_kept PASSED",
                "the lid did not close",
                "##[error]Process completed with exit code 5.",
            ]
    return "\n".join(f"{prefix}2026-02-06T06:42:{at % 60:02d}.7525413Z {line}" for at, line in enumerate(lines))


@pytest.mark.parametrize("prefix", ["", "bakery\tRun the oven\t"])
@pytest.mark.parametrize("focus", ["", "Why did the job fail?", "error-on-failure3"])
def test_an_error_is_shown_with_the_output_above_it(prefix: str, focus: str) -> None:
    text = _job(prefix)
    assert kind_of(text) == "ci_log"
    shown = condense_structurally(text, 250, focus).text

    assert "the lid did not close\n##[error]Process completed with exit code 5." in shown
    assert "[lines marked as error: 1, as warning: 0]" in shown


def test_parameters_of_steps_come_last() -> None:
    shown = condense_structurally(_job(), 300, "Why did the job fail?").text

    assert shown.count("error-on-failure") <= 2
    assert "##[group]Run bake/step17@v4" in shown


def test_every_shown_line_is_the_end_of_a_source_line() -> None:
    text = _job()
    for line in condense_structurally(text, 400, "").text.split("\n"):
        assert line.startswith("[") or line == "…" or f"Z {line}\n" in text, line
