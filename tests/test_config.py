"""Settings: all mistakes at once, secrets never shown."""

import pytest

from tersely.config import Settings
from tersely.errors import ConfigError


def test_the_defaults_are_those_of_the_service_this_one_stands_in_for() -> None:
    settings = Settings.load({})
    assert (settings.model.model, settings.summarizer.port) == ("openai/gpt-4o-mini", 8007)
    assert (settings.summarizer.chunk_size, settings.summarizer.chunk_overlap, settings.summarizer.max_output_tokens) == (8000, 500, 5000)


def test_an_empty_variable_counts_as_unset_and_the_command_line_wins() -> None:
    assert Settings.load({"MCP_SUMMARIZER_PORT": ""}).summarizer.port == 8007
    assert Settings.load({"MCP_SUMMARIZER_PORT": "9000"}).summarizer.port == 9000
    assert Settings.load({"MCP_SUMMARIZER_PORT": "9000"}, MCP_SUMMARIZER_PORT=9001).summarizer.port == 9001
    assert Settings.load({"MCP_SUMMARIZER_PORT": "9000"}, MCP_SUMMARIZER_PORT=None).summarizer.port == 9000


def test_all_mistakes_are_named_at_once_and_no_secret_is() -> None:
    with pytest.raises(ConfigError) as problem:
        Settings.load(
            {"MCP_SUMMARIZER_PORT": "high", "OPENROUTER_BASE_URL": "ollama", "LLM_CONTEXT_WINDOW": "1", "OPENROUTER_API_KEY": "sk-canary"}
        )
    message = str(problem.value)
    assert all(name in message for name in ("MCP_SUMMARIZER_PORT='high'", "OPENROUTER_BASE_URL='ollama'", "LLM_CONTEXT_WINDOW='1'"))
    assert "canary" not in message
    assert "canary" not in repr(Settings.load({"OPENROUTER_API_KEY": "sk-canary", "TERSELY_TOKEN": "t-canary"}))


def test_an_overlap_as_large_as_the_chunk_is_refused_with_both_values() -> None:
    with pytest.raises(ConfigError, match=r"\(9000\) must be smaller than DEFAULT_CHUNK_SIZE_TOKENS \(8000\)"):
        Settings.load({"DEFAULT_CHUNK_OVERLAP_TOKENS": "9000"})


@pytest.mark.parametrize(
    ("environment", "models"),
    [
        ({}, []),
        ({"OPENROUTER_API_KEY": "k"}, ["openrouter openai/gpt-4o-mini"]),
        ({"OPENROUTER_BASE_URL": "http://localhost:11434/v1", "LLM_MODEL": "llama3.1"}, ["openrouter llama3.1"]),
        ({"LLM_MODEL": "anthropic:claude-haiku-4-5"}, []),
        ({"LLM_MODEL": "anthropic:claude-haiku-4-5", "ANTHROPIC_API_KEY": "k"}, ["anthropic claude-haiku-4-5"]),
        (
            {
                "OPENROUTER_API_KEY": "k",
                "GOOGLE_API_KEY": "g",
                "LLM_FALLBACK_MODELS": "google:gemini-2.5-flash, mistralai/small:free",
            },
            ["openrouter openai/gpt-4o-mini", "google gemini-2.5-flash", "openrouter mistralai/small:free"],
        ),
    ],
)
def test_a_model_is_configured_when_its_key_is_or_a_server_of_ones_own(environment: dict[str, str], models: list[str]) -> None:
    assert [f"{spec.provider} {spec.model}" for spec in Settings.load(environment).model.specs()] == models
