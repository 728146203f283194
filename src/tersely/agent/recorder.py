"""What the loop records while it works, as a protocol: the agent knows neither timelines nor stores.

Every write is keyed by the step it belongs to, so a step that runs twice changes
nothing the second time. Storing and publishing are up to the implementation.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from tersely.events.types import EventType, FinalStatus, Phase
from tersely.masking.masked import Masked
from tersely.store.interactions import Interaction
from tersely.store.timeline import EarlierEvent


class OpenEvent(Protocol):
    """An event that is being written; viewers see it grow."""

    @property
    def id(self) -> str: ...

    @property
    def is_repeated(self) -> bool:
        """Whether an earlier run of the step created the event, and ended before the step was stored."""

    def delta(self, text: Masked) -> None:
        """Append to the content. Transient: the final content is the one passed to `complete`."""

    def restart(self) -> None:
        """Discard the content so far."""

    async def complete(
        self, content: Masked, metadata: Mapping[str, Any] = ..., *, status: FinalStatus = "completed"
    ) -> None:
        """End the event, once; `metadata` is added to that of the creation."""


class Recorder(Protocol):
    def opened(
        self, step: str, event_type: EventType, *, content: Masked = ..., metadata: Mapping[str, Any] = ...
    ) -> AbstractAsyncContextManager[OpenEvent]:
        """Create an event with status `streaming`. If the block is left without `complete`, the event ends as failed,
        or as cancelled if the block was.
        """

    async def record(self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any] = ...) -> str:
        """Create an event that is complete; returns its id."""

    def progress(self, phase: Phase, message: str) -> None:
        """Show one line about the current work. Transient."""

    async def interaction(self, step: str, record: Interaction) -> str:
        """Add a tool call to the trace, once per step; returns its id."""

    async def exchange(self, step: str, record: Interaction) -> str:
        """Add an exchange with a model to the trace; returns its id.

        A step has any number of them, and if it is repeated, its new exchanges are added: each was paid for.
        """

    async def earlier(self, event_type: EventType) -> Sequence[EarlierEvent]:
        """If the steps of the session were rewound, the events of this agent and of those it shares tasks with."""

    async def still_ours(self) -> None:
        """Check ownership just before an action that cannot be undone.

        Raises:
            LostSession: The session belongs to another worker; stop.
        """
