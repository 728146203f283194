"""JSON of any health: whole, cut, nested in strings, deep, printed by Python."""

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.focus import Focus
from tersely.condensing.pack import pack
from tersely.condensing.readers import json_cut, json_documents
from tersely.condensing.structural import condense_structurally
from tersely.shapes import json_tree

ORDERS = [
    {
        "id": f"order-{number}",
        "state": "paid",
        "customer": {"city": "Bonn", "age": 30 + number % 7},
        "total": 10 * number,
    }
    for number in range(80)
]


def shown(text: str, question: str, budget: int = 250) -> str:
    focus = Focus.parse(question)
    reading = json_documents.read(text, focus, budget)
    assert reading is not None
    return pack(reading, budget, focus=focus).text


def near(text: str, first: str, second: str) -> bool:
    start = text.find(first)
    return start >= 0 and 0 <= text.find(second, start) - start <= 160


def test_a_value_stands_beside_the_name_of_its_owner() -> None:
    assert near(shown(json.dumps(ORDERS), "What is the total of order-57?"), "order-57", "570")


def test_the_record_that_differs_is_shown_with_its_name() -> None:
    odd = [dict(order) for order in ORDERS]
    odd[40]["state"] = "disputed"
    assert near(shown(json.dumps(odd), "Is anything unusual here?"), "order-40", "disputed")


def test_the_highest_is_shown_with_its_name() -> None:
    assert near(shown(json.dumps(ORDERS), "Which order has the highest total?"), "order-79", "790")


def test_a_map_of_records_is_read_like_a_list_of_them() -> None:
    text = json.dumps({order["id"]: {"state": order["state"], "total": order["total"]} for order in ORDERS})
    assert near(shown(text, "total of order-33"), "order-33", "330")


def test_rows_under_column_names_get_their_names() -> None:
    text = json.dumps({"columns": ["name", "size"], "rows": [[f"disk-{number}", number * 7] for number in range(60)]})
    assert "name: disk-59, size: 413" in shown(text, "Which disk has the largest size?")


def test_json_inside_a_string_is_read_as_json() -> None:
    text = json.dumps({"payload": json.dumps({"orders": ORDERS})})
    assert near(shown(text, "total of order-61"), "order-61", "610")


def test_a_document_that_breaks_off_is_read_as_far_as_it_goes() -> None:
    whole = json.dumps(ORDERS, indent=2)
    assert near(shown(whole[: len(whole) * 9 // 10 + 7], "total of order-20"), "order-20", "200")


def test_a_document_without_its_beginning_is_read() -> None:
    text = json.dumps(ORDERS, indent=2)[900:]
    focus = Focus.parse("total of order-66")
    reading = json_cut.read(text, focus, 250)
    assert reading is not None
    assert near(pack(reading, 250, focus=focus).text, "order-66", "660")


def test_values_printed_by_python_are_read() -> None:
    assert near(shown(repr(ORDERS), "total of order-12"), "order-12", "120")


def test_a_series_is_told_by_its_ends_extremes_and_trend() -> None:
    points = [[1700000000 + 60 * at, str(1.5 + at)] for at in range(40)]
    points[17][1] = "99.25"
    text = json.dumps(
        {
            "result": [
                {"metric": {"instance": f"host-{number}"}, "values": points if number == 3 else points[:9]}
                for number in range(6)
            ]
        }
    )
    line = shown(text, "Which instance has the highest value?")
    assert "host-3" in line and "max 99.25 @1700001020" in line


def test_numbers_keep_their_spelling() -> None:
    assert "1.50E+3" in shown('{"limits": {"cpu": 1.50E+3, "memory": "2Gi"}, "other": {"a": 1}}', "cpu limits")


@pytest.mark.parametrize(
    "text",
    ["[" * 50_000 + "]" * 50_000, '{"a":' * 50_000, '{"a": [1, 2', '{"a" "b"}', '["\\ud800"]', "[]]]]", '{"a":}', "{]"],
)
def test_broken_and_bottomless_documents_do_no_harm(text: str) -> None:
    reading = json_documents.read(text, Focus.parse("a"), 50)
    assert reading is None or pack(reading, 50).tokens <= 50


def test_brackets_that_never_end_cost_no_memory_and_hide_nothing_behind_them() -> None:
    assert len(json_tree.parse("[" * 50_000)[0]) <= json_tree.DEEPEST
    deep = "[" * 5_000 + "]" * 5_000
    assert "after: 7" in shown(f'{{"deep": {deep}, "after": 7, "other": "x"}}', "after")


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    )
)
def test_every_plain_value_of_a_document_is_in_its_tree(document: object) -> None:
    tree, _ = json_tree.parse(json.dumps([[document]]))
    wanted: list[str] = []

    def collect(value: object) -> None:
        if isinstance(value, dict):
            for inner in value.values():
                collect(inner)
        elif isinstance(value, list):
            for inner in value:
                collect(inner)
        elif not isinstance(value, str):
            wanted.append(json.dumps(value))

    collect(document)
    found = list(tree.value)
    for value in wanted:
        found.remove(value)


def test_settings_with_dotted_keys_are_read_by_owner() -> None:
    settings = {"version": 3} | {
        f"lamp-{n}.{field}": n * factor for n in range(120) for field, factor in (("watts", 2), ("hours", 7))
    }
    assert near(shown(json.dumps(settings), "hours of lamp-77"), "lamp-77", "539")


def test_json_on_one_line_costs_about_as_much_as_on_many() -> None:
    records = [{"id": f"o-{number}", "state": "paid", "n": number} for number in range(6_000)]

    def seconds(indent: int | None) -> float:
        text = json.dumps(records, indent=indent)
        began = time.process_time()
        condense_structurally(text, 1_000, "state of o-77")
        return time.process_time() - began

    assert seconds(None) < 3 * seconds(1) + 0.2


@pytest.mark.parametrize("question", ["", "Which pod has an old image?"])
def test_what_all_records_have_is_shown_once_and_the_rest_is_what_differs(question: str) -> None:
    pods = [
        {"metadata": {"name": f"web-{at}"}, "spec": {"image": f"web:{1 if at == 77 else 2}"}, "phase": "Running"}
        for at in range(200)
    ]
    text = condense_structurally(json.dumps({"items": pods}, indent=1), 500, question).text

    assert "[200 items; spec.image: web:2 ×199, web:1 ×1]" in text
    assert text.count("web:2") == 2, "counted once, and once in a record that is shown whole"
    assert text.count("Running") <= 3
    assert "web-77" in text


def test_the_end_of_a_document_that_breaks_off_in_a_string_is_found_in_one_pass() -> None:
    """Two million escaped quotes, none of which closes the string: searching on from each would take hours."""
    text = '{"a": [1], "log": "' + 'said \\"ready\\" ' * 1_000_000
    assert json_tree.end_of(text) == len(text)
    assert json_tree.end_of('{"a": "b"}\nplain "text') == len('{"a": "b"}')


def test_a_record_that_stands_out_is_whole_before_ordinary_examples_are() -> None:
    buckets = [
        {
            "name": f"bucket-{number:03}",
            "created": f"2025-{1 + number % 12:02}-{1 + number % 28:02}T08:00:00Z",
            "region": ("us-east", "eu-west", "eu-north")[number % 3],
            "access": {"blocks": number != 77, "restricts": number != 77},
            "size": 1_000_003 * (number + 7),
            "tags": {"team": ("web", "ops", "data")[number % 3], "cost": 100 + 7 * number},
        }
        for number in range(120)
    ]
    text = condense_structurally(json.dumps({"buckets": buckets}, indent=1), 300, "Which bucket is open?").text
    record = text[text.index("bucket-077") :].split("\n - ")[0]
    for value in ("2025-06-22T08:00:00Z", "eu-north", "84000252", "data", "639"):
        assert value in record, value


def test_a_finding_is_shown_with_its_file_and_line() -> None:
    results = [
        {
            "ruleId": f"S{at % 7}07",
            "message": {"text": f"Finding of the sort {at % 7} was detected"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": f"file:///src/part{at % 23}.py"},
                        "region": {"startLine": 3 * at + 1, "startColumn": 5},
                    }
                }
            ],
        }
        for at in range(200)
    ]
    text = json.dumps({"runs": [{"results": results}]}, indent=1)
    for question in ("", "Which findings are of the sort 3?"):
        lines = condense_structurally(text, 400, question).text.split("\n")
        shown = "\n".join(line for line in lines if not line.startswith("["))  # Without counts over all findings.
        assert 0 < shown.count("ruleId: ") <= shown.count("uri: ") == shown.count("startLine: ")


