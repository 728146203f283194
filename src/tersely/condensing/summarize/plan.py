"""Plan of the model calls for one text, made before the first call.

Context window, output limit, prompt and target determine the size of a part, the size
of its summary, and the tree of merges. Every prompt of the plan fits the context
window, because summaries are cut to the planned sizes.
"""

import math
from dataclasses import dataclass

from tersely.errors import LLMMisconfigured

SMALLEST_PART_SUMMARY = 256
"""In tokens. A shorter summary of a part keeps headings and loses the facts."""

SMALLEST_CHUNK = 256

WORDS_PER_TOKEN = 0.65
"""Models follow a length in words better than one in tokens."""

PART_SHARE = 20
"""A part's summary may take one token for this many of the part: merging them then costs at most 5 % more input."""

LABEL_TOKENS = 24
"""Label of a part in a merge prompt: its number and its lines."""

FRAMING = 32
"""Generous estimate of what chat formats add around our messages."""


def headroom(tokens: int) -> int:
    """Return the `max_tokens` for an answer of this size: the prompt states the length, this only stops a runaway."""
    return math.ceil(tokens * 1.3) + 32


@dataclass(frozen=True)
class Room:
    """Capacity of a model for one call."""

    window: int
    longest_answer: int
    """Largest answer in tokens that, with headroom, respects the output limit and the context window."""

    @classmethod
    def beside(cls, frame: int, *, window: int, output_cap: int) -> "Room":
        """Compute the capacity next to a prompt of `frame` tokens; two answers and their merge must fit."""
        by_cap = int((output_cap - 32) / 1.3)
        by_window = int((window - frame - 2 * LABEL_TOKENS - 32 - FRAMING) / 3.4)
        return cls(window=window, longest_answer=max(16, min(by_cap, by_window, window // 4)))

    def for_content(self, *, frame: int, answer: int) -> int:
        """Return the tokens left for content next to the fixed parts of the prompt and the answer."""
        return self.window - frame - headroom(answer) - FRAMING


@dataclass(frozen=True)
class Level:
    """One level of merges: their number, and the longest answer of each."""

    groups: int
    answer: int


@dataclass(frozen=True)
class Merges:
    """Longest summary of each part, and the levels of merges above, bottom up."""

    part: int
    levels: tuple[Level, ...]


def chunk_tokens(room: Room, *, target: int, frame: int, wanted: int | None) -> int:
    """Return the size of a part: what the context window allows, or the wanted size if that is smaller.

    Raises:
        LLMMisconfigured: The context window is too small to summarize anything.
    """
    allowed = room.for_content(frame=frame, answer=min(target, room.longest_answer))
    if allowed < SMALLEST_CHUNK:
        raise LLMMisconfigured(
            f"A window of {room.window} tokens leaves {max(allowed, 0)} for content beside prompt and answer; "
            f"at least {SMALLEST_CHUNK} are needed. Set LLM_CONTEXT_WINDOW if the model has more, or shorten the focus."
        )
    return min(wanted or allowed, allowed)


def plan_merges(room: Room, *, parts: int, chunk: int, target: int, frame: int, last_frame: int) -> Merges:
    """Plan the tree over `parts` summaries. It has one root, so that the last call sees everything.

    Args:
        frame: Tokens of a prompt without its content.
        last_frame: The same for the last merge, which also receives the conversation.
    """
    whole = max(16, min(target, room.longest_answer))
    if parts <= 1:
        return Merges(part=whole, levels=())
    part = max(min(2 * target // parts, chunk // 2), min(target, chunk // PART_SHARE))
    part = min(max(part, min(SMALLEST_PART_SUMMARY, chunk // 2)), room.longest_answer)
    levels: list[Level] = []
    count, size = parts, part
    while count > _fan_in(room, size=size, answer=whole, frame=last_frame):
        groups = max(2, math.ceil(count / _fan_in(room, size=size, answer=room.longest_answer, frame=frame)))
        # At most two thirds of the input, so that every level shrinks the whole.
        answer = min(max(part, 2 * target // groups), room.longest_answer, max(16, size * count * 2 // (3 * groups)))
        levels.append(Level(groups=groups, answer=answer))
        count, size = groups, answer
    return Merges(part=part, levels=(*levels, Level(groups=1, answer=whole)))


def _fan_in(room: Room, *, size: int, answer: int, frame: int) -> int:
    fan_in = room.for_content(frame=frame, answer=answer) // (size + LABEL_TOKENS)
    if fan_in < 2:
        raise LLMMisconfigured(
            f"A window of {room.window} tokens cannot hold two summaries of {size} tokens to merge. Ask for less."
        )
    return fan_in


def shares(count: int, groups: int) -> list[range]:
    """Split `count` neighbours into `groups` runs of nearly equal length."""
    return [range(count * group // groups, count * (group + 1) // groups) for group in range(groups)]
