"""Evidence in a tool's result: lines and objects that report trouble, recent changes, values that shifted.

Pure functions over one text at a time; no model, and no knowledge of any system.
A result yields a few pieces of `Evidence`, each a quotation with its lines, count and
period. `ranking` ranks them against each other.
"""

import json
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from tersely.agent.subject import TIME, as_time, singular
from tersely.condensing.lexicon import SEVERITY
from tersely.condensing.templates import VALUE
from tersely.shapes.json_values import ObjectLines, documents
from tersely.shapes.tables import table_parts

Kind = Literal["said", "state", "change", "measure"]
"""Stored names: a line of text, the state of an object, a change, a value."""

MOST_PER_RESULT = 60
LONGEST_QUOTE = 320
LONGEST_TEXT = 24_000_000
_TABLE_LINES = 520
"""Lines in which a table with names is looked for."""
MOST_ALIKE_CHANGES = 30
"""Similar lines up to which they count as changes: a release history has tens of rows, a log thousands of lines."""

_FIRST_LEVEL = re.compile(
    r"[\"']?(?:level|severity|lvl)[\"']?\s*[=:]\s*[\"']?(\w+)"
    r"|(?<![\w-])(FATAL|PANIC|CRITICAL|ERROR|WARN|WARNING|INFO|DEBUG|TRACE|Warning|Normal|[IWEF](?=\d{4} ))(?![\w-])"
)
_LEVELS = {
    "fatal": 3.0,
    "panic": 3.0,
    "critical": 3.0,
    "f": 3.0,
    "error": 2.0,
    "err": 2.0,
    "e": 2.0,
    "warn": 1.2,
    "warning": 1.2,
    "w": 1.2,
}
_QUIET = {"info", "debug", "trace", "notice", "normal", "i"}
_PHRASE = re.compile(
    "|".join(re.escape(phrase) for phrase in sorted((p for p in SEVERITY if " " in p), key=len, reverse=True))
)
_DENIED = re.compile(
    rf"\b(?:no|without|zero|0)\s+(?:{'|'.join(sorted(p for p in SEVERITY if ' ' not in p))})s?\b", re.IGNORECASE
)
"""Negated trouble: "no errors"."""

_TOKEN = re.compile(r"[A-Za-z][A-Za-z']+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])")
_AGE = re.compile(
    r"(?:^|\s{2})((?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?)(?: \(x(\d+) over "
    r"((?:\d+d)?(?:\d+h)?(?:\d+m)?(?:\d+s)?)\))?(?=\s{2}|$)"
)
_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_CHANGED = re.compile(
    r"\b(?:chang\w*|deploy\w*|releas\w*|roll(?:ed|out|back)\w*|revision|updat\w*|upgrad\w*|scaled|rotat\w*|applied|migrat\w*|enabled|disabled|"
    r"set to|switched|merged|reconfigur\w*|is now)\b",
    re.IGNORECASE,
)
_RESOLVED = re.compile(
    r"\b(?:resolved|recovered|succeeded|successful\w*|completed|healthy|fixed|closed|no longer|back to normal|restored|"
    r"ok|passed|will retry|retry(?:ing)? succeeded|ignored|expected|harmless|no action)\b",
    re.IGNORECASE,
)
GIVES_REASON = re.compile(
    r"\b(?:because|due to|caused by|exceed\w*|expired|no space|denied|refused|not found|no such|invalid|missing"
    r"|unknown|"
    r"exhaust\w*|limit|quota|full|killed|insufficient|mismatch|unauthorized|forbidden|"
    r"corrupt\w*|deadlock\w*|leak\w*|unsupported|too (?:many|large|long))\b",
    re.IGNORECASE,
)
_KIND_SLASH_NAME = re.compile(r"(?<![\w./:-])([a-z]{3,24}?)s?/([a-z0-9][a-z0-9.-]{1,100}[a-z0-9])(?![\w.-])")
_ID = re.compile(r"\bid\"?\s*[:=]\s*\"?([A-Za-z0-9][\w./-]{2,80})")
_IDENTIFIER = re.compile(r"(?<![\w/])\w+(?:[._/]\w+)+|[\w#-]+(?==)")
"""Names of settings, metrics and fields: `read_timeout` is not a timeout, `failure=3` not a failure."""

