"""Storage format of a text: compressed in frames, with an index.

Each frame has a quarter of a megabyte and is compressed separately, and the index has
its start in the text, in the packed bytes and in lines. So reading a page in the middle
of 30 MB decompresses one or two frames.

Pure functions over bytes; `store.results` stores them.
"""

import hashlib
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

FRAME_BYTES = 256 * 1024
_LEVEL = 4
"""Twice as fast as zlib's default, for a few percent of size."""

_ENTRY = struct.Struct("<QQQ")


def storable(text: str) -> str:
    """Replace NULs and lone surrogates, which databases refuse; for callers that skip `clean`."""
    if text.isascii():
        return text.replace("\x00", "\ufffd") if "\x00" in text else text
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\x00", "\ufffd")


@dataclass(frozen=True)
class PackedText:
    sha256: str
    """Of the bytes before packing: the key of the blob."""

    data: bytes
    frames: bytes
    """The index, see `Frames`."""

    size: int
    lines: int


def pack(content: bytes) -> PackedText:
    return pack_frames(content[start : start + FRAME_BYTES] for start in range(0, len(content), FRAME_BYTES))


def pack_frames(blocks: Iterable[bytes]) -> PackedText:
    """Pack a text that comes in blocks, each of about `FRAME_BYTES`, in the memory of one of them."""
    pieces: list[bytes] = []
    entries: list[bytes] = []
    size = packed = breaks = 0
    digest = hashlib.sha256()
    last = b""
    for block in filter(None, blocks):
        piece = zlib.compress(block, _LEVEL)
        entries.append(_ENTRY.pack(size, packed, breaks))
        pieces.append(piece)
        digest.update(block)
        size += len(block)
        packed += len(piece)
        breaks += block.count(b"\n")
        last = block[-1:]
    entries.append(_ENTRY.pack(size, packed, breaks))
    return PackedText(
        sha256=digest.hexdigest(),
        data=b"".join(pieces),
        frames=b"".join(entries),
        size=size,
        lines=breaks + (last not in (b"", b"\n")),
    )


@dataclass(frozen=True)
class Frames:
    """The start of each frame; the last entry is the end."""

    starts: list[int]
    packed: list[int]
    breaks: list[int]
    """Line breaks before the frame."""

    @classmethod
    def read(cls, index: bytes) -> "Frames":
        starts, packed, breaks = zip(*_ENTRY.iter_unpack(index), strict=True)
        return cls(list(starts), list(packed), list(breaks))

    @property
    def size(self) -> int:
        return self.starts[-1]

    def covering(self, start: int, end: int) -> range:
        """The frames that contain these bytes."""
        if start >= min(end, self.size):
            return range(0)
        return range(bisect_right(self.starts, start) - 1, bisect_right(self.starts, min(end, self.size) - 1))

    def break_frame(self, number: int) -> int | None:
        """The frame that contains this line break (the first is 1); None if there are fewer."""
        if number > self.breaks[-1]:
            return None
        return next(at for at, (_, through) in enumerate(pairwise(self.breaks)) if through >= number)

    def span(self, frames: range) -> tuple[int, int]:
        """Start and end of these frames in the packed bytes."""
        return self.packed[frames.start], self.packed[frames.stop]

    def unpacked(self, data: bytes, frames: range) -> Iterator[bytes]:
        """The content of the frames, one by one; `data` has the packed bytes of `span`."""
        base = self.packed[frames.start] if frames else 0
        view = memoryview(data)
        for at in frames:
            yield zlib.decompress(view[self.packed[at] - base : self.packed[at + 1] - base], bufsize=FRAME_BYTES)


def unpack(data: bytes, frames: Frames, start: int, end: int) -> bytes:
    """Bytes `start` to `end` of the content; `data` has the packed frames that cover them."""
    covering = frames.covering(start, end)
    if not covering:
        return b""
    pieces = list(frames.unpacked(data, covering))
    skipped = frames.starts[covering.start]
    if len(pieces) == 1:
        return pieces[0][start - skipped : end - skipped]
    pieces[0] = pieces[0][start - skipped :]
    last = frames.starts[covering.stop - 1]
    pieces[-1] = pieces[-1][: end - last]
    return b"".join(pieces)
