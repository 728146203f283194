"""Options of investigations: which agents work on which alert types, in which order.

Options only; `settings` checks that the agents and providers named here exist and
that no alert type belongs to two chains.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tersely.condensing.budget import CONDENSE_SECONDS
from tersely.masking.options import MaskingOptions

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

OverridePolicy = Literal["any", "narrow", "none"]
"""What alerts may choose for themselves: any configured servers and tools, some of those of their chain, or nothing."""

Iterations = Annotated[int, Field(ge=1, le=1000)]


class StageOptions(BaseModel):
    """One step of a chain: an agent and its task."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=120)]
    """Its name in the timeline."""

    agent: Annotated[str, Field(min_length=1)]
    """The agent that works on it."""

    task: str = ""
    """The task of this stage; without it the agent's instructions apply alone."""

    llm_provider: str | None = None
    """Provider for this stage, instead of the agent's."""

    max_iterations: Iterations | None = None
    """Limit for this stage, instead of the agent's."""


class ChainOptions(BaseModel):
    """Which alerts a chain is for, and its stages."""

    model_config = _CONFIG

    alert_types: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=120)], ...], Field(min_length=1)]
    """The alert types this chain is for. No type belongs to two chains."""

    description: str = ""
    """One line, shown where an alert type is chosen."""

    stages: Annotated[tuple[StageOptions, ...], Field(min_length=1)]
    """The stages, in order. Each receives the analyses of the earlier ones."""

    override: OverridePolicy = "any"
    """Whether alerts may choose their servers and tools: `any` of those configured (tokens without the scope `override`
    only among those of the chain), `narrow`: only among those of the chain, `none`: not at all.
    """

    verdict: bool | None = None
    """Whether the model is asked for a verdict after its last analysis; if omitted, the default."""

    kind: str = "investigation"
    """The workflow that runs it."""

    @field_validator("stages")
    @classmethod
    def _names_differ(cls, stages: tuple[StageOptions, ...]) -> tuple[StageOptions, ...]:
        names = [stage.name for stage in stages]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two stages are called {twice!r}; the timeline could not tell them apart")
        return stages


class SummarizationDefaults(BaseModel):
    """Provider and timeout of summaries for servers that set none."""

    model_config = _CONFIG

    llm_provider: Annotated[str | None, Field(alias="TERSELY_SUMMARIZATION_PROVIDER")] = None
    """Provider that summarizes results of servers that name none; without one the agent's own."""

    timeout: Annotated[float, Field(alias="TERSELY_SUMMARIZATION_TIMEOUT", gt=0, le=3_600)] = CONDENSE_SECONDS
    """Seconds a summary may take; after that the result is condensed by its structure."""


class AlertMasking(MaskingOptions):
    """Masking of alerts before they are stored."""

    enabled: Annotated[bool, Field(alias="TERSELY_ALERT_MASKING")] = True
    """Mask secrets in alerts and runbooks before anything is stored."""


class Defaults(BaseModel):
    """Defaults for agents, chains and alerts that set nothing."""

    model_config = _CONFIG

    llm_provider: Annotated[str | None, Field(alias="TERSELY_LLM_PROVIDER")] = None
    """Provider of agents that name none; without it the one of `LLM_MODEL` and its keys, or the only one declared."""

    max_iterations: Annotated[Iterations, Field(alias="TERSELY_MAX_ITERATIONS")] = 20
    """Model calls an agent may make before it has to conclude."""

    alert_type: Annotated[str | None, Field(alias="TERSELY_DEFAULT_ALERT_TYPE")] = None
    """Type of alerts that name none; without it that of the only chain."""

    display_tokens: Annotated[int, Field(alias="TERSELY_DISPLAY_TOKENS", ge=0)] = 8_000
    """Tokens of a tool result that timeline and trace show; 0 shows all. The whole result can be read in any case."""

    verdict: Annotated[bool, Field(alias="TERSELY_VERDICT")] = True
    """Whether the model is asked for a verdict (cause, confidence, actions, evidence) after its last analysis, which
    costs one more request per session. Investigations without a model always have one.
    """

    summarization: SummarizationDefaults = SummarizationDefaults()
    alert_masking: AlertMasking = AlertMasking()
