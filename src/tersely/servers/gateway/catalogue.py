"""The tools that clients see: the servers' tools with an intent argument, and the read-back tools.

Definitions are passed on as the servers wrote them, except for the name, hidden
characters and secrets in descriptions, the additional intent argument, and output
schemas, which are relaxed so that a condensed result fits them.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import mcp_types
from pydantic import ValidationError

from tersely.masking.clean import clean, clean_json
from tersely.mcp.descriptions import without_secrets
from tersely.mcp.raw import LONGEST_DESCRIPTION, Tool
from tersely.mcp.registry import ToolRegistry
from tersely.results.read_back_tool import READ_RESULT
from tersely.servers.gateway import lazy_tools

logger = logging.getLogger(__name__)

_READS_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


@dataclass(frozen=True)
class ListingOptions:
    """How tools are listed."""

    intent: str = "looking_for"
    """The argument with which a caller states what it wants to know."""

    intent_description: str = ""
    """A description of the argument; by default it has none, and that of `read_result` explains it once."""

    lazy_above: int = 0
    """Number of tools above which all are lazy; 0: never."""

    frequent: frozenset[str] = frozenset()
    """Tools that are listed although others of their server are lazy, as `server.tool`."""


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
    reader: str
    """The name of the tool that reads kept results."""

    intent: str
    """The usual name of the argument that tools gain."""

    lazy: frozenset[str] = frozenset()
    """Names of tools that are found with `search_tools` instead of being listed."""

    finder: str = "search_tools"
    caller: str = "call_tool"
    """The names of the tools that find and call the lazy ones."""

    def definitions(self, missing: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The listing; `missing` are sentences about servers whose tools are not in it."""
        description = f"{READ_RESULT.description} `{self.intent}` of any other tool says what to keep of its result."
        description = " ".join([description, *missing])
        reader = {
            "name": self.reader,
            "description": description,
            "inputSchema": READ_RESULT.schema,
            "annotations": _READS_ONLY,
        }
        listed = [offer.definition for name, offer in self.offers.items() if name not in self.lazy]
        return [*listed, *self._lazy_tools(), reader]

    def _lazy_tools(self) -> list[dict[str, Any]]:
        if not self.lazy:
            return []
        servers = sorted({self.offers[name].tool.server for name in self.lazy})
        call = {
            **lazy_tools.CALL,
            "properties": {**lazy_tools.CALL["properties"], self.intent: {"type": "string"}},
        }
        return [
            {
                "name": self.finder,
                "description": lazy_tools.search_description(servers, len(self.lazy)),
                "inputSchema": lazy_tools.SEARCH,
                "annotations": _READS_ONLY,
            },
            {"name": self.caller, "description": lazy_tools.CALL_DESCRIPTION, "inputSchema": call},
        ]

    def search(self, query: str) -> str:
        """The answer of `search_tools`."""
        definitions = [self.offers[name].definition for name in sorted(self.lazy)]
        return lazy_tools.found_text(query, lazy_tools.search(query, definitions), sorted(self.lazy))

    @cached_property
    def own_texts(self) -> tuple[str, ...]:
        """What the gateway adds to the listing, as clients send it to models in every turn."""
        own = [*self._lazy_tools(), self.definitions()[-1]]
        functions = [
            {"name": one["name"], "description": one["description"], "parameters": one["inputSchema"]} for one in own
        ]
        added = [
            json.dumps({offer.intent: offer.definition["inputSchema"]["properties"][offer.intent]}, ensure_ascii=False)
            for name, offer in self.offers.items()
            if offer.intent and name not in self.lazy
        ]
        return (
            *(json.dumps({"type": "function", "function": one}, ensure_ascii=False) for one in functions),
            *added,
        )

    def is_reader(self, name: str) -> bool:
        return name == self.reader or (name not in self.offers and READ_RESULT.answers_to(name))


def catalogue(
    registry: ToolRegistry, options: ListingOptions, *, with_tasks: frozenset[str] = frozenset()
) -> Catalogue:
    """The tools of a registry, as clients see them.

    Args:
        with_tasks: Servers whose tools a client may run as tasks.
    """
    offers: dict[str, Offer] = {}
    for named in registry.tools():
        condensing, masking = registry.server(named.tool.server).options.policy(named.tool.name)
        offer = _offer(
            named.name,
            named.tool,
            options,
            may_be_condensed=condensing.enabled,
            has_tasks=named.tool.server in with_tasks,
        )
        offer = replace(offer, definition=without_secrets(offer.definition, masking))
        if _is_readable(offer.definition):
            offers[named.name] = offer
        else:
            logger.warning(
                "tool_unreadable",
                extra={"server": named.tool.server, "tool": named.tool.name, "consequence": "not offered"},
            )
    lazy = frozenset(
        name
        for name, offer in offers.items()
        if registry.server(offer.tool.server).options.is_lazy(offer.tool.name, len(offers) > options.lazy_above > 0)
        and offer.tool.dotted not in options.frequent
    )

    def free(name: str) -> str:
        return name if name not in offers else free(f"tersely_{name}")

    return Catalogue(offers, free(READ_RESULT.name), options.intent, lazy, free("search_tools"), free("call_tool"))


