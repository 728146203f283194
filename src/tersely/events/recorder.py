"""What is told of a session while it is worked on: stored first, then told.

Has the shape of `agent.recorder.Diary`, and the few words more that whoever runs the
session needs. Every write is keyed by its step and carries the worker's attempt:
a step that runs again changes nothing, and a worker that lost the session gets
`LostSession` instead of a row.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import anyio
from sqlalchemy.ext.asyncio import AsyncConnection

from tersely.errors import LostSession, StoreUnavailable
from tersely.events import types
from tersely.events.bus import Bus
from tersely.events.types import Phase
from tersely.llm.messages import Message
from tersely.masking.masked import Masked
from tersely.store import events, interactions, sessions, timeline
from tersely.store.database import Database
from tersely.store.events import SESSIONS, Logged
from tersely.store.interactions import Interaction
from tersely.store.packing import storable
from tersely.store.sessions import End, PartStatus

logger = logging.getLogger(__name__)

T = TypeVar("T")
EventType = Literal["llm_thinking", "llm_response", "llm_tool_call", "mcp_tool_summary", "error", "final_analysis"]
Ending = Literal["completed", "failed", "cancelled"]

CHUNK_SECONDS = 0.03
"""How long words are gathered before they are told."""

FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
"""Seconds between two tries to write while the store is away."""

OURS_FOR = 0.5
"""Seconds for which nobody doubts that the session is still this worker's: half of the shortest lease."""

