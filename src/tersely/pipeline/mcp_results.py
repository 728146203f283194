"""MCP tool results as the pipeline's content, for the entry points that call MCP servers."""

import json
from collections.abc import Iterator
from typing import Any

from tersely.mcp.raw import RawResult
from tersely.pipeline.content import Attachment, Content


def content_of(raw: RawResult) -> Content:
    """The result of a server as the pipeline's content."""
    return Content(
        texts=tuple(part.text for part in raw.parts if part.kind in ("text", "resource") and part.text),
        structured=raw.structured,
        is_mirrored=raw.structured is not None and bool(raw.parts) and _repeats(raw.structured, raw),
        attachments=tuple(
            Attachment(kind=part.kind, data=part.data, mime_type=part.mime_type, name=part.uri or part.name)
            for part in raw.parts
            if part.data or part.kind in ("link", "other")
        ),
        is_error=raw.is_error,
    )


def _repeats(structured: Any, raw: RawResult) -> bool:
    """Whether structured content only repeats the content items, under whatever names.

    Servers send both for clients that read only one: `{"result": text}` (FastMCP), `{"content": text}` or
    `{"content": [item]}` (the official servers), lists of texts, or the value that the text is the JSON of.
    """
    texts = [part.text for part in raw.parts if part.text]
    whole = "\n".join(texts)
    return any(_is_content(value, whole, texts, raw) for value in _unwrapped(structured))


def _unwrapped(value: Any) -> Iterator[Any]:
    """The value, and what is inside objects with a single entry."""
    yield value
    while isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
        yield value


def _is_content(value: Any, whole: str, texts: list[str], raw: RawResult) -> bool:
    if isinstance(value, str):
        return bool(value) and value in (whole, "\n\n".join(texts))
    if not isinstance(value, dict | list):
        # A number or a boolean is its own text.
        return bool(texts) and _parsed(whole) == value and value is not None
    if texts and _parsed(whole) == value:
        return True
    if not isinstance(value, list) or len(value) != len(raw.parts):
        return (
            isinstance(value, list)
            and bool(texts)
            and all(isinstance(one, str) for one in value)
            and ("\n".join(value) == whole)
        )
    return all(
        item in (part.text, dict(part.raw)) or (bool(part.text) and _parsed(part.text) == item)
        for item, part in zip(value, raw.parts, strict=True)
    )


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
