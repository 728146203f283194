"""Lenient parsing of the arguments a model wrote, and validation against the tool's schema.

Models write JSON, nearly JSON, Python, YAML, or `name: value`. Everything that is
unambiguous is accepted, with a remark on what was wrong, so that the model corrects
itself. Pure functions; validation (`fit`) comes after parsing (`read_arguments`).
"""

import ast
import difflib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import yaml

_FENCE = re.compile(r"^\s*```[\w-]*[ \t]*\n?(.*?)\n?\s*```\s*$", re.DOTALL)
_PAIR = re.compile(r"(?:^|[,;\n])\s*[\"']?([A-Za-z_][\w.-]*)[\"']?\s*[=:]\s*")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")

LARGEST = 200_000
"""Characters that the lenient parsers read; longer arguments must be valid JSON."""


@dataclass(frozen=True)
class Arguments:
    values: dict[str, Any] = field(default_factory=dict)
    complaint: str = ""
    """Why there are no values."""

    remark: str = ""
    """What was wrong with arguments that were accepted anyway."""


def read_arguments(text: str) -> Arguments:
    """Parse the arguments of a call, with a remark where they are not valid JSON."""
    inside = _unfenced(text).strip()
    if not inside or inside.lower() in ("none", "null", "{}", "()", "n/a", "no input", "(none)"):
        return Arguments()
    try:
        value = json.loads(inside)
    except ValueError as error:
        problem = f"not valid JSON ({error})"
        value = _parse_leniently(inside[:LARGEST])
        if value is None:
            return Arguments(complaint=f'The arguments are {problem}. Write one JSON object, e.g. {{"name": "value"}}.')
        return Arguments(
            values=value,
            remark=f"Your arguments were {problem}; they were parsed as {json.dumps(value, ensure_ascii=False)[:300]}.",
        )
    if isinstance(value, str):
        # Some models encode their arguments twice.
        return (
            read_arguments(value)
            if value != text
            else Arguments(complaint="The arguments are a string. Write one JSON object.")
        )
    if not isinstance(value, dict):
        return Arguments(
            complaint=f'The arguments are a JSON {_kind(value)}. Write one JSON object, e.g. {{"name": "value"}}.'
        )
    return Arguments(values=value)


def _unfenced(text: str) -> str:
    fenced = _FENCE.match(text)
    return fenced.group(1) if fenced else text


def _parse_leniently(text: str) -> dict[str, Any] | None:
    for parser in (_embedded_object, _without_trailing_commas, _python, _yaml, _pairs):
        value = parser(text)
        if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
            return value
    return None


def _embedded_object(text: str) -> Any:
    """Parse a JSON object with prose around it."""
    start = text.find("{")
    if start < 0:
        return None
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        return None
    # Two objects would be two calls, and which one is meant is a guess.
    return value if "{" not in text[end:] and "=" not in text[:start] and ":" not in text[:start] else None


def _without_trailing_commas(text: str) -> Any:
    try:
        return json.loads(_TRAILING_COMMA.sub(r"\1", text))
    except ValueError:
        return None


