"""Positions in a text, for the finders of secrets.

`SecretSpan` is a span of the original, `View` a decoded copy that maps spans back to the
original, `MaskingDeadline` the time limit.
"""

import time
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from tersely.errors import MaskingFailed

_PATIENCE = 24
"""The wall-clock limit, as a multiple of the CPU time: two minutes for a small text."""

LOOK = 512
"""Bytes of a value that are read to decide whether it is a secret."""


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """The span of a secret. `quote`: quotes that a mark needs there, because the value (a JSON number) has none."""

    start: int
    end: int
    kind: str
    quote: bytes = b""


class MaskingDeadline:
    """Ends a search that takes too long. Nothing should; what cannot be masked in time is not let through unmasked.

    Counts the CPU time of the calling thread: a busy machine must not cost a result. Behind it is a wall-clock limit
    that only a thread that hardly runs at all reaches.
    """

    def __init__(self, seconds: float, *, wall_seconds: float | None = None) -> None:
        self._seconds = seconds
        self._wall_seconds = _PATIENCE * seconds if wall_seconds is None else wall_seconds
        self._end = time.thread_time() + seconds
        self._wall_end = time.monotonic() + self._wall_seconds
        self.memo: object = None
        """What finders of the same text share."""

    def check(self) -> None:
        if time.thread_time() > self._end:
            raise MaskingFailed(f"Masking took more than {self._seconds:g} s of CPU time; the text was dropped.")
        if time.monotonic() > self._wall_end:
            raise MaskingFailed(f"Masking took longer than {self._wall_seconds:g} s; the text was dropped.")


class View:
    """A decoded copy of a part of a text that maps each byte to its origin."""

    def __init__(self, text: bytes, start: int, end: int, changes: Iterable[tuple[int, int, bytes]]) -> None:
        pieces: list[bytes] = []
        self._view: list[int] = []
        self._source: list[tuple[int, int]] = []
        size, at = 0, start

        def add(piece: bytes, source_start: int, source_end: int) -> None:
            nonlocal size
            if piece:
                pieces.append(piece)
                self._view.append(size)
                self._source.append((source_start, source_end))
                size += len(piece)

        for change_start, change_end, replacement in changes:
            add(text[at:change_start], at, change_start)
            add(replacement, change_start, change_end)
            at = change_end
        add(text[at:end], at, end)
        self.text = b"".join(pieces)

    def source(self, span: SecretSpan) -> SecretSpan:
        first = bisect_right(self._view, span.start) - 1
        last = bisect_right(self._view, span.end - 1) - 1
        start, end = self._source[first][0], self._source[last][1]
        if self._is_verbatim(first):
            start += span.start - self._view[first]
        if self._is_verbatim(last):
            end = self._source[last][0] + span.end - self._view[last]
        return SecretSpan(start, end, span.kind, span.quote)

    def _is_verbatim(self, index: int) -> bool:
        following = self._view[index + 1] if index + 1 < len(self._view) else len(self.text)
        start, end = self._source[index]
        return following - self._view[index] == end - start
