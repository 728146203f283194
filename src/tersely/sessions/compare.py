"""Two sessions side by side: verdicts, evidence, stages, tools, tokens, money and time.

Stages are matched by name, tools by server and name, evidence by source and quotation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tersely.store import interactions, stages
from tersely.store import sessions as rows
from tersely.store.database import Connection
from tersely.store.interactions import ToolTotals
from tersely.store.sessions import Session
from tersely.store.stages import Execution, Stage


@dataclass(frozen=True, kw_only=True)
class ComparedStage:
    """One stage of one session."""

    status: str
    seconds: float | None
    agents: Sequence[str]
    models: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class ComparedSession:
    session: Session
    seconds: float | None
    """From its start to its end; None if it was never started."""

    models: Sequence[str]
    stages: Mapping[str, ComparedStage]
    tools: Mapping[str, ToolTotals]
    """By `server.tool`."""

    evidence: Mapping[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    """By source and quotation."""


@dataclass(frozen=True, kw_only=True)
class SessionComparison:
    first: ComparedSession
    second: ComparedSession

    @property
    def stages(self) -> list[str]:
        """The names of all stages, in order."""
        return list(dict.fromkeys([*self.first.stages, *self.second.stages]))

    @property
    def tools(self) -> list[str]:
        return sorted({*self.first.tools, *self.second.tools})

    def evidence(self) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """What both cite, what only the first cites, and what only the second cites."""
        first, second = self.first.evidence, self.second.evidence
        return (
            [cited for key, cited in first.items() if key in second],
            [cited for key, cited in first.items() if key not in second],
            [cited for key, cited in second.items() if key not in first],
        )


async def compare_sessions(db: Connection, first: str, second: str) -> SessionComparison:
    """
    Raises:
        SessionNotFound: One of them does not exist.
    """
    return SessionComparison(first=await _one(db, first), second=await _one(db, second))


async def _one(db: Connection, session_id: str) -> ComparedSession:
    session = await rows.find(db, session_id)
    executions = await stages.executions_of(db, session_id)
    planned = await stages.stages_of(db, session_id)
    cited = (session.verdict or {}).get("evidence") or []
    return ComparedSession(
        session=session,
        seconds=_seconds(session),
        models=_models(executions),
        stages={one.name: _stage(one, [ran for ran in executions if ran.stage_id == one.id]) for one in planned},
        tools=await interactions.tool_totals(db, session_id),
        evidence={(str(one.get("source")), " ".join(str(one.get("quote")).split())): one for one in cited},
    )


def _stage(stage: Stage, executions: Sequence[Execution]) -> ComparedStage:
    agents = list(dict.fromkeys(one.agent for one in executions))
    return ComparedStage(status=stage.status, seconds=_seconds(stage), agents=agents, models=_models(executions))


def _models(executions: Sequence[Execution]) -> list[str]:
    return list(dict.fromkeys(one.model or one.controller for one in executions))


def _seconds(one: Session | Stage) -> float | None:
    if one.started_at is None or one.ended_at is None:
        return None
    return max(0.0, (one.ended_at - one.started_at).total_seconds())
