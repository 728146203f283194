"""Sessions to be read, cancelled, exported and deleted.

Everything shown was masked before it was stored. Events come out as the very text
that was stored, so that they are byte for byte what the WebSocket sends.
"""

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from starlette.responses import StreamingResponse

from tersely.errors import InputError, ResultExpired, ResultNotFound, SessionNotFound
from tersely.store import events, interactions, listing, stages, timeline
from tersely.store import sessions as rows
from tersely.store.database import Connection
from tersely.store.interactions import StoredInteraction
from tersely.store.listing import Filters
from tersely.store.sessions import Session
from tersely.store.stages import Execution, Stage
from tersely.web.auth import Administers, Principal, Reads, needs
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import After, Cursor, Limit, SessionId, Time, Words, bad_cursor, from_cursor, plain, to_cursor
from tersely.web.problems import Refusal
from tersely.web.results import described, scope_of
from tersely.web.schemas import (
    ERRORS,
    CancelOut,
    CursorPage,
    EventOut,
    ExecutionOut,
    InteractionDetailOut,
    InteractionOut,
    KeptResultOut,
    SessionDetailOut,
    SessionOut,
    SessionStatus,
    SessionStatusOut,
    StageOut,
    StageShort,
    TimelineEventOut,
    TokensOut,
    UsageOut,
)

_EXPORT_PAGE = 200
_MAY_CANCEL = Depends(needs("submit", "admin"))


