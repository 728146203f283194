"""Every setting, in one tree; the only reader of the environment.

Each field says what changes for the operator. Its name is its key in `tersely.yaml`,
its alias the variable that wins over the file. Variables without prefix are those of
the service this one stands in for; ours begin with `TERSELY_`; an empty one counts
as unset. All mistakes are reported at once; a secret's value is never part of a
message. Options of providers, servers, agents and chains stand beside their readers.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, Self, cast
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo

from tersely.agent.options import AgentOptions
from tersely.llm.client import OPENROUTER_URL, ModelSpec
from tersely.llm.providers import ProviderOptions, ProviderType
from tersely.mcp.servers import Server, ServerOptions
from tersely.research.options import ResearchOptions
from tersely.sessions.chains import ChainOptions, Defaults
from tersely.settings.names import check_names, complete
from tersely.settings.sources import SettingsTree, gather

_CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


_VENDORS = ("openai", "anthropic", "google")


class ModelSettings(BaseModel):
    """Which model summarizes. Without a key (and without a base URL of your own) none does: results are condensed
    structurally.
    """

    model_config = _CONFIG

    model: Annotated[str, Field(alias="LLM_MODEL", min_length=1)] = "openai/gpt-4o-mini"
    """Model in OpenRouter's form (`provider/model-name`), or `openai:NAME`, `anthropic:NAME`, `google:NAME` for their
    own APIs.
    """

    fallback_models: Annotated[tuple[str, ...], Field(alias="LLM_FALLBACK_MODELS")] = ()
    """Comma-separated models that step in, in this order, when the first one does not answer."""

    openrouter_api_key: Annotated[SecretStr | None, Field(alias="OPENROUTER_API_KEY")] = None
    """Key for OpenRouter or for the server at OPENROUTER_BASE_URL."""

    openrouter_base_url: Annotated[str, Field(alias="OPENROUTER_BASE_URL")] = OPENROUTER_URL
    """Any OpenAI-compatible server: vLLM, Ollama, LM Studio. One that is not OpenRouter needs no key here."""

    openai_api_key: Annotated[SecretStr | None, Field(alias="OPENAI_API_KEY")] = None
    """Key for `openai:` models, OpenAI's own API."""

    anthropic_api_key: Annotated[SecretStr | None, Field(alias="ANTHROPIC_API_KEY")] = None
    """Key for `anthropic:` models."""

    google_api_key: Annotated[SecretStr | None, Field(alias="GOOGLE_API_KEY")] = None
    """Key for `google:` models."""

    context_window: Annotated[int | None, Field(alias="LLM_CONTEXT_WINDOW", ge=1024, le=100_000_000)] = None
    """Tokens the model can take, fallbacks included. Needed for models nobody lists, which count as having 16,384; wins
    over the list.
    """

    max_output_tokens: Annotated[int | None, Field(alias="LLM_MAX_OUTPUT_TOKENS", ge=64, le=10_000_000)] = None
    """Tokens the model can write in one answer; 4,096 unless set."""

    concurrency: Annotated[int, Field(alias="TERSELY_LLM_CONCURRENCY", ge=1, le=1000)] = 5
    """Model calls at once, per provider; `tersely up` makes 32 unless this is set."""

    @field_validator("fallback_models", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @field_validator("openrouter_base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc:
            raise ValueError("must be an address such as http://localhost:11434/v1")
        return value.rstrip("/")

    def specs(self) -> list[ModelSpec]:
        """The configured models, the first one first; empty when none is configured."""
        return [provider.spec() for _, provider in self.providers()]

    def providers(self) -> list[tuple[str, ProviderOptions]]:
        """The same as entries of `llm_providers`: the first one under `default`, the others under their own names."""
        known = [(name, provider) for name in (self.model, *self.fallback_models) if (provider := self._provider(name))]
        return [("default", known[0][1]), *known[1:]] if known else []

    def key_for(self, vendor: str) -> SecretStr | None:
        """The key in a provider's usual variable."""
        keys = {"anthropic": self.anthropic_api_key, "google": self.google_api_key, "openai": self.openai_api_key}
        return keys.get(vendor, self.openrouter_api_key)

    def missing(self) -> str:
        """What to set so that a model is asked."""
        vendor, _, rest = self.model.partition(":")
        return (
            f"{vendor.upper()}_API_KEY" if vendor in _VENDORS and rest else "OPENROUTER_API_KEY or OPENROUTER_BASE_URL"
        )

    def _provider(self, name: str) -> ProviderOptions | None:
        vendor, _, rest = name.partition(":")
        if vendor in _VENDORS and rest:
            key = self.key_for(vendor)
            return self._sized(rest, cast(ProviderType, vendor), key) if key else None
        if not self.openrouter_api_key and self.openrouter_base_url == OPENROUTER_URL:
            return None
        return self._sized(name, "openrouter", self.openrouter_api_key, self.openrouter_base_url)

    def _sized(
        self, model: str, kind: ProviderType, key: SecretStr | None, base_url: str | None = None
    ) -> ProviderOptions:
        return ProviderOptions(
            type=kind,
            model=model,
            base_url=base_url,
            api_key=key,
            context_window=self.context_window,
            max_output_tokens=self.max_output_tokens,
            concurrency=self.concurrency if "concurrency" in self.model_fields_set else None,
        )


class SummarizerSettings(BaseModel):
    """The summarizer service, `tersely serve`."""

    model_config = _CONFIG

    host: Annotated[str, Field(alias="TERSELY_HOST")] = "127.0.0.1"
    """Address to listen on. Off loopback, set a token too."""

    port: Annotated[int, Field(alias="MCP_SUMMARIZER_PORT", ge=0, le=65535)] = 8007
    """Port to listen on; 0 takes a free one."""

    token: Annotated[SecretStr | None, Field(alias="TERSELY_TOKEN")] = None
    """Bearer token that callers of `/mcp` must send; `/health` is open."""

    allowed_hosts: Annotated[tuple[str, ...], Field(alias="TERSELY_ALLOWED_HOSTS")] = ()
    """Comma-separated names, besides localhost and the listening address, that may stand in a request's Host header."""

    max_body_bytes: Annotated[int, Field(alias="TERSELY_MAX_BODY_BYTES", ge=1024, le=2**31)] = 16 * 2**20
    """Largest request body; larger ones get a 413."""

    chunk_size: Annotated[int, Field(alias="DEFAULT_CHUNK_SIZE_TOKENS", ge=256, le=10_000_000)] = 8000
    """Tokens of one part in map-reduce; less where the model's window is smaller."""

    chunk_overlap: Annotated[int, Field(alias="DEFAULT_CHUNK_OVERLAP_TOKENS", ge=0)] = 500
    """Tokens that neighbouring parts share where text is cut by tokens."""

    max_output_tokens: Annotated[int, Field(alias="DEFAULT_MAX_OUTPUT_TOKENS", ge=50, le=10_000_000)] = 5000
    """Size of a summary when the caller names none; content within it comes back unchanged."""

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError(
                f"DEFAULT_CHUNK_OVERLAP_TOKENS ({self.chunk_overlap}) must be smaller than DEFAULT_CHUNK_SIZE_TOKENS "
                f"({self.chunk_size}); otherwise chunking would never come to an end."
            )
        return self


class GatewaySettings(BaseModel):
    """The gateway, `tersely gateway`. Address, token, hosts and size of bodies are those of the service."""

    model_config = _CONFIG

    port: Annotated[int, Field(alias="TERSELY_GATEWAY_PORT", ge=0, le=65535)] = 8008
    """Port to listen on with `--http`; 0 takes a free one."""

    intent_argument: Annotated[
        str, Field(alias="TERSELY_INTENT_ARGUMENT", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,40}$")
    ] = "looking_for"
    """What the argument is called that every tool gains, by which a caller says what it wants to know."""

    intent_description: Annotated[str, Field(alias="TERSELY_INTENT_DESCRIPTION", min_length=1, max_length=1000)] = (
        "What you want to know from the result. A result that is too long is shortened to it."
    )
    """How that argument is described to models."""


class StoreSettings(BaseModel):
    """What is kept on disk."""

    model_config = _CONFIG

    data_dir: Annotated[Path, Field(alias="TERSELY_DATA_DIR")] = Path(
        platformdirs.user_data_dir("tersely", appauthor=False)
    )
    """Where the files lie."""

    database_url: Annotated[SecretStr | None, Field(alias="TERSELY_DATABASE_URL")] = None
    """Where results are kept: `sqlite:////path/to/file.db` or `postgresql://user@host/name`; without it `tersely.db` in
    the data folder.
    """

    keep_days: Annotated[int, Field(alias="TERSELY_KEEP_DAYS", ge=1, le=36_500)] = 30
    """For how many days a kept result can be read back."""

    keep_mb: Annotated[int, Field(alias="TERSELY_KEEP_MB", ge=1, le=10_000_000)] = 2048
    """What kept results may take, compressed; the oldest make room."""

    summary_cache: Annotated[bool, Field(alias="TERSELY_SUMMARY_CACHE")] = True
    """Keep summaries, masked, so that the same text is not paid for twice."""

    summary_cache_mb: Annotated[int, Field(alias="TERSELY_SUMMARY_CACHE_MB", ge=1, le=100_000)] = 256
    """Size of that cache; the summaries used longest ago go first."""

    @property
    def url(self) -> str:
        """The database's address, a password in it included."""
        return (
            self.database_url.get_secret_value()
            if self.database_url
            else f"sqlite:///{self.data_dir.expanduser() / 'tersely.db'}"
        )


class UpSettings(BaseModel):
    """Investigations, `tersely up`: the API and the dashboard."""

    model_config = _CONFIG

    host: Annotated[str, Field(alias="TERSELY_HOST")] = "127.0.0.1"
    """Address to listen on. Off loopback, set a token too."""

    port: Annotated[int, Field(alias="TERSELY_PORT", ge=0, le=65535)] = 8010
    """Port of the API and the dashboard; 0 takes a free one."""

    allowed_hosts: Annotated[tuple[str, ...], Field(alias="TERSELY_ALLOWED_HOSTS")] = ()
    """Comma-separated names, besides localhost and the listening address, that may stand in a request's Host header."""

    public_url: Annotated[str | None, Field(alias="TERSELY_PUBLIC_URL")] = None
    """Address under which people reach the dashboard; webhooks and the terminal link to it."""

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @field_validator("public_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return None if value is None else _http_address(value)


class QueueSettings(BaseModel):
    """How much is investigated at once, and when a worker counts as lost."""

    model_config = _CONFIG

    max_concurrent_sessions: Annotated[int, Field(alias="TERSELY_MAX_CONCURRENT_SESSIONS", ge=1, le=10_000)] = 5
    """Investigations at once, in all processes together."""

    max_pending: Annotated[int, Field(alias="TERSELY_MAX_PENDING", ge=1, le=10_000_000)] = 1_000
    """Alerts that may wait; more get a 429 with Retry-After."""

    session_timeout: Annotated[float, Field(alias="TERSELY_SESSION_TIMEOUT", gt=0, le=30 * 86_400)] = 3_600
    """Seconds an investigation may take from its start; then it ends as timed out."""

    lease: Annotated[float, Field(alias="TERSELY_LEASE", ge=1, le=3_600)] = 30
    """Seconds without a sign of life after which a worker counts as lost and others go on with its investigations."""

    poll: Annotated[float, Field(alias="TERSELY_POLL", ge=0.01, le=60)] = 0.1
    """Seconds between two looks into an empty queue."""

    grace: Annotated[float, Field(alias="TERSELY_GRACE", ge=0, le=3_600)] = 30
    """Seconds that running steps get to finish when the process is told to stop; what is left goes on elsewhere or
    later.
    """


Scope = Literal["submit", "read", "admin"]


class TokenSettings(BaseModel):
    """Somebody who may call the API. Only the token's hash is kept; `tersely config token NAME` makes both."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=120)]
    """Who it is; sessions carry the name as their author."""

    sha256: str
    """SHA-256 of the token, in hexadecimal."""

    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)] = ("submit", "read")
    """`submit` sends alerts, `read` sees sessions, `admin` cancels and deletes what others sent."""

    @field_validator("sha256")
    @classmethod
    def _is_digest(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
            raise ValueError(
                "must be 64 hexadecimal digits, as `tersely config token` prints them; not the token itself"
            )
        return value.lower()


class ProxySettings(BaseModel):
    """A proxy that has already asked people who they are."""

    model_config = _CONFIG

    addresses: Annotated[tuple[str, ...], Field(alias="TERSELY_TRUSTED_PROXIES")] = ()
    """Addresses or networks whose header is believed, e.g. `10.0.0.7` or `10.0.0.0/24`."""

    user_header: Annotated[str, Field(alias="TERSELY_PROXY_USER_HEADER", min_length=1)] = "X-Forwarded-User"
    """Header in which those proxies say who asks."""

    scopes: Annotated[tuple[Scope, ...], Field(alias="TERSELY_PROXY_SCOPES", min_length=1)] = ("submit", "read")
    """What people who come through them may do."""

    @field_validator("addresses", "scopes", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @field_validator("addresses")
    @classmethod
    def _are_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for address in value:
            try:
                ip_network(address, strict=False)
            except ValueError:
                raise ValueError(
                    f"{address!r} is neither an address nor a network; names are not resolved here"
                ) from None
        return value


class AuthSettings(BaseModel):
    """Who may call the API off loopback."""

    model_config = _CONFIG

    tokens: Annotated[tuple[TokenSettings, ...], Field(alias="TERSELY_AUTH_TOKENS")] = ()
    """Bearer tokens; in the variable as `NAME:SHA256:submit+read`, separated by commas. `tersely config token NAME`
    makes one.
    """

    trusted_proxies: ProxySettings = ProxySettings()

    @field_validator("tokens", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        entries = [entry.split(":") for entry in value.split(",") if entry.strip()]
        if any(len(entry) not in (2, 3) for entry in entries):
            raise ValueError("must be entries such as NAME:SHA256:submit+read, separated by commas")
        return [
            {
                "name": name.strip(),
                "sha256": digest.strip(),
                **({"scopes": scopes[0].strip().split("+")} if scopes else {}),
            }
            for name, digest, *scopes in entries
        ]

    @field_validator("tokens")
    @classmethod
    def _names_differ(cls, value: tuple[TokenSettings, ...]) -> tuple[TokenSettings, ...]:
        names = [token.name for token in value]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two tokens are called {twice!r}; sessions could not tell them apart")
        return value


class RetentionSettings(BaseModel):
    """How long investigations are kept. Results of tools have a time of their own: `store.keep_days`."""

    model_config = _CONFIG

    sessions_days: Annotated[int, Field(alias="TERSELY_KEEP_SESSIONS_DAYS", ge=1, le=36_500)] = 90
    """For how many days an ended investigation, its timeline and its trace can be read."""

    sweep_minutes: Annotated[float, Field(alias="TERSELY_SWEEP_MINUTES", gt=0, le=1_440)] = 60
    """Minutes between two rounds of deleting what is too old."""


class WebhookSettings(BaseModel):
    """Who is told when an investigation ends."""

    model_config = _CONFIG

    urls: Annotated[tuple[str, ...], Field(alias="TERSELY_WEBHOOK_URLS")] = ()
    """Comma-separated addresses that get a POST when an investigation ends."""

    secret: Annotated[SecretStr | None, Field(alias="TERSELY_WEBHOOK_SECRET")] = None
    """Signs those posts (HMAC-SHA256 of the body, in `X-Tersely-Signature`), so that the receiver knows who sent them.
    """

    timeout: Annotated[float, Field(alias="TERSELY_WEBHOOK_TIMEOUT", gt=0, le=300)] = 10
    """Seconds a receiver may take to answer."""

    @field_validator("urls", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @field_validator("urls")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_http_address(address) for address in value)


class Settings(BaseModel):
    """All settings. `Settings.load()` reads them."""

    model_config = _CONFIG

    model: ModelSettings = ModelSettings()
    summarizer: SummarizerSettings = SummarizerSettings()
    gateway: GatewaySettings = GatewaySettings()
    store: StoreSettings = StoreSettings()
    up: UpSettings = UpSettings()
    queue: QueueSettings = QueueSettings()
    auth: AuthSettings = AuthSettings()
    retention: RetentionSettings = RetentionSettings()
    webhooks: WebhookSettings = WebhookSettings()
    research: ResearchOptions = ResearchOptions()
    defaults: Defaults = Defaults()
    llm_providers: dict[str, ProviderOptions] = {}
    """Models to think and summarize with, by name."""

    mcp_servers: dict[str, ServerOptions] = {}
    """MCP servers, by name."""

    agents: dict[str, AgentOptions] = {}
    """Who investigates, by name."""

    chains: dict[str, ChainOptions] = {}
    """Which alert types are investigated by whom, by name."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(alias="TERSELY_LOG_LEVEL")] = "info"
    """How much is logged to stderr."""

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
        *,
        sections: Collection[str] | None = None,
        **overrides: object,
    ) -> "Settings":
        """Settings from a file, over it the environment, over that `overrides` from the command line.

        Args:
            file: `find_file()` knows where it may lie; None: there is none.
            sections: The parts of the file that are read; mistakes in the others are somebody else's. None: all.
            overrides: By variable name; None = not given.

        Raises:
            ConfigError: Names every wrong setting, where it was written, what is wrong with it and what would be right.
        """
        return load_with_sources(environment, file, sections=sections, **overrides)[0]

    @property
    def servers(self) -> tuple[Server, ...]:
        """The declared servers that are not disabled."""
        return tuple(
            Server(name=name, options=options) for name, options in self.mcp_servers.items() if not options.disabled
        )

    def specs(self, *providers: str) -> list[ModelSpec]:
        """These providers' models, for `llm.limits.build_llm`: the first is asked, the others step in."""
        return [self.llm_providers[name].spec() for name in providers]

    def summarizing(self) -> tuple[str, ...]:
        """The providers that summarize where nobody names one, the first one first; empty when there is none."""
        first = self.defaults.summarization.llm_provider or self.defaults.llm_provider
        if first != "default":
            return (first,) if first else ()
        return ("default", *(name for name in self.model.fallback_models if name in self.llm_providers))


FILE_NAME = "tersely.yaml"

SUMMARIZING = ("model", "llm_providers", "defaults", "summarizer", "store", "log_level")
"""What matters to those who only summarize."""

GATEWAY = (*SUMMARIZING, "gateway", "auth")
"""What matters to the gateway."""


def find_file(
    given: Path | None = None, environment: Mapping[str, str] | None = None, *, here: bool = True
) -> Path | None:
    """The file to read: `--config`, TERSELY_CONFIG, `tersely.yaml` here, or in the user's configuration folder; None if
    there is none.

    Args:
        here: Whether one in the current folder counts. Not where another program chose the folder: it may be anybody's
            project,
            and the file says where results are kept and which model reads them.
    """
    named = given or (os.environ if environment is None else environment).get("TERSELY_CONFIG")
    if named:
        # A file that was named and is not there is a mistake; reading it says so.
        return Path(named).expanduser()
    return next((path for path in (Path(FILE_NAME), user_file())[not here :] if path.is_file()), None)


def user_file() -> Path:
    return Path(platformdirs.user_config_dir("tersely", appauthor=False)) / FILE_NAME


def load_with_sources(
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    *,
    sections: Collection[str] | None = None,
    **overrides: object,
) -> tuple[Settings, SettingsTree]:
    """As `Settings.load`, and where each value came from."""
    gathered, servers = gather(
        Settings,
        environment=os.environ if environment is None else environment,
        file=file,
        overrides=overrides,
        sections=sections,
    )
    try:
        model = ModelSettings.model_validate(gathered.mapping("model"))
    except ValidationError:
        model = ModelSettings()  # What is wrong with it is told below, with the rest.
    complete(
        gathered,
        servers,
        from_model=model.providers(),
        model_is_named="model" in model.model_fields_set,
        key_for=model.key_for,
    )
    check_names(gathered)
    settings = gathered.checked(Settings)
    gathered.raise_if_any()
    assert settings is not None, "a mistake was found and not told"
    return settings, gathered


def _http_address(value: str) -> str:
    if urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc:
        raise ValueError("must be an address such as https://tersely.example.org")
    return value.rstrip("/")


def _list(value: object) -> object:
    return tuple(item.strip() for item in value.split(",") if item.strip()) if isinstance(value, str) else value


def _fields(group: type[BaseModel]) -> Iterator[FieldInfo]:
    for field in group.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation)
        else:
            yield field


def documented() -> list[tuple[str, str, str]]:
    """Every setting that a variable can hold: the variable, its default and what it does. `docs/reference` is tested
    against it.
    """
    return [
        (field.alias, _shown_default(field.default), " ".join((field.description or "").split()))
        for field in _fields(Settings)
        if field.alias
    ]


def _shown_default(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
