"""All settings, in one tree.

The docstring of a field says what changes for the operator. The name of a field is its
key in `tersely.yaml`; its alias is the environment variable that overrides the file.
Variables without a prefix are compatible with the service that this one replaces; the
others begin with `TERSELY_`. An empty variable counts as unset. All errors are reported
at once, and messages never contain the value of a secret. Options of providers,
servers, agents and chains are defined next to the code that reads them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from tersely.agent.options import AgentOptions
from tersely.llm.providers import DEFAULT_PROVIDER, PROVIDERS, ModelSpec, Provider, ProviderOptions, provider_of
from tersely.mcp.logins import LOGINS_FOLDER, LoginStorage, LoginStore
from tersely.mcp.servers import Server, ServerOptions
from tersely.research.options import ResearchOptions
from tersely.results.spool import ResultSpool, spool_of
from tersely.sessions.chains import ChainOptions, Defaults
from tersely.sessions.chat_options import ChatOptions
from tersely.sessions.notification_options import EmailOptions, SlackOptions
from tersely.sessions.runbook_options import RunbookOptions
from tersely.settings.environment import process_environment, settings_environment
from tersely.settings.folders import temporary_folder
from tersely.settings.names import check_names, complete
from tersely.settings.sources import SettingsTree, gather

_CONFIG = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


_PREFIXES = ", ".join(
    f"`{name}:NAME`" for name, one in PROVIDERS.items() if one is not DEFAULT_PROVIDER and not one.needs_url
)


class _ModelNames(BaseModel):
    model_config = _CONFIG

    model: Annotated[
        str,
        Field(
            alias="LLM_MODEL",
            min_length=1,
            description=f"Model in OpenRouter's form (`provider/model-name`), or {_PREFIXES} for their own APIs.",
        ),
    ] = "openai/gpt-4o-mini"

    fallback_models: Annotated[tuple[str, ...], Field(alias="LLM_FALLBACK_MODELS")] = ()
    """Comma-separated models that are used, in this order, when the first one does not answer."""


def _provider_fields() -> dict[str, Any]:
    """The key of every provider, and its address where a variable sets it."""
    fields: dict[str, Any] = {}
    for provider in PROVIDERS.values():
        key = Field(None, alias=provider.key_variable, description=provider.key_help)
        fields[f"{provider.name}_api_key"] = (SecretStr | None, key)
        if provider.url_variable:
            url = Field(provider.base_url, alias=provider.url_variable, description=provider.url_help)
            fields[f"{provider.name}_base_url"] = (Annotated[str, AfterValidator(_model_address)], url)
    return fields


def _model_address(value: str) -> str:
    return _http_address(value, example="http://localhost:11434/v1")


def _http_address(value: str, *, example: str = "https://tersely.example.org") -> str:
    if urlsplit(value).scheme not in ("http", "https") or not urlsplit(value).netloc:
        raise ValueError(f"must be an address such as {example}")
    return value.rstrip("/")


if TYPE_CHECKING:
    _ProviderKeys = _ModelNames
else:
    _ProviderKeys = create_model("_ProviderKeys", __base__=_ModelNames, **_provider_fields())


class ModelSettings(_ProviderKeys):
    """Which model summarizes. Without a key, and without the address of your own server, results are condensed
    structurally.
    """

    context_window: Annotated[int | None, Field(alias="LLM_CONTEXT_WINDOW", ge=1024, le=100_000_000)] = None
    """Context window in tokens, also of the fallbacks. Required for unlisted models, for which 16,384 is assumed."""

    max_output_tokens: Annotated[int | None, Field(alias="LLM_MAX_OUTPUT_TOKENS", ge=64, le=10_000_000)] = None
    """Tokens the model can write in one answer. Known for common models; 8,192 for others."""

    concurrency: Annotated[int, Field(alias="TERSELY_LLM_CONCURRENCY", ge=1, le=1000)] = 5
    """Concurrent model calls, per provider; 32 in `tersely up` unless this is set."""

    @field_validator("fallback_models", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    def specs(self) -> list[ModelSpec]:
        """The configured models, the primary one first; empty when none is configured."""
        return [provider.spec() for _, provider in self.providers()]

    def providers(self) -> list[tuple[str, ProviderOptions]]:
        """The same as entries of `llm_providers`: the primary one as `default`, the others under their own names."""
        known = [(name, options) for name in (self.model, *self.fallback_models) if (options := self._options(name))]
        return [("default", known[0][1]), *known[1:]] if known else []

    def key_for(self, provider: Provider) -> SecretStr | None:
        """The key in the provider's variable."""
        key: SecretStr | None = getattr(self, f"{provider.name}_api_key")
        return key

    def missing(self) -> str:
        """The variables of which one has to be set to use the model."""
        provider, _ = provider_of(self.model)
        return " or ".join(filter(None, (provider.key_variable, provider.url_variable)))

    def _options(self, name: str) -> ProviderOptions | None:
        """The options of a model; None without a key, unless it is on the operator's own server."""
        provider, model = provider_of(name)
        base_url = getattr(self, f"{provider.name}_base_url") if provider.url_variable else None
        options = ProviderOptions(
            type=provider.name,
            model=model,
            base_url=base_url,
            api_key=self.key_for(provider),
            context_window=self.context_window,
            max_output_tokens=self.max_output_tokens,
            concurrency=self.concurrency if "concurrency" in self.model_fields_set else None,
        )
        return None if options.needs_key else options


