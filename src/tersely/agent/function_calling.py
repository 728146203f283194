"""The controller for the provider's function calling: several calls per answer, results in their order."""

from collections.abc import Sequence

from tersely.agent.asking import Turn, WrittenTurn
from tersely.agent.calls import ToolCallResult
from tersely.agent.controller import Decision
from tersely.agent.conversation import Reply
from tersely.agent.toolbox import Toolbox
from tersely.condensing.prompt_files import Prompt
from tersely.llm.messages import Message, ToolCall, ToolSpec

RULES = Prompt("function_calling", "tersely.agent")


class FunctionCalling:
    def rules(self, toolbox: Toolbox) -> str:
        return RULES.fill()

    def specs(self, toolbox: Toolbox) -> Sequence[ToolSpec]:
        return toolbox.specs()

    def read(self, turn: Turn | WrittenTurn) -> Decision:
        if turn.calls:
            return Decision(calls=turn.calls)
        if turn.text.strip():
            return Decision(answer=turn.text.strip())
        return Decision(complaint="Your answer was empty. Call a tool, or write your analysis.")

    def stop(self, text: str) -> int | None:
        return None

    def answer_message(self, turn: Turn) -> Message:
        return Message("assistant", turn.text, tool_calls=turn.calls)

    def replies(self, calls: Sequence[ToolCall], results: Sequence[ToolCallResult]) -> list[Reply]:
        return [
            Reply(Message("tool", result.text.derive(f"{result.name}: {result.text}"), answers=call), result.line)
            for call, result in zip(calls, results, strict=True)
        ]

    def conclusion(self, text: str) -> str:
        return text.strip()
