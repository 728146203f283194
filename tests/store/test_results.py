"""What is kept, for whom and for how long, on both databases."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import pytest
import sqlalchemy as sa

from tersely.errors import ResultExpired, ResultNotFound
from tersely.store import results
from tersely.store.database import Database
from tersely.store.handles import new_handle
from tersely.store.packing import pack, unpack
from tersely.store.results import KeptResult, Origin
from tersely.store.tables import blobs, kept_results

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
DAY = timedelta(days=1)
CALL = Origin(server="cluster", tool="get_pods", arguments={"namespace": "shop"}, called_at=NOON)


async def keep(database: Database, text: str, *, scope: str = "user:1", now: datetime = NOON, **other: Any) -> str:
    fields: dict[str, Any] = {
        "origin": CALL,
        "kind": "text",
        "mime_type": "text/plain",
        "part": 0,
        "tokens": 3,
        "encoding": "o200k_base",
    }
    async with database.transaction() as db:
        return await results.keep(
            db, pack(text.encode()), scope=scope, now=now, **{"retention": DAY, **fields, **other}
        )


async def find(database: Database, handle: str, *, scope: str = "user:1", now: datetime = NOON) -> KeptResult:
    async with database.reading() as db:
        return await results.find(db, handle, scope=scope, now=now)


async def read(database: Database, handle: str) -> str:
    result = await find(database, handle)
    async with database.reading() as db:
        covering = result.frames.covering(0, result.size)
        data = await results.packed_range(db, result, covering)
    return unpack(data, result.frames, 0, result.size).decode()


async def count(database: Database, table: sa.Table) -> int:
    async with database.reading() as db:
        return int(await db.scalar(sa.select(sa.func.count()).select_from(table)) or 0)


async def sweep(database: Database, *, now: datetime, max_bytes: int = 10**9, limit: int = 500) -> results.Swept:
    async with database.transaction() as db:
        return await results.sweep(db, now=now, max_bytes=max_bytes, limit=limit)


async def test_what_was_kept_is_found_with_everything_known_of_it(database: Database) -> None:
    handle = await keep(database, "one\ntwo é\n", part=2, kind="structured", mime_type="application/json")
    assert re.fullmatch(r"r_[0-9a-hjkmnp-tv-z]{16}", handle)
    found = await find(database, handle)
    assert (found.size, found.lines, found.part, found.kind, found.tokens, found.encoding) == (
        11,
        2,
        2,
        "structured",
        3,
        "o200k_base",
    )
    assert found.origin == CALL and found.expires_at == NOON + DAY and found.created_at.tzinfo is UTC
    assert await read(database, handle) == "one\ntwo é\n"


async def test_an_empty_result_can_be_kept(database: Database) -> None:
    found = await find(database, await keep(database, ""))
    assert (found.size, found.lines) == (0, 0)


async def test_the_same_content_from_the_same_call_has_one_handle_and_lives_longer(database: Database) -> None:
    first = await keep(database, "same")
    assert await keep(database, "same", now=NOON + DAY / 2) == first
    assert (await find(database, first, now=NOON + DAY)).expires_at == NOON + 1.5 * DAY


async def test_keeping_again_for_a_shorter_time_takes_nothing_away(database: Database) -> None:
    first = await keep(database, "same")
    await keep(database, "same", retention=DAY / 24)
    assert (await find(database, first)).expires_at == NOON + DAY


@pytest.mark.parametrize(
    "other",
    [
        {"scope": "user:2"},
        {"part": 1},
        {"kind": "structured"},
        {"origin": Origin(server="cluster", tool="get_pods", arguments={"namespace": "bank"}, called_at=NOON)},
    ],
)
async def test_another_scope_part_or_call_has_a_handle_of_its_own_over_the_same_blob(
    database: Database, other: dict[str, Any]
) -> None:
    assert await keep(database, "same") != await keep(database, "same", **other)
    assert await count(database, blobs) == 1 and await count(database, kept_results) == 2


async def test_another_scopes_handle_is_not_found_in_the_words_for_one_that_never_was(database: Database) -> None:
    handle = await keep(database, "mine")
    with pytest.raises(ResultNotFound) as others:
        await find(database, handle, scope="user:2")
    never = new_handle()
    with pytest.raises(ResultNotFound) as nobodys:
        await find(database, never)
    assert str(others.value).replace(handle, "") == str(nobodys.value).replace(never, "")


@pytest.mark.parametrize(
    "forged", ["", "r_", "r_\x00", "r_\ud800", "r_' OR 1=1 --", "r_%", "R_" + "0" * 16, "r_" + "0" * 100_000]
)
async def test_a_forged_handle_is_not_found(database: Database, forged: str) -> None:
    await keep(database, "mine")
    with pytest.raises(ResultNotFound):
        await find(database, forged)


@pytest.mark.parametrize("swept", [False, True])
async def test_an_expired_result_says_when_it_went_and_what_was_called(database: Database, swept: bool) -> None:
    handle = await keep(database, "old")
    if swept:
        assert (await sweep(database, now=NOON + 2 * DAY)).expired == 1
        assert await count(database, blobs) == 0
    with pytest.raises(
        ResultExpired, match=r'expired at 2026-11-16 12:00 UTC.*cluster\.get_pods \{"namespace": "shop"\}'
    ):
        await find(database, handle, now=NOON + 3 * DAY)
    with pytest.raises(ResultNotFound):
        await find(database, handle, scope="user:2", now=NOON + 3 * DAY)


async def test_a_tombstone_is_forgotten_in_the_end(database: Database) -> None:
    handle = await keep(database, "old")
    await sweep(database, now=NOON + 2 * DAY)
    await sweep(database, now=NOON + 32 * DAY)
    with pytest.raises(ResultNotFound):
        await find(database, handle, now=NOON + 32 * DAY)


async def test_content_kept_again_after_it_expired_has_a_new_handle(database: Database) -> None:
    first = await keep(database, "again")
    await sweep(database, now=NOON + 2 * DAY)
    second = await keep(database, "again", now=NOON + 2 * DAY)
    assert second != first and (await find(database, second, now=NOON + 2 * DAY)).size == 5


async def test_a_blob_dies_with_its_last_result(database: Database) -> None:
    short = await keep(database, "shared", retention=DAY)
    long = await keep(database, "shared", scope="user:2", retention=3 * DAY)
    assert (await sweep(database, now=NOON + 2 * DAY)).freed == 0
    assert (await find(database, long, scope="user:2", now=NOON + 2 * DAY)).size == 6
    with pytest.raises(ResultExpired):
        await find(database, short, now=NOON + 2 * DAY)
    assert (await sweep(database, now=NOON + 4 * DAY)).freed > 0
    assert await count(database, blobs) == 0


async def test_too_much_is_made_room_for_oldest_first(database: Database) -> None:
    texts = [f"{number} " * 2000 for number in range(6)]
    handles = [await keep(database, text, now=NOON + timedelta(minutes=number)) for number, text in enumerate(texts)]
    sizes = [len(pack(text.encode()).data) for text in texts]
    await keep(database, texts[0], now=NOON + timedelta(minutes=10))  # kept again: the youngest now
    done = await sweep(database, now=NOON + DAY / 2, max_bytes=sum(sizes) - sizes[1] - 1)
    assert (done.expired, done.freed, done.more) == (2, sizes[1] + sizes[2], False)
    for gone in handles[1:3]:
        with pytest.raises(ResultExpired, match="2026-11-16 00:00 UTC"):
            await find(database, gone, now=NOON + DAY / 2)
    for there in (handles[0], *handles[3:]):
        await find(database, there, now=NOON + DAY / 2)


async def test_a_sweep_is_bounded_and_says_that_there_is_more(database: Database) -> None:
    for number in range(5):
        await keep(database, f"text {number}")
    done = [await sweep(database, now=NOON + 2 * DAY, limit=2) for _ in range(4)]
    assert [(one.expired, one.more) for one in done] == [(2, True), (2, True), (1, False), (0, False)]
    for number in range(5):
        await keep(database, f"text {number}")
    done = [await sweep(database, now=NOON, max_bytes=0, limit=2) for _ in range(4)]
    assert [(one.expired, one.more) for one in done] == [(2, True), (2, True), (1, False), (0, False)]


async def test_content_that_nobody_keeps_is_swept_however_it_came_about(database: Database) -> None:
    await keep(database, "kept")
    async with database.transaction() as db:
        await db.execute(
            sa.insert(blobs).values(sha256="0" * 64, data=b"x", frames=b"", size=1, packed_size=1, lines=1)
        )
    assert (await sweep(database, now=NOON)).freed == 1
    assert await count(database, blobs) == 1


async def test_a_scope_can_be_forgotten_without_touching_another(database: Database) -> None:
    await keep(database, "shared")
    await keep(database, "alone")
    others = await keep(database, "shared", scope="session:2")
    async with database.transaction() as db:
        assert await results.forget(db, scope="user:1") == 2
    assert await count(database, kept_results) == 1 == await count(database, blobs)
    assert (await find(database, others, scope="session:2")).size == 6


async def test_a_scopes_results_are_listed_in_pages_the_youngest_first(database: Database) -> None:
    handles = [await keep(database, f"text {number}", now=NOON + timedelta(minutes=number // 2)) for number in range(5)]
    await keep(database, "not mine", scope="user:2")
    seen: list[KeptResult] = []
    while True:
        async with database.reading() as db:
            before = (seen[-1].created_at, seen[-1].handle) if seen else None
            page = await results.listed(db, scope="user:1", now=NOON + timedelta(hours=1), before=before, limit=2)
        if not page:
            break
        seen += page
    assert {result.handle for result in seen} == set(handles) and len(seen) == 5
    assert [result.created_at for result in seen] == sorted((result.created_at for result in seen), reverse=True)


async def test_nuls_and_half_characters_anywhere_do_not_stop_the_keeping(database: Database) -> None:
    bad = "a\x00b\ud800"
    origin = Origin(server=bad, tool=bad, arguments={bad: [bad, 1]}, called_at=NOON)
    handle = await keep(database, "x\x00y", scope=bad, origin=origin, mime_type=bad)
    found = await find(database, handle, scope=bad)
    assert found.origin.arguments == {bad: [bad, 1]} and found.size == 3


async def test_only_the_frames_asked_for_leave_the_database(database: Database) -> None:
    text = "".join(f"{number:07d}\n" for number in range(200_000))
    result = await find(database, await keep(database, text))
    assert len(result.frames.starts) > 5
    async with database.reading() as db:
        covering = result.frames.covering(800_000, 800_016)
        data = await results.packed_range(db, result, covering)
    assert len(data) < sum(result.frames.packed[-1:]) / 3
    assert unpack(data, result.frames, 800_000, 800_016).decode() == "0100000\n0100001\n"


async def test_keeping_and_sweeping_the_same_content_at_once_never_loses_what_was_just_kept(database: Database) -> None:
    """On PostgreSQL both run at the same time; the blob must not be taken from under a keeper."""

    async def keeper(name: str) -> None:
        for number in range(12):
            await keep(database, "contested", scope=name, now=NOON + number * 3 * DAY)

    async def sweeper() -> None:
        for number in range(24):
            await sweep(database, now=NOON + number * DAY)

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b", "c"):
            tasks.start_soon(keeper, name)
        tasks.start_soon(sweeper)
    final = await keep(database, "contested", scope="z", now=NOON)
    assert (await find(database, final, scope="z")).size == 9


async def test_a_blob_that_somebody_is_about_to_keep_is_not_swept(postgresql_url: str) -> None:
    """SQLite's writers queue, so only PostgreSQL could take it away in between."""
    await Database.migrate(postgresql_url)
    async with Database.open(postgresql_url) as database:
        await keep(database, "contested")
        async with database.transaction() as keeping:
            assert await results.has_blob(keeping, pack(b"contested").sha256)
            with anyio.fail_after(300):
                assert (await sweep(database, now=NOON + 2 * DAY)).freed == 0
            fields: dict[str, Any] = {
                "kind": "text",
                "mime_type": "",
                "part": 0,
                "tokens": 1,
                "encoding": "o200k_base",
                "retention": DAY,
            }
            handle = await results.keep(keeping, pack(b"contested"), scope="b", origin=CALL, now=NOON, **fields)
        assert (await find(database, handle, scope="b")).size == 9


