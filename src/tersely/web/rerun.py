"""Running a session again with changes, and comparing two sessions."""

from typing import Any

from fastapi import APIRouter, Request

from tersely.sessions.compare import ComparedSession, ComparedStage, SessionComparison, compare_sessions
from tersely.sessions.rerun import RerunChanges, RerunIntake
from tersely.store.interactions import ToolTotals
from tersely.web.auth import Caller, Principal
from tersely.web.bodies import JsonRoute
from tersely.web.dependencies import WebDependencies
from tersely.web.paging import OtherSessionId, SessionId
from tersely.web.schemas import ERRORS, AcceptedOut, ComparisonOut, RerunIn
from tersely.web.sessions import check_author, session_fields


def rerun_routes(deps: WebDependencies) -> APIRouter:
    router = APIRouter(tags=["sessions"], responses=ERRORS, route_class=JsonRoute)
    reruns = RerunIntake(intake=deps.intake, database=deps.database)

    @router.post("/sessions/{session_id}/rerun", status_code=202)
    async def run_session_again(
        request: Request, session_id: SessionId, body: RerunIn | None = None, principal: Principal = Caller
    ) -> AcceptedOut:
        """Investigate the alert of an ended session again, in a new session; with changes, if there are any."""
        await check_author(deps.database, session_id, principal, "run this session again")
        wanted = body or RerunIn()
        changes = RerunChanges(
            llm_provider=wanted.llm_provider, chain=wanted.chain, override=wanted.mcp, from_stage=wanted.from_stage
        )
        may_add = principal.has_scope("override")
        accepted = await reruns.run_again(session_id, changes, principal=principal.name, may_add=may_add)
        request.state.audited = accepted.session_id
        return AcceptedOut(session_id=accepted.session_id, status=accepted.status, message=accepted.message)

    @router.get("/sessions/{session_id}/compare/{other_id}")
    async def compare_two_sessions(session_id: SessionId, other_id: OtherSessionId) -> ComparisonOut:
        """Two sessions side by side."""
        async with deps.database.reading() as db:
            return ComparisonOut.model_validate(_comparison(await compare_sessions(db, session_id, other_id)))

    return router


def _comparison(found: SessionComparison) -> dict[str, Any]:
    sides = (found.first, found.second)
    both, only_first, only_second = found.evidence()
    causes = [((side.session.verdict or {}).get("cause") or "").strip().lower() for side in sides]
    return {
        "sessions": [_side(side) for side in sides],
        "same_cause": bool(causes[0]) and causes[0] == causes[1],
        "evidence": {"both": both, "only_first": only_first, "only_second": only_second},
        "stages": [
            {"name": name, "sessions": [_stage(side.stages.get(name)) for side in sides]} for name in found.stages
        ],
        "tools": [{"name": name, "sessions": [_tool(side.tools.get(name)) for side in sides]} for name in found.tools],
    }


def _side(one: ComparedSession) -> dict[str, Any]:
    listed = session_fields(one.session)
    shared = ("id", "title", "status", "reason", "alert_type", "chain", "created_at", "usage", "tokens", "origin_id")
    return {
        **{name: listed[name] for name in shared},
        "verdict": one.session.verdict,
        "analysis": one.session.analysis,
        "models": list(one.models),
        "duration_seconds": one.seconds,
    }


def _stage(one: ComparedStage | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {
        "status": one.status,
        "duration_seconds": one.seconds,
        "agents": list(one.agents),
        "models": list(one.models),
    }


def _tool(one: ToolTotals | None) -> dict[str, Any]:
    totals = one or ToolTotals()
    return {
        "calls": totals.calls,
        "errors": totals.errors,
        "result_tokens": totals.tokens,
        "duration_ms": totals.milliseconds,
    }
