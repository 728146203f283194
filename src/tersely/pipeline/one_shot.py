"""The pipeline for a process that ends with its one result: hooks of coding agents, and `tersely run`.

Clean, mask, keep, condense and note as everywhere, from the same functions. What differs
is when they are loaded: most results are small and have nothing to hide, so the size is
judged by bytes before tokens, and the condenser and the vocabulary are imported only
for a result that is too large.

Nothing is asynchronous here: there is no event loop to keep free.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tersely.masking.masked import Masked, assume_masked
from tersely.masking.quick import is_plain

if TYPE_CHECKING:
    from tersely.masking.mask import Masker
    from tersely.pipeline.core import NoteWriter

BYTES_PER_TOKEN = 3
"""A text of at most this many bytes per token of the threshold is small, without counting."""

Keep = Callable[[Masked, int], str | None]
"""Keeps a whole text of so many tokens, and returns its handle; None if it could not be kept."""


class OneShot(NamedTuple):
    """A result after the pipeline."""

    text: Masked
    handle: str | None = None
    tokens_before: int = 0
    """0 if the result was small, so that nothing was counted."""

    tokens_after: int = 0
    """With the note."""

    condensed: bool = False


def admit_once(text: str, masker: Callable[[], "Masker | None"]) -> Masked:
    """Clean, demote and mask a text; the rules are loaded only if something in it may fall under one.

    Args:
        masker: Makes the masker of the user's scope; None if masking is turned off.

    Raises:
        MaskingFailed: The text must not be used.
    """
    if is_plain(text):
        return assume_masked(text)
    from tersely.pipeline.foreign_text import admit_foreign

    return admit_foreign(text, masker())[0]


def process_once(
    text: str,
    *,
    masker: Callable[[], "Masker | None"],
    threshold: int,
    budget: int,
    looking_for: str | Callable[[], str],
    call: str,
    keep: Keep,
    note: Callable[[], "NoteWriter"],
    shows_end: bool = False,
) -> OneShot:
    """Run one text through the pipeline.

    Args:
        masker: Makes the masker of the user's scope; None if masking is turned off.
        threshold: Tokens up to which the text is not condensed.
        budget: Tokens of a condensed text, with its note.
        looking_for: What the caller wants to know, or a function that finds it out; empty if it did not say.
        call: The words of the call behind the text, which count less.
        note: Makes the writer of the note, only for a text that is condensed.
        shows_end: Whether the last lines must be shown, because a failed command says there why.

    Raises:
        MaskingFailed: The text must not be used.
    """
    admitted = admit_once(text, masker)
    if is_small(admitted, threshold):
        return OneShot(admitted)
    from tersely.condensing.focus import focus_of
    from tersely.condensing.room import condense_with_end
    from tersely.condensing.structural import condense_within
    from tersely.pipeline import core
    from tersely.text.tokens import O200K

    if not O200K.exceeds(admitted, threshold):
        return OneShot(admitted)
    tokens = O200K.count(admitted)
    handle = keep(admitted, tokens)
    writer = note()
    target = core.target_for(budget, writer.reserve(handle, tokens, budget))
    focus = admit_once(focus_of(looking_for() if callable(looking_for) else looking_for, call), masker)
    condensed = (condense_with_end if shows_end else condense_within)(admitted, target, focus)
    noted = core.with_note(condensed, writer, handle, tokens, budget)
    return OneShot(assume_masked(noted.text), handle, tokens, noted.tokens_after, condensed=True)


def is_small(text: str, threshold: int) -> bool:
    """Whether a text is at or under the threshold, as its bytes say."""
    limit = threshold * BYTES_PER_TOKEN
    return len(text) <= limit and (text.isascii() or len(text.encode("utf-8", "replace")) <= limit)
