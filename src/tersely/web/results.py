"""Kept results, as a reader at a screen wants them: by lines, by bytes, by what stands in them.

Each result belongs to its session; another session's handle is "not found". What
comes out was masked before it was kept.
"""

import re
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Path, Query, Response

from tersely.errors import InputError
from tersely.results.find_lines import LineMatch, find_lines
from tersely.results.kept import KeptResult, KeptResults
from tersely.web.auth import Principal, Reads
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import LARGEST, Cursor, Limit, SessionId, from_cursor, to_cursor
from tersely.web.problems import Refusal
from tersely.web.schemas import ERRORS, CursorPage, HitOut, KeptResultOut, ResultRangeOut, SearchOut

MOST_BYTES = 2**20
"""Of one answer's text."""

_PICTURES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
"""What a browser is told it is; the others are files to it. SVG is not among them: it can have scripts."""

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_RAW: dict[int | str, dict[str, Any]] = {
    200: {
        "content": dict.fromkeys(("text/plain", "application/octet-stream", *_PICTURES), _BYTES),
        "description": "The bytes",
    }
}
_CLIPPED = 600
_RANGE = re.compile(r"(\d{1,16})-(\d{1,16})?")

Handle = Annotated[str, Path(max_length=80, pattern=r"^r_[0-9A-Za-z]{1,64}$", description="As the timeline names it.")]


def scope_of(session_id: str) -> str:
    """Whose results a session's are."""
    return f"session:{session_id}"


def routes(parts: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["results"], responses=ERRORS)
    kept = parts.kept
    # Each search holds a whole result in memory.
    searching = anyio.CapacityLimiter(4)

    @router.get("/sessions/{session_id}/results")
    async def list_results(
        session_id: SessionId, limit: Limit = 50, cursor: Cursor = None, principal: Principal = Reads
    ) -> CursorPage[KeptResultOut]:
        """What the session's tools returned, the youngest first."""
        position = from_cursor(cursor, str)
        found = await kept.list(scope_of(session_id), after=position[0] if position else "", limit=limit + 1)
        items = [KeptResultOut(**described(result)) for result in found[:limit]]
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
        principal: Principal = Reads,
    ) -> ResultRangeOut:
        """A part of a kept result (at most 1 MiB of it at a time), and what is known of the whole."""
        if lines is not None and bytes_ is not None:
            raise Refusal(400, "Ask for lines or for bytes, not for both.", details=[("lines", "excludes bytes")])
        result = await kept.find(handle, scope_of(session_id))
        return ResultRangeOut(**described(result), **await _read(kept, result, lines, bytes_))

    @router.get("/sessions/{session_id}/results/{handle}/search")
    async def search_result(
        session_id: SessionId,
        handle: Handle,
        q: Annotated[str, Query(min_length=1, max_length=1000, description="What to look for in each line.")],
        regex: Annotated[bool, Query(description="`q` is an re2 expression.")] = False,
        ignore_case: bool = False,
        limit: Limit = 100,
        cursor: Cursor = None,
        principal: Principal = Reads,
    ) -> SearchOut:
        """The lines of a kept result in which something stands."""
        position = from_cursor(cursor, int)
        async with searching:
            result = await kept.find(handle, scope_of(session_id))
            if not result.is_text:
                raise _not_text(result)
            raw, _ = await kept.load_bytes(handle, scope_of(session_id))

            def work() -> SearchOut:
                pattern = q if regex else _literal(q)
                first = max(1, position[0]) if position else 1
                found = find_lines(raw, pattern, ignore_case=ignore_case, from_line=first, limit=limit + 1)
                following = to_cursor(found.hits[limit].number) if len(found.hits) > limit else None
                return SearchOut(
                    items=[_hit(raw, hit) for hit in found.hits[:limit]],
                    next_cursor=following,
                    matching_lines=found.total,
                    counted_all=found.counted_all,
                    lines=result.lines,
                )

            return await anyio.to_thread.run_sync(work)

    @router.get("/sessions/{session_id}/results/{handle}/raw", response_class=Response, responses=_RAW)
    async def download_result(session_id: SessionId, handle: Handle, principal: Principal = Reads) -> Response:
        """The whole of a kept result as it is, images and other files included."""
        async with searching:
            result = await kept.find(handle, scope_of(session_id))
            raw, _ = await kept.load_bytes(handle, scope_of(session_id))
        shown = result.mime_type.partition(";")[0].strip().lower()
        kind = (
            "text/plain; charset=utf-8"
            if result.is_text
            else shown
            if shown in _PICTURES
            else "application/octet-stream"
        )
        # It came from a tool, so a browser may look at it and do nothing with it: no scripts, no origin.
        name = handle + (".txt" if result.is_text else _PICTURES.get(shown, ".bin"))
        how = "inline" if kind in _PICTURES else "attachment"
        safe = {
            "Content-Disposition": f'{how}; filename="{name}"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
        }
        return Response(raw, media_type=kind, headers=safe)

    return router


