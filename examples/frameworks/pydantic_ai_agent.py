"""pydantic-ai: a toolset around yours."""

import re

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset
from shop import QUESTION, logs

from tersely.integrations.pydantic_ai import CondensingToolset


def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for your model: asks for the log, then for one line of it."""
    last = messages[-1].parts[-1]
    if not isinstance(last, ToolReturnPart):
        return ModelResponse([ToolCallPart("logs", {"service": "payments"})])
    print(f"{last.tool_name}:\n{last.content}\n")
    if last.tool_name == "logs":
        handle = re.findall(r"r_\w{16}", str(last.content))[-1]
        return ModelResponse([ToolCallPart("read_result", {"handle": handle, "start_line": 1_200, "end_line": 1_202})])
    return ModelResponse([TextPart("The issuer declined it (4711).")])


agent = Agent(FunctionModel(scripted), toolsets=[CondensingToolset(FunctionToolset([logs]))])

if __name__ == "__main__":
    print(agent.run_sync(QUESTION).output)
