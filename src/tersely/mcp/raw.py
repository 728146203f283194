"""Parse what MCP servers send into plain records: tool definitions and raw tool results.

Pure functions, without the MCP SDK. Anything that violates the protocol is rejected
here with a reason, so that later code can rely on the shape. Nothing in these
records is cleaned or masked; only the pipeline and the gateway handle them.
"""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tersely.errors import ResultMalformed

PartKind = Literal["text", "image", "audio", "resource", "link", "other"]

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Called with the progress of a call, the total if known, and a message if there is one."""

LONGEST_DESCRIPTION = 16_000
LARGEST_DEFINITION = 512 * 1024
"""Maximum size of one tool definition in bytes. A model could not read a larger one anyway."""

DEEPEST = 200
"""Maximum nesting of lists and objects. The MCP SDK cannot serialize much deeper values."""


@dataclass(frozen=True, kw_only=True)
class ContentPart:
    """One content item of a result. Items stay in the server's order."""

    kind: PartKind
    text: str = ""
    """The text of a text item or of an embedded text resource."""

    data: str = ""
    """Base64 data of an image, audio or binary resource, as the server wrote it; never decoded here."""

    mime_type: str = ""
    uri: str = ""
    name: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The item as received, for callers that forward it."""


@dataclass(frozen=True, kw_only=True)
class RawResult:
    """The result of a tool call, neither cleaned nor masked."""

    parts: tuple[ContentPart, ...] = ()
    structured: dict[str, Any] | None = None
    is_error: bool = False
    """The tool ran and reported a failure; `parts` contain the reason."""

    meta: dict[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The result as received, for callers that forward it."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(part.text for part in self.parts if part.text)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as its server describes it. The description is untrusted text."""

    server: str
    name: str
    """The server's own name for the tool."""

    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    read_only: bool = False
    """The tool declares itself read-only. A declaration never grants a permission."""

    destructive: bool = False
    """The tool declares itself destructive and not read-only."""

    idempotent: bool = False
    fingerprint: str
    """Hash of the whole definition."""

    raw: Mapping[str, Any]
    """The definition as received, for callers that forward it."""

    @property
    def is_repeatable(self) -> bool:
        """Whether a call may be made twice: the tool declares itself read-only or idempotent."""
        return self.read_only or self.idempotent

    @property
    def dotted(self) -> str:
        """The tool's name in configuration, prompts and the timeline."""
        return f"{self.server}.{self.name}"


def read_result(raw: Mapping[str, Any]) -> RawResult:
    """Parse a `tools/call` result.

    Raises:
        ResultMalformed: The result violates the protocol, or needs input from the user to complete.
    """
    if raw.get("resultType") == "input_required":
        raise ResultMalformed(
            "The tool asks for input from a user, and no user is available. Call it with all the input it needs, or "
            "call another tool."
        )
    if raw.get("resultType") not in (None, "complete"):
        raise ResultMalformed(f"The tool returned an unknown type of result: {_printable(raw['resultType'])}.")
    check_depth(raw)
    content = raw.get("content", [])
    structured = raw.get("structuredContent")
    meta = raw.get("_meta")
    if not isinstance(content, list):
        raise ResultMalformed(
            f"The tool's result violates the protocol: its content is {_type_name(content)}, not a list."
        )
    if "content" not in raw and structured is None:
        raise ResultMalformed("The tool's result violates the protocol: it has no content.")
    if structured is not None and not isinstance(structured, dict):
        # Until 2025 the protocol allows objects only. Newer servers may return any value; wrap it in an object.
        structured = {"result": structured}
    _check_numbers(structured)
    _check_numbers(meta)
    return RawResult(
        parts=tuple(_part(number, part) for number, part in enumerate(content)),
        structured=structured,
        is_error=raw.get("isError") is True,
        meta=meta if isinstance(meta, dict) else {},
        raw=raw,
    )


