"""Reading kept results: by lines, by bytes, or by search.

A result belongs to its session; the handle of another session is "not found".
Results were masked before they were kept.
"""

import re
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Path, Query, Response

from tersely.condensing.marks import account_of_result
from tersely.cpu.run import run_cpu, run_in_thread
from tersely.errors import InputError
from tersely.results.find_lines import LineMatch, find_lines
from tersely.results.histogram import log_histogram
from tersely.results.kept import KeptResult, KeptResults
from tersely.store import timeline
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import MAX_INTEGER, Cursor, Limit, SessionId, from_cursor, to_cursor
from tersely.web.problems import ApiError
from tersely.web.schemas import (
    ERRORS,
    CursorPage,
    HistogramBucketOut,
    HistogramOut,
    HitOut,
    KeptResultOut,
    ResultAccountOut,
    ResultRangeOut,
    SearchOut,
)

MAX_TEXT_BYTES = 2**20
"""Of the text in one response."""

_IMAGES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""Media types that a browser may display; all others are downloads. SVG can contain scripts."""

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_RAW: dict[int | str, dict[str, Any]] = {
    200: {
        "content": dict.fromkeys(("text/plain", "application/octet-stream", *_IMAGES), _BYTES),
        "description": "The bytes",
    }
}
_MAX_LINE_BYTES = 600
_RANGE = re.compile(r"(\d{1,16})-(\d{1,16})?")

Handle = Annotated[
    str, Path(max_length=80, pattern=r"^r_[0-9A-Za-z]{1,64}$", description="The handle in the timeline.")
]


def session_scope(session_id: str) -> str:
    """The scope that a session's results are kept in."""
    return f"session:{session_id}"