def routes(parts: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["sessions"], responses=ERRORS)
    database = parts.database

    @router.get("/sessions")
    async def list_sessions(
        status: Annotated[
            list[SessionStatus] | None, Query(description="One or more; any of them.", max_length=7)
        ] = None,
        alert_type: Words = None,
        q: Annotated[
            str | None, Query(max_length=500, description="Words; each must be in title, alert or analysis.")
        ] = None,
        created_after: Annotated[Time | None, Query(description="Created at this time or later.")] = None,
        created_before: Annotated[Time | None, Query(description="Created before this time.")] = None,
        cursor: Cursor = None,
        limit: Limit = 50,
        principal: Principal = Reads,
    ) -> CursorPage[SessionOut]:
        """Sessions, the newest first."""
        filters = Filters(
            statuses=status or (),
            alert_type=plain(alert_type),
            created_after=_utc(created_after, "created_after"),
            created_before=_utc(created_before, "created_before"),
            q=plain(q) or "",
        )
        async with database.reading() as db:
            try:
                found, following = await listing.list_page(db, filters, cursor=cursor or None, limit=limit)
            except InputError:
                raise bad_cursor() from None
        return CursorPage(
            items=[SessionOut(**summarized(one.session, one.stage, one.stage_count)) for one in found],
            next_cursor=following,
        )

    @router.get("/sessions/{session_id}")
    async def read_session(session_id: SessionId, principal: Principal = Reads) -> SessionDetailOut:
        """A session with its alert, its analysis and its stages."""
        async with database.reading() as db:
            return await detailed(db, session_id)

    @router.get("/sessions/{session_id}/status")
    async def read_status(session_id: SessionId, principal: Principal = Reads) -> SessionStatusOut:
        """Only how far it is; cheap to ask again and again."""
        async with database.reading() as db:
            session = await rows.find(db, session_id)
        return SessionStatusOut(id=session.id, status=session.status, reason=session.reason, last_seq=session.last_seq)

    @router.get("/sessions/{session_id}/timeline")
    async def read_timeline(
        session_id: SessionId, after: After = 0, limit: Limit = 200, principal: Principal = Reads
    ) -> CursorPage[TimelineEventOut]:
        """What happened, in order, as it is now; `after` is the `sequence` of the last one seen."""
        async with database.reading() as db:
            await _exists(db, session_id)
            found = await timeline.page(db, session_id, after=after, limit=limit + 1)
        items = [TimelineEventOut.model_validate(event) for event in found[:limit]]
        return CursorPage(items=items, next_cursor=str(items[-1].sequence) if len(found) > limit else None)

    @router.get("/sessions/{session_id}/events", response_model=CursorPage[EventOut])
    async def read_events(
        session_id: SessionId, after: After = 0, limit: Limit = 200, principal: Principal = Reads
    ) -> Response:
        """The event log, as the WebSocket sends it; `after` is the `seq` of the last one seen."""
        async with database.reading() as db:
            head = await _exists(db, session_id)
            found = await events.page(db, session_id, after=after, limit=limit)
        following = str(found[-1].seq) if found and found[-1].seq < head else None
        # Put together by hand: reading and writing the events anew could change a byte of them.
        body = (
            '{"items":[' + ",".join(event.payload for event in found) + '],"next_cursor":' + json.dumps(following) + "}"
        )
        return Response(body.encode(), media_type="application/json")

    @router.get("/sessions/{session_id}/trace")
    async def read_trace(
        session_id: SessionId, cursor: Cursor = None, limit: Limit = 100, principal: Principal = Reads
    ) -> CursorPage[InteractionOut]:
        """Every exchange with a model or a tool, the oldest first, without the conversations."""
        after = _trace_position(cursor)
        async with database.reading() as db:
            await _exists(db, session_id)
            found = await interactions.page(db, session_id, after=after, limit=limit + 1)
        shown = found[:limit]
        following = to_cursor(shown[-1].created_at.isoformat(), shown[-1].id) if len(found) > limit else None
        return CursorPage(items=[InteractionOut(**_interaction(one)) for one in shown], next_cursor=following)

    @router.get("/sessions/{session_id}/trace/{interaction_id}")
    async def read_interaction(
        session_id: SessionId, interaction_id: str, principal: Principal = Reads
    ) -> InteractionDetailOut:
        """One exchange with the conversation that the model got."""
        async with database.reading() as db:
            await _exists(db, session_id)
            try:
                found, messages = await interactions.one(db, session_id, interaction_id[:80])
            except InputError as missing:
                raise Refusal(404, str(missing), code="interaction_not_found") from None
        return InteractionDetailOut(**_interaction(found), messages=messages)

    @router.get(
        "/sessions/{session_id}/export",
        response_class=Response,
        responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def export_session(
        session_id: SessionId,
        results: Annotated[bool, Query(description="With the texts of the kept results.")] = False,
        principal: Principal = Reads,
    ) -> Response:
        """All that is stored of a session, as one JSON document: session, timeline, events, trace, kept results."""
        async with database.reading() as db:
            session = await detailed(db, session_id)
        headers = {"Content-Disposition": f'attachment; filename="session-{session_id}.json"'}
        return StreamingResponse(
            _export(parts, session, with_texts=results), media_type="application/json", headers=headers
        )

    @router.post("/sessions/{session_id}/cancel")
    async def cancel_session(session_id: SessionId, principal: Principal = _MAY_CANCEL) -> CancelOut:
        """Stop a session that waits or runs. What it found so far stays."""
        if not principal.may("admin"):
            async with database.reading() as db:
                author = (await rows.find(db, session_id)).scope
            if author != principal.name:
                raise Refusal(403, "Only its author, or a token with the scope admin, can cancel this session.")
        status = await parts.intake.cancel(session_id, by=principal.name)
        words = "It will stop in a moment." if status == "cancelling" else "It is cancelled."
        return CancelOut.model_validate({"session_id": session_id, "status": status, "message": words})

    @router.delete("/sessions/{session_id}", status_code=204, response_class=Response)
    async def delete_session(session_id: SessionId, principal: Principal = Administers) -> Response:
        """Delete an ended session with everything that belongs to it."""
        await parts.intake.delete(session_id)
        return Response(status_code=204)

    return router


async def _exists(db: Connection, session_id: str) -> int:
    """The last number of the session's event log.

    Raises:
        SessionNotFound: There is none.
    """
    heads = await events.heads(db, [session_id])
    if session_id not in heads:
        raise SessionNotFound(session_id)
    return heads[session_id]


def _utc(moment: datetime | None, name: str) -> datetime | None:
    if moment is None:
        return None
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        message = "is a time that no calendar has"
        raise Refusal(422, f"{name}: {message}", code="invalid", details=[(name, message)]) from None


def _trace_position(cursor: str | None) -> tuple[datetime, str] | None:
    position = from_cursor(cursor, str, str)
    if position is None:
        return None
    try:
        moment = datetime.fromisoformat(position[0])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC), position[1]
    except (ValueError, OverflowError):
        raise bad_cursor() from None


def summarized(session: Session, stage: Stage | None, count: int) -> dict[str, Any]:
    """A session as lists show it."""
    price = session.price_micros
    return {
        **{
            name: getattr(session, name)
            for name in (
                "id",
                "status",
                "reason",
                "alert_type",
                "chain",
                "title",
                "created_at",
                "started_at",
                "ended_at",
                "attempt",
                "last_seq",
            )
        },
        "author": session.scope,
        "stage": StageShort(index=stage.position, name=stage.name, count=count) if stage else None,
        "usage": UsageOut(
            model_calls=session.model_calls,
            tool_calls=session.tool_calls,
            input_tokens=session.input_tokens,
            output_tokens=session.output_tokens,
            price_usd=None if price is None else price / 1e6,
        ),
        "tokens": TokensOut(
            before=session.tokens_before,
            after=session.tokens_after,
            spared=max(0, session.tokens_before - session.tokens_after),
            encoding=session.encoding,
        ),
        "resolved_at": session.resolved_at,
    }


