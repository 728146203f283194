"""Options for condensing: the threshold and the size of the condensed result."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


class SummarizationOptions(BaseModel):
    """When the server's results are condensed, and to what size."""

    model_config = _CONFIG

    enabled: bool = True
    """Condense results over the threshold. The full result can be read back."""

    size_threshold_tokens: int = Field(default=5_000, ge=100)
    """Results up to this size are not condensed."""

    summary_max_token_limit: int = Field(default=1_000, ge=50)
    """Maximum size of a condensed result in tokens."""

    llm_provider: str | None = None
    """Provider of the summarizing model. Default: the default for summaries, else the agent's provider."""

    use_model: bool | None = None
    """Whether a model summarizes. Default: yes for agents; the gateway condenses by structure alone."""

    max_unsupported_share: float = Field(default=0.05, ge=0, le=1)
    """Share of numbers, names and quotes in a summary that the result lacks, above which it is asked for again."""

    @model_validator(mode="after")
    def _limit_is_below_threshold(self) -> Self:
        if self.enabled and self.summary_max_token_limit >= self.size_threshold_tokens:
            raise ValueError(
                f"summary_max_token_limit ({self.summary_max_token_limit}) must be smaller than size_threshold_tokens "
                f"({self.size_threshold_tokens}); otherwise condensing would make results longer."
            )
        return self
