"""Which of many pieces of evidence explains an alert, and how that is told.

Weighed are how bad a thing sounds and whether it says why, how close in time it
is to the alert, whether it concerns what the alert is about, how unusual it is, and
whether another source says the same. What sounds resolved, or was there all the
time, counts for little; what a handbook says counts for nothing here.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tersely.agent.evidence import Evidence
from tersely.agent.subject import Subject, mentions, one_of, words_in

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
"""Nouns of fields that say where something is: everything there has them in common."""

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
    """It says what people wrote down, not what is going on."""


@dataclass(frozen=True, kw_only=True)
class Weighed:
    source: EvidenceSource
    evidence: Evidence
    relation: float
    score: float


@dataclass
class Weighing:
    subject: Subject
    related: Mapping[str, float] = field(default_factory=dict)
    """Other names that belong to the alert's subject, and how closely."""

    def __post_init__(self) -> None:
        own = {value: key for key, value in self.subject.fields.items()}
        self.specific = [
            name for name, key in own.items() if not PLACES & {one_of(part) for part in re.split(r"[^a-z]+", key)}
        ]
        self.places = [name for name, key in own.items() if name not in self.specific]

    def weigh(self, found: Sequence[tuple[EvidenceSource, Evidence]]) -> list[Weighed]:
        """All of it, the weightiest first."""
        spread = Counter(word for _, one in found for word in set(words_in(one.text)))
        said = [
            (source, one, {word for word in words_in(one.text) if spread[word] <= max(3, len(found) // 8)})
            for source, one in found
        ]
        scoped = {
            source.name: self._is_scoped(source, [one for other, one in found if other is source])
            for source, _ in found
        }
        weighed = []
        for source, one, words in said:
            relation = self.relation(source, one.text)
            score = self._score(one) * relation
            if source.is_reference:
                score *= 0.05
            if scoped[source.name] and not any(place in one.text for place in self.places):
                score *= 0.4
            elsewhere = {
                other.name for other, _, theirs in said if other.name != source.name and len(words & theirs) >= 2
            }
            score *= 1 + 0.25 * min(2, len(elsewhere))
            weighed.append(Weighed(source=source, evidence=one, relation=relation, score=score))
        weighed.sort(key=lambda one: (-one.score, one.source.name, one.evidence.line))
        return weighed

    def relation(self, source: EvidenceSource, text: str) -> float:
        """How closely a piece of evidence concerns what the alert is about: 1 itself, 0 nothing in common."""
        if any(mentions(text, name) for name in self.specific):
            return 1.0
        asked = " ".join(_texts(source.arguments))
        if any(mentions(asked, name) for name in self.specific):
            return 0.95
        near = max((weight for name, weight in self.related.items() if mentions(text, name)), default=0.0)
        if near:
            return near
        near = max((weight for name, weight in self.related.items() if mentions(asked, name)), default=0.0)
        return max(near, 0.12 if self.specific else 0.6)

    def _is_scoped(self, source: EvidenceSource, evidence: Sequence[Evidence]) -> bool:
        """Whether the result speaks of several places, so that a line without ours is about another."""
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
        """What was looked at begins with the trouble itself, as the logs of pods that were started by the release
        do.
        """
        began = self.subject.began
        return began is not None and one.first is not None and one.first > began - timedelta(minutes=50)

    def _closeness(self, one: Evidence) -> float:
        """In time, to the beginning of the alert. An alert is raised some minutes after what it is about."""
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
    subject: Subject, weighed: Sequence[Weighed], sources: Sequence[EvidenceSource], *, failed: Sequence[str] = ()
) -> str:
    """What was found, the most likely cause first."""
    chosen = _chosen(weighed)
    said = _headline(subject, chosen)
    others = [one for one in weighed if one not in chosen and one.score > 0.5 and one.relation >= 0.5][:SHOWN_BESIDE]
    elsewhere = [one for one in weighed if one not in chosen and one.relation < 0.5 and one.score > 0.25][:4]
    lines = [said]
    if others:
        lines += ["", "## What else stands out", *(f"- {_cited(one)}" for one in others)]
    if elsewhere:
        lines += ["", "## Seen elsewhere, probably something else", *(f"- {_cited(one)}" for one in elsewhere)]
    lines += ["", "## What was looked at", *(_looked_at(source) for source in sources)]
    if failed:
        lines += ["", f"Servers that could not be reached: {', '.join(failed)}."]
    lines += [
        "",
        "## How this was found",
        "No language model was involved: the tools were chosen by their descriptions, and what they returned was "
        "weighed by how bad it "
        "sounds, when it began, and whether it concerns what the alert is about. Read the quoted results before you "
        "act on this.",
    ]
    return "\n".join(lines)


def _chosen(weighed: Sequence[Weighed]) -> list[Weighed]:
    """What the headline rests on: the weightiest, and what supports it from the same and other sources."""
    if not weighed or weighed[0].score < 0.6:
        return []
    top = weighed[0]
    chosen = [top]
    shown = Counter([top.source.name])
    for one in weighed[1:]:
        if len(chosen) == SHOWN_WITH_THE_CAUSE:
            break
        if one.relation < 0.5 or one.score < 0.3 * top.score or shown[one.source.name] >= 2 or _alike(one, chosen):
            continue
        chosen.append(one)
        shown[one.source.name] += 1
    return chosen


def _alike(one: Weighed, others: Sequence[Weighed]) -> bool:
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


def _headline(subject: Subject, chosen: Sequence[Weighed]) -> str:
    about = subject.title or "the alert"
    if not chosen:
        return f"No likely cause was found for: {about}. Nothing in the results that concerns it sounds like trouble."
    top = chosen[0].evidence
    # Whose trouble it is, by the name that the alert gives it.
    who = next(
        (
            name
            for key, name in subject.fields.items()
            if key in ("service", "pod", "app", "deployment", "job", "instance", "node", "host")
        ),
        "",
    )
    who = who or (subject.names[0] if subject.names else "")
    spoken = {"change": "a change shortly before it began", "measure": "a value that jumped"}.get(top.kind, "")
    lead = f"Most likely cause: {who}: " if who else "Most likely cause: "
    first = f"{lead}{f'{spoken}: ' if spoken else ''}{_message(top)}"
    return "\n".join([first, *(f"  - {_cited(one)}" for one in chosen)])


_SAID = re.compile(r'(?:\b(?:msg|message|error)"?\s*[=:]\s*")((?:[^"\\]|\\.)*)')
_BEFORE = re.compile(
    r"^(?:\[[^\]]*\]\s*)?(?:[\w=]*\d{4}-\d\d-\d\d[T ]\S+\s+)?(?:(?:FATAL|ERROR|WARN(?:ING)?|INFO|DEBUG)\b:?\s*)?"
    r"(?:\d+ --- )?(?:\[[^\]]*\]\s*)*"
)


_CUT_RECORD = re.compile(r"^(?:\[[^\]]*\]\s*)?\{[^…]*… (?=\S)")
"""The beginning of a record whose message was quoted instead of its middle."""

_COLUMNS = re.compile(r"^(?:\S+ +)?(?:\d+[smhd])+ +(?:\(x\d+ over \w+\) +)?(?:Warning|Error|Normal|Info) +(?=\S+ )")
"""Where, how long ago and how bad, as lists of events put it before what happened."""


def _message(one: Evidence) -> str:
    """The words of a quotation without what a log or a list puts before them."""
    if found := _SAID.search(one.text):
        return found.group(1).replace('\\"', '"')
    text = _COLUMNS.sub("", _CUT_RECORD.sub("", one.text, count=1), count=1)
    text = _BEFORE.sub("", text, count=1)
    place, colon, rest = text.partition(" : ")
    return rest.strip() if colon and " " not in place.strip() else text


_BLOCK, _ESCAPED = re.compile(r"^(?=#|>|[-+*] )"), r"\\"
"""What would make a heading, a quotation or a list of a quoted line: the report is markdown."""


def _cited(one: Weighed) -> str:
    evidence, source = one.evidence, one.source
    lines = (
        f"line {evidence.line}"
        if evidence.line == evidence.last_line
        else f"lines {evidence.line}-{evidence.last_line}"
    )
    often = f", {evidence.count:,} times" if evidence.count > 1 else ""
    quoted = _BLOCK.sub(_ESCAPED, evidence.text)
    return (
        f"{quoted} [{source.name}, {lines}{f' of {source.handle}' if source.handle else ''}{often}{_period(evidence)}]"
    )


def _period(one: Evidence) -> str:
    if one.first is None:
        return ""
    if one.last is None or one.last - one.first < timedelta(minutes=1):
        return f", at {_clock(one.first)}"
    return f", {_clock(one.first)} to {_clock(one.last)}"


def _clock(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _looked_at(source: EvidenceSource) -> str:
    given = ", ".join(f"{key}={value}" for key, value in source.arguments.items())
    if source.problem:
        return f"- {source.name}({given}): failed: {' '.join(source.problem.split())[:160]}"
    size = f"{source.tokens:,} tokens" + (
        f", condensed to {source.shown_tokens:,}" if source.shown_tokens < source.tokens else ""
    )
    return f"- {source.name}({given}): {size}{f', kept as {source.handle}' if source.handle else ''}"
