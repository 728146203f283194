"""An investigation without a language model: which tools to ask, what to ask about, and what their answers show.

Only tools that declare themselves read-only are called. They are chosen by their
descriptions against the alert; arguments come from the alert's fields and from names
in earlier results; names that the evidence leads to are followed up. What results
show is gathered by `evidence`, weighed and told by `verdict`. Says plainly that no
model was involved.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio.to_thread

from tersely.agent.assignment import Report
from tersely.agent.calls import Seen, ToolCaller
from tersely.agent.evidence import Evidence, EvidenceReading, read_result
from tersely.agent.ordered_gather import ordered_gather
from tersely.agent.subject import Subject, fill, mentions, subject_of, words_in
from tersely.agent.tool_executor import Step
from tersely.agent.verdict import EvidenceSource, Weighing, report
from tersely.condensing.focus import stem
from tersely.condensing.lexicon import SEVERITY
from tersely.llm.messages import ToolCall
from tersely.masking.masked import Masked
from tersely.mcp.raw import Tool
from tersely.pipeline.process import Intent

MOST_CALLS = 14
AT_ONCE = 4
ROUNDS = 4
FIRST_ROUND = 9
NEIGHBOUR = 0.7
"""How closely what the alert's subject names, or speaks of in trouble, concerns the alert."""


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in text.split())


_LOOKS = _stems("""
    log event error warning status state health metric describe history revision rollout change config configuration
    alert restart
    memory cpu latency pod node service deployment recent failed problem condition trace
""")
"""Words of tools that show what is going on."""

_REFERENCE = _stems("runbook documentation docs wiki knowledge handbook past archive postmortem manual")
"""Words of tools that show what people wrote down before."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    tool: str
    """`server.tool`"""

    arguments: Mapping[str, Any]
    is_reference: bool = False

    @property
    def key(self) -> str:
        return f"{self.tool} {json.dumps(self.arguments, sort_keys=True)}"


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What a round is going to call: stored, since the servers' listings may be others when it is gone through
    again.
    """

    calls: tuple[tuple[str, str, bool], ...]
    """`server.tool`, arguments as JSON, whether it is a reference."""

    led_to: tuple[str, ...] = ()
    """Other things that the evidence speaks of."""


