"""Configuration of runbooks that are read from addresses."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from tersely.errors import InputError

ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{1,20}://\S+")
"""A runbook that is nothing but an address."""

_GITHUB_FILE = re.compile(r"https://github\.com/([^/]+)/([^/]+)/(?:blob|raw)/([^?#]+)")
GITHUB_HOSTS = ("raw.githubusercontent.com", "github.com", "api.github.com")


class RunbookOptions(BaseModel):
    """Options of runbooks that an alert or a chain names by their address."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
    )

    allowed_hosts: Annotated[tuple[str, ...], Field(alias="TERSELY_RUNBOOK_HOSTS")] = GITHUB_HOSTS
    """Comma-separated hosts from which runbooks are read, by https only; `none`: from none. An address on another host
    is refused."""

    github_token: Annotated[SecretStr | None, Field(alias="GITHUB_TOKEN")] = None
    """Token for runbooks in private repositories; sent to GitHub's hosts only."""

    cache_seconds: Annotated[float, Field(alias="TERSELY_RUNBOOK_CACHE_SECONDS", ge=0, le=86_400)] = 60
    """Seconds for which a runbook is not asked for again; after that only whether it has changed."""

    max_bytes: Annotated[int, Field(alias="TERSELY_RUNBOOK_MAX_BYTES", ge=1, le=2**20)] = 65_536
    """Largest runbook that is read."""

    timeout: Annotated[float, Field(alias="TERSELY_RUNBOOK_TIMEOUT", gt=0, le=300)] = 15
    """Seconds that reading one may take."""

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        return () if value in (["none"], "none") else value

    @field_validator("allowed_hosts")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            if not host or "/" in host or ":" in host:
                raise ValueError(f"{host!r} is not the name of a host, such as raw.githubusercontent.com")
        return tuple(host.lower() for host in value)

    def address(self, address: str) -> str:
        """The address from which a runbook is read.

        Raises:
            InputError: It is not allowed; the message says what would be.
        """
        if file := _GITHUB_FILE.fullmatch(address.strip()):
            address = "https://raw.githubusercontent.com/{}/{}/{}".format(*file.groups())
        try:
            parts = urlsplit(address.strip())
            port = parts.port
        except ValueError:
            raise InputError("runbook: this is not an address.") from None
        host = (parts.hostname or "").lower()
        if parts.scheme != "https" or parts.username is not None or port not in (None, 443):
            raise InputError("runbook: an address has to begin with https://, without a user and a port.")
        allowed = self.allowed_hosts
        if host not in allowed and not (file and "github.com" in allowed):
            known = f"those of {', '.join(allowed)} are" if allowed else "none are"
            raise InputError(f"runbook: addresses on {host[:200]!r} are not read; {known}. Send the text instead.")
        return parts._replace(scheme="https", netloc=host, fragment="").geturl()
