"""A text inside a value is read as what it is, and shown under the path that leads to it."""

import json

import pytest

from tersely.condensing.structural import condense_structurally

LOG = "\n".join(
    (
        f"2026-11-15T10:{number // 60:02d}:{number % 60:02d}Z INFO served request {number * 7919 % 10007} in "
        f"{number % 90} ms"
    )
    for number in range(300)
)
FAILURE = "ERROR payment refused: card network unreachable"
LINES = LOG.split("\n")
LINES[211] = f"2026-11-15T10:03:31Z {FAILURE}"
LOG = "\n".join(LINES)
TABLE = "NAME       READY   STATUS    RESTARTS\n" + "\n".join(
    f"web-{number:<6} 1/1     {'Evicted' if number == 137 else 'Running'}   {number % 3}" for number in range(200)
)
QUESTION = "What went wrong?"


def condensed(value: object, focus: str = QUESTION, budget: int = 300) -> str:
    return condense_structurally(value if isinstance(value, str) else json.dumps(value), budget, focus).text


@pytest.mark.parametrize(
    ("envelope", "title"),
    [
        ({"stdout": LOG, "stderr": "", "exit_code": 3}, "stdout:"),
        ({"content": [{"type": "text", "text": LOG}], "isError": False}, "content[0].text (type: text):"),
        ({"pod": "web-1", "logs": LINES}, "logs:"),
        (
            {
                "data": {
                    "result": [{"stream": {"app": "web"}, "values": [["1790000000000000000", line] for line in LINES]}]
                }
            },
            ".values:",
        ),
    ],
    ids=["stdout", "content", "list of lines", "pairs of time and line"],
)
def test_a_log_in_an_envelope_is_read_as_a_log(envelope: object, title: str) -> None:
    text = condensed(envelope)
    assert FAILURE in text
    assert title in text
    # The lines that say the same stand for each other, as in a log that came alone.
    assert text.count("served request") < 8


def test_the_small_values_of_an_envelope_are_shown_beside_a_large_text() -> None:
    assert "exit_code: 3" in condensed({"command": "run", "stdout": LOG, "exit_code": 3})


def test_a_table_in_an_envelope_is_read_as_a_table() -> None:
    text = condensed({"output": TABLE}, "Which are not running?")
    assert "web-137 1/1 Evicted" in text
    assert "Running ×199" in text


def test_logs_of_several_owners_are_told_apart() -> None:
    pods = [
        {"pod": f"web-{number}", "log": LOG if number == 2 else LOG.replace(FAILURE, "INFO idle")}
        for number in range(4)
    ]
    text = condensed(pods)
    assert FAILURE in text.partition("[2].log (pod: web-2):")[2]


def test_a_text_that_is_nothing_but_one_string_is_read_as_what_the_string_says() -> None:
    text = condensed(json.dumps(TABLE), "Which are not running?")
    assert "web-137 1/1 Evicted" in text


def test_counts_of_a_text_that_is_one_string_say_whose_lines_they_are() -> None:
    lines = "\n".join(json.dumps({"bed": f"b{n}", "soil": "peat" if n == 9 else "loam"}) for n in range(200))
    result = condense_structurally(json.dumps(lines), 300, "Which soil is unusual?")
    assert result.text.startswith("text (in one JSON string):\n200 lines; ")
    assert "peat" in result.text


def test_a_string_that_is_cut_off_is_read_as_far_as_it_goes() -> None:
    assert FAILURE in condensed(json.dumps({"stdout": LOG})[:-900])


def test_a_block_of_yaml_is_read_as_what_it_holds() -> None:
    block = "\n".join("    " + line for line in LINES)
    result = condense_structurally(f"kind: Report\ndata:\n  output: |\n{block}\nstatus: done\n", 300, QUESTION)
    assert FAILURE in result.text
    assert all(4 <= line <= 303 for lost in result.lost if "lines" in lost.what for run in lost.lines for line in run)


def test_the_bodies_of_many_records_stay_with_their_records() -> None:
    body = "It fails now and then. " * 60
    issues = [
        {"number": number, "title": f"issue {number}", "body": f"Body of {number}. {body}"} for number in range(60)
    ]
    text = condensed(issues, "issue 41", 500)
    assert "number: 41" in text and ".body" not in text


def test_what_is_left_out_of_an_inner_text_lies_in_the_source() -> None:
    text = json.dumps({"stdout": TABLE, "exit_code": 1}, indent=2)
    result = condense_structurally(text, 300, "Which are not running?")
    assert result.lost
    assert all(1 <= line <= 4 for lost in result.lost for run in lost.lines for line in run)


def test_titles_count_what_stands_under_them() -> None:
    """In a mixed text owners are numbered anew; counting by the old numbers said `[0 of 200]`."""
    text = condensed({"stdout": TABLE, "exit_code": 0}, "Which are not running?")
    assert "[0 of" not in text
