"""Positions in a text, for the finders of secrets.

`SecretSpan` is a span of the original, `View` a decoded copy that maps spans back to the
original, `MaskingDeadline` the time limit.
"""

import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from tersely.errors import MaskingFailed

_PATIENCE = 24
"""The wall-clock limit, as a multiple of the CPU time: two minutes for a small text."""

LOOK = 512
"""Bytes of a value that are read to decide whether it is a secret."""


INERT = b"<"
"""Replaces what is known already during a search: no value begins with it, and every run ends at it."""


class SecretSpan(NamedTuple):
    """The span of a secret. `quote`: quotes that a mark needs there, because the value (a JSON number) has none."""

    start: int
    end: int
    kind: str
    quote: bytes = b""


_BRIEF = 0.01
"""Seconds after which the CPU time of a search in a small text is first asked for."""


class MaskingDeadline:
    """Ends a search that takes too long. Nothing should; what cannot be masked in time is not let through unmasked.

    Counts the CPU time of the calling thread: a busy machine must not cost a result. Behind it is a wall-clock limit
    that only a thread that hardly runs at all reaches.

    Args:
        is_small: The text is so small that its search has ended before the CPU time is asked for, a system call.
    """

    def __init__(self, seconds: float, *, wall_seconds: float | None = None, is_small: bool = False) -> None:
        self._seconds = seconds
        self._wall_seconds = _PATIENCE * seconds if wall_seconds is None else wall_seconds
        self._end = None if is_small else time.thread_time() + seconds
        self._began = time.monotonic()
        self._harmless_until = self._began + (_BRIEF if is_small else seconds)
        self._wall_end = self._began + self._wall_seconds
        self.memo: object = None
        """What finders of the same text share."""

    def check(self) -> None:
        # A thread cannot use more CPU time than passes, and asking for it is a system call.
        if (now := time.monotonic()) < min(self._harmless_until, self._wall_end):
            return
        if self._end is None:
            self._end = time.thread_time() - min(now - self._began, _BRIEF) + self._seconds
        if time.thread_time() > self._end:
            raise MaskingFailed(f"Masking took more than {self._seconds:g} s of CPU time; the text was dropped.")
        if now > self._wall_end:
            raise MaskingFailed(f"Masking took longer than {self._wall_seconds:g} s; the text was dropped.")


def line_start(text: bytes, at: int, reach: int) -> int:
    """Where the line of this place begins, or `reach` bytes before it in a long line."""
    lowest = max(0, at - reach)
    return text.rfind(b"\n", lowest, at) + 1 or lowest


def in_resource_name(text: bytes, at: int) -> bool:
    """Whether this place is inside of an `arn:…` or `urn:…`, whose parts are names."""
    if text[at - 1 : at] != b":":
        return False
    word = text[max(0, at - 100) : at].rsplit(None, 1)[-1]
    return b"arn:" in word or b"urn:" in word


GAP = b"\n\0\n"
"""Stands in a view for what was left out. No secret extends over it."""


class View:
    """Another spelling of a text, in parts, that maps spans back to the original.

    Args:
        source: The parts of the text, without anything between them.
        spelled: How the view spells each part.
        start: Where the first part begins in the text.
    """

    def __init__(self, source: Iterable[bytes], spelled: Sequence[bytes], start: int = 0) -> None:
        # Without a loop in Python: a hostile text has a part for every few bytes.
        self._source = list(accumulate(map(len, source), initial=start))
        self._view = list(accumulate(map(len, spelled), initial=0))
        self.text = b"".join(spelled)

    def source(self, span: SecretSpan) -> SecretSpan:
        first = bisect_right(self._view, span.start) - 1
        last = bisect_right(self._view, span.end - 1) - 1
        start, end = self._source[first], self._source[last + 1]
        if self._is_verbatim(first):
            start += span.start - self._view[first]
        if self._is_verbatim(last):
            end = self._source[last] + span.end - self._view[last]
        return SecretSpan(start, end, span.kind, span.quote)

    def sources(self, spans: Iterable[SecretSpan]) -> Iterator[SecretSpan]:
        """The spans in the original, without those that extend over a gap."""
        return (self.source(span) for span in spans if self.text.find(b"\0", span.start, span.end) < 0)

    def _is_verbatim(self, index: int) -> bool:
        return self._view[index + 1] - self._view[index] == self._source[index + 1] - self._source[index]
