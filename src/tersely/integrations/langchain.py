"""LangChain and LangGraph: a middleware for `create_agent`.

    agent = create_agent(model, tools, middleware=[CondensingAgentMiddleware()])

It condenses the messages that tools return, and adds the tool that reads the rest.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import Command

from tersely.integrations.condenser import READ_DESCRIPTION, ResultCondenser, renamed
from tersely.pipeline.content import Content
from tersely.pipeline.process import Processed
from tersely.results.read_back_tool import READ_RESULT

Answer = ToolMessage | Command[Any]


class CondensingAgentMiddleware(AgentMiddleware[Any, Any, Any]):
    """Condenses what tools return to the model.

    `ToolMessage.artifact`, which no model sees, stays as it is; images and other parts that are not text are passed on.

    Args:
        condenser: Sizes and scope; the defaults if None.
    """

    def __init__(self, condenser: ResultCondenser | None = None) -> None:
        super().__init__()
        self.condenser = renamed(condenser, "langchain")
        self.tools: list[BaseTool] = [
            StructuredTool(
                name=self.condenser.reader,
                description=READ_DESCRIPTION,
                args_schema=READ_RESULT.schema,
                func=lambda **arguments: self.condenser.read_now(arguments),
                coroutine=self._read,
            )
        ]

    async def _read(self, **arguments: Any) -> str:
        return await self.condenser.read(arguments)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        answer = handler(request)
        for message in self._messages(request, answer):
            call = request.tool_call
            _put(
                message, self.condenser.condense_now(_content(message), call["name"], call["args"], _question(request))
            )
        return answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        answer = await handler(request)
        for message in self._messages(request, answer):
            name, arguments = request.tool_call["name"], request.tool_call["args"]
            question = _question(request)
            _put(
                message,
                await self.condenser.condense(_content(message), tool=name, arguments=arguments, question=question),
            )
        return answer

    def _messages(self, request: ToolCallRequest, answer: Answer) -> list[ToolMessage]:
        """The messages with results; pages of kept results are masked and limited already."""
        if request.tool_call["name"] == self.condenser.reader:
            return []
        if isinstance(answer, ToolMessage):
            return [answer]
        messages = answer.update.get("messages", ()) if isinstance(answer.update, dict) else ()
        return [message for message in messages if isinstance(message, ToolMessage)]


def _content(message: ToolMessage) -> Content:
    return Content(texts=tuple(text for _, text in _texts(message)), is_error=message.status == "error")


def _texts(message: ToolMessage) -> list[tuple[int, str]]:
    """The texts of a message with their places; 0 for a message that is one text."""
    if isinstance(message.content, str):
        return [(0, message.content)]
    found = []
    for place, block in enumerate(message.content):
        if isinstance(block, str):
            found.append((place, block))
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            found.append((place, block["text"]))
    return found


def _put(message: ToolMessage, processed: Processed) -> None:
    """Replace the texts of a message; a condensed text stands where the first of them was."""
    if isinstance(message.content, str):
        message.content = str(processed.text)
        return
    places = [place for place, _ in _texts(message)]
    if processed.condensed is not None:
        texts = dict.fromkeys(places, "") | ({places[0]: str(processed.text)} if places else {})
    else:
        texts = dict(zip(places, map(str, processed.admitted.texts), strict=True))
    blocks: list[str | dict[Any, Any]] = []
    for place, block in enumerate(message.content):
        if place not in texts:
            blocks.append(block)
        elif texts[place] or processed.condensed is None:
            blocks.append(texts[place] if isinstance(block, str) else {**block, "text": texts[place]})
    message.content = blocks


def _question(request: ToolCallRequest) -> str:
    """The last message of a person."""
    state = request.state
    messages = state.get("messages", ()) if isinstance(state, dict) else getattr(state, "messages", ())
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            return message.text[:2_000]
    return ""
