"""Bytes given to the library are read as the command line reads files."""

from collections.abc import Callable
from pathlib import Path

import pytest

import tersely
from tersely.cli.inputs import read_inputs
from tersely.errors import InputError

LOG = "10:00:00 INFO Größe der Anfrage: 5 µs, Prüfung läuft\n" * 30
OTHER = ("Соединение с базой данных потеряно\n" * 40).encode("cp1251")
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252"])
@pytest.mark.parametrize("holder", [bytes, bytearray, memoryview])
def test_bytes_are_condensed_as_their_text(encoding: str, holder: Callable[[bytes], object]) -> None:
    condensed = tersely.condense(holder(LOG.encode(encoding)), 200)
    assert condensed == tersely.condense(LOG, 200)
    assert "Größe" in condensed.text


def test_bytes_are_masked_as_their_text() -> None:
    assert tersely.mask("Prüfung läuft: password=Walnut-91x".encode("cp1252")) == tersely.mask(
        "Prüfung läuft: password=Walnut-91x"
    )


@pytest.mark.parametrize("data", [OTHER, PICTURE], ids=["another encoding", "binary data"])
@pytest.mark.parametrize("take", [tersely.condense, tersely.mask])
def test_other_bytes_are_refused_as_by_the_command(
    data: bytes, take: Callable[[bytes], object], tmp_path: Path
) -> None:
    file = tmp_path / "input"
    file.write_bytes(data)
    with pytest.raises(InputError, match=f"{len(data):,} bytes") as refused:
        take(data)
    with pytest.raises(InputError) as refused_file:
        read_inputs([str(file)], verb="condense", example="")
    assert str(refused_file.value) == f"{file}: {refused.value}"
