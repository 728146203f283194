"""Options of investigations: which agents work on which alert types, in which order.

Options only; `settings` checks that the agents and providers named here exist and
that no alert type belongs to two chains.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from tersely.agent.budget_options import BudgetOptions
from tersely.condensing.budget import CONDENSE_SECONDS
from tersely.masking.options import MaskingOptions

_CONFIG = ConfigDict(
    extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True, hide_input_in_errors=True
)

OverridePolicy = Literal["any", "narrow", "none"]
"""What alerts may choose for themselves: any configured servers and tools, some of those of their chain, or nothing."""

Iterations = Annotated[int, Field(ge=1, le=1000)]


SuccessPolicy = Literal["any", "all"]
"""When a stage with several agents succeeds: if any of them does, or only if all do."""

MOST_AGENTS = 12


def _named(value: Any) -> Any:
    """An entry that is only a name."""
    return {"name": value} if isinstance(value, str) else value


def _provider_names(value: Any) -> Any:
    """Providers by name; also `{provider: NAME, backend: …}`, as TARSy writes them."""
    if not isinstance(value, list):
        return value
    return [one.get("provider", one) if isinstance(one, dict) else one for one in value]


class StageAgent(BaseModel):
    """An agent in a stage, with what differs there from its own options."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1)]
    """The agent."""

    llm_provider: str | None = None
    """Provider for this agent in this stage."""

    fallbacks: Annotated[
        tuple[str, ...] | None, Field(alias="fallback_providers"), BeforeValidator(_provider_names)
    ] = None
    """Providers to use when the first one does not answer, instead of the agent's."""

    mcp_servers: tuple[str, ...] | None = None
    """Servers whose tools it may use in this stage, instead of the agent's."""

    max_iterations: Iterations | None = None
    """Limit for this agent in this stage."""

    budget: BudgetOptions | None = None
    """What it may spend in this stage, instead of the agent's budget."""

    llm_backend: str | None = None
    """Accepted from files of TARSy, without effect: the provider's `type` decides."""


class SynthesisOptions(BaseModel):
    """Which agent combines the results of a stage's agents."""

    model_config = _CONFIG

    agent: str | None = None
    """The agent whose instructions and provider it uses; if omitted, those of the stage's first agent, without its
    instructions."""

    llm_provider: str | None = None
    """Provider of the synthesis."""

    llm_backend: str | None = None
    """Accepted from files of TARSy, without effect: the provider's `type` decides."""


class StageOptions(BaseModel):
    """One step of a chain: an agent, or several that work in parallel, and their task."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=120)]
    """Its name in the timeline."""

    agents: Annotated[tuple[Annotated[StageAgent, BeforeValidator(_named)], ...], Field(max_length=MOST_AGENTS)] = ()
    """Agents that work on it in parallel, instead of `agent`: names, or entries with a provider, servers and limits of
    their own. A synthesis combines their results."""

    agent: Annotated[str, Field(validate_default=True)] = ""
    """The agent that works on it."""

    replicas: Annotated[int, Field(ge=1, le=MOST_AGENTS)] = 1
    """How often its agent works on it, in parallel, to compare the results."""

    success_policy: SuccessPolicy | None = None
    """Whether the stage succeeds if `any` of its agents does, or only if `all` do; if omitted, the default."""

    synthesis: SynthesisOptions = SynthesisOptions()

    task: str = ""
    """The task of this stage; without it the agent's instructions apply alone."""

    llm_provider: str | None = None
    """Provider for this stage, instead of the agent's."""

    fallbacks: Annotated[
        tuple[str, ...] | None, Field(alias="fallback_providers"), BeforeValidator(_provider_names)
    ] = None
    """Providers to use when the first one does not answer, instead of the agents'."""

    mcp_servers: tuple[str, ...] | None = None
    """Servers whose tools may be used in this stage, instead of the agents'."""

    max_iterations: Iterations | None = None
    """Limit for this stage, instead of the agent's."""

    budget: BudgetOptions = BudgetOptions()

    @field_validator("agent")
    @classmethod
    def _has_agents(cls, agent: str, info: ValidationInfo) -> str:
        if "agents" in info.data and bool(agent) == bool(info.data["agents"]):
            raise ValueError("a stage needs either `agent` or `agents`, not both" if agent else "is missing")
        return agent

    @model_validator(mode="after")
    def _repeats_one(self) -> Self:
        if len(self.agents) > 1 and self.replicas > 1:
            raise ValueError("`replicas` repeats one agent; with several `agents`, list each as often as it shall work")
        return self

    def team(self) -> tuple[tuple[str, StageAgent], ...]:
        """Its agents, each with a name that is unique in the stage."""
        entries = (self.agents or (StageAgent(name=self.agent),)) * self.replicas
        names = [entry.name for entry in entries]
        return tuple(
            (f"{entry.name} #{names[: at + 1].count(entry.name)}" if names.count(entry.name) > 1 else entry.name, entry)
            for at, entry in enumerate(entries)
        )


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

    budget: BudgetOptions | None = None
    """What a session of this chain may spend, instead of the default."""

    runbook: Annotated[str | None, Field(max_length=65_536)] = None
    """Runbook of alerts that bring none: its text, or an https address on a host of `runbooks.allowed_hosts`. If
    omitted, the default."""

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

    success_policy: Annotated[SuccessPolicy, Field(alias="TERSELY_SUCCESS_POLICY")] = "any"
    """Whether a stage with several agents succeeds if `any` of them does, or only if `all` do."""

    skills_folder: Annotated[Path | None, Field(alias="TERSELY_SKILLS_FOLDER")] = None
    """Folder of skills: `NAME/SKILL.md` or files, each with `name` and `description` in its header. Agents see these,
    and load the text of a skill when they need it."""

    budget: BudgetOptions = BudgetOptions()
    """What a session may spend."""

    runbook: Annotated[str, Field(alias="TERSELY_DEFAULT_RUNBOOK", max_length=65_536)] = ""
    """Runbook of alerts that bring none, and whose chain has none: its text, or an https address."""

    summarization: SummarizationDefaults = SummarizationDefaults()
    alert_masking: AlertMasking = AlertMasking()
