"""Submit, cancel, resolve and delete sessions, for every entry point.

An alert is accepted when its row is committed, not before; from then on its session
will end. Its content is masked before it is stored. Nothing is fetched: a runbook is
text.
"""

import hashlib
import json
import logging
import secrets
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio

from tersely.cpu.pool import WorkerDied
from tersely.cpu.run import run_cpu
from tersely.errors import (
    IdempotencyConflict,
    InputError,
    MaskingFailed,
    OverrideRefused,
    QueueFull,
    SessionEnded,
    StoreUnavailable,
)
from tersely.events import log
from tersely.events.bus import Bus
from tersely.masking.masked import Masked
from tersely.mcp.registry import ServerConnection, missing_servers, starting_servers
from tersely.pipeline.admit import admit_text
from tersely.sessions import overrides
from tersely.sessions.durable import Engine
from tersely.sessions.fingerprint import fingerprint_of
from tersely.sessions.overrides import AcceptedOverride, Override
from tersely.sessions.plan import InvestigationPlan
from tersely.sessions.runbook_options import ADDRESS, RunbookOptions
from tersely.sessions.runbooks import Runbooks
from tersely.sessions.worker import Worker
from tersely.store import groups
from tersely.store import sessions as rows
from tersely.store.database import Database
from tersely.store.groups import Group
from tersely.store.idempotency import IdempotencyKey
from tersely.store.sessions import Created, NewSession
from tersely.store.statuses import Status
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

LONGEST_RUNBOOK = 64 * 1024
LONGEST_TITLE = 160
SMALL = 8_000
"""Characters that are masked faster than a thread switch takes."""

RETRY_SECONDS = FULL_SECONDS = 30
"""When to send an alert again that found the queue full, and how long others are checked early."""

Check = Callable[[str, str], object]
"""Raises `InputError` if a chain cannot work on an alert with this text."""


@dataclass(frozen=True, kw_only=True)
class Submission:
    """An alert as it was sent, not masked."""

    data: str | Mapping[str, Any]
    """Text, or an object as monitoring systems send it."""

    alert_type: str | None = None
    runbook: str = ""
    fingerprint: str = ""
    """As the sender names it; by default derived from the alert."""

    override: Override | None = None
    may_add: bool = True
    """Whether its sender may choose servers and native tools that the chain does not use."""


@dataclass(frozen=True, kw_only=True)
class Accepted:
    session_id: str
    message: str
    status: Status = "pending"


