"""Reading, cancelling, exporting and deleting sessions.

Everything was masked before it was stored. Events are returned byte for byte as
they were stored, which is also what the WebSocket sends.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from starlette.responses import StreamingResponse

from tersely.errors import InputError, ResultExpired, ResultNotFound, SessionNotFound
from tersely.sessions.rerun import TAKEN_OVER
from tersely.store import events, history, interactions, listing, stages, timeline
from tersely.store import sessions as rows
from tersely.store.database import Connection, Database
from tersely.store.interactions import StoredInteraction
from tersely.store.listing import Filters
from tersely.store.notifications import notifications_of
from tersely.store.sessions import Session
from tersely.store.stages import Execution, Stage
from tersely.store.statuses import Status
from tersely.store.triage import UNTOUCHED, Rating, Triage, TriageState, find_triage, triage_of
from tersely.web.auth import Caller, Principal
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import (
    After,
    Cursor,
    Limit,
    SearchText,
    SessionId,
    Time,
    bad_cursor,
    from_cursor,
    strip_control_characters,
    to_cursor,
    to_utc,
)
from tersely.web.problems import ApiError
from tersely.web.results import result_fields, session_scope
from tersely.web.schemas import (
    ERRORS,
    CancelOut,
    CursorPage,
    EarlierSessionOut,
    EventOut,
    ExecutionOut,
    InteractionDetailOut,
    InteractionOut,
    KeptResultOut,
    NotificationOut,
    QuestionOut,
    SeenBeforeOut,
    SessionDetailOut,
    SessionOut,
    SessionStatusOut,
    StageOut,
    StageShort,
    TimelineEventOut,
    TokensOut,
    UsageOut,
)
from tersely.web.triage import triage_fields

_SEVERITY = re.compile(r'"severity"\s*:\s*"([^"\\]{1,20})"')
_EXPORT_PAGE = 200


def session_routes(deps: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["sessions"], responses=ERRORS)
    database = deps.database

    @router.get("/sessions")
    async def list_sessions(
        status: Annotated[list[Status] | None, Query(description="One or more statuses.", max_length=7)] = None,
        alert_type: SearchText = None,
        q: Annotated[
            str | None,
            Query(max_length=500, description="Words; each must occur in title, alert, analysis or verdict."),
        ] = None,
        fingerprint: SearchText = None,
        service: SearchText = None,
        state: Annotated[list[TriageState] | None, Query(description="One or more states.", max_length=3)] = None,
        assignee: SearchText = None,
        rating: Annotated[
            list[Rating | Literal["none"]] | None, Query(description="One or more ratings.", max_length=4)
        ] = None,
        created_after: Annotated[Time | None, Query(description="Created at this time or later.")] = None,
        created_before: Annotated[Time | None, Query(description="Created before this time.")] = None,
        cursor: Cursor = None,
        limit: Limit = 50,
    ) -> CursorPage[SessionOut]:
        """Sessions, newest first."""
        filters = Filters(
            statuses=status or (),
            alert_type=strip_control_characters(alert_type),
            created_after=to_utc(created_after, "created_after"),
            created_before=to_utc(created_before, "created_before"),
            q=strip_control_characters(q) or "",
            fingerprint=strip_control_characters(fingerprint),
            service=strip_control_characters(service),
            states=state or (),
            assignee=strip_control_characters(assignee),
            ratings=rating or (),
        )
        async with database.reading() as db:
            try:
                found, next_cursor = await listing.list_page(db, filters, cursor=cursor or None, limit=limit)
            except InputError:
                raise bad_cursor() from None
        return CursorPage(
            items=[SessionOut(**session_fields(one.session, one.stage, one.stage_count, one.triage)) for one in found],
            next_cursor=next_cursor,
        )

    @router.get("/sessions/{session_id}")
    async def read_session(session_id: SessionId) -> SessionDetailOut:
        """A session with its alert, its analysis and its stages."""
        async with database.reading() as db:
            return await session_detail(db, session_id)

    @router.get("/sessions/{session_id}/status")
    async def read_status(session_id: SessionId) -> SessionStatusOut:
        """Only the status; cheap to poll."""
        async with database.reading() as db:
            session = await rows.find(db, session_id)
        return SessionStatusOut(id=session.id, status=session.status, reason=session.reason, last_seq=session.last_seq)

    @router.get("/sessions/{session_id}/timeline")
    async def read_timeline(
        session_id: SessionId, after: After = 0, limit: Limit = 200
    ) -> CursorPage[TimelineEventOut]:
        """The timeline in its current state, in order; `after` is the `sequence` of the last event seen."""
        async with database.reading() as db:
            await _last_seq(db, session_id)
            found = await timeline.page(db, session_id, after=after, limit=limit + 1)
        items = [TimelineEventOut.model_validate(event) for event in found[:limit]]
        return CursorPage(items=items, next_cursor=str(items[-1].sequence) if len(found) > limit else None)

    @router.get("/sessions/{session_id}/events", response_model=CursorPage[EventOut])
    async def read_events(session_id: SessionId, after: After = 0, limit: Limit = 200) -> Response:
        """The event log as the WebSocket sends it; `after` is the `seq` of the last event seen."""
        async with database.reading() as db:
            head = await _last_seq(db, session_id)
            found = await events.page(db, session_id, after=after, limit=limit)
        next_cursor = str(found[-1].seq) if found and found[-1].seq < head else None
        # Concatenated, because parsing and serializing the events again could change them.
        items = ",".join(event.payload for event in found)
        body = '{"items":[' + items + '],"next_cursor":' + json.dumps(next_cursor) + "}"
        return Response(body.encode(), media_type="application/json")

    @router.get("/sessions/{session_id}/trace")
    async def read_trace(
        session_id: SessionId, cursor: Cursor = None, limit: Limit = 100
    ) -> CursorPage[InteractionOut]:
        """All model and tool calls, oldest first, without the conversations."""
        after = _trace_position(cursor)
        async with database.reading() as db:
            await _last_seq(db, session_id)
            found = await interactions.page(db, session_id, after=after, limit=limit + 1)
        page = found[:limit]
        next_cursor = to_cursor(page[-1].created_at.isoformat(), page[-1].id) if len(found) > limit else None
        return CursorPage(items=[InteractionOut(**_interaction_fields(one)) for one in page], next_cursor=next_cursor)

    @router.get("/sessions/{session_id}/trace/{interaction_id}")
    async def read_interaction(session_id: SessionId, interaction_id: str) -> InteractionDetailOut:
        """One model or tool call, with the conversation that the model received."""
        async with database.reading() as db:
            await _last_seq(db, session_id)
            try:
                found, messages = await interactions.one(db, session_id, interaction_id[:80])
            except InputError as missing:
                raise ApiError(404, str(missing), code="interaction_not_found") from None
        return InteractionDetailOut(**_interaction_fields(found), messages=messages)

    @router.get(
        "/sessions/{session_id}/export",
        response_class=Response,
        responses={200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )
    async def export_session(
        session_id: SessionId,
        results: Annotated[bool, Query(description="Include the texts of kept results.")] = False,
    ) -> Response:
        """Everything stored about a session as one document: session, timeline, events, trace, results, questions."""
        async with database.reading() as db:
            session = await session_detail(db, session_id)
        headers = {"Content-Disposition": f'attachment; filename="session-{session_id}.json"'}
        return StreamingResponse(
            _export(deps, session, with_texts=results), media_type="application/json", headers=headers
        )

    @router.post("/sessions/{session_id}/cancel")
    async def cancel_session(session_id: SessionId, principal: Principal = Caller) -> CancelOut:
        """Cancel a pending or running session. Its findings so far are kept."""
        await check_author(database, session_id, principal, "cancel this session")
        status = await deps.intake.cancel(session_id, by=principal.name)
        message = "The session is stopping." if status == "cancelling" else "The session is cancelled."
        return CancelOut.model_validate({"session_id": session_id, "status": status, "message": message})

    @router.delete("/sessions/{session_id}", status_code=204, response_class=Response)
    async def delete_session(session_id: SessionId) -> Response:
        """Delete an ended session with everything that belongs to it."""
        await deps.intake.delete(session_id)
        return Response(status_code=204)

    return router


async def check_author(database: Database, session_id: str, principal: Principal, what: str) -> None:
    """
    Raises:
        ApiError: The sender is neither the session's author nor an administrator.
    """
    if not principal.has_scope("admin"):
        async with database.reading() as db:
            author = (await rows.find(db, session_id)).scope
        if author != principal.name:
            raise ApiError(403, f"Only its author, or a token with the scope admin, can {what}.")


async def _last_seq(db: Connection, session_id: str) -> int:
    """The last sequence number of the session's event log.

    Raises:
        SessionNotFound: There is no such session.
    """
    heads = await events.heads(db, [session_id])
    if session_id not in heads:
        raise SessionNotFound(session_id)
    return heads[session_id]


def _trace_position(cursor: str | None) -> tuple[datetime, str] | None:
    position = from_cursor(cursor, str, str)
    if position is None:
        return None
    try:
        moment = datetime.fromisoformat(position[0])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC), position[1]
    except (ValueError, OverflowError):
        raise bad_cursor() from None


def session_fields(
    session: Session, stage: Stage | None = None, count: int = 0, triage: Triage = UNTOUCHED
) -> dict[str, Any]:
    """The fields of a session in lists."""
    price = session.price_micros
    saved = max(0, session.tokens_before - session.tokens_after)
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
                "origin_id",
            )
        },
        "author": session.scope,
        "severity": _severity(session.alert),
        "verdict": session.verdict,
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
            saved=saved,
            spared=saved,
            encoding=session.encoding,
        ),
        "resolved_at": session.resolved_at,
        "fingerprint": session.fingerprint or "",
        "triage": triage_fields(triage),
    }


def question_fields(question: Session) -> dict[str, Any]:
    """The fields of a question and its answer."""
    fields = session_fields(question)
    shared = ("status", "reason", "author", "created_at", "started_at", "ended_at", "usage", "tokens", "last_seq")
    return {
        "chat_id": question.id,
        "session_id": question.parent_id,
        "number": question.number,
        "question": question.alert,
        "answer": question.analysis,
        **{name: fields[name] for name in shared},
    }


def _severity(alert: str) -> str:
    """The label `severity` of an alert in JSON, wherever it stands."""
    found = _SEVERITY.search(alert)
    return found[1].lower() if found else ""


async def session_detail(db: Connection, session_id: str) -> SessionDetailOut:
    """A session with its stages.

    Raises:
        SessionNotFound: There is no such session.
    """
    session = await rows.find(db, session_id)
    planned = await stages.stages_of(db, session_id)
    executions = await stages.executions_of(db, session_id)
    return SessionDetailOut(
        **session_fields(session, stages.current(planned), len(planned), await find_triage(db, session_id)),
        seen_before=await _seen_before(db, session),
        notifications=[NotificationOut.model_validate(one) for one in await notifications_of(db, session_id)],
        alert=session.alert,
        runbook=session.runbook,
        mcp=None if session.override is None else dict(session.override),
        analysis=session.analysis,
        changes=_changes(session),
        reruns=await rows.reruns_of(db, session_id),
        parent_id=session.parent_id,
        questions=len(await rows.questions_of(db, [session_id])),
        stages=[_stage(stage, [one for one in executions if one.stage_id == stage.id]) for stage in planned],
    )


async def _seen_before(db: Connection, session: Session) -> SeenBeforeOut:
    seen = await history.seen_before(db, session)
    triaged = await triage_of(db, [one.id for one in seen.latest])
    earlier = [
        EarlierSessionOut(
            id=one.id,
            created_at=one.created_at,
            cause=(one.verdict or {}).get("cause", ""),
            rating=triaged.get(one.id, UNTOUCHED).rating,
        )
        for one in seen.latest
    ]
    return SeenBeforeOut(count=seen.count, sessions=earlier)


def _changes(session: Session) -> dict[str, Any] | None:
    """What was changed when the session was run again, without the texts that it took over."""
    changes = {name: value for name, value in (session.changes or {}).items() if name != TAKEN_OVER}
    return changes or None


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


def _interaction_fields(interaction: StoredInteraction) -> dict[str, Any]:
    request = dict(interaction.request)
    if isinstance(digests := request.get("messages"), list):
        # Where messages are stored is an internal detail; their number is not.
        request["messages"] = len(digests)
    return {
        **{
            name: getattr(interaction, name)
            for name in (
                *("id", "session_id", "stage_id", "execution_id", "parent_id", "provider", "model", "error"),
                *("input_tokens", "output_tokens", "duration_ms", "created_at"),
            )
        },
        "interaction_type": interaction.type,
        "request": request,
        "response": dict(interaction.response),
        "price_usd": None if interaction.price_micros is None else interaction.price_micros / 1e6,
    }


async def _export(deps: WebDependencies, session: SessionDetailOut, *, with_texts: bool) -> AsyncIterator[bytes]:
    """The document, page by page, so that it is never in memory as a whole."""
    yield b'{"v":1,"exported_at":' + json.dumps(events.stamp(datetime.now(UTC))).encode()
    yield b',"session":' + session.model_dump_json().encode()
    for name, pages in (
        ("timeline", _timeline_pages(deps, session.id)),
        ("events", _event_pages(deps, session.id)),
        ("trace", _trace_pages(deps, session.id)),
        ("results", _result_pages(deps, session.id, with_texts=with_texts)),
        ("chat", _question_pages(deps, session.id)),
    ):
        yield f',"{name}":['.encode()
        first = True
        async for page in pages:
            yield ("" if first else ",").encode() + ",".join(page).encode()
            first = False
        yield b"]"
    yield b"}"


async def _timeline_pages(deps: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    after = 0
    while True:
        async with deps.database.reading() as db:
            found = await timeline.page(db, session_id, after=after, limit=_EXPORT_PAGE)
        if not found:
            return
        yield [TimelineEventOut.model_validate(event).model_dump_json() for event in found]
        after = found[-1].sequence


async def _question_pages(deps: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    async with deps.database.reading() as db:
        found = await rows.questions_of(db, [session_id])
    if found:
        yield [QuestionOut(**question_fields(one)).model_dump_json() for one in found]


async def _event_pages(deps: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    after = 0
    while True:
        async with deps.database.reading() as db:
            found = await events.page(db, session_id, after=after)
        if not found:
            return
        yield [event.payload for event in found]
        after = found[-1].seq


async def _trace_pages(deps: WebDependencies, session_id: str) -> AsyncIterator[list[str]]:
    after: tuple[datetime, str] | None = None
    while True:
        async with deps.database.reading() as db:
            found = await interactions.page(db, session_id, after=after, limit=_EXPORT_PAGE)
            whole = [await interactions.one(db, session_id, one.id) for one in found]
        if not found:
            return
        yield [
            InteractionDetailOut(**_interaction_fields(one), messages=messages).model_dump_json()
            for one, messages in whole
        ]
        after = (found[-1].created_at, found[-1].id)


async def _result_pages(deps: WebDependencies, session_id: str, *, with_texts: bool) -> AsyncIterator[list[str]]:
    after = ""
    while True:
        try:
            found = await deps.kept.list(session_scope(session_id), after=after, limit=_EXPORT_PAGE)
        except (ResultNotFound, ResultExpired):
            return  # The last result was deleted meanwhile; older ones are deleted first, so none is left.
        for result in found:
            fields = KeptResultOut(**result_fields(result)).model_dump(mode="json")
            if with_texts and result.is_text:
                try:
                    fields["text"] = await deps.kept.load(result.handle, session_scope(session_id))
                except (ResultNotFound, ResultExpired) as problem:
                    fields["text"] = None
                    fields["why"] = str(problem)
            yield [events.dumped(fields)]
        if len(found) < _EXPORT_PAGE:
            return
        after = found[-1].handle