KEEPER = """
import sys, json, anyio
from datetime import UTC, datetime, timedelta
from tersely.store import results
from tersely.store.handles import new_handle
from tersely.store.database import Database
from tersely.store.packing import pack

async def main(url, who):
    handles = []
    async with Database.open(url) as database:
        for number in range(30):
            text = f"shared {number}" if number % 2 else f"{who} {number}"
            origin = results.Origin(server="s", tool="t", arguments={}, called_at=datetime.now(UTC))
            async with database.transaction() as db:
                handles.append(await results.keep(db, pack(text.encode()), scope="both", origin=origin, kind="text",
                mime_type="text/plain",
                    part=0, tokens=1, encoding="o200k_base", now=datetime.now(UTC), retention=timedelta(days=1)))
    print(json.dumps(handles))

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.process
async def test_two_processes_keep_at_once_and_agree_on_what_they_share(database: Database, url: str) -> None:
    commands = [[sys.executable, "-c", KEEPER, url, who] for who in ("left", "right")]
    said: list[list[str]] = []

    async def run(command: list[str]) -> None:
        said.append(json.loads((await anyio.run_process(command)).stdout))

    with anyio.fail_after(300):
        async with anyio.create_task_group() as tasks:
            for command in commands:
                tasks.start_soon(run, command)
    left, right = said
    assert left[1::2] == right[1::2] and not set(left[::2]) & set(right[::2])
    assert await count(database, kept_results) == 45 == await count(database, blobs)