def _part(number: int, part: object) -> ContentPart:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise ResultMalformed(f"The tool's result violates the protocol: content item {number + 1} has no type.")
    match part["type"]:
        case "text":
            return ContentPart(kind="text", text=_text(part, "text", number), raw=part)
        case "image" | "audio":
            kind: PartKind = "image" if part["type"] == "image" else "audio"
            return ContentPart(
                kind=kind, data=_text(part, "data", number), mime_type=_text(part, "mimeType", number), raw=part
            )
        case "resource_link":
            return ContentPart(
                kind="link",
                uri=_text(part, "uri", number),
                name=str(part.get("name") or ""),
                mime_type=str(part.get("mimeType") or ""),
                raw=part,
            )
        case "resource":
            inner = part.get("resource")
            if not isinstance(inner, dict) or ("text" not in inner and "blob" not in inner):
                raise ResultMalformed(
                    f"The tool's result violates the protocol: the resource in content item {number + 1} has neither "
                    "text nor blob."
                )
            return ContentPart(
                kind="resource",
                text=_text(inner, "text", number) if "text" in inner else "",
                data=_text(inner, "blob", number) if "text" not in inner else "",
                uri=_text(inner, "uri", number),
                mime_type=str(inner.get("mimeType") or ""),
                raw=part,
            )
        case _:
            _check_numbers(part)
            return ContentPart(kind="other", name=part["type"][:60], raw=part)


def _text(part: Mapping[str, Any], name: str, number: int) -> str:
    value = part.get(name)
    if not isinstance(value, str):
        raise ResultMalformed(
            f"The tool's result violates the protocol: {name!r} in content item {number + 1} is {_type_name(value)}, "
            "not a string."
        )
    return value


def check_depth(value: object) -> None:
    """Check that a value is not nested too deeply.

    Raises:
        ResultMalformed: Lists and objects are nested more than `DEEPEST` levels deep.
    """
    if is_too_deep(value):
        raise ResultMalformed(f"The server's response is nested too deeply: more than {DEEPEST} levels.")


def is_too_deep(value: object) -> bool:
    """Whether lists and objects are nested more than `DEEPEST` levels deep. Walks level by level, not recursively."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))  # type: ignore[attr-defined]
        if not (level := [inner for inner in inside if isinstance(inner, dict | list)]):
            return False
    return True


def _check_numbers(value: object) -> None:
    """Reject NaN and infinity: they are not JSON, and other parsers fail on them."""
    if value is None:
        return
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ResultMalformed("The tool's result is not valid JSON: it contains NaN or infinity.") from None


def read_tool(server: str, raw: object) -> Tool:
    """Parse one tool of a `tools/list` result.

    Raises:
        ValueError: The definition cannot be used; the message gives the reason.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or not raw["name"]:
        raise ValueError("a tool without a name")
    name: str = raw["name"]
    schema, output = raw.get("inputSchema"), raw.get("outputSchema")
    if not isinstance(schema, dict):
        raise ValueError(f"{_printable(name)} has no input schema")
    if output is not None and not isinstance(output, dict):
        raise ValueError(f"{_printable(name)} has an invalid output schema")
    if is_too_deep(raw):
        raise ValueError(f"{_printable(name)} has a definition that is nested too deeply")
    try:
        definition = json.dumps(raw, sort_keys=True, allow_nan=False)
    except ValueError:
        raise ValueError(f"{_printable(name)} has a definition that is not JSON") from None
    if len(definition) > LARGEST_DEFINITION:
        raise ValueError(
            f"{_printable(name)} has a definition of {len(definition):,} bytes; the limit is {LARGEST_DEFINITION:,}"
        )
    description: str = raw["description"] if isinstance(raw.get("description"), str) else ""
    hints: dict[str, Any] = raw["annotations"] if isinstance(raw.get("annotations"), dict) else {}
    read_only = hints.get("readOnlyHint") is True
    return Tool(
        server=server,
        name=name,
        title=raw["title"] if isinstance(raw.get("title"), str) else "",
        description=description if len(description) <= LONGEST_DESCRIPTION else description[:LONGEST_DESCRIPTION] + "…",
        input_schema=schema,
        output_schema=output,
        read_only=read_only,
        destructive=hints.get("destructiveHint") is True and not read_only,
        idempotent=hints.get("idempotentHint") is True,
        fingerprint=hashlib.sha256(definition.encode("utf-8", "surrogatepass")).hexdigest()[:32],
        raw=raw,
    )


def _type_name(value: object) -> str:
    names = {str: "a string", dict: "an object", list: "a list", bool: "a boolean", type(None): "missing"}
    return names.get(type(value), "a number")


def _printable(name: object) -> str:
    text = ascii(name)
    return text if len(text) <= 80 else text[:80] + "…"