def _python(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None


def _yaml(text: str) -> Any:
    if "&" in text or "*" in text.replace("**", ""):
        return None  # anchors: a short text could expand to gigabytes
    try:
        value = yaml.load(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(value, dict) or any(item is None or item == "" for item in value.values()):
        return None
    return {key: _scalar(item) if isinstance(item, str) else item for key, item in value.items()}


def _pairs(text: str) -> Any:
    """Parse `name=value, other: value`, on one line or several."""
    found = list(_PAIR.finditer(text))
    if not found or text[: found[0].start()].strip():
        return None
    ends = [one.start() for one in found[1:]] + [len(text)]
    return {
        one.group(1): _scalar(text[one.end() : end].strip().strip(",;")) for one, end in zip(found, ends, strict=True)
    }


def _scalar(text: str) -> Any:
    text = text.strip()
    try:
        return json.loads(text)
    except ValueError:
        pass
    if text in ("True", "False", "None"):
        return {"True": True, "False": False, "None": None}[text]
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" else text


@dataclass(frozen=True)
class FittedArguments:
    values: dict[str, Any]
    complaint: str = ""
    """Why the arguments do not match the schema; then the tool is not called."""

    remarks: tuple[str, ...] = ()


def fit(values: Mapping[str, Any], schema: Mapping[str, Any]) -> FittedArguments:
    """Match arguments to the tool's schema, converting types and names where that is unambiguous.

    Names that the schema does not list are refused only if it sets `additionalProperties: false`. One that resembles a
    listed name is passed on with a remark: a tool that ignores a misspelt filter answers a different question.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return FittedArguments(dict(values))
    required = [name for name in schema.get("required") or [] if isinstance(name, str)]
    fitted: dict[str, Any] = {}
    remarks: list[str] = []
    unknown: list[str] = []
    for name, value in values.items():
        if name not in properties:
            renamed = _same_name(name, properties, values)
            if renamed is None:
                if schema.get("additionalProperties") is False and not schema.get("patternProperties"):
                    unknown.append(name)
                else:
                    fitted[name] = value
                    if near := difflib.get_close_matches(name, list(properties), n=1):
                        remarks.append(f"{name[:60]!r} is not listed by the tool; did you mean {near[0]!r}?")
                continue
            remarks.append(f"{name!r} was read as {renamed!r}")
            name = renamed
        described = properties[name]
        converted = _as_type(value, described) if isinstance(described, dict) else value
        if converted is not value and converted != value:
            remarks.append(f"{name} was converted to {json.dumps(converted, ensure_ascii=False)[:80]}")
        fitted[name] = converted
    complaints = []
    if unknown:
        near = [close[0] for name in unknown if (close := difflib.get_close_matches(name, list(properties), n=1))]
        hint = f" (did you mean {', '.join(map(repr, near))}?)" if near else ""
        complaints.append(f"it has no argument {', '.join(repr(name[:60]) for name in unknown)}{hint}")
    if missing := [name for name in required if name not in fitted]:
        complaints.append(f"it needs {', '.join(map(repr, missing))}")
    for name, value in fitted.items():
        if (problem := _misfit(value, properties.get(name))) is not None:
            complaints.append(f"{name!r} {problem}")
    if complaints:
        return FittedArguments(fitted, complaint=f"{'; '.join(complaints)}. Its arguments are: {describe(schema)}")
    return FittedArguments(fitted, remarks=tuple(remarks))


def describe(schema: Mapping[str, Any]) -> str:
    """Describe the arguments of a tool in one line: `namespace (string, required), limit (integer)`."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return "none."
    required = set(schema.get("required") or [])
    return (
        ", ".join(
            f"{name} ({_type(described)}{', required' if name in required else ''})"
            for name, described in properties.items()
        )
        + "."
    )


def _type(described: Any) -> str:
    if not isinstance(described, dict):
        return "any"
    if isinstance(described.get("enum"), list):
        return "one of " + " | ".join(json.dumps(value, ensure_ascii=False) for value in described["enum"][:12])
    types = _types(described)
    return " or ".join(one for one in types if one != "null") or "any"


def _types(described: Mapping[str, Any]) -> list[str]:
    """The types a value may have; empty when the schema does not state them directly."""
    named = described.get("type")
    if isinstance(named, str):
        return [named]
    if isinstance(named, list):
        return [one for one in named if isinstance(one, str)]
    options = described.get("anyOf") or described.get("oneOf")
    if isinstance(options, list):
        inner = [_types(one) for one in options if isinstance(one, dict)]
        return [one for types in inner for one in types] if inner and all(inner) else []
    return []


def _same_name(name: str, properties: Mapping[str, Any], values: Mapping[str, Any]) -> str | None:
    """The property that differs only in case and punctuation (`podName`, `pod_name`), unless it is already given."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    same = [known for known in properties if re.sub(r"[^a-z0-9]", "", known.lower()) == plain]
    return same[0] if len(same) == 1 and same[0] not in values else None


def _as_type(value: Any, described: Mapping[str, Any]) -> Any:
    """Convert the value to a type of the schema where that is lossless; otherwise return it unchanged."""
    types = _types(described)
    if not types or _is(value, types):
        return value
    if isinstance(value, str) and (parsed := _text_as_type(value.strip(), types)) is not _UNREADABLE:
        return parsed
    if "string" in types and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if "array" in types and not isinstance(value, dict):
        return [value]
    if "integer" in types and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


_UNREADABLE = object()


def _text_as_type(text: str, types: list[str]) -> Any:
    lowered = text.lower()
    if "null" in types and lowered in ("null", "none", ""):
        return None
    if "boolean" in types and lowered in ("true", "false", "yes", "no"):
        return lowered in ("true", "yes")
    for name, number in (("integer", int), ("number", int), ("number", float)):
        if name in types:
            with suppress(ValueError):
                return number(text)
    if "array" in types or "object" in types:
        with suppress(ValueError):
            if _is(parsed := json.loads(text), types):
                return parsed
    if "array" in types:
        return [part.strip() for part in text.split(",")]
    return _UNREADABLE


def _is(value: Any, types: list[str]) -> bool:
    return _kind(value) in types or (_kind(value) == "integer" and "number" in types)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _misfit(value: Any, described: Any) -> str | None:
    if not isinstance(described, dict):
        return None
    if isinstance(value, dict) and set(value) == {"$result"}:
        return None  # a handle, replaced by the whole result before the call
    allowed = described.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return f"must be one of {', '.join(json.dumps(one, ensure_ascii=False) for one in allowed[:12])}"
    types = _types(described)
    if types and not _is(value, types):
        return f"must be {' or '.join(types)}, not {_kind(value)}"
    return None
