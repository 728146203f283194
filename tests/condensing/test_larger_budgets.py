"""A larger budget never loses what a smaller one shows or counts."""

import json
import re

import pytest

from tersely.condensing.budget import Condensed
from tersely.condensing.focus import Focus
from tersely.condensing.hedge import raise_best_lines
from tersely.condensing.pack import _Packing
from tersely.condensing.readers import generic, line_records, xml_documents
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


def _account_of(condensed: Condensed) -> set[int]:
    runs = (*condensed.account.shown, *condensed.account.partial, *condensed.account.folded)
    return {at for first, last in runs for at in range(first, last + 1)}


def test_a_larger_budget_adds_the_same_lines_to_an_outline() -> None:
    """The generic reader chose other lines for each budget."""
    names = ["".join(chr(97 + at * step % 26) for step in (1, 3, 7, 11, 17)) for at in range(130)]
    text = "\n".join(
        f"-[ RECORD {at + 1} ]------\nward  | {'abcd'[at % 4]}ology\npatient | {name}\ntemperature | {36 + at % 20 / 10}\n"
        f"remark | {'checked by the night shift' if at % 3 else 'runs on the spare line'}\nroom | {at % 17}"
        for at, name in enumerate(names)
    )
    before: set[int] = set()
    for budget in (500, 1000, 2000):
        now = _account_of(condense_structurally(text, budget, "Is there a patient with a strange temperature?"))
        assert before - now == set(), budget
        before = now


def test_records_that_are_only_names_are_chosen_at_every_budget() -> None:
    """Of trees with more values than a limit that grows with the budget, smaller budgets did not consider them."""
    names = [f"module-{at * 7919:07}" for at in range(700)]
    parts = "".join(f"<part><name>{name}</name><version>1.{at}</version></part>" for at, name in enumerate(names))
    links = "".join(f"<link><ref>{name}</ref></link>" for name in names)
    text = f"<bom><parts>{parts}</parts><links>{links}</links></bom>"
    readings = [xml_documents.read(text, Focus.parse(f"Which version has {names[31]}?"), at) for at in (500, 2000)]
    assert all(reading is not None for reading in readings)
    shown = [{unit.text for unit in reading.units if names[31] in unit.text} for reading in readings if reading]
    assert shown[0] == shown[1]
    assert len(shown[0]) == 2


def test_openings_of_blocks_gain_at_every_budget_or_at_none() -> None:
    """At the larger budget an index of all blocks displaced lines that the smaller one shows."""
    names = ["".join(chr(97 + at * step % 26) for step in (1, 3, 7, 11, 17)) for at in range(40)]
    text = "\n\n".join(
        f"goroutine {at} [{'select' if at % 4 else 'IO wait'}]:\n{name}.loop({at * 7919:#x})\n\t{name}/wait.go:{at}\n"
        f"created by {name[::-1]}.start"
        for at, name in enumerate(names)
    )
    readings = [line_records.read(text, Focus.parse("Which goroutines wait?"), at) for at in (500, 1000, 2000)]
    scores = [[unit.score for unit in reading.units] for reading in readings if reading is not None]
    assert len(scores) == 3
    assert scores[0] == scores[1] == scores[2]
