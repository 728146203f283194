"""Coding agents whose settings `tersely hook install` can change: where hooks are declared, and how ours are written.

Entries are inserted as text, so that comments, order and formatting of the file stay. With
the copy of the original beside it, undoing restores the file byte for byte; where the file
has changed since, only our entries are removed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tersely.errors import ConfigError
from tersely.settings.files import Document, Key, parse_json

Entries = Sequence[tuple[str, Mapping[str, Any]]]
"""Events, and the entry that each gets."""


@dataclass(frozen=True, kw_only=True)
class HookClient:
    """A coding agent that declares hooks in a JSON file, by event."""

    name: str
    title: str
    user: str
    """Its file below the home folder."""

    project: str
    """Its file below a project's folder."""

    restart: str
    source: str
    """The documentation that describes the format."""

    def entries(self, command: str, matchers: Mapping[str, str], seconds: float) -> Entries:
        """What is declared: for each event, the tools and our command."""
        hook = {"type": "command", "command": command, "timeout": round(seconds) + 5}
        return [(event, {"matcher": matcher, "hooks": [hook]}) for event, matcher in matchers.items()]


HOOK_CLIENTS = {
    client.name: client
    for client in (
        HookClient(
            name="claude-code",
            title="Claude Code",
            user=".claude/settings.json",
            project=".claude/settings.json",
            restart="Start a new session of Claude Code; /hooks lists what is active.",
            source="https://code.claude.com/docs/en/hooks",
        ),
    )
}


def with_hooks(path: Path, text: str, entries: Entries) -> str:
    """The text of a settings file with our entries, in place of earlier ones of ours.

    Raises:
        ConfigError: The file cannot be parsed, or declares hooks in a way we do not know.
    """
    text = without_hooks(path, text)
    for event, entry in entries:
        text = _inserted(path, text, event, entry)
    parse_json(path, text)  # Never write a file that the client cannot read.
    return text


def without_hooks(path: Path, text: str, original: str | None = None) -> str:
    """The text of a settings file without our entries.

    Args:
        original: The text before ours were inserted, if a copy is left: what it does not have either goes too.
    """
    while text.strip() and (ours := _ours(path, text)):
        text = _removed(parse_json(path, text), text, ours[0])
    if original is not None and text.strip():
        before = _data(path, original)
        for key in _emptied(_data(path, text), before):
            text = _removed(parse_json(path, text), text, key)
    return text


def has_hooks(path: Path, text: str) -> bool:
    return bool(text.strip() and _ours(path, text))


def _data(path: Path, text: str) -> Any:
    return parse_json(path, text).data if text.strip() else {}


def _ours(path: Path, text: str) -> list[Key]:
    """The keys of our entries."""
    hooks = _declared(path, _data(path, text))
    return [
        ("hooks", event, at)
        for event, listed in hooks.items()
        for at, entry in enumerate(listed if isinstance(listed, list) else ())
        if re.search(r"\btersely\b[^|;&]*\bhook [a-z]", json.dumps(entry))
    ]


def _declared(path: Path, data: Any) -> Mapping[str, Any]:
    hooks = data.get("hooks", {}) if isinstance(data, dict) else None
    if not isinstance(hooks, dict):
        raise ConfigError(f"{path}: `hooks` is not an object, so hooks cannot be added to it. Change it by hand.")
    return hooks


def _emptied(data: Any, before: Any) -> list[Key]:
    """Keys that have nothing in them and were not there before, inner ones first."""
    hooks, earlier = (one.get("hooks") if isinstance(one, dict) else None for one in (data, before))
    if not isinstance(hooks, dict):
        return []
    known = earlier if isinstance(earlier, dict) else {}
    events: list[Key] = [("hooks", event) for event, listed in hooks.items() if listed == [] and event not in known]
    return events + ([("hooks",)] if earlier is None and len(events) == len(hooks) else [])


def _inserted(path: Path, text: str, event: str, entry: Mapping[str, Any]) -> str:
    text = text if text.strip() else "{}\n"
    document = parse_json(path, text)
    hooks = _declared(path, document.data)
    if "hooks" not in document.data:
        return _put(document, text, (), f'"hooks": {_written({event: [entry]})}', document.data)
    if event not in hooks:
        return _put(document, text, ("hooks",), f"{json.dumps(event)}: {_written([entry])}", hooks)
    if not isinstance(hooks[event], list):
        raise ConfigError(f"{path}: `hooks.{event}` is not a list, so hooks cannot be added to it. Change it by hand.")
    return _put(document, text, ("hooks", event), _written(entry), hooks[event])


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _put(document: Document, text: str, inside: Key, written: str, members: Any) -> str:
    """Insert a member as the first one of an object or a list."""
    at = document.spans[inside][0] + 1
    indent = "\n" + "  " * (len(inside) + 1)
    addition = indent + written.replace("\n", indent) + ("," if members else "\n" + "  " * len(inside))
    if "\r\n" in text:
        addition = addition.replace("\n", "\r\n")
    return text[:at] + addition + text[at:]


def _removed(document: Document, text: str, key: Key) -> str:
    """Remove a member, with its comma."""
    parent = key[:-1]
    siblings = [other for other in document.spans if len(other) == len(key) and other[:-1] == parent]
    siblings.sort(key=lambda other: document.spans[other][0])
    end = document.spans[key][1]
    place = siblings.index(key)
    if place:
        return text[: document.spans[siblings[place - 1]][1]] + text[end:]
    opening, closing = document.spans[parent]
    # The inverse of `_put`: everything from the bracket to the comma is ours.
    return text[: opening + 1] + (text[text.index(",", end) + 1 :] if len(siblings) > 1 else text[closing - 1 :])
