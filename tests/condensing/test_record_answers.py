"""Records that answer a question: complete, identified, and counted, in JSON, YAML, tables and JSON lines."""

import json
from random import Random

import pytest

from tersely import condense
from tersely.condensing.structural import condense_structurally
from tersely.errors import InputError

RULES = {
    "S307": "Use of possibly insecure function; consider a literal parser",
    "PLR2004": "Magic value used in comparison",
    "PLC0415": "Import should be at the top-level of a file",
    "S110": "Exception is caught and passed over, consider logging it",
}


def findings(count: int = 160, planted: int = 97) -> str:
    """Findings in the manner of SARIF: the message of a result is far from its file and line."""
    draw = Random(14)
    results = []
    for number in range(count):
        rule = "S307" if number == planted else draw.choice(["PLR2004", "PLC0415", "S110"])
        place = {
            "artifactLocation": {"uri": f"file:///srv/app/lib/module_{number % 23}/part_{number}.py"},
            "region": {"startLine": 1000 + number, "startColumn": draw.randrange(1, 60)},
        }
        results.append(
            {
                "level": "error",
                "locations": [{"physicalLocation": place}],
                "message": {"text": RULES[rule]},
                "ruleId": rule,
            }
        )
    return json.dumps({"version": "2.1.0", "runs": [{"results": results}]}, indent=1)


def test_a_finding_that_answers_is_shown_with_its_place() -> None:
    for budget in (500, 1000, 2000):
        text = condense_structurally(findings(), budget, "Is an insecure function used, and where?").text
        assert "module_5/part_97.py" in text
        assert "startLine: 1097" in text


def test_a_record_that_refers_to_the_answer_is_shown_with_it() -> None:
    rules = [{"id": f"R{number:03}", "text": f"Check number {number} of the style guide"} for number in range(60)]
    rules[31]["text"] = "Pseudo-random generators are not suitable for cryptography"
    results = [
        {"rule": f"R{number % 30:03}", "where": {"file": f"src/part_{number}.c", "line": 7 * number}}
        for number in range(200)
    ]
    results[150]["rule"] = "R031"
    text = condense_structurally(
        json.dumps({"rules": rules, "results": results}), 500, "Where are pseudo-random generators used?"
    ).text
    assert "src/part_150.c" in text
    assert "line: 1050" in text


def orders(count: int = 180) -> list[dict[str, object]]:
    """Ordinary orders with planted answers: seven pending, one in Porto, one very slow, two without an owner."""
    draw = Random(3)
    made: list[dict[str, object]] = []
    for number in range(count):
        order: dict[str, object] = {
            "id": f"order-{number:04}",
            "state": "paid",
            "city": draw.choice(["Bonn", "Ghent", "Turku"]),
            "duration_ms": draw.randrange(3, 20),
            "encrypted": True,
            "owner": draw.choice(["shop", "web", "app"]),
            "note": f"delivered by carrier {draw.randrange(10_000)}",
        }
        made.append(order)
    for at in (7, 20, 33, 61, 90, 120, 155):
        made[at]["state"] = "pending"
    made[44]["city"] = "Porto"
    made[101]["duration_ms"] = 8412
    del made[66]["owner"], made[140]["owner"]
    return made


def as_csv(records: list[dict[str, object]]) -> str:
    keys = list(records[0])
    return "\n".join([",".join(keys), *(",".join(str(record.get(key, "")) for key in keys) for record in records)])


def as_yaml(records: list[dict[str, object]]) -> str:
    return "\n".join(
        ("- " if at == 0 else "  ") + f"{key}: {str(value).lower() if value is True else value}"
        for record in records
        for at, (key, value) in enumerate(record.items())
    )


def told(form: str, question: str, budget: int = 500) -> str:
    """The condensed orders in one of their forms, without the line that lists what is left out."""
    made = orders()
    text = {
        "json": lambda: json.dumps(made, indent=1),
        "json lines": lambda: "\n".join(map(json.dumps, made)),
        "yaml": lambda: as_yaml(made),
        "csv": lambda: as_csv(made),
    }[form]()
    shown = condense_structurally(text, budget, question).text
    return "\n".join(line for line in shown.split("\n") if not line.startswith("[left out"))


FORMS = pytest.mark.parametrize("form", ["json", "json lines", "yaml", "csv"])


@FORMS
def test_how_many_is_answered_exactly(form: str) -> None:
    assert "state: pending ×7, paid ×173" in told(form, "How many orders have the state pending?")


@FORMS
def test_the_only_one_is_known_to_be_the_only_one(form: str) -> None:
    shown = told(form, "Is order-0044 the only one with the city Porto?")
    assert "Porto ×1" in shown
    assert "order-0044" in shown


@FORMS
def test_others_of_the_same_kind_are_counted(form: str) -> None:
    assert "×7" in told(form, "Are there other orders with state pending besides order-0007?")


@FORMS
def test_none_is_known_to_be_none(form: str) -> None:
    shown = told(form, "Which orders are not encrypted?")
    everything = {"json lines": "encrypted=true", "csv": "encrypted: True ×180"}
    assert everything.get(form, "encrypted: true") in shown
    assert "false" not in shown.lower()


@FORMS
def test_the_range_of_a_measure_names_its_outlier(form: str) -> None:
    shown = told(form, "Which order was slowest?")
    assert "8412" in shown
    assert "order-0101" in shown


@FORMS
def test_a_range_covers_all_records(form: str) -> None:
    shown = told(form, "What is the duration_ms of the orders?")
    assert "8412 ×1" in shown


