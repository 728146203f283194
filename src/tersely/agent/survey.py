"""An investigation without a language model: choose tools, call them, and report what their results show.

Only tools that declare themselves read-only are called. They are ranked by how well
their descriptions match the alert; arguments come from the alert's fields and from
names in earlier results; names in the evidence are followed up. `evidence` extracts
evidence from the results, `ranking` ranks it, `verdict` states the result in fields, and
`survey_report` in a text that says that no model was involved.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tersely.agent.assignment import Report
from tersely.agent.budget import OverBudget, within_budget
from tersely.agent.calls import ToolCaller, ToolCallResult
from tersely.agent.evidence import Evidence, EvidenceReading, read_result
from tersely.agent.ordered_gather import ordered_gather
from tersely.agent.ranking import EvidenceRanker, EvidenceSource
from tersely.agent.subject import Subject, fill, mentions, subject_of, words_in
from tersely.agent.survey_report import report
from tersely.agent.tool_executor import Step
from tersely.agent.verdict import Verdict, record_verdict, survey_verdict
from tersely.condensing.focus import stem
from tersely.condensing.lexicon import SEVERITY
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.llm.messages import ToolCall
from tersely.masking.masked import Masked
from tersely.mcp.raw import Tool
from tersely.pipeline.admit import admit_words
from tersely.pipeline.process import Intent

MOST_CALLS = 14
AT_ONCE = 4
ROUNDS = 4
FIRST_ROUND = 9
NEIGHBOUR = 0.7
"""Relation to the alert of objects that its subject references or mentions in evidence."""


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in text.split())


_STATE = _stems("""
    log event error warning status state health metric describe history revision rollout change config configuration
    alert restart memory cpu latency pod node service deployment recent failed problem condition trace
