"""The table of weights: one row for each kind of text; each weight in it reaches the scores."""

import re
from dataclasses import asdict, replace

import pytest

from tersely.condensing import weights
from tersely.condensing.focus import Focus
from tersely.condensing.segments import read_any
from tersely.condensing.weights import WEIGHTS, Weights
from tests.condensing.test_blame import _blame
from tests.condensing.test_ci_logs import _job
from tests.condensing.test_config_files import redis_like
from tests.condensing.test_diffs import _many
from tests.condensing.test_findings import ALL
from tests.condensing.test_line_records import _issues, _log, _threads
from tests.condensing.test_manuals import HELP, manual
from tests.condensing.test_notebooks import FORMS
from tests.condensing.test_source_code import GO, JAVA, TEXTS, C
from tests.condensing.test_stack import SANITIZER
from tests.condensing.test_tables import pods
from tests.condensing.test_test_runs import _pytest

QUESTIONS = ("", "why did it fail", "what is unusual")


def commits() -> str:
    """A diff below the messages of two commits, one of which tells of a failure."""
    messages = [
        f"commit {n:040x}\nAuthor: Ada <ada@example.com>\n\n    the oven failed: error {n}\n\n" for n in (171, 930)
    ]
    return "".join(message + _many() for message in messages)


def hits() -> str:
    lines = [f"src/oven_{n % 7}.py:{n}:    heat(oven, {n})" for n in range(1, 90)]
    lines[20] = "src/oven_3.py:21:def heat(oven: Oven, degrees: int) -> None:"
    lines[33] = 'src/tray.py:34:    raise ValueError("the oven is too hot: error")'
    lines[50] = "src/heat/tray.py:51:    cool(tray)"
    return "\n".join(lines)


def log() -> str:
    lines = [
        f"2026-01-02 03:{n // 60:02d}:{n % 60:02d} INFO oven {n % 9} is at {150 + n % 11} degrees" for n in range(300)
    ]
    lines[70] = "2026-01-02 03:01:10 ERROR oven 4 failed: the door is open"
    lines[140] = "2026-01-02 03:02:20 INFO tray of oven-7f3a9 moved by hand"
    lines[200] = "2026-01-02 03:03:20 WARN oven 5 heats slowly"
    lines[201] = "2026-01-02 03:03:21 WARN oven-7f3a9 heats slowly and may fail"
    lines += [f"2026-01-02 04:00:0{n} ERROR oven-7f3a9 failed to heat to {n}0 degrees" for n in range(1, 9)]
    return "\n".join(lines)


def beside() -> str:
    """Tables with lines around them."""
    return (
        "The 120 ovens of the bakery\n\n" + pods() + "\n\nWarning: oven web-7 has failed\nAll ovens were read at noon\n"
    )


WORDS = "rye spelt dough crust tray lid peel bench flour yeast salt heat steam scale rack paddle".split()


