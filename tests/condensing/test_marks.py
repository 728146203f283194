"""What became of each line, as viewers are told: complete, exact and small."""

import json
import random

import pytest

from tersely.condensing.account import Account, size_of
from tersely.condensing.marks import account_of_result, cited_lines, decode_marks, encode_marks, summary_marks
from tersely.condensing.structural import condense_structurally

LOG = "".join(
    f"2026-11-16T06:{n // 60 % 60:02d}:{n % 60:02d}Z "
    + (f"ERROR pool exhausted (max=20, waiting={n})" if n % 701 == 3 else f"INFO refreshed feature flags in {n} ms")
    + "\n"
    for n in range(3_801)
)
PODS = {
    "kind": "List",
    "items": [
        {
            "metadata": {"name": f"web-{n}", "labels": {"app": "web"}},
            "status": {"ip": f"10.0.0.{n}", "phase": "Running"},
        }
        for n in range(200)
    ],
}


@pytest.mark.parametrize("text", [LOG, json.dumps(PODS), json.dumps(PODS, indent=2)], ids=["log", "json", "lines"])
def test_the_marks_are_the_account(text: str) -> None:
    condensed = condense_structurally(text, 300)
    found = decode_marks(encode_marks(condensed.account))
    for kind in ("shown", "partial", "folded", "lost"):
        assert tuple((one.first, one.last) for one in found.lines if one.kind == kind) == getattr(
            condensed.account, kind
        )
    assert found.values == condensed.account.places


def test_no_run_is_cut_and_the_marks_stay_small() -> None:
    order = random.Random(4)
    runs: dict[str, list[tuple[int, int]]] = {"shown": [], "folded": [], "lost": []}
    for line in range(1, 40_001, 2):
        runs[order.choice(["folded", "lost"])].append((line, line))
        runs["shown"].append((line + 1, line + 1))
    shown, folded, lost = (tuple(runs[kind]) for kind in ("shown", "folded", "lost"))
    account = Account(shown=shown, folded=folded, lost=lost, total=40_000)
    stored = encode_marks(account)
    assert len(decode_marks(stored).lines) == 40_000 and len(stored) < 20_000


def test_lost_values_of_json_on_one_line_are_named_by_place() -> None:
    condensed = condense_structurally(json.dumps(PODS), 400)
    places = decode_marks(encode_marks(condensed.account)).values
    lost = [leaf for place in places.lost for leaf in _leaves(PODS, place)]
    assert lost and len(lost) == condensed.account.values[0]
    # What is lost is not in the text; what is in the text is not lost.
    assert not [leaf for leaf in lost if f"{leaf}," in condensed.text or f"{leaf}\n" in condensed.text]


def _leaves(value: object, place: str) -> list[object]:
    nodes = [value]
    for part in place.split("."):
        spans = [[int(number) for number in span.split("-")] for span in part.split(",")]
        nodes = [
            child
            for node in nodes
            for span in spans
            for child in list(node.values() if isinstance(node, dict) else node)[span[0] : span[-1] + 1]  # type: ignore[call-overload]
        ]
    found: list[object] = []
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict | list):
            nodes.extend(node.values() if isinstance(node, dict) else node)
        else:
            found.append(node)
    return found


def test_a_summary_marks_the_lines_it_quotes_and_cites() -> None:
    source = "start\nERROR pool exhausted (max=20, waiting=143)\nlater\nlast\nplain words that nobody repeats\n"
    summary = 'The pool is full: "pool exhausted (max=20, waiting=143)", see lines 3 and 4.'
    kinds = {one.first: (one.last, one.kind) for one in summary_marks(source, summary).lines}
    assert kinds == {1: (1, "unused"), 2: (2, "quoted"), 3: (4, "cited"), 5: (5, "unused")}
    assert cited_lines("first line 2026-11-16T08:00:00Z, last line 08:16:59") == []
    assert cited_lines("lines 5013, 5014 and 7041-7050, L12") == [(5013, 5013), (5014, 5014), (7041, 7050), (12, 12)]


def test_what_is_left_out_is_named_by_kind() -> None:
    lines = LOG.split("\n")[:-1]
    account = Account(lost=((1, 1_000),), shown=((1_001, len(lines)),), total=len(lines))
    found = account_of_result(LOG, "", encode_marks(account), False)
    assert found.method == "structural" and found.counts == {"lost": 1_000, "shown": 2_801}
    assert (found.left_out[0].count, found.left_out[0].example) == (998, "refreshed feature flags in 0 ms")
    assert [one.example for one in found.left_out[1:]] == ["pool exhausted (max=20, waiting=3)"]
    assert size_of(account.lost) == sum(one.count for one in found.left_out)
