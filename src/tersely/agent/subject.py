"""The subject of an alert, and tool arguments derived from it, by field names, nouns and times.

Pure functions over texts and schemas, used by `survey`. Knows no system and no tool by name.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tersely.condensing.lexicon import ASKING, STOP
from tersely.mcp.raw import Tool

TIME = re.compile(r"\b(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(r"[A-Za-z0-9][\w.:/-]{1,120}")
_PAIR = re.compile(r"(?<![\w.])([A-Za-z_][\w.-]{1,40})\s*[=:]\s*[\"']?([A-Za-z0-9][\w./:-]{0,100})")


_NAMED = re.compile(r"(?i)\b(in (?:the )?(?:namespace )?)?([a-z][a-z0-9]*(?:[-_.][a-z0-9]+)+)\b")
"""Names that are no ordinary words, and whether they say where something is."""

LONGEST_SENTENCE = 300


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOT_NAMES = _set(
    "severity status alertname priority receiver version fingerprint startsat endsat generatorurl externalurl "
    "groupkey url level truncatedalerts source prometheus runbook_url dashboard title summary description message "
    "value cluster region env environment"
)
"""Fields that describe the alert itself, not the affected object."""

_SEARCH_NOUNS = _set("query search text pattern term terms keyword keywords q question words")
_LOOSE_NOUNS = _set("name id key identifier resource object target uid")


MOST_PROSE = 800
"""Characters of an alert's prose that are used; longer prose repeats itself."""

MOST_WORDS = 60

DEEPEST = 40
"""Levels of an alert's JSON that are read."""


@dataclass(frozen=True)
class Subject:
    """What an alert is about."""

    fields: Mapping[str, str] = field(default_factory=dict)
    """Fields whose values name the affected objects."""

    began: datetime | None = None
    words: tuple[str, ...] = ()
    title: str = ""
    prose: str = ""
    """The text of its summary, description and message fields."""

    @property
    def about(self) -> str:
        """Title, prose and names without the alert's envelope; all words if there are none of these."""
        parts = [self.title, self.prose, *self.names]
        return " ".join(dict.fromkeys(part for part in parts if part)) or " ".join(self.words[:MOST_WORDS])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.fields.values()))


def subject_of(alert: str) -> Subject:
    """Read an alert of any format."""
    pairs = list(_pairs(alert))
    fields: dict[str, str] = {}
    for key, value in pairs:
        if key not in _NOT_NAMES and _NAME.fullmatch(value) and not _is_plain_number(value) and not TIME.match(value):
            fields.setdefault(key, value)
    if not fields:
        fields = _named_in_sentence(alert)
    times = [
        time
        for key, value in pairs
        if "start" in key or key in ("time", "timestamp", "at", "date")
        for time in times_in(value)
    ]
    prose = " ".join(
        value for key, value in pairs if key in ("alertname", "summary", "description", "message", "title", "text", "")
    )
    title = next(
        (value for wanted in ("summary", "title", "alertname", "message", "") for key, value in pairs if key == wanted),
        "",
    )
    return Subject(
        fields=fields,
        began=min(times) if times else None,
        words=tuple(words_in(prose or alert)),
        title=" ".join(title.split())[:200],
        prose=" ".join(prose.split())[:MOST_PROSE],
    )


def _named_in_sentence(text: str) -> dict[str, str]:
    """What a question of one sentence is about: names like `web-7`, else its first word that means something."""
    if len(text) > LONGEST_SENTENCE or "\n" in text.strip():
        return {}
    fields: dict[str, str] = {}
    for found in _NAMED.finditer(text):
        fields.setdefault("namespace" if found.group(1) else "service", found.group(2))
    if "service" not in fields:
        known = {part for name in fields.values() for part in words_in(name)}
        if first := next((word for word in words_in(text) if word not in known), ""):
            fields["service"] = first
    return fields


def _pairs(alert: str) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads(alert)
    except (ValueError, RecursionError):
        yield "", alert
        for found in _PAIR.finditer(alert):
            yield found.group(1).lower(), found.group(2).rstrip(".,:")
        return
    yield from _leaves("", value)


