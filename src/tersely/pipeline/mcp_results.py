"""MCP tool results as the pipeline's content, for the entry points that call MCP servers."""

from tersely.mcp.raw import RawResult
from tersely.pipeline.content import Attachment, Content


def content_of(raw: RawResult) -> Content:
    """The result of a server as the pipeline's content."""
    return Content(
        texts=tuple(part.text for part in raw.parts if part.kind in ("text", "resource") and part.text),
        structured=raw.structured,
        attachments=tuple(
            Attachment(kind=part.kind, data=part.data, mime_type=part.mime_type, name=part.uri or part.name)
            for part in raw.parts
            if part.data or part.kind in ("link", "other")
        ),
        is_error=raw.is_error,
    )
