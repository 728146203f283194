"""What people do with sessions: assign, acknowledge, close and rate them; and search in what was found before."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query

from tersely.sessions.triage import SessionTriage
from tersely.store import history, triage
from tersely.store.history import Match
from tersely.store.triage import Triage, triage_of
from tersely.web.auth import Caller, Principal
from tersely.web.bodies import JsonRoute
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import SessionId, Time, strip_control_characters, to_utc
from tersely.web.problems import ApiError
from tersely.web.schemas import (
    ERRORS,
    AssignIn,
    CloseIn,
    FoundSessionOut,
    FoundSessionsOut,
    RatingCountsOut,
    RatingIn,
    RatingsOut,
    TriageOut,
)


def triage_routes(deps: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["history"], responses=ERRORS, route_class=JsonRoute)
    desk = SessionTriage(database=deps.database, bus=deps.bus, masking=deps.intake.plan.defaults.alert_masking)

    @router.put("/sessions/{session_id}/rating")
    async def rate_session(session_id: SessionId, body: RatingIn, principal: Principal = Caller) -> TriageOut:
        """Rate the verdict of an ended session. A second rating replaces the first."""
        return triage_fields(await desk.rate(session_id, body.rating, body.note, by=principal.name))

    @router.delete("/sessions/{session_id}/rating")
    async def withdraw_rating(session_id: SessionId, principal: Principal = Caller) -> TriageOut:
        """Withdraw the rating of a session's verdict."""
        return triage_fields(await desk.rate(session_id, None, "", by=principal.name))

    @router.put("/sessions/{session_id}/assignee")
    async def assign_session(session_id: SessionId, body: AssignIn, principal: Principal = Caller) -> TriageOut:
        """Say who looks after a session: a name, the caller if none is given, or nobody (null)."""
        assignee = principal.name if "assignee" not in body.model_fields_set else body.assignee
        if assignee is not None and not (assignee := strip_control_characters(assignee) or ""):
            raise ApiError(422, "assignee: is empty", code="invalid", details=[("assignee", "is empty")])
        return triage_fields(await desk.assign(session_id, assignee))

    @router.post("/sessions/{session_id}/acknowledge")
    async def acknowledge_session(session_id: SessionId, principal: Principal = Caller) -> TriageOut:
        """Record that a person has seen the session. Repeating it changes nothing."""
        return triage_fields(await desk.acknowledge(session_id, by=principal.name))

    @router.post("/sessions/{session_id}/close")
    async def close_session(
        session_id: SessionId, body: CloseIn | None = None, principal: Principal = Caller
    ) -> TriageOut:
        """Close an ended session: nothing is left to do. Repeating it changes nothing."""
        return triage_fields(await desk.close(session_id, body.note if body else "", by=principal.name))

    @router.post("/sessions/{session_id}/reopen")
    async def reopen_session(session_id: SessionId) -> TriageOut:
        """Undo acknowledge and close. Assignee and rating stay."""
        return triage_fields(await desk.reopen(session_id))

    @router.get("/search")
    async def search_sessions(
        q: Annotated[str, Query(min_length=1, max_length=500, description="Words, matched by their stems.")],
        words: Annotated[str, Query(pattern="^(all|any)$", description="Whether all words must occur.")] = "all",
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
    ) -> FoundSessionsOut:
        """Full-text search in titles and verdicts of ended sessions, best match first."""
        async with deps.database.reading() as db:
            found = await history.search_verdicts(
                db, strip_control_characters(q) or "", all_words=words == "all", limit=limit
            )
            triaged = await triage_of(db, [match.session.id for match in found])
        return FoundSessionsOut(
            items=[_found(match, triaged.get(match.session.id, triage.UNTOUCHED)) for match in found]
        )

    @router.get("/system/ratings")
    async def read_ratings(
        since: Annotated[Time | None, Query(description="Only sessions that ended at this time or later.")] = None,
    ) -> RatingsOut:
        """How people rated the verdicts, by chain."""
        async with deps.database.reading() as db:
            counted = await triage.count_ratings(db, since=to_utc(since, "since"))
        items = [RatingCountsOut.model_validate(one) for one in counted]
        names = ("verdicts", "rated", "right", "partly", "wrong")
        return RatingsOut(items=items, **{name: sum(getattr(one, name) for one in items) for name in names})

    return router


def triage_fields(one: Triage) -> TriageOut:
    rating = None
    if one.rating:
        rating = {"rating": one.rating, "note": one.rating_note, "by": one.rated_by, "at": one.rated_at}
    return TriageOut.model_validate({**asdict(one), "state": one.state, "rating": rating})


def _found(match: Match, triaged: Triage) -> FoundSessionOut:
    session = match.session
    verdict = session.verdict or {}
    return FoundSessionOut(
        id=session.id,
        status=session.status,
        alert_type=session.alert_type,
        title=session.title,
        created_at=session.created_at,
        ended_at=session.ended_at,
        cause=verdict.get("cause", ""),
        service=verdict.get("service", ""),
        rating=triaged.rating,
        snippet=match.snippet.text,
        ranges=list(match.snippet.ranges),
    )
