"""What a command writes: both streams, apart and in the order of time, in bounded memory.

Lines stay whole: where the streams alternate, a line is placed where it ended. The first
megabytes are kept in memory, more of them in a file without a name, and of an output
beyond that the end; how much is missing between them is known.
"""

import os
from array import array
from collections import deque

OUT, ERR = 0, 1

IN_MEMORY = 1 * 2**20
MOST_HEAD = 24 * 2**20
MOST_TAIL = 8 * 2**20
_MOST_RUNS = 1_000_000
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
        self._stored = 0
        self._runs = array("q")
        """Bytes of each run of one stream, doubled; odd for the second stream."""
        self._tail: deque[Piece] = deque()
        self._tail_size = 0
        self.dropped = 0
        """Bytes between head and tail that were not kept."""
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
        for stream in (OUT, ERR):
            if self._unfinished[stream]:
                self._place(stream, self._unfinished[stream])
        head = self._head()
        pieces: list[Piece] = []
        at = 0
        for run in self._runs:
            size = run >> 1
            pieces.append((run & 1, head[at : at + size]))
            at += size
        if self.dropped:
            # Not in the form of our notes, which are demoted inside of an output.
            pieces.append((OUT, b"(%d bytes of the output are missing here)\n" % self.dropped))
        pieces += self._tail
        if self._file >= 0:
            os.close(self._file)
        self.__init__(self._folder)  # type: ignore[misc]
        return pieces

    def _place(self, stream: int, data: bytes) -> None:
        if self._tail or self._stored + len(data) > MOST_HEAD or len(self._runs) > _MOST_RUNS:
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
        if len(self._buffer) > IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        if self._file < 0:
            path = os.path.join(self._folder, f"tersely-{os.getpid()}-{os.urandom(6).hex()}")  # noqa: PTH118
            try:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                os.unlink(path)  # noqa: PTH108
            except OSError:
                return  # Without room for files, up to `MOST_HEAD` stays in memory.
        view = memoryview(bytes(self._buffer))
        try:
            while view:
                view = view[os.write(self._file, view) :]
        except OSError:
            # The disk is full: what was written is read back, the rest stays in memory.
            self._buffer = bytearray(view)
            return
        self._buffer.clear()

    def _head(self) -> bytes:
        if self._file < 0:
            return bytes(self._buffer)
        size = os.lseek(self._file, 0, os.SEEK_CUR)
        parts, at = [], 0
        while at < size and (part := os.pread(self._file, min(size - at, 2**20), at)):
            parts.append(part)
            at += len(part)
        return b"".join((*parts, bytes(self._buffer)))


def _is_binary(data: bytes) -> bool:
    """Whether data is no text in any encoding we know; a zero byte alone is no reason to pass a text unmasked."""
    from tersely.errors import InputError
    from tersely.text.decoding import decoded

    try:
        decoded(data)
    except InputError:
        return True
    return False
