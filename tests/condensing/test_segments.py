"""Mixed texts come apart where they say so, and nowhere else."""

import json

from tersely.condensing.segments import parts_of

RECORDS = json.dumps([{"name": f"web-{number}", "state": "ok"} for number in range(30)], indent=1)


def test_outputs_of_several_commands_are_parts_with_their_titles() -> None:
    text = (
        "$ kubectl get pods\nNAME   READY\na-1    1/1\nb-2    1/1\nc-3    0/1\n$ cat app.log\n"
        + "2025-01-01 10:00:00 INFO ok\n" * 5
    )
    parts = parts_of(text)
    assert [(part.title, part.kind) for part in parts] == [("$ kubectl get pods", "table"), ("$ cat app.log", "log")]
    assert [part.line for part in parts] == [2, 7]


def test_json_stands_apart_from_the_sentence_before_and_the_errors_after() -> None:
    parts = parts_of(f"Here is what the tool returned:\n{RECORDS}\nwarning: the connection was slow\n")
    assert [part.kind for part in parts][1] == "json"
    assert parts[1].text.strip() == RECORDS
    assert parts[2].text.strip() == "warning: the connection was slow"
    assert parts[1].line == 2


def test_a_section_name_of_digits_is_no_json() -> None:
    text = "".join(f"[{1694831 + number}]\nWEIGHT: {number}\nDEPOT: north\n\n" for number in range(6))
    assert [part.kind for part in parts_of(text)] == ["outline"]


def test_a_text_of_one_kind_is_one_part() -> None:
    assert len(parts_of("2025-01-01 10:00:00 INFO ok\n" * 50)) == 1
    assert parts_of("") == []


def test_a_page_is_handed_to_its_reader_whole() -> None:
    """Cut at headings that look like titles, its second half would be taken for the body of another page."""
    page = "\n\n".join(
        (
            f"## step {number}\n\nThe [manual](https://example.org/{number}) says that the valve has to be closed "
            "before "
            "the tank is opened."
        )
        for number in range(12)
    )
    assert [part.kind for part in parts_of(page)] == ["page"]


def test_sections_of_one_text_are_no_outputs_of_several_commands() -> None:
    """Read one by one, a word that is common in the text would look rare in each section."""
    sections = ("NETWORK", "GENERAL", "SNAPSHOTTING", "REPLICATION", "SECURITY", "LIMITS")
    text = "\n\n".join(
        f"################ {name} ################\n\n"
        + "\n".join(
            f"# The value {n} of this part is used when nothing else was said.\noption{n} {n}" for n in range(9)
        )
        for name in sections
    )
    assert [part.kind for part in parts_of(text)] == ["config"]


def test_the_place_of_a_finding_is_no_prompt() -> None:
    text = "\n\n".join(
        f"D100 Missing docstring in module {n}\n--> app/part{n}.py:1:1\n  |\n1 | import os" for n in range(9)
    )
    assert len(parts_of(text)) == 1
