"""Follow-up questions about ended sessions: ask, read, cancel.

A question has a session id of its own (`chat_id`), under which its timeline, events and
trace are read and its channel is subscribed, as for every session.
"""

from dataclasses import asdict

from fastapi import APIRouter, Request

from tersely.errors import InputError
from tersely.sessions.chat_intake import ChatIntake
from tersely.store import sessions as rows
from tersely.store.sessions import Session
from tersely.web.auth import Caller, Principal
from tersely.web.bodies import JsonRoute
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import SessionId
from tersely.web.problems import ApiError
from tersely.web.schemas import ERRORS, CancelOut, CursorPage, QuestionAcceptedOut, QuestionIn, QuestionOut
from tersely.web.sessions import question_fields


def chat_routes(deps: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["chat"], responses=ERRORS, route_class=JsonRoute)
    chat = ChatIntake(intake=deps.intake, database=deps.database, bus=deps.bus, options=deps.settings.chat)

    @router.post("/sessions/{session_id}/chat", status_code=202)
    async def ask_question(
        request: Request, session_id: SessionId, body: QuestionIn, principal: Principal = Caller
    ) -> QuestionAcceptedOut:
        """Ask a follow-up question about an ended session; the same agent answers it, with the same servers."""
        if not body.question.strip():
            message = "The question is empty."
            raise ApiError(400, message, code="empty_question", details=[("question", "is empty")])
        async with deps.database.reading() as db:
            _check_rights(await rows.find(db, session_id), principal)
        accepted = await chat.ask(session_id, body.question, principal=principal.name)
        request.state.audited = accepted.chat_id
        return QuestionAcceptedOut.model_validate(asdict(accepted))

    @router.get("/sessions/{session_id}/chat")
    async def read_chat(session_id: SessionId) -> CursorPage[QuestionOut]:
        """The follow-up questions about a session with their answers, in order."""
        found = await chat.questions(session_id)
        return CursorPage(items=[QuestionOut(**question_fields(one)) for one in found], next_cursor=None)

    @router.post("/sessions/{session_id}/chat/{number}/cancel")
    async def cancel_question(session_id: SessionId, number: int, principal: Principal = Caller) -> CancelOut:
        """Stop the answer to a question."""
        try:
            question = await chat.question(session_id, number)
        except InputError as missing:
            raise ApiError(404, str(missing), code="question_not_found") from None
        if question.scope != principal.name and not principal.has_scope("admin"):
            raise ApiError(403, "Only its author, or a token with the scope admin, can cancel this question.")
        status = await chat.cancel(session_id, number, by=principal.name)
        message = "The answer is stopping." if status == "cancelling" else "The question is cancelled."
        return CancelOut.model_validate({"session_id": question.id, "status": status, "message": message})

    return router


def _check_rights(session: Session, principal: Principal) -> None:
    """An alert's override can allow more servers than its chain; only who may choose such servers may ask with them."""
    widened = bool(session.override) and not (session.override or {}).get("narrows")
    is_author = session.scope == principal.name
    if widened and not is_author and not principal.has_scope("override") and not principal.has_scope("admin"):
        raise ApiError(
            403,
            "This session's alert chose its own servers. Only its author, or a token with the scope override or admin, "
            "can ask about it.",
        )
