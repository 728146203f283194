"""What the question asks about and the text does not contain."""

import pytest

from tersely.condensing.absent import AbsentWords
from tersely.condensing.focus import Focus
from tersely.condensing.structural import condense_sections, condense_structurally
from tersely.pipeline.core import NoteWriter, with_note

LOG = "".join(
    f"2026-11-18 10:{number % 60:02d}:07 INFO checkoutApi handled order {number + 1000} in {number * 7 % 113} ms\n"
    for number in range(400)
)


def stated(question: str, text: str = LOG) -> str:
    absent = AbsentWords(Focus.parse(question))
    absent.read(text)
    return absent.statement


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("Is payment-7f in there?", '[no line contains "payment-7f"]'),
        ("Follow 6869997 through the log", '[no line contains "6869997"]'),
        ("Did 10.2.3.4 or ledgerApi connect?", '[no line contains "10.2.3.4" or "ledgerApi"]'),
        ('any "disk is full" from vault-0 or vault-1', '[no line contains "disk is full", "vault-0" or "vault-1"]'),
        ("which changes touched the gateway?", '[no line contains "gateway"]'),
    ],
)
def test_names_and_subjects_that_no_line_contains_are_stated(question: str, statement: str) -> None:
    assert stated(question) == statement
    condensed = condense_structurally(LOG, 300, question)
    assert statement in condensed.text.split("\n") and condensed.tokens_after <= 300


@pytest.mark.parametrize(
    "question",
    [
        "",
        "what failed, and why did it crash?",  # A failure has many words.
        "checkout_api",  # Another spelling of the same name.
        "the CheckoutAPI",
        "follow 1137 through the shop",  # A number that is there says more than the words around it.
        "orders of the gateway",  # Some of it is there.
        "which requests were rejected?",
        "which file could not be opened?",  # The answer need not say that it is a file.
        "the largest value over 900 ms since 14:00",
        "Give me an overview; what should I look at first?",
        "is single sign-on used for orders?",
        "a-1, b-2, c-3, d-4 and e-5",  # A list of what is missing would be longer than the answer.
    ],
)
def test_what_may_be_there_in_other_words_is_not_stated(question: str) -> None:
    assert stated(question) == ""


def test_words_are_found_across_the_blocks_in_which_a_long_text_is_read() -> None:
    text = "x" * ((1 << 20) - 4) + "vault-12" + "y" * 100
    assert stated("vault-12", text) == "" and stated("vault-13", text) == '[no line contains "vault-13"]'


def test_parts_of_a_text_that_is_too_large_for_memory_are_searched_one_by_one() -> None:
    parts = [LOG, LOG + "ERROR vault-0 is sealed\n", LOG]
    condensed = condense_sections(parts, "".join(parts).split("\n")[:-1], 300, "are vault-0 and ledger-1 sealed?")
    assert '[no line contains "ledger-1"]' in condensed.text and '"vault-0"' not in condensed.text


def test_the_note_of_the_gateway_leaves_the_statement_in_the_text() -> None:
    condensed = condense_structurally(LOG, 300, "Is payment-7f in there?")
    noted = with_note(condensed, NoteWriter(), "r_1", condensed.tokens_before, 400)
    assert '[no line contains "payment-7f"]' in noted.text


def test_tiny_budgets_have_no_room_for_it() -> None:
    assert "no line contains" not in condense_structurally(LOG, 100, "Is payment-7f in there?").text
