"""Configuration of messages about sessions to people: a Slack channel, and e-mail."""

import re
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, field_validator, model_validator

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{5,30}")
_ADDRESS = re.compile(r"[^\s@<>,;]+@[^\s@<>,;]+")

NotificationKind = Literal["start", "end"]


def _split(value: object) -> object:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


Kinds = Annotated[tuple[NotificationKind, ...], BeforeValidator(_split)]
Addresses = Annotated[tuple[str, ...], BeforeValidator(_split)]


class SlackOptions(BaseModel):
    """Messages to Slack when an investigation starts and ends, one thread per fingerprint."""

    model_config = _CONFIG

    token: Annotated[SecretStr | None, Field(alias="TERSELY_SLACK_TOKEN")] = None
    """Token of a Slack app (`xoxb-…`) with the scopes `chat:write` and `channels:history` (or `groups:history`)."""

    channel: Annotated[str, Field(alias="TERSELY_SLACK_CHANNEL")] = ""
    """ID of the channel, as its details show it: C0123456789."""

    channels: dict[str, str] = {}
    """Channels of single chains, by the chain's name; an empty one: no messages."""

    notify: Annotated[Kinds, Field(alias="TERSELY_SLACK_NOTIFY")] = ("start", "end")
    """When: `start`, `end`, or both."""

    api_url: Annotated[str, Field(alias="TERSELY_SLACK_API_URL", pattern=r"^https?://[^\s]+$")] = (
        "https://slack.com/api"
    )
    """Address of Slack's Web API."""

    timeout: Annotated[float, Field(alias="TERSELY_SLACK_TIMEOUT", gt=0, le=30)] = 10
    """Timeout of a request, in seconds."""

    @field_validator("channel")
    @classmethod
    def _is_channel(cls, value: str) -> str:
        return _channel_id(value)

    @field_validator("channels")
    @classmethod
    def _are_channels(cls, value: dict[str, str]) -> dict[str, str]:
        return {chain: _channel_id(channel) for chain, channel in value.items()}

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        wanted = self.channel or any(self.channels.values())
        if wanted and self.token is None:
            raise ValueError("needs a token: set TERSELY_SLACK_TOKEN, or write `token: ${VARIABLE}`")
        if self.token is not None and not wanted:
            raise ValueError("needs a channel: set TERSELY_SLACK_CHANNEL, or write `channel: C0123456789`")
        return self

    def channel_of(self, chain: str) -> str:
        """The channel for a chain's sessions; empty for none."""
        return self.channels.get(chain, self.channel) if self.token else ""


class EmailOptions(BaseModel):
    """E-mail when an investigation ends (or starts), by SMTP."""

    model_config = _CONFIG

    host: Annotated[str, Field(alias="TERSELY_SMTP_HOST")] = ""
    """Mail server that accepts messages."""

    port: Annotated[int, Field(alias="TERSELY_SMTP_PORT", ge=1, le=65_535)] = 587
    """Its port."""

    security: Annotated[Literal["starttls", "tls", "none"], Field(alias="TERSELY_SMTP_SECURITY")] = "starttls"
    """`starttls` (port 587) or `tls` (port 465), with the certificate checked; `none` sends in the clear."""

    username: Annotated[str, Field(alias="TERSELY_SMTP_USERNAME")] = ""
    """Account at the mail server."""

    password: Annotated[SecretStr | None, Field(alias="TERSELY_SMTP_PASSWORD")] = None
    """Password of the account."""

    sender: Annotated[str, Field(alias="TERSELY_EMAIL_FROM")] = ""
    """Address that the messages come from."""

    to: Annotated[Addresses, Field(alias="TERSELY_EMAIL_TO")] = ()
    """Addresses that get the messages."""

    chains: dict[str, Addresses] = {}
    """Addresses for single chains, by the chain's name; none: no messages."""

    notify: Annotated[Kinds, Field(alias="TERSELY_EMAIL_NOTIFY")] = ("end",)
    """When: `start`, `end`, or both."""

    timeout: Annotated[float, Field(alias="TERSELY_SMTP_TIMEOUT", gt=0, le=60)] = 20
    """Timeout of every exchange with the mail server, in seconds."""

    @field_validator("sender")
    @classmethod
    def _is_address(cls, value: str) -> str:
        return _address(value) if value else value

    @field_validator("to")
    @classmethod
    def _are_addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_address, value))

    @field_validator("chains")
    @classmethod
    def _have_addresses(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        return {chain: tuple(map(_address, addresses)) for chain, addresses in value.items()}

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.to or any(self.chains.values()):
            for name in ("host", "sender"):
                if not getattr(self, name):
                    raise ValueError(f"needs {name}, because it names recipients")
        if bool(self.username) != (self.password is not None):
            raise ValueError("username and password belong together")
        return self

    def recipients_of(self, chain: str) -> tuple[str, ...]:
        return self.chains.get(chain, self.to) if self.host else ()


def _channel_id(value: str) -> str:
    if value and not _CHANNEL.fullmatch(value):
        raise ValueError(f"{value!r} is not the ID of a channel: open its details in Slack and copy it (C0123456789)")
    return value


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError(f"{value!r} is not an e-mail address")
    return value
