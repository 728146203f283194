"""What is built once and shared."""

from pathlib import Path

import pytest

from tersely.app.summarizer import summarizer_app
from tersely.settings.model import Settings
from tersely.store.private import masking_key
from tests.condensing.test_summarize import pages
from tests.fakes.llm_server import FakeLLMServer

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_the_key_of_the_marks_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    key = masking_key(tmp_path / "data")
    assert key is not None and masking_key(tmp_path / "data") == key
    assert (tmp_path / "data" / "masking.key").stat().st_mode & 0o077 == 0
    assert masking_key(Path("/proc/nowhere")) is None


@pytest.mark.slow
async def test_a_text_with_secrets_is_found_in_the_cache_by_the_next_process(tmp_path: Path) -> None:
    text = f"token: {SECRET}\n\n" + pages(60)
    async with FakeLLMServer(["Once."]).listening() as server:
        environment = {"OPENROUTER_BASE_URL": server.url, "TERSELY_DATA_DIR": str(tmp_path)}
        for _ in range(2):
            async with summarizer_app(Settings.load(environment)) as parts:
                condensed = await parts.summarizer.summarize(text, max_output_tokens=300)
    assert condensed.text == "Once." and condensed.work is not None and condensed.work.cache_hits == 1
