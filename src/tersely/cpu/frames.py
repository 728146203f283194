"""Messages over a pipe: eight bytes of length, then the message."""

from typing import IO


def write_frame(stream: IO[bytes] | None, message: bytes) -> None:
    assert stream is not None
    stream.write(len(message).to_bytes(8, "big"))
    stream.write(message)
    stream.flush()


def read_frame(stream: IO[bytes] | None) -> bytes | None:
    """The next message; None at the end of the stream, also in the middle of a message."""
    assert stream is not None
    size = stream.read(8)
    if len(size) < 8:
        return None
    message = stream.read(length := int.from_bytes(size, "big"))
    return message if len(message) == length else None