class SummarizerSettings(BaseModel):
    """The summarizer service, `tersely serve`."""

    model_config = _CONFIG

    host: Annotated[str, Field(alias="TERSELY_HOST")] = "127.0.0.1"
    """Address to listen on. Beyond this machine, a token is needed too (or `TERSELY_ALLOW_OPEN=1`)."""

    port: Annotated[int, Field(alias="MCP_SUMMARIZER_PORT", ge=0, le=65535)] = 8007
    """Port to listen on; 0 picks a free one."""

    token: Annotated[SecretStr | None, Field(alias="TERSELY_TOKEN")] = None
    """Bearer token that clients of `/mcp` must send; `/health` needs none."""

    allowed_hosts: Annotated[tuple[str, ...], Field(alias="TERSELY_ALLOWED_HOSTS")] = ()
    """Comma-separated names that are allowed in the Host header, besides localhost and the listening address."""

    max_body_bytes: Annotated[int, Field(alias="TERSELY_MAX_BODY_BYTES", ge=1024, le=2**31)] = 16 * 2**20
    """Largest request body, in bytes; larger ones get a 413."""

    chunk_size: Annotated[int, Field(alias="DEFAULT_CHUNK_SIZE_TOKENS", ge=256, le=10_000_000)] = 8000
    """Tokens per chunk in map-reduce; less if the context window of the model is smaller."""

    chunk_overlap: Annotated[int, Field(alias="DEFAULT_CHUNK_OVERLAP_TOKENS", ge=0)] = 500
    """Tokens that neighbouring chunks share when text is cut by tokens."""

    max_output_tokens: Annotated[int, Field(alias="DEFAULT_MAX_OUTPUT_TOKENS", ge=50, le=10_000_000)] = 5000
    """Default size of a summary, in tokens; content within it is returned unchanged."""

    max_unsupported_share: Annotated[float, Field(alias="SUMMARIZER_MAX_UNSUPPORTED_SHARE", ge=0, le=1)] = 0.05
    """Share of numbers, names and quotes in a summary that the content lacks, above which it is asked for again."""

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @model_validator(mode="after")
    def _overlap_fits(self) -> Self:
        if self.chunk_overlap >= self.chunk_size:
            raise ValueError(
                f"DEFAULT_CHUNK_OVERLAP_TOKENS ({self.chunk_overlap}) must be smaller than DEFAULT_CHUNK_SIZE_TOKENS "
                f"({self.chunk_size}); otherwise chunking would never end."
            )
        return self


