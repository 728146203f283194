"""The registry of LLM providers, and the options an operator sets for one model at one of them.

A provider is one record in `PROVIDERS`. Settings, their validation, the model that is
built and the messages that name a variable are derived from it; no other module names
a provider, and a test checks that.

Sending requests is `llm.client`, retries and limits are `llm.limits`, reading files and
the environment is `settings`. SDKs are imported when a model is built: they cost
seconds that `tersely --help` does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from tersely.errors import ConfigError
from tersely.tls import existing_file

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion
    from pydantic_ai.models import Model

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


AZURE_VERSION = "2024-10-21"
"""The newest version of Azure OpenAI's API that is not a preview and has the date in the query."""


@dataclass(frozen=True, kw_only=True)
class PriceRates:
    """Prices in US dollars per million tokens."""

    input: Decimal
    output: Decimal
    cached: Decimal


# The registry


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What is known about one provider."""

    name: str
    """The `type` in the configuration, the prefix in `LLM_MODEL=name:model`, and mostly the id in genai-prices."""

    build: Callable[[ModelSpec, httpx2.AsyncClient], Model]
    """Makes the pydantic-ai model. An ImportError means that `extra` is not installed."""

    key_variable: str
    key_help: str
    """Describes that variable to the operator."""

    base_url: str | None = None
    """Address of the API; None: the SDK knows it."""

    url_variable: str | None = None
    """Variable that sets another address, where there is one."""

    url_help: str = ""
    extra: str | None = None
    """The optional dependency of this package that brings the SDK."""

    combination_flag: str | None = None
    """Key in the profile of a pydantic-ai model that permits native tools next to ours; None: always permitted."""

    shows_thoughts: bool = False
    """Whether thoughts have to be requested; the models think either way."""

    prices_id: str = ""
    """The id in genai-prices, where it is not the name."""

    needs_url: bool = False
    """Whether every operator has an address of their own."""

    needs_project: bool = False
    """Whether a key can be left out, because a project and the credentials of the machine take its place."""

    cache_settings: Callable[[ModelSpec], dict[str, Any]] = lambda spec: {}
    """pydantic-ai settings that mark the prompt of a conversation for caching, where the provider wants marks."""


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """Which model to use, and where it runs."""

    model: str
    provider: str = "openrouter"
    """A key of `PROVIDERS`."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    window: int | None = None
    """Context window in tokens, input and output together; None: as genai-prices lists it."""

    output_cap: int | None = None
    temperature: float | None = None
    native_tools: NativeTools | None = None
    """Which of the provider's native tools are enabled where the request leaves it open."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request."""

    ca_file: str | None = None
    rates: PriceRates | None = None
    """The operator's own prices; None: as genai-prices lists them."""

    api_version: str | None = None
    project: str | None = None
    location: str | None = None


