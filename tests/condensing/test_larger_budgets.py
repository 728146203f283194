"""A larger budget never loses what a smaller one shows or counts."""

import json
import re

import pytest

from tersely.condensing.structural import condense_structurally
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
