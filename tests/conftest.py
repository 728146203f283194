from pathlib import Path

import pytest
from hypothesis import settings

# How long an example takes is the machine's business; that a test hangs is noticed by its timeout.
settings.register_profile("tersely", deadline=None)
settings.load_profile("tersely")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_real_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever runs the tests may have keys and settings of their own; the tests must not see them, nor their files."""
    for name in (
        "LLM_MODEL LLM_FALLBACK_MODELS OPENROUTER_API_KEY OPENROUTER_BASE_URL ANTHROPIC_API_KEY GOOGLE_API_KEY LLM_CONTEXT_WINDOW "
        "LLM_MAX_OUTPUT_TOKENS MCP_SUMMARIZER_PORT DEFAULT_CHUNK_SIZE_TOKENS DEFAULT_CHUNK_OVERLAP_TOKENS DEFAULT_MAX_OUTPUT_TOKENS "
        "TERSELY_DATABASE_URL TERSELY_KEEP_DAYS TERSELY_KEEP_MB "
        "TERSELY_HOST TERSELY_TOKEN TERSELY_ALLOWED_HOSTS TERSELY_LOG_LEVEL HTTP_PROXY HTTPS_PROXY ALL_PROXY http_proxy https_proxy"
    ).split():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERSELY_DATA_DIR", str(tmp_path_factory.mktemp("data")))


def shared_folder() -> Path | None:
    """The benchmark and safety data that lie beside the repository on some machines."""
    for parent in Path(__file__).resolve().parents:
        if (parent / "shared" / "safety").is_dir():
            return parent / "shared"
    return None


@pytest.fixture(scope="session")
def shared() -> Path:
    folder = shared_folder()
    if folder is None:
        pytest.skip("the shared data (yardstick, safety) do not lie beside this checkout")
    return folder
