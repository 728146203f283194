"""What the operator says about a model's provider: which model, where, with which key and which tools of its own.

Options only. Asking the model is `llm.client`, with retry_policy `llm.limits`; reading
files and the environment is `config`.
"""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from tersely.llm.client import OPENROUTER_URL, ModelSpec

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

ProviderType = Literal["openrouter", "openai", "anthropic", "google"]


class NativeTools(BaseModel):
    """Tools that run at the provider, not here. Each is on, off, or left to whoever is asked next."""

    model_config = _CONFIG

    google_search: bool | None = None
    """Search the web with Google."""

    code_execution: bool | None = None
    """Run code in the provider's sandbox."""

    url_context: bool | None = None
    """Read the pages whose addresses stand in the conversation."""

    def over(self, lower: "NativeTools") -> "NativeTools":
        """These where they say something, `lower` where they do not. Neither is changed."""
        return NativeTools(**{**lower.model_dump(exclude_none=True), **self.model_dump(exclude_none=True)})

    def enabled(self) -> tuple[str, ...]:
        return tuple(name for name, on in self if on)


class ProviderOptions(BaseModel):
    """One model at one provider."""

    model_config = _CONFIG

    type: ProviderType = "openrouter"
    """Whose API is spoken. `openrouter` is any server that speaks OpenAI's chat completions: vLLM, Ollama, LM Studio.
    """

    model: Annotated[str, Field(min_length=1)]
    """The model's name, as the provider spells it."""

    base_url: str | None = None
    """Address of the API; the provider's own unless set."""

    api_key: SecretStr | None = None
    """The key. Left out, the usual variable is looked at: OPENROUTER_API_KEY, OPENAI_API_KEY, ANTHROPIC_API_KEY,
    GOOGLE_API_KEY.
    """

    context_window: Annotated[int | None, Field(ge=1024, le=100_000_000)] = None
    """Tokens the model can take. Needed for models nobody lists, which count as having 16,384."""

    max_output_tokens: Annotated[int | None, Field(ge=64, le=10_000_000)] = None
    """Tokens the model can write in one answer; 4,096 unless set."""

    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    """How freely the model chooses its words; 0.1 unless set. Models that accept none are asked without."""

    concurrency: Annotated[int | None, Field(ge=1, le=1000)] = None
    """Calls at once to this provider."""

    native_tools: NativeTools = NativeTools()
    """Which of the provider's own tools its model may use; agents and alerts may say otherwise."""

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc):
            raise ValueError("must be an address such as http://localhost:11434/v1")
        return value.rstrip("/") if value else None

    @property
    def needs_key(self) -> bool:
        """Whether nobody will answer without a key: a server of one's own may need none."""
        return self.api_key is None and (self.base_url or OPENROUTER_URL) == OPENROUTER_URL

    def spec(self) -> ModelSpec:
        """The same for `llm.limits.build_llm`."""
        return ModelSpec(
            model=self.model,
            provider=self.type,
            base_url=self.base_url,
            api_key=self.api_key.get_secret_value() if self.api_key else None,
            window=self.context_window,
            output_cap=self.max_output_tokens,
            temperature=self.temperature,
            native_tools=self.native_tools,
        )
