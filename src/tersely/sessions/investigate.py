"""An investigation: the stages of a chain in order, each with the analyses of the earlier ones.

Several agents of a stage work in parallel, each with a sequence of durable steps of its
own; then a synthesis combines their results. An agent that fails fails only itself.

All of it may run again after a crash: ids of rows are derived from the session and the
stage, so repeated writes change nothing, and whatever costs money or has effects is a
durable step of the agent's loop.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import anyio

from tersely.agent.assignment import Assignment, Report
from tersely.agent.budget import ReservingLLM, WorkBudget
from tersely.agent.budget_options import BudgetOptions
from tersely.agent.loop import investigate
from tersely.agent.stated_verdict import from_analysis
from tersely.agent.sub_agents import SubAgents
from tersely.agent.synthesis import COMPARE, SYNTHESIS, AgentResult, cited_results, described, ranked
from tersely.agent.tool_executor import Step, ToolExecutor
from tersely.agent.verdict import Verdict, record_verdict
from tersely.condensing.summarize.cache import SummaryCache
from tersely.errors import InputError, LostSession, StoreUnavailable, TerselyError
from tersely.events.recorder import SessionRecorder
from tersely.llm.client import LLM
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, from_store, own_words
from tersely.mcp.registry import ToolRegistry
from tersely.pipeline.admit import admit_text, admit_words
from tersely.pipeline.process import Pipeline
from tersely.results.kept import KeptResults
from tersely.results.read_back import ReadBack
from tersely.sessions import overrides
from tersely.sessions.models import Models
from tersely.sessions.plan import InvestigationPlan, StagePlan, TeamPlan
from tersely.sessions.runbook_options import ADDRESS
from tersely.sessions.runbooks import Runbooks
from tersely.sessions.servers import wait_for_servers, without
from tersely.sessions.worker import SessionOutcome
from tersely.store import sessions as rows
from tersely.store.interactions import Interaction
from tersely.store.sessions import Session
from tersely.store.stages import ExecutionKind

logger = logging.getLogger(__name__)

Fork = Callable[[Step, str, int], Awaitable[Sequence[Step]]]
"""Returns step functions for concurrent work; see `Worker.fork`."""

STAGE_TOKENS = 4_000
"""Tokens without which no stage is begun: they are hardly enough for one answer and a conclusion."""

NOT_COMPARED = own_words("No model could compare the results of the agents; they were ranked by their evidence.")


@dataclass(frozen=True, kw_only=True)
class AgentExecution:
    """One agent's work: who works where, and under which ids its steps and events are stored."""

    session: Session
    recorder: SessionRecorder
    """The session's."""

    stage_id: str
    id: str
    part: StagePlan
    step: Step
    earlier: Sequence[tuple[str, Masked]]
    prefix: str = ""
    """Of its steps; if empty, the stage's id."""

    kind: ExecutionKind = "agent"
    position: int = 0
    parent_id: str | None = None
    task: str = ""
    """Of a sub-agent; other agents have the stage's."""

    asks_for_verdict: bool = False
    around: WorkBudget | None = None
    """The budget of the stage."""


