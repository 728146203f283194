"""`Masked` as a type: which operations keep it, and who may vouch for a text."""

import ast
from pathlib import Path

import pytest

from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, fill, from_store, join_masked, own_words

SOURCE = Path(__file__).parents[2] / "src" / "tersely"

MAY_ASSUME = {"masking", "pipeline"}
MAY_READ = {"masking", "store", "results", "sessions", "research", "agent"}
"""Where rows and stored steps are read."""


def calls(name: str) -> list[tuple[str, ast.Call]]:
    """Calls of a function in the package, with the file."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                found.append((str(file.relative_to(SOURCE)), node))
    return found


def package(file: str) -> str:
    return file.split("/")[0]


@pytest.mark.slow
def test_only_masking_and_the_pipeline_vouch_for_text() -> None:
    assert {package(file) for file, _ in calls("assume_masked")} <= MAY_ASSUME
    assert [file for file, _ in calls("Masked") if file != "masking/masked.py" and file != "masking/mask.py"] == []
    assert calls("assume_masked"), "the search finds calls at all"


@pytest.mark.slow
def test_text_is_taken_from_the_store_where_rows_are_read_only() -> None:
    assert {package(file) for file, _ in calls("from_store")} <= MAY_READ


@pytest.mark.slow
def test_own_words_are_literals() -> None:
    found = calls("own_words")
    assert found
    for file, call in found:
        (argument,) = call.args
        assert isinstance(argument, ast.Constant) and isinstance(argument.value, str), f"{file}:{call.lineno}"


def test_what_is_derived_from_masked_text_is_masked() -> None:
    text = Masker().mask("password=hunter2hunter2 and more words")
    for derived in (text.head(5), text.head_tokens(3), text.strip(), text.rstrip(), text.derive(text[:4])):
        assert type(derived) is Masked
    assert text.head(8) == "password" and text.head_tokens(10_000) == text
    assert type(text[:4]) is str, "a slice is not: it would be one method call slower for every reader"
    assert join_masked("\n", [text, text]) == f"{text}\n{text}"
    assert type(join_masked("", [])) is Masked and from_store("x") == "x" and own_words("x") == "x" and NOTHING == ""


def test_a_template_takes_masked_text_and_numbers_only() -> None:
    assert fill("{count} of {what}", count=3, what=own_words("rows")) == "3 of rows"
    with pytest.raises(TypeError, match="not masked text"):
        fill("{what}", what="plain")  # type: ignore[arg-type]
