"""Very long texts are read in sections; what is said about them is about all of the text, or says about what."""

import json
from collections.abc import Callable

import pytest

from bench.truth import Text, findings_in
from tersely.condensing.sections import sections_of
from tersely.condensing.structural import LARGEST_TREE, SMALLEST_LONG, condense_structurally

LINES = 900
ODD = LINES // 2 + 7
FOCUS = "Which one failed?"


def log() -> str:
    def message(at: int) -> str:
        if at == ODD:
            return f"ERROR payment of order {at} failed: card declined"
        return f"INFO {('GET /orders took %d ms', 'worker took job %d', 'cache of %d entries refreshed')[at % 3] % at}"

    return "".join(f"2026-11-16T10:{at // 60:02d}:{at % 60:02d}Z {message(at)}\n" for at in range(LINES))


def json_lines() -> str:
    return "".join(
        json.dumps({"time": f"2026-11-16T10:{at // 60:02d}:{at % 60:02d}Z", "level": "error" if at == ODD else "info",
                    "msg": "job failed: disk full" if at == ODD else "job done", "job": at}) + "\n"
        for at in range(LINES)
    )  # fmt: skip


def csv() -> str:
    rows = (
        f"{at},{('eu', 'us', 'ap')[at % 3]},{'failed' if at == ODD else 'ok'},{at % 500 + 1}" for at in range(LINES)
    )
    return "\n".join(["id,region,state,amount", *rows])


def table() -> str:
    rows = (f"pod-{at:05d}   1/1    {'Failed ' if at == ODD else 'Running'}  {at % 3}\n" for at in range(LINES))
    return "".join(["NAME        READY  STATUS   RESTARTS\n", *rows])


def settings() -> str:
    return "".join(f"host=web-{at} zone=z{at % 3} state={'failed' if at == ODD else 'up'}\n" for at in range(LINES))


def blocks() -> str:
    def message(at: int) -> str:
        return (
            f"payment of order {at} failed: card declined" if at == ODD else f"payment of order {at} was booked today"
        )

    return "".join(
        f"Event: {at}\nWhen: 2026-11-16 10:{at // 60:02d}:{at % 60:02d}\nLevel: {'ERROR' if at == ODD else 'INFO'}\n"
        f"Text: {message(at)}\n\n"
        for at in range(LINES)
    )


@pytest.mark.parametrize(
    ("text", "said", "shown"),
    [
        (log, "900 lines; 2026-11-16T10:00:00Z – 2026-11-16T10:14:59Z; INFO 899 ERROR 1;", f"order {ODD} failed"),
        (log, "GET /orders took 0 ms ×300 [10:00:00–10:14:57]", "card declined"),
        (json_lines, "; info 899 error 1; ", "disk full"),
        (json_lines, "; 899 with level=info", "disk full"),
        (json_lines, "job done ×899", "disk full"),
        (csv, "[900 rows; state: failed ×1, ok ×899]", f"{ODD},us,failed"),
        (table, "[900 rows; STATUS: Failed ×1, Running ×899]", f"pod-{ODD:05d} 1/1 Failed"),
        (blocks, "900 entries; 2026-11-16 10:00:00 – 2026-11-16 10:14:59; INFO 899 ERROR 1",
         f"\n Level: ERROR\n Text: payment of order {ODD} failed"),
        (settings, "state: failed ×1, up ×899", f"host=web-{ODD}"),
    ],
)  # fmt: skip
def test_sections_of_lines_are_counted_together(text: Callable[[], str], said: str, shown: str) -> None:
    whole = text()
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    assert said in condensed.text
    assert shown in condensed.text
    assert "[from part" not in condensed.text
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 400))


