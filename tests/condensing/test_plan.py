"""The solver, over all sizes."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tersely.condensing.summarize.plan import LABEL_TOKENS, Room, chunk_tokens, headroom, plan_merges, shares
from tersely.errors import LLMMisconfigured


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    window=st.integers(4096, 1_000_000),
    output_cap=st.integers(256, 64_000),
    target=st.integers(16, 1_000_000),
    parts=st.integers(1, 100_000),
    frame=st.integers(200, 900),
    conversation=st.integers(0, 1_000_000),
    wanted=st.one_of(st.none(), st.integers(256, 50_000)),
)
def test_every_merge_fits_the_window_every_row_shrinks_and_the_last_is_one_within_the_target(
    window: int, output_cap: int, target: int, parts: int, frame: int, conversation: int, wanted: int | None
) -> None:
    last_frame = frame + min(conversation, window // 4)
    room = Room.beside(last_frame, window=window, output_cap=output_cap)
    chunk = chunk_tokens(room, target=target, frame=frame, wanted=wanted)
    assert frame + chunk + headroom(min(target, room.longest_answer)) <= window
    merges = plan_merges(room, parts=parts, chunk=chunk, target=target, frame=frame, last_frame=last_frame)

    assert headroom(merges.part) <= max(output_cap, headroom(16))
    count, size = parts, merges.part
    for level in merges.levels:
        assert level.groups < count, "rows get shorter, so there is an end"
        largest_group = math.ceil(count / level.groups)
        around = last_frame if level is merges.levels[-1] else frame
        assert around + largest_group * (size + LABEL_TOKENS) + headroom(level.answer) <= window
        assert level.groups * level.answer < count * size or level is merges.levels[-1]
        count, size = level.groups, level.answer
    assert count == 1 and size <= max(target, 16), "the last call sees everything"
    assert len(merges.levels) <= 17


@settings(max_examples=1000)
@given(count=st.integers(1, 500), groups=st.integers(1, 100))
def test_shares_are_neighbours_without_gap_and_nearly_equal(count: int, groups: int) -> None:
    groups = min(groups, count)
    runs = shares(count, groups)
    assert [index for run in runs for index in run] == list(range(count))
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_a_window_that_holds_nothing_is_the_operators_to_mend() -> None:
    with pytest.raises(LLMMisconfigured, match="LLM_CONTEXT_WINDOW"):
        chunk_tokens(Room(window=600, longest_answer=100), target=100, frame=400, wanted=8000)