@dataclass
class _Survey:
    caller: ToolCaller
    step: Step
    subject: Subject
    sources: list[EvidenceSource] = field(default_factory=list)
    found: list[tuple[EvidenceSource, Evidence]] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    """By what they are, in the order in which they turned up."""

    links: dict[str, float] = field(default_factory=dict)
    """Names that belong to the alert's subject: the nodes of its pods."""

    made: dict[str, None] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        return f"{self.caller.assignment.stage_id}/survey"

    async def run(self) -> Report:
        for number in range(1, ROUNDS + 1):
            planned = await self.step(f"{self.prefix}/{number}/plan", lambda number=number: self._planned(number))  # type: ignore[misc]
            plans = [
                _Plan(tool=tool, arguments=json.loads(arguments), is_reference=is_reference)
                for tool, arguments, is_reference in planned.calls
            ]
            self.links |= {name: NEIGHBOUR for name in planned.led_to if name not in self.links}
            if not plans:
                break
            for start in range(0, len(plans), AT_ONCE):
                await self._look(plans[start : start + AT_ONCE], f"{self.prefix}/{number}/{start}")
        analysis = await self.step(f"{self.prefix}/report", self._reported)
        if not self.sources:
            return Report(
                analysis=analysis,
                status="failed",
                reason="There is no tool that declares itself read-only and can be called for this alert.",
            )
        return Report(analysis=analysis, status="completed")

    # What to ask

    async def _planned(self, number: int) -> Planned:
        self.caller.recorder.progress(
            "investigating", "Choosing tools by their descriptions" if number == 1 else "Following up"
        )
        left = MOST_CALLS - len(self.made)
        most = min(left, FIRST_ROUND) if number == 1 else min(left, 4)
        led_to, plans = ([], self._first()) if number == 1 else self._following()
        new = [plan for plan in {plan.key: plan for plan in plans}.values() if plan.key not in self.made][
            : max(0, most)
        ]
        return Planned(
            calls=tuple((plan.tool, json.dumps(plan.arguments), plan.is_reference) for plan in new),
            led_to=tuple(led_to),
        )

    def _tools(self) -> list[Tool]:
        tools = [named.tool for named in self.caller.toolbox.tools() if named.tool.read_only]
        return sorted(tools, key=lambda tool: (-self._promise(tool), tool.dotted))

    def _promise(self, tool: Tool) -> float:
        """How much a tool promises to show of what the alert is about, by its own words."""
        words = {stem(word) for word in words_in(f"{tool.name} {tool.description}")}
        asked = {stem(word) for word in self.subject.words}
        troubles = {stem(word) for word in SEVERITY}
        score = 1.5 * len(words & asked) + len(words & _LOOKS) + 0.5 * len(words & troubles)
        return score / (1 + len(words) / 40) - (5 if _is_reference(tool) else 0)

    def _first(self) -> list[_Plan]:
        plans = []
        for tool in self._tools():
            ways = fill(tool, self.subject, self.names)
            if ways:
                plans.append(_Plan(tool=tool.dotted, arguments=ways[0], is_reference=_is_reference(tool)))
        return plans

    def _following(self) -> tuple[list[str], list[_Plan]]:
        """Names that the evidence leads to; the same tools about these, and tools that can be asked now that more names
        are known.
        """
        plans: list[_Plan] = []
        weighing = self._weighing()
        weighed = weighing.weigh(self.found)
        troubled = [one.evidence.text for one in weighed[:12] if one.relation >= 0.5]
        known = {kind: self._by_trouble(names, troubled) for kind, names in self.names.items()}
        for tool in self._tools():
            ways = fill(tool, self.subject, known)
            if len(ways) > 1 or not self._was_asked(tool):
                plans += [_Plan(tool=tool.dotted, arguments=way, is_reference=_is_reference(tool)) for way in ways[:2]]
        led_to = self._led_to(troubled)
        for name in led_to:
            other = Subject(
                fields=self._instead(name), began=self.subject.began, words=self.subject.words, title=self.subject.title
            )
            for tool in self._tools():
                ways = fill(tool, other, {}) if not _is_reference(tool) else []
                plans += [_Plan(tool=tool.dotted, arguments=way) for way in ways[:1] if name in json.dumps(way)][:1]
        return led_to, plans

    def _was_asked(self, tool: Tool) -> bool:
        return any(source.name == tool.dotted for source in self.sources)

    def _by_trouble(self, names: Sequence[str], troubled: Sequence[str]) -> list[str]:
        """Names of the alert's own things, those in trouble first."""
        own = [name for name in names if any(mentions(name, mine) for mine in self._weighing().specific)]
        return sorted(own, key=lambda name: -sum(name in text for text in troubled))[:3]

    def _led_to(self, troubled: Sequence[str]) -> list[str]:
        """Other things that the evidence about the alert's subject speaks of."""
        mine = self._weighing()
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
            if name not in mine.specific
            and name not in mine.places
            and len(name) > 3
            and any(mentions(text, name) for text in troubled)
        ][:2]

    def _instead(self, name: str) -> dict[str, str]:
        """The alert's fields as if it were about another thing."""
        specific = self._weighing().specific
        return {key: name if value in specific else value for key, value in self.subject.fields.items()}

    # Looking

    async def _look(self, plans: Sequence[_Plan], prefix: str) -> None:
        intent = Intent(
            looking_for=(
                f"{self.subject.title} {' '.join(self.subject.names)} errors, warnings, changes, what is "
                "unusual and why"
            )
        )

        async def look(number: int, plan: _Plan, in_turn: Step) -> tuple[Seen, EvidenceReading]:
            call = ToolCall(f"survey_{number}", plan.tool, json.dumps(plan.arguments))
            place = f"{prefix}/{number}"
            seen = await self.caller.call(call, prefix=place, step=in_turn, intent=intent, as_written=call)
            reading = await in_turn(f"{place}/read", lambda: self._read(seen, plan))
            return seen, reading

        works = [
            lambda in_turn, number=number, plan=plan: look(number, plan, in_turn)
            for number, plan in enumerate(plans, start=1)
        ]
        for plan, (seen, reading) in zip(plans, await ordered_gather(self.step, works), strict=True):
            self.made[plan.key] = None
            observation = seen.observation
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
                if any(mentions(name, mine) for mine in self._weighing().specific):
                    self.links[other] = NEIGHBOUR
            for kind, name in reading.names:
                known = self.names.setdefault(kind, [])
                if name not in known:
                    known.append(name)

    async def _read(self, seen: Seen, plan: _Plan) -> EvidenceReading:
        """What stands out in the whole of a kept result."""
        if seen.observation.is_error or seen.observation.handle is None:
            return EvidenceReading()
        text = await self.caller.executor.results.load(seen.observation.handle, self.caller.scope.name)
        name = plan.tool.rpartition(".")[2]
        about = self._weighing().specific
        return await anyio.to_thread.run_sync(lambda: read_result(text, tool=name, now=datetime.now(UTC), about=about))

    def _weighing(self) -> Weighing:
        return Weighing(self.subject, self.links)

    # Telling

    async def _reported(self) -> Masked:
        self.caller.recorder.progress("concluding", "Weighing what was found")
        weighed = await anyio.to_thread.run_sync(self._weighing().weigh, self.found)
        away = [
            status.name
            for status in self.caller.toolbox.registry.statuses()
            if status.name in self.caller.assignment.servers and status.state != "ready"
        ]
        # Quotations of masked results, and our own words.
        analysis = self.caller.assignment.alert.derive(report(self.subject, weighed, self.sources, failed=away))
        await self.caller.recorder.record(
            f"{self.prefix}/report", "final_analysis", analysis, {"model": "", "provider": "survey"}
        )
        return analysis


def _is_reference(tool: Tool) -> bool:
    return bool(_REFERENCE & {stem(word) for word in words_in(f"{tool.server} {tool.name} {tool.description}")})


async def survey(caller: ToolCaller, *, step: Step) -> Report:
    """Look at everything that the alert points to, without a model, and say what stands out."""
    subject = await anyio.to_thread.run_sync(subject_of, caller.assignment.alert)
    return await _Survey(caller, step, subject).run()
