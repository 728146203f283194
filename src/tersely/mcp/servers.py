"""The options of an MCP server: how to reach it, and how to process its results.

Options only, validated as far as one server can be validated alone. `settings` reads
them from files, with line numbers and variables; `mcp.connect` connects;
`mcp.selection` and `mcp.registry` decide which tools may be called.
"""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from tersely.condensing.options import SummarizationOptions
from tersely.masking.options import MaskingOptions
from tersely.text.spooled import MOST_AT_ONCE, MOST_SPOOLED
from tersely.tls import existing_file

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

Transport = Literal["stdio", "http", "sse", "history"]
InterruptedCalls = Literal["ask", "repeat", "skip"]
Protocol = Literal["auto", "handshake-first", "2025-11-25", "2026-07-28"]

_SPELLINGS = {"streamable-http": "http", "streamable_http": "http", "streamablehttp": "http"}
"""Other names for the HTTP transport in the configuration files of clients."""


_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
NETWORK_VARIABLES = frozenset(
    (
        *_PROXIES,
        *(name.lower() for name in _PROXIES),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("NODE_USE_SYSTEM_CA", "NODE_USE_ENV_PROXY", "DENO_CERT", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT"),
        *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "npm_config_cafile", "NPM_CONFIG_CAFILE"),
        *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    )
)
"""Variables that every program inherits: how to reach the network, which certificates to trust, language and time zone.
None of them holds a key of a service; a proxy's address may hold the proxy's own password."""


def is_inherited(variable: str, named: Collection[str]) -> bool:
    """Whether a program gets this variable, given its `inherit_env`. Our own settings have to be named literally."""
    if variable in NETWORK_VARIABLES or variable in named:
        return True
    return not variable.startswith("TERSELY_") and any("*" in one and fnmatchcase(variable, one) for one in named)


def _as_transport(value: object) -> object:
    return _SPELLINGS.get(value.lower(), value) if isinstance(value, str) else value


def _as_texts(value: object) -> object:
    """Numbers and booleans as text: YAML parses `8080` and `true`, but a program gets strings."""

    def text(item: object) -> object:
        if isinstance(item, bool):
            return str(item).lower()
        return str(item) if isinstance(item, int | float) else item

    if isinstance(value, dict):
        return {name: text(item) for name, item in value.items()}
    return [text(item) for item in value] if isinstance(value, list | tuple) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]
Secrets = Annotated[dict[str, SecretStr], BeforeValidator(_as_texts)]


