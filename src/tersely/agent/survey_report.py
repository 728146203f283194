"""The report of an investigation without a model, in markdown: the verdict, its evidence, and what else was found."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from tersely.agent.evidence import Evidence
from tersely.agent.ranking import EvidenceSource, RankedEvidence, chosen_evidence
from tersely.agent.subject import Subject
from tersely.agent.verdict import affected_by, told

SHOWN_BESIDE = 8


def report(
    subject: Subject,
    ranked: Sequence[RankedEvidence],
    sources: Sequence[EvidenceSource],
    *,
    unreachable: Sequence[str] = (),
    cut_off: str = "",
) -> str:
    """Write the report in markdown, the most likely cause first."""
    chosen = chosen_evidence(ranked)
    others = [one for one in ranked if one not in chosen and one.score > 0.5 and one.relation >= 0.5][:SHOWN_BESIDE]
    elsewhere = [one for one in ranked if one not in chosen and one.relation < 0.5 and one.score > 0.25][:4]
    lines = [_headline(subject, chosen)]
    if others:
        lines += ["", "## Other findings", *(f"- {_cited(one)}" for one in others)]
    if elsewhere:
        lines += ["", "## Elsewhere, probably unrelated", *(f"- {_cited(one)}" for one in elsewhere)]
    lines += ["", "## Tool calls", *(_call_line(source) for source in sources)]
    if unreachable:
        lines += ["", f"Servers that could not be reached: {', '.join(unreachable)}."]
    if cut_off:
        lines += ["", f"The investigation was cut off. {cut_off}"]
    lines += [
        "",
        "## Method",
        "No language model was involved: tools were chosen by their descriptions, and their results were ranked by "
        "severity, time and relation to the alert. Read the quoted results before you act on this.",
    ]
    return "\n".join(lines)


def _headline(subject: Subject, chosen: Sequence[RankedEvidence]) -> str:
    about = subject.title or "the alert"
    if not chosen:
        return f"No likely cause was found for: {about}. No result that concerns it reports trouble."
    first = f"Most likely cause: {told(chosen[0].evidence, affected_by(subject))}"
    return "\n".join([first, *(f"  - {_cited(one)}" for one in chosen)])


_BLOCK, _ESCAPED = re.compile(r"^(?=#|>|[-+*] )"), r"\\"
"""Markdown syntax at the beginning of a quoted line, escaped in the report."""


def _cited(one: RankedEvidence) -> str:
    evidence, source = one.evidence, one.source
    lines = (
        f"line {evidence.line}"
        if evidence.line == evidence.last_line
        else f"lines {evidence.line}-{evidence.last_line}"
    )
    count = f", {evidence.count:,} times" if evidence.count > 1 else ""
    quoted = _BLOCK.sub(_ESCAPED, evidence.text)
    return (
        f"{quoted} [{source.name}, {lines}{f' of {source.handle}' if source.handle else ''}{count}{_period(evidence)}]"
    )


def _period(one: Evidence) -> str:
    if one.first is None:
        return ""
    if one.last is None or one.last - one.first < timedelta(minutes=1):
        return f", at {_clock(one.first)}"
    return f", {_clock(one.first)} to {_clock(one.last)}"


def _clock(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _call_line(source: EvidenceSource) -> str:
    given = ", ".join(f"{key}={value}" for key, value in source.arguments.items())
    if source.problem:
        return f"- {source.name}({given}): failed: {' '.join(source.problem.split())[:160]}"
    size = f"{source.tokens:,} tokens" + (
        f", condensed to {source.shown_tokens:,}" if source.shown_tokens < source.tokens else ""
    )
    return f"- {source.name}({given}): {size}{f', kept as {source.handle}' if source.handle else ''}"
