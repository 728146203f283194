"""The protocol behind which the two ways of calling tools differ: function calling and ReAct."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tersely.agent.asking import Turn, WrittenTurn
from tersely.agent.calls import ToolCallResult
from tersely.agent.conversation import Reply
from tersely.agent.toolbox import Toolbox
from tersely.llm.messages import Message, ToolCall, ToolSpec


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The meaning of a model's answer: exactly one of the three."""

    calls: tuple[ToolCall, ...] = ()
    answer: str = ""
    """The analysis, which ends the investigation."""

    complaint: str = ""
    """Why the answer is unusable, for the model to read."""


class Controller(Protocol):
    def rules(self, toolbox: Toolbox) -> str:
        """The rules for calling tools, for the system prompt."""

    def specs(self, toolbox: Toolbox) -> Sequence[ToolSpec]:
        """The tools as declared to the provider."""

    def read(self, turn: Turn | WrittenTurn) -> Decision:
        """Parse an answer."""

    def stop(self, text: str) -> int | None:
        """The offset at which to cut a streaming answer, or None."""

    def answer_message(self, turn: Turn) -> Message:
        """The answer as a message of the conversation."""

    def replies(self, calls: Sequence[ToolCall], results: Sequence[ToolCallResult]) -> list[Reply]:
        """The results as messages, in the order of the calls."""

    def conclusion(self, text: str) -> str:
        """The analysis in the final answer, for which no tools were offered."""
