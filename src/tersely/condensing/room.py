"""Fit a text into room that it may use up, without a model: for results that are condensed only because they must be.

In this order: the text as it is; the text with its repetitions written once (lossless);
its structural outline, with as much of the beginning and the end as the room allows. A
repeated line never fills the room.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tersely.condensing.account import FOLDED, PARTIAL, SHOWN, Account, LineClasses, Runs, source_lines
from tersely.condensing.budget import Condensed
from tersely.condensing.structural import condense_sections, condense_structurally
from tersely.condensing.summarize.fold import HEADER, fold
from tersely.text.tokens import O200K

REPETITIVE = 0.5
"""A text of which folding leaves no more than this is folded although it would fit."""

WELL_FILLED = 0.7
"""An outline that takes this share of the room is not extended."""

END_LINES = 12
END_TOKENS = 300
"""How much of the end `condense_with_end` shows."""

_MOST_TRIES = 4

_LABELS = 40
"""Tokens for the labels of beginning and end."""


def condense_to_room(text: str, room: int, focus: str = "") -> Condensed:
    """Fit a text into `room` tokens."""
    tokens = O200K.count(text)
    folded = fold(text)
    folded_tokens = O200K.count(folded)
    if tokens <= room and folded_tokens > tokens * REPETITIVE:
        return Condensed(
            text=text, status="passthrough", tokens_before=tokens, tokens_after=tokens, account=Account.whole(text)
        )
    if folded != text and folded_tokens <= room:
        lines = len(source_lines(text))
        return Condensed(
            text=folded,
            status="structural",
            kind="folded",
            tokens_before=tokens,
            tokens_after=folded_tokens,
            account=Account(folded=((1, lines),), total=lines),
        )
    outline = condense_structurally(text, room, focus, tokens_before=tokens)
    return outline if outline.tokens_after >= room * WELL_FILLED else _extended(outline, text, room)


_RULE = re.compile(r"^\s*([-=_*~#])\1{2,}.*\1{3}\s*$")
"""A line that only separates, with a title or without: it says nothing about a failure."""


def condense_with_end(text: str, budget: int, focus: str = "") -> Condensed:
    """Condense by structure to `budget` tokens with the last lines shown: there a command says why it failed."""
    outline = condense_structurally(text, budget, focus)
    lines = source_lines(text)
    first, last = _end_of(lines, budget)
    if not _hides(outline, lines, first, last):
        return outline
    room = budget - O200K.count(_verbatim(lines, first, last)) - 2
    return _with_excerpt(condense_structurally(text, room, focus), lines, first, last)


def condense_sections_with_end(texts: Iterable[str], lines: Sequence[str], budget: int, focus: str = "") -> Condensed:
    """As `condense_with_end`, for a text that is too large for memory; it is read once, with room for its end."""
    reserve = min(END_TOKENS, budget // 3) + _LABELS
    outline = condense_sections(texts, lines, budget - reserve, focus)
    first, last = _end_of(lines, budget)
    return _with_excerpt(outline, lines, first, last) if _hides(outline, lines, first, last) else outline


def _end_of(lines: Sequence[str], budget: int) -> tuple[int, int]:
    """The numbers of the last lines that are shown; none if the last one is too long."""
    last = len(lines)
    while last and not lines[last - 1].strip():
        last -= 1
    ending = [lines[at - 1] for at in range(last, max(0, last - END_LINES), -1)]
    return last - _fitting(ending, min(END_TOKENS, budget // 3)) + 1, last


def _hides(outline: Condensed, lines: Sequence[str], first: int, last: int) -> bool:
    """Whether an outline does not show these lines whole; rules between them do not count."""
    return any(
        lines[at - 1].strip() and not _RULE.search(lines[at - 1])
        for start, end in (*outline.account.lost, *outline.account.partial)
        for at in range(max(start, first), min(end, last) + 1)
    )


def _verbatim(lines: Sequence[str], first: int, last: int) -> str:
    return "\n".join([f"[lines {first}–{last}, verbatim:]", *(lines[at - 1] for at in range(first, last + 1))])


def _with_excerpt(outline: Condensed, lines: Sequence[str], first: int, last: int) -> Condensed:
    body = outline.text.removesuffix(outline.closing).rstrip("\n") if outline.closing else outline.text
    whole = f"{body}\n{_verbatim(lines, first, last)}"
    account = _with_shown(outline.account, lines, ((first, last),))
    return replace(
        outline, text=whole, tokens_after=O200K.count(whole), closing="", account=account, lost=account.summary()
    )


def _extended(outline: Condensed, text: str, room: int) -> Condensed:
    """Add beginning and end to an outline that leaves room: a third of it to the beginning, the rest to the end."""
    lines = source_lines(text)
    body = outline.text.removesuffix(outline.closing).rstrip("\n") if outline.closing else outline.text
    spare = room - O200K.count(body) - _LABELS
    extended = body
    shown: Runs = ()
    # Folding shortens beginning and end, which makes room for more of them.
    for _ in range(_MOST_TRIES):
        longer, lines_shown = _with_excerpts(body, lines, spare)
        tokens = O200K.count(longer)
        if tokens > room:
            break
        extended, shown = longer, lines_shown
        if tokens >= room * WELL_FILLED:
            break
        spare = int(spare * 0.9 * room / tokens)
    account = _with_shown(outline.account, lines, shown)
    return replace(
        outline,
        text=extended,
        tokens_after=O200K.count(extended),
        closing="",
        account=account,
        lost=account.summary(),
    )


def _with_excerpts(body: str, lines: list[str], spare: int) -> tuple[str, Runs]:
    """The outline with beginning and end, and the lines that these show."""
    first = _fitting(lines, spare // 3)
    last = _fitting(lines[first:][::-1], spare - spare // 3)
    parts, shown = [body], []
    for start, end in ((0, first), (len(lines) - last, len(lines))):
        if end <= start:
            continue
        excerpt = "\n".join(lines[start:end])
        folded = fold(excerpt)
        parts += [f"[lines {start + 1}–{end}, {'folded' if folded != excerpt else 'verbatim'}:]", folded]
        shown.append((start + 1, end))
    return "\n".join(parts), tuple(shown)


def _fitting(lines: list[str], room: int) -> int:
    """How many of the first lines fit into the room, counting equal lines once."""
    seen: set[str] = set()
    left = room - O200K.count(HEADER)
    for number, line in enumerate(lines):
        if line not in seen:
            seen.add(line)
            left -= O200K.count(line) + 1
        if left < 0:
            return number
    return len(lines)


def _with_shown(account: Account, lines: Sequence[str], shown: Runs) -> Account:
    classes = LineClasses(lines)
    for runs, kind in ((account.shown, SHOWN), (account.partial, PARTIAL), (account.folded, FOLDED), (shown, SHOWN)):
        for start, end in runs:
            classes.classes[start - 1 : end] = bytes([kind]) * (end - start + 1)
    return classes.account(account.paths, account.values)
