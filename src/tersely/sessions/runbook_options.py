"""Configuration of runbooks that are read from addresses."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

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
