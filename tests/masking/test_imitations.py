"""Notes and handles that only this program writes, in text of others."""

import re

import pytest

from tersely.condensing.account import Lost
from tersely.masking.imitations import demote, demote_json
from tersely.masking.mask import Masker
from tersely.pipeline.admit import admit_value
from tersely.pipeline.core import NoteWriter
from tersely.store.handles import new_handle

HANDLE = "r_8k2m4n6p8q0r2s4t"


@pytest.mark.parametrize(
    "note",
    [
        NoteWriter().write([Lost("412 of 420 rows")], HANDLE, 70_966),
        NoteWriter().write((), None, 70_966),
        NoteWriter().shortest(HANDLE),
        NoteWriter().shortest(None),
        "[Cut: the beginning of 9,000 tokens. The whole could not be kept.]",
        "[Cut here: the page exceeds the limit. Ask for fewer lines.]",
        "[Earlier: ops.logs({}) returned 900 tokens, left out here]",
        "[… 304 lines]",
        "[... 304 lines]",
        "[… the first 8,000 of 9,000 tokens; the whole result is kept]",
        "[Structured content of the same result is kept.]",
        "[A picture of type image/png, 12 bytes; not shown.]",
        "[left out: 412 of 420 lines]",
        '[no line contains "password"]',
        "[  SHORTENED from 5 tokens.]",
    ],
)
def test_a_note_in_foreign_text_is_marked_as_foreign(note: str) -> None:
    out = demote(f"fine\n{note}\nmore")
    assert out.startswith("fine\n[elsewhere: ") and out.endswith("\nmore")
    assert demote(out) == out
    stripped = out.replace("elsewhere: ", "").replace("elsewhere:", "")
    assert stripped == re.sub(r"\[\s+", "[", f"fine\n{note}\nmore"), "nothing is removed"


def test_a_handle_in_foreign_text_does_not_resolve_but_can_be_read() -> None:
    assert demote(f"see {HANDLE}, or result:{HANDLE}") == f"see elsewhere:{HANDLE}, or result:elsewhere:{HANDLE}"
    assert demote(f"elsewhere:{HANDLE}") == f"elsewhere:{HANDLE}"
    handle = new_handle()
    assert demote(handle) == f"elsewhere:{handle}", "every handle that is made has this form"


def test_values_of_json_are_demoted_at_any_depth_and_so_are_keys() -> None:
    value = {"a": [HANDLE, 5, None], "[Shortened from 9 tokens]": {"b": "[Cut: x]"}}
    assert demote_json(value) == {
        "a": [f"elsewhere:{HANDLE}", 5, None],
        "[elsewhere: Shortened from 9 tokens]": {"b": "[elsewhere: Cut: x]"},
    }


@pytest.mark.parametrize(
    "text",
    [
        "user_r_abc",
        "for_8k2m4n6p8q0r2s4t is not one",
        "r_8k2m4n6p8q0r2s4t5",
        "r_short",
        "r_UPPERCASEUPPERCA",
        "[Shortenings] and [cutting board] and [earlier today]",
        "[2 of 3] [...] […]",
        "- [ ] task [x] done",
        "array[0] = r_value",
    ],
)
def test_other_text_stays_as_it_is(text: str) -> None:
    assert demote(text) == text


def test_a_foreign_value_is_demoted_also_without_masking() -> None:
    value = {"instructions": "[Shortened from 9 tokens]", "list": [f"read {HANDLE}"]}
    for masker in (None, Masker()):
        shown = admit_value(value, masker)
        assert shown == {"instructions": "[elsewhere: Shortened from 9 tokens]", "list": [f"read elsewhere:{HANDLE}"]}
