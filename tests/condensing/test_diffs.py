"""Diffs: every file is named, and the change that was asked for is literal."""

import itertools
import random

import pytest

from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import diffs
from tersely.condensing.structural import condense_structurally
from tersely.condensing.units import Reading


def _reading(text: str, focus: str, budget: int) -> Reading:
    reading = diffs.read(text, Focus.parse(focus), budget)
    assert reading is not None
    return reading


def _condensed(text: str, focus: str = "", budget: int = 300) -> str:
    return pack(_reading(text, focus, budget), budget, focus=Focus.parse(focus)).text


def _file(name: str, changes: list[str]) -> str:
    body = "\n".join([" def before():", *changes, " def after():"])
    return (
        f"diff --git a/{name} b/{name}\nindex 11..22 100644\n--- a/{name}\n+++ b/{name}\n@@ -10,3 +10,9 @@ class "
        f"Oven:\n{body}\n"
    )


def _many() -> str:
    files = [_file(f"src/part{at}.py", [f"-    step({at})", f"+    step({at}, lid=closed)"]) for at in range(30)]
    files[17] = _file("src/limits.py", ["-    timeout = 30", "+    timeout = 5"])
    files[3] = _file("package-lock.json", [f'+    "timeout-{at}": "1.0.{at}",' for at in range(400)])
    return "commit 4f\nAuthor: Dana\n\n    Close the lid\n\n" + "".join(files)


def test_the_head_counts_files_and_lines() -> None:
    assert _condensed(_many()).split("\n")[0] == "diff: 30 files, +429 -29"


def test_the_change_that_was_asked_for_is_shown_with_its_file() -> None:
    shown = _condensed(_many(), "Was the timeout changed?", 250)

    assert "src/limits.py +1 -1" in shown
    assert "-    timeout = 30\n+    timeout = 5" in shown


def test_lock_files_do_not_crowd_out_the_code() -> None:
    lock = _file("package-lock.json", [line for at in range(60) for line in (f'+  "lid-{at}": 1', "  unchanged")])
    code = _file("src/oven.py", ["-    lid.open(slowly=True)", "+    lid.open(slowly=False, then=wait)"])

    assert "+    lid.open(slowly=False, then=wait)" in _condensed(lock + code, "What happens to the lid?", 150)


def test_new_and_deleted_files_say_so() -> None:
    new = "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+hello\n+world\n"
    gone = "--- a/old.txt\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-bye\n"

    shown = _condensed(new + gone)

    assert "new.txt +2 -0 (new)" in shown
    assert "old.txt +0 -1 (deleted)" in shown


def test_the_account_names_the_changed_lines_that_are_missing() -> None:
    reading = _reading(_many(), "timeout", 200)
    packed = pack(reading, 200, focus=Focus.parse("timeout"))
    lines = _many().split("\n")
    account = packed.account(reading, lines)

    lost = {line for first, last in account.lost for line in range(first, last + 1)}
    shown = set(packed.text.split("\n"))
    assert all(lines[line - 1] not in shown for line in lost if lines[line - 1][:1] in ("+", "-"))


def test_text_without_hunks_is_no_diff() -> None:
    assert diffs.read("diff --git a/x b/x\nnothing here", Focus.parse(""), 100) is None


def _numbered(seed: int) -> str:
    """Return a diff in which every line of a hunk is different."""
    chance, count = random.Random(seed), itertools.count()
    files = []
    for at in range(chance.randint(2, 12)):
        hunks = []
        for start in range(1, chance.randint(2, 6)):
            signs = [chance.choice("  +-") for _ in range(chance.randint(3, 60))]
            words = ("lid", "oven", "heat", "timeout", "crust")
            body = "\n".join(f"{sign}{chance.choice(words)} {chance.choice(words)} {next(count)}" for sign in signs)
            hunks.append(f"@@ -{start}00,9 +{start}00,9 @@ bake_{at}_{start}\n{body}\n")
        files.append(f"diff --git a/f{at}.c b/f{at}.c\n--- a/f{at}.c\n+++ b/f{at}.c\n" + "".join(hunks))
    return "".join(files)


@pytest.mark.parametrize("seed", range(12))
def test_every_gap_inside_a_hunk_is_marked(seed: int) -> None:
    text = _numbered(seed)
    place = {line: at for at, line in enumerate(text.split("\n"))}
    shown = condense_structurally(text, 250, "timeout of the crust").text.split("\n")

    assert not [line for line in shown if line[:1] in "+-" and "…" in line]
    for before, after in itertools.pairwise(shown):
        if before in place and after in place and after[:1] in "+- ":
            assert place[after] == place[before] + 1, (before, after)