class AlertIntake:
    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        engine: Engine,
        worker: Worker,
        plan: InvestigationPlan,
        servers: Mapping[str, ServerConnection],
        max_pending: int,
        checks: Mapping[str, Check] = {},
        runbooks: Runbooks | None = None,
        on_point: Callable[[str], None] = lambda point: None,
    ) -> None:
        """
        Args:
            checks: By kind of session, the check of an alert's text.
            runbooks: Checks the addresses of runbooks.
            on_point: Called with the name of each crash point as it is passed; a test ends the process there.
        """
        self._database = database
        self._bus = bus
        self._engine = engine
        self._worker = worker
        self.plan = plan
        self.servers = servers
        self._max_pending = max_pending
        self._checks = checks
        self._runbooks = runbooks or Runbooks(RunbookOptions())
        self._on_point = on_point
        self._was_full_until = float("-inf")

    async def submit(
        self, submission: Submission, *, principal: str, idempotency_key: str | None = None, group: Group | None = None
    ) -> Accepted:
        """Accept an alert: store it and queue its session.

        Args:
            group: The alert group of the notification; the first notification of a group creates the session.

        Raises:
            InputError: The alert is invalid; the message says what would be valid.
            QueueFull: Too many sessions are pending.
            StoreUnavailable: It was not accepted; send it again.
        """
        alert_type, chain = self.plan.chain_for(submission.alert_type)
        if len(submission.runbook.encode("utf-8", "replace")) > LONGEST_RUNBOOK:
            raise InputError(f"runbook is longer than {LONGEST_RUNBOOK:,} bytes. Send the part that matters.")
        if ADDRESS.fullmatch(submission.runbook.strip()):
            self._runbooks.check(submission.runbook)
        override = self.accepted_override(submission.override, chain, may_add=submission.may_add)
        text = _as_text(submission.data)
        if not text.strip():
            raise InputError("data is empty: there is nothing to investigate.")
        self.check(chain, text)
        if idempotency_key is None and group is None and anyio.current_time() < self._was_full_until:
            await self._check_queue()
        session_id = str(uuid.uuid4())
        key = secrets.token_bytes(32)
        alert, runbook, title = await self._masked(submission, text, key)
        new = NewSession(
            id=session_id,
            scope=principal,
            kind=self.plan.chains[chain].kind,
            alert_type=alert_type,
            chain=chain,
            title=title,
            alert=alert,
            runbook=runbook,
            override=override.model_dump(mode="json", exclude_defaults=True) if override else None,
            fingerprint=fingerprint_of(
                given=submission.fingerprint,
                group=group.name if group else "",
                data=submission.data,
                alert_type=alert_type,
                title=title,
            ),
            encoding=O200K.name,
            mark_key=key,
        )
        once = IdempotencyKey(key=idempotency_key, digest=_digest(submission)) if idempotency_key is not None else None
        created = await self.store(new, group or once)
        if not created.is_new:
            if not created.same_body:
                raise IdempotencyConflict(
                    "This Idempotency-Key was used for another alert. Use a different key for each alert."
                )
            message = "This alert was accepted before; nothing was started a second time."
            async with self._database.reading() as db:
                earlier = await rows.find(db, created.session_id)
            return Accepted(session_id=created.session_id, message=message, status=earlier.status)
        self.queue(session_id)
        message = self._accepted_message(alert_type, chain, override, submission.runbook)
        return Accepted(session_id=session_id, message=message)

    def check(self, chain: str, text: str) -> None:
        """
        Raises:
            InputError: Sessions of this chain cannot work on an alert with this text.
        """
        if check := self._checks.get(self.plan.chains[chain].kind):
            check(chain, text)

    def queue(self, session_id: str) -> None:
        """Hand a stored session to the workers. It is answered before that: it is accepted, whatever happens now."""
        self._on_point("accepted, before it is answered")
        self._worker.queue_soon(session_id)

    async def _check_queue(self) -> None:
        """Refuse before masking, for a while after the queue was full; `store` checks each time."""
        async with self._database.reading(light=True) as db:
            pending = await rows.count_pending(db)
        if pending >= self._max_pending:
            raise self._queue_full(pending)

    def _queue_full(self, pending: int) -> QueueFull:
        self._was_full_until = anyio.current_time() + FULL_SECONDS
        return QueueFull(
            f"The queue is full: {pending:,} alerts are pending. Send it again later.", retry_after=RETRY_SECONDS
        )

    async def store(self, new: NewSession, once: IdempotencyKey | Group | None) -> Created:
        """Store and publish a new session; a conflict of two transactions or a lost connection is retried."""
        began = anyio.current_time()
        for pause in (0.05, 0.2, None):
            try:
                async with self._database.transaction() as db:
                    if pause != 0.05 and await rows.exists(db, new.id):
                        # The previous attempt was committed without confirmation.
                        return Created(session_id=new.id, is_new=True)
                    created, logged = await log.create_session(db, new, now=self._database.clock.now(), once=once)
                    if created.is_new and (pending := await rows.count_pending(db)) > self._max_pending:
                        # Raised inside the transaction, which is rolled back.
                        raise self._queue_full(pending - 1)
                self._bus.publish(*logged)
                return created
            except StoreUnavailable:
                if pause is None or anyio.current_time() - began > 2:
                    raise
                await anyio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def cancel(self, session_id: str, *, by: str) -> str:
        """Cancel a session on whichever worker it runs; returns its status. A pending one ends at once.

        Raises:
            SessionNotFound: It does not exist.
            SessionEnded: It has ended.
        """
        async with self._database.transaction() as db:
            before = await rows.find(db, session_id)
            if before.has_ended:
                raise SessionEnded(
                    f"Session {session_id} has already ended as {before.status}; there is nothing to cancel."
                )
            who = "the local user" if by == "local" else by
            cancelled = await log.request_cancel(
                db, session_id, reason=f"Cancelled by {who}.", now=self._database.clock.now()
            )
        self._bus.publish(*cancelled.events)
        if cancelled.status == "cancelled":
            try:
                await self._engine.cancel(session_id)
            except StoreUnavailable as problem:
                # The worker that dequeues it will see that it has ended.
                logger.warning("not_withdrawn", extra={"session_id": session_id, "reason": str(problem)})
            await self._worker.queue_next_question(session_id)
        else:
            self._worker.cancel_here(session_id)
        return cancelled.status

    async def resolve(self, group: Group, *, principal: str) -> str | None:
        """Record on the session of a group that the group is resolved; returns the session's id, if there is one."""
        async with self._database.transaction() as db:
            session_id = await groups.session_of(db, principal, group)
            if session_id:
                await rows.resolve(db, session_id, now=self._database.clock.now())
        return session_id

    async def delete(self, session_id: str) -> None:
        """Delete an ended session with its results.

        Raises:
            SessionNotFound: It does not exist.
            SessionNotEnded: Cancel it first.
        """
        async with self._database.transaction(heavy=True) as db:
            questions = [one.id for one in await rows.questions_of(db, [session_id])]
            await rows.delete(db, session_id)
        await self._engine.delete([session_id, *questions])

    def accepted_override(self, override: Override | None, chain: str, *, may_add: bool) -> AcceptedOverride | None:
        """
        Args:
            may_add: Whether its sender may choose what the chain does not use.

        Raises:
            OverrideRefused: It names what does not exist, or what this alert may not use.
        """
        policy = self.plan.chains[chain].override
        if override is None:
            return None
        if policy == "none":
            raise OverrideRefused([("mcp", f"Alerts of the chain {chain!r} cannot choose servers or tools.")])
        narrows = policy == "narrow" or not may_add
        wrong = overrides.mistakes(override, self.servers)
        if narrows and not wrong:
            used = {name for part in self.plan.parts(chain, None) for name in part.servers}
            wrong = overrides.additions(override, used, self.plan.native_tools_of(chain), chain=chain)
        if wrong:
            raise OverrideRefused([(mistake.field, mistake.message) for mistake in wrong])
        return AcceptedOverride(**dict(override), narrows=narrows)

    async def _masked(self, submission: Submission, text: str, key: bytes) -> tuple[Masked, Masked, Masked]:
        """Alert, runbook and title, cleaned and masked.

        Raises:
            InputError: Nothing of it may be stored.
        """
        options = self.plan.defaults.alert_masking
        masker = options.masker(key) if options.enabled else None
        size = len(text) + len(submission.runbook)

        async def admitted(text: str) -> Masked:
            return admit_text(text, masker) if size <= SMALL else await run_cpu(admit_text, text, masker)

        try:
            # An object is masked value by value before it is serialized, while lines inside its texts are still lines.
            if masker and not isinstance(submission.data, str):
                mask, data = masker.mask_json, submission.data
                text = _as_text(mask(data) if size <= SMALL else await run_cpu(mask, data, size=size))
            title = await admitted(_title(submission.data))
            return await admitted(text), await admitted(submission.runbook), title.head(LONGEST_TITLE)
        except (MaskingFailed, WorkerDied):
            raise InputError("The alert could not be checked for secrets, so it was not accepted.") from None

    def _accepted_message(self, alert_type: str, chain: str, override: AcceptedOverride | None, runbook: str) -> str:
        parts = self.plan.parts(chain, override)
        names = dict.fromkeys(name for part in parts for name in part.servers if name in self.servers)
        starting = starting_servers(self.servers, names)
        down = [name for name in missing_servers(self.servers, names) if name not in starting]
        message = f"Alert of type {alert_type} accepted; it is queued."
        if starting:
            message += f" Starting, and waited for when it runs: {', '.join(starting)}."
        if down:
            message += f" Not reachable at the moment, and tried again when it runs: {', '.join(down)}."
        wanted = override.native_tools.enabled() if override and override.native_tools else ()
        if off := [name for name in wanted if not any(getattr(part.native_tools, name) for part in parts)]:
            message += f" Turned off in the configuration, and left off: {', '.join(off)}."
        if ADDRESS.fullmatch(runbook.strip()):
            message += " The runbook is read from its address when it runs."
        return message


