"""The verdict of an investigation: its result in fields, beside the text of the analysis.

Cause, since when, how sure, what is affected, what to do next, and the evidence for and
against it: each piece a quotation with the handle and the lines where it can be read.
The quotation is stored with the verdict, so that it outlives the kept result.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tersely.agent.evidence import GIVES_REASON, Evidence
from tersely.agent.ranking import RankedEvidence, chosen_evidence
from tersely.agent.recorder import Recorder
from tersely.agent.subject import Subject
from tersely.masking.masked import Masked

LONGEST_CAUSE = 120
LONGEST_QUOTE = 300
MOST_AGAINST = 3
AFFECTED = ("service", "app", "deployment", "statefulset", "job", "pod", "instance", "node", "host")
"""Fields of an alert that name what is affected, the most useful first."""

Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing to do next."""

    text: str
    command: str = ""
    """A command that does it, or begins it; empty if none is known."""


@dataclass(frozen=True, kw_only=True)
class Citation:
    """A quotation from a kept result."""

    source: str
    """`server.tool`"""

    handle: str
    """The kept result; empty if it was small and not kept."""

    first_line: int
    last_line: int
    quote: str
    count: int = 1
    """How often it occurs."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """All texts are masked."""

    cause: str
    """At most 120 characters; empty if none was found."""

    summary: str
    """One to four lines."""

    confidence: Confidence
    service: str = ""
    since: str = ""
    """When it began: a time with its zone (ISO 8601), or empty."""

    actions: tuple[Action, ...] = ()
    evidence: tuple[Citation, ...] = ()
    against: tuple[Citation, ...] = ()
    """What another cause would explain, or this one does not."""

    unverified: int = 0
    """Quotations of a model that no result contains; they were left out."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def record_verdict(recorder: Recorder, step: str, verdict: Verdict, masked: Masked) -> None:
    """Add the verdict to the timeline: its summary, with its fields beside it.

    Args:
        masked: A masked text of the same session: all texts of a verdict are masked.
    """
    await recorder.record(step, "verdict", masked.derive(verdict.summary), verdict.as_json())


# Without a model


def survey_verdict(subject: Subject, ranked: Sequence[RankedEvidence]) -> Verdict:
    """The verdict of ranked evidence, in sentences."""
    service = affected_by(subject)
    chosen = chosen_evidence(ranked)
    if not chosen:
        about = subject.title or "the alert"
        return Verdict(
            cause="",
            summary=f"No likely cause was found for {about}: no result that concerns it reports trouble.",
            confidence="low",
            service=service,
        )
    top = chosen[0]
    sentence = told(top.evidence, service)
    supporting = [one for one in chosen[1:] if one.source.name != top.source.name]
    against = [
        one
        for one in ranked
        if one not in chosen and one.relation >= 0.5 and one.score >= 0.6 * top.score and one.source is not top.source
    ][:MOST_AGAINST]
    since = _began(chosen)
    return Verdict(
        cause=shortened(sentence, LONGEST_CAUSE),
        summary="\n".join(_summary(sentence, since, chosen, supporting)),
        confidence=_confidence(top, supporting, against),
        service=service,
        since=since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if since else "",
        actions=_actions(top, sentence),
        evidence=tuple(map(_citation, chosen)),
        against=tuple(map(_citation, against)),
    )


def affected_by(subject: Subject) -> str:
    """What the alert is about, by the name that it gives."""
    named = next((subject.fields[key] for key in AFFECTED if subject.fields.get(key)), "")
    return named or (subject.names[0] if subject.names else "")


def told(one: Evidence, service: str) -> str:
    """A piece of evidence as a sentence: what happened to what, and when."""
    at = f" at {one.first:%H:%M} UTC" if one.first else ""
    match one.kind:
        case "change":
            change = _change(one.text)
            return f"{service or 'It'} was changed{at}: {change}" if service not in change else f"{change}{at}"
        case "state":
            return _state(one.text)
        case "measure":
            return one.text
    message = _EVENT_COLUMNS.sub("", message_of(one).strip())
    return message if not service or service in message else f"{service}: {message}"