class GatewaySettings(BaseModel):
    """The gateway, `tersely gateway`. Address, token, allowed hosts and body size are those of the summarizer."""

    model_config = _CONFIG

    port: Annotated[int, Field(alias="TERSELY_GATEWAY_PORT", ge=0, le=65535)] = 8008
    """Port to listen on with `--http`; 0 picks a free one."""

    intent_argument: Annotated[
        str, Field(alias="TERSELY_INTENT_ARGUMENT", pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,40}$")
    ] = "looking_for"
    """Name of the argument that is added to every tool, with which a client says what it wants to know."""

    intent_description: Annotated[str, Field(alias="TERSELY_INTENT_DESCRIPTION", max_length=1000)] = ""
    """Description of that argument for models, in every tool; without it, `read_result` explains the argument once."""

    lazy_above: Annotated[int, Field(alias="TERSELY_GATEWAY_LAZY_ABOVE", ge=0, le=100_000)] = 0
    """Number of tools of all servers above which those of every server are lazy, see `lazy` of a server; 0: never."""

    calls_per_minute: Annotated[int, Field(alias="TERSELY_GATEWAY_CALLS_PER_MINUTE", ge=0, le=1_000_000)] = 0
    """Tool calls that each token may make per minute, unless the token sets its own; 0 for no limit."""

    concurrent_calls: Annotated[int, Field(alias="TERSELY_GATEWAY_CONCURRENT_CALLS", ge=0, le=100_000)] = 0
    """Tool calls that each token may have running, unless the token sets its own; 0 for no limit."""


class StoreSettings(BaseModel):
    """What is stored on disk."""

    model_config = _CONFIG

    data_dir: Annotated[Path, Field(alias="TERSELY_DATA_DIR")] = Path(
        platformdirs.user_data_dir("tersely", appauthor=False)
    )
    """Folder of the files."""

    database_url: Annotated[SecretStr | None, Field(alias="TERSELY_DATABASE_URL")] = None
    """The database: `sqlite:////path/to/file.db` or `postgresql://user@host/name`; by default `tersely.db` in the data
    folder."""

    keep_days: Annotated[int, Field(alias="TERSELY_KEEP_DAYS", ge=1, le=36_500)] = 30
    """Days for which a kept result can be read back."""

    keep_mb: Annotated[int, Field(alias="TERSELY_KEEP_MB", ge=1, le=10_000_000)] = 2048
    """Megabytes that kept results may occupy, compressed; the oldest are deleted first."""

    summary_cache: Annotated[bool, Field(alias="TERSELY_SUMMARY_CACHE")] = True
    """Cache summaries, masked, so that the same text is summarized once."""

    summary_cache_mb: Annotated[int, Field(alias="TERSELY_SUMMARY_CACHE_MB", ge=1, le=100_000)] = 256
    """Size of that cache in megabytes; the least recently used summaries are deleted first."""

    login_storage: Annotated[LoginStorage, Field(alias="TERSELY_LOGIN_STORAGE")] = "auto"
    """Where logins at remote servers are stored: `keyring` (the system's), `file` (in the data folder, readable by its
    owner only), or `auto`: the keyring if there is one."""

    @property
    def logins(self) -> LoginStore:
        """The logins at remote servers."""
        return LoginStore(self.data_dir.expanduser() / LOGINS_FOLDER, self.login_storage)

    @property
    def spool(self) -> ResultSpool:
        """Results that hooks and `tersely run` have kept."""
        return spool_of(str(self.data_dir.expanduser()), temporary_folder(process_environment()))

    @property
    def url(self) -> str:
        """The URL of the database, with its password."""
        return (
            self.database_url.get_secret_value()
            if self.database_url
            else f"sqlite:///{self.data_dir.expanduser() / 'tersely.db'}"
        )


class UpSettings(BaseModel):
    """Investigations, `tersely up`: the API and the dashboard."""

    model_config = _CONFIG

    host: Annotated[str, Field(alias="TERSELY_HOST")] = "127.0.0.1"
    """Address to listen on. Beyond this machine, a token is needed too (or `TERSELY_ALLOW_OPEN=1`)."""

    port: Annotated[int, Field(alias="TERSELY_PORT", ge=0, le=65535)] = 8010
    """Port of the API and the dashboard; 0 picks a free one."""

    allowed_hosts: Annotated[tuple[str, ...], Field(alias="TERSELY_ALLOWED_HOSTS")] = ()
    """Comma-separated names that are allowed in the Host header, besides localhost and the listening address."""

    public_url: Annotated[str | None, Field(alias="TERSELY_PUBLIC_URL")] = None
    """Public address of the dashboard, for links in webhooks and in the terminal."""

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @field_validator("public_url")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        return None if value is None else _http_address(value)