@dataclass(frozen=True, kw_only=True)
class Investigations:
    """The work on sessions of kind `investigation`."""

    plan: InvestigationPlan
    models: Models
    registry: ToolRegistry
    kept: KeptResults
    cache: SummaryCache
    step: Step
    fork: Fork
    runbooks: Runbooks
    earlier: tuple[tuple[str, Masked], ...] = ()
    """Stages that an earlier session did, and their analyses."""

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        session = replace(session, runbook=await self._runbook(session, recorder))
        override = overrides.of_session(session.override, self.registry.connections)
        teams = self.plan.teams(session.chain, override)
        stages = await recorder.plan([team.stage.name for team in teams])
        budget = await _budget("session", self.plan.budget(session.chain), recorder, None)
        earlier = list(self.earlier)
        missing: dict[str, str] = {}
        outcome = SessionOutcome(status="failed", reason="The chain has no stage.")
        for position, (stage_id, team) in enumerate(zip(stages, teams, strict=True)):
            if position and budget and (used_up := await self._used_up(budget, stage_id)):
                outcome = await self._cut_off(recorder, outcome, stages[position:], used_up)
                break
            recorder.session_progress(position, len(teams), team.stage.name)
            is_last = position == len(teams) - 1
            here = _StageWork(self, session, recorder, stage_id, position, team, earlier, is_last, budget)
            outcome = await here.run()
            if outcome.status == "failed":
                return outcome
            earlier.append((team.stage.name, outcome.analysis))
            if not is_last:
                missing |= here.missing
        # The last stage names its own.
        before = [name for name in missing if name not in here.missing]
        return replace(outcome, reason=" ".join(filter(None, (outcome.reason, without(before)))))

    async def _runbook(self, session: Session, recorder: SessionRecorder) -> str:
        """The alert's runbook, or the chain's; read from its address if it is one. Without it the session goes on."""
        given = session.runbook.strip() or self.plan.runbook(session.chain)
        masker = Masker(key=session.mark_key)
        if not ADDRESS.fullmatch(given.strip()):
            return given if session.runbook.strip() else admit_text(given, masker)

        async def read() -> Masked:
            about = {"address": admit_words(given, masker)}
            try:
                text = await self.runbooks.read(given)
            except InputError as problem:
                said = admit_words(f"Investigated without the runbook {given}. {problem}", masker)
                await recorder.notice("runbook", said, {**about, "problem": str(problem)})
                return NOTHING
            runbook = admit_text(text, masker)
            size = len(text.encode())
            said = admit_words(f"The runbook was read from {given} ({size:,} bytes).", masker)
            await recorder.notice("runbook", said, {**about, "bytes": size})
            return runbook

        return from_store(await self.step("runbook", read))

    async def _used_up(self, budget: WorkBudget, stage_id: str) -> str:
        async def ask() -> str:
            return budget.used_up(share=1.0) or budget.shortage(STAGE_TOKENS)

        return await self.step(f"{stage_id}/budget", ask)

    async def _cut_off(
        self, recorder: SessionRecorder, outcome: SessionOutcome, stages: Sequence[str], used_up: str
    ) -> SessionOutcome:
        """End without the remaining stages, with what the earlier ones found."""
        count = f"{len(stages)} stage{'' if len(stages) == 1 else 's'}"
        reason = f"{used_up} {count} of the investigation {'was' if len(stages) == 1 else 'were'} not begun."
        said = admit_words(reason, Masker())
        await recorder.notice(f"{stages[0]}/budget", said, {"budget": used_up})
        for stage_id in stages:
            await recorder.stage_status(stage_id, "cancelled", reason=used_up)
        analysis = outcome.analysis.derive(f"{outcome.analysis}\n\n{said}")
        return replace(
            outcome,
            reason=" ".join(filter(None, (outcome.reason, reason))),
            analysis=analysis,
            verdict=outcome.verdict or from_analysis(outcome.analysis),
        )

    async def work(self, execution: AgentExecution) -> tuple[Report, Mapping[str, str]]:
        """One agent's work to its end; also returns the servers that it had to do without."""
        part, session = execution.part, execution.session
        llm = self.models.of(part.providers)
        recorder, budget = await self.begin(execution, part.agent.controller if llm else "survey", llm)
        masker = Masker(key=session.mark_key)
        prefix = execution.prefix or execution.stage_id
        missing = await wait_for_servers(self.registry, part.servers, recorder, masker, key=f"{prefix}/servers")
        assignment = replace(self.assignment(execution), budget=budget, remark=without(missing))
        others = self._sub_agents(execution, budget)
        report = await self.investigate(assignment, part, llm, recorder, execution.step, others)
        reason = " ".join(filter(None, (report.reason, without(missing))))
        report = replace(report, reason=reason)
        await _end(recorder, report)
        return report, missing

    async def begin(
        self, execution: AgentExecution, controller: str, llm: LLM | None
    ) -> tuple[SessionRecorder, WorkBudget | None]:
        """Begin an execution; returns its recorder and its budget."""
        part = execution.part
        counter = _Counter()
        recorder = execution.recorder.within(execution.stage_id, execution.id, counter.count)
        await recorder.execution_began(
            agent=part.name,
            controller=controller,
            provider=llm.provider if llm else "",
            model=llm.model if llm else "",
            kind=execution.kind,
            position=execution.position,
            parent_id=execution.parent_id,
            task=execution.task,
        )
        counter.budget = await _budget(f"agent {part.name}", part.budget, recorder, execution.around)
        return recorder, counter.budget

    def assignment(self, execution: AgentExecution) -> Assignment:
        part, session = execution.part, execution.session
        skills, required = self.plan.skills_of(part.agent) if execution.kind != "synthesis" else ([], [])
        return Assignment(
            skills=skills,
            required_skills=required,
            session_id=session.id,
            stage_id=execution.stage_id,
            execution_id=execution.id,
            stage=part.stage.name,
            task=execution.task or part.stage.task,
            agent_name=part.name,
            agent=part.agent,
            alert=from_store(session.alert),
            alert_type=session.alert_type,
            runbook=from_store(session.runbook),
            earlier=tuple(execution.earlier),
            servers=part.servers,
            tools=part.tools,
            native_tools=part.native_tools,
            max_iterations=part.max_iterations,
            key=session.mark_key,
            asks_for_verdict=execution.asks_for_verdict,
            step_prefix=execution.prefix,
        )

    async def investigate(
        self,
        assignment: Assignment,
        part: StagePlan,
        llm: LLM | None,
        recorder: SessionRecorder,
        step: Step,
        sub_agents: SubAgents | None = None,
    ) -> Report:
        pipeline = Pipeline(
            results=self.kept, cache=self.cache, condense_seconds=self.plan.defaults.summarization.timeout
        )

        def limited(llm: LLM | None) -> LLM | None:
            return ReservingLLM(llm, assignment.budget) if llm and assignment.budget else llm

        return await investigate(
            assignment,
            llm=llm,
            summarizer=limited(self.summarizer(part)),
            summarizers={name: limited(one) or one for name, one in self.summarizers(part).items()},
            display_tokens=self.plan.defaults.display_tokens,
            executor=ToolExecutor(registry=self.registry, results=self.kept, pipeline=pipeline),
            read_back=ReadBack(self.kept, summarize=pipeline.summarizer(Masker(key=assignment.key), limited(llm))),
            recorder=recorder,
            step=step,
            sub_agents=sub_agents,
        )

    async def guarded(self, execution: AgentExecution) -> tuple[Report, Mapping[str, str]]:
        """An agent's work; its error fails the agent, not the others."""
        try:
            return await self.work(execution)
        except (LostSession, StoreUnavailable):
            raise
        except Exception as problem:
            error = _innermost(problem)
            if isinstance(error, LostSession | StoreUnavailable):
                raise
            if isinstance(error, TerselyError):
                reason = admit_words(str(error), Masker(key=execution.session.mark_key))[:2000]
            else:
                reason = f"An internal error ({type(error).__name__}); the log has the traceback."
            logger.warning(
                "agent_failed",
                extra={"session_id": execution.session.id, "agent": execution.part.name, "reason": reason},
                exc_info=None if isinstance(error, TerselyError) else error,
            )
            report = Report(analysis=NOTHING, status="failed", reason=reason)
            await _end(execution.recorder.within(execution.stage_id, execution.id), report)
            return report, {}

    def _sub_agents(self, execution: AgentExecution, budget: WorkBudget | None) -> SubAgents | None:
        """The agents to which an agent may hand tasks; their work counts for its budget."""
        parts = {part.name: part for part in execution.part.sub_agents}
        if not parts:
            return None

        async def work(agent: str, task: str, number: int, step: Step) -> Report:
            prefix = f"{execution.prefix or execution.stage_id}/asked/{number + 1}"
            (own,) = await self.fork(step, prefix, 1)
            masker = Masker(key=execution.session.mark_key)
            report, _ = await self.guarded(
                replace(
                    execution,
                    id=rows.derived_id(execution.id, f"asked/{number + 1}"),
                    prefix=prefix,
                    part=parts[agent],
                    step=own,
                    kind="sub_agent",
                    position=execution.position,
                    parent_id=execution.id,
                    task=admit_words(task, masker),
                    asks_for_verdict=self.plan.asks_for_verdict(execution.session.chain),
                    around=budget,
                )
            )
            return report

        return SubAgents(
            descriptions={name: part.agent.description for name, part in parts.items()},
            most=execution.part.agent.max_sub_agents,
            work=work,
        )

    # The provider that summarizes: the tool's or the server's, else the default for summaries, else the agent's; then
    # the agent's fallbacks.

    def summarizer(self, part: StagePlan) -> LLM | None:
        default = self.plan.defaults.summarization.llm_provider
        return self.models.of((default, *part.providers) if default else part.providers)

    def summarizers(self, part: StagePlan) -> dict[str, LLM]:
        """The models, by provider, that servers and tools of this stage name."""
        servers = [self.registry.server(name).options for name in part.servers if name in self.registry.connections]
        named = {options.summarization.llm_provider for options in servers}
        named |= {policy.summarization.llm_provider for options in servers for policy in options.tool_policies.values()}
        return {name: llm for name in named if name and (llm := self.models.of((name, *part.providers)))}


