"""What a server sends, as plain records: its tools, and the results of calls before anything is done to them.

Pure reading, without the protocol's library: whatever breaks the protocol's rules
is refused here with a reason, and never becomes a crash further on. Nothing in
these records is cleaned or masked; only `tools.execute` and the gateway handle them.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tersely.errors import ResultMalformed

PartKind = Literal["text", "image", "audio", "resource", "link", "other"]

LONGEST_DESCRIPTION = 16_000
LARGEST_DEFINITION = 512 * 1024
"""Bytes of one tool's definition. A model could not read a larger one anyway."""

DEEPEST = 200
"""Lists and objects inside each other. The protocol's library cannot write what is nested much deeper."""


@dataclass(frozen=True, kw_only=True)
class ContentPart:
    """One piece of a result, in the order the server gave them."""

    kind: PartKind
    text: str = ""
    """Of a text, or of an embedded resource that is one."""

    data: str = ""
    """Base64 as the server wrote it, of an image, a sound or a binary resource. It is not looked into."""

    mime_type: str = ""
    uri: str = ""
    name: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The piece as it came, for those who pass it on."""


@dataclass(frozen=True, kw_only=True)
class RawResult:
    """What a call returned, neither cleaned nor masked."""

    parts: tuple[ContentPart, ...] = ()
    structured: dict[str, Any] | None = None
    is_error: bool = False
    """The tool ran and says that it failed; the parts say why."""

    meta: dict[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The result as it came, for those who pass it on."""

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(part.text for part in self.parts if part.text)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as its server describes it. The description is the server's word, not ours."""

    server: str
    name: str
    """As the server knows it."""

    title: str = ""
    description: str = ""
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    read_only: bool = False
    """Declares itself so. A declaration never grants anything."""

    destructive: bool = False
    """Declares itself so, and not read-only."""

    idempotent: bool = False
    fingerprint: str
    """Changes when anything about the definition does."""

    raw: Mapping[str, Any]
    """The definition as it came, for those who pass it on."""

    @property
    def dotted(self) -> str:
        """Its name in configuration, prompts and the timeline."""
        return f"{self.server}.{self.name}"


def read_result(raw: Mapping[str, Any]) -> RawResult:
    """A `tools/call` result.

    Raises:
        ResultMalformed: It breaks the protocol's rules, or cannot be finished without asking the user.
    """
    if raw.get("resultType") == "input_required":
        raise ResultMalformed(
            "The tool asks for input from a person, which nobody here can give. Call it with all it needs, or another "
            "one."
        )
    if raw.get("resultType") not in (None, "complete"):
        raise ResultMalformed(
            f"The tool answered with a result of a kind nobody here knows: {_shown(raw['resultType'])}."
        )
    check_depth(raw)
    content = raw.get("content", [])
    structured = raw.get("structuredContent")
    meta = raw.get("_meta")
    if not isinstance(content, list):
        raise ResultMalformed(f"The tool's answer breaks the protocol: its content is {_kind(content)}, not a list.")
    if "content" not in raw and structured is None:
        raise ResultMalformed("The tool's answer breaks the protocol: it has no content.")
    if structured is not None and not isinstance(structured, dict):
        # The protocol has objects only until 2025; newer servers may return any value, which we keep under a name.
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
        raise ResultMalformed(f"The tool's answer breaks the protocol: piece {number + 1} of its content has no type.")
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
                    f"The tool's answer breaks the protocol: the resource in piece {number + 1} has neither text nor "
                    "blob."
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
            f"The tool's answer breaks the protocol: {name!r} in piece {number + 1} is {_kind(value)}, not a text."
        )
    return value


def check_depth(value: object) -> None:
    """
    Raises:
        ResultMalformed: It is nested deeper than anybody needs.
    """
    if is_too_deep(value):
        raise ResultMalformed(
            f"The server's answer is nested too deep: more than {DEEPEST} lists and objects inside each other."
        )


def is_too_deep(value: object) -> bool:
    """Whether it is nested deeper than anybody needs; looks only at lists and objects, one level after the other."""
    level = [value]
    for _ in range(DEEPEST + 1):
        inside = (inner for outer in level for inner in (outer.values() if isinstance(outer, dict) else outer))  # type: ignore[attr-defined]
        if not (level := [inner for inner in inside if isinstance(inner, dict | list)]):
            return False
    return True


def _check_numbers(value: object) -> None:
    """JSON has no NaN and no infinity; whoever reads the result next would choke on them."""
    if value is None:
        return
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise ResultMalformed("The tool's answer is not JSON: it contains a number such as NaN.") from None


def read_tool(server: str, raw: object) -> Tool:
    """A tool from a listing.

    Raises:
        ValueError: Why this definition cannot be used.
    """
    if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or not raw["name"]:
        raise ValueError("a tool without a name")
    name: str = raw["name"]
    schema, output = raw.get("inputSchema"), raw.get("outputSchema")
    if not isinstance(schema, dict):
        raise ValueError(f"{_shown(name)} has no input schema")
    if output is not None and not isinstance(output, dict):
        raise ValueError(f"{_shown(name)} has an output schema that is none")
    if is_too_deep(raw):
        raise ValueError(f"{_shown(name)} has a definition that is nested too deep")
    try:
        definition = json.dumps(raw, sort_keys=True, allow_nan=False)
    except ValueError:
        raise ValueError(f"{_shown(name)} has a definition that is not JSON") from None
    if len(definition) > LARGEST_DEFINITION:
        raise ValueError(
            f"{_shown(name)} has a definition of {len(definition):,} bytes; at most {LARGEST_DEFINITION:,} are read"
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


def _kind(value: object) -> str:
    names = {str: "a text", dict: "an object", list: "a list", bool: "true or false", type(None): "missing"}
    return names.get(type(value), "a number")


def _shown(name: object) -> str:
    text = ascii(name)
    return text if len(text) <= 80 else text[:80] + "…"
