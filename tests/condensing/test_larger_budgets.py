"""A larger budget never loses what a smaller one shows or counts."""

import json
import re

import pytest

from tersely.condensing.focus import Focus
from tersely.condensing.hedge import raise_best_lines
from tersely.condensing.pack import _Packing
from tersely.condensing.readers import generic
from tersely.condensing.structural import condense_structurally
from tersely.condensing.units import Reading, Unit
from tersely.text.tokens import O200K
from tests.condensing.test_record_answers import as_csv, as_yaml, findings, orders

pytestmark = pytest.mark.slow

QUESTIONS = [
    "",
    "How many orders have the state pending?",
    "note of order-0101",
    "Which is slowest?",
    "Porto",
    "insecure",
]
_COUNT = re.compile(r"[^\s,\[;]+ ×\d+")


def _texts() -> dict[str, str]:
    made = orders(400)
    return {
        "json": json.dumps(made, indent=1),
        "json on one line": json.dumps({"data": made}),
        "yaml": as_yaml(made),
        "csv": as_csv(made),
        "table": "\n".join(
            "  ".join(str(value).ljust(14) for value in order.values()) for order in made if len(order) > 6
        ),
        "findings": findings(),
    }


TEXTS = _texts()


def facts(text: str) -> set[str]:
    """Return what can be shown of a text: the values of JSON with their keys, else its lines."""
    if text[0] not in "[{":
        return {" ".join(line.removeprefix("- ").split()) for line in text.split("\n")}
    found: set[str] = set()
    pending: list[object] = [json.loads(text)]
    while pending:
        value = pending.pop()
        inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in inside:
            pending.append(inner)
            if isinstance(key, str) and not isinstance(inner, (dict, list)):
                found.add(f"{key}: {inner if isinstance(inner, str) else json.dumps(inner)}")
    return found


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_larger_budget_shows_all_that_a_smaller_one_shows(name: str, question: str) -> None:
    text = TEXTS[name]
    known = facts(text)
    before: set[str] = set()
    for budget in (500, 1000, 2000):
        shown = " ".join(condense_structurally(text, budget, question).text.split())
        now = {fact for fact in known if fact in shown} | set(_COUNT.findall(shown))
        assert before - now == set(), budget
        before = now


def test_a_larger_budget_raises_the_same_lines_as_a_smaller_one() -> None:
    """What it raised beyond those displaced what half of it shows."""
    names = ["".join(chr(97 + at * step % 26) for step in (1, 3, 7, 11, 17)) for at in range(400)]
    text = "\n".join(f"step {name} of the build: package {name[::-1]} is the proxy of {name}s" for name in names)
    focus = Focus.parse("which package is the proxy")
    raised: list[set[int]] = []
    for budget in (500, 1000, 2000):
        reading = generic.read(text, focus, budget)
        before = [unit.score for unit in reading.units]
        raise_best_lines(reading, text, focus, budget)
        raised.append({unit.first for unit, score in zip(reading.units, before, strict=True) if unit.score > score})
    assert raised[0] and raised[0] == raised[1] == raised[2]


def test_what_a_smaller_budget_shows_is_removed_last() -> None:
    units = [Unit(f"line {at}", at + 1, at + 1, score) for at, score in enumerate((0.1, 0.9, 0.2, 0.5))]
    smaller = _Packing(Reading("text", units), 400, O200K, None, "")
    smaller.kept = {0, 2}
    larger = _Packing(Reading("text", units), 800, O200K, None, "", before=smaller)
    larger.kept |= {1, 3}
    assert larger._least_first() == [3, 1, 0, 2]
