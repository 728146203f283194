"""The work of a session of kind `research`: its topics one by one, a checkpoint after each, then the extraction.

Uses the same loop, steps and timeline as investigations: everything that costs or has
effects is a step, so a killed research resumes where it was, and nothing that was
stored is paid for or fetched again. Each topic is a stage; the extraction is the last.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tersely.agent.asking import ModelCaller
from tersely.agent.assignment import Assignment
from tersely.agent.calls import ToolCaller
from tersely.agent.tool_executor import Step, ToolExecutor
from tersely.agent.toolbox import Toolbox
from tersely.condensing.prompt_files import Fence
from tersely.condensing.summarize.cache import SummaryCache
from tersely.cpu.run import run_in_thread
from tersely.errors import InputError
from tersely.events.recorder import SessionRecorder
from tersely.llm import facts as known_of_models
from tersely.llm.client import LLM, answer_tokens
from tersely.llm.messages import Usage
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, from_store
from tersely.mcp.registry import ToolRegistry
from tersely.pipeline.admit import admit_words
from tersely.pipeline.process import Pipeline
from tersely.research.budget import BudgetedLLM, UsageBudget
from tersely.research.extraction import Extraction, PageSection
from tersely.research.findings import FactSource, KnownPage, Ledger
from tersely.research.gathering import CollectedPage, TopicResearch, TopicResult
from tersely.research.options import ResearchOptions
from tersely.research.report import as_markdown
from tersely.research.request import ResearchRequest, request_of
from tersely.research.rules import Passage, Rules, passages_of
from tersely.research.sources import PageText
from tersely.research.tools import ResearchTools, same_page
from tersely.results.kept import KeptResults
from tersely.results.read_back import ReadBack
from tersely.sessions import overrides
from tersely.sessions.models import Models
from tersely.sessions.plan import InvestigationPlan, StagePlan
from tersely.sessions.servers import wait_for_servers
from tersely.sessions.worker import SessionOutcome
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.results import Origin
from tersely.store.sessions import Session
from tersely.text.tokens import O200K

EXTRACTION = "extraction"
CHECKPOINT_TOOL = "research_checkpoint"
RESULT_TOOL = "research_result"
MOST_PASSAGES = 2_000


@dataclass(frozen=True, kw_only=True)
class Researches:
    """Runs sessions of kind `research`."""

    plan: InvestigationPlan
    options: ResearchOptions
    models: Models
    registry: ToolRegistry
    kept: KeptResults
    cache: SummaryCache
    database: Database
    step: Step

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        override = overrides.of_session(session.override, self.registry.connections)
        part = self.plan.parts(session.chain, override)[0]
        request = request_of(session.alert, self.plan.chains[session.chain].stages, self.options)
        llm = self.models.of(part.providers)
        usage_budget = _usage_budget(request, session, llm)
        stages = await recorder.plan([*(topic.name for topic in request.topics), _last_name(request)])

        async def choose() -> ResearchTools:
            return ResearchTools.of(self.registry, part.servers, request.options, granted=part.tools)

        masker = Masker(key=session.mark_key)
        # Also for servers that are started again: a page that cannot be read stays a gap.
        await wait_for_servers(
            self.registry, part.servers, recorder, masker, key=f"{session.id}/servers", restarts=True
        )
        # Chosen once and stored: after a restart another server may be down, and a replay must use the same tools.
        tools = await self.step(f"{session.id}/instruments", choose)
        research = _Research(self, session, recorder, part, request, tools, llm, usage_budget)
        done: list[TopicResult] = []
        for position, topic_stage in enumerate(stages[:-1]):
            recorder.session_progress(position, len(stages), request.topics[position].name)
            gathered = await research.topic(position, topic_stage, done)
            done.append(gathered)
        recorder.session_progress(len(stages) - 1, len(stages), EXTRACTION)
        return await research.extraction(stages[-1], done)


def _last_name(request: ResearchRequest) -> str:
    taken = {topic.name for topic in request.topics}
    return next(name for name in (EXTRACTION, f"the {EXTRACTION}", f"final {EXTRACTION}") if name not in taken)


def _usage_budget(request: ResearchRequest, session: Session, llm: LLM | None) -> UsageBudget:
    """The session's budget, with the usage so far.

    Raises:
        InputError: The limit is a price, and the model's price is unknown.
    """
    options = request.options
    if options.max_price and llm and known_of_models.price(llm.provider, llm.model, 1, 1) is None:
        raise InputError(
            f"The price of {llm.model} is unknown, so a budget of ${options.max_price} cannot be enforced. Set "
            "max_tokens instead."
        )
    spent = Usage(
        session.model_calls,
        session.input_tokens,
        session.output_tokens,
        None if session.price_micros is None else Decimal(session.price_micros) / 1_000_000,
    )
    reserved = options.tokens + 2 * answer_tokens(llm) if llm else 0
    return UsageBudget(options.max_tokens, Decimal(str(options.max_price)), reserved, spent)


@dataclass
class _Research:
    """The work on one session."""

    services: Researches
    session: Session
    recorder: SessionRecorder
    part: StagePlan
    request: ResearchRequest
    tools: ResearchTools
    llm: LLM | None
    usage_budget: UsageBudget

    @property
    def scope(self) -> str:
        return self.session.results_scope

    # Topics

    async def topic(self, position: int, stage_id: str, earlier: Sequence[TopicResult]) -> TopicResult:
        topic = self.request.topics[position]
        recorder = self.recorder.within(stage_id, rows.derived_id(self.session.id, f"execution/{position}"))
        await self._begun(recorder)
        if earlier and earlier[-1].stopped:
            done = TopicResult(topic=topic, stopped=earlier[-1].stopped)
        else:
            caller = self._caller(recorder, topic.name, topic.about, earlier)
            known = {same_page(block.url): block for one in earlier for block in one.blocks}
            topic_research = TopicResearch(
                request=self.request,
                topic=topic,
                assignment=caller.assignment,
                tools=self.tools,
                caller=caller,
                step=self.services.step,
                llm=BudgetedLLM(self.llm, self.usage_budget) if self.llm else None,
                usage_budget=self.usage_budget,
                known=known,
                digests=await self._digests(stage_id, known.values()),
            )
            done = await topic_research.run()
        handle = await self.services.step(
            f"{stage_id}/checkpoint", lambda: self._checkpoint(topic.name, [*earlier, done])
        )
        has_failed = bool(done.stopped and not done.blocks)
        await recorder.execution_ended("failed" if has_failed else "completed", reason=done.stopped)
        analysis = done.notes.derive(_topic_report(done, handle))
        await recorder.stage_status(
            stage_id, "failed" if has_failed else "completed", reason=done.stopped, analysis=analysis
        )
        return done

    async def _begun(self, recorder: SessionRecorder, controller: str = "") -> None:
        assert recorder.stage_id
        await recorder.stage_status(recorder.stage_id, "in_progress")
        await recorder.execution_began(
            agent=self.part.name,
            controller=controller or (self.part.agent.controller if self.llm else "search"),
            provider=self.llm.provider if self.llm else "",
            model=self.llm.model if self.llm else "",
        )

    def _caller(self, recorder: SessionRecorder, stage: str, task: str, earlier: Sequence[TopicResult]) -> ToolCaller:
        assert recorder.stage_id and recorder.execution_id
        assignment = Assignment(
            session_id=self.session.id,
            stage_id=recorder.stage_id,
            execution_id=recorder.execution_id,
            stage=stage,
            task=f"Research this topic: {task}",
            agent_name=self.part.name,
            agent=self.part.agent,
            alert=from_store(self.request.subject),
            alert_type=self.session.alert_type,
            runbook=NOTHING,
            earlier=tuple((one.topic.name, _read_before(one)) for one in earlier if one.blocks),
            servers=self.part.servers,
            tools=self.part.tools,
            native_tools=self.part.native_tools,
            max_iterations=self.part.max_iterations,
            key=self.session.mark_key,
        )
        kept = self.services.kept
        pipeline = Pipeline(
            results=kept,
            cache=self.services.cache,
            condense_seconds=self.services.plan.defaults.summarization.timeout,
            family="document",
        )
        llm = BudgetedLLM(self.llm, self.usage_budget) if self.llm else None
        return ToolCaller(
            assignment=assignment,
            toolbox=Toolbox(self.services.registry, assignment),
            executor=ToolExecutor(registry=self.services.registry, results=kept, pipeline=pipeline),
            read_back=ReadBack(kept, summarize=pipeline.summarizer(Masker(key=self.session.mark_key), llm)),
            recorder=recorder,
            display_tokens=self.services.plan.defaults.display_tokens,
        )

    async def _digests(self, stage_id: str, blocks: Any) -> set[str]:
        handles = [block.page for block in blocks]

        async def find() -> list[str]:
            return [(await self.services.kept.find(handle, self.scope)).blob for handle in handles]

        return set(await self.services.step(f"{stage_id}/known", find)) if handles else set()

    async def _checkpoint(self, topic: str, done: Sequence[TopicResult]) -> str:
        """Keep the state after a topic: condensed pages, handles of the whole pages, and gaps."""
        content = [
            {
                "url": block.url,
                "title": block.title,
                "topic": block.topic,
                "content": await self.services.kept.load(block.content, self.scope),
                "tokens": block.tokens,
                "raw": {"handle": block.page, "tokens": block.tokens_before},
            }
            for one in done
            for block in one.blocks
        ]
        state = {
            "subject": self.request.subject,
            "completed_topics": [one.topic.name for one in done if not one.stopped],
            "step_data": {"research_raw_content": content, "research_gaps": [gap for one in done for gap in one.gaps]},
        }
        return await self._keep(CHECKPOINT_TOOL, {"topic": topic}, state)

    async def _keep(self, tool: str, about: Mapping[str, Any], value: Any) -> str:
        origin = Origin(server="tersely", tool=tool, arguments=dict(about), called_at=datetime.now(UTC))
        # Only texts from the store and masked notes.
        text = from_store(json.dumps(value, ensure_ascii=False, indent=1))
        return await self.services.kept.keep(text, scope=self.scope, origin=origin, kind="structured")

    # Extraction

    async def extraction(self, stage_id: str, done: Sequence[TopicResult]) -> SessionOutcome:
        recorder = self.recorder.within(stage_id, rows.derived_id(self.session.id, "execution/extraction"))
        await self._begun(recorder, "extraction" if self.llm else "rules")
        blocks = [block for one in done for block in one.blocks]
        if not blocks:
            gaps = (
                [gap for one in done for gap in one.gaps]
                or [one.stopped for one in done if one.stopped]
                or ["Nothing was found."]
            )
            reason = f"No page was read. {gaps[0]}"
            await recorder.execution_ended("failed", reason=reason)
            await recorder.stage_status(stage_id, "failed", reason=reason)
            return SessionOutcome(status="failed", reason=reason)
        sections = [await self._section(number, block) for number, block in enumerate(blocks, start=1)]
        pages = [
            KnownPage(
                section.label, block.url, block.page, PageText(await self.services.kept.load(block.page, self.scope))
            )
            for section, block in zip(sections, blocks, strict=True)
        ]
        ledger = Ledger(self.request.schema, pages)
        gaps = [gap for one in done for gap in one.gaps]
        by_rules: Sequence[PageSection] = sections
        if self.llm and self.request.schema:
            extraction = Extraction(
                subject=self.request.subject,
                schema=self.request.schema,
                llm=(budgeted := BudgetedLLM(self.llm, self.usage_budget, last=True)),
                model_caller=ModelCaller(llm=budgeted, recorder=recorder, masker=Masker(key=self.session.mark_key)),
                step=self.services.step,
                prefix=stage_id,
                fence=self._fence(sections),
            )
            extracted = await extraction.run(sections)
            gaps += extracted.gaps
            by_rules = extracted.unanswered
            await run_in_thread(lambda: [ledger.claim(claim) for claim in extracted.claims])
        passages = await run_in_thread(self._extract_by_rules, ledger, by_rules, pages)
        stopped = next((one.stopped for one in done if one.stopped), "")
        outcome = await self.services.step(
            f"{stage_id}/result",
            lambda: self._result(recorder, f"{stage_id}/result", done, ledger, passages, gaps, stopped),
        )
        await recorder.execution_ended("completed", reason=stopped)
        await recorder.stage_status(stage_id, "completed", reason=stopped, analysis=outcome.analysis)
        return outcome

    async def _section(self, number: int, block: CollectedPage) -> PageSection:
        return PageSection(
            f"P{number}", block.title, block.url, await self.services.kept.load(block.content, self.scope)
        )

    def _fence(self, sections: Sequence[PageSection]) -> Fence:
        """A fence whose nonce is unpredictable for pages and identical on replay."""
        seed = "\0".join([self.session.id, *(section.text for section in sections)])
        return Fence(hmac.new(self.session.mark_key, seed.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:16])

    def _extract_by_rules(
        self, ledger: Ledger, sections: Sequence[PageSection], pages: Sequence[KnownPage]
    ) -> list[dict[str, Any]]:
        """Extract facts by rules where no model did; return passages that yielded no fact, with their sources."""
        rules = Rules.of(self.request.schema)
        of_page = {page.label: page for page in pages}
        passages = [
            passage
            for section in sections
            for passage in passages_of(section.text, section.label, of_page[section.label].text.text)
        ]
        used = {passage for passage, claim in rules.claims(passages) if ledger.claim(claim) is not None}
        found = [
            shown for passage in passages if passage not in used and (shown := _sourced(passage, of_page[passage.page]))
        ]
        return found[:MOST_PASSAGES]

    async def _result(
        self,
        recorder: SessionRecorder,
        key: str,
        done: Sequence[TopicResult],
        ledger: Ledger,
        passages: Sequence[Mapping[str, Any]],
        gaps: Sequence[str],
        stopped: str,
    ) -> SessionOutcome:
        async with self.services.database.reading() as db:
            now = await rows.find(db, self.session.id)
        blocks = [block for one in done for block in one.blocks]
        result = {
            "subject": self.request.subject,
            "status": "stopped" if stopped else "partial" if gaps else "complete",
            "reason": stopped,
            "facts": ledger.by_path(),
            "contradictions": ledger.contradictions(),
            "passages": passages,
            "refused": ledger.refused,
            "gaps": list(gaps),
            "topics": [
                {
                    "name": one.topic.name,
                    "about": one.topic.about,
                    "pages": [block.url for block in one.blocks],
                    "notes": one.notes,
                    **({"stopped": one.stopped} if one.stopped else {}),
                }
                for one in done
            ],
            "pages": [
                {
                    "url": block.url,
                    "title": block.title,
                    "handle": block.page,
                    "tokens": block.tokens_before,
                    "content_handle": block.content,
                    "content_tokens": block.tokens,
                    "how": block.how,
                }
                for block in blocks
            ],
            "tokens": {
                "pages": sum(block.tokens_before for block in blocks),
                "accumulated": sum(block.tokens for block in blocks),
                "encoding": O200K.name,
            },
            "usage": {
                "model": self.llm.model if self.llm else None,
                "model_calls": now.model_calls,
                "input_tokens": now.input_tokens,
                "output_tokens": now.output_tokens,
                "price_usd": None if now.price_micros is None else now.price_micros / 1_000_000,
            },
            "budget": {
                "max_tokens": self.request.options.max_tokens or None,
                "max_price": self.request.options.max_price or None,
            },
            "session_id": self.session.id,
        }
        handle = await self._keep(RESULT_TOOL, {"subject": self.request.subject}, result)
        analysis = admit_words(as_markdown(result, handle), Masker(key=self.session.mark_key))
        await recorder.record(
            key, "final_analysis", analysis, {"model": self.llm.model if self.llm else "", "provider": "research"}
        )
        return SessionOutcome(status="completed", reason=stopped, analysis=analysis)


def _sourced(passage: Passage, page: KnownPage) -> dict[str, Any] | None:
    lines = page.text.quoted(passage.text)
    if lines is None:
        return None
    return {"text": passage.text, "source": FactSource(page.url, page.handle, lines).as_json()}


def _read_before(done: TopicResult) -> Masked:
    pages = "\n".join(f"- {block.title}: {block.url}" for block in done.blocks)
    return done.notes.derive(f"Pages that were read:\n{pages}\n{done.notes}")


def _topic_report(done: TopicResult, checkpoint: str) -> str:
    lines = [str(done.notes).strip()] if done.notes else []
    lines += [
        f"- [{block.title}]({block.url}): {block.tokens_before:,} → {block.tokens:,} tokens ({block.how})"
        for block in done.blocks
    ]
    lines += [f"- Missing: {gap}" for gap in done.gaps]
    if done.stopped:
        lines.append(f"- Stopped: {done.stopped}")
    return "\n".join([*lines, f"\nCheckpoint: {checkpoint}"])


async def result_of(kept: KeptResults, session: Session) -> dict[str, Any] | None:
    """The result of a completed research, or None."""
    after = ""
    while page := await kept.list(session.results_scope, after=after):
        for one in page:
            if (one.origin.server, one.origin.tool) == ("tersely", RESULT_TOOL):
                found: dict[str, Any] = json.loads(await kept.load(one.handle, session.results_scope))
                return found
        after = page[-1].handle
    return None
