"""Stored records: stable names, old names read for ever, unknown fields ignored."""

import dataclasses
import json
from typing import Any

import pytest

from tersely.agent.tool_executor import Fetched
from tersely.errors import TerselyError, ToolTimedOut
from tersely.llm.messages import ToolCall
from tersely.research.records import RESEARCH_TYPES
from tersely.sessions.codec import RecordCodec, StoredType, UnreadableRecord
from tersely.sessions.records import ERRORS, SESSION_TYPES

CODEC = RecordCodec((*SESSION_TYPES, *RESEARCH_TYPES))


def test_a_record_is_stored_under_its_name_and_not_under_its_python_path() -> None:
    stored = json.loads(CODEC.to_json(ToolCall("c1", "cluster.get_pods")))
    assert stored == {"$is": "tool_call", "v": 1, "of": {"id": "c1", "name": "cluster.get_pods", "arguments": "{}"}}


ADDED_SINCE = {
    "error.chat_refused",
    "error.missing_extra",
    "verdict",
    "verdict_action",
    "citation",
    "error.sign_in_failed",
    "report",
    "error.over_budget",
}


@pytest.mark.parametrize(
    "one", [one for one in (*SESSION_TYPES, *RESEARCH_TYPES) if one.name not in ADDED_SINCE], ids=lambda one: one.name
)
def test_every_type_has_the_python_path_of_the_first_release_as_an_old_name(one: StoredType) -> None:
    assert one.formerly and all(name.startswith("tersely.") and ":" in name for name in one.formerly)


def test_a_record_stored_by_the_first_release_is_read() -> None:
    old = {"$is": "tersely.llm.messages:ToolCall", "of": {"id": "c1", "name": "a", "arguments": "{}"}}
    assert CODEC.from_json(json.dumps(old)) == ToolCall("c1", "a")


def test_an_unknown_field_is_ignored() -> None:
    newer = {"$is": "tool_call", "of": {"id": "c1", "name": "a", "arguments": "{}", "added_later": 1}}
    assert CODEC.from_json(json.dumps(newer)) == ToolCall("c1", "a")


@dataclasses.dataclass(frozen=True)
class Page:
    """A record that has changed since: `rows` was `lines`, a text; `source` is new and required."""

    rows: tuple[str, ...]
    source: str
    note: str = "none"


PAGES = RecordCodec(
    [
        StoredType(
            "page",
            Page,
            version=2,
            upgrades={1: lambda old: {**old, "rows": tuple(old["lines"].split("\n"))}},
            defaults={"source": "unknown"},
        )
    ]
)


def test_an_older_version_is_converted_and_missing_fields_get_their_defaults() -> None:
    for old in ({"$is": "page", "of": {"lines": "a\nb"}}, {"$is": "page", "v": 1, "of": {"lines": "a\nb"}}):
        assert PAGES.from_json(json.dumps(old)) == Page(rows=("a", "b"), source="unknown")
    present = Page(rows=("a",), source="web", note="x")
    assert PAGES.from_json(PAGES.to_json(present)) == present


@pytest.mark.parametrize(
    "stored",
    [
        '{"$is": "page", "v": 3, "of": {"rows": [], "source": "x"}}',
        '{"$is": "page", "v": 2, "of": {}}',
        '{"$is": "page", "v": 1, "of": {}}',
        '{"$is": "gone", "v": 1, "of": {}}',
        '{"$raised": "gone", "args": [], "state": {}}',
        '{"$time": "never"}',
        '{"neither": 1}',
        "{",
    ],
)
def test_what_cannot_be_read_is_one_kind_of_error(stored: str) -> None:
    """The session then resumes before that step."""
    with pytest.raises(UnreadableRecord):
        PAGES.from_json(stored)


def test_an_error_keeps_its_type_and_text() -> None:
    error = CODEC.from_json(CODEC.to_json(ToolTimedOut("cluster.logs", 3)))
    assert type(error) is ToolTimedOut and "cluster.logs" in str(error)


def test_every_error_of_ours_has_a_stored_name() -> None:
    def below(kind: type) -> set[type]:
        found = {kind}
        narrower: type
        for narrower in kind.__subclasses__():
            found |= below(narrower)
        return found

    ours = {kind for kind in below(TerselyError) if kind.__module__.startswith("tersely.")}
    named = {one.kind for one in (*ERRORS, *RESEARCH_TYPES)}
    # Errors of layers above the sessions never end a step.
    above = ("tersely.cli", "tersely.web", "tersely.servers", "tersely.demo")
    assert {kind for kind in ours if not kind.__module__.startswith(above)} <= named


def test_every_field_of_a_stored_record_can_be_stored() -> None:
    """A record inside a record needs a name of its own."""
    named = {one.kind for one in (*SESSION_TYPES, *RESEARCH_TYPES)}
    for one in (*SESSION_TYPES, *RESEARCH_TYPES):
        if issubclass(one.kind, BaseException):
            continue
        kind: Any = one.kind
        for field in dataclasses.fields(kind):
            for word in str(field.type).replace("|", " ").replace("[", " ").replace("]", " ").replace(",", " ").split():
                found = _dataclass_called(word.strip("'\"").rpartition(".")[2])
                assert found is None or found in named, f"{one.name}.{field.name}: {found}"


def _dataclass_called(name: str) -> type | None:
    import sys

    for module in [module for key, module in sys.modules.items() if key.startswith("tersely.")]:
        kind: Any = getattr(module, name, None)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            return kind
    return None


def test_a_type_without_a_stored_name_is_refused_with_what_to_do() -> None:
    @dataclasses.dataclass
    class Unlisted:
        value: int = 1

    with pytest.raises(TypeError, match="has no stored name"):
        CODEC.to_json(Unlisted())
    with pytest.raises(TypeError, match="No stored type"):
        CODEC.from_json('{"$is": "os:system", "of": {}}')


def test_a_secret_in_an_error_is_masked() -> None:
    failed = Fetched(server="a", tool="b", arguments={}, handle=None, tokens=0, is_error=True)
    assert CODEC.from_json(CODEC.to_json(failed)) == failed
    assert "hunter2hunter2" not in CODEC.to_json(ToolTimedOut("password=hunter2hunter2", 3))