def test_rows_of_all_sections_stand_below_one_header() -> None:
    whole = table()
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    assert condensed.text.count("NAME READY STATUS RESTARTS") == 1
    assert "[900 rows; STATUS: Failed ×1, Running ×899]" in condensed.text and not condensed.account.lost


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("after", [{}, {"next": {"page": [{"at": 2}]}}], ids=["", "more"])
def test_the_records_of_a_list_are_counted_in_all_sections(indent: int | None, after: dict[str, object]) -> None:
    pods = [{"name": f"pod-{at}", "phase": "Failed" if at == ODD else "Running", "region": "eu",
             "containers": [{"image": "}],[{", "ready": at != 7}] * 2} for at in range(LINES)]  # fmt: skip
    whole = json.dumps({"kind": "List", "items": pods, **after}, indent=indent)
    condensed = condense_structurally(whole, 500, FOCUS, section=len(whole) // 5)
    head, *parts = condensed.text.split("[from part ")
    assert "[900 items; phase: Failed ×1, Running ×899]" in head
    assert "[1800 items.containers; ready: true ×1798, false ×2]" in head
    assert "[all 900 items: region: eu]" in head
    assert "; phase: " not in "".join(parts), "a count that is not about everything"
    assert f"pod-{ODD}" in condensed.text.rpartition("phase: Failed")[0].rpartition("[from part ")[2]
    assert condensed.tokens_after <= 500
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 500))


@pytest.mark.parametrize("indent", [None, 1])
def test_records_below_their_names_are_counted_in_all_sections(indent: int | None) -> None:
    pods = {f"pod-{at}": {"phase": "Failed" if at == ODD else "Running"} for at in range(LINES)}
    whole = json.dumps({"pods": pods}, indent=indent)
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    assert condensed.text.startswith("[900 pods; phase: Failed ×1, Running ×899]")
    assert f"pod-{ODD}: phase: Failed" in condensed.text
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 400))


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("end", ["the list", "a record"])
def test_the_records_of_a_list_that_breaks_off_are_counted_in_all_sections(indent: int | None, end: str) -> None:
    pods = [{"name": f"pod-{at}", "phase": "Failed" if at == ODD else "Running"} for at in range(LINES)]
    whole = json.dumps({"items": pods}, indent=indent).rstrip("]}\n ") + "}"
    if end == "a record":
        whole = whole[: whole.rindex(",")]  # Its last record has a name and no phase.
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    counts = "Running ×899" if end == "the list" else "Running ×898, absent ×1"
    assert condensed.text.startswith(f"[900 items; phase: Failed ×1, {counts}]")
    found = condensed.text.split(f"pod-{ODD}")[0].rpartition("[from part ")[2]
    assert found.startswith("3 of 5") and "; phase: " not in found, "a count that is not about everything"
    assert "phase: Failed" in condensed.text.split(f"pod-{ODD}")[1]
    assert condensed.tokens_after <= 400
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 400))


def test_documents_of_yaml_are_counted_in_all_sections() -> None:
    whole = "---\n".join(
        f"kind: Pod\nmetadata:\n  name: pod-{at}\n  labels:\n    app: web-{at % 40}\nstatus:\n"
        f"  phase: {'Failed' if at == ODD else 'Running'}\n"
        for at in range(LINES)
    )
    condensed = condense_structurally(whole, 500, FOCUS, section=len(whole) // 5)
    head, *parts = condensed.text.split("[from part ")
    assert "[900 records; status.phase: Failed ×1, Running ×899]" in head
    assert parts and "; status.phase: " not in "".join(parts), "a count that is not about everything"
    assert f"pod-{ODD}" in condensed.text
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 500))


def test_lists_in_a_list_are_records() -> None:
    whole = json.dumps({"unit": "ms", "values": [[1_700_000_000 + at, at % 50] for at in range(4 * LINES)]})
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    assert "unit: ms, values: 720 values, first 0 @1700000000, last 19 @1700000719" in condensed.text
    assert "721 values, first 20 @1700000720" in condensed.text, "no pair is cut"
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 400))


def test_many_titles_do_not_split_the_sections() -> None:
    def step(at: int) -> str:
        lines = (
            f"2026-11-16T10:{at % 60:02d}:{second:02d}Z {'ERROR disk full' if at == 40 and second == 7 else 'INFO job done'}"
            for second in range(20)
        )
        return "\n".join([f"$ run step-{at}", *lines, ""])

    whole = "".join(map(step, range(70)))
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    assert condensed.kind == condense_structurally(whole, 400, FOCUS).kind == "log"
    assert "[from part" not in condensed.text
    assert "disk full" in condensed.text
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 400))


