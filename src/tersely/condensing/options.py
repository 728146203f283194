"""What an operator can say about condensing: from which size on, and to which size."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)


class SummarizationOptions(BaseModel):
    """When results of the server are condensed, and how far."""

    model_config = _CONFIG

    enabled: bool = True
    """Results over the threshold are condensed; the whole stays readable."""

    size_threshold_tokens: int = Field(default=5_000, ge=100)
    """Results at or under this size reach the model untouched."""

    summary_max_token_limit: int = Field(default=1_000, ge=50)
    """What a condensed result may take."""

    llm_provider: str | None = None
    """Which provider summarizes; without one the default for summaries, else the agent's own."""

    use_model: bool | None = None
    """Whether a model summarizes. Unless set, agents ask theirs and the gateway condenses by structure alone."""

    @model_validator(mode="after")
    def _gets_shorter(self) -> Self:
        if self.enabled and self.summary_max_token_limit >= self.size_threshold_tokens:
            raise ValueError(
                f"summary_max_token_limit ({self.summary_max_token_limit}) must be smaller than size_threshold_tokens "
                f"({self.size_threshold_tokens}); otherwise condensing would make results longer."
            )
        return self