_NOTHING = Masked("")


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
        self._database = database
        self._bus = bus
        self.session_id = session_id
        self.attempt = attempt
        self.stage_id = stage_id
        self.execution_id = execution_id
        self._clock = clock
        self._on_point = on_point
        self._common = _Common()

    def within(self, stage_id: str, execution_id: str) -> "SessionRecorder":
        """The same recorder, for what one agent does in one stage."""
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
        inner._common = self._common
        return inner

    def release(self) -> None:
        """From now on nothing is written: another worker goes on. Events that are streaming are left to it."""
        self._common.release = True

    # What agents tell

    @asynccontextmanager
    async def opened(
        self, step: str, event_type: EventType, *, content: Masked = _NOTHING, metadata: Mapping[str, Any] = {}
    ) -> AsyncIterator["StreamingEvent"]:
        """An event with status `streaming`. Left without `complete` it ends as failed, or cancelled when the work
        was.
        """
        event = StreamingEvent(self, step, event_type, content, metadata)
        await self._tell(lambda db: self._create(db, step, event_type, content, metadata, "streaming"))
        status: Ending = "failed"
        try:
            yield event
        except anyio.get_cancelled_exc_class():
            status = "cancelled"
            raise
        finally:
            await event._abandon(status)

    async def record(self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any] = {}) -> str:
        """An event that is whole at once; its id."""
        await self._tell(lambda db: self._create(db, step, event_type, content, metadata, "completed"))
        return self._event_id(step, event_type)

    def progress(self, phase: Phase, message: str) -> None:
        event = types.ExecutionProgress(execution_id=self.execution_id or "", phase=phase, message=message)
        payload = types.transient(event, self.session_id, self._clock())
        self._bus.progress(events.channel_of(self.session_id), f"execution/{self.execution_id}", payload)

    async def interaction(self, step: str, record: Interaction) -> str:
        """An exchange with a model or a tool, and its usage; its id."""
        interaction_id = sessions.derived_id(self.session_id, f"interaction/{step}/{record.type}")
        known = self._common.known
        digests = {
            message: known.get(message) or interactions.digest_and_text(message)[0] for message in record.messages
        }

        async def add(db: AsyncConnection) -> Logged | None:
            return await interactions.add(
                db,
                self.session_id,
                self.attempt,
                step,
                record,
                interaction_id=interaction_id,
                stage_id=self.stage_id,
                execution_id=self.execution_id,
                now=self._clock(),
                known=known,
            )

        if await self._tell(add):
            # Only now is it certain that they lie in the database.
            self._common.known = digests
        return interaction_id

    async def still_ours(self) -> None:
        """Asked just before something is done that cannot be taken back: a worker that stood still may have lost the
        session
        without having heard of it.

        Raises:
            LostSession: Another worker goes on.
        """
        common = self._common
        while time.monotonic() - common.ours_at > OURS_FOR:
            asked = time.monotonic()
            if not await self._write(lambda db: sessions.is_held(db, self.session_id, self.attempt)):
                raise LostSession(f"Session {self.session_id} belongs to another worker.")
            # As of the question: whoever stood still before the answer was read asks again.
            common.ours_at = asked

    # What whoever runs the session tells

    async def plan(self, stages: list[str]) -> list[str]:
        """The stages there will be, by their names; their ids."""
        return await self._write(lambda db: sessions.plan_stages(db, self.session_id, self.attempt, stages))

    async def stage_status(self, stage_id: str, status: PartStatus, *, reason: str = "", analysis: str = "") -> None:
        """Begin or end a stage."""
        await self._tell(
            lambda db: sessions.move_stage(
                db, self.session_id, self.attempt, stage_id, status, reason=reason, analysis=analysis, now=self._clock()
            )
        )

    async def execution_began(self, *, agent: str, controller: str, provider: str, model: str) -> None:
        """This recorder's execution begins."""
        await self._write(
            lambda db: sessions.begin_execution(
                db,
                self.session_id,
                self.attempt,
                execution_id=self.execution_id or "",
                stage_id=self.stage_id or "",
                agent=agent,
                controller=controller,
                provider=provider,
                model=model,
                now=self._clock(),
            )
        )

    async def execution_ended(self, status: End, *, reason: str = "") -> None:
        await self._write(
            lambda db: sessions.end_execution(
                db, self.session_id, self.attempt, self.execution_id or "", status, reason=reason, now=self._clock()
            )
        )

    async def session_status(self, status: End, *, reason: str = "", analysis: str = "") -> None:
        """End the session and everything of its own that is still open."""

        async def end(db: AsyncConnection) -> list[Logged]:
            return await sessions.end_all(
                db, self.session_id, self.attempt, status, reason, analysis=analysis, now=self._clock()
            )

        self._bus.publish(*await self._write(end))

    def session_progress(self, stage_index: int, stage_count: int, stage_name: str) -> None:
        event = types.SessionProgress(stage_index=stage_index, stage_count=stage_count, stage_name=stage_name)
        payload = types.transient(event, self.session_id, self._clock())
        self._bus.progress(events.channel_of(self.session_id), "session", payload)
        self._bus.progress(SESSIONS, self.session_id, payload)

    # How

    def _event_id(self, step: str, event_type: str) -> str:
        return sessions.derived_id(self.session_id, f"event/{step}/{event_type}")

    async def _create(
        self,
        db: AsyncConnection,
        step: str,
        event_type: EventType,
        content: str,
        metadata: Mapping[str, Any],
        status: timeline.EventStatus,
    ) -> Logged | None:
        return await timeline.create(
            db,
            self.session_id,
            self.attempt,
            step,
            event_id=self._event_id(step, event_type),
            stage_id=self.stage_id,
            execution_id=self.execution_id,
            event_type=event_type,
            content=content,
            metadata=metadata,
            status=status,
            now=self._clock(),
        )

    async def _tell(self, work: Callable[[AsyncConnection], Awaitable[Logged | None]]) -> bool:
        logged = await self._write(work)
        self._on_point("stored, before it is told")
        if logged is not None:
            self._bus.publish(logged)
        return logged is not None

    async def _write(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Write, however long the store is away: what was done must not be done again because it could not be told.

        A write that happened although nobody heard of it is repeated, and changes nothing then.
        """
        pause = FIRST_PAUSE
        while not self._common.release:
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
        raise LostSession(f"Session {self.session_id} was let go here.")


class _Common:
    """What the recorders of one session and worker share."""

    def __init__(self) -> None:
        self.known: Mapping[Message, str] = {}
        self.release = False
        self.ours_at = float("-inf")


class StreamingEvent:
    """An event that grows on viewers' screens until it is completed."""

    def __init__(
        self, recorder: SessionRecorder, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any]
    ) -> None:
        self.id = recorder._event_id(step, event_type)
        self._recorder = recorder
        self._step = step
        self._event_type: EventType = event_type
        self._began = content
        self._metadata = dict(metadata)
        self._told: list[str] = []
        self._offset = 0
        self._gathered: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = False
        self._ended = False

    def delta(self, text: Masked) -> None:
        """A piece more of the content; told together with what comes within a moment."""
        if self._stopped or not text:
            return
        self._gathered.append(text)
        if self._timer is None:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._on_time)

    def restart(self) -> None:
        """What came so far does not count; the content begins anew."""
        self._gathered.clear()
        self._told.clear()
        if self._offset:
            self._offset = 0
            self._chunk("")

    async def complete(
        self, content: Masked, metadata: Mapping[str, Any] = {}, *, status: Ending = "completed"
    ) -> None:
        """The end, once; what `metadata` names is added to what the event began with."""
        if self._ended:
            return
        self._stop()
        recorder, whole = self._recorder, {**self._metadata, **metadata}
        try:
            await recorder._tell(
                lambda db: timeline.complete(
                    db,
                    recorder.session_id,
                    recorder.attempt,
                    self._step,
                    event_id=self.id,
                    event_type=self._event_type,
                    content=content,
                    metadata=whole,
                    status=status,
                    now=recorder._clock(),
                )
            )
        except LostSession:
            # The step will be run again elsewhere, and goes on with this event.
            self._ended = True
            raise
        self._ended = True

    async def _abandon(self, status: Ending) -> None:
        if self._ended:
            return
        # Shielded: an event whose ending is lost streams for ever.
        # Whoever has the session, if it was lost, ends the event or goes on with it.
        with anyio.CancelScope(shield=True), suppress(LostSession):
            # What was shown stays: it is masked, and it is all there is.
            await self.complete(Masked(self._began + "".join([*self._told, *self._gathered])), status=status)

    def _on_time(self) -> None:
        self._timer = None
        if self._gathered:
            self._flush()
            self._timer = asyncio.get_running_loop().call_later(CHUNK_SECONDS, self._on_time)

    def _flush(self) -> None:
        # Before it is counted: characters that nobody takes are replaced, and offsets are to fit what viewers have.
        text = storable("".join(self._gathered))
        self._gathered.clear()
        self._told.append(text)
        self._chunk(text)
        self._offset += len(text)

    def _chunk(self, text: str) -> None:
        self._recorder._bus.chunk(
            self._recorder.session_id, self.id, offset=self._offset, delta=text, attempt=self._recorder.attempt
        )

    def _stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