@pytest.mark.parametrize("seed", range(6))
def test_both_sides_of_a_small_change_are_shown(seed: int) -> None:
    chance = random.Random(seed)
    files = [
        _file(f"part{at}.c", [f"-    heat({at}, {chance.random()})", f"+    heat({at}, lid, {chance.random()})"])
        for at in range(60)
    ]
    shown = _condensed("".join(files), "heat lid", 400).split("\n")

    assert sum(line[:1] == "-" for line in shown) > 3
    for before, after in itertools.pairwise(shown):
        assert (before[:1] == "-") == (after[:1] == "+")


def test_paths_and_headers_of_hunks_match_the_question() -> None:
    files = [_file(f"src/part{at}.c", [f"-    a({at});", f"+    b({at});"]) for at in range(60)]
    files[40] = _file("src/hinge.c", ["-    x = 1;", "+    x = 2;"])
    files[50] = _file("src/part50.c", ["-    y = 1;", "+    y = 2;"]).replace("class Oven", "close_lid")

    assert "+    x = 2;" in _condensed("".join(files), "What changed in the hinge?", 150)
    assert "+    y = 2;" in _condensed("".join(files), "What changed when closing the lid?", 150)


def test_a_history_with_changes_keeps_the_commit_of_each_change() -> None:
    log = "".join(
        f"commit {at:08x}{'0' * 32}\nAuthor: Baker {at % 5} <b@oven>\n\n    Batch {at}\n\n"
        + _file(f"src/part{at}.c", [f"-    a({at});", f"+    b({at});" if at != 31 else "+    squeak(hinge);"])
        for at in range(60)
    )
    shown = _condensed(log, "Which commit made the hinge squeak?", 200)

    assert "+    squeak(hinge);" in shown
    assert "commit 0000001f0000…" in shown


def test_a_change_that_is_made_everywhere_gives_way_to_the_one_that_is_not() -> None:
    text = ""
    for number in range(20):
        text += f"diff --git a/shop/report_{number}.py b/shop/report_{number}.py\n"
        text += f"--- a/shop/report_{number}.py\n+++ b/shop/report_{number}.py\n"
        for hunk in range(4):
            text += f"@@ -{20 + hunk * 20},3 +{20 + hunk * 20},3 @@ def sum_{hunk}():\n     step()\n"
            text += f"-    return total + {hunk}\n+    return total - {hunk}\n done()\n"
        if number == 9:
            text += "@@ -1,2 +1,2 @@\n import os\n-def report(amount: int):\n+def report(amount: int, currency: str):\n"
    for question in ("", "did a signature change?"):
        assert "currency: str" in condense_structurally(text, 600, question).text


def test_a_commit_is_shown_with_its_subject() -> None:
    commits = [
        f"commit {at:040x}\nAuthor: Ada <ada@example.org>\nDate:   Mon Nov 16 10:{at:02}:00 2026 +0000\n\n"
        f"    parser: rework step {at}\n\n    The longer reason for it is about the parser and its tests.\n\n"
        f"diff --git a/src/part{at}.py b/src/part{at}.py\n--- a/src/part{at}.py\n+++ b/src/part{at}.py\n"
        f"@@ -1,3 +1,3 @@ def step():\n     before = {at}\n-    parser = old({at})\n+    parser = new({at})\n     return parser\n"
        for at in range(30)
    ]
    shown = condense_structurally("\n".join(commits), 600, "Which commits changed the parser?").text
    for commit in shown.split("\ncommit ")[1:]:
        assert "parser: rework step" in commit


def test_a_file_whose_path_has_a_part_of_the_identifier_is_hardly_raised() -> None:
    text = _file("src/app.py", ["-    def dispatch_request(self):", "+    def dispatch_request(self, ctx):"])
    text += _file("CHANGES.md", ["+- Bread has a signature", "+- The oven may change"])
    text += _file("tests/test_request.py", [f"+    assert tray_{row}" for row in range(60)])
    text += "".join(_file(f"src/part{number}.py", [f"+ oven_{number}"]) for number in range(9))
    units = _reading(text, "how did the signature of dispatch_request change?", 300).units
    ordinary = max(unit.score for unit in units if "oven_" in unit.text)
    assert max(unit.score for unit in units if "tray_" in unit.text) < 1.5 * ordinary