def result_routes(deps: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["results"], responses=ERRORS)
    kept = deps.kept
    # Each search holds a whole result in memory.
    searching = anyio.CapacityLimiter(4)

    @router.get("/sessions/{session_id}/results")
    async def list_results(
        session_id: SessionId, limit: Limit = 50, cursor: Cursor = None
    ) -> CursorPage[KeptResultOut]:
        """The results of the session's tools, newest first."""
        position = from_cursor(cursor, str)
        found = await kept.list(session_scope(session_id), after=position[0] if position else "", limit=limit + 1)
        items = [KeptResultOut(**result_fields(result)) for result in found[:limit]]
        return CursorPage(items=items, next_cursor=to_cursor(items[-1].handle) if len(found) > limit else None)

    @router.get("/sessions/{session_id}/results/{handle}")
    async def read_result(
        session_id: SessionId,
        handle: Handle,
        lines: Annotated[
            str | None, Query(description="`a-b`, from 1, both included; `a-` to the end.", max_length=40)
        ] = None,
        bytes_: Annotated[
            str | None,
            Query(alias="bytes", description="`a-b`, from 0, b not included; `a-` to the end.", max_length=40),
        ] = None,
    ) -> ResultRangeOut:
        """A part of a kept result, at most 1 MiB, with the metadata of the whole."""
        if lines is not None and bytes_ is not None:
            raise ApiError(400, "Use lines or bytes, not both.", details=[("lines", "excludes bytes")])
        result = await kept.find(handle, session_scope(session_id))
        return ResultRangeOut(**result_fields(result), **await _read(kept, result, lines, bytes_))

    @router.get("/sessions/{session_id}/results/{handle}/search")
    async def search_result(
        session_id: SessionId,
        handle: Handle,
        q: Annotated[str, Query(min_length=1, max_length=1000, description="Text to search for in each line.")],
        regex: Annotated[bool, Query(description="`q` is an re2 expression.")] = False,
        ignore_case: bool = False,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> SearchOut:
        """The matching lines of a kept result."""
        position = from_cursor(cursor, int)
        async with searching:
            result = await kept.find(handle, session_scope(session_id))
            if not result.is_text:
                raise _not_text(result)
            raw, _ = await kept.load_bytes(handle, session_scope(session_id))

            def search() -> SearchOut:
                pattern = q if regex else _literal(q)
                first = max(1, position[0]) if position else 1
                found = find_lines(raw, pattern, ignore_case=ignore_case, from_line=first, limit=limit + 1)
                next_cursor = to_cursor(found.hits[limit].number) if len(found.hits) > limit else None
                return SearchOut(
                    items=[_hit(raw, match) for match in found.hits[:limit]],
                    next_cursor=next_cursor,
                    matching_lines=found.total,
                    counted_all=found.counted_all,
                    lines=result.lines,
                )

            return await run_in_thread(search)

    @router.get("/sessions/{session_id}/results/{handle}/account")
    async def read_result_account(
        session_id: SessionId,
        handle: Handle,
        summary: Annotated[str, Query(max_length=80, description="The timeline event with the condensed text.")],
    ) -> ResultAccountOut:
        """What became of each line of a kept result in the text that the model received."""
        async with searching:
            result = await kept.find(handle, session_scope(session_id))
            if not result.is_text:
                raise _not_text(result)
            async with deps.database.reading() as db:
                event = await timeline.find_event(db, session_id, summary)
            if event is None or event.metadata.get("handle") != handle:
                raise ApiError(404, "This session has no such summary of this result.", code="event_not_found")
            text = str(await kept.load(handle, session_scope(session_id)))
            about = event.metadata
            cited = tuple((int(first), int(last)) for first, last in (one["lines"] for one in about.get("cited", ())))
            by_model = about.get("status") in ("summarized", "partial")
            lost = tuple(
                (int(first), int(last))
                for one in about.get("lost", ())
                if not one.get("partial")
                for first, last in one.get("lines", ())
            )
            marks = str(about.get("marks", ""))
            found = await run_cpu(account_of_result, text, event.content, marks, by_model, cited, lost)
        return ResultAccountOut.model_validate(found)

    @router.get("/sessions/{session_id}/results/{handle}/histogram")
    async def read_result_histogram(session_id: SessionId, handle: Handle) -> HistogramOut:
        """How often each log level occurs in a kept result, over time."""
        async with searching:
            result = await kept.find(handle, session_scope(session_id))
            if not result.is_text:
                raise _not_text(result)
            text = str(await kept.load(handle, session_scope(session_id)))
            buckets, first_error = await run_cpu(log_histogram, text)
        return HistogramOut(items=[HistogramBucketOut.model_validate(one) for one in buckets], first_error=first_error)

    @router.get("/sessions/{session_id}/results/{handle}/raw", response_class=Response, responses=_RAW)
    async def download_result(session_id: SessionId, handle: Handle) -> Response:
        """A whole kept result, unchanged; also images and other files."""
        async with searching:
            result = await kept.find(handle, session_scope(session_id))
            raw, _ = await kept.load_bytes(handle, session_scope(session_id))
        mime_type = result.mime_type.partition(";")[0].strip().lower()
        if result.is_text:
            media_type, suffix = "text/plain; charset=utf-8", ".txt"
        elif mime_type in _IMAGES:
            media_type, suffix = mime_type, _IMAGES[mime_type]
        else:
            media_type, suffix = "application/octet-stream", ".bin"
        disposition = "inline" if media_type in _IMAGES else "attachment"
        headers = {
            "Content-Disposition": f'{disposition}; filename="{handle}{suffix}"',
            # Tools return untrusted content: a browser may display it, without scripts and without our origin.
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return Response(raw, media_type=media_type, headers=headers)

    return router


def result_fields(result: KeptResult) -> dict[str, Any]:
    """A kept result's metadata."""
    return {
        "handle": result.handle,
        "server": result.origin.server,
        "tool": result.origin.tool,
        "arguments": result.origin.arguments,
        "part": result.part,
        "kind": result.kind,
        "mime_type": result.mime_type,
        "bytes": result.size,
        "lines": result.lines,
        "tokens": result.tokens,
        "encoding": result.encoding,
        "called_at": result.origin.called_at,
        "created_at": result.created_at,
        "expires_at": result.expires_at,
    }


def _not_text(result: KeptResult) -> InputError:
    description = f"{result.kind} of type {result.mime_type}, {result.size:,} bytes"
    return InputError(f"{result.handle} is not text: {description}. Download it from …/results/{result.handle}/raw.")


async def _read(kept: KeptResults, result: KeptResult, lines: str | None, bytes_: str | None) -> dict[str, Any]:
    if not result.is_text:
        raise _not_text(result)
    by_lines = bytes_ is None
    if by_lines:
        first, last = _range("lines", lines or "1-", minimum=1)
        start = await kept.line_start(result, first)
        end = await kept.line_start(result, last + 1)
    else:
        start, end = _range("bytes", bytes_ or "", minimum=0)
    start, end = min(start, result.size), min(end, result.size)
    stretch = await kept.read_stretch(result, start, min(end, start + MAX_TEXT_BYTES))
    text = str(stretch.text)
    stop = stretch.end
    if by_lines and stop < end and (cut := text.rfind("\n") + 1):
        # End at a line break if there is one, so that the next part starts with a whole line.
        text = text[:cut]
        stop = stretch.start + len(text.encode())
    first_line = await kept.line_at(result, stretch.start)
    last_line = first_line + text.count("\n") - text.endswith("\n")
    next_range = None
    if stop < end:
        if by_lines and text.endswith("\n"):
            next_range = f"lines={last_line + 1}-{'' if last >= result.lines else last}"
        else:
            next_range = f"bytes={stop}-{'' if end >= result.size else end}"
    return {
        "text": text,
        "first_line": first_line,
        "last_line": max(first_line, last_line),
        "start_byte": stretch.start,
        "end_byte": stop,
        "next": next_range,
    }


def _range(name: str, value: str, *, minimum: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(value)
    first, last = (int(match[1]), min(int(match[2]), MAX_INTEGER) if match[2] else MAX_INTEGER) if match else (0, -1)
    if last < first or first < minimum:
        message = f"must look like {minimum}-100 or {minimum}-, with the smaller number first"
        raise ApiError(400, f"{name} ({value[:40]!r}) {message}.", details=[(name, message)])
    return min(first, MAX_INTEGER), last


def _literal(text: str) -> str:
    """A regular expression that matches exactly this text."""
    return re.sub(
        r"([^\w\s]|_)", lambda match: "\\" + match[0] if match[0].isascii() and match[0] != "_" else match[0], text
    )


def _hit(raw: bytes, found: LineMatch) -> HitOut:
    start, end = found.start, found.end
    if end - start > _MAX_LINE_BYTES:
        start = max(found.start, min(found.match[0] - _MAX_LINE_BYTES // 4, found.end - _MAX_LINE_BYTES))
        end = min(found.end, start + _MAX_LINE_BYTES)
        # Do not cut inside a UTF-8 sequence.
        while start > found.start and raw[start] & 0xC0 == 0x80:
            start -= 1
        while end < found.end and raw[end] & 0xC0 == 0x80:
            end -= 1
    before = "…" if start > found.start else ""
    text = before + raw[start:end].decode(errors="replace") + ("…" if end < found.end else "")
    at = len(before) + len(raw[start : found.match[0]].decode(errors="replace"))
    length = len(raw[found.match[0] : min(found.match[1], end)].decode(errors="replace"))
    return HitOut(line=found.number, text=text, start_byte=found.start, match=(at, at + length))
