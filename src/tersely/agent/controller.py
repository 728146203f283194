"""How an agent and its model talk about tools: what differs between the two ways is behind this protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tersely.agent.asking import Turn, WrittenTurn
from tersely.agent.calls import Seen
from tersely.agent.conversation import Reply
from tersely.agent.toolbox import Toolbox
from tersely.llm.messages import Message, ToolCall, ToolSpec


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What the model wants: one of the three."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    """The analysis; the investigation is over."""

    complaint: str = ""
    """Nothing usable. What was wrong, for the model to read."""


class Controller(Protocol):
    def rules(self, toolbox: Toolbox) -> str:
        """What the system prompt says about calling tools."""

    def specs(self, toolbox: Toolbox) -> Sequence[ToolSpec]:
        """The tools as the provider is told of them."""

    def read(self, turn: Turn | WrittenTurn) -> Decision:
        """What an answer means."""

    def stop(self, text: str) -> int | None:
        """Where an answer that is still being written has gone too far."""

    def said(self, turn: Turn) -> Message:
        """The answer as a part of the conversation."""

    def replies(self, calls: Sequence[ToolCall], seen: Sequence[Seen]) -> list[Reply]:
        """What came back, in the order of the calls."""

    def conclusion(self, text: str) -> str:
        """The analysis in the last answer, which has no other choice."""
