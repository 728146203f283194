"""The JSON schema of `tersely.yaml`, for completion and checks in editors.

Generated from the settings models. Also allows what the file reader accepts in addition: variables instead of numbers,
and the short forms of some options.
"""

from typing import Any

from tersely.settings.model import Settings

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_VARIABLE = {"type": "string", "pattern": r"\$\{.+\}"}

_SHORT_FORMS: dict[tuple[str, str], dict[str, Any]] = {
    ("ServerOptions", "tools"): _TEXTS,
    ("ServerOptions", "allow_destructive"): {"type": "string"},
    ("ToolFilter", "allow"): {"type": "string"},
    ("ToolFilter", "deny"): {"type": "string"},
    ("TransportOptions", "type"): {"enum": ["streamable-http", "streamable_http"]},
    ("TransportOptions", "args"): {"type": "array", "items": {"type": ["string", "number", "boolean"]}},
    ("TransportOptions", "env"): {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
}
_OTHER_NAMES = {("MaskingOptions", "groups"): "pattern_groups", ("AlertMasking", "groups"): "pattern_groups"}


def editor_schema() -> dict[str, Any]:
    schema = Settings.model_json_schema(by_alias=False)
    models = schema["$defs"]
    for (model, name), other in _SHORT_FORMS.items():
        full = models[model]["properties"][name]
        shared = {key: full.pop(key) for key in ("description", "default", "title") if key in full}
        models[model]["properties"][name] = {**shared, "anyOf": [full, other]}
    for (model, name), other_name in _OTHER_NAMES.items():
        models[model]["properties"][other_name] = models[model]["properties"][name]
    # The data folder depends on the machine.
    models["StoreSettings"]["properties"]["data_dir"].pop("default", None)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapted(schema), "title": "tersely.yaml"}
    schema["description"] = "What tersely reads: models, MCP servers, agents, chains, and how the service runs."
    schema["patternProperties"] = {"^x-": {"description": "Ours to ignore: a place for anchors."}}
    schema["properties"]["$schema"] = {"type": "string"}
    return schema


def _adapted(node: Any) -> Any:
    """Allow variables where the type is not a string, and drop the defaults of whole groups: their keys have them."""
    if isinstance(node, list):
        return [_adapted(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    adapted = {
        name: _adapted(inner)
        for name, inner in node.items()
        if not (name == "default" and isinstance(inner, dict | list))
    }
    if isinstance(adapted.get("title"), str):
        del adapted["title"]
    if isinstance(adapted.get("description"), str):
        # Docstrings are wrapped for the source; editors wrap for themselves.
        adapted["description"] = " ".join(adapted["description"].split())
    if (
        adapted.get("type") in ("integer", "number", "boolean")
        or "enum" in adapted
        or isinstance(adapted.get("pattern"), str)
    ):
        shared = {name: adapted.pop(name) for name in ("description", "default") if name in adapted}
        return {**shared, "anyOf": [adapted, _VARIABLE]}
    return adapted