async def detailed(db: Connection, session_id: str) -> SessionDetailOut:
    """A session with its stages.

    Raises:
        SessionNotFound: There is none.
    """
    session = await rows.find(db, session_id)
    planned = await stages.stages_of(db, session_id)
    executions = await stages.executions_of(db, session_id)
    return SessionDetailOut(
        **summarized(session, stages.current(planned), len(planned)),
        alert=session.alert,
        runbook=session.runbook,
        mcp=None if session.override is None else dict(session.override),
        analysis=session.analysis,
        stages=[_stage(stage, [one for one in executions if one.stage_id == stage.id]) for stage in planned],
    )


def _stage(stage: Stage, executions: Sequence[Execution]) -> StageOut:
    return StageOut(
        id=stage.id,
        index=stage.position,
        name=stage.name,
        status=stage.status,
        reason=stage.reason,
        analysis=stage.analysis,
        started_at=stage.started_at,
        ended_at=stage.ended_at,
        executions=[ExecutionOut.model_validate(execution) for execution in executions],
    )


def _interaction(found: StoredInteraction) -> dict[str, Any]:
    request = dict(found.request)
    if isinstance(digests := request.get("messages"), list):
        # Where the messages lie is our business; how many there were is told.
        request["messages"] = len(digests)
    return {
        **{
            name: getattr(found, name)
            for name in (
                *("id", "session_id", "stage_id", "execution_id", "provider", "model", "error"),
                *("input_tokens", "output_tokens", "duration_ms", "created_at"),
            )
        },
        "interaction_type": found.type,
        "request": request,
        "response": dict(found.response),
        "price_usd": None if found.price_micros is None else found.price_micros / 1e6,
    }


async def _export(parts: WebDependencies, session: SessionDetailOut, *, with_texts: bool) -> AsyncIterator[bytes]:
    """The document, a page at a time: none of it is ever in memory as a whole."""
    yield b'{"v":1,"exported_at":' + json.dumps(events.stamp(datetime.now(UTC))).encode()
    yield b',"session":' + session.model_dump_json().encode()
    for name, pages in (
        ("timeline", _timeline_pages(parts, session.id)),
        ("events", _event_pages(parts, session.id)),
        ("trace", _trace_pages(parts, session.id)),
        ("results", _result_pages(parts, session.id, with_texts=with_texts)),
    ):
        yield f',"{name}":['.encode()
        first = True
        async for page in pages:
            yield ("" if first else ",").encode() + ",".join(page).encode()
            first = False
        yield b"]"
    yield b"}"


async def _timeline_pages(parts: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    after = 0
    while True:
        async with parts.database.reading() as db:
            found = await timeline.page(db, session_id, after=after, limit=_EXPORT_PAGE)
        if not found:
            return
        yield [TimelineEventOut.model_validate(event).model_dump_json() for event in found]
        after = found[-1].sequence


async def _event_pages(parts: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    after = 0
    while True:
        async with parts.database.reading() as db:
            found = await events.page(db, session_id, after=after)
        if not found:
            return
        yield [event.payload for event in found]
        after = found[-1].seq


async def _trace_pages(parts: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    after: tuple[datetime, str] | None = None
    while True:
        async with parts.database.reading() as db:
            found = await interactions.page(db, session_id, after=after, limit=_EXPORT_PAGE)
            whole = [await interactions.one(db, session_id, one.id) for one in found]
        if not found:
            return
        yield [
            InteractionDetailOut(**_interaction(one), messages=messages).model_dump_json() for one, messages in whole
        ]
        after = (found[-1].created_at, found[-1].id)


async def _result_pages(parts: WebDependencies, session_id: str, *, with_texts: bool) -> AsyncIterator[list[str]]:
    after = ""
    while True:
        try:
            found = await parts.kept.list(scope_of(session_id), after=after, limit=_EXPORT_PAGE)
        except (ResultNotFound, ResultExpired):
            return  # The last one seen went while we wrote; what is older goes first, so nothing is left.
        for result in found:
            known = KeptResultOut(**described(result)).model_dump(mode="json")
            if with_texts and result.is_text:
                try:
                    known["text"] = await parts.kept.load(result.handle, scope_of(session_id))
                except (ResultNotFound, ResultExpired) as gone:
                    known["text"] = None
                    known["why"] = str(gone)
            yield [events.dumped(known)]
        if len(found) < _EXPORT_PAGE:
            return
        after = found[-1].handle
