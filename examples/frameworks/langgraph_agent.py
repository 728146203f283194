"""LangChain and LangGraph: one line of middleware."""

import re
from collections.abc import Iterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from shop import QUESTION, logs

from tersely.integrations.langchain import CondensingAgentMiddleware


class ScriptedModel(GenericFakeChatModel):
    """Stands for your model: asks for the log, then for one line of it."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.messages = self._say(messages[-1])
        return super()._generate(messages, *args, **kwargs)

    @staticmethod
    def _say(last: Any) -> Iterator[AIMessage]:
        if not isinstance(last, ToolMessage):
            yield AIMessage("", tool_calls=[{"name": "logs", "args": {"service": "payments"}, "id": "1"}])
        elif last.name == "logs":
            handle = re.findall(r"r_\w{16}", last.text)[-1]
            given = {"handle": handle, "start_line": 1_200, "end_line": 1_202}
            yield AIMessage("", tool_calls=[{"name": "read_result", "args": given, "id": "2"}])
        else:
            yield AIMessage("The issuer declined it (4711).")


agent: Any = create_agent(ScriptedModel(messages=iter(())), [tool(logs)], middleware=[CondensingAgentMiddleware()])

if __name__ == "__main__":
    for message in agent.invoke({"messages": [{"role": "user", "content": QUESTION}]})["messages"]:
        message.pretty_print()
