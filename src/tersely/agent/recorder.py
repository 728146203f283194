"""The protocol through which the agent records its progress; it knows neither timelines nor stores.

Every write is keyed by the step it belongs to, so a step that runs twice changes
nothing the second time. The implementation stores and publishes.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol

from tersely.masking.masked import Masked
from tersely.store.interactions import Interaction

EventType = Literal["llm_thinking", "llm_response", "llm_tool_call", "mcp_tool_summary", "error", "final_analysis"]
Phase = Literal["investigating", "gathering_info", "distilling", "concluding"]
Ending = Literal["completed", "failed", "cancelled"]


class OpenEvent(Protocol):
    """An event that is being written; viewers see it grow."""

    @property
    def id(self) -> str: ...

    def delta(self, text: Masked) -> None:
        """Publish more content. Transient: `complete` sets the final content."""

    def restart(self) -> None:
        """Discard the content so far; it starts again."""

    async def complete(
        self, content: Masked, metadata: Mapping[str, Any] = ..., *, status: Ending = "completed"
    ) -> None:
        """Complete the event, once; `metadata` is merged into the initial metadata."""


class Recorder(Protocol):
    def opened(
        self, step: str, event_type: EventType, *, content: Masked = ..., metadata: Mapping[str, Any] = ...
    ) -> AbstractAsyncContextManager[OpenEvent]:
        """Open an event with status `streaming`; without `complete` it ends as failed, or cancelled with the work."""

    async def record(self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any] = ...) -> str:
        """Record a complete event; return its id."""

    def progress(self, phase: Phase, message: str) -> None:
        """Publish one line about the current activity. Transient."""

    async def interaction(self, step: str, record: Interaction) -> str:
        """Record one exchange with a model or a tool in the trace; return its id."""

    async def still_ours(self) -> None:
        """Check the ownership of the session, just before an irreversible action.

        Raises:
            LostSession: Another worker has taken over; do nothing more.
        """
