"""The structural condenser as its callers see it."""

import json

import pytest

from tersely.condensing.structural import cleaned, condense_structurally
from tersely.text.tokens import O200K, Tokenizer

LOG = "".join(f"2025-06-01T10:{n // 60:02d}:{n % 60:02d}Z INFO request {n} served in {n % 9} ms\n" for n in range(900))
BROKEN = LOG.replace("INFO request 444 served in 3 ms", "ERROR request 444 lost: pool exhausted")


def test_a_text_that_fits_comes_back_as_it_is() -> None:
    condensed = condense_structurally("short\r\ntext", 100)
    assert condensed.text == "short\r\ntext" and condensed.lost == []


@pytest.mark.parametrize("budget", [16, 40, 120, 200, 500, 1_500])
def test_the_budget_holds_with_the_account_in_it(budget: int) -> None:
    rows = "name,state,size\n" + "".join(f"web-{n},{'ok' if n != 70 else 'lost'},{n}\n" for n in range(900))
    condensed = condense_structurally(rows, budget, "what went wrong?")
    assert condensed.tokens_after == O200K.count(condensed.text) <= budget
    assert condensed.lost
    assert ("[left out:" in condensed.text) == (budget >= 200)


def test_the_line_that_matters_survives() -> None:
    assert "request 444 lost: pool exhausted" in condense_structurally(BROKEN, 100, "what went wrong?").text


def test_another_tokenizer_is_obeyed() -> None:
    dear = Tokenizer("o200k_base", 1.25)
    condensed = condense_structurally(BROKEN, 300, "", dear)
    assert dear.count(condensed.text) <= 300


def test_parts_of_different_kinds_share_the_budget() -> None:
    records = json.dumps([{"name": f"web-{n}", "state": "Running" if n != 17 else "Evicted"} for n in range(200)])
    text = f"$ kubectl get pods -o json\n{records}\n$ cat app.log\n{BROKEN}"
    condensed = condense_structurally(text, 300, "what is failing?")
    assert "Evicted" in condensed.text and "pool exhausted" in condensed.text
    assert condensed.text.index("Evicted") < condensed.text.index("pool exhausted")
    assert condensed.kind == "mixed"


def test_the_same_call_gives_the_same_text() -> None:
    assert (
        condense_structurally(BROKEN, 300, "slow requests").text
        == condense_structurally(BROKEN, 300, "slow requests").text
    )


@pytest.mark.parametrize(
    "text",
    [
        "\udcff\ud800 broken bytes\n" * 2_000,
        "\0" * 5_000 + "a b c\n" * 2_000,
        "x" * 200_000,
        " " * 100_000 + "\n" * 100_000,
        "[" * 60_000,
        '{"a": "' * 20_000,
        "|" * 50_000,
        "\x1b[31mred\x1b[0m\n" * 5_000,
        "漢字かな交じり文。" * 5_000,
    ],
)
def test_hostile_texts_do_no_harm(text: str) -> None:
    for budget in (16, 250):
        condensed = condense_structurally(text, budget, "why?")
        assert O200K.count(condensed.text) <= budget
        condensed.text.encode()


def test_elements_of_xml_say_how_many_of_them_are_shown() -> None:
    genres = ("poem", "novel", "essay")
    books = [f"<book id='b{at}'><title>Book {at}</title><genre>{genres[at % 3]}</genre></book>" for at in range(150)]
    for others in ("", "<owner>library</owner>"):
        text = "\n".join(["<?xml version='1.0'?>", "<catalog>", *([others] if others else []), *books, "</catalog>"])
        condensed = condense_structurally(text, 300, "Which essays are there?").text
        shown = sum(1 for line in condensed.split("\n") if line.startswith(" book:"))
        assert f"[{shown} of 150{' book' if others else ''}]" in condensed


def test_a_progress_bar_shows_its_last_state() -> None:
    states = [f"Downloading {at // 9:3d}% |{'#' * (at // 30)}| {at}/900 kB" for at in range(901)]
    text = "Collecting packages\n" + "\r".join(["", *states]) + "\nSuccessfully installed oven-1.0\n"

    condensed = condense_structurally(text, 120, "")

    assert condensed.text.split("\n")[1] == states[-1]
    assert condensed.account.total == 3


def test_records_between_carriage_returns_are_no_progress() -> None:
    records = [f"INFO job {at} of 12/03/2026 took {at} ms" for at in range(100)]

    assert cleaned("\r".join(records)) == "\r".join(records)
    assert cleaned("error: disk full\rretry 10%\rdone") == "error: disk full\rretry 10%\rdone"


def test_a_byte_order_mark_is_no_text() -> None:
    text = "\ufeff" + json.dumps([{"id": at, "state": "ok"} for at in range(400)])

    assert condense_structurally(text, 200, "").kind == "json"
    assert "\ufeff" not in condense_structurally(text, 200, "").text


def test_a_failed_or_skipped_test_of_a_report_is_shown_as_such() -> None:
    outcome = dict.fromkeys((40, 90), '<failure message="expected 1 got 2" type="AssertionError">trace</failure>')
    outcome |= dict.fromkeys((3, 50, 51, 120, 180), '<skipped message="needs docker"/>') | {
        130: '<error message="boom"/>'
    }
    cases = [
        f'<testcase classname="pkg.C{at // 10}" name="t{at}" time="0.0{at % 9}">{outcome.get(at, "")}</testcase>'
        for at in range(200)
    ]
    suite = '<testsuite name="s" tests="200" failures="2" skipped="5" errors="1">'
    text = "\n".join(['<?xml version="1.0"?>', f"<testsuites>{suite}", *cases, "</testsuite></testsuites>"])

    for budget in (200, 300, 500, 1_000):
        for question in ("", "Which tests of pkg.C9 are there?"):
            blocks = condense_structurally(text, budget, question).text.split("\n testcase: ")[1:]
            for at, found in outcome.items():
                block = next((block for block in blocks if f"name: t{at}" in block.split("\n")[0].split(", ")), "")
                assert not block or found[1:5] in block, (budget, question, at)


def test_outcomes_are_shown_where_most_tests_failed() -> None:
    cases = [
        f'<testcase name="t{at}"><{"skipped" if at % 3 else "failure"} message="because of {at}"/></testcase>'
        if at % 5
        else f'<testcase name="t{at}"/>'
        for at in range(60)
    ]
    text = "\n".join(["<testsuite>", *cases, "</testsuite>"])

    for block in condense_structurally(text, 200, "").text.split("\n testcase: ")[1:]:
        at = int(block.split("name: t")[1].split("\n")[0].split(",")[0])
        assert at % 5 == 0 or ("skipped" if at % 3 else "failure") in block
