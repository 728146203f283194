"""Results put away and read back, as the spine and the read-back tools use them."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tersely.errors import InputError, ResultExpired, ResultNotFound
from tersely.masking.mask import mask
from tersely.masking.masked import assume_masked
from tersely.results import kept as module
from tersely.results.kept import KeptResults, Origin, user_scope
from tersely.store import packing
from tersely.store import results as stored
from tersely.store.database import Database
from tersely.text.tokens import count_tokens

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
CALL = Origin(server="cluster", tool="get_pods", arguments={"namespace": "shop"}, called_at=NOON)
ME = "session:1"

texts = st.lists(st.sampled_from(["a", "é", "€", "😀", "\n", "\r\n", "\n\n", "word " * 4]), max_size=50).map("".join)
slow = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@asynccontextmanager
async def keeping(tmp_path: Path, **options: Any) -> AsyncIterator[KeptResults]:
    async with Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database:
        yield KeptResults(database, **options)


async def test_a_kept_text_comes_back_whole_with_its_tokens(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        text = mask("one\ntwo é password=hunter2\n" * 20_000)
        handle = await kept.keep(text, scope=ME, origin=CALL)
        assert await kept.load(handle, ME) == text
        found = await kept.find(handle, ME)
        assert (found.tokens, found.encoding, found.lines) == (count_tokens(text), "o200k_base", 40_000)


async def test_a_handle_can_be_given_with_or_without_its_prefix(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        handle = await kept.keep(mask("x"), scope=ME, origin=CALL)
        assert await kept.load(f"result:{handle}", ME) == "x"


def test_masking_leaves_handles_alone() -> None:
    """Every observation contains one, and a masked one could not be used."""
    handle = "r_0h3kq9x7v2m5c8dz"
    for text in (
        f"whole result: {handle}",
        f'{{"$result": "{handle}"}}',
        f"content=result:{handle}",
        f"read_result(handle={handle!r})",
    ):
        assert mask(text) == text


def in_one_loop(tmp_path: Path, story: Callable[[KeptResults], Any]) -> None:
    async def run() -> None:
        async with keeping(tmp_path) as kept:
            await story(kept)

    anyio.run(run)


@pytest.mark.slow
@slow
@given(text=texts, first=st.integers(1, 30), last=st.integers(1, 30))
def test_lines_equal_slicing_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, first: int, last: int
) -> None:
    monkeypatch.setattr(packing, "FRAME_BYTES", 16)

    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]

    async def sliced(kept: KeptResults) -> None:
        result = await kept.find(await kept.keep(assume_masked(text), scope=ME, origin=CALL), ME)
        assert await kept.read_lines(result, first, last) == "".join(lines[first - 1 : last])

    in_one_loop(tmp_path, sliced)


@pytest.mark.slow
@slow
@given(text=texts, edges=st.lists(st.integers(0, 200), min_size=2, max_size=5).map(sorted))
def test_bytes_equal_slicing_the_text_and_neighbours_neither_overlap_nor_lose_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, edges: list[int]
) -> None:
    monkeypatch.setattr(packing, "FRAME_BYTES", 16)
    raw = text.encode()

    def floor(at: int) -> int:
        at = min(at, len(raw))
        return at if at == len(raw) else len(raw[:at].decode(errors="ignore").encode())

    async def story(kept: KeptResults) -> None:
        result = await kept.find(await kept.keep(assume_masked(text), scope=ME, origin=CALL), ME)
        stretches = [await kept.read_stretch(result, start, end) for start, end in itertools.pairwise(edges)]
        assert "".join(stretch.text for stretch in stretches) == raw[floor(edges[0]) : floor(edges[-1])].decode()
        for stretch in stretches:
            if stretch.text:
                assert raw[stretch.start : stretch.end].decode() == stretch.text
                assert await kept.line_at(result, stretch.start) == raw[: stretch.start].count(b"\n") + 1

    in_one_loop(tmp_path, story)


async def test_the_same_result_kept_again_has_the_same_handle(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        assert await kept.keep(mask("x"), scope=ME, origin=CALL) == await kept.keep(mask("x"), scope=ME, origin=CALL)


async def test_an_image_is_handed_out_whole_and_never_as_text(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        picture = bytes(range(256)) * 10
        handle = await kept.keep_bytes(picture, scope=ME, origin=CALL, mime_type="image/png", kind="image")
        assert await kept.load_bytes(handle, ME) == (picture, "image/png")
        for attempt in (kept.load(handle, ME), kept.expand({"content": f"result:{handle}"}, ME)):
            with pytest.raises(InputError, match="is not text: image of type image/png, 2,560 bytes"):
                await attempt


async def test_handles_in_arguments_stand_for_the_whole_however_deep(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        page = await kept.keep(mask("the whole page"), scope=ME, origin=CALL)
        note = await kept.keep(mask("a note"), scope=ME, origin=CALL)
        arguments = {
            "content": f"result:{page}",
            "more": [{"deep": {"$result": note}}, f"see result:{page}", 7, None],
            "other": {"$result": page, "and": "something else"},
        }
        before = repr(arguments)
        assert await kept.expand(arguments, ME) == {
            "content": "the whole page",
            "more": [{"deep": "a note"}, f"see result:{page}", 7, None],
            "other": {"$result": page, "and": "something else"},
        }
        assert repr(arguments) == before, "the caller's arguments are left alone"


@pytest.mark.parametrize(
    "literal", ["result:r_squared", "result: r_0123456789abcdef", "Result:r_0123456789abcdef", "result:r_012345678abc."]
)
async def test_what_is_not_exactly_a_handle_is_just_a_string(tmp_path: Path, literal: str) -> None:
    async with keeping(tmp_path) as kept:
        assert await kept.expand([literal], ME) == [literal]


@pytest.mark.parametrize(
    "unknown", ["result:r_0123456789abcdef", {"$result": "r_0"}, {"$result": 7}, {"$result": None}]
)
async def test_a_handle_that_stands_for_nothing_is_said_and_never_passed_on(tmp_path: Path, unknown: Any) -> None:
    async with keeping(tmp_path) as kept:
        with pytest.raises(ResultNotFound, match="Call the tool again"):
            await kept.expand({"content": [unknown]}, ME)


async def test_another_scope_cannot_expand_a_handle(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        handle = await kept.keep(mask("mine"), scope=ME, origin=CALL)
        with pytest.raises(ResultNotFound):
            await kept.expand([f"result:{handle}"], "session:2")


async def test_handles_cannot_be_piled_up_into_a_flood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EXPANDED_BYTES", 1000)
    async with keeping(tmp_path) as kept:
        handle = await kept.keep(mask("x" * 300), scope=ME, origin=CALL)
        assert len(await kept.expand([f"result:{handle}"] * 3, ME)) == 3
        with pytest.raises(InputError, match="stand for 1,200 bytes"):
            await kept.expand([f"result:{handle}"] * 4, ME)


async def test_arguments_nested_without_end_are_refused(tmp_path: Path) -> None:
    nested: Any = "x"
    for _ in range(500):
        nested = [nested]
    async with keeping(tmp_path) as kept:
        with pytest.raises(InputError, match="nested"):
            await kept.expand(nested, ME)


async def test_keeping_sweeps_now_and_then_by_itself(tmp_path: Path) -> None:
    now = NOON
    async with keeping(tmp_path, retention=timedelta(hours=1), clock=lambda: now) as kept:
        handle = await kept.keep(mask("old"), scope=ME, origin=CALL)
        now = NOON + timedelta(hours=2)
        with pytest.raises(ResultExpired, match="13:00 UTC"):
            await kept.load(handle, ME)
        await kept.keep(mask("new"), scope=ME, origin=CALL)
        assert (await kept.sweep()).expired == 0, "there was nothing left to sweep"


async def test_too_much_is_let_go_as_fast_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep takes a bounded number; what is left is for the next result kept, not for the next five minutes."""
    now = NOON
    async with keeping(tmp_path, retention=timedelta(hours=1), clock=lambda: now) as kept:
        for number in range(12):
            await kept.keep(mask(f"text {number}"), scope=ME, origin=CALL)
        now = NOON + timedelta(hours=2)
        bounded = stored.sweep
        monkeypatch.setattr(stored, "sweep", lambda db, **options: bounded(db, **options, limit=5))
        for number in range(3):
            await kept.keep(mask(f"new {number}"), scope=ME, origin=CALL)
        assert (await kept.sweep()).expired == 0


async def test_results_are_listed_from_where_the_page_before_ended(tmp_path: Path) -> None:
    async with keeping(tmp_path) as kept:
        handles = {await kept.keep(mask(f"text {number}"), scope=ME, origin=CALL) for number in range(5)}
        first = await kept.list(ME, limit=3)
        rest = await kept.list(ME, after=first[-1].handle, limit=3)
        assert {result.handle for result in (*first, *rest)} == handles and len(rest) == 2
        assert await kept.forget(ME) == 5 and await kept.list(ME) == []


def test_the_users_scope_is_the_same_in_every_process() -> None:
    assert user_scope() == user_scope() and user_scope().startswith("user:")