_MESSAGE_FIELD = re.compile(r'(?:\b(?:msg|message|error)"?\s*[=:]\s*")((?:[^"\\]|\\.)*)')
_LOG_PREFIX = re.compile(
    r"^(?:\[[^\]]*\]\s*)?(?:[\w=]*\d{4}-\d\d-\d\d[T ]\S+\s+)?(?:(?:FATAL|ERROR|WARN(?:ING)?|INFO|DEBUG)\b:?\s*)?"
    r"(?:\d+ --- )?(?:\[[^\]]*\]\s*)*"
)


_CUT_RECORD = re.compile(r"^(?:\[[^\]]*\]\s*)?\{[^…]*… (?=\S)")
"""The beginning of a record that was cut down to its message."""

_COLUMNS = re.compile(r"^(?:\S+ +)?(?:\d+[smhd])+ +(?:\(x\d+ over \w+\) +)?(?:Warning|Error|Normal|Info) +(?=\S+ )")
"""The columns of an event list (object, age, level) before the event itself."""


def message_of(one: Evidence) -> str:
    """The message of a quotation, without the prefix of a log line or event list."""
    if found := _MESSAGE_FIELD.search(one.text):
        return found.group(1).replace('\\"', '"')
    text = _COLUMNS.sub("", _CUT_RECORD.sub("", one.text, count=1), count=1)
    text = _LOG_PREFIX.sub("", text, count=1)
    logger, colon, rest = text.partition(" : ")
    return rest.strip() if colon and " " not in logger.strip() else text


_EVENT_COLUMNS = re.compile(r"^[A-Z][A-Za-z]+ [a-z]+/[\w.-]+ (?=\S+ \S)")
"""Reason and object of an event, before its message."""

_CELL_OF_A_ROW = re.compile(
    r"^(?:[\w.-]+(?:/[\w.-]+)+: \"?(?=\d{4}-)"
    r"|(?:\d+|\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|[+-]\d\d:?\d\d)?|[\w.-]+(?:/[\w.-]+)+(?::[\w.-]+)?(?:@\S+)?"
    r"|\d+(?:\.\d+)?(?:[KMGT]i?|m)?B?|<\w+>|-)(?=\s)\s+)"
)
"""A number, time, image or quantity at the beginning of a row: not what a person would say about the change."""


def _change(row: str) -> str:
    """A row of a history without the columns before its description."""
    text = row.strip()
    while (shorter := _CELL_OF_A_ROW.sub("", text, count=1)) != text and " " in shorter:
        text = shorter
    return text.rstrip('"')


_FIELD = re.compile(r"(\w+)=((?:[^,=]|,(?! \w+=))*)(?:, (?=\w+=)|$)")


def _state(text: str) -> str:
    """The state of an object as a sentence: its message, or its reason, and its condition."""
    head, _, rest = text.partition(": ")
    fields = {name.lower(): value.strip() for name, value in _FIELD.findall(text)}
    said = fields.get("message") or fields.get("reason")
    if not said or not rest:
        return text
    condition = fields.get("type") or fields.get("reason") or ""
    named = f" ({condition})" if condition and condition.lower() not in said.lower() else ""
    return f"{head}: {said}{named}"


def _began(chosen: Sequence[RankedEvidence]) -> datetime | None:
    """When the first of the evidence was seen, without old states that came long before."""
    times = [one.evidence.first for one in chosen if one.evidence.first is not None]
    if not times:
        return None
    top = chosen[0].evidence.first
    near = [time for time in times if top is None or abs(time - top) < timedelta(hours=2)]
    return min(near or times)


def _confidence(
    top: RankedEvidence, supporting: Sequence[RankedEvidence], against: Sequence[RankedEvidence]
) -> Confidence:
    """How sure: high needs a reason, another source, and nothing else that is as likely."""
    if top.evidence.explains and supporting and not against:
        return "high"
    return "medium" if supporting or top.evidence.explains else "low"


