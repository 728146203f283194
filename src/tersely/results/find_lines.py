"""The lines of a text that a pattern finds, with numbers and neighbours, in bounded time.

The matcher (re2) is linear in the text, but a hostile pattern can make each byte
cost a hundred microseconds, and a search cannot be stopped half-way. So it is
given a stretch at a time, and the clock is looked at in between.

Pure function over bytes, no event loop: call it in a thread.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import re2

from tersely.errors import InputError

LONGEST_PATTERN = 1_000
MOST_COUNTED = 100_000
"""Matching lines are counted up to here; nobody reads that many."""

_STRETCH = 16 * 1024
_LONGEST_STRETCH = 64 * 1024
_OVERLAP = 2 * 1024
"""Endless lines are searched in pieces that overlap by this much: a longer match over a seam may be missed."""


@dataclass(frozen=True)
class LineMatch:
    """A line that matches: where it lies, and where in it the match does."""

    number: int
    start: int
    end: int
    match: tuple[int, int]


@dataclass(frozen=True)
class LineMatches:
    hits: list[LineMatch]
    """From the line asked for on, as many as were asked for."""

    total: int
    """Matching lines in the whole text."""

    counted_all: bool


def compiled(pattern: str, *, ignore_case: bool = False) -> re2._Regexp:
    """A pattern that stays within lines.

    Raises:
        InputError: It is not one; says where the mistake is.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise InputError(f"The pattern has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are allowed.")
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.max_mem = 2 << 20
    options.case_sensitive = not ignore_case
    try:
        re2.compile(pattern.encode("utf-8", "replace"), options)
        # Alone first: only what is a pattern by itself may stand in the group that makes ^ and $ mean the line.
        return re2.compile(b"(?m:" + pattern.encode("utf-8", "replace") + b")", options)
    except re2.error as problem:
        reason = (
            problem.args[0].decode("utf-8", "replace")
            if problem.args and isinstance(problem.args[0], bytes)
            else str(problem)
        )
        raise InputError(
            f"The pattern {pattern[:200]!r} is not a valid re2 expression: {reason}. "
            "Lookaround and backreferences do not exist; escape ( [ { . * + ? | with a backslash to mean them."
        ) from None


def find_lines(
    text: bytes, pattern: str, *, ignore_case: bool = False, from_line: int = 1, limit: int = 100, seconds: float = 5.0
) -> LineMatches:
    """Raises:
    InputError: The pattern is wrong, or too expensive on this text.
    """
    expression = compiled(pattern, ignore_case=ignore_case)
    ends = time.monotonic() + seconds
    hits: list[LineMatch] = []
    total = 0
    number, counted_to = 1, 0
    for start, end, match in _matches(text, expression, lambda: _check(ends, seconds)):
        number += text.count(b"\n", counted_to, start)
        counted_to = start
        total += 1
        if number >= from_line and len(hits) < limit:
            hits.append(LineMatch(number, start, end, match))
        if total >= MOST_COUNTED and len(hits) >= limit:
            return LineMatches(hits, total, counted_all=False)
    return LineMatches(hits, total, counted_all=True)


def _check(ends: float, seconds: float) -> None:
    if time.monotonic() > ends:
        raise InputError(
            f"The pattern is too expensive: the search took more than {seconds:g} s. Use fewer repetitions."
        )


def _matches(
    text: bytes, expression: re2._Regexp, check: Callable[[], None]
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Each matching line once: its start, its end, and the first match in it."""
    at = 0
    while at < len(text):
        check()
        stop, following = _stretch(text, at)
        match = expression.search(text, at, stop)
        if match is None:
            at = following
            continue
        start = text.rfind(b"\n", 0, match.start()) + 1
        end = text.find(b"\n", match.start())
        end = len(text) if end < 0 else end
        if start == len(text):
            return  # An empty match behind the last line break: there is no line.
        yield start, end, match.span()
        at = end + 1


def _stretch(text: bytes, at: int) -> tuple[int, int]:
    """Where to search up to, and where to go on: after a whole line if one ends soon enough."""
    if len(text) - at <= _STRETCH:
        return len(text), len(text)
    end = text.find(b"\n", at + _STRETCH, at + _LONGEST_STRETCH)
    if end >= 0:
        return end, end + 1
    end = min(len(text), at + _STRETCH)
    return end, end if end == len(text) else end - _OVERLAP
