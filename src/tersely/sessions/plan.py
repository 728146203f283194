"""Which agents work on which alerts: the configuration with every default filled in."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tersely.agent.budget_options import BudgetOptions
from tersely.agent.options import AgentOptions
from tersely.agent.skills import Skill
from tersely.errors import ConfigError, UnknownAlertType
from tersely.llm.providers import NativeTools, ProviderOptions
from tersely.sessions.chains import ChainOptions, Defaults, StageAgent, StageOptions, SuccessPolicy
from tersely.sessions.near_names import did_you_mean
from tersely.sessions.overrides import AcceptedOverride

MOST_DEPTH = 3
"""Levels of sub-agents below an agent."""


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One agent in one stage: its model providers, and the servers and tools it may use."""

    stage: StageOptions
    name: str
    """The agent's name in the stage; replicas are numbered."""

    agent: AgentOptions
    providers: tuple[str, ...]
    """The provider, then its fallbacks; empty if no model is configured."""

    servers: tuple[str, ...]
    tools: Mapping[str, tuple[str, ...]]
    native_tools: NativeTools
    """Those of agent and alert; where both are unset, the provider's apply."""

    max_iterations: int
    budget: BudgetOptions = field(default_factory=BudgetOptions)
    sub_agents: tuple["StagePlan", ...] = ()
    """Agents to which it may hand tasks."""


@dataclass(frozen=True, kw_only=True)
class TeamPlan:
    """One stage with all of its agents."""

    stage: StageOptions
    parts: tuple[StagePlan, ...]
    """The agents, in order; more than one work in parallel."""

    success_policy: SuccessPolicy
    synthesis: StagePlan
    """Who combines the results of several agents; it uses no servers."""