class TransportOptions(BaseModel):
    """How to reach the server: a command to start, or a URL."""

    model_config = _CONFIG

    type: Annotated[Transport | None, BeforeValidator(_as_transport)] = None
    """`stdio`, `http` or `sse`; without it a command means stdio and a URL means http. `history` needs neither: it is
    the tool `search_past_sessions` of `tersely up`, over the verdicts of earlier sessions.
    """

    command: str | None = Field(default=None, min_length=1)
    """Program to start. It communicates over its standard input and output."""

    args: Texts = ()
    """Arguments for the program."""

    env: Secrets = {}
    """Environment variables for the program. In addition it gets a minimum such as PATH and HOME, the variables for
    proxies and certificates, and no others."""

    inherit_env: tuple[str, ...] = ()
    """Names of variables that the program inherits from Tersely's environment; `*` is a wildcard."""

    cwd: str | None = None
    """Working directory of the program."""

    url: str | None = None
    """URL of the server's MCP endpoint."""

    headers: Secrets = {}
    """HTTP headers sent with every request."""

    bearer_token: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""

    verify_tls: Annotated[bool, Field(alias="verify_ssl")] = True
    """Check the server's certificate. Without it, anybody on the way can read and change everything, tokens included.
    """

    ca_file: str | None = None
    """File with certificates of authorities to trust, instead of the system's."""

    client_cert: str | None = None
    """File with the certificate that identifies this client (mutual TLS), with its key unless `client_key` has it."""

    client_key: str | None = None
    """File with the key of `client_cert`."""

    @model_validator(mode="after")
    def _has_one_transport(self) -> Self:
        if self.type == "history":
            if given := sorted(self.model_fields_set - {"type"}):
                raise ValueError(f"type history takes no {given[0]}")
            return self
        if self.command and self.url:
            raise ValueError("has both a command and a url; keep one of them")
        if not self.command and not self.url:
            raise ValueError("needs a command (stdio) or a url (http, sse)")
        if self.type == "stdio" and not self.command:
            raise ValueError("type stdio needs a command, not a url")
        if self.type in ("http", "sse") and not self.url:
            raise ValueError(f"type {self.type} needs a url, not a command")
        if self.command and not self.verify_tls:
            raise ValueError("verify_tls has no effect for a server with a command")
        if self.ca_file and not self.verify_tls:
            raise ValueError("ca_file has no effect with verify_tls: false; keep one of them")
        if self.client_key and not self.client_cert:
            raise ValueError("client_key needs client_cert")
        for_urls = ("headers", "bearer_token", "ca_file", "client_cert", "client_key")
        out_of_place = for_urls if self.command else ("args", "env", "inherit_env", "cwd")
        for name in out_of_place:
            if getattr(self, name):
                raise ValueError(f"{name} has no effect for a server with a {'command' if self.command else 'url'}")
        return self

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("must be a URL such as http://localhost:9000/mcp")
        return value

    _are_files = field_validator("ca_file", "client_cert", "client_key")(existing_file)

    @field_validator("inherit_env")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not name or "=" in name or not name.isprintable() or " " in name:
                raise ValueError("inherit_env takes names of variables, not values")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, content in value.items():
            if not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"{name!r} is not a valid header name")
            if any(character in content.get_secret_value() for character in "\r\n\0"):
                raise ValueError(f"the value of {name} contains a line break or a null character")
        return value

    @property
    def kind(self) -> Transport:
        return self.type or ("stdio" if self.command else "http")


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]


class ToolFilter(BaseModel):
    """Which of the server's tools are used. Names may contain `*` and `?`."""

    model_config = _CONFIG

    allow: Patterns | None = None
    """Use only these tools. Default: all."""

    deny: Patterns = ()
    """Never use these tools, even if `allow` includes them."""


def _as_filter(value: object) -> object:
    return {"allow": value} if isinstance(value, list | tuple) else value


class SummarizationChanges(BaseModel):
    """Differences from the server's `summarization` for some tools; fields that are not set do not change."""

    model_config = _CONFIG

    enabled: bool | None = None
    """False: never condense results of these tools."""

    size_threshold_tokens: int | None = Field(default=None, ge=100)
    """Results up to this size are not condensed."""

    summary_max_token_limit: int | None = Field(default=None, ge=50)
    """Maximum size of a condensed result in tokens."""

    llm_provider: str | None = None
    """Provider of the summarizing model."""

    use_model: bool | None = None
    """Whether a model summarizes."""


class ToolPolicy(BaseModel):
    """Options for some tools that differ from the rest of the server."""

    model_config = _CONFIG

    summarization: SummarizationChanges = SummarizationChanges()
    """When their results are condensed."""

    data_masking: MaskingOptions | None = None
    """What is masked in their results, in place of the server's `data_masking`."""