def described(result: KeptResult) -> dict[str, Any]:
    """What is known of a result without its content."""
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
    what = f"{result.kind} of type {result.mime_type}, {result.size:,} bytes"
    return InputError(
        f"{result.handle} is not text: {what}. Ask for …/results/{result.handle}/raw to have it as it is."
    )


async def _read(kept: KeptResults, result: KeptResult, lines: str | None, bytes_: str | None) -> dict[str, Any]:
    if not result.is_text:
        raise _not_text(result)
    by_lines = bytes_ is None
    if by_lines:
        first, last = _range("lines", lines or "1-", least=1)
        start = await kept.line_start(result, first)
        end = await kept.line_start(result, last + 1)
    else:
        start, end = _range("bytes", bytes_ or "", least=0)
    start, end = min(start, result.size), min(end, result.size)
    stretch = await kept.read_stretch(result, start, min(end, start + MOST_BYTES))
    text = str(stretch.text)
    stop = stretch.end
    if by_lines and stop < end and (cut := text.rfind("\n") + 1):
        # Whole lines, where there is one: what follows begins with the next.
        text = text[:cut]
        stop = stretch.start + len(text.encode())
    first_line = await kept.line_at(result, stretch.start)
    last_line = first_line + text.count("\n") - text.endswith("\n")
    following = None
    if stop < end:
        if by_lines and text.endswith("\n"):
            following = f"lines={last_line + 1}-{'' if last >= result.lines else last}"
        else:
            following = f"bytes={stop}-{'' if end >= result.size else end}"
    return {
        "text": text,
        "first_line": first_line,
        "last_line": max(first_line, last_line),
        "start_byte": stretch.start,
        "end_byte": stop,
        "next": following,
    }


def _range(name: str, asked: str, *, least: int) -> tuple[int, int]:
    match = _RANGE.fullmatch(asked)
    first, last = (int(match[1]), min(int(match[2]), LARGEST) if match[2] else LARGEST) if match else (0, -1)
    if last < first or first < least:
        message = f"must look like {least}-100 or {least}-, with the smaller number first"
        raise Refusal(400, f"{name} ({asked[:40]!r}) {message}.", details=[(name, message)])
    return min(first, LARGEST), last


def _literal(text: str) -> str:
    """An expression that finds exactly this text."""
    return re.sub(
        r"([^\w\s]|_)", lambda sign: "\\" + sign[0] if sign[0].isascii() and sign[0] != "_" else sign[0], text
    )


def _hit(raw: bytes, hit: LineMatch) -> HitOut:
    start, end = hit.start, hit.end
    if end - start > _CLIPPED:
        start = max(hit.start, min(hit.match[0] - _CLIPPED // 4, hit.end - _CLIPPED))
        end = min(hit.end, start + _CLIPPED)
        # Edges inside a character move to its beginning.
        while start > hit.start and raw[start] & 0xC0 == 0x80:
            start -= 1
        while end < hit.end and raw[end] & 0xC0 == 0x80:
            end -= 1
    before = "…" if start > hit.start else ""
    text = before + raw[start:end].decode(errors="replace") + ("…" if end < hit.end else "")
    at = len(before) + len(raw[start : hit.match[0]].decode(errors="replace"))
    length = len(raw[hit.match[0] : min(hit.match[1], end)].decode(errors="replace"))
    return HitOut(line=hit.number, text=text, start_byte=hit.start, match=(at, at + length))
