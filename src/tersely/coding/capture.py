"""What a command writes: both streams, apart and in the order of time, in bounded memory.

Lines stay whole: where the streams alternate, a line is placed where it ended. The first
megabyte is kept in memory, more in a file without a name, and of an output beyond
`MOST_SPOOLED` the end; how much is missing between them is known.
"""

import os
from array import array
from collections import deque
from collections.abc import Iterator

from tersely.text.spooled import MOST_AT_ONCE, MOST_SPOOLED

OUT, ERR = 0, 1

IN_MEMORY = 1 * 2**20
MOST_TAIL = MOST_AT_ONCE // 4
MOST_HEAD = MOST_AT_ONCE - MOST_TAIL
"""Of an output that is read in one piece, or that cannot be written to a file."""
_MOST_RUNS = 4_000_000
_LONGEST_LINE = 64 * 1024

Piece = tuple[int, bytes]


class Capture:
    """The output of one command.

    Args:
        folder: Where the file for large outputs is made.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._unfinished = [b"", b""]
        self._buffer = bytearray()
        self._file = -1
        self._written = 0
        """Bytes in the file."""
        self._stored = 0
        """Bytes in file and buffer."""
        self._is_full = False
        """Whether no more can be written to the file."""
        self._runs = array("q")
        """Bytes of each run of one stream, doubled; odd for the second stream."""
        self._tail: deque[Piece] = deque()
        self._tail_size = 0
        self.dropped = 0
        """Bytes between head and tail that were not kept."""
        self.most_spooled = MOST_SPOOLED - MOST_TAIL
        self.lines = 0
        self.is_binary = False

    def add(self, stream: int, data: bytes) -> None:
        if b"\0" in data and not self.is_binary:
            self.is_binary = _is_binary(data)
        self.lines += data.count(b"\n")
        end = data.rfind(b"\n") + 1
        if end:
            self._place(stream, self._unfinished[stream] + data[:end])
            self._unfinished[stream] = data[end:]
        else:
            self._unfinished[stream] += data
        if len(self._unfinished[stream]) > _LONGEST_LINE:
            self._place(stream, self._unfinished[stream])
            self._unfinished[stream] = b""

    def take(self) -> list[Piece]:
        """All that was written so far, in order; the capture is empty afterwards."""
        pieces = list(self.pieces())
        self.clear()
        return pieces

    def clear(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self.__init__(self._folder)  # type: ignore[misc]

    @property
    def size(self) -> int:
        return self._stored + self._tail_size + sum(map(len, self._unfinished))

    def leave_middle_out(self) -> None:
        """Keep of a large output only what is read in one piece: the beginning and the end."""
        smaller = Capture(self._folder)
        smaller.most_spooled = MOST_HEAD
        dropped, self.dropped = self.dropped, 0
        for stream, data in self.pieces():
            smaller._place(stream, data)
        if self._file >= 0:
            os.close(self._file)
        smaller.dropped += dropped
        self.__dict__.update(smaller.__dict__)

    def pieces(self, only: int | None = None) -> Iterator[Piece]:
        """All that was written so far, in order and in pieces of bounded size.

        Args:
            only: The stream whose output is wanted; both if None.
        """
        for stream in (OUT, ERR):
            if self._unfinished[stream]:
                self._place(stream, self._unfinished[stream])
                self._unfinished[stream] = b""
        start = 0
        for run in self._runs:
            stream, end = run & 1, start + (run >> 1)
            if only is None or stream == only:
                for at in range(start, end, IN_MEMORY):
                    yield stream, self._read(at, min(end, at + IN_MEMORY))
            start = end
        if self.dropped and only != ERR:
            # Not in the form of our notes, which are demoted inside of an output.
            yield OUT, b"(%d bytes of the output are missing here)\n" % self.dropped
        yield from (piece for piece in self._tail if only is None or piece[0] == only)

    def size_of(self, only: int | None) -> int:
        """Bytes of one stream, or of both for None."""
        if only is None:
            return self.size
        stored = sum(run >> 1 for run in self._runs if run & 1 == only)
        return stored + sum(len(data) for stream, data in self._tail if stream == only) + len(self._unfinished[only])

    def _read(self, start: int, end: int) -> bytes:
        data = b""
        on_disk = min(end, self._written)
        while start < on_disk and (part := os.pread(self._file, on_disk - start, start)):
            data += part
            start += len(part)
        return data + bytes(self._buffer[start - self._written : end - self._written]) if start < end else data

    def _place(self, stream: int, data: bytes) -> None:
        is_full = self._stored + len(data) > (MOST_HEAD + self._written if self._is_full else self.most_spooled)
        if self._tail or is_full or len(self._runs) > _MOST_RUNS:
            self._tail.append((stream, data))
            self._tail_size += len(data)
            while self._tail_size > MOST_TAIL and len(self._tail) > 1:
                gone = len(self._tail.popleft()[1])
                self._tail_size -= gone
                self.dropped += gone
            return
        self._stored += len(data)
        if self._runs and self._runs[-1] & 1 == stream:
            self._runs[-1] += len(data) << 1
        else:
            self._runs.append(len(data) << 1 | stream)
        self._buffer += data
        if len(self._buffer) > IN_MEMORY and not self._is_full:
            self._flush()

    def _flush(self) -> None:
        if self._file < 0:
            path = os.path.join(self._folder, f"tersely-{os.getpid()}-{os.urandom(6).hex()}")  # noqa: PTH118
            try:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                os.unlink(path)  # noqa: PTH108
            except OSError:
                self._is_full = True  # Without room for files, up to `MOST_HEAD` stays in memory.
                return
        view = memoryview(bytes(self._buffer))
        try:
            while view:
                written = os.write(self._file, view)
                self._written += written
                view = view[written:]
        except OSError:
            # The disk is full: what was written is read back, the rest stays in memory.
            self._is_full = True
            self._buffer = bytearray(view)
            return
        self._buffer.clear()


class CapturedText:
    """What a capture has of one stream, or of both for None, as an open file."""

    def __init__(self, capture: Capture, only: int | None) -> None:
        self._capture = capture
        self._only = only
        self._pieces = capture.pieces(only)
        self._rest = b""

    def seek(self, offset: int, /) -> int:
        """Return to the beginning, the only place that is known."""
        self._pieces = self._capture.pieces(self._only)
        self._rest = b""
        return 0

    def read(self, size: int = -1, /) -> bytes:
        parts = [self._rest]
        have = len(self._rest)
        while size < 0 or have < size:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece[1])
            have += len(piece[1])
        data = b"".join(parts)
        end = have if size < 0 else size
        self._rest = data[end:]
        return data[:end]

    def close(self) -> None:
        self._rest = b""


def _is_binary(data: bytes) -> bool:
    """Whether data is no text in any encoding we know; a zero byte alone is no reason to pass a text unmasked."""
    from tersely.errors import InputError
    from tersely.text.decoding import decoded

    try:
        decoded(data)
    except InputError:
        return True
    return False