@FORMS
def test_records_without_a_value_are_found_and_counted(form: str) -> None:
    shown = told(form, "Which orders have no owner?")
    assert "order-0066" in shown
    assert "order-0140" in shown
    assert ("absent ×2" if form != "csv" else '"" ×2') in shown


@FORMS
def test_without_a_question_the_fields_that_vary_are_counted(form: str) -> None:
    assert ("paid ×173, pending ×7" if form != "json lines" else "173 with state=paid") in told(form, "")


@pytest.mark.parametrize("value", [0, False, "", None])
@pytest.mark.parametrize("lines", [False, True])
def test_values_that_look_like_nothing_are_shown(value: object, lines: bool) -> None:
    hosts = [{"name": f"host-{at}", "note": f"in rack {at}", "quota": 10 + at % 5} for at in range(120)]
    hosts[70]["quota"] = value
    text = "\n".join(map(json.dumps, hosts)) if lines else json.dumps(hosts, indent=1)
    shown = condense_structurally(text, 300, "What is the quota of host-70?").text
    spelled = json.dumps(value)
    assert f"quota={spelled}" in shown if lines else f"quota: {spelled}" in shown


def test_values_are_condensed_like_their_json() -> None:
    hosts = {"hosts": [{"name": f"host-{at}", "up": True, "load": at / 7, "note": None} for at in range(200)]}
    assert (
        condense(hosts, 300, "load of host-70").text
        == condense(json.dumps(hosts, indent=1), 300, "load of host-70").text
    )
    assert condense([1, False, None]).text == "[\n 1,\n false,\n null\n]"
    assert condense({}).text == "{}"


@pytest.mark.parametrize(
    "value", [{"at": object()}, {1, 2}, {"at": b"bytes"}, {("a", "b"): 1}], ids=["object", "set", "bytes", "pair"]
)
def test_other_values_are_refused_with_advice(value: object) -> None:
    with pytest.raises(InputError, match="default=str"):
        condense(value)


def test_entries_of_a_list_that_look_like_fields_are_not_counted_as_absent() -> None:
    teams = (
        "England",
        "Ukraine",
        "Spain",
        "France",
        "Turkey",
        "Russia",
        "Italy",
        "Wales",
        "Poland",
        "Sweden",
        "Austria",
    )
    entries = [f"* {team} (Group {'ABFHJE'[at % 6]}): {at + 3}th appearance" for at, team in enumerate(teams * 2)]
    text = "\n".join(["### There's still a chance for these teams", "**Path C**: Scotland, Norway, Serbia", "",
                      "### Qualified teams", *(f"{entry} in year {at}" for at, entry in enumerate(entries)),
                      "CBS Sports Writer"])  # fmt: skip
    assert "absent" not in condense_structurally(text, 300, "Which teams had an appearance?").text


def _machines(count: int = 60) -> list[dict[str, object]]:
    return [
        {
            "id": f"i-{number * 7919:08x}",
            "type": "small",
            "started": f"2025-02-{number % 27 + 1:02}T08:00:00Z" if number != 31 else "2018-06-01T08:00:00Z",
            "tags": {"owner": f"team {number % 5}", "room": f"room {number}"},
            "balance": -12.5 if number == 44 else round(number * 1.7 + 3, 1),
            "took": {"time": 4123.5 if number == 12 else number % 9 + 1},
        }
        for number in range(count)
    ]


def test_the_record_with_the_extreme_value_is_shown_with_its_other_fields() -> None:
    text = condense_structurally(json.dumps({"machines": _machines()}), 300, "Which machine is the oldest?").text
    record = text[text.index("2018-06-01") - 300 : text.index("2018-06-01") + 300]
    assert "room 31" in record


def test_a_date_is_no_duration() -> None:
    text = condense_structurally(json.dumps({"machines": _machines()}), 300, "Which machine was slowest?").text
    assert "4123.5" in text
    assert "room 12" in text


def test_negative_numbers_are_found_by_that_word() -> None:
    text = condense_structurally(json.dumps(_machines()), 300, "Which machine has a negative balance?").text
    assert "balance: -12.5" in text
    assert "room 44" in text


def test_values_of_short_lists_are_counted_by_their_position() -> None:
    samples = [{"metric": {"instance": f"10.0.0.{at}"}, "value": [17400, "0" if at == 23 else "1"]} for at in range(70)]
    text = condense_structurally(json.dumps({"result": samples}), 500, "How many instances are up?").text
    assert "value[1]: 1 ×69, 0 ×1" in text


def test_values_of_pairs_are_counted_by_their_name() -> None:
    records = [
        {"id": f"m-{at}", "tags": [{"Key": "Name", "Value": f"web-{at}"}, {"Key": "Team", "Value": "ab"[at % 2]}]}
        for at in range(60)
    ]
    text = condense_structurally(json.dumps(records), 500, "How many have the team a?").text
    assert "tags.Team: a ×30, b ×30" in text


def test_an_empty_key_is_shown() -> None:
    packages: dict[str, dict[str, object]] = {"": {"name": "shop", "private": True}}
    packages |= {f"modules/part-{at}": {"version": f"1.{at}"} for at in range(90)}
    text = condense_structurally(json.dumps({"packages": packages}, indent=1), 300, "Is the shop private?").text
    assert '"": name: shop' in text


def test_what_all_records_share_is_stated_whole_or_not_at_all() -> None:
    records = [
        {"id": at, "note": f"n{at}", **{f"setting {n}": f"the value {n} of the setting" for n in range(8)}}
        for at in range(30)
    ]
    for budget in range(60, 300, 5):
        for line in condense_structurally(json.dumps(records), budget).text.split("\n"):
            assert not line.startswith("[all ") or line.endswith("]")
