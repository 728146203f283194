"""The events as TypeScript types, for `tsc` over the dashboard: `python -m tests.browser.event_types > …/events.d.ts`.

Generated from the same classes as docs/reference/events.schema.json, each time the dashboard is checked.
"""

import json
from typing import Any

from tersely.events.schema import event_schema

_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def typescript(schema: dict[str, Any]) -> str:
    """The type of a JSON schema."""
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return " | ".join(typescript(one) for one in schema[name])
    if schema.get("type") == "array":
        return f"({typescript(schema.get('items', {}))})[]"
    if schema.get("type") == "object" and "properties" in schema:
        required = set(schema.get("required", ()))
        fields = [
            f"{name}{'' if name in required else '?'}: {typescript(one)}" for name, one in schema["properties"].items()
        ]
        return "{ " + "; ".join(fields) + " }"
    if schema.get("type") == "object":
        return "Record<string, any>"
    return _PLAIN.get(str(schema.get("type")), "any")


def declarations() -> str:
    found = event_schema()["$defs"]
    types = [f"type {name}Event = {typescript(one)};" for name, one in found.items()]
    return "\n".join([*types, f"type TerselyEvent = {' | '.join(f'{name}Event' for name in found)};", ""])


if __name__ == "__main__":
    print(declarations(), end="")
