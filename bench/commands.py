"""Real commands of a coding agent: what their output costs, what of it survives, and whether a failure can be missed.

    python -m bench.commands [--smoke] [--show NAME] [--json FILE]

Each command runs on a project made from a seed (`bench.command_project`), so that what an agent has to learn from its
output is known: the needles. Beside `tersely run`: the output as it is; cut as Claude Code cuts it (over 30,000
characters, the middle is left out); cut as Codex does (over 256 lines or 10 KiB, the same); and head and tail in our
budget. rtk is in none of the package registries that Python, Node and Debian have (packages of that name are other
programs), so it is not in the table.

An agent that misses a needle asks again: with `tersely read HANDLE --grep …`, which reads what was kept, or by running
the command once more with a filter. A failure is hidden if a command failed and nothing that is shown says so.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.arguments import parser
from bench.command_project import make_project
from tersely.text.tokens import O200K

PYTHON = sys.executable
BUDGET = 1_000


@dataclass(frozen=True)
class Case:
    name: str
    command: str
    question: str
    needles: tuple[str, ...]
    failure: tuple[str, ...] = ()
    """If the command fails: what shows it; one of them is enough."""

    needs: str = ""
    """A program that may be missing."""


def _case(
    name: str, command: str, question: str, *needles: str, failure: tuple[str, ...] = (), needs: str = ""
) -> Case:
    return Case(name, command, question, needles, failure, needs)


PYTEST = f"{PYTHON} -m pytest -p no:cacheprovider -o addopts="
CASES = [
    # Tests
    _case("pytest passes", f"{PYTEST} tests/passing", "do the tests pass?", "720 passed"),
    _case("pytest -v passes", f"{PYTEST} -v tests/passing", "do the tests pass?", "720 passed"),
    _case("pytest -rA passes", f"{PYTEST} -rA tests/passing", "do the tests pass?", "720 passed"),
    _case(
        "pytest --collect-only",
        f"{PYTEST} --collect-only -q tests/passing",
        "how many tests are there?",
        "720 tests collected",
    ),
    _case("pytest --durations", f"{PYTEST} --durations=0 -vv tests/passing", "do the tests pass?", "720 passed"),
    _case(
        "pytest fails",
        f"{PYTEST} tests/failing",
        "why do tests fail?",
        "test_refund_is_a_tenth",
        "KeyError: 'total'",
        "assert 2.5 == 25",
        "2 failed, 720 passed",
        failure=("2 failed", "FAILED"),
    ),
    _case(
        "pytest -v fails",
        f"{PYTEST} -v tests/failing",
        "why do tests fail?",
        "test_refund_is_a_tenth",
        "KeyError: 'total'",
        "2 failed, 720 passed",
        failure=("2 failed", "FAILED"),
    ),
    _case(
        "pytest -x -vv fails",
        f"{PYTEST} -vv -x tests/failing",
        "which test fails?",
        "test_refund_is_a_tenth",
        "assert 2.5 == 25",
        failure=("1 failed", "FAILED"),
    ),
    _case(
        "pytest -v --tb=line",
        f"{PYTEST} -v --tb=line tests/failing",
        "what fails?",
        "KeyError: 'total'",
        "2 failed",
        failure=("2 failed", "FAILED"),
    ),
    _case(
        "pytest cannot import",
        f"{PYTEST} -v tests",
        "what is wrong?",
        "No module named 'shop.vouchers'",
        "test_imports.py",
        failure=("Interrupted", "ModuleNotFoundError", "1 error"),
    ),
    _case(
        "unittest passes",
        f"{PYTHON} -m unittest -v unit.test_unit_0 unit.test_unit_1 unit.test_unit_2",
        "do they pass?",
        "Ran 180 tests",
        "OK",
    ),
    _case(
        "unittest fails",
        f"{PYTHON} -m unittest discover -v -s unit",
        "what fails?",
        "test_currency_of_refunds",
        "'EUR' != 'USD'",
        "FAILED (failures=1)",
        failure=("FAILED", "FAIL:"),
    ),
    _case("node --test passes", "node --test js/passing.test.js", "do they pass?", "pass 250", "fail 0", needs="node"),
    _case(
        "node --test fails",
        "node --test js/failing.test.js",
        "what fails?",
        "rounds the price of 4711",
        "price of 4711",
        "fail 1",
        failure=("fail 1", "not ok", "failing tests"),
        needs="node",
    ),
    # Crashes
    _case(
        "node crashes",
        "node js/crash.js",
        "why does it crash?",
        "TypeError",
        "js/crash.js",
        failure=("TypeError",),
        needs="node",
    ),
    _case(
        "python crashes",
        f"{PYTHON} data/deep.py",
        "why does it crash?",
        "KeyError: 'voucher 4711'",
        failure=("KeyError",),
    ),
    _case(
        "migration fails",
        f"{PYTHON} data/migrate.py",
        "did the migration work?",
        "constraint fk_customer violated",
        "1183",
        failure=("constraint", "exit code 3", "exited with 3"),
    ),
    # Linters, types, compilers
    _case(
        "ruff check",
        f"{PYTHON} -m ruff check --no-cache --isolated shop",
        "which errors would crash at run time?",
        "F821",
        "valeu",
        failure=("Found",),
    ),
    _case(
        "ruff check concise",
        f"{PYTHON} -m ruff check --no-cache --isolated --output-format concise shop",
        "undefined names?",
        "F821",
        "valeu",
        failure=("Found",),
    ),
    _case(
        "ruff check ALL",
        f"{PYTHON} -m ruff check --no-cache --isolated --select ALL --output-format concise shop tests unit",
        "undefined names?",
        "F821",
        failure=("Found",),
    ),
    _case(
        "ruff check json",
        f"{PYTHON} -m ruff check --no-cache --isolated --output-format json shop",
        "undefined names?",
        "F821",
        "valeu",
        failure=("F401", "F821"),
    ),
    _case(
        "ruff format diff",
        f"{PYTHON} -m ruff format --no-cache --isolated --diff unit js shop tests",
        "what would change?",
        "would be reformatted",
        failure=("would be reformatted",),
    ),
    _case(
        "mypy",
        f"{PYTHON} -m mypy --no-incremental --cache-dir=/dev/null --config-file= shop",
        "which types are wrong?",
        "Unsupported operand types",
        "valeu",
        failure=("error:", "Found 2 errors"),
    ),
    _case(
        "mypy --strict",
        f"{PYTHON} -m mypy --strict --no-incremental --cache-dir=/dev/null --config-file= shop unit",
        "wrong operands?",
        "Unsupported operand types",
        failure=("error:", "Found"),
    ),
    _case("compileall", f"{PYTHON} -m compileall -f shop tests unit", "does it compile?", "Compiling"),
    _case(
        "gcc warnings",
        "gcc -Wall -Wextra -c c/part_0*.c c/part_1*.c -fsyntax-only",
        "warnings?",
        "-Wunused-variable",
        "-Wparentheses",
        needs="gcc",
    ),
    _case(
        "gcc error",
        "gcc -Wall -Wextra -fsyntax-only c/*.c",
        "what does not compile?",
        "stock_lvel",
        "part_27.c",
        failure=("error",),
        needs="gcc",
    ),
    _case(
        "make fails",
        "make -k -C c",
        "why does the build fail?",
        "stock_lvel",
        "part_27",
        failure=("Error 1", "error:"),
        needs="gcc",
    ),
    _case("make -n", "make -n -B -C c", "how is part_27 compiled?", "part_27.c", needs="gcc"),
    # git
    _case("git log", "git log", "who trusted a certificate?", "payment: trust the certificate of pay.example"),
    _case(
        "git log --stat",
        "git log --stat",
        "which commit trusted a certificate, which file?",
        "payment: trust the certificate",
        "shop/payment.txt",
    ),
    _case(
        "git log -p", "git log -p -- shop/payment.txt", "when was the certificate pinned?", "pinned certificate 4711"
    ),
    _case("git log --oneline", "git log --oneline", "certificate", "trust the certificate of pay.example"),
    _case("git log --graph", "git log --graph --all", "certificate", "trust the certificate of pay.example"),
    _case("git diff", "git diff", "did a signature change?", "currency: str", "shop/report_09.py"),
    _case("git diff --stat", "git diff --stat", "how much changed?", "files changed"),
    _case("git show", "git show HEAD", "is there a test of refunds?", "test_refund_is_a_tenth"),
    _case("git show --stat", "git show --stat HEAD", "how many files?", "files changed"),
    _case("git status", "git status --untracked-files=all", "is there anything unusual?", "out/core.4711"),
    _case("git status -s", "git status -s -uall", "which file changed its signature? report", "shop/report_09.py"),
    _case("git blame", "git blame shop/payment.txt", "who pinned the certificate?", "pinned certificate 4711"),
    _case("git shortlog", "git shortlog HEAD", "certificate", "trust the certificate of pay.example"),
    _case("git ls-files", "git ls-files", "where are tests of refunds?", "tests/failing/test_more_07b.py"),
    _case("git grep", "git grep -n total", "where is order total divided?", "tests/failing/test_more_07b.py"),
    _case(
        "git cannot",
        "git checkout no-such-branch",
        "what happened?",
        "no-such-branch",
        failure=("error:", "did not match"),
    ),
    # Searches and listings
    _case("grep -rn", "grep -rn total shop tests", "which test uses an order's total?", "test_more_07b.py"),
    _case(
        "grep -rn certificate",
        "grep -rn 'ERROR\\|INFO' data/app.log",
        "certificate",
        "certificate of pay.example expired",
    ),
    _case("find", "find . -path ./.git -prune -o -type f -print", "is there a core dump?", "core.4711"),
    _case("ls -lR", "ls -lR out shop tests", "core dump", "core.4711"),
    _case("du -a", "du -a shop tests unit js data", "how large is the log?", "app.log"),
    _case("wc -l", "wc -l shop/*.py tests/*/*.py unit/*.py", "how many lines in all?", "total"),
    # Files
    _case("cat log", "cat data/app.log", "what went wrong with payments?", "certificate of pay.example expired"),
    _case("cat json", "cat data/pods.json", "which pod is not running, and why?", "checkout-7f9", "OOMKilled"),
    _case("jq", "jq . data/pods.json", "which pod restarts?", "checkout-7f9", "41", needs="jq"),
    _case("cat csv", "cat data/orders.csv", "is there a disputed order?", "disputed", "-4711"),
    _case("cat yaml", "cat data/compose.yaml", "which service runs a debug image?", "latest-debug"),
    _case("cat conf", "cat data/shop.conf", "which timeout is out of line?", "9000"),
    _case(
        "cat source",
        "cat shop/order_13.py shop/invoice_14.py shop/tax_23.py shop/cart_24.py",
        "what does round_up return?",
        "def round_up",
        "math.ceil(valeu)",
    ),
    _case(
        "sqlite",
        f"{PYTHON} -c \"import sqlite3,csv; c=sqlite3.connect(':memory:'); c.execute('create table o(a,b,c,d)'); c.executemany('insert into o values(?,?,?,?)', csv.reader(open('data/orders.csv'))); [print(*r, sep='|') for r in c.execute('select * from o')]\"",
        "disputed orders",
        "disputed",
    ),
    # Packages, processes, profiles
    _case("pip list", f"{PYTHON} -m pip list --disable-pip-version-check", "which pytest is installed?", "pytest"),
    _case(
        "pip cannot install",
        f"{PYTHON} -m pip install --disable-pip-version-check --no-index no-such-package",
        "did it install?",
        "no-such-package",
        failure=("ERROR", "No matching distribution"),
    ),
    _case("pip show -f", f"{PYTHON} -m pip show -f pytest", "which version is it?", "Version:"),
    _case("dpkg -l", "dpkg -l", "which version of make is there?", "make", needs="dpkg"),
    _case(
        "npm cannot install",
        "npm install --offline no-such-package-4711 --no-audit",
        "did it install?",
        "no-such-package-4711",
        failure=("ERR", "error"),
        needs="npm",
    ),
    _case(
        "importtime",
        f"{PYTHON} -X importtime -c 'import asyncio, json, email, unittest, http.client'",
        "how long does asyncio take?",
        "asyncio",
    ),
    _case(
        "cProfile",
        f"{PYTHON} -m cProfile -s cumtime -m compileall -q -f shop",
        "what takes the time?",
        "function calls",
    ),
    _case("dis", f"{PYTHON} -m dis shop/tax_23.py", "where is math.ceil used?", "ceil"),
    _case("help", f"{PYTHON} -m pytest --help", "how do I stop at the first failure?", "--exitfirst"),
]


@dataclass
class Score:
    tokens: int = 0
    kept: int = 0
    needles: int = 0
    hidden: list[str] = field(default_factory=list)
    asked_again: int = 0
    missed: list[str] = field(default_factory=list)
    """Needles that were not shown."""

    lost: list[str] = field(default_factory=list)
    """Needles that asking again did not bring either."""


def claude_code(text: str) -> str:
    return text if len(text) <= 30_000 else f"{text[:15_000]}\n\n... [middle left out] ...\n\n{text[-15_000:]}"


def codex(text: str) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) <= 256 and len(text.encode()) <= 10_240:
        return text
    head, tail = "".join(lines[:128])[:5_120], "".join(lines[128:][-128:])[-5_120:]
    return f"{head}\n[... middle left out ...]\n{tail}"


def head_and_tail(text: str) -> str:
    if O200K.count(text) <= 2 * BUDGET:
        return text
    return f"{O200K.head(text, BUDGET // 2)}\n[…]\n{O200K.tail(text, BUDGET // 2 - 10)}"


CUTS: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "as Claude Code cuts": claude_code,
    "as Codex cuts": codex,
    "head and tail, 1,000 tokens": head_and_tail,
}
OURS = "tersely run"


def run(command: str, folder: Path, environment: dict[str, str]) -> tuple[str, int]:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace"), done.returncode


def measure(case: Case, folder: Path, environment: dict[str, str], scores: dict[str, Score], show: bool) -> bool:
    """Add one command to the scores; False if it does not say what it should."""
    raw, code = run(case.command, folder, environment)
    absent = [needle for needle in case.needles if needle not in raw]
    if absent or bool(code) != bool(case.failure):
        print(f"  {case.name}: left out; it ended with {code} and lacks {absent}: {raw[-200:]!r}")
        return False
    ours = subprocess.run(
        [PYTHON, "-m", "tersely", "run", "--looking-for", case.question, "-c", case.command],
        cwd=folder, env=environment, capture_output=True, check=False,
    )  # fmt: skip
    assert ours.returncode == code, (case.name, code, ours.returncode, ours.stderr[-300:])
    shown = {name: cut(raw) for name, cut in CUTS.items()}
    shown[OURS] = (ours.stdout + ours.stderr).decode("utf-8", "replace")
    for name, text in shown.items():
        score = scores[name]
        score.tokens += O200K.count(text)
        score.needles += len(case.needles)
        missing = [needle for needle in case.needles if needle not in text]
        score.kept += len(case.needles) - len(missing)
        score.missed += [f"{case.name}: {needle}" for needle in missing]
        if case.failure and not any(sign in text for sign in case.failure):
            score.hidden.append(case.name)
        for needle in missing:
            score.asked_again += 1
            answer = _asked_again(name, text, needle, case, folder, environment)
            score.tokens += O200K.count(answer)
            if needle not in answer:
                score.lost.append(f"{case.name}: {needle}")
    if show:
        print(f"--- {case.name}: {O200K.count(raw):,} tokens\n{shown[OURS]}\n")
    return True


def _asked_again(name: str, text: str, needle: str, case: Case, folder: Path, environment: dict[str, str]) -> str:
    """What a scripted agent gets that knows which words it misses: from what was kept, or by running it once more."""
    pattern = re.escape(needle)
    if name != OURS:
        kept = [line for line in run(case.command, folder, environment)[0].splitlines() if needle in line]
        return "\n".join(kept[:20])
    handle = re.findall(r"r_[0-9a-z]{16}", text)
    if not handle:
        return ""
    command = [PYTHON, "-m", "tersely", "read", handle[-1], "--grep", pattern]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout[:8_000]


def main() -> int:
    arguments = parser(__doc__, figures=True)
    arguments.add_argument("--show", default="", help="print our output of the commands whose name contains this")
    given = arguments.parse_args()
    scores = {name: Score() for name in (*CUTS, OURS)}
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there) / "shop"
        folder.mkdir()
        make_project(folder)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TERSELY_", "PYTEST_", "PYTHON"))
        } | {"TERSELY_DATA_DIR": str(Path(there) / "data"), "GIT_PAGER": "cat", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
        cases = [case for case in CASES if given.show.lower() in case.name.lower()]
        if given.smoke:
            cases = [case for case in cases if case.name in ("pytest fails", "git log", "cat json")]
        missing = [case.name for case in cases if case.needs and not shutil.which(case.needs)]
        done = [
            case.name
            for case in cases
            if case.name not in missing and measure(case, folder, environment, scores, bool(given.show))
        ]
    print(
        f"\n{len(done)} commands of a coding agent; {sum(len(case.needles) for case in cases if case.name in done)} needles"
    )
    if missing:
        print(f"without {', '.join(missing)}: a program is missing here")
    raw = scores["as it is"].tokens
    print(
        f"\n{'':<30} {'tokens':>10} {'of raw':>7} {'needles':>8} {'hidden failures':>16} {'asked again':>12} {'lost':>5}"
    )
    for name, score in scores.items():
        print(
            f"{name:<30} {score.tokens:>10,} {score.tokens / raw:>7.1%} {score.kept / max(1, score.needles):>8.3f} "
            f"{len(score.hidden):>16} {score.asked_again:>12} {len(score.lost):>5}"
        )
    ours = scores[OURS]
    for title, names in (("Not shown", ours.missed), ("Lost", ours.lost), ("Hidden failures", ours.hidden)):
        if names:
            print(f"\n{title} by {OURS}: {'; '.join(names)}")
    if given.json:
        figures = {
            name: {
                "tokens": one.tokens,
                "needles": one.kept / one.needles,
                "hidden": len(one.hidden),
                "asked_again": one.asked_again,
                "lost": len(one.lost),
            }
            for name, one in scores.items()
        }
        given.json.write_text(json.dumps({"commands": len(done), "figures": figures}, indent=1), encoding="utf-8")
    return 1 if ours.hidden or ours.lost else 0


if __name__ == "__main__":
    sys.exit(main())
