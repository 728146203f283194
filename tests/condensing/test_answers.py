"""Telling a summary from what only looks like one."""

import pytest

from tersely.condensing.summarize.answers import NotASummary, checked
from tersely.llm.messages import Completion
from tersely.text.tokens import O200K


def answer(text: str, finish: str = "stop") -> Completion:
    return Completion(text=text, finish=finish, model="m", provider="p")  # type: ignore[arg-type]


def look(text: str, *, finish: str = "stop", source: int = 1000, limit: int = 100) -> tuple[str, bool]:
    return checked(answer(text, finish), source_tokens=source, limit=limit, tokenizer=O200K)


def test_a_summary_is_taken_as_it_is() -> None:
    assert look("  The pool is exhausted.\n") == ("The pool is exhausted.", False)


@pytest.mark.parametrize(
    "text", ["Sorry, the service said it was out of stock. " * 20, "I apologise, wrote the mayor. " * 40]
)
def test_a_long_text_that_begins_like_a_refusal_is_not_one(text: str) -> None:
    assert look(text, limit=1000)[0].startswith(text[:10])


@pytest.mark.parametrize(
    "text",
    ["I'm sorry, I can't help with that.", "I cannot assist with this request.", "Es tut mir leid, das geht nicht."],
)
def test_a_short_refusal_is_no_summary(text: str) -> None:
    with pytest.raises(NotASummary, match="refusal"):
        look(text)


def test_an_answer_as_long_as_its_source_is_no_summary() -> None:
    text = "word " * 50
    with pytest.raises(NotASummary, match="no shorter"):
        look(text, source=O200K.count(text.strip()))


def test_what_was_cut_off_early_is_no_summary_and_late_is_one() -> None:
    with pytest.raises(NotASummary, match="cut off"):
        look("One sentence. And then", finish="length")
    text, cut = look("A sentence of seven words, no more. " * 10 + "And th", finish="length")
    assert cut and text.endswith("no more.")
