"""OpenAI Agents SDK: your function tools, condensed."""

import asyncio
import json
import re
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, function_tool, set_tracing_disabled
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from shop import QUESTION, logs

from tersely.integrations.openai_agents import condensed_tools


class ScriptedModel(Model):
    """Stands for your model: asks for the log, then for one line of it."""

    async def get_response(self, *args: Any, **given: Any) -> ModelResponse:
        outputs = [item for item in given["input"] if isinstance(item, dict) and "output" in item]
        said: Any
        if not outputs:
            said = self._call("logs", service="payments")
        elif len(outputs) == 1:
            print(f"logs:\n{outputs[0]['output']}\n")
            handle = re.findall(r"r_\w{16}", str(outputs[0]["output"]))[-1]
            said = self._call("read_result", handle=handle, start_line=1_200, end_line=1_202)
        else:
            print(f"read_result:\n{outputs[1]['output']}\n")
            text = ResponseOutputText(text="The issuer declined it (4711).", type="output_text", annotations=[])
            said = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **given: Any) -> Any:
        raise NotImplementedError

    @staticmethod
    def _call(name: str, **given: Any) -> ResponseFunctionToolCall:
        return ResponseFunctionToolCall(
            id=name, call_id=name, name=name, arguments=json.dumps(given), type="function_call"
        )


agent = Agent(name="payments", model=ScriptedModel(), tools=condensed_tools([function_tool(logs)]))

if __name__ == "__main__":
    set_tracing_disabled(True)
    print(asyncio.run(Runner.run(agent, QUESTION)).final_output)