def _as_text(data: str | Mapping[str, Any]) -> str:
    if isinstance(data, str):
        return data
    return json.dumps(data, ensure_ascii=False, indent=2) if data else ""


_NESTED = ("commonLabels", "labels", "groupLabels", "annotations", "commonAnnotations")
_TITLE_FIELDS = ("title", "alertname", "alert_name", "name", "summary", "subject", "message", "description")


def _title(data: str | Mapping[str, Any]) -> str:
    """One line for lists: a field that names the alert, or its first line."""
    if isinstance(data, str):
        with suppress(ValueError, RecursionError):
            data = json.loads(data)
    if isinstance(data, Mapping):
        spots = [data, *(data[name] for name in _NESTED if isinstance(data.get(name), Mapping))]
        for name in _TITLE_FIELDS:
            for spot in spots:
                if isinstance(spot.get(name), str) and spot[name].strip():
                    return " ".join(spot[name].split())[: 4 * LONGEST_TITLE]
        return " ".join(json.dumps(data, ensure_ascii=False).split())[: 4 * LONGEST_TITLE]
    text = str(data)
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip()), "")[: 4 * LONGEST_TITLE]


def _digest(submission: Submission) -> str:
    """A digest of what was sent, to detect a key that is reused for another alert. Not of what is stored: masks differ
    from session to session.
    """
    override = submission.override.model_dump_json(exclude_none=True) if submission.override else None
    whole = [submission.data, submission.alert_type, submission.runbook, override]
    return hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode("utf-8", "surrogatepass")).hexdigest()
