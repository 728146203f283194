"""The JSON Schema of all event types, generated from `events.types`.

python -m tersely.events.schema > docs/reference/events.schema.json
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from tersely.events.types import STORED, TRANSIENT, StoredEvent, TransientEvent
from tersely.store.events import VERSION


def event_schema() -> dict[str, Any]:
    """A document that is valid for every event, with one definition per type."""
    definitions = {event.__name__: _definition(event, is_stored=event in STORED) for event in (*STORED, *TRANSIENT)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Events of tersely up",
        "description": "Sent over the WebSocket /api/v1/ws; the stored ones also by GET /sessions/{id}/events.",
        "oneOf": [{"$ref": f"#/$defs/{name}"} for name in definitions],
        "$defs": definitions,
    }


def _definition(event: type[StoredEvent | TransientEvent], *, is_stored: bool) -> dict[str, Any]:
    common: dict[str, Any] = {
        "type": {"const": event.type},
        "v": {"const": VERSION},
        "session_id": {"type": "string"},
    }
    if is_stored:
        common["seq"] = {"type": "integer", "description": "The number of the event in its channel, from 1."}
    common["timestamp"] = {"type": "string", "format": "date-time", "description": "UTC, with milliseconds."}
    hints, docstrings = get_type_hints(event), _field_docstrings(event)
    own: dict[str, Any] = {}
    for field in fields(event):
        own[field.name] = TypeAdapter(hints[field.name]).json_schema()
        if field.name in docstrings:
            own[field.name]["description"] = docstrings[field.name]
    optional = {field.name for field in fields(event) if field.default is not MISSING}
    return {
        "type": "object",
        "description": " ".join(inspect.cleandoc(event.__doc__ or "").split()),
        "properties": {**common, **own},
        "required": [name for name in (*common, *own) if name not in optional],
        "additionalProperties": False,
    }


def _field_docstrings(event: type) -> Mapping[str, str]:
    """The strings below the fields of a class."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(event))).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(event_schema(), indent=2) + "\n")
