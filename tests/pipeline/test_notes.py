"""The note below a shortened result never cuts what stands above it without saying so."""

import pytest

from tersely.condensing.account import Account, Lost
from tersely.condensing.budget import Condensed
from tersely.pipeline.core import NoteWriter, with_note
from tersely.text.tokens import O200K

LINE = "    call(" + ", ".join(f"argument_{at}={at}" for at in range(60)) + ")"
"""Over 390 characters."""


def condensed(text: str, lost: list[Lost]) -> Condensed:
    account = Account(shown=((1, 3),), lost=((4, 90),), total=90)
    size = O200K.count(text)
    return Condensed(text=text, status="structural", tokens_before=900, tokens_after=size, lost=lost, account=account)


@pytest.mark.parametrize("spare", [0, 40, 60, 80, 100, 200])
def test_a_long_note_gives_way_to_the_text(spare: int) -> None:
    ranges = tuple((at * 1_000_000 + 1, at * 1_000_000 + 999_999) for at in range(3))
    lost = [Lost("87 of 90 lines", ranges), Lost("1,234,567 of 7,654,321 values", ranges)]
    text = f"def first():\n{LINE}\n{LINE}"
    before = condensed(text, lost)
    budget = before.tokens_after + spare
    noted = with_note(before, NoteWriter(), "r-0123456789", 900, budget)
    above, _, note = noted.text.rpartition("\n")
    assert noted.tokens_after <= budget
    assert note.startswith("[Shortened")
    if above == text:
        assert noted.account == before.account
        assert spare < 80 or "87 of 90 lines" in note
    else:
        assert above.endswith(" …")
        assert noted.account == Account(), "what was cut is not said to be shown"
        assert len(noted.lost) == len(lost) + 1
