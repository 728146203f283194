"""Conclusions over all records: how many, are there others, is it the only one, none.

The records are generated, with planted answers, and written in every form that records have.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random

import pytest

from tersely.condensing.structural import condense_structurally

Record = dict[str, object]


def jobs(seed: int, count: int = 150) -> tuple[list[Record], list[str]]:
    """Jobs: seven failed, two stalled, one in another region, one very slow; and the names of these, in this order."""
    draw = Random(seed)
    made: list[Record] = [
        {
            "job": f"{draw.choice(['sync', 'purge', 'mail', 'index'])}-{draw.randrange(16**5):05x}",
            "queue": draw.choice(["fast", "slow", "bulk"]),
            "status": "succeeded",
            "attempts": 1 + draw.randrange(3),
            "region": draw.choice(["eu-west", "us-east"]),
            "encrypted": "yes",
            "seconds": round(draw.uniform(1, 30), 1),
            "worker": f"worker-{draw.randrange(9)}",
        }
        for _ in range(count)
    ]
    planted = draw.sample(range(count), 11)
    for at in planted[:7]:
        made[at]["status"] = "failed"
    for at in planted[7:9]:
        made[at]["status"] = "stalled"
    made[planted[9]]["region"] = "ap-south"
    made[planted[10]]["seconds"] = 911.4
    return made, [str(made[at]["job"]) for at in planted]


def pods(seed: int, count: int = 70) -> tuple[list[Record], list[str]]:
    """Pods: one failed, two pending, one with another limit; and the names of these, in this order."""
    draw = Random(seed)
    made: list[Record] = []
    for at in range(count):
        name = f"{draw.choice(['web', 'cart', 'pay', 'mail'])}-{draw.randrange(16**6):06x}"
        made.append(
            {
                "metadata": {"name": name, "namespace": draw.choice(["shop", "ops"])},
                "spec": {
                    "nodeName": f"node-{draw.randrange(6)}",
                    "serviceAccount": "default",
                    "limits": {"memory": draw.choice(["512Mi", "1Gi"])},
                },
                "status": {
                    "phase": "Running",
                    "restarts": draw.randrange(3),
                    "podIP": f"10.0.{at % 8}.{draw.randrange(250)}",
                },
            }
        )
    planted = draw.sample(range(count), 4)
    for at, status in zip(
        planted, ({"phase": "Failed", "restarts": 17}, {"phase": "Pending"}, {"phase": "Pending"}), strict=False
    ):
        made[at]["status"].update(status)  # type: ignore[attr-defined]
    made[planted[3]]["spec"]["limits"]["memory"] = "96Mi"  # type: ignore[index]
    return made, [str(made[at]["metadata"]["name"]) for at in planted]  # type: ignore[index]


def flat(record: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in record.items():
        found.update(flat(value) if isinstance(value, Mapping) else {key: str(value)})
    return found


def as_yaml(value: object, indent: int = 0) -> list[str]:
    pad = " " * indent
    lines: list[str] = []
    if isinstance(value, list):
        for item in value:
            first, *rest = as_yaml(item, indent + 2)
            lines += [f"{pad}- {first.lstrip()}", *rest]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            nested = isinstance(inner, Mapping)
            lines += [f"{pad}{key}:", *as_yaml(inner, indent + 2)] if nested else [f"{pad}{key}: {inner}"]
    return lines


def as_table(records: list[Record]) -> str:
    rows = [flat(record) for record in records]
    widths = {key: max(len(key), *(len(row[key]) for row in rows)) + 2 for key in rows[0]}
    header = "".join(f"{key.upper():<{width}}" for key, width in widths.items())
    return "\n".join(
        [header.rstrip(), *("".join(f"{row[key]:<{widths[key]}}" for key in row).rstrip() for row in rows)]
    )


def as_csv(records: list[Record]) -> str:
    rows = [flat(record) for record in records]
    return "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)])


def as_pairs(records: list[Record]) -> list[str]:
    return [" ".join(f"{key}={value}" for key, value in flat(record).items()) for record in records]


def as_log(records: list[Record]) -> str:
    return "\n".join(
        f"2026-11-15T08:{at // 60:02}:{at % 60:02}Z info reported {pairs}" for at, pairs in enumerate(as_pairs(records))
    )


def as_blocks(records: list[Record]) -> str:
    return "\n\n".join(
        "\n".join(f"{key.capitalize() + ':':<16}{value}" for key, value in flat(record).items()) for record in records
    )


def as_xml(records: list[Record]) -> str:
    items = (
        "\n".join(["  <item>", *(f"    <{key}>{value}</{key}>" for key, value in flat(record).items()), "  </item>"])
        for record in records
    )
    return "\n".join(["<list>", *items, "</list>"])


FORMS: dict[str, Callable[[list[Record]], str]] = {
    "json": lambda records: json.dumps(records, indent=2),
    "json in one line": lambda records: json.dumps({"items": records}),
    "json lines": lambda records: "\n".join(map(json.dumps, records)),
    "yaml": lambda records: "\n".join(as_yaml(records)),
    "table": as_table,
    "csv": as_csv,
    "log": as_log,
    "pairs": lambda records: "\n".join(as_pairs(records)),
    "blocks": as_blocks,
    "xml": as_xml,
}


def concludes(shown: str, value: str, times: int) -> bool:
    """Whether the text states that exactly so many records have a value."""
    exact = re.escape(value)
    return bool(
        re.search(rf"(?<![\w.-]){exact} ×{times}(?!\d)", shown)
        or re.search(rf"(?<!\d){times} with \S+?={exact}(?![\w.-])", shown)
        or re.search(rf"\[all {times} [^\]]*: {exact}\b", shown)
        or re.search(rf"^{times} \w+; (?:.*; )?all: (?:.*, )?\w+={exact}\b", shown, re.M)
    )


JOBS, UNUSUAL_JOBS = jobs(3)
PODS, UNUSUAL_PODS = pods(4)
ON_NODE = Counter(flat(pod)["nodeName"] for pod in PODS)["node-3"]
PHASES = {"Failed": 1, "Pending": 2, "Running": 67}
STATES = {"succeeded": 141, "failed": 7, "stalled": 2}
Case = tuple[list[Record], str, dict[str, int], list[str]]
CASES: list[Case] = [
    (JOBS, "How many jobs failed?", {"failed": 7}, []),
    (JOBS, "How many jobs have the status failed?", {"failed": 7}, []),
    (JOBS, f"Are there other failed jobs besides {UNUSUAL_JOBS[0]}?", {"failed": 7}, UNUSUAL_JOBS[:1]),
    (JOBS, f"Is {UNUSUAL_JOBS[9]} the only job in ap-south?", {"ap-south": 1}, [UNUSUAL_JOBS[9]]),
    (JOBS, "Is any job not encrypted?", {"yes": 150}, []),
    (JOBS, "Which jobs are cancelled?", STATES, []),
    (JOBS, "Which jobs have the status cancelled?", STATES, []),
    (JOBS, "What went wrong?", {"failed": 7, "stalled": 2}, []),
    (JOBS, "Which jobs are unhealthy?", {"failed": 7, "stalled": 2}, []),
    (JOBS, "Which job took longest?", {"911.4": 1}, [UNUSUAL_JOBS[10]]),
    (JOBS, "", {**STATES, "ap-south": 1}, []),
    (PODS, "Which pod failed?", {"Failed": 1, "Running": 67}, UNUSUAL_PODS[:1]),
    (PODS, "which pod is not running", PHASES, UNUSUAL_PODS[:3]),
    (PODS, "Why is the shop down?", {"Failed": 1, "Pending": 2}, UNUSUAL_PODS[:1]),
    (PODS, "Are all pods healthy?", PHASES, UNUSUAL_PODS[:1]),
    (PODS, "Does any pod have another memory limit than the others?", {"96Mi": 1}, [UNUSUAL_PODS[3]]),
    (PODS, "How many pods are pending?", {"Pending": 2}, []),
    (PODS, "How many pods run on node-3?", {"node-3": ON_NODE}, []),
    (PODS, "Are there pods in the phase Unknown?", PHASES, []),
    (PODS, "", {**PHASES, "96Mi": 1}, UNUSUAL_PODS[:1]),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("records", "question", "counts", "names"), CASES, ids=[case[1] or "-" for case in CASES])
def test_a_conclusion_about_all_records_is_stated(
    form: str,
    records: list[Record],
    question: str,
    counts: dict[str, int],
    names: list[str],
) -> None:
    shown = condense_structurally(FORMS[form](records), 500, question).text
    assert [value for value, times in counts.items() if not concludes(shown, value, times)] == []
    assert [name for name in names if name not in shown] == []


@pytest.mark.parametrize("form", ["json lines", "table", "csv", "log", "pairs"])
@pytest.mark.parametrize(("records", "question", "counts", "names"), CASES, ids=[case[1] or "-" for case in CASES])
def test_a_conclusion_about_all_records_is_stated_for_sections_too(
    form: str,
    records: list[Record],
    question: str,
    counts: dict[str, int],
    names: list[str],
) -> None:
    text = FORMS[form](records)
    shown = condense_structurally(text, 500, question, section=len(text) // 3).text
    assert [value for value, times in counts.items() if not concludes(shown, value, times)] == []
    assert [name for name in names if name not in shown] == []


@pytest.mark.parametrize("form", ["json", "json in one line", "yaml", "xml", "blocks"])
def test_an_ordinary_record_is_a_pattern_and_others_are_not_named_in_crumbs(form: str) -> None:
    """Before, 14 to 20 ordinary pods were named, most with a single value."""
    shown = condense_structurally(FORMS[form](PODS), 500, "Which pod failed?").text
    named = [pod for pod in PODS if str(pod["metadata"]["name"]) in shown]  # type: ignore[index]
    ordinary = next(pod for pod in named if str(pod["metadata"]["name"]) not in UNUSUAL_PODS)  # type: ignore[index]
    assert len(named) <= 11
    assert [value for value in flat(ordinary).values() if value not in shown] == []


def ordinary_pods(count: int = 200) -> list[Record]:
    """Pods that differ in nothing but their names, identifiers, places and images."""
    draw = Random(5)
    made: list[Record] = []
    for _ in range(count):
        app = draw.choice(["web", "cart", "pay", "mail"])
        name = f"{app}-{draw.randrange(16**10):010x}"
        made.append(
            {
                "kind": "Pod",
                "metadata": {"name": name, "uid": f"{draw.randrange(16**32):032x}"},
                "spec": {"nodeName": f"node-{draw.randrange(12)}", "containers": [{"name": app, "cpu": "500m"}]},
                "status": {"phase": "Running", "podIP": f"10.1.{draw.randrange(250)}.{draw.randrange(250)}"},
            }
        )
    return made


def test_the_field_of_a_named_value_is_counted_even_if_it_has_many_values() -> None:
    """Before, twelve nodes were too many for counts, and nothing said whether the shown pods were all on this one."""
    pods = ordinary_pods()
    shown = condense_structurally(json.dumps(pods), 1_000, "Which pods run on node-3?").text
    on_node = [pod for pod in pods if pod["spec"]["nodeName"] == "node-3"]  # type: ignore[index]
    assert f"node-3 ×{len(on_node)}," in shown
    assert [pod for pod in on_node if str(pod["metadata"]["name"]) not in shown] == []  # type: ignore[index]


def test_items_of_lists_with_one_item_each_are_counted_together() -> None:
    """Before, the containers of each name were counted apart, in ten lines."""
    shown = condense_structurally(json.dumps(ordinary_pods()), 1_000).text
    assert "[all 200 records.spec.containers: cpu: 500m]" in shown or "[all 200 spec.containers: cpu: 500m]" in shown


def test_ordinary_records_after_two_examples_are_named_and_counted() -> None:
    """Before, ten ordinary records filled the budget with values of their own."""
    pods = ordinary_pods()
    shown = condense_structurally(json.dumps(pods), 2_000).text
    assert sum(str(pod["metadata"]["name"]) in shown for pod in pods) >= 40  # type: ignore[index]
    assert sum(str(pod["status"]["podIP"]) in shown for pod in pods) <= 3  # type: ignore[index]


def test_a_word_of_severity_that_many_records_have_is_shown_twice_and_counted() -> None:
    """Before, each job in the queue `slow` took part of the room, a third of all."""
    made, unusual = jobs(3, 300)
    shown = condense_structurally(json.dumps(made), 1_000, "How many jobs failed?").text
    lines = [line for line in shown.split("\n") if line.startswith("- job:") and "queue: slow" in line]
    assert len([line for line in lines if not any(name in line for name in unusual)]) <= 6
    assert re.search(r"queue: .*slow ×\d+", shown)


@pytest.mark.parametrize("form", ["csv", "table", "json lines", "log"])
@pytest.mark.parametrize(
    ("question", "count"),
    [("How many hosts belong to the owner owner27x?", "owner27x ×6"), ("How many hosts have no owner?", "- ×4")],
)
def test_a_value_that_the_question_means_is_counted_among_many(form: str, question: str, count: str) -> None:
    rows = [
        (f"host-{at * 7919 % 65537:05x}", "-" if at % 60 == 7 else f"owner{at * 13 % 40:02}x", 10 + at * 37 % 900)
        for at in range(240)
    ]
    texts = {
        "csv": "name,owner,size\n" + "\n".join(f"{name},{owner},{size}" for name, owner, size in rows),
        "table": "NAME        OWNER     SIZE\n" + "\n".join(f"{name}  {owner:8}  {size}" for name, owner, size in rows),
        "json lines": "\n".join(json.dumps({"name": name, "owner": owner, "size": size}) for name, owner, size in rows),
        "log": "\n".join(
            f"2026-11-16T10:{at // 60:02}:{at % 60:02}Z INFO checked name={name} owner={owner} size={size}"
            for at, (name, owner, size) in enumerate(rows)
        ),
    }
    assert count in condense_structurally(texts[form], 500, question).text
