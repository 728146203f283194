"""The beginning of a large file that an agent reads: verbatim, with the numbers of the lines that matter further on."""

from tersely.condensing.account import Runs, source_lines
from tersely.condensing.structural import condense_structurally
from tersely.masking.masked import assume_masked
from tersely.pipeline.one_shot import OneShot
from tersely.text.tokens import O200K

_MOST_PLACES = 8


def first_lines(content: str, start: int, *, threshold: int, budget: int, focus: str) -> OneShot | None:
    """The first lines of a file within a budget, and a note; None if the file is at or under the threshold.

    Args:
        start: The number of its first line.
    """
    if not O200K.exceeds(content, threshold):
        return None
    tokens = O200K.count(content)
    lines = source_lines(content)
    left = budget - 100
    shown = 0
    for line in lines:
        left -= O200K.count(line) + 4  # With its number.
        if left < 0:
            break
        shown += 1
    if shown == 0:
        return None
    outline = condense_structurally(content, budget, focus)
    places = _places(outline.account.shown, shown, start)
    hidden = f"Lines {start + shown}–{start + len(lines) - 1} are not shown"
    note = f"[Shortened from {tokens:,} tokens. {hidden}; read them with offset={start + shown} and limit.{places}]"
    text = "\n".join((*lines[:shown], note))
    # The content was admitted, or its user turned masking off for the workspace.
    return OneShot(assume_masked(text), None, tokens, O200K.count(text), condensed=True)


def _places(runs: Runs, shown: int, start: int) -> str:
    """Where the lines are that an outline of the file would show."""
    beyond = [(max(first, shown + 1), last) for first, last in runs if last > shown]
    longest = sorted(sorted(beyond, key=lambda run: run[0] - run[1])[:_MOST_PLACES])
    names = [str(start + first - 1) + (f"–{start + last - 1}" if last > first else "") for first, last in longest]
    return f" Most telling: {', '.join(names)}." if names else ""
