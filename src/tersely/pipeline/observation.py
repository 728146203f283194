"""What a conversation gets to see of a tool call, and what it is told of the rest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tersely.condensing.budget import Condensed, Lost, ModelWork, Status

Returned = Literal["original", "structural"]


@dataclass(frozen=True, kw_only=True)
class OtherPart:
    """A part of a result that is not text: kept, passed on as it came, never given to a text model."""

    kind: str
    """`image`, `audio`, `resource`, `link` or what the server called it."""

    mime_type: str
    size: int
    """In bytes."""

    handle: str | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """The outcome of one tool call, ready for a conversation."""

    call_id: str
    server: str
    tool: str
    text: str
    """What the conversation may see: masked, within the budget, with a note on what is missing."""

    status: Status
    tokens_before: int
    tokens_after: int
    handle: str | None = None
    """Where the whole can be read; None when there is nothing more than the text."""

    lost: list[Lost] = field(default_factory=list)
    is_error: bool = False
    cleaned: int = 0
    """Characters that were taken out because they only deceive: escapes, zero-width and bidi characters."""

    parts: tuple[OtherPart, ...] = ()
    returned: Returned | None = None
    reason: str = ""
    work: ModelWork | None = None


def note(
    condensed: Condensed, handle: str, *, tokens: int, read: str = "read_result", search: str = "search_result"
) -> str:
    """The line that tells a model it does not see everything, how to see it, and that asking again is no use."""
    missing = _missing(condensed.lost)
    return (
        f"[Shortened from {tokens:,} tokens.{missing} The whole result is kept as {handle}: "
        f'{read}("{handle}", start_line, end_line) or {search}("{handle}", pattern) show more; '
        f'"result:{handle}" as an argument passes it on whole. Calling the tool again gives the same.]'
    )


def _missing(lost: Sequence[Lost]) -> str:
    if not lost:
        return ""
    said = "; ".join(str(one) for one in lost[:3])
    more = f"; and {len(lost) - 3} more" if len(lost) > 3 else ""
    return f" Left out: {said}{more}."
