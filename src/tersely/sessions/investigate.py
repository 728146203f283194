"""An investigation: the stages of a chain in order, each with the analyses of the earlier ones.

All of it may run again after a crash: ids of rows are derived from the session and the
stage, so repeated writes change nothing, and whatever costs money or has effects is a
durable step of the agent's loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tersely.agent.assignment import Assignment
from tersely.agent.loop import investigate
from tersely.agent.tool_executor import Step, ToolExecutor
from tersely.condensing.summarize.cache import SummaryCache
from tersely.events.recorder import SessionRecorder
from tersely.llm.client import LLM
from tersely.masking.mask import Masker
from tersely.masking.masked import Masked, from_store
from tersely.mcp.registry import ToolRegistry
from tersely.pipeline.process import Pipeline
from tersely.results.kept import KeptResults
from tersely.results.read_back import ReadBack
from tersely.sessions import overrides
from tersely.sessions.models import Models
from tersely.sessions.plan import InvestigationPlan, StagePlan
from tersely.sessions.servers import wait_for_servers, without
from tersely.sessions.worker import SessionOutcome
from tersely.store import sessions as rows
from tersely.store.sessions import Session


@dataclass(frozen=True, kw_only=True)
class Investigations:
    """The work on sessions of kind `investigation`."""

    plan: InvestigationPlan
    models: Models
    registry: ToolRegistry
    kept: KeptResults
    cache: SummaryCache
    step: Step
    earlier: tuple[tuple[str, Masked], ...] = ()
    """Stages that an earlier session did, and their analyses."""

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        override = overrides.of_session(session.override, self.registry.connections)
        parts = self.plan.parts(session.chain, override)
        stages = await recorder.plan([part.stage.name for part in parts])
        earlier = list(self.earlier)
        missing: dict[str, str] = {}
        for position, (stage_id, part) in enumerate(zip(stages, parts, strict=True)):
            execution_id = rows.derived_id(session.id, f"execution/{position}")
            recorder.session_progress(position, len(parts), part.stage.name)
            is_last = position == len(parts) - 1
            inner = recorder.within(stage_id, execution_id)
            masker = Masker(key=session.mark_key)
            away = await wait_for_servers(self.registry, part.servers, inner, masker, key=f"{stage_id}/servers")
            outcome = await self._stage(session, inner, part, earlier, away, is_last=is_last)
            if outcome.status == "failed":
                return outcome
            earlier.append((part.stage.name, outcome.analysis))
            missing |= away
        # The last stage names its own.
        before = [name for name in missing if name not in away]
        return replace(outcome, reason=" ".join(filter(None, (outcome.reason, without(before)))))

    async def _stage(
        self,
        session: Session,
        recorder: SessionRecorder,
        part: StagePlan,
        earlier: list[tuple[str, Masked]],
        missing: Mapping[str, str],
        *,
        is_last: bool,
    ) -> SessionOutcome:
        assert recorder.stage_id and recorder.execution_id
        llm = self.models.of(part.providers)
        await recorder.stage_status(recorder.stage_id, "in_progress")
        await recorder.execution_began(
            agent=part.stage.agent,
            controller=part.agent.controller if llm else "survey",
            provider=llm.provider if llm else "",
            model=llm.model if llm else "",
        )
        pipeline = Pipeline(
            results=self.kept, cache=self.cache, condense_seconds=self.plan.defaults.summarization.timeout
        )
        report = await investigate(
            Assignment(
                session_id=session.id,
                stage_id=recorder.stage_id,
                execution_id=recorder.execution_id,
                stage=part.stage.name,
                task=part.stage.task,
                agent_name=part.stage.agent,
                agent=part.agent,
                alert=from_store(session.alert),
                alert_type=session.alert_type,
                runbook=from_store(session.runbook),
                earlier=tuple(earlier),
                servers=part.servers,
                tools=part.tools,
                native_tools=part.native_tools,
                max_iterations=part.max_iterations,
                key=session.mark_key,
                asks_for_verdict=is_last and self.plan.asks_for_verdict(session.chain),
            ),
            llm=llm,
            summarizer=self.summarizer(part),
            summarizers=self.summarizers(part),
            display_tokens=self.plan.defaults.display_tokens,
            executor=ToolExecutor(registry=self.registry, results=self.kept, pipeline=pipeline),
            read_back=ReadBack(self.kept, summarize=pipeline.summarizer(Masker(key=session.mark_key), llm)),
            recorder=recorder,
            step=self.step,
        )
        reason = " ".join(filter(None, (report.reason, without(missing))))
        analysis = report.analysis
        if missing and llm and analysis:
            # Without a model, the report names them itself.
            analysis = analysis.derive(f"{analysis}\n\n{without(missing)}")
        await recorder.execution_ended(report.status, reason=reason)
        await recorder.stage_status(recorder.stage_id, report.status, reason=reason, analysis=analysis)
        return SessionOutcome(status=report.status, reason=reason, analysis=analysis, verdict=report.verdict)

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
