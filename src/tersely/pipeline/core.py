"""The synchronous core: admit, check the size, condense by structure, add the note.

Serves `tersely.condense`, the shell and hooks, and is the part of `process` that
uses neither a store nor a model. Imports only `text`, `masking` and `condensing`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tersely.condensing.account import Account, Lost
from tersely.condensing.budget import ACCOUNT_FROM_TOKENS, SMALLEST_BUDGET, Condensed
from tersely.condensing.structural import condense_within
from tersely.errors import InputError
from tersely.masking.clean import clean
from tersely.masking.imitations import demote
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, assume_masked
from tersely.text.decoding import decoded
from tersely.text.tokens import O200K


def condense(text: object, budget: int = 1000, focus: str = "", *, mask: bool = True) -> Condensed:
    """Condense a text to `budget` tokens without a model: parts relevant to the focus stay, the rest is counted.

    The text is cleaned of hidden characters and its secrets are masked first. Nothing is stored and nothing is sent.

    Args:
        text: A text; bytes in UTF-8, UTF-16, UTF-32 or Windows-1252; or a JSON-like value (dict, list, number, bool,
            None), which is read as JSON.
        mask: False leaves secrets in the text; hidden characters are removed nevertheless.

    Raises:
        InputError: The budget is under 16 tokens, the bytes are not text, or the value is not JSON-like.
        MaskingFailed: The text could not be masked, so nothing of it is returned.
    """
    source = _as_text(text)
    cleaned = clean(source)
    # With mask=False the caller vouches for the text.
    shown = demote(cleaned.text)
    masked = Masker().mask(shown) if mask else assume_masked(shown)
    condensed = condense_within(masked, budget, focus)
    if masked == source:
        return condensed
    return replace(
        condensed,
        tokens_before=O200K.count(source),
        cleaned=cleaned.removed,
        masked=masked != shown,
    )


def _as_text(source: object) -> str:
    """Return a text as it is, bytes decoded as the shell decodes files, a JSON-like value as JSON by line."""
    if isinstance(source, str):
        return source
    if isinstance(source, bytes | bytearray | memoryview):
        return decoded(bytes(source))
    try:
        return json.dumps(source, ensure_ascii=False, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"condense() takes a text, bytes or a JSON-like value (dict, list, number, bool, None), and this "
            f"{type(source).__name__} is none: {error}. Pass str(value), or json.dumps(value, default=str)."
        ) from error


def shorten(text: Masked, budget: int, focus: str = "") -> Masked:
    """Masked text within a budget, condensed by structure if it does not fit."""
    return assume_masked(condense_within(text, budget, focus).text)


@dataclass(frozen=True, kw_only=True)
class NoteWriter:
    """Writes the note that the result was shortened, and the call that reads the rest."""

    read: str = "read_result"
    """Name of the tool that reads kept results, as the reader of the note sees it."""

    passes_handles: bool = True
    """Whether a handle as an argument of a tool stands for the whole result."""

    def write(self, lost: Sequence[Lost], handle: str | None, tokens: int) -> str:
        missing = left_out(lost)
        if handle is None:
            return (
                f"[Shortened from {tokens:,} tokens.{missing} The whole could not be kept; ask for less to see more.]"
            )
        first, last = next((one.lines[0] for one in lost if one.lines), (1, None))
        where = f"start_line={first}" + (f", end_line={last}" if last else "")
        return (
            f"[Shortened from {tokens:,} tokens.{missing} More: {self.read}(handle={handle!r}, {where}), or with "
            f"pattern=…, sql=… or looking_for=… instead of lines.{self._passing(handle)}]"
        )

    def _passing(self, handle: str) -> str:
        return f' "result:{handle}" as an argument of a tool passes the whole.' if self.passes_handles else ""

    def shortest(self, handle: str | None) -> str:
        if handle is None:
            return "[Shortened; the whole could not be kept.]"
        return f"[Shortened. More: {self.read}(handle={handle!r}, start_line=1)]"

    def reserve(self, handle: str | None, tokens: int, budget: int) -> int:
        """Tokens to reserve for the note; if the list of what was left out is longer, the shortest note is used."""
        return O200K.count(self.write((), handle, tokens)) + (60 if budget >= ACCOUNT_FROM_TOKENS else 0)


def with_note(condensed: Condensed, note: NoteWriter, handle: str | None, tokens: int, budget: int) -> Condensed:
    """Add the note to a condensed text, within the budget."""
    # The note states what is left out, so the text need not state it too.
    text = condensed.text.removesuffix(condensed.closing).removesuffix("\n") if condensed.closing else condensed.text
    without_lines = [replace(one, lines=()) for one in condensed.lost]
    for lost in (condensed.lost, without_lines, without_lines[:1]):
        whole = f"{text}\n{note.write(lost, handle, tokens)}"
        if not O200K.exceeds(whole, budget):
            return replace(condensed, text=whole, closing="", tokens_before=tokens, tokens_after=O200K.count(whole))
    return _cut_for_note(condensed, text, note.shortest(handle), tokens, budget)


def _cut_for_note(condensed: Condensed, text: str, closing: str, tokens: int, budget: int) -> Condensed:
    """The text above the shortest note; only its beginning, marked and without an account, if even that has no room."""
    room = budget - O200K.count(closing) - 2
    if O200K.exceeds(text, room):
        text = O200K.head(text, max(0, room - 2)).rstrip() + " …"
        cut = Lost(f"everything after the first {O200K.count(text):,} tokens")
        condensed = replace(condensed, account=Account(), lost=[*condensed.lost, cut])
    whole = f"{text}\n{closing}"
    return replace(condensed, text=whole, closing="", tokens_before=tokens, tokens_after=O200K.count(whole))


def masked_text(condensed: Condensed) -> Masked:
    """The text of a condensed result that came from the pipeline.

    Raises:
        TypeError: It did not, so the text may contain secrets.
    """
    if not isinstance(condensed.text, Masked):
        raise TypeError("This text was condensed outside of the pipeline and may not be masked.")
    return condensed.text


def cut(text: Masked, tokens: int, handle: str | None, limit: int) -> Condensed:
    """The beginning of a text, used if condensing it failed."""
    kept = f"The whole is kept as {handle}." if handle else "The whole could not be kept."
    closing = f"\n[Cut: the beginning of {tokens:,} tokens. {kept}]"
    head = O200K.head(text, max(0, limit - O200K.count(closing) - 2))
    return Condensed(
        text=head + closing,
        status="fallback",
        tokens_before=tokens,
        tokens_after=O200K.count(head + closing),
        reason="condensing failed",
        lost=[Lost(f"everything after the first {O200K.count(head):,} tokens")],
    )


def target_for(budget: int, reserve: int) -> int:
    return max(SMALLEST_BUDGET, budget - reserve)


def left_out(lost: Sequence[Lost]) -> str:
    """The sentence of a note that says what is missing; empty if nothing is."""
    if not lost:
        return ""
    first = "; ".join(str(one) for one in lost[:3])
    more = f"; and {len(lost) - 3} more" if len(lost) > 3 else ""
    return f" Left out: {first}{more}."
