"""What the operator says about an MCP server: how to reach it, and how to treat what it returns.

Options only, checked as far as one server can be checked alone. Reading them from
files, with line numbers and variables, is `config_files`; connecting is
`tools.connect`; who may call what is `tools.selection` and `tools.registry`.
"""

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

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

MEGABYTE = 2**20

Transport = Literal["stdio", "http", "sse"]
Protocol = Literal["auto", "handshake-first", "2025-11-25", "2026-07-28"]

_SPELLINGS = {"streamable-http": "http", "streamable_http": "http", "streamablehttp": "http"}
"""What clients call the HTTP transport in their own files."""


def _as_transport(value: object) -> object:
    return _SPELLINGS.get(value.lower(), value) if isinstance(value, str) else value


def _as_texts(value: object) -> object:
    """YAML reads `8080` and `true` as what they look like; a program gets them as text."""

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
    """How to reach the server: a command to start, or an address."""

    model_config = _CONFIG

    type: Annotated[Transport | None, BeforeValidator(_as_transport)] = None
    """`stdio`, `http` or `sse`; without it a command means stdio and a URL means http."""

    command: str | None = Field(default=None, min_length=1)
    """Program to start. It speaks MCP on its standard input and output."""

    args: Texts = ()
    """Arguments for the program."""

    env: Secrets = {}
    """Environment variables for the program, besides a minimum such as PATH and HOME. It sees no others of ours."""

    inherit_env: tuple[str, ...] = ()
    """Names of variables the program takes over from our own environment."""

    cwd: str | None = None
    """Directory in which the program is started."""

    url: str | None = None
    """Address of the server's MCP endpoint."""

    headers: Secrets = {}
    """HTTP headers sent with every request."""

    bearer_token: SecretStr | None = None
    """Sent as `Authorization: Bearer …`."""

    @model_validator(mode="after")
    def _is_one_way_in(self) -> Self:
        if self.command and self.url:
            raise ValueError("has both a command and a url; keep the one the server is reached by")
        if not self.command and not self.url:
            raise ValueError("needs a command (stdio) or a url (http, sse)")
        if self.type == "stdio" and not self.command:
            raise ValueError("type stdio needs a command, not a url")
        if self.type in ("http", "sse") and not self.url:
            raise ValueError(f"type {self.type} needs a url, not a command")
        out_of_place = ("headers", "bearer_token") if self.command else ("args", "env", "inherit_env", "cwd")
        for name in out_of_place:
            if getattr(self, name):
                raise ValueError(f"{name} means nothing for a server reached by {'command' if self.command else 'url'}")
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
            raise ValueError("must be an address such as http://localhost:9000/mcp")
        return value

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, value: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, content in value.items():
            if not name or not name.isascii() or not name.replace("-", "").replace("_", "").isalnum():
                raise ValueError(f"{name!r} is not a header's name")
            if any(sign in content.get_secret_value() for sign in "\r\n\0"):
                raise ValueError(f"the value of {name} contains a line break")
        return value

    @property
    def kind(self) -> Transport:
        return self.type or ("stdio" if self.command else "http")


def _one_or_many(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]


class ToolFilter(BaseModel):
    """Which of the server's tools exist for us. Names may contain `*` and `?`."""

    model_config = _CONFIG

    allow: Patterns | None = None
    """Only these tools. Without it all of them."""

    deny: Patterns = ()
    """Never these, even when `allow` names them."""


def _as_filter(value: object) -> object:
    return {"allow": value} if isinstance(value, list | tuple) else value


class SummarizationChanges(BaseModel):
    """What is different for some tools; what is not named stays as the server's `summarization` says."""

    model_config = _CONFIG

    enabled: bool | None = None
    """False: results of these tools are never condensed."""

    size_threshold_tokens: int | None = Field(default=None, ge=100)
    """Results at or under this size pass untouched."""

    summary_max_token_limit: int | None = Field(default=None, ge=50)
    """What a condensed result may take."""

    llm_provider: str | None = None
    """Which provider summarizes."""

    use_model: bool | None = None
    """Whether a model summarizes."""


class ToolPolicy(BaseModel):
    """How some tools of a server are treated otherwise than the rest."""

    model_config = _CONFIG

    summarization: SummarizationChanges = SummarizationChanges()
    """When their results are condensed."""

    data_masking: MaskingOptions | None = None
    """What is masked in their results, instead of what the server's `data_masking` says."""


class ServerOptions(BaseModel):
    """One MCP server."""

    model_config = _CONFIG

    transport: TransportOptions
    """How to reach the server."""

    instructions: str = ""
    """What a model should know before it uses this server's tools."""

    data_masking: MaskingOptions = MaskingOptions()
    """What is masked in its results."""

    summarization: SummarizationOptions = SummarizationOptions()
    """When its results are condensed."""

    timeout: float = Field(default=60, gt=0, le=86_400)
    """Seconds one tool call may take."""

    start_timeout: float = Field(default=30, gt=0, le=3_600)
    """Seconds from starting or dialling the server until it has listed its tools."""

    list_timeout: float = Field(default=15, gt=0, le=3_600)
    """Seconds one listing of tools may take."""

    list_ttl: float = Field(default=300, ge=1, le=86_400)
    """Seconds after which the tools are listed again even if the server has not said that they changed."""

    tools: Annotated[ToolFilter, BeforeValidator(_as_filter)] = ToolFilter()
    """Which of its tools exist for us; a list is short for `allow`."""

    tool_policies: dict[str, ToolPolicy] = {}
    """What is different for single tools, by name; `*` and `?` may stand in it. The last one that fits a tool counts.
    """

    read_only: bool = False
    """Refuse tools that do not declare themselves read-only."""

    allow_destructive: bool | Patterns = False
    """Let agents call tools that declare themselves destructive: all of them, or those named here."""

    max_result_bytes: int = Field(default=32 * MEGABYTE, ge=1024, le=2**40)
    """Larger results are refused while they are read."""

    protocol: Protocol = "auto"
    """The protocol spoken with the server; `auto` takes the newest both know, `handshake-first` the older where the
    server has it.
    """

    disabled: bool = False
    """Leave this server out."""

    @model_validator(mode="after")
    def _policies_hold(self) -> Self:
        for pattern in self.tool_policies:
            try:
                self.policy(pattern)
            except ValueError as wrong:
                raise ValueError(
                    f"tool_policies.{pattern}: {str(wrong).partition('Value error, ')[2].partition(' [type=')[0]}"
                ) from None
        return self

    def policy(self, tool: str) -> tuple[SummarizationOptions, MaskingOptions]:
        """How results of a tool are condensed and masked."""
        chosen = next(
            (self.tool_policies[pattern] for pattern in reversed(self.tool_policies) if fnmatchcase(tool, pattern)),
            None,
        )
        if chosen is None:
            return self.summarization, self.data_masking
        changes = chosen.summarization.model_dump(exclude_none=True)
        # Validated again: a smaller threshold alone may be under the target.
        condensing = SummarizationOptions.model_validate({**self.summarization.model_dump(), **changes})
        return condensing, chosen.data_masking or self.data_masking


class Server(BaseModel):
    """A declared server and its name."""

    model_config = _CONFIG

    name: str = Field(min_length=1)
    options: ServerOptions

    @field_validator("name")
    @classmethod
    def _is_sayable(cls, value: str) -> str:
        if not value.isascii() or not value.isprintable() or len(value) > 128:
            raise ValueError("a server's name is up to 128 plain ASCII characters")
        return value