def _summary(
    sentence: str, since: datetime | None, chosen: Sequence[RankedEvidence], supporting: Sequence[RankedEvidence]
) -> list[str]:
    lines = [cut(sentence, 240).rstrip(".") + "."]
    top = chosen[0].evidence
    if top.count > 1 and since:
        lines.append(f"Seen {top.count:,} times since {since:%H:%M} UTC.")
    elif since and f"{since:%H:%M}" not in sentence:
        lines.append(f"Since {since:%H:%M} UTC.")
    if supporting:
        first = supporting[0]
        lines.append(f"Also in {first.source.name}: {cut(_plain(first.evidence), 200)}")
    return lines


def _plain(one: Evidence) -> str:
    match one.kind:
        case "change":
            return _change(one.text)
        case "state":
            return _state(one.text)
    return message_of(one)


def _actions(top: RankedEvidence, sentence: str) -> tuple[Action, ...]:
    evidence, handle = top.evidence, top.source.handle
    lines = f"{max(1, evidence.line - 5)}:{evidence.last_line + 5}" if evidence.last_line - evidence.line < 40 else ""
    look = Action(
        text=f"Read the evidence in {top.source.name}.",
        command=f"tersely read {handle}{f' --lines {lines}' if lines else ''}" if handle else "",
    )
    match evidence.kind:
        case "change":
            act = Action(text=f"Undo the change, or correct it: {cut(_change(evidence.text), 160)}")
        case "measure":
            act = Action(text="Find out what changed when the value shifted.")
        case _:
            act = Action(text=f"Remove the reason that is given: {cut(sentence, 160)}")
    return (act, look)


def _citation(one: RankedEvidence) -> Citation:
    return Citation(
        source=one.source.name,
        handle=one.source.handle or "",
        first_line=one.evidence.line,
        last_line=one.evidence.last_line,
        quote=cut(one.evidence.text, LONGEST_QUOTE),
        count=one.evidence.count,
    )


_CLASS = re.compile(r"\b(?:[a-z_][\w$]*\.)+(?=[A-Z]\w+)")
"""The package of a class name."""


def shortened(sentence: str, longest: int) -> str:
    """A sentence of at most `longest` characters, without its least telling parts.

    Messages nest from the general to the particular ("call failed: X: Y: no such host"), so the beginning and the end
    stay, and parts between them go first.
    """
    parts = _CLASS.sub("", " ".join(sentence.split())).split(": ")
    kept = dict(enumerate(parts))

    def joined() -> str:
        text, last = "", -1
        for number, part in sorted(kept.items()):
            text += ("" if not text else ": " if number == last + 1 else ": … ") + part
            last = number
        return text + ("" if last == len(parts) - 1 else " …")

    def telling(number: int) -> tuple[bool, bool, int]:
        return bool(GIVES_REASON.search(parts[number])), number == len(parts) - 1, -len(parts[number])

    while len(joined()) > longest and len(kept) > 2:
        del kept[min((number for number in kept if number), key=telling)]
    for number in sorted(set(range(len(parts))) - kept.keys(), key=telling, reverse=True):
        if (room := longest - len(joined()) - 4) >= 30:
            kept[number] = cut(parts[number], room)
    return cut(joined(), longest)


def cut(text: str, longest: int) -> str:
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    kept = text[: longest - 1]
    return f"{kept[: kept.rfind(' ')] if ' ' in kept[longest // 2 :] else kept} …"[:longest]


def from_json(stored: Mapping[str, Any]) -> Verdict:
    """A verdict as it was stored; fields of other releases are ignored."""

    def known(kind: type, value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value[name] for name in kind.__dataclass_fields__ if name in value}  # type: ignore[attr-defined]

    fields = known(Verdict, stored)
    fields["actions"] = tuple(Action(**known(Action, one)) for one in fields.get("actions", ()))
    for name in ("evidence", "against"):
        fields[name] = tuple(Citation(**known(Citation, one)) for one in fields.get(name, ()))
    return Verdict(**fields)
