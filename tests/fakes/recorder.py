"""The caller's side of an agent's recorder, kept in memory: what was recorded, in order."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tersely.events.types import EventType, FinalStatus, Phase
from tersely.masking.masked import Masked
from tersely.store.interactions import Interaction
from tersely.store.timeline import EarlierEvent


@dataclass
class TimelineEvent:
    id: str
    type: EventType
    content: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    status: str = "streaming"
    streamed: str = ""
    restarts: int = 0
    pieces: int = 0
    is_repeated: bool = False

    def delta(self, text: Masked) -> None:
        assert self.status == "streaming", "an event that is over does not grow"
        self.streamed += text
        self.pieces += 1

    def restart(self) -> None:
        self.streamed = ""
        self.restarts += 1

    async def complete(
        self, content: Masked, metadata: Mapping[str, Any] = {}, *, status: FinalStatus = "completed"
    ) -> None:
        assert self.status == "streaming", f"{self.id} ended twice"
        self.content, self.status = content, status
        self.metadata.update(metadata)


@dataclass
class MemoryRecorder:
    events: list[TimelineEvent] = field(default_factory=list)
    interactions: list[tuple[str, Interaction]] = field(default_factory=list)
    phases: list[tuple[Phase, str]] = field(default_factory=list)

    @asynccontextmanager
    async def opened(
        self,
        step: str,
        event_type: EventType,
        *,
        content: str = "",
        metadata: Mapping[str, Any] = {},
    ) -> AsyncIterator[TimelineEvent]:
        event = TimelineEvent(f"{step} {event_type}", event_type, content, dict(metadata))
        assert event.id not in [one.id for one in self.events], f"{event.id} is there already"
        self.events.append(event)
        try:
            yield event
        except Exception:
            if event.status == "streaming":
                event.status = "failed"
            raise
        finally:
            if event.status == "streaming":
                event.status = "cancelled"

    async def record(self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any] = {}) -> str:
        async with self.opened(step, event_type, metadata=metadata) as event:
            await event.complete(content)
        return event.id

    def progress(self, phase: Phase, message: str) -> None:
        self.phases.append((phase, message))

    async def earlier(self, event_type: EventType) -> Sequence[EarlierEvent]:
        return ()

    async def still_ours(self) -> None:
        pass

    async def interaction(self, step: str, record: Interaction) -> str:
        assert (step, record.type) not in [(known, one.type) for known, one in self.interactions], (
            f"{step} {record.type} is there already"
        )
        self.interactions.append((step, record))
        return f"{step} {record.type}"

    async def exchange(self, step: str, record: Interaction) -> str:
        number = len([one for one, _ in self.interactions if one.startswith(f"{step}/exchange ")]) + 1
        return await self.interaction(f"{step}/exchange {number}", record)

    def of(self, event_type: EventType) -> list[TimelineEvent]:
        return [event for event in self.events if event.type == event_type]

    def records(self, kind: str) -> list[Interaction]:
        return [record for _, record in self.interactions if record.type == kind]