@dataclass
class _StageWork:
    """One stage of one session: its agents, and what they found."""

    investigations: Investigations
    session: Session
    recorder: SessionRecorder
    stage_id: str
    position: int
    team: TeamPlan
    earlier: Sequence[tuple[str, Masked]]
    is_last: bool
    session_budget: WorkBudget | None
    missing: dict[str, str] = field(default_factory=dict)
    """Servers that an agent had to do without, with the reason if it is known."""

    async def run(self) -> SessionOutcome:
        recorder, stage_id = self.recorder, self.stage_id
        await recorder.stage_status(stage_id, "in_progress")
        inner = recorder.within(stage_id, None)
        named = f"stage {self.team.stage.name}"
        agents = len(self.team.parts)
        self.budget = await _budget(named, self.team.stage.budget, inner, self.session_budget, agents=agents)
        outcome = await (self._alone() if len(self.team.parts) == 1 else self._together())
        await recorder.stage_status(stage_id, outcome.status, reason=outcome.reason, analysis=outcome.analysis)
        return outcome

    @property
    def _asks(self) -> bool:
        return self.investigations.plan.asks_for_verdict(self.session.chain)

    def _execution(self, part: StagePlan, name: str, step: Step) -> AgentExecution:
        return AgentExecution(
            session=self.session,
            recorder=self.recorder,
            stage_id=self.stage_id,
            id=rows.derived_id(self.session.id, f"execution/{self.position}{name}"),
            prefix=f"{self.stage_id}{name}" if name else "",
            part=part,
            step=step,
            earlier=self.earlier,
            around=self.budget,
        )

    async def _alone(self) -> SessionOutcome:
        execution = self._execution(self.team.parts[0], "", self.investigations.step)
        execution = replace(execution, asks_for_verdict=self.is_last and self._asks)
        report, missing = await self.investigations.work(execution)
        self.missing.update(missing)
        return SessionOutcome(
            status=report.status, reason=report.reason, analysis=report.analysis, verdict=report.verdict
        )

    # Several agents

    async def _together(self) -> SessionOutcome:
        results = await self._results()
        done = [one for one in results if one.report.status == "completed"]
        failed = [one for one in results if one.report.status != "completed"]
        reasons: dict[str, list[str]] = {}
        for one in failed:
            reasons.setdefault(one.report.reason or "no reason was given", []).append(one.agent)
        why = "; ".join(f"{', '.join(agents)}: {reason}" for reason, agents in reasons.items())
        reason = f"{len(failed)} of {len(results)} agents failed: {why}" if failed else ""
        if not done:
            return SessionOutcome(status="failed", reason=reason)
        if failed and self.team.success_policy == "all":
            return SessionOutcome(status="failed", reason=reason, analysis=ranked(results)[0])
        early = " ".join(f"{one.agent}: {one.report.reason}" for one in done if one.report.reason)
        reason = " ".join(filter(None, (reason, early)))
        if len(done) == 1:
            only = done[0].report
            return SessionOutcome(status="completed", reason=reason, analysis=only.analysis, verdict=only.verdict)
        report = await self._synthesis(results)
        reason = " ".join(filter(None, (reason, report.reason)))
        return SessionOutcome(status="completed", reason=reason, analysis=report.analysis, verdict=report.verdict)

    async def _results(self) -> list[AgentResult]:
        """Let all agents work, each in a branch of its own."""
        parts, work = self.team.parts, self.investigations
        steps = await work.fork(work.step, f"{self.stage_id}/agents", len(parts))
        reports: dict[int, Report] = {}

        async def run(number: int) -> None:
            execution = self._execution(parts[number], f"/{number + 1}", steps[number])
            execution = replace(execution, position=number, asks_for_verdict=self._asks)
            reports[number], missing = await work.guarded(execution)
            self.missing.update(missing)

        async with anyio.create_task_group() as group:
            for number in range(len(parts)):
                group.start_soon(run, number)
        return [AgentResult(agent=part.name, report=reports[number]) for number, part in enumerate(parts)]

    async def _synthesis(self, results: Sequence[AgentResult]) -> Report:
        """Combine the results: by a model, or by ranking them if there is none or it fails."""
        work, part = self.investigations, self.team.synthesis
        llm = work.models.of(part.providers)
        execution = replace(
            self._execution(part, "/synthesis", work.step), kind="synthesis", position=len(self.team.parts)
        )
        recorder, budget = await work.begin(execution, part.agent.controller if llm else "ranking", llm)
        report = Report(analysis=NOTHING, status="failed")
        if llm:
            assignment = replace(
                work.assignment(execution),
                budget=budget,
                compares=tuple((one.agent, described(one)) for one in results),
                known_results=cited_results(results),
                system=SYNTHESIS,
                question=COMPARE,
                asks_for_verdict=self.is_last and self._asks,
            )
            report = await work.investigate(assignment, part, llm, recorder, execution.step)
        if report.status == "failed":
            report = await execution.step(
                f"{execution.prefix}/rank", partial(self._rank, recorder, execution.prefix, results, report.reason)
            )
        await _end(recorder, report)
        return report

    async def _rank(self, recorder: SessionRecorder, name: str, results: Sequence[AgentResult], problem: str) -> Report:
        recorder.progress("concluding", "Ranking the results of the agents")
        if problem:
            await recorder.notice(f"{name}/rank", NOT_COMPARED, {"problem": problem})
        analysis, verdict = ranked(results)
        await recorder.record(f"{name}/rank", "final_analysis", analysis, {"model": "", "provider": "ranking"})
        if verdict:
            await record_verdict(recorder, f"{name}/rank", verdict, analysis)
        return Report(
            analysis=analysis, status="completed", reason=str(NOT_COMPARED) if problem else "", verdict=verdict
        )


class _Counter:
    """Counts the tokens of recorded exchanges; the budget is known after the execution has begun."""

    def __init__(self) -> None:
        self.budget: WorkBudget | None = None

    def count(self, record: Interaction) -> None:
        if self.budget:
            self.budget.count(record.usage.input_tokens + record.usage.output_tokens)


async def _budget(
    owner: str, options: BudgetOptions, recorder: SessionRecorder, around: WorkBudget | None, *, agents: int = 1
) -> WorkBudget | None:
    """The budget of an agent, stage or session, with what it has spent before a restart; None if nothing limits it."""
    if options == BudgetOptions() and around is None:
        return None
    spent, began = await recorder.spent()
    return WorkBudget(
        owner=owner, options=options, clock=recorder.now, began=began, spent=spent, around=around, agents=agents
    )


async def _end(recorder: SessionRecorder, report: Report) -> None:
    verdict: Verdict | None = report.verdict
    await recorder.execution_ended(
        report.status,
        reason=report.reason,
        analysis=report.analysis,
        verdict=verdict.as_json() if verdict else None,
    )


def _innermost(problem: BaseException) -> BaseException:
    """The first error of concurrent work."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
