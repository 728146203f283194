"""Bytes in frames: what comes out is what went in, whichever part is asked for."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tersely.store import packing
from tersely.store.packing import Frames, pack, storable, unpack

contents = st.lists(st.sampled_from([b"a", b"\n", b"\r\n", "é€😀".encode(), b"\x00", b"word " * 5]), max_size=60).map(
    b"".join
)


@pytest.fixture(autouse=True)
def _small_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "FRAME_BYTES", 16)


def part(data: bytes, frames: Frames, start: int, end: int) -> bytes:
    """As the store reads it: only the frames that cover the range."""
    covering = frames.covering(start, end)
    first, last = frames.span(covering) if covering else (0, 0)
    return unpack(data[first:last], frames, start, end)


@given(contents, st.integers(0, 400), st.integers(0, 400))
def test_any_range_equals_the_slice(content: bytes, start: int, end: int) -> None:
    packed = pack(content)
    assert part(packed.data, Frames.read(packed.frames), start, end) == content[start:end]


@given(contents)
def test_size_lines_and_address_are_those_of_the_content(content: bytes) -> None:
    packed = pack(content)
    assert packed.size == len(content) == Frames.read(packed.frames).size
    assert packed.lines == len(content.decode().split("\n")) - (content.endswith(b"\n") or not content)
    assert packed.sha256 == hashlib.sha256(content).hexdigest()


@given(contents, st.integers(1, 70))
def test_a_line_break_is_looked_for_in_the_frame_that_has_it(content: bytes, number: int) -> None:
    frames = Frames.read(pack(content).frames)
    at = frames.break_frame(number)
    if at is None:
        assert content.count(b"\n") < number
    else:
        before, through = content[: frames.starts[at]].count(b"\n"), content[: frames.starts[at + 1]].count(b"\n")
        assert before < number <= through


@given(st.text(st.sampled_from("aé😀\x00\ud800\udfff\n")))
def test_what_is_stored_can_be_encoded_and_has_no_nul(text: str) -> None:
    stored = storable(text)
    assert "\x00" not in stored
    stored.encode()
    if not any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in text):
        assert stored == text
