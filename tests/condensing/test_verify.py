"""Items of a summary that its source does not contain."""

import pytest

from tersely.condensing.summarize.verify import SourceFacts


def unsupported(summary: str, source: str, *known: str) -> list[str]:
    return list(SourceFacts(source, *known).check(summary).unsupported)


@pytest.mark.parametrize(
    ("summary", "source", "made_up"),
    [
        ("Pod api-7f9c restarted 412 times.", "pod api-7f9c restarted 412 times", []),
        ("Pod api-7f9d restarted 413 times.", "pod api-7f9c restarted 412 times", ["api-7f9d", "413"]),
        ("It took 1,200 ms.", "took=1200ms", []),
        ("About 1200 requests.", "1,200 requests", []),
        ("It took 1.20 s.", "took 1.2 s", []),
        ("Three of 5 pods failed.", "many pods", []),
        ("It failed 413 times.", "id=9941377 and 413", []),
        ("It failed 413 times.", "id=9941377", ["413"]),
        ("Version v2.4.1 of 10.0.0.7", "image: registry/app:v2.4.1 on 10.0.0.7:80", []),
        ("At 10:07:12 on 2026-11-15.", "2026-11-15T10:07:12Z ERROR", []),
        ("At 10:07:13 on 2026-11-15.", "2026-11-15T10:07:12Z ERROR", ["10:07:13"]),
        ("It is in CrashLoopBackOff.", "state: Running", ["crashloopbackoff"]),
        ("It is in CrashLoopBackOff.", "reason: CrashLoopBackOff", []),
        ("See settings.yaml and db_pool_size.", "db_pool_size in config.yaml", ["settings.yaml"]),
        ("A read-only and/or follow-up I/O problem, e.g. the disk.", "nothing", []),
        ('It says "connection to db refused".', "connection to  db\nrefused", []),
        ('It says "connection to the cache refused".', "connection to db refused", ["connection to the cache refused"]),
        ('It says "connection … refused".', "connection to db refused", []),
        ("The field `spec` is set, `status` is not.", "spec: 1", ["status"]),
        ("The message was \"disk 'a' is full now\".", '{"message": "disk \'a\' is full now"}', []),
    ],
)
def test_numbers_names_timestamps_and_quotes_are_looked_up(summary: str, source: str, made_up: list[str]) -> None:
    assert unsupported(summary, source) == made_up


def test_what_was_asked_may_be_repeated() -> None:
    """A summary says what was looked for and NOT found, so that the agent does not ask again."""
    assert unsupported("No mention of pay-77 was found.", "nothing of the kind", "Looking for: pay-77") == []


@pytest.mark.parametrize(
    "summary",
    [
        "37 of them are Running.",
        "37 pods are Running.",
        "In total 4711 (derived) bytes.",
        "The total is 4711 bytes.",
        "That is 92.5% of all.",
    ],
)
def test_counts_and_sums_are_derived_and_not_invented(summary: str) -> None:
    found = SourceFacts("\n".join(["pod Running"] * 40)).check(summary)
    assert found.unsupported == () and len(found.derived) == 1 and found.share == 0


def test_nothing_can_be_counted_more_often_than_there_are_lines() -> None:
    found = SourceFacts("\n".join(["pod Running"] * 40)).check("4711 pods are Running.")
    assert found.unsupported == ("4711",) and found.derived == ()


def test_cited_lines_are_read_and_those_the_source_does_not_have_are_unsupported() -> None:
    found = SourceFacts("line\n" * 99).check("One [lines 3-9]. Two [line 12]. Three [lines 90-900].")
    assert found.cited == ((3, 9), (12, 12)) and found.unsupported == ("[lines 90-900]",)
    assert found.items == 3


def test_a_long_run_of_letters_costs_in_proportion_to_its_length() -> None:
    """Once quadratic: 40,000 letters took half a minute, with the whole process waiting."""
    assert unsupported("It failed 4711 times.", "a" * 2_000_000) == ["4711"]
    assert unsupported("a" * 200_000 + "-" * 200_000 + "A" * 200_000, "nothing") == []
