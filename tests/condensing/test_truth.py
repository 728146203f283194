"""Statements about condensed texts, recomputed from the source: each kind that was once wrong, and the search for all.

`python -m bench.truth` searches the same classes over every text of the yardstick and the generator.
"""

from random import Random

import pytest

from bench import truth
from tersely import condense
from tersely.condensing.structural import condense_structurally


@pytest.mark.slow
def test_the_search_finds_no_wrong_statement_in_generated_texts() -> None:
    texts = list(truth.generated_texts())[::7]
    wrong = [finding for text in texts for finding in truth.findings_in(text, 300)]
    assert [finding for finding in wrong if finding.kind != "said to be lost and is shown"] == []


def test_the_search_finds_statements_that_are_wrong() -> None:
    """Each check of the search fails on a text that says what is not so."""
    lines = [f"2024-05-0{1 + at % 9} 10:00:00 INFO worker finished job {at}" for at in range(200)]
    true = condense_structurally("\n".join(lines), 300, "")
    assert list(truth.wrong_counts(true, lines)) == []
    assert list(truth.wrong_counts(true, lines[:50]))
    assert list(truth.wrong_account(true, lines)) == []
    assert list(truth.wrong_account(true, lines[1:]))
    later = ["2031-01-01 10:00:00 INFO worker finished job 7", *lines]
    assert list(truth.wrong_times(true, later))


def test_reports_and_configuration_are_no_web_pages() -> None:
    report = "\n".join(
        f">> Issue: [B{100 + at % 9}:check] Use of something unsafe was detected here and it should be replaced by the "
        f"safer call instead.\n   Severity: {'High' if at == 37 else 'Low'}   Confidence: High\n"
        f"   Location: app/mod{at}.py:{10 + at}:4\n{10 + at}\tx = eval(data{at})\n---------------"
        for at in range(60)
    )
    condensed = condense(report, 1000, "Which findings are of high severity?")
    assert condensed.kind not in ("page", "html")
    assert "app/mod37.py:47:4" in condensed.text
    assert "menus" not in condensed.text


def test_a_count_stands_for_lines_that_differ_in_values_only() -> None:
    names = ("libudev1", "libsystemd0", "libicu72", "libpam0g", "libcap2")
    lines = [f"2024-01-{1 + at % 28:02} 10:00:00 status installed package:amd64 1.{at}" for at in range(300)]
    for name in names:
        lines.insert(Random(name).randrange(300), f"2024-01-05 10:00:01 upgrade {name}:amd64 252.36 252.38")
    condensed = condense("\n".join(lines), 400, "")
    for name in names:
        assert f"upgrade {name}:amd64 252.36 252.38" in condensed.text
    assert "upgrade" not in "".join(line for line in condensed.text.split("\n") if "×" in line)


def test_a_range_of_times_goes_from_the_earliest_to_the_latest() -> None:
    text = "\n".join(
        f"2024-0{1 + (at * 7) % 9}-11 10:00:{at % 60:02} INFO worker finished job {at}" for at in range(400)
    )
    head = condense(text, 200, "").text.split("\n")[0]
    assert "2024-01-11 10:00:00 – 2024-09-11 10:00" in head


@pytest.mark.parametrize("line", ["Retrying in 5 seconds...", "worker: connection refused", "same line here"])
def test_copies_of_a_line_are_one_line_with_its_count(line: str) -> None:
    condensed = condense(f"{line}\n" * 5_000, 300, "")
    assert condensed.text.split("\n")[-1] == f"{line} ×5000"
    assert condensed.account.folded == ((2, 5_000),)
    assert condensed.lost == []


def test_what_is_lost_is_said_once_and_as_the_account_has_it() -> None:
    lines = [
        f"{at} {Random(at).randbytes(12).hex()} {Random(at).choice(('alpha', 'beta', 'gamma'))}" for at in range(900)
    ]
    condensed = condense("\n".join(lines), 400, "")
    lost = sum(last - first + 1 for first, last in condensed.account.lost)
    assert condensed.text.count("left out") == 1
    assert f"{lost:,} of 900 lines" in condensed.text
    assert condensed.lost[0].lines == condensed.account.lost


def test_a_budget_is_used_while_text_is_lost() -> None:
    text = "\n".join(f"section {at}: {'word ' * (at % 17)}end {at}" for at in range(2_000))
    condensed = condense(text, 1_000, "section 1234")
    assert condensed.account.lost
    assert condensed.tokens_after > 700


def test_a_text_that_fits_is_shown_whole() -> None:
    condensed = condense("one\n\ntwo\r\nthree\n", 100, "")
    assert condensed.account.shown == ((1, 4),)
    assert condensed.account.total == 4
    assert not (condensed.account.partial or condensed.account.folded or condensed.account.lost)
