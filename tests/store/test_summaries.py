"""The cache on disk: bounded, shared, and never in the way."""

import multiprocessing
import sqlite3
from pathlib import Path

import anyio
import pytest

from tersely.store.summaries import SummaryFile


async def test_what_was_put_comes_back_and_survives_the_process(tmp_path: Path) -> None:
    await SummaryFile(tmp_path / "s.db", max_bytes=2**20).put("k", "a summary with ünïcode and \ud800")
    assert await SummaryFile(tmp_path / "s.db", max_bytes=2**20).get("k") == "a summary with ünïcode and ?"
    assert await SummaryFile(tmp_path / "s.db", max_bytes=2**20).get("other") is None
    assert (tmp_path / "s.db").stat().st_mode & 0o077 == 0, "nobody else's business"


async def test_it_stays_within_its_size_and_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = SummaryFile(tmp_path / "s.db", max_bytes=200_000)
    draw = __import__("random").Random(1)
    await cache.put("first", "kept alive by use")
    for number in range(200):
        await cache.put(f"k{number}", "".join(chr(draw.randrange(32, 127)) for _ in range(4000)))
        assert await cache.get("first") == "kept alive by use"
    with sqlite3.connect(tmp_path / "s.db") as db:
        held = db.execute("SELECT sum(length(packed)) FROM summaries").fetchone()[0]
    db.close()
    assert held <= 220_000
    assert await cache.get("k0") is None and await cache.get("k199") is not None


async def test_a_broken_or_unwritable_file_costs_nothing_but_the_cache(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"this is no database" * 100)
    for path in (broken, Path("/proc/nowhere/s.db")):
        cache = SummaryFile(path, max_bytes=2**20)
        await cache.put("k", "x")
        assert await cache.get("k") is None


def _put_many(path: str, name: str) -> None:
    async def run() -> None:
        cache = SummaryFile(Path(path), max_bytes=2**24)
        for number in range(30):
            await cache.put(f"{name}{number}", name)

    anyio.run(run)


@pytest.mark.process
async def test_several_processes_share_one_file(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_put_many, args=(str(tmp_path / "s.db"), name)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        await anyio.to_thread.run_sync(worker.join)
    cache = SummaryFile(tmp_path / "s.db", max_bytes=2**24)
    assert [await cache.get(f"{name}{number}") for name in "ab" for number in range(30)] == ["a"] * 30 + ["b"] * 30
