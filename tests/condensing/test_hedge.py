"""Where a kind is only likely, the generic reader's best lines stay too."""

import pytest

from tersely.condensing import hedge
from tersely.condensing.account import Account
from tersely.condensing.focus import Focus
from tersely.condensing.hedge import raise_best_lines, with_hedge
from tersely.condensing.pack import pack
from tersely.condensing.readers import generic
from tersely.condensing.readers.tables import read_csv
from tersely.condensing.segments import read_any
from tersely.condensing.structural import condense_structurally
from tersely.condensing.units import Reading, Unit
from tersely.text.tokens import O200K

LINES = [f"pump-{number} flow {number % 7} seen by warden {number % 5}" for number in range(400)]
WANTED = "pump-777 flow 91 seen by warden 3"
TEXT = "\n".join([*LINES[:200], WANTED, *LINES[200:]])
QUESTION = Focus.parse("What is the flow of pump-777?")


def mistaken(kind: str, *, own_layout: bool = False) -> Reading:
    """A reader that holds everything but the answer for important."""
    units = [Unit(line, at, at, 0.0 if line == WANTED else 2.0) for at, line in enumerate(TEXT.split("\n"), 1)]
    reading = Reading(kind, units)
    if own_layout:
        reading.layout = lambda kept, changed, gaps: "\n".join(changed.get(at, units[at].text) for at in sorted(kept))
    return reading


def shown(reading: Reading) -> tuple[list[str], Account]:
    joined = with_hedge(reading, TEXT, QUESTION, 400, O200K)
    packed = pack(joined, 400, O200K, QUESTION)
    assert packed.tokens <= 400
    return packed.text.split("\n"), packed.account(joined, TEXT.split("\n"))


def test_what_a_mistaken_reader_leaves_out_is_shown_in_the_order_of_the_source() -> None:
    lines, _ = shown(mistaken("table"))
    assert WANTED in lines
    order = [TEXT.split("\n").index(line) for line in lines if line in TEXT]
    assert order == sorted(order)


def test_beside_a_layout_of_its_own_the_lines_stand_beneath() -> None:
    lines, _ = shown(mistaken("outline", own_layout=True))
    assert WANTED in lines[lines.index("[… other lines as they stand]") :]


def test_no_line_is_shown_twice_nor_said_to_be_left_out() -> None:
    for reading in (mistaken("table"), mistaken("outline", own_layout=True)):
        lines, account = shown(reading)
        whole = [line for line in lines if line in TEXT.split("\n")]
        assert len(whole) == len(set(whole))
        [lost] = account.summary()
        assert lost.what == f"{401 - len(whole)} of 401 lines"
        assert not any(first <= 201 <= last for first, last in lost.lines)


def test_a_kind_that_is_proven_is_not_asked_about() -> None:
    reading = mistaken("json")
    assert with_hedge(reading, TEXT, QUESTION, 400, O200K) is reading


def _table(*lines: str) -> Reading:
    reading = read_csv("\n".join(lines), Focus.parse(""), 500)
    assert reading is not None and reading.kind == "table"
    return reading


def test_rows_of_equal_length_prove_a_table_with_separators() -> None:
    rows = [f"{at},host-{at},{at % 7},ok" for at in range(40)]
    assert _table("id,name,load,state", *rows).proven
    assert not _table("id,name,load,state", *rows, "7,short").proven
    aligned = [f"{at:<6}host-{at:<6}{at % 7:<6}ok" for at in range(40)]
    assert not _table("ID    NAME       LOAD  STATE", *aligned).proven


def test_readers_that_agree_are_left_alone() -> None:
    reading = mistaken("table")
    for unit in reading.units[198:205]:
        unit.score = 5.0
    assert with_hedge(reading, TEXT, QUESTION, 400, O200K) is reading


def test_a_report_taken_for_an_outline_still_gives_its_answer() -> None:
    blocks = [f"Reading {n}\nplace: hall {n % 9}\nof: gauge-{n}\nbar: {n % 13}.{n % 7}\n" for n in range(300)]
    condensed = condense_structurally("\n".join(blocks), 300, "bar of gauge-217")
    assert condensed.tokens_after <= 300
    assert "gauge-217" in condensed.text and "9.0" in condensed.text.split("gauge-217")[1][:60]