class QueueSettings(BaseModel):
    """Limits of the queue, and when a worker counts as lost."""

    model_config = _CONFIG

    max_concurrent_sessions: Annotated[int, Field(alias="TERSELY_MAX_CONCURRENT_SESSIONS", ge=1, le=10_000)] = 5
    """Concurrent investigations, in all processes together."""

    max_pending: Annotated[int, Field(alias="TERSELY_MAX_PENDING", ge=1, le=10_000_000)] = 1_000
    """Alerts that may wait in the queue; further ones get a 429 with Retry-After."""

    session_timeout: Annotated[float, Field(alias="TERSELY_SESSION_TIMEOUT", gt=0, le=30 * 86_400)] = 3_600
    """Seconds after which an investigation ends as timed out."""

    lease: Annotated[float, Field(alias="TERSELY_LEASE", ge=1, le=3_600)] = 30
    """Seconds without a heartbeat after which a worker counts as lost and others resume its investigations."""

    poll: Annotated[float, Field(alias="TERSELY_POLL", ge=0.01, le=60)] = 0.1
    """Seconds between two polls of an empty queue."""

    grace: Annotated[float, Field(alias="TERSELY_GRACE", ge=0, le=3_600)] = 30
    """Seconds that running steps get to finish when the process stops; the rest is resumed elsewhere or later."""


Scope = Literal["submit", "override", "read", "admin"]


