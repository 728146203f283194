"""Ranking of evidence by how well it explains an alert, and the report on it.

The score combines severity, whether a reason is given, distance in time to the alert,
relation to the alert's subject, rarity, and confirmation by another source. Evidence
that is resolved or was there all the time counts little, documentation next to nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tersely.agent.evidence import Evidence
from tersely.agent.subject import Subject, mentions, singular, words_in

PLACES = frozenset(
    (
        "namespace",
        "project",
        "account",
        "team",
        "tenant",
        "datacenter",
        "zone",
        "cluster",
        "region",
        "environment",
        "org",
    )
)
"""Fields that name a location, which many objects share."""

SHOWN_WITH_THE_CAUSE = 5
SHOWN_BESIDE = 8


@dataclass(frozen=True, kw_only=True)
class EvidenceSource:
    """One call that was made."""

    name: str
    """`server.tool`"""

    arguments: Mapping[str, Any]
    handle: str | None
    tokens: int
    shown_tokens: int
    problem: str = ""
    is_reference: bool = False
    """It is documentation, not current state."""


@dataclass(frozen=True, kw_only=True)
class RankedEvidence:
    source: EvidenceSource
    evidence: Evidence
    relation: float
    score: float


@dataclass
class EvidenceRanker:
    subject: Subject
    related: Mapping[str, float] = field(default_factory=dict)
    """Other names related to the alert's subject, with their relation."""

    def __post_init__(self) -> None:
        own = {value: key for key, value in self.subject.fields.items()}
        self.specific = [
            name for name, key in own.items() if not PLACES & {singular(part) for part in re.split(r"[^a-z]+", key)}
        ]
        self.places = [name for name, key in own.items() if name not in self.specific]

    def rank(self, found: Sequence[tuple[EvidenceSource, Evidence]]) -> list[RankedEvidence]:
        """Score all evidence, the highest score first."""
        frequency = Counter(word for _, one in found for word in set(words_in(one.text)))
        with_rare_words = [
            (source, one, {word for word in words_in(one.text) if frequency[word] <= max(3, len(found) // 8)})
            for source, one in found
        ]
        scoped = {
            source.name: self._is_scoped(source, [one for other, one in found if other is source])
            for source, _ in found
        }
        ranked = []
        for source, one, words in with_rare_words:
            relation = self.relation(source, one.text)
            score = self._score(one) * relation
            if source.is_reference:
                score *= 0.05
            if scoped[source.name] and not any(place in one.text for place in self.places):
                score *= 0.4
            confirming = {
                other.name
                for other, _, theirs in with_rare_words
                if other.name != source.name and len(words & theirs) >= 2
            }
            score *= 1 + 0.25 * min(2, len(confirming))
            ranked.append(RankedEvidence(source=source, evidence=one, relation=relation, score=score))
        ranked.sort(key=lambda one: (-one.score, one.source.name, one.evidence.line))
        return ranked

    def relation(self, source: EvidenceSource, text: str) -> float:
        """How closely evidence concerns the alert's subject: 1 for the subject itself, 0 for nothing in common."""
        if any(mentions(text, name) for name in self.specific):
            return 1.0
        arguments = " ".join(_texts(source.arguments))
        if any(mentions(arguments, name) for name in self.specific):
            return 0.95
        near = max((weight for name, weight in self.related.items() if mentions(text, name)), default=0.0)
        if near:
            return near
        near = max((weight for name, weight in self.related.items() if mentions(arguments, name)), default=0.0)
        return max(near, 0.12 if self.specific else 0.6)

    def _is_scoped(self, source: EvidenceSource, evidence: Sequence[Evidence]) -> bool:
        """Whether the result covers several locations, so that a line without the alert's is about another one."""
        if not self.places or any(place in _texts(source.arguments) for place in self.places):
            return False
        return any(place in one.text for one in evidence for place in self.places)

    def _score(self, one: Evidence) -> float:
        score = (one.severity + 1.5) if one.explains else one.severity * 0.8
        score *= {"said": 1.0, "state": 1.1, "change": 1.0, "measure": 0.6}[one.kind]
        score *= 1 + 0.12 * min(3.0, math.log10(max(1, one.count)))
        if one.resolved:
            score *= 0.3
        if one.is_steady and not self._began_with_it(one):
            score *= 0.35
        return score * self._closeness(one)

    def _began_with_it(self, one: Evidence) -> bool:
        """Whether the evidence starts shortly before the alert, as do the logs of pods that a release started."""
        began = self.subject.began
        return began is not None and one.first is not None and one.first > began - timedelta(minutes=50)

    def _closeness(self, one: Evidence) -> float:
        """Factor for the distance in time to the alert, which is raised some minutes after its cause."""
        began = self.subject.began
        if began is None or one.first is None:
            return 0.9
        if one.kind == "change":
            before = (began - one.first).total_seconds()
            return 2.2 if -300 <= before <= 5_400 else 0.05 if before > 0 else 0.3
        last = one.last or one.first
        if last < began - timedelta(minutes=15):
            return 0.35
        if one.first > began - timedelta(hours=2):
            return 1.25
        return 0.8


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _texts(inner)]
    if isinstance(value, list | tuple):
        return [text for inner in value for text in _texts(inner)]
    return [value] if isinstance(value, str) else []


def report(
    subject: Subject,
    ranked: Sequence[RankedEvidence],
    sources: Sequence[EvidenceSource],
    *,
    unreachable: Sequence[str] = (),
) -> str:
    """Write the report in markdown, the most likely cause first."""
    chosen = _chosen(ranked)
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
    lines += [
        "",
        "## Method",
        "No language model was involved: tools were chosen by their descriptions, and their results were ranked by "
        "severity, time and relation to the alert. Read the quoted results before you act on this.",
    ]
    return "\n".join(lines)


def _chosen(ranked: Sequence[RankedEvidence]) -> list[RankedEvidence]:
    """The evidence for the headline: the highest score, and what supports it from the same and other sources."""
    if not ranked or ranked[0].score < 0.6:
        return []
    top = ranked[0]
    chosen = [top]
    shown = Counter([top.source.name])
    for one in ranked[1:]:
        if len(chosen) == SHOWN_WITH_THE_CAUSE:
            break
        if one.relation < 0.5 or one.score < 0.3 * top.score or shown[one.source.name] >= 2 or _alike(one, chosen):
            continue
        chosen.append(one)
        shown[one.source.name] += 1
    return chosen


def _alike(one: RankedEvidence, others: Sequence[RankedEvidence]) -> bool:
    words = set(words_in(one.evidence.text))
    for other in others:
        theirs = set(words_in(other.evidence.text))
        if (
            words
            and len(words & theirs) >= 0.8 * min(len(words), len(theirs))
            and one.evidence.kind == other.evidence.kind
        ):
            return True
    return False


def _headline(subject: Subject, chosen: Sequence[RankedEvidence]) -> str:
    about = subject.title or "the alert"
    if not chosen:
        return f"No likely cause was found for: {about}. No result that concerns it reports trouble."
    top = chosen[0].evidence
    # The affected object, by the name that the alert gives it.
    affected = next(
        (
            name
            for key, name in subject.fields.items()
            if key in ("service", "pod", "app", "deployment", "job", "instance", "node", "host")
        ),
        "",
    )
    affected = affected or (subject.names[0] if subject.names else "")
    kind = {"change": "a change shortly before it began", "measure": "a shifted value"}.get(top.kind, "")
    lead = f"Most likely cause: {affected}: " if affected else "Most likely cause: "
    first = f"{lead}{f'{kind}: ' if kind else ''}{_message(top)}"
    return "\n".join([first, *(f"  - {_cited(one)}" for one in chosen)])


_MESSAGE_FIELD = re.compile(r'(?:\b(?:msg|message|error)"?\s*[=:]\s*")((?:[^"\\]|\\.)*)')
_LOG_PREFIX = re.compile(
    r"^(?:\[[^\]]*\]\s*)?(?:[\w=]*\d{4}-\d\d-\d\d[T ]\S+\s+)?(?:(?:FATAL|ERROR|WARN(?:ING)?|INFO|DEBUG)\b:?\s*)?"
    r"(?:\d+ --- )?(?:\[[^\]]*\]\s*)*"
)


_CUT_RECORD = re.compile(r"^(?:\[[^\]]*\]\s*)?\{[^…]*… (?=\S)")
"""The beginning of a record that was cut down to its message."""

_COLUMNS = re.compile(r"^(?:\S+ +)?(?:\d+[smhd])+ +(?:\(x\d+ over \w+\) +)?(?:Warning|Error|Normal|Info) +(?=\S+ )")
"""The columns of an event list (object, age, level) before the event itself."""


def _message(one: Evidence) -> str:
    """The message of a quotation, without the prefix of a log line or event list."""
    if found := _MESSAGE_FIELD.search(one.text):
        return found.group(1).replace('\\"', '"')
    text = _COLUMNS.sub("", _CUT_RECORD.sub("", one.text, count=1), count=1)
    text = _LOG_PREFIX.sub("", text, count=1)
    logger, colon, rest = text.partition(" : ")
    return rest.strip() if colon and " " not in logger.strip() else text


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
