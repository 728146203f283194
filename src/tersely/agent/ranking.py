"""Ranking of evidence by how well it explains an alert.

The score combines severity, whether a reason is given, distance in time to the alert,
relation to the alert's subject, rarity, and confirmation by another source. Evidence
that is resolved or was there all the time counts little, documentation next to nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
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


def chosen_evidence(ranked: Sequence[RankedEvidence]) -> list[RankedEvidence]:
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
