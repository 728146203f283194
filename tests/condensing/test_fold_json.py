"""JSON is folded without loss, and every line of it knows its lines in the source."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.summarize.fold_json import fold_json, unfold_json
from tersely.condensing.summarize.source import folded_source
from tersely.text.tokens import O200K


def pods(count: int) -> dict[str, Any]:
    container = {"name": "web", "image": "registry.example.com/web:1.2.3", "limits": {"cpu": "500m", "memory": "1Gi"}}
    return {
        "kind": "List",
        "items": [
            {"metadata": {"name": f"web-{n}", "labels": {"app": "web", "tier": "front"}}, "spec": container, "n": n}
            for n in range(count)
        ],
    }


def as_written(text: str) -> Any:
    """The data of a JSON text with its numbers as strings."""
    return json.loads(text, parse_int=str, parse_float=str, parse_constant=str)


@pytest.mark.parametrize("indent", [None, 2])
def test_sub_trees_that_repeat_are_written_once(indent: int | None) -> None:
    text = json.dumps(pods(300), indent=indent)
    folded = fold_json(text)
    assert folded is not None and unfold_json(folded) == as_written(text)
    whole = folded.preamble + "\n".join(line for line, _, _ in folded.pieces)
    assert whole.count("registry.example.com") == 1
    assert O200K.count(whole) < O200K.count(text) / 2
    for line, start, end in folded.pieces[2:-1]:
        assert f'"n":{json.loads(text[start:end])["n"]}' in line, "each line has its source"


def test_a_part_of_a_folded_text_is_cited_by_its_own_lines() -> None:
    text = json.dumps(pods(300), indent=2)
    source = folded_source(text)
    start = source.text.index("web-250")
    line = 1 + source.text.count("\n", 0, start)
    first, last = source.lines(start, start + 5, line)
    assert '"web-250"' in "\n".join(text.splitlines()[first - 1 : last]) and last - first < 25
    assert source.preamble and "*1" in source.preamble and "*4 = …" in source.legend


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(one=JSON, other=JSON, times=st.integers(2, 6), indent=st.sampled_from([None, 1, 4]), wrap=st.booleans())
def test_nothing_is_lost(one: Any, other: Any, times: int, indent: int | None, wrap: bool) -> None:
    long = {"a value that is long enough": one, "and another": other}
    data: Any = [long, other, *([long] * times), one, [other] * times, long]
    text = json.dumps({"x": 1, "items": data, "y": [one]} if wrap else data, indent=indent)
    folded = fold_json(text)
    if folded is not None:
        assert unfold_json(folded) == as_written(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1, 2",
        "[1, 2] and more",
        '{"a": 1, "a": 2}' * 1,
        '[{"a": 1, "a": 2}, {"a": 1, "a": 2}]' * 1,
        "[" * 100_000 + "]" * 100_000,
        "plain words",
        '{"short": true}',
    ],
)
def test_what_cannot_be_folded_without_loss_stays_as_it_is(text: str) -> None:
    assert fold_json(text) is None


def test_a_number_stays_as_it_is_written() -> None:
    text = json.dumps(pods(50)).replace('"n": 7,', '"n": 7.00,').replace('"n": 8}', '"n": 1e400}')
    folded = fold_json(text)
    assert folded is not None and '"n":1e400' in "".join(line for line, _, _ in folded.pieces)