def _leaves(key: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        # Labels first: they name the objects that annotations and envelope only describe.
        ordered = sorted(value.items(), key=lambda item: "label" not in str(item[0]).lower())
        for inner, item in ordered:
            yield from _leaves(str(inner).lower(), item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(key, item, depth + 1)
    elif isinstance(value, str):
        yield key, value
        if "\n" in value or "=" in value:
            for found in _PAIR.finditer(value):
                yield found.group(1).lower(), found.group(2).rstrip(".,:")


def _is_plain_number(value: str) -> bool:
    return value.replace(".", "").replace(":", "").isdigit()


def times_in(text: str) -> list[datetime]:
    return [time for found in TIME.finditer(text) if (time := as_time(found)) is not None]


def as_time(found: re.Match[str]) -> datetime | None:
    zone = (found.group(3) or "Z").replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(f"{found.group(1)}T{found.group(2)}{zone}").astimezone(UTC)
    except ValueError:
        return None


def words_in(text: str) -> list[str]:
    """The words of a text and of its identifiers, in lower case, without stop words."""
    split = _WORD.findall(_HUMP.sub(" ", text))
    return [
        word
        for word in dict.fromkeys(part.lower() for part in split)
        if len(word) > 2 and word not in STOP and word not in ASKING
    ]


def nouns(name: str, described: str, tool: str) -> list[str]:
    """The kinds of object that an argument may name, the likeliest first."""
    own = [part for part in re.split(r"[^a-z0-9]+", _HUMP.sub("_", name).lower()) if part]
    found = [part for part in own if part not in _LOOSE_NOUNS]
    if not found:
        match = re.search(r"(?:name|id|identifier|key)s? of (?:the|a|an|one)?\s*([a-z]+)", described.lower())
        found = [match.group(1)] if match else []
        found += [singular(part) for part in re.split(r"[^a-z0-9]+", tool.lower()) if part]
    return [singular(part) for part in found]


def singular(noun: str) -> str:
    """A noun in the singular."""
    return noun[:-1] if noun.endswith("s") and not noun.endswith("ss") and len(noun) > 3 else noun


def fill(tool: Tool, subject: Subject, known: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Possible arguments for a tool, the best first.

    Required arguments come from the alert or from known names, optional ones only from the alert.

    Args:
        known: Names by kind, from earlier results.
    """
    schema = tool.input_schema
    properties = schema.get("properties")
    properties = properties if isinstance(properties, dict) else {}
    required = [name for name in schema.get("required") or [] if isinstance(name, str)]
    given: dict[str, Any] = {}
    choices: tuple[str, Sequence[Any]] | None = None
    for name, described in properties.items():
        described = described if isinstance(described, dict) else {}
        description = str(described.get("description") or "")
        values = _values(name, description, tool.name, described, subject, known, is_required=name in required)
        if not values:
            if name in required:
                return []
            continue
        if name in required and len(values) > 1 and choices is None:
            choices = (name, values)
        given[name] = values[0]
    if any(name not in given for name in required):
        return []
    if choices is None:
        return [given]
    chosen, several = choices
    return [{**given, chosen: value} for value in several]


def _values(
    name: str,
    description: str,
    tool: str,
    described: Mapping[str, Any],
    subject: Subject,
    known: Mapping[str, Sequence[str]],
    *,
    is_required: bool,
) -> list[Any]:
    if isinstance(described.get("enum"), list):
        allowed = described["enum"]
        mentioned = [value for value in allowed if str(value).lower() in subject.words]
        return mentioned or (allowed[:1] if is_required else [])
    kind = described.get("type")
    kinds = (
        [kind]
        if isinstance(kind, str)
        else [one.get("type") for one in described.get("anyOf", []) if isinstance(one, dict)]
    )
    if "string" not in kinds and kinds != ["array"] and kinds:
        return [described["default"]] if is_required and "default" in described else []
    wanted = nouns(name, description, tool)
    found = [value for noun in wanted for key, value in subject.fields.items() if noun in _parts(key)]
    if not found and is_required:
        found = [value for noun in wanted for value in known.get(noun, ())]
    if not found and is_required and _SEARCH_NOUNS & set(nouns(name, "", "")):
        found = [" ".join(words_in(subject.title)[:6]) or " ".join(subject.words[:6])]
    found = list(dict.fromkeys(found))
    return [[value] for value in found] if kinds == ["array"] else found


def _parts(key: str) -> list[str]:
    return [singular(part) for part in re.split(r"[^a-z0-9]+", key.lower()) if part]


def mentions(text: str, name: str) -> bool:
    """Whether a text contains a name, or a longer name that begins with it, as a pod's with its service's."""
    return any(_starts_word(text, offset) for offset in _occurrences(text, name))


def _occurrences(text: str, name: str) -> Iterable[int]:
    start = text.find(name)
    while start >= 0:
        yield start
        start = text.find(name, start + 1)


def _starts_word(text: str, start: int) -> bool:
    return start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "-_")
