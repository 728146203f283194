"""Search results: the path once, definitions where they are asked for, both halves of a question."""

from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import grep
from tersely.condensing.structural import condense_structurally


def _condensed(text: str, focus: str, budget: int = 200) -> str:
    wish = Focus.parse(focus)
    reading = grep.read(text, wish, budget)
    assert reading is not None
    return pack(reading, budget, focus=wish).text


def _uses(count: int) -> list[str]:
    return [
        f"src/oven/part{at % 9}.py:{at + 3}:    heater.wait(timeout=settings.oven_timeout, lid={at})"
        for at in range(count)
    ]


def test_the_path_of_many_matches_is_said_once() -> None:
    shown = _condensed("\n".join(f"src/oven/heat.py:{at}:    retry(step{at})" for at in range(40)), "retry")

    assert shown.count("src/oven/heat.py") == 1
    assert " 7: retry(step7)" in shown


def test_a_definition_is_found_among_its_uses() -> None:
    names = [f"{one}{other}" for one in "abcdefghijklmnopqr" for other in "stuvwxyz"]
    lines = [f"src/oven/{name}.py:7:    {name}.wait(oven.timeout, oven_timeout)" for name in names]
    lines[111] = "src/oven/limits.py:88:def oven_timeout() -> float:"

    shown = _condensed("\n".join(lines), "Where is the oven timeout defined?", 120)

    assert "src/oven/limits.py" in shown
    assert " 88: def oven_timeout() -> float:" in shown


def test_both_halves_of_a_question_get_an_answer() -> None:
    lines = _uses(300)
    lines[40:40] = [f"src/oven/a.py:{at}:def timeout_{at}(lid):" for at in range(60)]
    lines[250] = "src/door/hinge.py:5:def hinge_angle():"

    shown = _condensed("\n".join(lines), "Where is the timeout of the lid defined, and the hinge angle?", 200)

    assert "def hinge_angle():" in shown
    assert "def timeout_" in shown


def test_context_lines_and_headings_are_understood() -> None:
    context = "src/a.py-11-import os\nsrc/a.py:12:launch(rocket)\nsrc/a.py-13-done\n--\nsrc/b.py:4:launch(kite)"
    headings = "src/a.py\n12:launch(rocket)\n13-done\n\nsrc/b.py\n4:launch(kite)\n"

    for text in (context, headings * 2):
        assert " 12: launch(rocket)" in _condensed(text, "launch")


def test_what_is_left_out_is_counted() -> None:
    wish = Focus.parse("heater")
    reading = grep.read("\n".join(_uses(300)), wish, 100)
    assert reading is not None

    packed = pack(reading, 100, focus=wish)
    account = packed.account(reading, _uses(300))

    shown = sum(1 for index in packed.kept if reading.units[index].count)
    assert account.summary()[0].what == f"{300 - shown} of 300 lines"


def test_a_log_with_times_is_no_search_result() -> None:
    log = "\n".join(f"2026-05-04T10:37:{at:02} request served in {at} ms" for at in range(30))

    assert grep.read(log, Focus.parse(""), 100) is None


def test_a_word_that_all_matches_share_decides_nothing() -> None:
    lines = [f"src/net{at % 7}.c:{at}:    wait(&timeout, sock{chr(97 + at % 26)});" for at in range(400)]
    lines[230] = 'src/config.c:77:    createIntConfig("repl-timeout", NULL, server.repl_timeout, 60, INTEGER_CONFIG),'

    shown = _condensed("\n".join(lines), "Which default has the timeout of repl?")

    assert 'createIntConfig("repl-timeout"' in shown


def test_definitions_and_messages_come_before_plain_uses() -> None:
    names = [f"{one}{other}" for one in "abcdefghij" for other in "klmnopqrst"]
    lines = [f"src/oven{at % 9}.c:{at}:  x = crust + {name};" for at, name in enumerate(names * 3)]
    lines[150] = (
        "src/oven.h:12:#define MAX_CRUST_MILLIMETRES 44 /* thicker ones do not rise any more, see the manual */"
    )
    lines[200] = 'src/oven.c:90:    log_error("the crust of this bread is burnt", bread);'

    shown = _condensed("\n".join(lines), "crust", 150)

    assert "#define MAX_CRUST_MILLIMETRES 44" in shown
    assert "the crust of this bread is burnt" in shown
    assert len({line.split(":")[0] for line in shown.split("\n")}) > 4


def test_a_match_below_its_path_is_shown_whole() -> None:
    lines = _uses(300)
    condensed = condense_structurally("\n".join(lines), 300, "heater")

    assert not condensed.account.partial
    assert condensed.account.shown


def test_superlatives_are_answered_by_the_amounts_of_the_matches() -> None:
    lines = [f"src/oven{row}.py:{row}: unused variable 'tray{row}' ({50 + row % 40}% confidence)" for row in range(90)]
    lines[50] = "src/oven50.py:50: unused variable 'tray50' (97% confidence)"
    shown = condense_structurally("\n".join(lines), 300, "what is unused with the highest confidence?").text
    assert "(97% confidence)" in shown


def test_matches_of_the_file_that_the_question_names_are_not_lowered_for_being_alike() -> None:
    lines = [f"lib/oven{row}.py:{row}: size={row} B, count=3, average={row} B" for row in range(1, 90)]
    lines[60] = "lib/unittest/mock.py:45: size=8408 B, count=2, average=4204 B"
    shown = condense_structurally("\n".join(lines), 300, "how much memory did unittest mock take").text
    assert "45: size=8408 B" in shown