@dataclass(frozen=True, kw_only=True)
class InvestigationPlan:
    """The part of the configuration that sessions use."""

    agents: Mapping[str, AgentOptions]
    chains: Mapping[str, ChainOptions]
    providers: Mapping[str, ProviderOptions] = field(default_factory=dict)
    defaults: Defaults = field(default_factory=Defaults)
    skills: Mapping[str, Skill] = field(default_factory=dict)
    """All skills, by name."""

    def alert_types(self) -> dict[str, str]:
        """Every alert type and its chain."""
        return {alert_type: name for name, chain in self.chains.items() for alert_type in chain.alert_types}

    def default_alert_type(self) -> str | None:
        """The type of an alert that names none."""
        if self.defaults.alert_type:
            return self.defaults.alert_type
        only = list(self.chains.values())
        return only[0].alert_types[0] if len(only) == 1 else None

    def chain_for(self, alert_type: str | None) -> tuple[str, str]:
        """Alert type and chain of an alert.

        Raises:
            UnknownAlertType: The message lists the known ones.
        """
        known = self.alert_types()
        wanted = alert_type or self.default_alert_type()
        if wanted is None:
            raise UnknownAlertType(
                f"The alert has no alert_type and no default is configured. Known types: {', '.join(sorted(known))}."
            )
        if wanted not in known:
            raise UnknownAlertType(
                f"No chain is for alerts of type {wanted[:200]!r}.{did_you_mean(wanted, known)} "
                f"Known types: {', '.join(sorted(known))}."
            )
        return wanted, known[wanted]

    def parts(self, chain: str, override: AcceptedOverride | None) -> list[StagePlan]:
        """All agents of all stages of a chain, each followed by its sub-agents; an override applies to all of them.

        Raises:
            ConfigError: The chain, or an agent of it, is no longer configured.
        """

        def everyone(part: StagePlan) -> Iterator[StagePlan]:
            yield part
            for other in part.sub_agents:
                yield from everyone(other)

        return [one for team in self.teams(chain, override) for part in team.parts for one in everyone(part)]

    def teams(self, chain: str, override: AcceptedOverride | None) -> list[TeamPlan]:
        """The stages of a chain; an override applies to all of their agents.

        Raises:
            ConfigError: The chain, or an agent of it, is no longer configured.
        """
        if chain not in self.chains:
            raise ConfigError(f"The chain {chain!r} is no longer configured.")
        return [self._team(stage, override) for stage in self.chains[chain].stages]

    def skills_of(self, agent: AgentOptions) -> tuple[list[Skill], list[Skill]]:
        """The skills that an agent may load, and those that are in its prompt.

        Raises:
            ConfigError: A skill is no longer there.
        """
        named = [*(agent.skills or ()), *agent.required_skills]
        if missing := next((name for name in named if name not in self.skills), None):
            raise ConfigError(f"There is no skill {missing!r} in the folder of skills.")
        listed = self.skills if agent.skills is None else agent.skills
        required = [self.skills[name] for name in dict.fromkeys(agent.required_skills)]
        return [self.skills[name] for name in listed if name not in agent.required_skills], required

    def runbook(self, chain: str) -> str:
        """The runbook, or its address, of alerts that bring none."""
        own = self.chains[chain].runbook
        return self.defaults.runbook if own is None else own

    def budget(self, chain: str) -> BudgetOptions:
        """What a session of this chain may spend."""
        own = self.chains[chain].budget
        return self.defaults.budget if own is None else own

    def _team(self, stage: StageOptions, override: AcceptedOverride | None) -> TeamPlan:
        team = stage.team()
        first = team[0][1]
        combining = StageAgent(
            name=stage.synthesis.agent or first.name,
            llm_provider=stage.synthesis.llm_provider or (None if stage.synthesis.agent else first.llm_provider),
            mcp_servers=(),
        )
        synthesis = self._part(stage, "synthesis", combining, None)
        if not stage.synthesis.agent:
            synthesis = replace(synthesis, agent=synthesis.agent.model_copy(update={"instructions": ""}))
        return TeamPlan(
            stage=stage,
            parts=tuple(self._part(stage, name, entry, override) for name, entry in team),
            success_policy=stage.success_policy or self.defaults.success_policy,
            synthesis=synthesis,
        )

    def asks_for_verdict(self, chain: str) -> bool:
        """Whether the model is asked for a verdict after the last stage of this chain."""
        own = self.chains[chain].verdict
        return self.defaults.verdict if own is None else own

    def _part(
        self,
        stage: StageOptions,
        name: str,
        entry: StageAgent,
        override: AcceptedOverride | None,
        askers: tuple[str, ...] = (),
    ) -> StagePlan:
        agent = self.agents.get(entry.name)
        if entry.name in askers or len(askers) > MOST_DEPTH:
            raise ConfigError(f"The sub-agents of {askers[0]!r} form a cycle, or more than {MOST_DEPTH} levels.")
        if agent is None:
            raise ConfigError(f"The agent {entry.name!r} of stage {stage.name!r} is no longer configured.")
        first = entry.llm_provider or stage.llm_provider or agent.llm_provider or self.defaults.llm_provider
        others = next(one for one in (entry.fallbacks, stage.fallbacks, agent.fallbacks) if one is not None)
        named = [provider for provider in (first, *others) if provider]
        if missing := next((provider for provider in named if provider not in self.providers), None):
            raise ConfigError(f"The model provider {missing!r} of agent {entry.name!r} is no longer configured.")
        servers = next(one for one in (entry.mcp_servers, stage.mcp_servers, agent.mcp_servers) if one is not None)
        if override and override.servers:
            chosen = tuple(choice.name for choice in override.servers)
            servers = tuple(name for name in servers if name in chosen) if override.narrows else chosen
        return StagePlan(
            stage=stage,
            name=name,
            agent=agent,
            providers=tuple(dict.fromkeys(named)),
            servers=servers,
            tools=override.restrictions if override else {},
            native_tools=self._native_tools(agent, named, override),
            max_iterations=entry.max_iterations
            or stage.max_iterations
            or agent.max_iterations
            or self.defaults.max_iterations,
            budget=agent.budget if entry.budget is None else entry.budget,
            sub_agents=tuple(
                self._part(stage, other, StageAgent(name=other), override, (*askers, entry.name))
                for other in dict.fromkeys(agent.sub_agents)
            ),
        )

    def _native_tools(
        self, agent: AgentOptions, providers: Sequence[str], override: AcceptedOverride | None
    ) -> NativeTools:
        """The agent's native tools as the alert changes them. What agent or provider turn off stays off."""
        if override is None or override.native_tools is None:
            return agent.native_tools
        configured = [self.providers[name].native_tools for name in providers]
        wanted = override.native_tools.model_dump(exclude_none=True)
        for name in override.native_tools.enabled():
            by_agent = getattr(agent.native_tools, name)
            by_provider = [getattr(options, name) for options in configured]
            is_off = by_agent is False or (by_agent is None and False in by_provider)
            is_on = by_agent or (by_agent is None and True in by_provider)
            if is_off or (override.narrows and not is_on):
                del wanted[name]
        return NativeTools(**wanted).over(agent.native_tools)

    def native_tools_of(self, chain: str) -> set[str]:
        """The native tools that a stage of this chain uses without an override."""
        found: set[str] = set()
        for part in self.parts(chain, None):
            for name in part.providers:
                found.update(part.native_tools.over(self.providers[name].native_tools).enabled())
        return found
