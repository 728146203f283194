"""An own data folder for each test, and a log with one line that matters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tersely.integrations import condenser

LOG = "".join(f"2026-11-15T10:{n // 60 % 60:02d}:{n % 60:02d}Z INFO api GET /cart/{n} 200\n" for n in range(2_000))
NEEDLE = "ERROR payments card declined by issuer 4711"
SECRET = "AKIAQX3TN7VKLPZ2W6JD"
LARGE = f"{LOG}2026-11-15T10:33:20Z {NEEDLE}\n{LOG}aws_access_key_id = {SECRET}\n"


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TERSELY_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("TERSELY_DATABASE_URL", raising=False)
    condenser.close()
    yield tmp_path
    condenser.close()