def test_the_line_with_most_of_the_question_is_shown_whatever_its_reader_thinks() -> None:
    """BM25 is the least that a reader of lines must reach."""
    reading = mistaken("records")
    raise_best_lines(reading, TEXT, QUESTION, 400)
    assert WANTED in pack(reading, 400, O200K, QUESTION).text
    unasked = mistaken("records")
    raise_best_lines(unasked, TEXT, Focus.parse(""), 400)
    assert WANTED not in pack(unasked, 400, O200K, QUESTION).text


def test_the_name_of_a_table_is_shown_once_although_two_readers_choose_lines_below_it() -> None:
    folders = [
        f"/srv/data{folder}:\ntotal 40\n"
        + "\n".join(f"-rw-r--r-- 1 root root {folder * 40 + n} May 31 2024 part{n}.bin" for n in range(9))
        + f"\ndrwxr-xr-x 21 root root   4096 May  9  2026 extra{folder}\n"
        for folder in range(40)
    ]
    for wanted in range(0, 40, 3):
        shown = condense_structurally("\n".join(folders), 500, f"What is in data{wanted} and extra{wanted}?").text
        titles = [line for line in shown.split("\n") if line.startswith("/srv")]
        assert len(titles) == len(set(titles))


def test_lines_are_not_compared_if_all_that_could_be_added_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Reading:
        raise AssertionError("There is nothing to add, so no line needs to be compared with the others.")

    monkeypatch.setattr(generic, "read_scanned", refuse)
    near = range(199, 206)  # The answer and the lines around it.
    units = [Unit(line, at, at, 3.0 if at in near else 0.1) for at, line in enumerate(TEXT.split("\n"), 1)]
    reading = Reading("table", units)
    assert with_hedge(reading, TEXT, QUESTION, 400, O200K) is reading


def test_no_line_that_scores_enough_is_passed_over() -> None:
    for question in ("What is the flow of pump-777?", "warden 3", "Which pump has the highest flow?", "Any errors?"):
        focus = Focus.parse(question)
        possible = set(generic.scanned(TEXT, focus).could_reach(0.6, focus))
        units = generic.read(TEXT, focus, 10_000).units
        least = 0.6 * max(unit.score for unit in units)
        assert {unit.first - 1 for unit in units if unit.score >= least} <= possible


def test_a_line_that_only_owns_another_added_line_is_not_shown_twice() -> None:
    reading = Reading("table", [Unit("data:", 1, 1, 0.3), Unit("TABLE", 3, 3, 0.5)])
    lines = [Unit("data:", 1, 1, -1.0), Unit("  output: |", 2, 2, 0.9, 0)]
    hedge._exclude_duplicates(reading, lines, {1, 2})
    source = ["data:", "  output: |", "TABLE"]
    packed = pack(hedge.with_lines(reading, lines), 100, O200K, Focus("data"), source)
    assert packed.text.split("\n") == source


SETTINGS = "\n".join(
    f"## @param part{number}.size Amount of storage of part {number}\npart{number}:\n  size: {number}Gi\n  mode: fast"
    for number in range(90)
).replace("mode: fast", "# Only drives with a battery may be set to careless\n  mode: fast", 1)


def test_a_comment_of_yaml_that_the_question_asks_for_is_shown() -> None:
    result = condense_structurally(SETTINGS, 300, "When may drives be set to careless?")
    assert result.kind == "yaml"
    assert "# Only drives with a battery may be set to careless" in result.text


def test_comments_of_yaml_with_common_words_only_are_left_out() -> None:
    assert "##" not in condense_structurally(SETTINGS, 300, "What is here?").text


def test_a_changed_line_with_the_identifier_of_the_question_is_shown_in_a_diff() -> None:
    def hunk(row: int, old: str, new: str) -> str:
        return f"@@ -{row},3 +{row},3 @@ class Oven:\n     heat()\n-{old}\n+{new}\n     cool()\n"

    body = "".join(
        hunk(10 * row, f"    tray{row}=change( {row})", f"    tray{row} = change({row})") for row in range(60)
    )
    wanted = "def get_cookie_header(jar: CookieJar, request: PreparedRequest) -> str | None:"
    text = f"--- cookies.py\n+++ cookies.py\n{body}{hunk(900, wanted, 'def get_cookie_header(')}"
    reading = read_any(text, Focus.parse("how would black change get_cookie_header?"), 500)
    raise_best_lines(reading, text, Focus.parse("how would black change get_cookie_header?"), 500)
    assert [unit.score for unit in reading.units if unit.text == f"-{wanted}"] == [99.0]
    assert all(unit.score < 99 for unit in reading.units if "tray" in unit.text)
