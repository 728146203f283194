"""Regular-expression search over the lines of a text, in bounded time.

The matcher (re2) is linear in the text, but a hostile pattern can make each byte
cost a hundred microseconds, and a running search cannot be interrupted. So the
text is searched in segments, and the deadline is checked between them.

Pure functions over bytes without an event loop: call them in a thread.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import re2

from tersely.errors import InputError

LONGEST_PATTERN = 1_000
MOST_COUNTED = 100_000
"""Counting of matching lines stops here."""

_SEGMENT = 16 * 1024
_LONGEST_SEGMENT = 64 * 1024
_OVERLAP = 2 * 1024
"""Overlap of the segments of a very long line; a longer match across a segment boundary may be missed."""


@dataclass(frozen=True)
class LineMatch:
    """A matching line: its position in the text, and that of the first match in it."""

    number: int
    start: int
    end: int
    match: tuple[int, int]


@dataclass(frozen=True)
class LineMatches:
    hits: list[LineMatch]
    """From the requested line on, up to the requested number."""

    total: int
    """Matching lines in the whole text."""

    counted_all: bool


def compiled(pattern: str, *, ignore_case: bool = False) -> re2._Regexp:
    """Compile a pattern that matches within lines.

    Raises:
        InputError: The pattern is not valid; the message gives the reason.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise InputError(f"The pattern has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are allowed.")
    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.max_mem = 2 << 20
    options.case_sensitive = not ignore_case
    try:
        # First by itself, because the group could make an invalid pattern valid, e.g. `a)(b`.
        re2.compile(pattern.encode("utf-8", "replace"), options)
        # In the group ^ and $ match at line boundaries.
        return re2.compile(b"(?m:" + pattern.encode("utf-8", "replace") + b")", options)
    except re2.error as problem:
        reason = (
            problem.args[0].decode("utf-8", "replace")
            if problem.args and isinstance(problem.args[0], bytes)
            else str(problem)
        )
        raise InputError(
            f"The pattern {pattern[:200]!r} is not a valid re2 expression: {reason}. "
            "Lookaround and backreferences are not supported; escape literal ( [ { . * + ? | with a backslash."
        ) from None


def find_lines(
    text: bytes, pattern: str, *, ignore_case: bool = False, from_line: int = 1, limit: int = 100, seconds: float = 5.0
) -> LineMatches:
    """Find the lines that match a pattern, from `from_line` on.

    Raises:
        InputError: The pattern is not valid, or too expensive on this text.
    """
    expression = compiled(pattern, ignore_case=ignore_case)
    deadline = time.monotonic() + seconds
    hits: list[LineMatch] = []
    total = 0
    number, counted_to = 1, 0
    for start, end, match in _matches(text, expression, lambda: _check(deadline, seconds)):
        number += text.count(b"\n", counted_to, start)
        counted_to = start
        total += 1
        if number >= from_line and len(hits) < limit:
            hits.append(LineMatch(number, start, end, match))
        if total >= MOST_COUNTED and len(hits) >= limit:
            return LineMatches(hits, total, counted_all=False)
    return LineMatches(hits, total, counted_all=True)


def _check(deadline: float, seconds: float) -> None:
    if time.monotonic() > deadline:
        raise InputError(
            f"The pattern is too expensive: the search took more than {seconds:g} s. Use fewer repetitions."
        )


def _matches(
    text: bytes, expression: re2._Regexp, check: Callable[[], None]
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Yield each matching line once: its start, its end, and the span of the first match in it."""
    at = 0
    while at < len(text):
        check()
        stop, following = _segment(text, at)
        match = expression.search(text, at, stop)
        if match is None:
            at = following
            continue
        start = text.rfind(b"\n", 0, match.start()) + 1
        end = text.find(b"\n", match.start())
        end = len(text) if end < 0 else end
        if start == len(text):
            return  # An empty match after the last line break, where no line begins.
        yield start, end, match.span()
        at = end + 1


def _segment(text: bytes, at: int) -> tuple[int, int]:
    """The end of the segment that starts at `at`, and the start of the next; at a line end if one is near."""
    if len(text) - at <= _SEGMENT:
        return len(text), len(text)
    end = text.find(b"\n", at + _SEGMENT, at + _LONGEST_SEGMENT)
    if end >= 0:
        return end, end + 1
    end = min(len(text), at + _SEGMENT)
    return end, end if end == len(text) else end - _OVERLAP
