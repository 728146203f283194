"""The pipeline for a text that is too large for memory: it is masked, kept and read part by part, then shown as one.

Memory depends on the size of a part, not on that of the text. Counts and line numbers are those of the whole text,
because the condenser adds up what it read in the parts.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tersely.condensing.focus import focus_of
from tersely.condensing.room import condense_sections_with_end
from tersely.condensing.structural import condense_sections
from tersely.masking.masked import assume_masked
from tersely.pipeline import core
from tersely.pipeline.one_shot import OneShot, admit_once
from tersely.results.spool import LargeResult
from tersely.text.spooled import SpooledLines

if TYPE_CHECKING:
    from tersely.masking.mask import Masker

_MANY_TOKENS = 100_000_000
"""Stands for the size in the note while room is reserved for it."""


def process_large(
    parts: Iterable[str],
    kept: LargeResult,
    *,
    masker: "Callable[[], Masker | None]",
    budget: int,
    looking_for: str,
    call: str,
    note: Callable[[], core.NoteWriter],
    shows_end: bool = False,
) -> OneShot:
    """Run a text in parts through the pipeline; the arguments are those of `process_once`.

    Args:
        kept: Where the text is kept; left open.

    Raises:
        MaskingFailed: The text must not be used.
        OSError: There is no room to keep it.
    """
    lines = SpooledLines(kept.file, kept.start)

    def admitted() -> Iterator[str]:
        for part in parts:
            text = admit_once(part, masker)
            lines.added(kept.add(text))
            yield text

    focus = admit_once(focus_of(looking_for, call), masker)
    reserve = note().reserve(kept.handle, _MANY_TOKENS, budget)
    condense = condense_sections_with_end if shows_end else condense_sections
    condensed = condense(admitted(), lines, core.target_for(budget, reserve), focus)
    tokens = condensed.tokens_before
    handle = kept.finish(tokens)
    # The writer is made again: reading the parts takes time, in which the command may have been stopped.
    noted = core.with_note(condensed, note(), handle, tokens, budget)
    return OneShot(assume_masked(noted.text), handle, tokens, noted.tokens_after, condensed=True)