def test_the_field_asked_for_is_shown_in_the_record_that_the_question_names() -> None:
    def box(number: int) -> dict[str, float]:
        return {"Height": 0.3 + number / 1_000, "Left": 0.4 + number / 1_000, "Width": 0.2 + number / 1_000}

    faces = [{"BoundingBox": box(at), "Confidence": 99, "FaceId": f"{at:08x}-7bc2-5efb"} for at in range(11)]
    others = {
        f"Compare{at}": [{"output": {"Source": {"BoundingBox": box(100 + at)}, "Similarity": at}, "title": f"To {at}"}]
        for at in range(12)
    }
    text = json.dumps({**others, "ListFaces": [{"output": {"Faces": faces}, "title": "To list"}]}, indent=2)
    result = condense_structurally(text, 200, "Look up 00000007-7bc2-5efb and report its bounding box width.").text
    assert "00000007-7bc2-5efb" in result
    assert "Width: 0.207" in result


def test_pairs_of_name_and_value_are_accounted_as_shown_in_part() -> None:
    pairs = [{"name": f"n{at}", "value": at * 7 % 13} for at in range(400)]
    condensed = condense_structurally(json.dumps(pairs, indent=1), 100)
    shown = re.findall(r"\b(n\d+): (\d+)", condensed.text)
    assert {"n0": "0", "n1": "7", "n2": "1"}.items() <= dict(shown).items()
    partial = {at for first, last in condensed.account.partial for at in range(first, last + 1)}
    for name, _ in shown:
        at = 4 * int(name[1:]) + 3  # The line of the name; that of the value follows.
        assert {at, at + 1} <= partial


@pytest.mark.parametrize("value", [0, False, "", None])
def test_a_pair_with_an_empty_value_is_shown_as_soon_as_others_are(value: object) -> None:
    written = json.dumps(value)
    pairs = [{"key": f"k{at}", "value": value if at % 2 else "x" * len(written)} for at in range(100)]
    assert f"k1: {written}" in condense_structurally(json.dumps(pairs, indent=1), 100).text


def test_only_a_name_beside_its_value_becomes_a_field() -> None:
    for keys in (("k", "v"), ("label", "value"), ("name", "val")):
        records = [dict(zip(keys, (f"x{at}", f"y{at}"), strict=True)) for at in range(300)]
        shown = condense_structurally(json.dumps(records, indent=1), 100).text
        assert "x0: y0" not in shown
        assert f"{keys[1]}: y0" in shown or f"{keys[0]}: x0" in shown
    numbered = [{"key": at, "value": f"y{at}"} for at in range(300)]
    assert "0: y0" not in condense_structurally(json.dumps(numbered, indent=1), 100).text
