"""Records what happens in a session: each event is stored first, then published.

Implements `agent.recorder.Recorder`, and adds what the code that runs a session needs.
Every write is keyed by its step and carries the worker's attempt: a repeated step
changes nothing, and a worker that lost the session gets `LostSession`.

After a rewind, the agent may do something else in a step of the same name. So each
rewind, told by a notice in the timeline, begins a new set of names: what was recorded
before stays, and what follows is recorded beside it.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

import anyio

from tersely.errors import LostSession, StoreUnavailable
from tersely.events import log
from tersely.events.bus import Bus
from tersely.events.types import EventType, ExecutionProgress, FinalStatus, Phase, SessionProgress, encode_transient
from tersely.llm.messages import Message
from tersely.masking.masked import NOTHING, Masked
from tersely.store import claims, events, interactions, sessions, stages, timeline
from tersely.store.claims import SessionEnd
from tersely.store.database import Connection, Database
from tersely.store.events import SESSIONS, Logged
from tersely.store.interactions import Interaction, InteractionType, NewInteraction
from tersely.store.packing import storable
from tersely.store.retrying import retry_while_unavailable
from tersely.store.stages import ExecutionEnd, ExecutionKind, NewExecution, StageChange
from tersely.store.statuses import End, PartStatus
from tersely.store.timeline import EarlierEvent, EventStatus, NewTimelineEvent, TimelineCompletion

logger = logging.getLogger(__name__)

T = TypeVar("T")

CHUNK_SECONDS = 0.03
"""How long text is collected before it is published as a chunk."""

FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
"""Seconds between two attempts to write while the store is unavailable."""

OURS_FOR = 0.5
"""Seconds for which a confirmed ownership is trusted: half of the shortest lease."""


class SessionRecorder:
    def __init__(
        self,
        database: Database,
        bus: Bus,
        session_id: str,
        attempt: int,
        *,
        stage_id: str | None = None,
        execution_id: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_point: Callable[[str], None] = lambda point: None,
    ) -> None:
        """
        Args:
            on_point: Called with the name of each crash point as it is passed; a test ends the process there.
        """
        self._database = database
        self._bus = bus
        self.session_id = session_id
        self.attempt = attempt
        self.stage_id = stage_id
        self.execution_id = execution_id
        self._clock = clock
        self._on_point = on_point
        self._shared = _Shared()
        self._on_exchange: Callable[[Interaction], None] = lambda record: None

    def within(
        self, stage_id: str, execution_id: str | None, on_exchange: Callable[[Interaction], None] = lambda record: None
    ) -> "SessionRecorder":
        """A recorder for one agent's execution in one stage.

        Args:
            on_exchange: Called with each exchange with a model that is recorded here.
        """
        inner = SessionRecorder(
            self._database,
            self._bus,
            self.session_id,
            self.attempt,
            stage_id=stage_id,
            execution_id=execution_id,
            clock=self._clock,
            on_point=self._on_point,
        )
        inner._shared = self._shared
        inner._on_exchange = on_exchange
        return inner

    async def spent(self) -> tuple[int, datetime]:
        """Tokens of models and the beginning: of this recorder's execution, else of its stage, else of the session."""

        async def ask(db: Connection) -> tuple[int, datetime | None]:
            tokens = await interactions.tokens_of(db, self.session_id, self.stage_id, self.execution_id)
            return tokens, await stages.began(db, self.session_id, self.stage_id, self.execution_id)

        tokens, began = await self._write(ask)
        return tokens, began or self._clock()

    def now(self) -> datetime:
        return self._clock()

    async def go_on(self, stored_steps: Callable[[], Awaitable[Collection[str]]]) -> None:
        """Prepare to record a session that another attempt began: find its rewinds, and end what they cut off.

        Args:
            stored_steps: Asks for the names of the steps whose results are stored.
        """
        shared = self._shared
        shared.stored_steps = stored_steps
        shared.rewinds = await self._write(lambda db: timeline.rewinds(db, self.session_id))
        if not shared.rewinds:
            return
        for event in await self._write(lambda db: timeline.streaming(db, self.session_id, before=shared.rewinds[-1])):
            end = TimelineCompletion(
                event_id=event.event_id,
                event_type=event.event_type,
                content=event.content,
                metadata=event.metadata,
                status="cancelled",
            )
            await self._complete(f"rewound/{event.event_id}", end)

    def release(self) -> None:
        """Write nothing from now on: another worker resumes the session, with its streaming events."""
        self._shared.released = True

    # For agents: `agent.recorder.Recorder`

    @asynccontextmanager
    async def opened(
        self, step: str, event_type: EventType, *, content: Masked = NOTHING, metadata: Mapping[str, Any] = {}
    ) -> AsyncIterator["StreamingEvent"]:
        """Create an event with status `streaming`. If the block is left without `complete`, the event ends as failed,
        or as cancelled if the block was.
        """
        step = self._named(step)
        event = StreamingEvent(self, step, event_type, content, metadata)
        answers: list[bool] = []

        async def create(db: Connection) -> Logged | None:
            logged = await self._create(db, step, event_type, content, metadata, "streaming")
            answers.append(logged is None)
            return logged

        await self._store_and_publish(create)
        # The first answer: a repeated transaction may find the row that the first one committed without confirmation.
        event.is_repeated = answers[0]
        status: FinalStatus = "failed"
        try:
            yield event
        except anyio.get_cancelled_exc_class():
            status = "cancelled"
            raise
        finally:
            await event._abandon(status)

    async def record(self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any] = {}) -> str:
        """Create an event that is complete; returns its id."""
        return (await self._record(step, event_type, content, metadata))[0]

    async def notice(self, step: str, content: Masked, metadata: Mapping[str, Any] = {}) -> bool:
        """Record a sentence about the run itself; False if it was recorded before."""
        return (await self._record(step, "notice", content, metadata))[1]

    async def _record(
        self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any]
    ) -> tuple[str, bool]:
        """Create an event that is complete; returns its id, and whether it is new.

        This also happens between steps, and again in each replay: what was recorded before a rewind, in the same words,
        is not repeated.
        """
        *earlier, last = self._names(step)
        found: list[str] = []

        async def create(db: Connection) -> Logged | None:
            for name in earlier:
                event = await timeline.find_event(db, self.session_id, self._event_id(name, event_type))
                if event and (event.content, event.metadata) == (storable(content), events.plain(metadata)):
                    found.append(event.event_id)
                    return None
            return await self._create(db, last, event_type, content, metadata, "completed")

        is_new = await self._store_and_publish(create)
        return (found[0] if found else self._event_id(last, event_type)), is_new

    async def earlier(self, event_type: EventType) -> Sequence[EarlierEvent]:
        """If the steps of the session were rewound, the events of this agent and of those it shares tasks with."""
        shared = self._shared
        if not shared.rewinds:
            return ()
        steps = await retry_while_unavailable(shared.stored_steps)

        async def find(db: Connection) -> list[timeline.TimelineEvent]:
            family = await stages.family(db, self.session_id, self.execution_id)
            return await timeline.of_executions(db, self.session_id, family, event_type)

        found = {event.event_id: event for event in await self._write(find)}
        # The result of a stored step belongs to the last event that was recorded for a step of that name.
        known: set[str] = set()
        for step in steps:
            ids = [self._event_id(name, event_type) for name in reversed(self._names(step))]
            known.update([id_ for id_ in ids if id_ in found][:1])
        return [
            EarlierEvent(event.metadata, event.sequence < shared.rewinds[-1] and id_ not in known)
            for id_, event in found.items()
        ]

    def progress(self, phase: Phase, message: str) -> None:
        event = ExecutionProgress(execution_id=self.execution_id or "", phase=phase, message=message)
        payload = encode_transient(event, self.session_id, self._clock())
        self._bus.progress(events.channel_of(self.session_id), f"execution/{self.execution_id}", payload)

    async def interaction(self, step: str, record: Interaction) -> str:
        """Add a tool call to the trace, once per step; returns its id."""
        return await self._add_interaction(step, record)

    async def exchange(self, step: str, record: Interaction) -> str:
        """Add an exchange with a model, and its usage, to the trace; returns its id.

        Its identity includes the attempt: a worker that repeats the step pays again, and both are recorded.
        """
        counts = self._shared.exchanges
        counts[step] += 1
        self._on_exchange(record)
        return await self._add_interaction(f"{step}/{self.attempt}/{counts[step]}", record)

    async def _add_interaction(self, step: str, record: Interaction) -> str:
        step = self._named(step)
        new = NewInteraction(
            id=self._interaction_id(step, record.type),
            step=step,
            stage_id=self.stage_id,
            execution_id=self.execution_id,
            parent_id=self._interaction_id(self._named(record.parent_step), "mcp") if record.parent_step else None,
            exchange=record,
        )
        known = self._shared.stored_messages
        digests = {
            message: known.get(message) or interactions.digest_and_text(message)[0] for message in record.messages
        }

        async def add(db: Connection) -> Logged | None:
            return await log.add_interaction(db, self.session_id, self.attempt, new, now=self._clock(), known=known)

        if await self._store_and_publish(add) and record.messages and record.type != "summarization":
            # Only after the commit are the messages certainly stored. Those of summaries are never sent again.
            self._shared.stored_messages = digests
        return new.id

    def _interaction_id(self, step: str, kind: InteractionType) -> str:
        return sessions.derived_id(self.session_id, f"interaction/{step}/{kind}")

    async def still_ours(self) -> None:
        """Check ownership just before an action that cannot be undone: a worker that was suspended may have lost the
        session without noticing.

        Raises:
            LostSession: The session belongs to another worker.
        """
        shared = self._shared
        while time.monotonic() - shared.confirmed_at > OURS_FOR:
            asked = time.monotonic()
            if not await self._write(lambda db: claims.is_held(db, self.session_id, self.attempt)):
                raise LostSession(f"Session {self.session_id} belongs to another worker.")
            # The time of the question: if the process was suspended before the answer was read, it asks again.
            shared.confirmed_at = asked

    # For the code that runs a session

    async def plan(self, names: list[str]) -> list[str]:
        """Plan the stages with these names; returns their ids."""
        return await self._write(lambda db: stages.plan_stages(db, self.session_id, self.attempt, names))

    async def stage_status(self, stage_id: str, status: PartStatus, *, reason: str = "", analysis: str = "") -> None:
        """Begin or end a stage."""
        change = StageChange(stage_id=stage_id, status=status, reason=reason, analysis=analysis)
        is_new = await self._store_and_publish(
            lambda db: log.move_stage(db, self.session_id, self.attempt, change, now=self._clock())
        )
        if not is_new and status != "in_progress":
            await self._replace_end(change)

    async def execution_began(
        self,
        *,
        agent: str,
        controller: str,
        provider: str,
        model: str,
        kind: ExecutionKind = "agent",
        position: int = 0,
        parent_id: str | None = None,
        task: str = "",
    ) -> None:
        """Begin this recorder's execution.

        Args:
            position: From 0, within the stage.
            parent_id: Of a sub-agent: the execution that handed out the task.
        """
        new = NewExecution(
            id=self.execution_id or "",
            stage_id=self.stage_id or "",
            agent=agent,
            controller=controller,
            provider=provider,
            model=model,
            kind=kind,
            position=position,
            parent_id=parent_id,
            task=task,
        )
        await self._store_and_publish(
            lambda db: log.begin_execution(db, self.session_id, self.attempt, new, now=self._clock())
        )

    async def execution_ended(
        self, status: End, *, reason: str = "", analysis: str = "", verdict: Mapping[str, Any] | None = None
    ) -> None:
        end = ExecutionEnd(
            execution_id=self.execution_id or "", status=status, reason=reason, analysis=analysis, verdict=verdict
        )
        is_new = await self._store_and_publish(
            lambda db: log.end_execution(db, self.session_id, self.attempt, end, now=self._clock())
        )
        if not is_new:
            await self._replace_end(end)

    async def _replace_end(self, end: StageChange | ExecutionEnd) -> None:
        if self._shared.rewinds:
            await self._write(lambda db: stages.replace_end(db, self.session_id, self.attempt, end))

    async def session_status(self, status: End, *, reason: str = "", analysis: str = "") -> None:
        """End the session and everything of it that is still open."""
        end = SessionEnd(status=status, reason=reason, analysis=analysis)
        logged = await self._write(
            lambda db: log.end_session(db, self.session_id, self.attempt, end, now=self._clock())
        )
        self._bus.publish(*logged)

    def session_progress(self, stage_index: int, stage_count: int, stage_name: str) -> None:
        event = SessionProgress(stage_index=stage_index, stage_count=stage_count, stage_name=stage_name)
        payload = encode_transient(event, self.session_id, self._clock())
        self._bus.progress(events.channel_of(self.session_id), "session", payload)
        self._bus.progress(SESSIONS, self.session_id, payload)

    # Writing

    def _names(self, step: str) -> list[str]:
        """The names under which a step has recorded: its own, then one for each rewind."""
        return [step, *(f"{step}@{number}" for number in range(1, len(self._shared.rewinds) + 1))]

    def _named(self, step: str) -> str:
        return self._names(step)[-1]

    def _event_id(self, step: str, event_type: str) -> str:
        return sessions.derived_id(self.session_id, f"event/{step}/{event_type}")

    async def _create(
        self,
        db: Connection,
        step: str,
        event_type: EventType,
        content: str,
        metadata: Mapping[str, Any],
        status: EventStatus,
    ) -> Logged | None:
        new = NewTimelineEvent(
            event_id=self._event_id(step, event_type),
            event_type=event_type,
            stage_id=self.stage_id,
            execution_id=self.execution_id,
            content=content,
            metadata=metadata,
            status=status,
        )
        return await log.create_timeline_event(db, self.session_id, self.attempt, step, new, now=self._clock())

    async def _complete(self, step: str, completion: TimelineCompletion) -> None:
        await self._store_and_publish(
            lambda db: log.complete_timeline_event(
                db, self.session_id, self.attempt, step, completion, now=self._clock()
            )
        )

    async def _store_and_publish(self, work: Callable[[Connection], Awaitable[Logged | None]]) -> bool:
        logged = await self._write(work)
        self._on_point("stored, before it is published")
        if logged is not None:
            self._bus.publish(logged)
        return logged is not None

    async def _write(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run a transaction, retrying for as long as the store is unavailable: work that was done must not be repeated
        because it could not be recorded.

        A transaction that was committed without confirmation is repeated, and then changes nothing.
        """
        pause = FIRST_PAUSE
        while not self._shared.released:
            try:
                async with self._database.transaction() as db:
                    return await work(db)
            except StoreUnavailable as problem:
                logger.warning(
                    "store_unavailable",
                    extra={"session_id": self.session_id, "reason": str(problem), "again_in": pause},
                )
            await anyio.sleep(pause)
            pause = min(LAST_PAUSE, pause * 2)
        raise LostSession(f"Session {self.session_id} was released by this worker.")


async def _no_steps() -> Collection[str]:
    return ()


class _Shared:
    """State that the recorders of one session and worker share."""

    def __init__(self) -> None:
        self.stored_messages: Mapping[Message, str] = {}
        """Messages of the agent's last exchange, with their digests."""

        self.rewinds: Sequence[int] = ()
        """The `sequence` of each notice of a rewind."""

        self.stored_steps: Callable[[], Awaitable[Collection[str]]] = _no_steps

        self.exchanges: Counter[str] = Counter()
        """Exchanges by step."""

        self.released = False
        self.confirmed_at = float("-inf")
        """When the ownership of the session was last confirmed."""


class StreamingEvent:
    """A timeline event that grows in front of viewers until it is completed."""

    def __init__(
        self, recorder: SessionRecorder, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any]
    ) -> None:
        self.id = recorder._event_id(step, event_type)
        self.is_repeated = False
        self._recorder = recorder
        self._step = step
        self._event_type: EventType = event_type
        self._initial = content
        self._metadata = dict(metadata)
        self._published: list[str] = []
        self._offset = 0
        self._pending: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._ended = False

    def delta(self, text: Masked) -> None:
        """Append to the content; published together with what follows within `CHUNK_SECONDS`."""
        if self._stopped or not text:
            return
        self._pending.append(text)
        if self._timer is None:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._on_timer)

    def restart(self) -> None:
        """Discard the content so far."""
        self._pending.clear()
        self._published.clear()
        if self._offset:
            self._offset = 0
            self._publish("")

    async def complete(
        self, content: Masked, metadata: Mapping[str, Any] = {}, *, status: FinalStatus = "completed"
    ) -> None:
        """End the event, once; `metadata` is added to that of the creation."""
        if self._ended:
            return
        self._stop()
        recorder = self._recorder
        completion = TimelineCompletion(
            event_id=self.id,
            event_type=self._event_type,
            content=content,
            metadata={**self._metadata, **metadata},
            status=status,
        )
        try:
            await recorder._complete(self._step, completion)
        except LostSession:
            # Another worker repeats the step and completes this event.
            self._ended = True
            raise
        self._ended = True

    async def _abandon(self, status: FinalStatus) -> None:
        if self._ended:
            return
        # Shielded: without an end the event would stream for ever. If the session was lost, its next worker completes
        # the event.
        with anyio.CancelScope(shield=True), suppress(LostSession):
            # What was shown remains: it is masked, and there is nothing else.
            await self.complete(
                NOTHING.derive(self._initial + "".join([*self._published, *self._pending])), status=status
            )

    def _on_timer(self) -> None:
        self._timer = None
        if self._pending:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._on_timer)

    def _flush(self) -> None:
        # Unstorable characters are replaced before they are counted, so that offsets match what viewers have.
        text = storable("".join(self._pending))
        self._pending.clear()
        self._published.append(text)
        self._publish(text)
        self._offset += len(text)

    def _publish(self, text: str) -> None:
        self._recorder._bus.chunk(
            self._recorder.session_id, self.id, offset=self._offset, delta=text, attempt=self._recorder.attempt
        )

    def _stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
