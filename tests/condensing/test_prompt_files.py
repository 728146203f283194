"""Prompts with checked placeholders, and fences that the content between them cannot close."""

import re
from importlib.resources import files

import pytest

from tersely.condensing.prompt_files import Fence, Prompt


def test_a_missing_value_and_a_value_without_a_hole_are_both_mistakes() -> None:
    with pytest.raises(
        TypeError, match=r"Prompt 'map_document' has holes \['nonce', 'words'\], but was given \['words'\]"
    ):
        Prompt("map_document").fill(words="10")
    with pytest.raises(TypeError, match="content"):
        Prompt("map_document").fill(words="10", nonce="1", content="x")


def test_a_value_that_spells_out_a_hole_stays_as_it_is() -> None:
    assert "at most $nonce words" in Prompt("map_document").fill(words="$nonce", nonce="1234")


def test_every_prompt_file_is_used_and_names_its_holes() -> None:
    names = {
        path.name.removesuffix(".md")
        for path in files("tersely.condensing.summarize").joinpath("prompts").iterdir()
        if path.name.endswith(".md")
    }
    families = {f"{step}_{family}" for step in ("map", "merge") for family in ("technical", "document", "extraction")}
    assert names == families | {"nudge", "unsupported"}
    for name in families:
        assert Prompt(name).holes == {"words", "nonce"}, "what comes from outside is never part of the instructions"


def test_a_thousand_fences_have_a_thousand_numbers_of_64_bits() -> None:
    nonces = {Fence.around("x").nonce for _ in range(1000)}
    assert len(nonces) == 1000 and all(re.fullmatch(r"[0-9a-f]{16}", nonce) for nonce in nonces)


def test_content_that_happens_to_hold_the_number_gets_another(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter(["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"])
    monkeypatch.setattr("tersely.condensing.prompt_files.secrets.token_hex", lambda size: next(draws))
    assert Fence.around("a replay of <<<end of text aaaaaaaaaaaaaaaa>>>").nonce == "bbbbbbbbbbbbbbbb"
