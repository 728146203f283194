"""Texts that are too large for memory: read from a file in parts, and their lines one by one.

Imports only what is loaded anyway, because `tersely run` decides with these sizes about every output.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, overload

MOST_AT_ONCE = 32 * 2**20
"""Bytes of a text that are condensed in one piece; more in parts."""

MOST_SPOOLED = 256 * 2**20
"""Bytes of a text that are read at all."""

PART_BYTES = 8 * 2**20
"""Size of the parts in which a spooled text is processed. One needs about 200 MB of memory to condense."""

_BLOCK = 2**20


class BytesFile(Protocol):
    """What is needed of an open file."""

    def seek(self, offset: int, /) -> int: ...
    def read(self, size: int = -1, /) -> bytes: ...
    def close(self) -> None: ...


def _as_utf8(data: bytes) -> str:
    return data.decode("utf-8", "replace")


class SpooledText:
    """A text in a file that only this process can read.

    Args:
        size: In bytes.
        decode: Turns the bytes of a part into text.
    """

    def __init__(self, file: BytesFile, size: int, decode: Callable[[bytes], str] = _as_utf8) -> None:
        self.file = file
        self.size = size
        self._decode = decode

    def parts(self, part_bytes: int = PART_BYTES) -> Iterator[str]:
        """The text in parts of about this size, cut at line ends and never inside a key block. Reads as it goes."""
        self.file.seek(0)
        rest = b""
        while True:
            chunk = self.file.read(part_bytes)
            if not chunk:
                break
            rest += chunk
            if len(rest) < part_bytes:
                continue
            end = _cut(rest)
            yield self._decode(rest[:end])
            rest = rest[end:]
        if rest:
            yield self._decode(rest)

    def whole(self) -> str:
        self.file.seek(0)
        return self._decode(self.file.read())

    def close(self) -> None:
        self.file.close()


def _cut(text: bytes) -> int:
    """Where to cut: after the last line, before a private key that has not ended, and not inside a character."""
    end = text.rfind(b"\n") + 1
    if not end:
        end = len(text)
        while end > 1 and (text[end - 1] & 0xC0) == 0x80:
            end -= 1
        return max(1, end - 1) if text[end - 1] >= 0xC0 else end
    begun = text.rfind(b"-----BEGIN ", max(0, end - 65_536), end)
    if begun > 0 and text.find(b"-----END ", begun, end) < 0:
        end = text.rfind(b"\n", 0, begun) + 1 or end
    return end


class SpooledLines(Sequence[str]):
    """The lines of a UTF-8 text that is being written to a file; only where they begin is in memory.

    Args:
        file: Descriptor of the file; it stays open as long as lines are read.
        start: Where the text begins in it.
    """

    def __init__(self, file: int, start: int) -> None:
        self._file = file
        self._starts = array("Q")
        self._start = self._end = start
        self._begins = True
        """Whether the next byte begins a line."""

    def added(self, data: bytes) -> None:
        """Take note of bytes that were written after the last ones."""
        at = 0
        while at < len(data):
            if self._begins:
                self._starts.append(self._end + at)
            at = data.find(b"\n", at) + 1
            self._begins = at > 0
            if not at:
                break
        self._end += len(data)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if at < 0:
            at += len(self)
        start = self._starts[at]
        end = self._starts[at + 1] if at + 1 < len(self._starts) else self._end
        return _as_utf8(os.pread(self._file, end - start, start)).removesuffix("\n")

    def __iter__(self) -> Iterator[str]:
        at, rest = self._start, b""
        while at < self._end:
            block = os.pread(self._file, min(_BLOCK, self._end - at), at)
            if not block:
                break
            at += len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield from map(_as_utf8, lines)
        if rest:
            yield _as_utf8(rest)
