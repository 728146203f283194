"""Options for masking. The default masks everything."""

from typing import Annotated, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator, model_validator

from tersely.errors import ConfigError
from tersely.masking.mask import DEFAULT_GROUPS, Masker

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


class MaskingOptions(BaseModel):
    """What is masked in the server's results."""

    model_config = _CONFIG

    enabled: bool = True
    """Whether results are masked. Turn it off for a server that returns no secrets."""

    groups: Annotated[tuple[str, ...], Field(validation_alias=AliasChoices("groups", "pattern_groups"))] = (
        DEFAULT_GROUPS
    )
    """Kinds of secrets to mask. Default: all."""

    custom_patterns: dict[str, str] = {}
    """Your own regular expressions (re2) by the name in the mark. If a group is named `secret`, only it is masked."""

    @field_validator("custom_patterns", mode="before")
    @classmethod
    def _by_name(cls, value: object) -> object:
        if isinstance(value, list) and all(
            isinstance(item, dict) and set(item) == {"name", "pattern"} for item in value
        ):
            return {item["name"]: item["pattern"] for item in value}
        return value

    @model_validator(mode="after")
    def _compiles(self) -> Self:
        try:
            self.masker()
        except ConfigError as problem:
            raise ValueError(str(problem)) from None
        return self

    def masker(self, key: bytes | None = None) -> Masker:
        """A masker with these patterns; `key` is the key of the scope in which the marks are shown."""
        return Masker(groups=self.groups, custom=self.custom_patterns, key=key)