def _build_openai_compatible(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    from openai import AsyncOpenAI

    base_url = spec.base_url or find_provider(spec.provider).base_url
    assert base_url is not None, "a provider of this kind has an address in the registry"
    client = AsyncOpenAI(base_url=base_url, api_key=spec.api_key or "no-key-needed", http_client=http, max_retries=0)
    return _chat_model(spec, client, supports_new_limit="api.openai.com" in base_url)


def _build_azure(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    """The address of a resource (`…openai.azure.com`), of a deployment in it, or of its API without versions."""
    from openai import AsyncAzureOpenAI, AsyncOpenAI

    if not spec.base_url:
        raise ConfigError(f"Model {spec.model!r} needs base_url, such as https://NAME.openai.azure.com.")
    key = spec.api_key or "no-key-needed"
    client: AsyncOpenAI
    if urlsplit(spec.base_url).path.rstrip("/").endswith("/openai/v1"):
        client = AsyncOpenAI(
            base_url=spec.base_url, api_key=key, default_headers={"api-key": key}, http_client=http, max_retries=0
        )
    else:
        has_path = urlsplit(spec.base_url).path.strip("/") != ""
        where: dict[str, Any] = {"base_url": spec.base_url} if has_path else {"azure_endpoint": spec.base_url}
        client = AsyncAzureOpenAI(
            **where, api_key=key, api_version=spec.api_version or AZURE_VERSION, http_client=http, max_retries=0
        )
    return _chat_model(spec, client, supports_new_limit=True)


def _chat_model(spec: ModelSpec, client: AsyncOpenAI, *, supports_new_limit: bool) -> Model:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    from tersely.llm.provider_errors import error_from_body

    class TolerantChatModel(OpenAIChatModel):
        """Accepts responses of small local servers, which omit required fields of the envelope."""

        def _validate_completion(self, response: ChatCompletion) -> Any:
            if problem := (response.model_extra or {}).get("error"):
                # OpenRouter reports the failure of an upstream provider in the body of a 200.
                raise error_from_body(spec, problem)
            response.id = response.id or "none"
            response.model = response.model or spec.model
            response.object = "chat.completion"
            for index, choice in enumerate(response.choices or []):
                choice.index = choice.index if isinstance(choice.index, int) else index
            return super()._validate_completion(response)

    profile = OpenAIModelProfile(
        # Every server except OpenAI's own accepts `max_tokens`, and some accept nothing else.
        openai_chat_supports_max_completion_tokens=supports_new_limit,
        # Otherwise a stream that was cut off would count as a complete answer.
        openai_chat_streaming_requires_finish_reason=True,
    )
    return TolerantChatModel(
        spec.model, provider=OpenAICompatibleProvider(spec.provider, openai_client=client, profile=profile)
    )


def _build_anthropic(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(api_key=spec.api_key, base_url=spec.base_url, http_client=http, max_retries=0)
    return AnthropicModel(spec.model, provider=AnthropicProvider(anthropic_client=client))


def _build_google(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(api_key=spec.api_key, base_url=spec.base_url, http_client=http)
    return GoogleModel(spec.model, provider=provider)


def _build_vertex(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    """Gemini, and Claude, in a project of Google Cloud, with the credentials of the machine."""
    if spec.model.startswith("claude"):
        from anthropic import AsyncAnthropicVertex
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropicVertex(
            project_id=spec.project or "",
            region=spec.location or "global",
            base_url=spec.base_url,
            http_client=http,
            max_retries=0,
        )
        return AnthropicModel(spec.model, provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google_cloud import GoogleCloudProvider

    where: dict[str, Any] = {"project": spec.project, "location": spec.location or "global"}
    if spec.api_key and not spec.project:
        where = {"api_key": spec.api_key}
    return GoogleModel(spec.model, provider=GoogleCloudProvider(**where, base_url=spec.base_url, http_client=http))


def _openrouter_cache(spec: ModelSpec) -> dict[str, Any]:
    """OpenRouter caches by itself for most models; Anthropic's need a mark, of which it places the breakpoints."""
    if spec.base_url not in (None, DEFAULT_PROVIDER.base_url) or not spec.model.startswith("anthropic/"):
        return {}
    return {"extra_body": {"cache_control": {"type": "ephemeral"}}}


DEFAULT_PROVIDER = Provider(
    name="openrouter",
    build=_build_openai_compatible,
    cache_settings=_openrouter_cache,
    key_variable="OPENROUTER_API_KEY",
    key_help="Key for OpenRouter or for the server at OPENROUTER_BASE_URL.",
    base_url="https://openrouter.ai/api/v1",
    url_variable="OPENROUTER_BASE_URL",
    url_help="Any OpenAI-compatible server: vLLM, Ollama, LM Studio. A server other than OpenRouter needs no key here.",
)
"""The provider of models without a `provider:` prefix; also any other server with OpenAI's chat completions API."""

PROVIDERS: dict[str, Provider] = {
    provider.name: provider
    for provider in (
        DEFAULT_PROVIDER,
        Provider(
            name="openai",
            build=_build_openai_compatible,
            key_variable="OPENAI_API_KEY",
            key_help="Key for `openai:` models, OpenAI's own API.",
            base_url="https://api.openai.com/v1",
        ),
        Provider(
            name="anthropic",
            build=_build_anthropic,
            key_variable="ANTHROPIC_API_KEY",
            key_help="Key for `anthropic:` models.",
            extra="anthropic",
            # `cache_control` on the tools, the system prompt and the newest message.
            cache_settings=lambda spec: {"cache": True},
        ),
        Provider(
            name="google",
            build=_build_google,
            key_variable="GOOGLE_API_KEY",
            key_help="Key for `google:` models.",
            extra="google",
            combination_flag="google_supports_tool_combination",
            shows_thoughts=True,
        ),
        Provider(
            name="azure",
            build=_build_azure,
            key_variable="AZURE_OPENAI_API_KEY",
            key_help="Key for models of Azure OpenAI, which need `base_url` in a file.",
            needs_url=True,
        ),
        Provider(
            name="vertexai",
            build=_build_vertex,
            key_variable="GOOGLE_CLOUD_API_KEY",
            key_help="Key for `vertexai:` models in express mode; not needed with a project in a file.",
            extra="google",
            prices_id="google",
            needs_project=True,
            combination_flag="google_supports_tool_combination",
            shows_thoughts=True,
        ),
        Provider(
            name="xai",
            build=_build_openai_compatible,
            key_variable="XAI_API_KEY",
            key_help="Key for `xai:` models.",
            base_url="https://api.x.ai/v1",
            prices_id="x-ai",
        ),
    )
}


def find_provider(name: str) -> Provider:
    """
    Raises:
        ConfigError: The registry has no such provider.
    """
    if name not in PROVIDERS:
        raise ConfigError(f"Provider {name!r} does not exist. Known providers: {', '.join(PROVIDERS)}.")
    return PROVIDERS[name]


def provider_of(model: str) -> tuple[Provider, str]:
    """The provider and its model behind an LLM_MODEL such as `anthropic:NAME`, or a name in OpenRouter's form."""
    prefix, _, rest = model.partition(":")
    provider = PROVIDERS.get(prefix)
    is_named = provider and rest and provider is not DEFAULT_PROVIDER and not provider.needs_url
    return (provider, rest) if provider and is_named else (DEFAULT_PROVIDER, model)


def model_variables() -> list[str]:
    """Environment variables of which any one is enough to use a model."""
    return [
        variable
        for provider in PROVIDERS.values()
        for variable in (provider.key_variable, provider.url_variable)
        if variable and not provider.needs_url
    ]


def build_model(spec: ModelSpec, http: httpx2.AsyncClient) -> Model:
    """
    Raises:
        ConfigError: The provider is not known, or its extra is not installed.
    """
    provider = find_provider(spec.provider)
    try:
        return provider.build(spec, http)
    except ImportError as missing:
        if provider.extra is None:
            raise
        raise ConfigError(
            f"Model {spec.model!r} needs the extra {provider.extra!r}: pip install 'tersely[{provider.extra}]' "
            f"({missing})"
        ) from missing


# Options


class NativeTools(BaseModel):
    """Tools that run at the provider, not here. Each is enabled, disabled, or left to the next level of settings."""

    model_config = _CONFIG

    google_search: bool | None = None
    """Search the web with Google."""

    code_execution: bool | None = None
    """Run code in the provider's sandbox."""

    url_context: bool | None = None
    """Read the pages at the URLs in the conversation."""

    def over(self, lower: NativeTools) -> NativeTools:
        """A copy of `lower`, overridden where this one is set."""
        return NativeTools(**{**lower.model_dump(exclude_none=True), **self.model_dump(exclude_none=True)})

    def enabled(self) -> tuple[str, ...]:
        return tuple(name for name, on in self if on)


def _known_provider(name: str) -> str:
    if name not in PROVIDERS:
        *most, last = map(repr, PROVIDERS)
        # The type and wording of pydantic's own error for a Literal, so that it is reported like one.
        raise PydanticCustomError("literal_error", "Input should be {known}", {"known": f"{', '.join(most)} or {last}"})
    return name


def _list_providers(schema: dict[str, Any]) -> None:
    schema["enum"] = list(PROVIDERS)


_TYPE_HELP = (
    f"Which API to use: {', '.join(f'`{name}`' for name in PROVIDERS)}. `{DEFAULT_PROVIDER.name}` is also any other "
    "server with OpenAI's chat completions API: vLLM, Ollama, LM Studio."
)
_KEY_HELP = (
    "The API key. By default it is read from the provider's variable: "
    + ", ".join(provider.key_variable for provider in PROVIDERS.values())
    + "."
)


class ProviderOptions(BaseModel):
    """One model at one provider."""

    model_config = _CONFIG

    type: Annotated[
        str, AfterValidator(_known_provider), Field(description=_TYPE_HELP, json_schema_extra=_list_providers)
    ] = DEFAULT_PROVIDER.name

    model: Annotated[str, Field(min_length=1)]
    """Name of the model, as the provider spells it."""

    base_url: str | None = None
    """Address of the API; the provider's own by default."""

    api_key: Annotated[SecretStr | None, Field(description=_KEY_HELP)] = None

    api_key_env: Annotated[str | None, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = None
    """Name of the variable that has the key, instead of `api_key`."""

    headers: dict[str, SecretStr] = {}
    """HTTP headers sent with every request, e.g. to a proxy of your own."""

    ca_file: str | None = None
    """File with certificates of authorities to trust, instead of the system's, e.g. of a proxy of your own."""

    _is_a_file = field_validator("ca_file")(existing_file)

    api_version: str | None = None
    """Version of the API, for `azure`."""

    project: str | None = None
    """Project of Google Cloud, for `vertexai`; also the value of the variable `project_env`."""

    project_env: Annotated[str | None, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = None
    """Name of the variable that has the project."""

    location: str | None = None
    """Region of Google Cloud, for `vertexai`; `global` by default."""

    location_env: Annotated[str | None, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] = None
    """Name of the variable that has the region."""

    input_price: Annotated[Decimal | None, Field(ge=0, le=100_000)] = None
    """Your own price in US dollars per million input tokens; belongs with `output_price`."""

    output_price: Annotated[Decimal | None, Field(ge=0, le=100_000)] = None
    """Your own price in US dollars per million output tokens."""

    cached_price: Annotated[Decimal | None, Field(ge=0, le=100_000)] = None
    """Your own price in US dollars per million input tokens that the provider reads from its cache; by default
    `input_price`.
    """

    context_window: Annotated[int | None, Field(ge=1024, le=100_000_000)] = None
    """Context window in tokens. Required for unlisted models, for which 16,384 is assumed."""

    max_output_tokens: Annotated[int | None, Field(ge=64, le=10_000_000)] = None
    """Tokens the model can write in one answer. Known for common models; 8,192 for others."""

    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    """Sampling temperature; 0.1 by default. Not sent to models that reject it."""

    concurrency: Annotated[int | None, Field(ge=1, le=1000)] = None
    """Concurrent calls to this provider."""

    native_tools: NativeTools = NativeTools()
    """Which of the provider's native tools the model may use; agents and alerts can override this."""

    @field_validator("base_url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is not None and (urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc):
            raise ValueError("must be an address such as http://localhost:11434/v1")
        return value.rstrip("/") if value else None

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, content in value.items():
            if not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"{name!r} is not a valid header name")
            if any(character in content.get_secret_value() for character in "\r\n\0"):
                raise ValueError(f"the value of {name} contains a line break or a null character")
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        provider = PROVIDERS[self.type]
        if provider.needs_url and not self.base_url:
            raise ValueError("base_url is missing: the address of your resource, such as https://NAME.openai.azure.com")
        if (self.input_price is None) != (self.output_price is None):
            raise ValueError("input_price and output_price belong together")
        if self.cached_price is not None and self.input_price is None:
            raise ValueError("cached_price needs input_price and output_price")
        return self

    @property
    def uses_default_url(self) -> bool:
        return self.base_url in (None, PROVIDERS[self.type].base_url)

    @property
    def needs_key(self) -> bool:
        """Whether a key is required and missing; the operator's own server may need none."""
        is_in_project = PROVIDERS[self.type].needs_project and self.project is not None
        return self.api_key is None and self.uses_default_url and not is_in_project

    def spec(self) -> ModelSpec:
        """These options as input of `llm.limits.build_llm`."""
        return ModelSpec(
            model=self.model,
            provider=self.type,
            base_url=self.base_url,
            api_key=self.api_key.get_secret_value() if self.api_key else None,
            window=self.context_window,
            output_cap=self.max_output_tokens,
            temperature=self.temperature,
            native_tools=self.native_tools,
            headers={name: value.get_secret_value() for name, value in self.headers.items()},
            ca_file=self.ca_file,
            rates=self._rates(),
            api_version=self.api_version,
            project=self.project,
            location=self.location,
        )

    def _rates(self) -> PriceRates | None:
        if self.input_price is None or self.output_price is None:
            return None
        cached = self.input_price if self.cached_price is None else self.cached_price
        return PriceRates(input=self.input_price, output=self.output_price, cached=cached)
