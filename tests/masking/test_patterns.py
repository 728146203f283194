"""Every entry of patterns.toml, checked against the examples it carries."""

import json
import tomllib
from pathlib import Path

import pytest

from tersely.masking.mask import Masker
from tersely.masking.search import token_table, tokens
from tersely.masking.spans import MaskingDeadline
from tersely.masking.token_patterns import FILE, TokenForm, TokenPattern, read_entries, token_patterns


def kinds_in(text: str) -> list[tuple[str, str]]:
    """The tokens in a text, each with its kind."""
    raw = text.encode()
    return [(raw[span.start : span.end].decode(), span.kind) for span in tokens(raw, MaskingDeadline(60))]


def name(entry: TokenPattern | TokenForm) -> str:
    return f"{entry.kind}-{entry.prefixes[0]}" if isinstance(entry, TokenPattern) else entry.kind


@pytest.mark.parametrize("entry", token_patterns().tokens, ids=name)
def test_a_prefixed_token_is_found_by_its_example_and_not_by_its_counterexample(entry: TokenPattern) -> None:
    for prefix in entry.prefixes:
        token, other = prefix + entry.example, prefix + entry.counterexample
        assert kinds_in(f"before {token} after") == [(token, entry.kind)]
        assert kinds_in(f"before {other} after") == []
        assert token not in Masker().mask(f"before {token} after")


@pytest.mark.parametrize("entry", token_patterns().forms, ids=name)
def test_a_form_is_found_by_its_example_and_not_by_its_counterexample(entry: TokenForm) -> None:
    token, other = "".join(entry.example), "".join(entry.counterexample)
    assert kinds_in(f"before {token} after") == [(token, entry.kind)]
    assert kinds_in(f"before {other} after") == []
    assert token not in Masker().mask(f"before {token} after")


def test_the_file_reads_as_toml_does() -> None:
    content = Path(FILE).read_text(encoding="utf-8")
    lists = json.loads(json.dumps(read_entries(content)))  # Tuples become lists.
    assert lists == tomllib.loads(content)


def test_a_kind_fits_into_a_mark() -> None:
    """A mark is recognised again by its kind: lower-case letters, digits and underscores, at most 40 of them."""
    known = token_patterns()
    for kind in [token.kind for token in known.tokens] + [form.kind for form in known.forms]:
        assert kind.replace("_", "").isalnum() and kind == kind.lower() and len(kind) <= 40


def test_no_prefix_is_listed_twice_with_the_same_rest() -> None:
    for prefix, entries in token_table().by_prefix.items():
        rests = [token.rest for token, _ in entries]
        assert len(rests) == len(set(rests)), prefix