class TokenSettings(BaseModel):
    """A client of the API. Only the hash of its token is stored; `tersely config token NAME` creates both."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=120)]
    """Name of the client; sessions record it as their author."""

    sha256: str
    """SHA-256 of the token, in hexadecimal."""

    scopes: Annotated[tuple[Scope, ...], Field(min_length=1)] = ("submit", "read")
    """`submit` sends alerts, `override` sends them with servers and tools beyond those of their chain, `read` sees
    sessions, `admin` does all that, cancels and deletes the sessions of others and reads the audit log.
    """

    calls_per_minute: Annotated[int | None, Field(ge=0, le=1_000_000)] = None
    """Tool calls per minute through the gateway; 0 for no limit. Default: `gateway.calls_per_minute`."""

    concurrent_calls: Annotated[int | None, Field(ge=0, le=100_000)] = None
    """Tool calls running at the same time through the gateway; 0 for no limit. Default: `gateway.concurrent_calls`."""

    @field_validator("sha256")
    @classmethod
    def _is_digest(cls, value: str) -> str:
        if not re.fullmatch(r"[0-9a-fA-F]{64}", value):
            raise ValueError(
                "must be 64 hexadecimal digits, as `tersely config token` prints them; not the token itself"
            )
        return value.lower()


class ProxySettings(BaseModel):
    """Proxies that authenticate users."""

    model_config = _CONFIG

    addresses: Annotated[tuple[str, ...], Field(alias="TERSELY_TRUSTED_PROXIES")] = ()
    """Addresses or networks of proxies whose header is trusted, e.g. `10.0.0.7` or `10.0.0.0/24`."""

    user_header: Annotated[str, Field(alias="TERSELY_PROXY_USER_HEADER", min_length=1)] = "X-Forwarded-User"
    """Header in which those proxies name the user."""

    scopes: Annotated[tuple[Scope, ...], Field(alias="TERSELY_PROXY_SCOPES", min_length=1)] = ("submit", "read")
    """Scopes of users who come through them."""

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
                    f"{address!r} is neither an address nor a network; host names are not resolved here"
                ) from None
        return value


class AuthSettings(BaseModel):
    """Who may call the API outside of loopback."""

    model_config = _CONFIG

    tokens: Annotated[tuple[TokenSettings, ...], Field(alias="TERSELY_AUTH_TOKENS")] = ()
    """Bearer tokens; in the variable as `NAME:SHA256:submit+read`, separated by commas. `tersely config token NAME`
    creates one."""

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
            raise ValueError(f"two tokens have the name {twice!r}; their sessions could not be told apart")
        return value


class RetentionSettings(BaseModel):
    """How long investigations are kept. Tool results have their own setting: `store.keep_days`."""

    model_config = _CONFIG

    sessions_days: Annotated[int, Field(alias="TERSELY_KEEP_SESSIONS_DAYS", ge=1, le=36_500)] = 90
    """Days for which an ended investigation, its timeline and its trace are kept."""

    audit_days: Annotated[int, Field(alias="TERSELY_KEEP_AUDIT_DAYS", ge=1, le=36_500)] = 365
    """Days for which entries of the audit log are kept."""

    sweep_minutes: Annotated[float, Field(alias="TERSELY_SWEEP_MINUTES", gt=0, le=1_440)] = 60
    """Minutes between two deletions of expired data."""


class WebhookSettings(BaseModel):
    """Notifications about ended investigations."""

    model_config = _CONFIG

    urls: Annotated[tuple[str, ...], Field(alias="TERSELY_WEBHOOK_URLS")] = ()
    """Comma-separated URLs that get a POST when an investigation ends."""

    secret: Annotated[SecretStr | None, Field(alias="TERSELY_WEBHOOK_SECRET")] = None
    """Signs those requests, so that receivers can verify them: `X-Tersely-Signature` is the HMAC-SHA256 of
    `X-Tersely-Timestamp`, a dot and the body.
    """

    timeout: Annotated[float, Field(alias="TERSELY_WEBHOOK_TIMEOUT", gt=0, le=300)] = 10
    """Timeout of those requests, in seconds."""

    @field_validator("urls", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return _list(value)

    @field_validator("urls")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_http_address(address) for address in value)


class Settings(BaseModel):
    """All settings; `Settings.load()` reads them."""

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
    slack: SlackOptions = SlackOptions()
    email: EmailOptions = EmailOptions()
    research: ResearchOptions = ResearchOptions()
    chat: ChatOptions = ChatOptions()
    runbooks: RunbookOptions = RunbookOptions()
    defaults: Defaults = Defaults()
    llm_providers: dict[str, ProviderOptions] = {}
    """Models for agents and summaries, by name."""

    mcp_servers: dict[str, ServerOptions] = {}
    """MCP servers, by name."""

    agents: dict[str, AgentOptions] = {}
    """Agents, by name."""

    chains: dict[str, ChainOptions] = {}
    """Chains of agents, and the alert types they handle, by name."""

    allow_open: Annotated[bool, Field(alias="TERSELY_ALLOW_OPEN")] = False
    """Listen beyond this machine without authentication: everybody on the network is trusted with everything."""

    cpu_workers: Annotated[int | None, Field(alias="TERSELY_CPU_WORKERS", ge=0, le=1_000)] = None
    """Worker processes that condense, mask and count large texts in `serve`, `up`, `work` and `gateway`; one for each
    core unless set, and none before there is work for them. 0 uses threads only, which costs less memory and delays
    probes under load."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(alias="TERSELY_LOG_LEVEL")] = "info"
    """Log level; logs go to stderr."""

    log_format: Annotated[Literal["auto", "json", "text"], Field(alias="TERSELY_LOG_FORMAT")] = "auto"
    """`json`: one object per line. `text`: for people. `auto`: `text` if stderr is a terminal, else `json`."""

    @classmethod
    def load(
        cls,
        environment: Mapping[str, str] | None = None,
        file: Path | None = None,
        *,
        sections: Collection[str] | None = None,
        here: bool = False,
        **overrides: object,
    ) -> "Settings":
        """Read the file, then the environment, then `overrides` from the command line; later ones win.

        Args:
            environment: None: that of the process, and the `.env` beside the file.
            file: As returned by `find_file()`; None: no file.
            here: Without a file, read `.env` in the current folder. As for `find_file()`: not where another program
                chose the folder.
            sections: The sections of the file to read; errors in the others are ignored. None: all.
            overrides: By variable name; None = not given.

        Raises:
            ConfigError: Lists every wrong setting, where it was written, what is wrong and what is valid.
        """
        return load_with_sources(environment, file, sections=sections, here=here, **overrides)[0]

    @property
    def servers(self) -> tuple[Server, ...]:
        """The declared servers that are not disabled."""
        return tuple(
            Server(name=name, options=options) for name, options in self.mcp_servers.items() if not options.disabled
        )

    def specs(self, *providers: str) -> list[ModelSpec]:
        """The models of these providers, for `llm.limits.build_llm`: the first one, then its fallbacks."""
        return [self.llm_providers[name].spec() for name in providers]

    def summarizing(self) -> tuple[str, ...]:
        """The default providers for summaries, the primary one first; empty when there is none."""
        first = self.defaults.summarization.llm_provider or self.defaults.llm_provider
        if first != "default":
            return (first,) if first else ()
        return ("default", *(name for name in self.model.fallback_models if name in self.llm_providers))