def lines_of_any_kind() -> str:
    lines = [
        " ".join(WORDS[(n * step + n // 5) % 16] for step in range(3, 4 + n % 6)) + f" {n % 13}" for n in range(200)
    ]
    lines[60] = "someone left the door of oven 60 open"
    lines[90] = "error: oven 90 failed"
    lines[150] = "2026-01-02 12:31 the window of the bakery is open"
    return "\n".join([*lines, "3 failed, 197 passed"])


def packages() -> str:
    names = ["make", *(f"lib{word}-{n}" for n in range(5) for word in WORDS)]
    return "\n".join(
        [
            "Name        Version  Description",
            *(f"{name:<11} 1.{n}      makes bread {n}" for n, name in enumerate(names)),
        ]
    )


def measured() -> str:
    """Metrics, which the generic reader reads with their values as a column."""
    return "# TYPE weight gauge\n" + "\n".join(f'weight{{tray="{n}"}} {n * 37 % 101}' for n in range(80))


def job() -> str:
    more = ["##[warning]the tray is old", "FAILED tests/test_oven.py::test_heat - AssertionError: cold"]
    return _job() + "\n" + "\n".join(more) + "\n"


def issues() -> str:
    """Blocks of which some open with an error, and lines below them that belong to none."""
    blocks = [
        f">> {'error' if n % 9 == 0 else 'note'} {n}: the oven is cold\n   reason: failed to heat {n}\n   at: app/mod{n}.py:{n}\n"
        "   details:\n"
        for n in range(40)
    ]
    return "Run started by hand\n\n" + "\n".join(blocks) + "\n\nRun metrics:\n\nTotal issues: 40\nFiles skipped: 2\n"


def tree() -> str:
    ovens = [f'{{"name": "oven-{n}", "state": {{"phase": "ok", "degrees": {150 + n % 9}}}}}' for n in range(80)]
    ovens[30] = '{"name": "oven-30", "state": {"phase": "failed", "reason": "the door is open", "degrees": 20}}'
    return f'{{"ovens": [{", ".join(ovens)}]}}'


def run() -> str:
    """A test run with a line of a library in a failure, and a line that belongs to no test."""
    text = _pytest(40, tuple(range(20))).replace("collected", "the plugin failed: error\ncollected", 1)
    frame = "/usr/lib/python3/site-packages/bread.py:7: in heat\n"
    return re.sub(r"(?m)^(tests/test_bread\d+\.py:\d+: )", lambda found: frame + found[0], text)


CASES: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "text": (
        [lines_of_any_kind(), measured(), SANITIZER],
        ("oven 60", "door", "what happened since 12:30", "rye dough", "which has the highest weight"),
    ),
    "blame": ([_blame()], ("what did Ada change", "oven 451", "Grace")),
    "ci_log": ([_job(), job()], ("dough 12", "tray")),
    "code": ([*TEXTS[:3], GO, C, JAVA], ("what does pack return", "push", "where is the total computed", "constants")),
    "config": ([redis_like()], ("memory", "how long are clients kept", "snapshots", "disabled settings")),
    "diff": ([_many(), commits()], ("timeout-299", "lid closed", "class Oven", "step", "after", "package lock", "app")),
    "findings": (
        [*ALL.values(), "error: no such oven\nwarning: old tray\n" + ALL["mypy"]],
        ("unused", "import", "oven"),
    ),
    "grep": ([hits()], ("where is heat defined", "heat", "tray")),
    "log": ([log()], ("door", "oven 4", "tray")),
    "single lines of logs": ([log()], ("oven-7f3a9", "oven 4 at 157 degrees", "why did oven-7f3a9 fail", "157")),
    "manual": ([manual(), HELP], ("columns of the listing", "usual case", "hidden", "list")),
    "notebook": ([FORMS[1]], ("accuracy", "which cell failed", "mean", "train")),
    "records": ([_log(), issues(), _issues(), _threads()], ("oven", "baker", "cold", "heat 7")),
    "lines of records": ([_log(), issues(), _issues(), _threads()], ("oven", "baker", "minutes", "heat 7")),
    "table": (
        [pods().replace("web-12           1/1", "web-12           0/1"), packages()],
        ("web-7", "which pods are not ready", "restarts", "is make there"),
    ),
    "lines beside tables": ([beside()], ("bakery", "noon", "has web-7 failed")),
    "test_run": ([_pytest(300, (7, 30)), run()], ("errors are kept 7", "platform", "oven")),
    "tree": ([tree()], ("oven-30", "door", "which ovens failed", "degrees of oven-7")),
}


def settings_of(row: Weights) -> list[str]:
    plain = [name for name, value in asdict(row).items() if name != "roles" and value]
    return plain + [f"roles.{role}" for role, value in row.roles.items() if value]


def changed(row: Weights, name: str, factor: float) -> Weights:
    role = name.removeprefix("roles.")
    if role != name:
        return replace(row, roles={**row.roles, role: factor * row.roles[role]})
    return replace(row, **{name: factor * getattr(row, name)})


def scores(text: str, question: str) -> list[float]:
    return [unit.score for unit in read_any(text, Focus.parse(question), 300).units]


def test_no_weight_makes_a_unit_worse() -> None:
    for row in WEIGHTS.values():
        assert min(getattr(row, name) for name in asdict(row) if name != "roles") >= 0
        assert min(row.roles.values(), default=0.0) >= 0


def test_every_row_is_tried() -> None:
    assert CASES.keys() == WEIGHTS.keys()


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, row in WEIGHTS.items() for name in settings_of(row)])
def test_each_weight_reaches_the_scores(kind: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts, questions = CASES[kind]
    row = WEIGHTS[kind]
    for text in texts:
        for question in (*questions, *QUESTIONS):
            before = scores(text, question)
            with monkeypatch.context() as patch:
                patch.setitem(weights._TABLE, kind, changed(row, name, 3.0))
                if scores(text, question) != before:
                    return
    pytest.fail(f"{kind}: {name} changes no score.")