_FRAME = re.compile(r"\s*(?:at \S+\(|File \"|raise \w|Traceback \(|goroutine \d|\.\.\. \d+ more)")
"""Stack trace lines that give the location, not the error."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One notable piece of a result."""

    kind: Kind
    text: str
    """A quotation, or a description of the values."""

    line: int
    """Its first line in the result, counted from 1."""

    last_line: int
    count: int = 1
    severity: float = 0.0
    first: datetime | None = None
    last: datetime | None = None
    explains: bool = False
    """It gives a reason, not only a symptom."""

    resolved: bool = False
    is_steady: bool = False
    """It occurred all the time at the same rate: normal background, not news."""

    scoped: bool = True
    """Whether it concerns the alert's namespace, cluster or the like, where the result covers several."""


@dataclass(frozen=True, kw_only=True)
class EvidenceReading:
    """The evidence and the names in one result."""

    evidence: tuple[Evidence, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    """Objects as kind and name: `("pod", "api-7d9f")`."""

    links: tuple[tuple[str, str], ...] = ()
    """Objects and other objects that they reference: a pod and its node."""


def read_result(text: str, *, tool: str, now: datetime | None = None, about: Sequence[str] = ()) -> EvidenceReading:
    """Extract evidence and names from a result.

    Args:
        tool: The tool's name, which gives the kind of the objects in a plain list.
        now: Reference time for ages ("26m ago").
        about: Names that the alert is about; evidence that mentions them ranks first.
    """
    text = text[:LONGEST_TEXT]
    value = _as_json(text)
    links: list[tuple[str, str]] = []
    if value is not None:
        lines_of = ObjectLines(text, [value])
        found = [*_series(value, lines_of), *_objects(value, lines_of)]
        names = list(_object_names(value))
        links = [
            (name, other) for item in _objects_in(value) if (name := _name(item)) for _, other in _references(item)
        ]
    else:
        lines = text.split("\n")
        found = [*_lines(lines, now), *_changes(lines), *_samples(lines)]
        kind = _listed_kind(tool)
        names = [
            *_table_names("\n".join(lines[:_TABLE_LINES]), kind),
            *_KIND_SLASH_NAME.findall(text[:400_000]),
            *((kind, name) for name in _ID.findall(text[:50_000])),
        ]
    found.sort(key=lambda one: (-any(name in one.text for name in about), -one.severity - one.explains, one.line))
    kept = [one for one in found if one.kind == "change"][:15] + [one for one in found if one.kind != "change"][
        :MOST_PER_RESULT
    ]
    linked = [link for link in dict.fromkeys(links) if any(name in link[0] for name in about)]
    return EvidenceReading(evidence=tuple(kept), names=tuple(dict.fromkeys(names))[:400], links=tuple(linked)[:100])


def severity_of(text: str) -> float:
    """The severity of a text, from 0 (none) to 3 (fatal). An explicit log level outweighs the wording."""
    plain = _IDENTIFIER.sub(" ", text[:2_000])
    lowered = _DENIED.sub(" ", _HUMP.sub(" ", plain).lower())
    words = max(
        (SEVERITY.get(word, SEVERITY.get(word.removesuffix("s"), 0.0)) for word in _TOKEN.findall(lowered)), default=0.0
    )
    whole = max((SEVERITY.get(word.lower(), 0.0) for word in _TOKEN.findall(_DENIED.sub(" ", plain))), default=0.0)
    phrases = max((SEVERITY[found] for found in _PHRASE.findall(lowered)), default=0.0)
    wording = max(words, whole, phrases)
    level = _FIRST_LEVEL.search(text[:400])
    if level:
        name = (level.group(1) or level.group(2)).lower()
        if name in _QUIET:
            return wording * 0.35
        return max(_LEVELS.get(name, 0.0), min(wording, 3.0))
    return wording


# Lines: logs, events, tables, prose


@dataclass
class _Group:
    line: int
    text: str
    severity: float
    count: int = 0
    weight: int = 0
    last_line: int = 0
    first: datetime | None = None
    last: datetime | None = None
    places: list[int] = field(default_factory=list)


def _lines(lines: Sequence[str], now: datetime | None) -> Iterator[Evidence]:
    groups: dict[str, _Group] = {}
    times: list[datetime] = []
    for number, line in enumerate(lines, start=1):
        stripped = line.strip()
        if len(stripped) < 4 or _SAMPLE.match(stripped) or _FRAME.match(line):
            continue
        key = VALUE.sub("#", _without_names(stripped[:1_000]))
        group = groups.get(key)
        if group is None:
            if len(groups) > 20_000:
                continue
            group = groups[key] = _Group(number, stripped, severity_of(stripped))
        first, last, occurrences = _when(stripped, now)
        group.count += 1
        group.weight += occurrences
        group.last_line = number
        group.places.append(number)
        if first:
            times.append(first)
            group.first = min(group.first or first, first)
        if last:
            times.append(last)
            if group.last is None or last >= group.last:
                group.last, group.text = last, stripped if group.severity < 1 else group.text
    span = (min(times), max(times)) if len(times) > 1 else None
    total = len(lines)
    for group in groups.values():
        if group.severity < 0.9:
            continue
        body = _message_text(group.text)
        yield Evidence(
            kind="said",
            text=_quote(group.text),
            line=group.line,
            last_line=group.last_line,
            count=max(group.count, group.weight),
            severity=group.severity,
            first=group.first,
            last=group.last,
            explains=bool(GIVES_REASON.search(body)),
            resolved=bool(_RESOLVED.search(body)) or _ended(group, span),
            is_steady=_is_steady(group, total, span),
        )


def _without_names(text: str) -> str:
    """Replace names of pods or requests, so that lines that differ only in these are grouped."""
    return re.sub(r"(?<=/)[\w.-]+|(?<=-)[a-z0-9]{4,10}(?![\w-])", "#", text)


def _is_steady(group: _Group, total: int, span: tuple[datetime, datetime] | None) -> bool:
    """Whether a line repeats at a constant rate from the beginning of the text to its end."""
    if group.count < 8 or total < 60:
        return False
    if span and group.first and (group.first - span[0]).total_seconds() > 0.1 * (span[1] - span[0]).total_seconds():
        return False
    thirds = Counter(min(2, place * 3 // (total + 1)) for place in group.places)
    return min(thirds[0], thirds[1], thirds[2]) * 2 >= max(thirds.values()) and thirds[0] > 1


def _ended(group: _Group, span: tuple[datetime, datetime] | None) -> bool:
    """Whether a line stopped occurring well before the end of the period."""
    if span is None or group.last is None:
        return False
    length = (span[1] - span[0]).total_seconds()
    return length > 600 and (span[1] - group.last).total_seconds() > max(900, length * 0.25)


def _when(line: str, now: datetime | None) -> tuple[datetime | None, datetime | None, int]:
    """The period that a line covers, and how many occurrences it reports."""
    if found := TIME.search(line[:400]):
        time = as_time(found)
        return time, time, 1
    if now is None:
        return None, None, 1
    for age in _AGE.finditer(line[:200]):
        if seconds := _seconds(age.group(1)):
            last = now - timedelta(seconds=seconds)
            over = _seconds(age.group(3) or "")
            return (last if not over else now - timedelta(seconds=max(over, seconds))), last, int(age.group(2) or 1)
    return None, None, 1


def _seconds(age: str) -> int:
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([dhms])", age))


def _message_text(line: str) -> str:
    """A line without times and identifiers."""
    return VALUE.sub(" ", TIME.sub(" ", line))


def _quote(text: str) -> str:
    text = " ".join(text.split())
    found = re.search(r'"(?:message|msg|error|text)"\s*:\s*"((?:[^"\\]|\\.)*)"', text)
    if found and len(text) > LONGEST_QUOTE:
        text = f"{text[: max(0, min(found.start(), 80))]}… {found.group(1)}"
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 1]}…"


def _changes(lines: Sequence[str]) -> Iterator[Evidence]:
    """Lines that report a change with its time."""
    alike = Counter(VALUE.sub("#", line) for line in lines)
    for number, line in enumerate(lines, start=1):
        if alike[VALUE.sub("#", line)] > MOST_ALIKE_CHANGES:
            continue  # so many similar lines are routine work, not changes
        if (
            _CHANGED.search(_IDENTIFIER.sub(" ", line))
            and (found := TIME.search(line))
            and (time := as_time(found))
            and severity_of(line) < 2
        ):
            yield Evidence(
                kind="change",
                text=_quote(line.strip()),
                line=number,
                last_line=number,
                first=time,
                last=time,
                severity=1.0,
                explains=True,
            )


# Names


def _listed_kind(tool: str) -> str:
    """The kind of object that a tool lists, from its name: `list_pods` lists pods."""
    return singular(tool.lower().rpartition("_")[2])


def _table_names(text: str, kind: str) -> Iterator[tuple[str, str]]:
    """The entries of a table's NAME column, with the kind that the tool lists."""
    if "name" not in text.lower():
        return
    for part in table_parts(text, fewest=1):
        titles = [title.upper() for title in part.table.header] if part.table else []
        if part.table and "NAME" in titles:
            at = titles.index("NAME")
            yield from ((kind, row[at].split()[0]) for row in part.table.rows if len(row) > at and row[at])
            return


def _object_names(value: Any) -> Iterator[tuple[str, str]]:
    for item in _objects_in(value):
        name, kind = _name(item), str(item.get("kind") or "").lower()
        if name and kind:
            yield kind, name
        yield from _references(item)


def _references(item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Other objects that an object references: `nodeName: n1` is the node n1."""
    for key, inner in _flat(item):
        last = key.rpartition(".")[2]
        if last.endswith("Name") and len(last) > 6 and isinstance(inner, str) and inner:
            yield last[:-4].lower(), inner


# JSON objects


def _as_json(text: str) -> Any:
    """The document; None if there are several, which are quoted as lines."""
    found = documents(text)
    return found[0] if len(found) == 1 else None


def _objects_in(value: Any) -> list[dict[str, Any]]:
    """The objects that a document lists, or the document itself."""
    if isinstance(value, dict):
        lists = [
            inner
            for inner in value.values()
            if isinstance(inner, list) and inner and all(isinstance(item, dict) for item in inner)
        ]
        if lists and (len(value) <= 6 or "items" in value):
            return max(lists, key=len)
        return [value]
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _name(item: dict[str, Any]) -> str:
    metadata = item.get("metadata")
    for place in (metadata if isinstance(metadata, dict) else {}, item):
        for key in ("name", "id", "title", "host", "hostname", "key"):
            if isinstance(place.get(key), str):
                return str(place[key])
    return ""


def _objects(value: Any, lines_of: ObjectLines) -> Iterator[Evidence]:
    """Parts of objects that report trouble, with their sibling fields, and conditions that few objects have."""
    items = _objects_in(value)
    usual = _usual(items)
    found: dict[str, list[tuple[str, str, str, float, dict[str, Any]]]] = {}
    for item in items:
        name, kind = _name(item), str(item.get("kind") or "")
        for path, part in _parts_of(item):
            severity = _part_severity(path, part, usual, len(items))
            if severity >= 1.0:
                fields = _fields_text(part)
                key = VALUE.sub("#", f"{path} {fields}")
                found.setdefault(key, []).append((f"{kind} {name}".strip(), path, fields, severity, part))
    for group in found.values():
        objects = ", ".join(dict.fromkeys(one[0] for one in group[:3])) + (
            f" and {len(group) - 3} more" if len(group) > 3 else ""
        )
        _, path, fields, severity, part = group[0]
        first_line, last_line = lines_of.of(part)
        times = [time for match in TIME.finditer(fields) if (time := as_time(match))]
        yield Evidence(
            kind="state",
            text=_quote(f"{objects}: {path.strip('.')}: {fields}"),
            line=first_line,
            last_line=last_line,
            count=len(group),
            severity=severity,
            first=min(times) if times else None,
            last=max(times) if times else None,
            explains=bool(GIVES_REASON.search(_HUMP.sub(" ", re.sub(r"\w+(?==)", " ", fields)))),
        )


_STATUS_KEYS = ("type", "status", "reason", "message", "error", "exitCode", "state", "phase", "cause")


def _fields_text(part: dict[str, Any]) -> str:
    """An object's scalar fields as `key=value`, status fields first, without identifiers."""
    plain = {
        key: inner for key, inner in part.items() if not isinstance(inner, dict | list) and inner not in ("", None)
    }
    keys = [key for key in _STATUS_KEYS if key in plain] + [
        key for key in plain if key not in _STATUS_KEYS and not key.lower().endswith(("id", "uid"))
    ]
    return ", ".join(f"{key}={_short(plain[key])}" for key in keys)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else f"{text[:159]}…"


def _parts_of(item: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object inside an object, with its path."""
    if depth > 12:
        return
    if isinstance(item, dict):
        yield path, item
        for key, inner in item.items():
            yield from _parts_of(inner, f"{path}.{key}", depth + 1)
    elif isinstance(item, list):
        for inner in item[:200]:
            yield from _parts_of(inner, path, depth + 1)


def _flat(item: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for path, part in _parts_of(item):
        for key, inner in part.items():
            if not isinstance(inner, dict | list):
                yield f"{path}.{key}", inner


def _usual(items: Sequence[dict[str, Any]]) -> dict[tuple[str, str], Counter[str]]:
    """How often each condition has each status, over all objects."""
    statuses: dict[tuple[str, str], Counter[str]] = {}
    for item in items:
        for path, part in _parts_of(item):
            if isinstance(part.get("type"), str) and isinstance(part.get("status"), str):
                statuses.setdefault((path, part["type"]), Counter())[part["status"]] += 1
    return statuses


def _part_severity(path: str, part: dict[str, Any], usual: dict[tuple[str, str], Counter[str]], items: int) -> float:
    leaves = {key: inner for key, inner in part.items() if isinstance(inner, str | bool | int | float)}
    if isinstance(part.get("type"), str) and isinstance(part.get("status"), str):
        statuses = usual.get((path, part["type"]), Counter())
        is_rare = statuses[part["status"]] * 3 <= sum(statuses.values())
        bad = (
            severity_of(f"{part['type']} {part.get('reason', '')}")
            if part["status"] == "True"
            else severity_of(str(part.get("reason", "")))
        )
        return max(
            2.2 if is_rare and sum(statuses.values()) > 2 else 0.0,
            bad if part["status"] == "True" else bad * 0.8,
            1.0 if bad else 0.0,
        )
    messages = [
        str(inner)
        for key, inner in leaves.items()
        if key.lower() in ("reason", "message", "error", "status", "phase", "state", "cause", "lasterror")
    ]
    severity = max((severity_of(one) for one in messages), default=0.0)
    code = part.get("exitCode")
    if isinstance(code, int) and code != 0:
        severity = max(severity, 2.2)
    return severity


# Numbers


def _series(value: Any, lines_of: ObjectLines) -> Iterator[Evidence]:
    """Time series whose level shifted."""
    for path, part in _parts_of(value):
        values = part.get("values") or part.get("datapoints") or part.get("points")
        if not isinstance(values, list) or len(values) < 12:
            continue
        points = [point for pair in values if (point := _point(pair)) is not None]
        labels = part.get("metric") or part.get("labels") or {}
        name = (
            str(labels.get("__name__") or part.get("name") or part.get("target") or path.strip("."))
            if isinstance(labels, dict)
            else str(labels)
        )
        if shift := _shift(points):
            before, after, at = shift
            others = (
                ", ".join(f"{key}={inner}" for key, inner in labels.items() if key != "__name__")
                if isinstance(labels, dict)
                else ""
            )
            verb = "rose" if after > before else "fell"
            when = datetime.fromtimestamp(at, UTC) if at > 10**8 else None
            clock = f" at {when:%H:%M} UTC" if when else ""
            first_line, last_line = lines_of.of(part)
            yield Evidence(
                kind="measure",
                text=f"{name}{{{others}}} {verb} from {before:.4g} to {after:.4g}{clock}",
                line=first_line,
                last_line=last_line,
                severity=1.3,
                first=when,
                last=datetime.fromtimestamp(points[-1][0], UTC) if points[-1][0] > 10**8 else None,
            )


def _point(pair: Any) -> tuple[float, float] | None:
    try:
        first, second = pair
        time, value = float(first), float(second)
    except (TypeError, ValueError):
        return None
    return (time, value) if value == value and abs(value) != float("inf") else None


def _shift(points: Sequence[tuple[float, float]]) -> tuple[float, float, float] | None:
    """A lasting shift in the level of a series: level before, level after, time; None if there is no such shift."""
    values = [value for _, value in points]
    if len(values) < 12 or max(values) == min(values):
        return None
    best: tuple[float, int] | None = None
    spread = statistics.pstdev(values)
    for cut in range(len(values) // 4, len(values) - 3):
        gap = abs(statistics.fmean(values[cut:]) - statistics.fmean(values[:cut]))
        if best is None or gap > best[0]:
            best = (gap, cut)
    assert best is not None
    before, after = statistics.median(values[: best[1]]), statistics.median(values[best[1] :])
    noise = statistics.pstdev(values[: best[1]])
    if abs(after - before) < max(3 * noise, 0.3 * max(abs(before), abs(after)), 1e-12) or spread == 0:
        return None
    return before, after, points[best[1]][0]


_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)\{([^}]*)\}\s+([-+0-9.eE]+|NaN|[+-]Inf)\s*$")


def _samples(lines: Sequence[str]) -> Iterator[Evidence]:
    """Outliers among the samples of one metric."""
    families: dict[tuple[str, ...], list[tuple[float, int, str]]] = {}
    for number, line in enumerate(lines, start=1):
        if (found := _SAMPLE.match(line)) is None:
            continue
        try:
            value = float(found.group(3))
        except ValueError:
            continue
        labels = re.findall(r'(\w+)="([^"]*)"', found.group(2))
        family = [
            f"{key}={inner}"
            for key, inner in labels
            if key not in ("instance", "node", "host", "pod", "container", "uid", "id")
        ]
        families.setdefault((found.group(1), *family), []).append((value, number, line))
    for members in families.values():
        if len(members) < 4:
            continue
        median = statistics.median(value for value, _, _ in members)
        deviation = statistics.median(abs(value - median) for value, _, _ in members)
        for value, number, line in members:
            distance = abs(value - median)
            if distance > 8 * max(deviation, 0.02 * abs(median), 1e-9) and len(
                [one for one in members if one[0] == value]
            ) * 4 <= len(members):
                yield Evidence(
                    kind="measure",
                    text=_quote(f"{line.strip()} (elsewhere about {median:.4g})"),
                    line=number,
                    last_line=number,
                    severity=1.2,
                )