def _is_readable(definition: Mapping[str, Any]) -> bool:
    """Whether client libraries can parse a definition; they refuse a whole listing for an invalid one."""
    try:
        mcp_types.Tool.model_validate(definition, by_name=False)
    except ValidationError:
        return False
    output = definition.get("outputSchema")
    return definition["inputSchema"].get("type") == "object" and (output is None or output.get("type") == "object")


def _offer(name: str, tool: Tool, options: ListingOptions, *, may_be_condensed: bool, has_tasks: bool = False) -> Offer:
    definition: dict[str, Any] = {**clean_json(dict(tool.raw))[0], "name": name}
    definition["inputSchema"] = {"type": "object", **definition["inputSchema"]}
    execution = definition.pop("execution", None)
    if has_tasks and task_support(tool) in ("optional", "required"):
        # Never required: `tasks` runs the call as a task for clients that cannot.
        definition["execution"] = {**execution, "taskSupport": "optional"}
    if isinstance(definition.get("description"), str) and len(definition["description"]) > LONGEST_DESCRIPTION:
        definition["description"] = clean(tool.description).text
    argument = None
    if may_be_condensed:
        if (relaxed := relaxed_output(definition.pop("outputSchema", None))) is not None:
            definition["outputSchema"] = relaxed
        schema = definition["inputSchema"]
        if (argument := _free_argument(schema, options.intent)) is not None:
            described = {
                "type": "string",
                **({"description": options.intent_description} if options.intent_description else {}),
            }
            definition["inputSchema"] = {
                **schema,
                "properties": {**(schema.get("properties") or {}), argument: described},
            }
    return Offer(tool, argument, definition)


def task_support(tool: Tool) -> str:
    """Whether a call of this tool runs as a task: `forbidden`, `optional` or `required`."""
    execution = tool.raw.get("execution")
    return str(execution.get("taskSupport") or "forbidden") if isinstance(execution, dict) else "forbidden"


_SIZE_RULES = ("pattern", "minLength", "maxLength")
"""What a masked text may violate."""

_COMBINING_RULES = ("allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "$dynamicRef")
_DEFINITIONS = ("$defs", "definitions")

_WHOLE_RULES = ("required", "minProperties", "maxProperties", "dependentRequired", "additionalProperties")
"""What the object of a condensed result, `{"result": text}`, may violate."""


def relaxed_output(schema: Any) -> dict[str, Any] | None:
    """An output schema that `{"result": text}`, a condensed result, fits as well; None if there is no such schema.

    Clients validate results, fail if a tool has a schema and returns no structured content, and some show a model the
    structured content instead of the text. See docs/decisions/0053-output-schemas-are-relaxed.md.
    """
    schema = _without_reference(schema)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    if any(rule in schema for rule in _COMBINING_RULES):
        return _either(schema)
    relaxed: dict[str, Any] = _without_rules({name: schema[name] for name in schema if name not in _WHOLE_RULES})
    result = (relaxed.get("properties") or {}).get("result")
    if isinstance(result, dict) and result.get("type") != "string":
        relaxed["properties"] = {**relaxed["properties"], "result": {"anyOf": [result, {"type": "string"}]}}
    return relaxed


def _without_reference(schema: Any) -> Any:
    """A schema that is only a reference to one of its own definitions, as for recursive types: that definition."""
    for _ in range(10):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        place, _, name = str(schema["$ref"]).removeprefix("#/").partition("/")
        definitions = schema.get(place)
        found = definitions.get(name) if place in _DEFINITIONS and isinstance(definitions, dict) else None
        if not isinstance(found, dict):
            return None
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, **found}
    return None


def _either(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema, or a condensed result; for schemas that combine others and cannot be relaxed one by one."""
    at_top = {name: schema[name] for name in schema if name in (*_DEFINITIONS, "$schema", "$id", "type", "title")}
    rest = {name: value for name, value in schema.items() if name not in at_top}
    if any(not place.startswith(tuple(f"#/{name}/" for name in _DEFINITIONS)) for place in _references(schema)):
        return None  # it points into what moves
    condensed = {"properties": {"result": {"type": "string"}}, "required": ["result"], "additionalProperties": False}
    relaxed: dict[str, Any] = _without_rules({**at_top, "anyOf": [rest, condensed]})
    return relaxed


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (
            value for name, value in schema.items() if name in ("$ref", "$dynamicRef") and isinstance(value, str)
        )
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _references(inner)


def _without_rules(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_rules(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    is_text = schema.get("type") == "string"
    return {name: _without_rules(inner) for name, inner in schema.items() if not (is_text and name in _SIZE_RULES)}


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
