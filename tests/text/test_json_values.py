"""Values of JSON with the lines on which they are."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tersely.shapes.json_values import ObjectLines, documents, json_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab{}[]\"\\\n,:'é"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('ab{}"\n'), inner, max_size=4),
    max_leaves=20,
)


def objects_in(value: Any) -> list[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict) else []) + [one for each in inner for one in objects_in(each)]


@given(st.lists(VALUES, min_size=1, max_size=3), st.sampled_from([None, 0, 2]))
def test_each_object_has_the_lines_on_which_it_is_written(values: list[Any], indent: int | None) -> None:
    text = "\n".join(json.dumps([value], indent=indent) for value in values)
    read = documents(text)
    assert read == [[value] for value in values]
    lines_of = ObjectLines(text, read)
    lines = text.split("\n")
    for one in objects_in(read):
        first, last = lines_of.of(one)
        written = json.dumps(one, indent=indent).split("\n")
        assert lines[first - 1].lstrip().removesuffix(",").endswith(written[0]) or written[0] in lines[first - 1]
        assert last - first == len(written) - 1


def test_a_key_that_occurs_twice_makes_the_lines_those_of_the_whole() -> None:
    text = '{"a": {"b": 1},\n "a": {"b": 2},\n "c": {}}\n'
    (value,) = documents(text)
    assert ObjectLines(text, [value]).of(value["c"]) == (1, 3)


def test_what_is_not_only_documents_has_none() -> None:
    assert documents('{"a": 1} and more') == documents('{"a": ') == documents("12") == documents("") == []
    assert documents('[1]\n{"a": NaN}') == [[1], {"a": None}]


def test_records_are_found_behind_what_is_before_them() -> None:
    found = list(json_lines('{"a": 1}\n\nweb-1 {"a": 2}\n[1]\n{broken'))
    assert [(number, prefix, record) for number, _, prefix, record in found] == [
        (1, "", {"a": 1}), (3, "web-1 ", {"a": 2}), (4, "", None), (5, "", None),
    ]  # fmt: skip
