"""How a text is divided among model calls, decided before the first of them.

Window, output cap, prompt and target give the size of a part, of its summary,
and the tree of merges. Every prompt the plan leads to fits the window, because
summaries are cut to the sizes planned here.
"""

import math
from dataclasses import dataclass

from tersely.errors import LLMMisconfigured

SMALLEST_PART_SUMMARY = 256
"""Tokens. Under it, a summary of a part keeps headings and loses the facts."""

SMALLEST_CHUNK = 256

WORDS_PER_TOKEN = 0.65
"""Models keep to a length in words better than to one in tokens."""

LABEL_TOKENS = 24
"""A part's label in a merge prompt: its number and its lines."""

_FRAMING = 32
"""What chat formats add around our messages, generously."""


def headroom(tokens: int) -> int:
    """The `max_tokens` to send for an answer of this size: the prompt names the length, this only stops a runaway."""
    return math.ceil(tokens * 1.3) + 32


@dataclass(frozen=True)
class Room:
    """What one model can take in one call."""

    window: int
    longest_answer: int
    """Tokens an answer may have, so that it with head-room respects output cap and window."""

    @classmethod
    def beside(cls, frame: int, *, window: int, output_cap: int) -> "Room":
        """The room beside a prompt of `frame` tokens: two answers must fit together with a third that merges them."""
        by_cap = int((output_cap - 32) / 1.3)
        by_window = int((window - frame - 2 * LABEL_TOKENS - 32 - _FRAMING) / 3.4)
        return cls(window=window, longest_answer=max(16, min(by_cap, by_window, window // 4)))

    def for_content(self, *, frame: int, answer: int) -> int:
        """Tokens left for content beside the prompt's own words and the answer."""
        return self.window - frame - headroom(answer) - _FRAMING


@dataclass(frozen=True)
class Level:
    """One row of merges: how many there are, and how long each answer may be."""

    groups: int
    answer: int


@dataclass(frozen=True)
class Merges:
    """What each part's summary may take, and the rows of merges above, bottom up."""

    part: int
    levels: tuple[Level, ...]


def chunk_tokens(room: Room, *, target: int, frame: int, wanted: int) -> int:
    """The size of a part: as wanted, or what the window allows.

    Raises:
        LLMMisconfigured: The window is too small to summarize anything in it.
    """
    allowed = room.for_content(frame=frame, answer=min(target, room.longest_answer))
    if allowed < SMALLEST_CHUNK:
        raise LLMMisconfigured(
            f"A window of {room.window} tokens leaves {max(allowed, 0)} for content beside prompt and answer; "
            f"at least {SMALLEST_CHUNK} are needed. Set LLM_CONTEXT_WINDOW if the model has more, or shorten the focus."
        )
    return min(wanted, allowed)


def plan_merges(room: Room, *, parts: int, chunk: int, target: int, frame: int) -> Merges:
    """The tree over `parts` summaries whose last row together has at most `target` tokens."""
    # Where the target is longer than one answer can be, several roots stand side by side.
    roots = min(parts, math.ceil(target / room.longest_answer))
    if parts <= roots:
        return Merges(part=max(16, min(target // max(parts, 1), room.longest_answer)), levels=())
    part = max(
        min(2 * target // parts, room.longest_answer, chunk // 2),
        min(SMALLEST_PART_SUMMARY, chunk // 2, room.longest_answer),
    )
    levels: list[Level] = []
    count, size = parts, part
    while count > roots:
        last = Level(groups=roots, answer=max(16, target // roots))
        if math.ceil(count / roots) <= _fan_in(
            room, size=size, answer=min(last.answer, room.longest_answer), frame=frame
        ):
            levels.append(last)
            break
        groups = math.ceil(count / _fan_in(room, size=size, answer=room.longest_answer, frame=frame))
        # No longer than two thirds of what goes in, so that every row shrinks the whole.
        answer = min(max(part, 2 * target // groups), room.longest_answer, max(16, size * count * 2 // (3 * groups)))
        levels.append(Level(groups=groups, answer=answer))
        count, size = groups, answer
    return Merges(part=part, levels=tuple(levels))


def _fan_in(room: Room, *, size: int, answer: int, frame: int) -> int:
    fan_in = room.for_content(frame=frame, answer=answer) // (size + LABEL_TOKENS)
    if fan_in < 2:
        raise LLMMisconfigured(
            f"A window of {room.window} tokens cannot hold two summaries of {size} tokens to merge. Ask for less."
        )
    return fan_in


def shares(count: int, groups: int) -> list[range]:
    """`count` neighbours in `groups` runs of nearly equal length."""
    return [range(count * group // groups, count * (group + 1) // groups) for group in range(groups)]