""")
"""Words in descriptions of tools that show the current state."""

_REFERENCE = _stems("runbook documentation docs wiki knowledge handbook past archive postmortem manual")
"""Words in descriptions of tools that return documentation."""


@dataclass(frozen=True, kw_only=True)
class _PlannedCall:
    tool: str
    """`server.tool`"""

    arguments: Mapping[str, Any]
    is_reference: bool = False

    @property
    def key(self) -> str:
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True)}"


@dataclass(frozen=True, kw_only=True)
class SurveyPlan:
    """The calls of one round; stored, because the servers may list other tools on replay."""

    calls: tuple[tuple[str, str, bool], ...]
    """`server.tool`, arguments as JSON, and whether the tool returns documentation."""

    led_to: tuple[str, ...] = ()
    """Other objects that the evidence mentions."""


@dataclass
class _Survey:
    caller: ToolCaller
    step: Step
    whole_step: Step
    """For work that is never cut off by a budget."""

    subject: Subject
    sources: list[EvidenceSource] = field(default_factory=list)
    found: list[tuple[EvidenceSource, Evidence]] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    """Names by kind, in order of appearance."""

    links: dict[str, float] = field(default_factory=dict)
    """Names related to the alert's subject, such as the nodes of its pods, with their relation."""

    made: dict[str, None] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"{self.caller.assignment.prefix}/survey"

    async def run(self) -> Report:
        cut_off = ""
        for number in range(1, ROUNDS + 1):
            try:
                planned = await self.step(f"{self.prefix}/{number}/plan", lambda number=number: self._planned(number))  # type: ignore[misc]
            except OverBudget as problem:
                cut_off = str(problem)
                break
            plans = [
                _PlannedCall(tool=tool, arguments=json.loads(arguments), is_reference=is_reference)
                for tool, arguments, is_reference in planned.calls
            ]
            self.links |= {name: NEIGHBOUR for name in planned.led_to if name not in self.links}
            if not plans:
                break
            for start in range(0, len(plans), AT_ONCE):
                await self._call_all(plans[start : start + AT_ONCE], f"{self.prefix}/{number}/{start}")
        analysis = await self.whole_step(f"{self.prefix}/report", lambda: self._reported(cut_off))
        verdict = await self.whole_step(f"{self.prefix}/verdict", self._verdict)
        if not self.sources:
            return Report(
                analysis=analysis,
                status="failed",
                reason=cut_off or "No tool that declares itself read-only can be called for this alert.",
            )
        return Report(analysis=analysis, status="completed", reason=cut_off, verdict=verdict)

    # Planning

    async def _planned(self, number: int) -> SurveyPlan:
        self.caller.recorder.progress(
            "investigating", "Choosing tools by their descriptions" if number == 1 else "Following up on the evidence"
        )
        left = MOST_CALLS - len(self.made)
        most = min(left, FIRST_ROUND) if number == 1 else min(left, 4)
        led_to, plans = ([], self._initial_calls()) if number == 1 else self._follow_ups()
        new = [plan for plan in {plan.key: plan for plan in plans}.values() if plan.key not in self.made][
            : max(0, most)
        ]
        return SurveyPlan(
            calls=tuple((plan.tool, json.dumps(plan.arguments), plan.is_reference) for plan in new),
            led_to=tuple(led_to),
        )

    def _tools(self) -> list[Tool]:
        tools = [named.tool for named in self.caller.toolbox.tools() if named.tool.read_only]
        return sorted(tools, key=lambda tool: (-self._relevance(tool), tool.dotted))

    def _relevance(self, tool: Tool) -> float:
        """How well a tool's name and description match the alert."""
        words = {stem(word) for word in words_in(f"{tool.name} {tool.description}")}
        wanted = {stem(word) for word in self.subject.words}
        troubles = {stem(word) for word in SEVERITY}
        score = 1.5 * len(words & wanted) + len(words & _STATE) + 0.5 * len(words & troubles)
        return score / (1 + len(words) / 40) - (5 if _is_reference(tool) else 0)

    def _initial_calls(self) -> list[_PlannedCall]:
        plans = []
        for tool in self._tools():
            choices = fill(tool, self.subject, self.names)
            if choices:
                plans.append(_PlannedCall(tool=tool.dotted, arguments=choices[0], is_reference=_is_reference(tool)))
        return plans

    def _follow_ups(self) -> tuple[list[str], list[_PlannedCall]]:
        """Other objects that the evidence mentions; calls about these, and calls that newly known names allow."""
        plans: list[_PlannedCall] = []
        ranker = self._ranker()
        ranked = ranker.rank(self.found)
        troubled = [one.evidence.text for one in ranked[:12] if one.relation >= 0.5]
        known = {kind: self._by_trouble(names, troubled) for kind, names in self.names.items()}
        for tool in self._tools():
            choices = fill(tool, self.subject, known)
            if len(choices) > 1 or not self._was_called(tool):
                plans += [
                    _PlannedCall(tool=tool.dotted, arguments=arguments, is_reference=_is_reference(tool))
                    for arguments in choices[:2]
                ]
        led_to = self._led_to(troubled)
        for name in led_to:
            other = Subject(
                fields=self._fields_with(name),
                began=self.subject.began,
                words=self.subject.words,
                title=self.subject.title,
            )
            for tool in self._tools():
                choices = fill(tool, other, {}) if not _is_reference(tool) else []
                plans += [
                    _PlannedCall(tool=tool.dotted, arguments=arguments)
                    for arguments in choices[:1]
                    if name in json.dumps(arguments)
                ]
        return led_to, plans

    def _was_called(self, tool: Tool) -> bool:
        return any(source.name == tool.dotted for source in self.sources)

    def _by_trouble(self, names: Sequence[str], troubled: Sequence[str]) -> list[str]:
        """Names that belong to the alert's subject, those in the evidence first."""
        own = [name for name in names if any(mentions(name, mine) for mine in self._ranker().specific)]
        return sorted(own, key=lambda name: -sum(name in text for text in troubled))[:3]

    def _led_to(self, troubled: Sequence[str]) -> list[str]:
        """Other objects that the evidence about the alert's subject mentions."""
        ranker = self._ranker()
        kinds = set(self.subject.fields)
        others = [
            name
            for kind in sorted(self.names)
            for name in self.names[kind]
            if kind in kinds or kind in ("service", "deployment", "node")
        ]
        return [
            name
            for name in dict.fromkeys(others)
            if name not in ranker.specific
            and name not in ranker.places
            and len(name) > 3
            and any(mentions(text, name) for text in troubled)
        ][:2]

    def _fields_with(self, name: str) -> dict[str, str]:
        """The alert's fields as if it were about another object."""
        specific = self._ranker().specific
        return {key: name if value in specific else value for key, value in self.subject.fields.items()}

    # Calling

    async def _call_all(self, plans: Sequence[_PlannedCall], prefix: str) -> None:
        intent = Intent(
            looking_for=(
                f"{self.subject.title} {' '.join(self.subject.names)} errors, warnings, changes, what is "
                "unusual and why"
            )
        )

        async def call_one(number: int, plan: _PlannedCall, in_turn: Step) -> tuple[ToolCallResult, EvidenceReading]:
            call = ToolCall(f"survey_{number}", plan.tool, json.dumps(plan.arguments))
            name = f"{prefix}/{number}"
            result = await self.caller.call(call, prefix=name, step=in_turn, intent=intent, as_written=call)
            try:
                reading = await in_turn(f"{name}/read", lambda: self._read(result, plan))
            except OverBudget:
                reading = EvidenceReading()
            return result, reading

        works = [
            lambda in_turn, number=number, plan=plan: call_one(number, plan, in_turn)
            for number, plan in enumerate(plans, start=1)
        ]
        for plan, (result, reading) in zip(plans, await ordered_gather(self.step, works), strict=True):
            self.made[plan.key] = None
            observation = result.observation
            source = EvidenceSource(
                name=plan.tool,
                arguments=plan.arguments,
                handle=observation.handle,
                tokens=observation.tokens_before,
                shown_tokens=observation.tokens_after,
                problem=observation.text if observation.is_error else "",
                is_reference=plan.is_reference,
            )
            self.sources.append(source)
            self.found += [(source, one) for one in reading.evidence]
            for name, other in reading.links:
                if any(mentions(name, mine) for mine in self._ranker().specific):
                    self.links[other] = NEIGHBOUR
            for kind, name in reading.names:
                known = self.names.setdefault(kind, [])
                if name not in known:
                    known.append(name)

    async def _read(self, result: ToolCallResult, plan: _PlannedCall) -> EvidenceReading:
        """Extract evidence from the whole kept result, not from the condensed observation."""
        if result.observation.is_error or result.observation.handle is None:
            return EvidenceReading()
        text = await self.caller.executor.results.load(result.observation.handle, self.caller.scope.name)
        name = plan.tool.rpartition(".")[2]
        about = self._ranker().specific
        return await run_cpu(partial(read_result, tool=name, now=datetime.now(UTC), about=about), text)

    def _ranker(self) -> EvidenceRanker:
        return EvidenceRanker(self.subject, self.links)

    # Reporting

    async def _reported(self, cut_off: str) -> Masked:
        self.caller.recorder.progress("concluding", "Ranking the evidence")
        ranked = await run_in_thread(self._ranker().rank, self.found)
        unreachable = [
            status.name
            for status in self.caller.toolbox.registry.statuses()
            if status.name in self.caller.assignment.servers and status.state != "ready"
        ]
        # Only quotations of masked results and fixed phrases.
        analysis = self.caller.assignment.alert.derive(
            report(self.subject, ranked, self.sources, unreachable=unreachable, cut_off=cut_off)
        )
        if cut_off:
            said = admit_words(f"The investigation was cut off. {cut_off}", self.caller.masker)
            await self.caller.recorder.record(f"{self.prefix}/report", "notice", said, {"budget": cut_off})
        await self.caller.recorder.record(
            f"{self.prefix}/report", "final_analysis", analysis, {"model": "", "provider": "survey"}
        )
        return analysis

    async def _verdict(self) -> Verdict:
        ranked = await run_in_thread(self._ranker().rank, self.found)
        verdict = survey_verdict(self.subject, ranked)
        await record_verdict(self.caller.recorder, f"{self.prefix}/verdict", verdict, self.caller.assignment.alert)
        return verdict


def _is_reference(tool: Tool) -> bool:
    return bool(_REFERENCE & {stem(word) for word in words_in(f"{tool.server} {tool.name} {tool.description}")})


async def survey(caller: ToolCaller, *, step: Step) -> Report:
    """Investigate an alert without a model and report the most likely cause."""
    subject = await run_cpu(subject_of, caller.assignment.alert)
    return await _Survey(caller, within_budget(step, caller.assignment.budget), step, subject).run()
