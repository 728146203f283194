"""Folders for data are their owner's only, whoever creates them and however deep."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tersely.masking.mask import Masker
from tersely.results.spool import spool_of
from tersely.store.private import masking_key, private_folder


def spooled(folder: Path) -> None:
    assert spool_of(str(folder), str(folder / "temporary")).write(Masker().mask("text"), server="s", tool="t")


def noted(folder: Path) -> None:
    masking_key(folder)


def nested(folder: Path) -> None:
    private_folder(folder / "a" / "b")


@pytest.mark.parametrize("create", [spooled, noted, nested])
def test_a_data_folder_is_private_whoever_creates_it(tmp_path: Path, create: Callable[[Path], None]) -> None:
    before = os.umask(0o022)
    try:
        create(tmp_path / "data")
    finally:
        os.umask(before)
    folders = [path for path in (tmp_path / "data", *(tmp_path / "data").rglob("*")) if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folders} == {0o700}
