"""The work on a follow-up question: the agent of the session's last stage answers it.

It has the same servers, override and handles as the session: what its tools return is
kept with the session's results. It is told the alert, the analysis, the verdict, which
results there are, and the questions and answers before. Without a model, the answer is
a search over the kept results.

Like an investigation, all of it may run again after a crash (`sessions.investigate`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tersely.agent.assignment import Report
from tersely.agent.budget_options import BudgetOptions
from tersely.condensing.prompt_files import Prompt
from tersely.events.recorder import SessionRecorder
from tersely.masking.mask import Masker
from tersely.masking.masked import NOTHING, Masked, from_store
from tersely.results.search_all import FoundPassages, search_results
from tersely.sessions import overrides
from tersely.sessions.chat_options import ChatOptions
from tersely.sessions.investigate import AgentExecution, Investigations
from tersely.sessions.plan import StagePlan, TeamPlan
from tersely.sessions.rerun import Reruns
from tersely.sessions.servers import wait_for_servers, without
from tersely.sessions.worker import SessionOutcome
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.results import KeptResult
from tersely.store.sessions import Session

QUESTION = Prompt("chat", "tersely.agent")
CLOSING = Prompt("closing_chat", "tersely.agent")
STAGE = "chat"
MOST_LISTED = 100
"""Kept results that the agent is told of."""

MOST_EARLIER = 8
"""Earlier questions that it is told of."""

_LONGEST_ARGUMENTS = 200


@dataclass(frozen=True, kw_only=True)
class Chats:
    """The work on sessions of kind `chat`."""

    reruns: Reruns
    options: ChatOptions
    database: Database

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        async with self.database.reading() as db:
            parent = await rows.find(db, session.parent_id or "")
            asked = await rows.questions_of(db, [parent.id])
        earlier = [one for one in asked if (one.number or 0) < (session.number or 0) and one.analysis]
        (stage_id,) = await recorder.plan([STAGE])
        about = {"number": session.number, "author": session.scope}
        inner = recorder.within(stage_id, None)
        await inner.record(f"{stage_id}/question", "user_question", from_store(session.alert), about)
        await recorder.stage_status(stage_id, "in_progress")
        outcome = await self._answered(session, parent, earlier, recorder, stage_id)
        await recorder.stage_status(stage_id, outcome.status, reason=outcome.reason, analysis=outcome.analysis)
        return outcome

    async def _answered(
        self, session: Session, parent: Session, earlier: Sequence[Session], recorder: SessionRecorder, stage_id: str
    ) -> SessionOutcome:
        work = self.reruns.of(parent)
        override = overrides.of_session(session.override, work.registry.connections)
        part = self._part(work.plan.teams(session.chain, override)[-1])
        llm = work.models.of(part.providers)
        execution = AgentExecution(
            session=session,
            recorder=recorder,
            stage_id=stage_id,
            id=rows.derived_id(session.id, "execution/0"),
            part=part,
            step=work.step,
            earlier=(),
        )
        inner, budget = await work.begin(execution, part.agent.controller if llm else "search", llm)
        missing: Mapping[str, str] = {}
        if llm is None:
            report = await self._searched(session, inner, work)
        else:
            masker = Masker(key=session.mark_key)
            missing = await wait_for_servers(work.registry, part.servers, inner, masker, key=f"{stage_id}/servers")
            # A step, because the list changes while the question is answered.
            kept = await work.step(f"{stage_id}/results", lambda: _kept_results(work, parent))
            assignment = replace(
                work.assignment(execution),
                # That of the session: the agent reads and keeps results in its scope.
                session_id=parent.id,
                stage=STAGE,
                task=session.alert,
                alert=from_store(parent.alert),
                alert_type=parent.alert_type,
                runbook=from_store(parent.runbook),
                budget=budget,
                remark=without(missing),
                context=_context(parent, earlier, kept),
                answers="chat_response",
                question=QUESTION,
                closing=CLOSING,
            )
            report = await work.investigate(assignment, part, llm, inner, work.step)
        reason = " ".join(filter(None, (report.reason, without(missing))))
        await inner.execution_ended(report.status, reason=reason, analysis=report.analysis)
        return SessionOutcome(status=report.status, reason=reason, analysis=report.analysis)

    def _part(self, team: TeamPlan) -> StagePlan:
        """Who answers: the first agent of the last stage, with the servers of all of its agents and its own budget."""
        options = self.options
        servers = tuple(dict.fromkeys(name for part in team.parts for name in part.servers))
        budget = BudgetOptions(tokens=options.max_tokens or None, seconds=options.timeout)
        return replace(team.parts[0], servers=servers, max_iterations=options.max_iterations, budget=budget)

    # Without a model

    async def _searched(self, session: Session, recorder: SessionRecorder, work: Investigations) -> Report:
        key = f"{recorder.stage_id}/search"

        async def search() -> Masked:
            recorder.progress("gathering_info", "Searching the kept results")
            found = await search_results(work.kept, session.results_scope, session.alert)
            answer = _search_answer(found)
            await recorder.record(key, "chat_response", answer, {"search": True, "passages": _as_json(found)})
            return answer

        return Report(analysis=await work.step(key, search), status="completed")


async def _kept_results(work: Investigations, parent: Session) -> Masked:
    found = await work.kept.list(parent.results_scope, limit=MOST_LISTED)
    # Origins were kept masked.
    return from_store("\n".join(_listed(one) for one in reversed(found)))


def _context(parent: Session, earlier: Sequence[Session], kept: Masked) -> list[tuple[str, Masked]]:
    ended = f"The investigation ended as {parent.status}" + (f" ({parent.reason})" if parent.reason else "")
    verdict = json.dumps(parent.verdict, ensure_ascii=False, indent=1) if parent.verdict else ""
    return [
        (f"{ended}. Its analysis", from_store(parent.analysis or "There is none.")),
        ("Its verdict, as JSON", from_store(verdict)),
        ("The results that its tools returned, complete, to be read by handle with read_result", kept),
        *(
            (
                f"Question {one.number}, asked before, and its answer",
                from_store(f"Question: {one.alert}\n\nAnswer: {one.analysis}"),
            )
            for one in earlier[-MOST_EARLIER:]
        ),
    ]


def _listed(result: KeptResult) -> str:
    arguments = json.dumps(result.origin.arguments, ensure_ascii=False) if result.origin.arguments else ""
    shown = f" {arguments[:_LONGEST_ARGUMENTS]}" if arguments else ""
    size = f"{result.tokens:,} tokens, " if result.tokens is not None else ""
    return f"{result.handle}: {result.origin}{shown}: {size}{result.lines:,} lines"


def _search_answer(found: FoundPassages) -> Masked:
    searched = "1 kept result was" if found.searched == 1 else f"{found.searched} kept results were"
    if not found.searched:
        return NOTHING.derive(
            "No model is configured, so a question can only be answered from the kept results, and there are none: "
            "no tool returned any, or their retention time is over."
        )
    if not found.passages:
        return NOTHING.derive(
            f"No model is configured, so {searched} searched for the words of the question. Nothing in them matches."
        )
    parts = [
        f"No model is configured, so {searched} searched for the words of the question. The lines that match best:"
    ]
    for one in found.passages:
        quoted = "\n".join(f"    {line}" for line in one.text.splitlines())
        parts.append(f"{one.result.origin}, {one.result.handle}, {_lines(one.first_line, one.last_line)}:\n\n{quoted}")
    # Passages and origins were kept masked.
    return from_store("\n\n".join(parts))


def _lines(first: int, last: int) -> str:
    return f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"


def _as_json(found: FoundPassages) -> list[dict[str, Any]]:
    return [
        {
            "source": str(one.result.origin),
            "handle": one.result.handle,
            "first_line": one.first_line,
            "last_line": one.last_line,
            "quote": one.text,
        }
        for one in found.passages
    ]
