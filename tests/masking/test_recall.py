"""Generated secrets by class: how many are found, and what else is changed.

The bounds are under what `python -m bench.masking_recall` measures (docs/reference/masking.md), by about one case in a
hundred: a rule that loses a class fails here.
"""

import functools

import pytest

from bench.masking_recall import Score, score
from bench.secrets.cases import is_held_out, plain_texts, positives
from tersely.masking.mask import Masker

FAMILIES = {
    "names and syntaxes": 0.985,
    "names of generated values": 0.93,
    "values in wrappers": 0.97,
    "tables and next lines": 0.985,
    "encoded names": 0.985,
    "encoded texts": 0.95,
    "non-English names": 0.985,
    "non-English sentences": 0.94,
    "sentences": 0.96,
    "command lines": 0.985,
    "addresses and DSNs": 0.985,
    "secret stores": 0.94,
    "private keys": 0.985,
    "password files and codes": 0.985,
    "databases, directories and addresses": 0.985,
    "devices and networks": 0.97,
    "command lines of many programs": 0.98,
    "chats, mails, tables and logs": 0.97,
    "settings and printed objects": 0.97,
}
"""Share that is found, open and held out together."""


@functools.cache
def result() -> Score:
    return score(Masker(key=b"tests"), positives(), plain_texts())


def test_the_table_names_every_family() -> None:
    assert result().found.keys() == FAMILIES.keys()


@pytest.mark.parametrize("family", FAMILIES)
def test_secrets_of_each_class_are_found(family: str) -> None:
    tally = result().found[family]
    found, total = (tally.open[at] + tally.held_out[at] for at in (0, 1))
    missed = [case.text for case in result().missed if case.family == family]
    assert found / total >= FAMILIES[family], missed[:5]


def test_combinations_that_were_held_out_are_found_as_well() -> None:
    counts = [tally.held_out for tally in result().found.values()]
    assert sum(found for found, _ in counts) >= 0.98 * sum(total for _, total in counts)
    assert is_held_out("") is False and any(tally.held_out[1] for tally in result().found.values())


def test_texts_without_a_secret_stay_as_they_are() -> None:
    counts = [[tally.open[at] + tally.held_out[at] for at in (0, 1)] for tally in result().unspoiled.values()]
    kept, total = sum(count[0] for count in counts), sum(count[1] for count in counts)
    assert total > 760 and total - kept <= 0.01 * total, [pair[1] for pair in result().spoiled]


def test_documents_still_parse_keep_their_neighbours_and_do_not_change_again() -> None:
    assert result().broken == []
    assert result().unstable == []
    assert len(result().lost) <= 2, [case.text for case in result().lost]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("password: 16 bytes", "password: 16 bytes"),
        ("password:  16 bytes\ntoken:     1024 bytes\n", "password:  16 bytes\ntoken:     1024 bytes\n"),
    ],
)
def test_the_size_of_a_secret_is_not_a_secret(text: str, kept: str) -> None:
    assert Masker().mask(text) == kept


def test_a_url_keeps_its_host_when_its_user_is_called_token() -> None:
    out = Masker().mask("https://x-access-token:gX7kQ9mB2vLp4RtZ@host.test/path")
    assert out.startswith("https://x-access-token:[MASKED:") and out.endswith("]@host.test/path")
