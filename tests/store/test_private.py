"""Folders for data are their owner's only, whoever creates them and however deep."""

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import tersely
from tersely.masking.mask import Masker
from tersely.mcp.logins import LoginStore
from tersely.results.spool import spool_of
from tersely.servers.gateway.frequent_tools import save_frequent
from tersely.store.database import Database
from tersely.store.private import masking_key, private_folder
from tersely.store.summaries import SummaryFile


def spooled(folder: Path) -> None:
    assert spool_of(str(folder), str(folder / "temporary")).write(Masker().mask("text"), server="s", tool="t")


def noted(folder: Path) -> None:
    masking_key(folder)


def opened(folder: Path) -> None:
    async def open_and_close() -> None:
        async with Database.open(f"sqlite:///{folder / 'tersely.db'}"):
            pass

    anyio.run(open_and_close)


def cached(folder: Path) -> None:
    summaries = SummaryFile(folder / "cache" / "summaries.db", max_bytes=10_000)
    anyio.run(summaries.put, "key", Masker().mask("text"))


def pinned(folder: Path) -> None:
    save_frequent(folder / "gateway", ["tool"])


def logged_in(folder: Path) -> None:
    async def lock() -> None:
        async with LoginStore(folder / "logins").locked("https://example.com"):
            pass

    anyio.run(lock)


def nested(folder: Path) -> None:
    private_folder(folder / "a" / "b")


@pytest.mark.parametrize("create", [spooled, noted, opened, cached, pinned, logged_in, nested])
def test_a_data_folder_is_private_whoever_creates_it(tmp_path: Path, create: Callable[[Path], None]) -> None:
    before = os.umask(0o022)
    try:
        create(tmp_path / "data")
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}


def test_no_other_code_creates_folders_for_data() -> None:
    source = Path(tersely.__file__).parent
    creates = {
        file.relative_to(source).as_posix()
        for file in source.rglob("*.py")
        if re.search(r"\b(?:mkdir|makedirs)\(", file.read_text("utf-8"))
    }
    results_for_people = {"cli/research.py"}
    settings_of_other_programs = {"cli/hook.py"}
    checks_its_owner_and_mode = {"coding/helper.py"}
    assert creates == {"store/private.py"} | results_for_people | settings_of_other_programs | checks_its_owner_and_mode
