"""The results of several agents as one: a ranking without a model, and the texts that a model compares.

Without a model, verdicts that name the same cause are grouped, the group with the best
evidence comes first, and every other cause is named as a disagreement.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tersely.agent.assignment import Report
from tersely.agent.subject import words_in
from tersely.agent.verdict import Citation, Confidence, Verdict, cut
from tersely.condensing.focus import stem
from tersely.condensing.prompt_files import Prompt
from tersely.masking.masked import NOTHING, Masked

SYNTHESIS = Prompt("synthesis", "tersely.agent")
COMPARE = Prompt("compare", "tersely.agent")

MOST_EVIDENCE = 8
SAME_CAUSE = 0.5
"""Share of the words of the shorter cause that two causes have in common if they are the same."""

_CONFIDENCES: tuple[Confidence, ...] = ("low", "medium", "high")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, kw_only=True)
class AgentResult:
    agent: str
    """Its name in the stage."""

    report: Report


@dataclass(frozen=True)
class _Opinion:
    """A cause, and the agents that name it, the one with the best evidence first."""

    holders: tuple[tuple[str, Verdict], ...]

    @property
    def verdict(self) -> Verdict:
        return self.holders[0][1]

    @property
    def score(self) -> float:
        return _strength(self.verdict) + len(self.holders) - 1


def _strength(verdict: Verdict) -> float:
    """How well a verdict is supported: confidence, quotations, and tools that they come from."""
    sources = {one.source for one in verdict.evidence}
    return (
        _CONFIDENCES.index(verdict.confidence)
        + 0.5 * min(4, len(verdict.evidence))
        + 0.5 * min(3, len(sources))
        - 0.5 * min(3, len(verdict.against) + verdict.unverified)
    )


def _is_same_cause(one: Verdict, other: Verdict) -> bool:
    if one.evidence and other.evidence and _plain(one.evidence[0]) == _plain(other.evidence[0]):
        return True
    words, others = ({stem(word) for word in words_in(verdict.cause)} for verdict in (one, other))
    shorter = min(len(words), len(others))
    return bool(shorter) and len(words & others) / shorter >= SAME_CAUSE


def _plain(citation: Citation) -> str:
    return _NUMBER.sub("0", " ".join(citation.quote.split()))


def _opinions(results: Sequence[AgentResult]) -> list[_Opinion]:
    """The causes that agents name, the best supported first."""
    stated = [(one.agent, one.report.verdict) for one in results if one.report.verdict and one.report.verdict.cause]
    opinions: list[_Opinion] = []
    for agent, verdict in sorted(stated, key=lambda one: -_strength(one[1])):
        for number, opinion in enumerate(opinions):
            if _is_same_cause(opinion.verdict, verdict):
                opinions[number] = _Opinion((*opinion.holders, (agent, verdict)))
                break
        else:
            opinions.append(_Opinion(((agent, verdict),)))
    return sorted(opinions, key=lambda opinion: (-opinion.score, -len(opinion.holders)))


def ranked(results: Sequence[AgentResult]) -> tuple[Masked, Verdict | None]:
    """Analysis and verdict of several agents, without a model.

    Args:
        results: At least one that is completed.
    """
    done = [one for one in results if one.report.status == "completed"]
    opinions = _opinions(done)
    first = next((one for one in done if opinions and one.agent == opinions[0].holders[0][0]), done[0])
    agreement = _agreement(opinions, done)
    lines = [f"Most likely cause: {opinions[0].verdict.cause}" if opinions else "No agent found a likely cause."]
    lines += [f"  - {_cited(one)}" for one in (opinions[0].verdict.evidence[:3] if opinions else ())]
    lines += ["", *agreement, "", "## Agents", *(_line(one) for one in results)]
    lines += ["", f"## Analysis of {first.agent}", first.report.analysis]
    # All texts are masked: analyses, verdicts and names.
    analysis = first.report.analysis.derive("\n".join(lines))
    if not opinions:
        return analysis, first.report.verdict
    best, others = opinions[0], opinions[1:]
    verdict = best.verdict
    against = [*verdict.against, *(one.verdict.evidence[0] for one in others if one.verdict.evidence)]
    confidence = verdict.confidence
    if others and len(best.holders) == 1:
        confidence = _CONFIDENCES[max(0, _CONFIDENCES.index(confidence) - 1)]
    summary = [*verdict.summary.splitlines()[:3], cut(" ".join(agreement), 300)]
    evidence = [one for _, held in best.holders for one in held.evidence]
    return analysis, replace(
        verdict,
        summary="\n".join(line for line in summary if line),
        confidence=confidence,
        evidence=_distinct(evidence)[:MOST_EVIDENCE],
        against=_distinct(against)[:MOST_EVIDENCE],
    )


def _distinct(citations: Sequence[Citation]) -> tuple[Citation, ...]:
    first: dict[tuple[str, str], Citation] = {}
    for one in citations:
        first.setdefault((one.source, _plain(one)), one)
    return tuple(first.values())


def _agreement(opinions: Sequence[_Opinion], done: Sequence[AgentResult]) -> list[str]:
    """Sentences on who agrees and who does not."""
    if not opinions:
        return []
    names = [agent for agent, _ in opinions[0].holders]
    if len(names) == len(done) > 1:
        return ["Both agents agree." if len(done) == 2 else f"All {len(done)} agents agree."]
    said = [f"{len(names)} of {len(done)} agents name this cause ({', '.join(names)})."] if len(done) > 1 else []
    for opinion in opinions[1:]:
        holders = [agent for agent, _ in opinion.holders]
        verb = "names" if len(holders) == 1 else "name"
        said.append(f"Disagreement: {', '.join(holders)} {verb} another cause: {opinion.verdict.cause.rstrip('.')}.")
    known = {agent for opinion in opinions for agent, _ in opinion.holders}
    if unsure := [one.agent for one in done if one.agent not in known]:
        said.append(f"{', '.join(unsure)} found no cause.")
    return said


def _line(one: AgentResult) -> str:
    if one.report.status != "completed":
        return f"- {one.agent}: failed: {one.report.reason or 'no reason was given'}"
    verdict = one.report.verdict
    ended = f" ({one.report.reason})" if one.report.reason else ""
    if verdict is None or not verdict.cause:
        return f"- {one.agent}: no cause{ended}"
    count = len(verdict.evidence)
    quotations = f"{count} quotation{'' if count == 1 else 's'}"
    return f"- {one.agent}: {verdict.cause} [confidence {verdict.confidence}, {quotations}]{ended}"


def _cited(one: Citation) -> str:
    lines = f"lines {one.first_line}-{one.last_line}" if one.last_line > one.first_line else f"line {one.first_line}"
    return f"{one.quote} [{one.source}, {lines}{f' of {one.handle}' if one.handle else ''}]"


def described(one: AgentResult) -> Masked:
    """The result of an agent as a model reads it: status, verdict with its quotations, and analysis."""
    report = one.report
    lines = [f"Status: {report.status}{f' ({report.reason})' if report.reason else ''}"]
    if verdict := report.verdict:
        lines += [f"Cause: {verdict.cause or 'none found'}", f"Confidence: {verdict.confidence}"]
        lines += [f"Since: {verdict.since}"] if verdict.since else []
        for title, citations in (("Evidence", verdict.evidence), ("Evidence against it", verdict.against)):
            lines += [f"{title}: {_cited(one)}" for one in citations]
        if verdict.unverified:
            lines.append(f"Quotations that no tool result contains: {verdict.unverified}")
    if report.analysis.strip():
        lines += ["Analysis:", report.analysis]
    # Verdict and analysis are masked.
    return (report.analysis or NOTHING).derive("\n".join(lines))


def cited_results(results: Sequence[AgentResult]) -> dict[str, str]:
    """Handle and source of every result that the agents quote."""
    verdicts = [one.report.verdict for one in results if one.report.verdict]
    return {
        citation.handle: citation.source
        for verdict in verdicts
        for citation in (*verdict.evidence, *verdict.against)
        if citation.handle
    }
