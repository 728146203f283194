"""Diffs: every file is named, and the change that was asked for is literal."""

from tersely.condensing import diffs
from tersely.condensing.focus import Focus
from tersely.condensing.units import Reading, pack


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