def test_a_tree_of_very_many_values_is_read_in_sections() -> None:
    record = '{"a":1,"b":2,"c":"%s"}'
    size = LARGEST_TREE // 2
    whole = "[" + ",".join(record % ("bad" if at == size // 2 else "ok") for at in range(size)) + "]"
    assert len(whole) > SMALLEST_LONG
    condensed = condense_structurally(whole, 200, FOCUS)
    assert f"[{size} records; c: ok ×{size - 1}, bad ×1]" in condensed.text
    assert "[from part " in condensed.text


def test_a_reason_that_one_record_has_is_shown_with_it() -> None:
    pods: list[dict[str, object]] = [
        {"name": f"pod-{at}", "phase": "Running", "restarts": at % 4, "ms": at * 37 % 991} for at in range(LINES)
    ]
    pods[ODD] |= {"phase": "CrashLoopBackOff", "restarts": 412, "reason": "OOMKilled: it exceeded its memory limit"}
    whole = json.dumps({"items": pods}, indent=1)
    condensed = condense_structurally(whole, 400, "Is any pod crashing, and why?", section=len(whole) // 5)
    assert "[from part " in condensed.text
    assert f"pod-{ODD}" in condensed.text
    assert "OOMKilled: it exceeded its memory limit" in condensed.text


def test_a_section_that_cannot_be_added_up_has_a_title() -> None:
    pods = [{"name": f"pod-{at}", "phase": "Failed" if at == ODD else "Running"} for at in range(LINES)]
    lines = json.dumps({"items": pods}, indent=1).split("\n")
    lines.insert(len(lines) // 3, ' "an unclosed string')  # So nothing says where the list ends.
    whole = "\n".join(lines)
    condensed = condense_structurally(whole, 400, FOCUS, section=len(whole) // 5)
    assert "phase: Failed" in condensed.text
    assert "[from part 3 of 5: lines " in condensed.text
    assert not condensed.text.startswith("[900 ")
    assert condensed.tokens_after <= 400
    assert not list(findings_in(Text("sections", whole, FOCUS, len(whole) // 5), 400))


def test_sections_with_other_levels_have_heads_of_their_own() -> None:
    lines = [f"2026-11-16T10:{at // 60:02d}:{at % 60:02d}Z {'INFO' if at < 450 else 'WARN'} step {at} of the migration done"
             for at in range(LINES)]  # fmt: skip
    whole = "\n".join(lines)
    condensed = condense_structurally(whole, 400, "", section=len(whole) // 4)
    assert condensed.text.startswith("900 lines; 2026-11-16T10:00:00Z – 2026-11-16T10:14:59Z; INFO 450 WARN 450")
    assert "[from part 1 of 4: lines 1–" in condensed.text
    assert not list(findings_in(Text("sections", whole, "", len(whole) // 4), 400))


@pytest.mark.parametrize("indent", [None, 1])
def test_no_part_of_a_long_tree_begins_within_a_record(indent: int | None) -> None:
    """A short list of the first record is no list to cut, and what follows a list is a document of its own."""
    records = [
        {"tags": [{"k": key, "v": at} for key in ("a", "b", "c")], "name": f"n{at}", "values": list(range(at % 90))}
        for at in range(80)
    ]
    after_text = {"log": "word " * 4_000, "records": records}
    two_lists = {"first": {"records": records}, "second": records, "end": "of the document"}
    for tree in (after_text, two_lists):
        text = json.dumps(tree, indent=indent)
        sections = list(sections_of(text, len(text) // 3, "json"))
        assert "".join(section.text for section in sections) == text
        assert not any(section.text.lstrip().startswith((",", "]", "}")) for section in sections)
        assert all(section.records for section in sections[:-1])
    assert json.loads(sections[-1].opening + sections[-1].text)["end"] == "of the document"
