"""JSON lines: shared fields once, equal records counted, and the record asked for with its identity."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.detect import kind_of
from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import json_logs
from tersely.text.tokens import O200K


def _condensed(text: str, focus: str = "", budget: int = 400) -> str:
    wish = Focus.parse(focus)
    reading = json_logs.read(text, wish, budget)
    assert reading is not None
    return pack(reading, budget, focus=wish).text


def _requests(count: int = 800) -> list[dict[str, object]]:
    chance = random.Random(5)
    return [
        {
            "timestamp": f"2026-05-04T10:{at // 60 % 60:02}:{at % 60:02}Z",
            "level": "INFO",
            "service": "cart",
            "message": "request served",
            "path": chance.choice(["/items", "/basket"]),
            "ms": chance.randrange(5, 90),
            "request_id": f"req-{chance.getrandbits(32):08x}",
        }
        for at in range(count)
    ]


def _lines(records: list[dict[str, object]]) -> str:
    return "\n".join(map(json.dumps, records))


def test_what_all_records_share_is_said_once() -> None:
    shown = _condensed(_lines(_requests()))

    assert shown.count("service=cart") == 1
    assert shown.split("\n")[0].startswith("800 lines")


def test_records_that_differ_in_numbers_are_one_with_a_count() -> None:
    shown = _condensed(_lines(_requests()))

    assert "request served path=/items" in shown
    records = shown.partition("\n")[2]  # The head counts the values of fields.
    assert sum(int(part.split()[0]) for part in records.split("×")[1:]) == 800


def test_the_error_stays_with_its_fields() -> None:
    records = _requests()
    records[431] |= {"level": "ERROR", "message": "pool exhausted", "error": "no connection within 30s", "path": "/pay"}

    shown = _condensed(_lines(records), "What is wrong?", 200)

    assert "ERROR pool exhausted path=/pay" in shown
    assert 'error="no connection within 30s"' in shown


def test_the_record_asked_for_is_shown_with_its_identity_and_its_time() -> None:
    records = _requests()
    records[99] |= {"request_id": "req-feedbeef", "ms": 61}

    shown = _condensed(_lines(records), "What happened to req-feedbeef?", 200)

    assert "request_id=req-feedbeef" in shown
    assert "timestamp=2026-05-04T10:01:39Z" in shown


def test_of_a_large_record_the_asked_field_is_shown_beside_what_was_asked_for() -> None:
    records: list[dict[str, object]] = [
        {
            "id": f"node-{at}",
            **{f"field_{name}": f"{name} value {at} " * 6 for name in "abcdefgh"},
            "rackPosition": f"r{at}-u7",
        }
        for at in range(60)
    ]

    shown = _condensed(_lines(records), "What is the rack position of node-41?", 150)

    assert "id=node-41" in shown and "rackPosition=r41-u7" in shown


def test_a_value_unlike_the_others_is_shown_with_its_owner() -> None:
    records: list[dict[str, object]] = [
        {"name": f"pump-{at}", "phase": "running", "site": f"hall {at % 7}"} for at in range(120)
    ]
    records[66]["phase"] = "jammed"

    shown = _condensed(_lines(records), "Does any record look different from the others?", 150)

    assert "name=pump-66 phase=jammed" in shown


def test_the_record_with_the_largest_number_is_shown() -> None:
    records: list[dict[str, object]] = [
        {"name": f"pump-{at}", "flow": {"rate": at * 37 % 500, "unit": "l"}} for at in range(120)
    ]
    records[17]["flow"] = {"rate": 9123, "unit": "l"}

    assert "name=pump-17 flow.rate=9123" in _condensed(_lines(records), "Which pump has the highest flow rate?", 150)


def test_numbers_stay_as_they_are_written() -> None:
    shown = _condensed('{"id": "a", "v": 1.50}\n{"id": "b", "v": 1e3}\n{"id": "c", "v": 12345678901234567890}', "", 200)

    assert "v=1.50" in shown and "v=1e3" in shown and "v=12345678901234567890" in shown


def test_lines_between_the_records_are_kept_as_they_are() -> None:
    lines = _lines(_requests(50)).split("\n")
    lines[20:20] = ["panic: the lid is open", '{"cut": "in the mid']

    assert "panic: the lid is open" in _condensed("\n".join(lines), "What is wrong?", 200)


def test_other_lines_are_not_mine() -> None:
    wish = Focus.parse("")

    assert json_logs.read("one\ntwo\n{}\nthree", wish, 100) is None
    assert json_logs.read("[1]\n[2]\n[3]", wish, 100) is None


_SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
_RECORD = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        _SCALAR,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    ),
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(records=st.lists(_RECORD, min_size=2, max_size=20), budget=st.integers(16, 300))
def test_no_records_break_it_or_its_budget(records: list[dict[str, object]], budget: int) -> None:
    text = "\n".join(map(json.dumps, records))
    wish = Focus.parse("errors over 5 in level 7")

    reading = json_logs.read(text, wish, budget)

    assert reading is not None
    assert O200K.count(pack(reading, budget, focus=wish).text) <= budget


def test_a_deep_record_is_read_without_recursion() -> None:
    deep = '{"a": ' * 400 + "1" + "}" * 400

    assert _condensed(f'{deep}\n{deep}\n{{"b": 2}}')


def _behind_sources(records: list[dict[str, object]]) -> str:
    return "\n".join(
        f"[pod/{'db' if at % 3 else 'web'}-7c/main] {json.dumps(record)}" for at, record in enumerate(records)
    )


def test_records_behind_the_name_of_their_source_are_read_as_records() -> None:
    records = _requests()
    records[300] |= {"level": "ERROR", "message": "disk full"}
    text = _behind_sources(records)
    shown = _condensed(text, "what went wrong?")

    assert kind_of(text) == "jsonl"
    assert shown.count("service=cart") == 1
    [line] = [line for line in shown.split("\n") if "disk full" in line]
    assert "ERROR" in line and "[pod/web-7c/main]" in line


def test_the_time_before_a_record_stands_for_it_where_the_record_has_none() -> None:
    records = [{"severity": "INFO", "message": f"drawer {at} opened"} for at in range(300)]
    text = "\n".join(
        f"2026-05-04T10:{at // 60:02}:{at % 60:02}.120Z desk-3 till[41]: {json.dumps(record)}"
        for at, record in enumerate(records)
    )
    shown = _condensed(text, "")

    assert "2026-05-04T10:00:00.120Z – 2026-05-04T10:04:59.120Z" in shown
    assert shown.count("desk-3") == 1


def test_what_is_said_about_the_same_test_comes_with_its_failure() -> None:
    """The reason of a failure is a record of its own, and only the name of the test connects the two."""
    records: list[dict[str, object]] = []
    for at in range(60):
        name = f"TestOven{chr(65 + at % 26)}{at}"
        records.append({"Action": "run", "Test": name})
        records.append({"Action": "output", "Test": name, "Output": f"=== RUN {name}\n"})
        if at == 33:
            records.append(
                {"Action": "output", "Test": name, "Output": "  oven_test.go:8: got 1249 loaves, want 1250\n"}
            )
        records.append({"Action": "fail" if at == 33 else "pass", "Test": name, "Elapsed": 0.1})
    text = _condensed("\n".join(map(json.dumps, records)), "Which test failed and why?", 250)
    assert "got 1249 loaves, want 1250" in text
    assert "TestOvenH33" in text
