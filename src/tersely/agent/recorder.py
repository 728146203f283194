"""What the loop tells while it works, as a protocol: the agent knows neither timelines nor stores.

Every write is keyed by the step it belongs to, so a step that runs twice changes
nothing the second time. Keeping and publishing are the business of whoever hands
a recorder in.
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
    """An event that is being written; people see it grow."""

    @property
    def id(self) -> str: ...

    def delta(self, text: Masked) -> None:
        """A piece more of the content. Transient: what counts is what `complete` is given."""

    def restart(self) -> None:
        """What came so far does not count; the content begins anew."""

    async def complete(
        self, content: Masked, metadata: Mapping[str, Any] = ..., *, status: Ending = "completed"
    ) -> None:
        """The end, once; what `metadata` names is added to what the event began with."""


class Recorder(Protocol):
    def opened(
        self, step: str, event_type: EventType, *, content: Masked = ..., metadata: Mapping[str, Any] = ...
    ) -> AbstractAsyncContextManager[OpenEvent]:
        """An event with status `streaming`. Left without `complete` it ends as failed, or cancelled when the work
        was.
        """

    async def record(self, step: str, event_type: EventType, content: Masked, metadata: Mapping[str, Any] = ...) -> str:
        """An event that is complete at once; returns its id."""

    def progress(self, phase: Phase, message: str) -> None:
        """One line for a person about what is going on. Transient."""

    async def interaction(self, step: str, record: Interaction) -> str:
        """One exchange with a model or a tool, for the trace; returns its id."""

    async def still_ours(self) -> None:
        """Asked just before something is done that cannot be taken back.

        Raises:
            LostSession: Another worker goes on; do nothing more.
        """
