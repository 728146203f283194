"""Runs the alert of an ended session again: as it was, with another model, chain or tools, or from a failed stage.

The new session knows its origin and what was changed. From a stage on, it takes over the
analyses of the stages before it; their texts are stored with the new session, because
the origin may be deleted. Its results are its own.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tersely.errors import ConfigError, InputError, SessionNotEnded
from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import fill, from_store
from tersely.sessions import overrides
from tersely.sessions.chains import StageOptions
from tersely.sessions.intake import Accepted, AlertIntake
from tersely.sessions.investigate import Investigations
from tersely.sessions.near_names import did_you_mean
from tersely.sessions.overrides import Override
from tersely.sessions.plan import InvestigationPlan
from tersely.sessions.worker import SessionOutcome
from tersely.store import sessions as rows
from tersely.store import stages
from tersely.store.database import Connection, Database
from tersely.store.sessions import NewSession, Session

TAKEN_OVER = "earlier"
"""The key of the analyses that were taken over, in the stored changes."""


@dataclass(frozen=True, kw_only=True)
class RerunChanges:
    """What differs from the first run; nothing by default."""

    llm_provider: str | None = None
    chain: str | None = None
    override: Override | None = None
    from_stage: str | None = None


@dataclass(frozen=True, kw_only=True)
class RerunIntake:
    intake: AlertIntake
    database: Database

    async def run_again(
        self,
        session_id: str,
        changes: RerunChanges = RerunChanges(),  # noqa: B008 - frozen
        *,
        principal: str,
        may_add: bool = False,
    ) -> Accepted:
        """Investigate the alert of an ended session again, in a new session.

        Args:
            may_add: Whether the sender may choose servers and native tools that the chain does not use.

        Raises:
            SessionNotFound: It does not exist.
            SessionNotEnded: It is still running.
            InputError: A change names what does not exist, or cannot be made.
            QueueFull: Too many sessions are pending.
            StoreUnavailable: It was not accepted; send it again.
        """
        plan = self.intake.plan
        async with self.database.reading() as db:
            old = await rows.find(db, session_id)
            if not old.has_ended:
                raise SessionNotEnded(session_id, old.status)
            if old.parent_id:
                raise InputError(f"{old.id} is a follow-up question. Ask it again, or run {old.parent_id} again.")
            alert_type, chain = self._chain(old, changes)
            changed = self._changes(old, changes)
            if changes.from_stage:
                if chain != old.chain:
                    raise InputError("from_stage: another chain has to begin with its first stage.")
                changed |= await self._from_stage(db, old, changes.from_stage)
        override = self._override(old, changes, chain, may_add=may_add)
        # Nothing is accepted that would fail at once.
        try:
            plan.parts(chain, override)
        except ConfigError as problem:
            raise InputError(str(problem)) from None
        self.intake.check(chain, old.alert)
        new = NewSession(
            id=str(uuid.uuid4()),
            scope=principal,
            kind=plan.chains[chain].kind,
            alert_type=alert_type,
            chain=chain,
            title=old.title,
            alert=old.alert,
            runbook=old.runbook,
            override=override.model_dump(mode="json", exclude_defaults=True) if override else None,
            fingerprint=old.fingerprint or "",
            encoding=old.encoding,
            # The marks in the alert verify under its key only.
            mark_key=old.mark_key,
            origin_id=old.id,
            changes=changed or None,
        )
        await self.intake.store(new, None)
        self.intake.queue(new.id)
        return Accepted(session_id=new.id, message=f"The alert of session {session_id} is queued again.")

    def _chain(self, old: Session, changes: RerunChanges) -> tuple[str, str]:
        plan = self.intake.plan
        if changes.chain is None:
            return plan.chain_for(old.alert_type)
        if changes.chain not in plan.chains:
            raise InputError(_unknown("chain", changes.chain, list(plan.chains)))
        types = plan.chains[changes.chain].alert_types
        return (old.alert_type if old.alert_type in types else types[0]), changes.chain

    def _override(
        self, old: Session, changes: RerunChanges, chain: str, *, may_add: bool
    ) -> overrides.AcceptedOverride | None:
        """The override of the new session. Whether it is allowed depends on this chain and this sender, not on those of
        the first run; one that was only allowed to narrow stays so.
        """
        if changes.override:
            return self.intake.accepted_override(changes.override, chain, may_add=may_add)
        stored = overrides.of_session(old.override, self.intake.servers)
        if stored is None:
            return None
        wanted = Override(servers=stored.servers, native_tools=stored.native_tools)
        return self.intake.accepted_override(wanted, chain, may_add=may_add and not stored.narrows)

    def _changes(self, old: Session, changes: RerunChanges) -> dict[str, Any]:
        provider = changes.llm_provider
        if provider is None:
            # A session that was run again with another model is run again with that model.
            provider = (old.changes or {}).get("llm_provider")
        elif provider not in self.intake.plan.providers:
            raise InputError(_unknown("llm_provider", provider, list(self.intake.plan.providers)))
        return {"llm_provider": provider} if provider else {}

    async def _from_stage(self, db: Connection, old: Session, name: str) -> dict[str, Any]:
        planned = await stages.stages_of(db, old.id)
        names = [stage.name for stage in planned]
        earlier = list((old.changes or {}).get(TAKEN_OVER) or [])
        if name not in names:
            raise InputError(_unknown("from_stage", name, names))
        for stage in planned[: names.index(name)]:
            if stage.status != "completed":
                raise InputError(
                    f"from_stage: the stage {stage.name!r} before it ended as {stage.status}; begin with that one."
                )
            earlier.append([stage.name, stage.analysis])
        return {"from_stage": name, TAKEN_OVER: earlier} if earlier else {}


@dataclass(frozen=True, kw_only=True)
class Reruns:
    """The work on sessions of kind `investigation`, with the changes of a session that is run again."""

    investigations: Investigations

    async def __call__(self, session: Session, recorder: SessionRecorder) -> SessionOutcome:
        if earlier := (session.changes or {}).get(TAKEN_OVER):
            names = ", ".join(name for name, _ in earlier)
            said = fill(
                "Taken over from session {origin}, which keeps their results: {names}.",
                origin=from_store(session.origin_id or ""),
                names=from_store(names),
            )
            await recorder.notice("rerun", said, {"origin_id": session.origin_id})
        return await self.of(session)(session, recorder)

    def of(self, session: Session) -> Investigations:
        """How this session is investigated."""
        changes = session.changes or {}
        if not changes:
            return self.investigations
        plan = _changed_plan(self.investigations.plan, session.chain, changes)
        earlier = tuple((name, from_store(analysis)) for name, analysis in changes.get(TAKEN_OVER) or ())
        return replace(self.investigations, plan=plan, earlier=earlier)


def _changed_plan(plan: InvestigationPlan, chain: str, changes: Mapping[str, Any]) -> InvestigationPlan:
    options = plan.chains.get(chain)
    if options is None:
        return plan  # The work says so.
    names = [stage.name for stage in options.stages]
    first = names.index(changes["from_stage"]) if changes.get("from_stage") in names else 0
    chosen = options.stages[first:]
    if provider := changes.get("llm_provider"):
        chosen = tuple(_with_provider(stage, provider) for stage in chosen)
    return replace(plan, chains={**plan.chains, chain: options.model_copy(update={"stages": chosen})})


def _with_provider(stage: StageOptions, provider: str) -> StageOptions:
    """The stage with one provider for all of its agents and their synthesis."""
    chosen = {"llm_provider": provider}
    agents = tuple(agent.model_copy(update=chosen) for agent in stage.agents)
    synthesis = stage.synthesis.model_copy(update=chosen)
    return stage.model_copy(update={**chosen, "agents": agents, "synthesis": synthesis})


def _unknown(field: str, name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known) or f" There are: {', '.join(known) or 'none'}."
    return f"{field}: there is no {name[:100]!r}.{hint}"
