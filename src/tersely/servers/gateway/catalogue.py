"""The tools that clients see: the servers' tools with an intent argument, and the read-back tools.

Definitions are passed on as the servers wrote them, except for the name, hidden
characters and secrets in descriptions, the additional intent argument, and output
schemas that a condensed result would violate.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mcp_types
from pydantic import ValidationError

from tersely.masking.clean import clean, clean_json
from tersely.mcp.descriptions import without_secrets
from tersely.mcp.raw import LONGEST_DESCRIPTION, Tool
from tersely.mcp.registry import ToolRegistry
from tersely.results.read_back import TOOLS

logger = logging.getLogger(__name__)

_READS_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


@dataclass(frozen=True)
class IntentParameter:
    """The argument with which a caller states what it wants to know."""

    argument: str = "looking_for"
    words: str = "What you want to know from the result. A result that is too long is shortened to it."


@dataclass(frozen=True)
class Offer:
    """A tool as a client sees it."""

    tool: Tool
    intent: str | None
    """Name of the additional argument in this tool; None if none was added."""

    definition: dict[str, Any]


@dataclass(frozen=True)
class Catalogue:
    """All tools that a client can call, by name."""

    offers: Mapping[str, Offer]
    readers: Mapping[str, str]
    """The names of the read-back tools here, by their usual names."""

    def definitions(self) -> list[dict[str, Any]]:
        return [offer.definition for offer in self.offers.values()] + [
            {
                "name": self.readers[tool.name],
                "description": tool.description,
                "inputSchema": tool.schema,
                "annotations": _READS_ONLY,
            }
            for tool in TOOLS
        ]


def catalogue(registry: ToolRegistry, intent: IntentParameter) -> Catalogue:
    offers: dict[str, Offer] = {}
    for named in registry.tools():
        condensing, masking = registry.server(named.tool.server).options.policy(named.tool.name)
        offer = _offer(named.name, named.tool, intent, may_be_condensed=condensing.enabled)
        offer = replace(offer, definition=without_secrets(offer.definition, masking))
        if _is_readable(offer.definition):
            offers[named.name] = offer
        else:
            logger.warning(
                "tool_unreadable",
                extra={"server": named.tool.server, "tool": named.tool.name, "consequence": "not offered"},
            )
    return Catalogue(offers, reader_names(offers))


def _is_readable(definition: Mapping[str, Any]) -> bool:
    """Whether client libraries can parse a definition; they refuse a whole listing for an invalid one."""
    try:
        mcp_types.Tool.model_validate(definition, by_name=False)
    except ValidationError:
        return False
    output = definition.get("outputSchema")
    return definition["inputSchema"].get("type") == "object" and (output is None or output.get("type") == "object")


def reader_names(taken: Mapping[str, object]) -> dict[str, str]:
    """Names for the read-back tools that no server uses."""
    names = {}
    for tool in TOOLS:
        name = tool.name
        while name in taken:
            name = f"tersely_{name}"
        names[tool.name] = name
    return names


def _offer(name: str, tool: Tool, intent: IntentParameter, *, may_be_condensed: bool) -> Offer:
    definition: dict[str, Any] = {**clean_json(dict(tool.raw))[0], "name": name}
    definition["inputSchema"] = {"type": "object", **definition["inputSchema"]}
    # Tasks that continue after the response need a direct connection between client and server.
    definition.pop("execution", None)
    if isinstance(definition.get("description"), str) and len(definition["description"]) > LONGEST_DESCRIPTION:
        definition["description"] = clean(tool.description).text
    argument = None
    if may_be_condensed:
        # A condensed result no longer matches the schema, and clients validate it.
        definition.pop("outputSchema", None)
        schema = definition["inputSchema"]
        if (argument := _free_argument(schema, intent.argument)) is not None:
            described = {"type": "string", "description": intent.words}
            definition["inputSchema"] = {
                **schema,
                "properties": {**(schema.get("properties") or {}), argument: described},
            }
    return Offer(tool, argument, definition)


def _free_argument(schema: Mapping[str, Any], wanted: str) -> str | None:
    """A name that the schema does not use; None if adding an argument would break the schema."""
    properties = schema.get("properties")
    if properties is not None and not isinstance(properties, dict):
        return None
    if "propertyNames" in schema or "maxProperties" in schema or "$ref" in schema:
        return None
    combined = [
        inner for key in ("allOf", "anyOf", "oneOf") for inner in schema.get(key) or () if isinstance(inner, dict)
    ]
    if any(inner.get("additionalProperties") is False or "$ref" in inner for inner in combined):
        return None
    taken = {str(name) for one in (schema, *combined) for name in one.get("properties") or ()} | set(
        schema.get("required") or ()
    )
    name = wanted
    while name in taken:
        name = f"{name}_"
    return name