class ServerOptions(BaseModel):
    """One MCP server."""

    model_config = _CONFIG

    transport: TransportOptions
    """How to reach the server."""

    instructions: str = ""
    """Instructions for models about this server's tools."""

    data_masking: MaskingOptions = MaskingOptions()
    """What is masked in its results."""

    summarization: SummarizationOptions = SummarizationOptions()
    """When its results are condensed."""

    timeout: float = Field(default=60, gt=0, le=86_400)
    """Time limit of one tool call, in seconds."""

    start_timeout: float = Field(default=30, gt=0, le=3_600)
    """Seconds after which a server counts as slow. A URL is then tried again; a command is reported and left to finish.
    """

    list_timeout: float = Field(default=15, gt=0, le=3_600)
    """Time limit of one listing of tools, in seconds."""

    list_ttl: float = Field(default=300, ge=1, le=86_400)
    """Seconds after which the tools are listed again even without a notification of a change."""

    tools: Annotated[ToolFilter, BeforeValidator(_as_filter)] = ToolFilter()
    """Which of its tools are used; a list is short for `allow`."""

    lazy: bool = False
    """The gateway does not list its tools: clients find them with `search_tools` and call them with `call_tool`."""

    listed: Patterns = ()
    """Tools that the gateway lists all the same when the others are lazy, by name; `*` and `?` are wildcards."""

    tool_policies: dict[str, ToolPolicy] = {}
    """Options for single tools, by name; `*` and `?` are wildcards. The last entry that matches a tool applies."""

    read_only: bool = False
    """Refuse tools that do not declare themselves read-only."""

    allow_destructive: bool | Patterns = False
    """Allow agents to call tools that declare themselves destructive: all of them, or the ones named here."""

    interrupted_calls: InterruptedCalls = "ask"
    """What happens to a call that may have been made before a restart, unless the tool declares itself read-only or
    idempotent (then it is repeated): `ask` tells the agent so, `repeat` makes it again, `skip` does not allow it again.
    It was in flight when the process ended, or an update resumed the session from an earlier step.
    """

    max_result_bytes: int = Field(default=MOST_AT_ONCE, ge=1024, le=2**40)
    """Maximum size of a result in bytes that is processed as a whole. Larger results are refused while they are read,
    or processed in parts by the gateway."""

    max_spooled_bytes: int = Field(default=MOST_SPOOLED, ge=0, le=2**40)
    """Maximum size of a result in bytes that the gateway condenses in parts, in bounded memory; its text is in a
    temporary file meanwhile. With less than `max_result_bytes`, no result is."""

    protocol: Protocol = "auto"
    """Protocol version. `auto` uses the newest that both sides support, `handshake-first` the older if available."""

    disabled: bool = False
    """Do not use this server."""

    def is_lazy(self, tool: str, all_are: bool) -> bool:
        """Whether a tool is found with `search_tools` instead of being listed."""
        return (self.lazy or all_are) and not any(fnmatchcase(tool, pattern) for pattern in self.listed)

    @model_validator(mode="after")
    def _policies_are_valid(self) -> Self:
        for pattern in self.tool_policies:
            try:
                self.policy(pattern)
            except ValueError as problem:
                raise ValueError(
                    f"tool_policies.{pattern}: {str(problem).partition('Value error, ')[2].partition(' [type=')[0]}"
                ) from None
        return self

    def policy(self, tool: str) -> tuple[SummarizationOptions, MaskingOptions]:
        """The condensing and masking options for a tool."""
        chosen = next(
            (self.tool_policies[pattern] for pattern in reversed(self.tool_policies) if fnmatchcase(tool, pattern)),
            None,
        )
        if chosen is None:
            return self.summarization, self.data_masking
        changes = chosen.summarization.model_dump(exclude_none=True)
        # Validated again: a smaller threshold alone may be below the size limit.
        condensing = SummarizationOptions.model_validate({**self.summarization.model_dump(), **changes})
        return condensing, chosen.data_masking or self.data_masking


class Server(BaseModel):
    """A configured server and its name."""

    model_config = _CONFIG

    name: str = Field(min_length=1)
    options: ServerOptions

    @field_validator("name")
    @classmethod
    def _is_printable(cls, value: str) -> str:
        if not value.isascii() or not value.isprintable() or len(value) > 128:
            raise ValueError("a server's name is up to 128 printable ASCII characters")
        return value