FILE_NAME = "tersely.yaml"

SUMMARIZING = (
    "model",
    "llm_providers",
    "defaults",
    "summarizer",
    "store",
    "allow_open",
    "cpu_workers",
    "log_level",
    "log_format",
)
"""Sections that the summarizer reads."""

GATEWAY = (*SUMMARIZING, "gateway", "auth")
"""Sections that the gateway reads."""


def find_file(
    given: Path | None = None, environment: Mapping[str, str] | None = None, *, here: bool = True
) -> Path | None:
    """The file to read: `--config`, TERSELY_CONFIG, `tersely.yaml` in the current folder or in the user's configuration
    folder; None if there is none.

    Args:
        here: Whether the current folder counts. False where another program chose the folder: it may belong to an
            untrusted project, and the file decides where results are stored and which model reads them.
    """
    named = given or (process_environment() if environment is None else environment).get("TERSELY_CONFIG")
    if named:
        # Not checked here: reading a missing file reports the error.
        return Path(named).expanduser()
    return next((path for path in (Path(FILE_NAME), user_file())[not here :] if path.is_file()), None)


def env_folder(file: Path | None, *, here: bool) -> Path | None:
    """The folder whose `.env` is read: that of the configuration file, or the current one if `here`."""
    return file.absolute().parent if file else Path.cwd() if here else None


def user_file() -> Path:
    return Path(platformdirs.user_config_dir("tersely", appauthor=False)) / FILE_NAME


def load_with_sources(
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    *,
    sections: Collection[str] | None = None,
    here: bool = False,
    **overrides: object,
) -> tuple[Settings, SettingsTree]:
    """As `Settings.load`, with the source of each value."""
    if environment is None:
        environment = settings_environment(env_folder(file, here=here))
    tree, servers = gather(
        Settings,
        environment=environment,
        file=file,
        overrides=overrides,
        sections=sections,
    )
    try:
        model = ModelSettings.model_validate(tree.mapping("model"))
    except ValidationError:
        model = ModelSettings()  # Its errors are reported below, with the others.
    complete(
        tree,
        servers,
        from_model=model.providers(),
        model_is_named="model" in model.model_fields_set,
        key_for=model.key_for,
        environment=environment,
    )
    check_names(tree)
    settings = tree.checked(Settings)
    tree.raise_if_any()
    assert settings is not None, "an error was found and not reported"
    return settings, tree


def _list(value: object) -> object:
    return tuple(item.strip() for item in value.split(",") if item.strip()) if isinstance(value, str) else value


def _fields(group: type[BaseModel]) -> Iterator[FieldInfo]:
    for field in group.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation)
        else:
            yield field


def documented() -> list[tuple[str, str, str]]:
    """Variable, default and description of every setting. A test compares `docs/reference/settings.md` with it."""
    return [
        (field.alias, _shown_default(field.default), " ".join((field.description or "").split()))
        for field in _fields(Settings)
        if field.alias
    ]


def _shown_default(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)
