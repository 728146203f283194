"""Each framework itself, with a scripted model: large results come condensed, and the rest can be read."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import FunctionTool, ModelResponse, Runner, Usage, function_tool
from agents.models.interface import Model as OpenAIModel
from fastmcp import Client, FastMCP
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.messages import ModelResponse as Said
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from tersely.errors import InputError
from tersely.integrations import ResultCondenser, condenser, wrap
from tersely.integrations.fastmcp import CondensingServerMiddleware
from tersely.integrations.langchain import CondensingAgentMiddleware
from tersely.integrations.openai_agents import condensed_tools
from tersely.integrations.pydantic_ai import CondensingToolset
from tersely.text.tokens import O200K
from tests.integrations.conftest import LARGE, NEEDLE, SECRET

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "frameworks").glob("*.py"))
QUESTION = "Why was the card declined?"
SMALL = f"token = {SECRET}, 3 rows"


def handle_in(text: str) -> str:
    found = re.search(r"handle='(r_\w+)'", text)
    assert found, text[-300:]
    return found[1]


def check(shown: str, small: str, page: str) -> None:
    """What every framework has to show: the needle within the budget, no secret, and the line that was asked for."""
    assert NEEDLE in shown and SECRET not in shown
    assert O200K.count(shown) <= 1_000
    assert "as an argument of a tool" not in shown
    assert SECRET not in small and "3 rows" in small
    assert "GET /cart/1234 200" in page and SECRET not in page


def counted(folder: Path, name: str) -> tuple[int, ...]:
    """Calls, condensed ones and reads, as `tersely stats` has them."""
    condenser.close()
    with sqlite3.connect(folder / "tersely.db") as db:
        query = "SELECT sum(calls), sum(condensed), sum(read_backs) FROM tool_use WHERE door = 'library' AND server = ?"
        row: tuple[int, ...] = db.execute(query, (name,)).fetchone()
    return row


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_langchain(data_folder: Path, asynchronous: bool) -> None:
    @langchain_tool
    def logs(service: str) -> str:
        """Logs of a service."""
        return LARGE

    @langchain_tool
    def rows() -> list[Any]:
        """Rows, and a picture."""
        return [{"type": "text", "text": SMALL}, {"type": "image", "base64": "aGk=", "mime_type": "image/png"}]

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            names = [tool.name for tool in tools]
            assert names.count("read_result") == 1
            return self

        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            last = messages[-1]
            if isinstance(last, ToolMessage) and last.name == "logs":
                given = {"handle": handle_in(last.text), "pattern": "/cart/1234 "}
                script.append(AIMessage("", tool_calls=[{"name": "read_result", "args": given, "id": "3"}]))
            return super()._generate(messages, *args, **kwargs)

    script: list[AIMessage] = [
        AIMessage("", tool_calls=[{"name": "rows", "args": {}, "id": "1"}]),
        AIMessage("", tool_calls=[{"name": "logs", "args": {"service": "payments"}, "id": "2"}]),
    ]

    def said() -> Any:
        while True:
            yield script.pop(0) if script else AIMessage("The issuer declined it.")

    agent: Any = create_agent(Scripted(messages=said()), [logs, rows], middleware=[CondensingAgentMiddleware()])
    question = {"messages": [{"role": "user", "content": QUESTION}]}
    state = await agent.ainvoke(question) if asynchronous else agent.invoke(question)
    returned = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    answers: dict[Any, Any] = {message.name: message for message in returned}
    check(answers["logs"].content, answers["rows"].content[0]["text"], answers["read_result"].content)
    assert answers["rows"].content[1]["type"] == "image"
    assert counted(data_folder, "langchain") == (2, 1, 1)


async def test_pydantic_ai(data_folder: Path) -> None:
    toolset: FunctionToolset[None] = FunctionToolset()

    @toolset.tool_plain
    def logs(service: str) -> str:
        return LARGE

    @toolset.tool_plain
    def rows() -> dict[str, str]:
        return {"said": SMALL}

    shown: dict[str, Any] = {}

    def model(messages: list[ModelMessage], info: AgentInfo) -> Said:
        assert sorted(tool.name for tool in info.function_tools) == ["logs", "read_result", "rows"]
        for message in messages:
            if isinstance(message, ModelRequest):
                shown.update(
                    {part.tool_name: part.content for part in message.parts if isinstance(part, ToolReturnPart)}
                )
        if "logs" not in shown:
            return Said([ToolCallPart("logs", {"service": "payments"}), ToolCallPart("rows", {})])
        if "read_result" not in shown:
            given = {"handle": handle_in(shown["logs"]), "pattern": "/cart/1234 "}
            return Said([ToolCallPart("read_result", given)])
        return Said([TextPart("The issuer declined it.")])

    agent = Agent(FunctionModel(model), toolsets=[CondensingToolset(toolset)])
    assert (await agent.run(QUESTION)).output == "The issuer declined it."
    check(shown["logs"], shown["rows"]["said"], shown["read_result"])
    assert counted(data_folder, "pydantic-ai") == (2, 1, 1)


async def test_openai_agents(data_folder: Path) -> None:
    @function_tool
    def logs(service: str) -> str:
        """Logs of a service."""
        return LARGE

    @function_tool
    def rows() -> str:
        """Rows."""
        return SMALL

    shown: dict[str, str] = {}

    class Scripted(OpenAIModel):
        async def get_response(self, *args: Any, **given: Any) -> Any:
            assert [tool.name for tool in given["tools"]] == ["logs", "rows", "read_result"]
            for item in given["input"] if isinstance(given["input"], list) else []:
                if item.get("type") == "function_call_output":
                    shown[item["call_id"]] = item["output"]
            if "logs" not in shown:
                output: list[Any] = [call("logs", service="payments"), call("rows")]
            elif "read_result" not in shown:
                output = [call("read_result", handle=handle_in(shown["logs"]), pattern="/cart/1234 ")]
            else:
                text = ResponseOutputText(text="The issuer declined it.", type="output_text", annotations=[])
                output = [
                    ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
                ]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    def call(name: str, **arguments: Any) -> ResponseFunctionToolCall:
        return ResponseFunctionToolCall(
            id=name, call_id=name, name=name, arguments=json.dumps(arguments), type="function_call"
        )

    tools = condensed_tools([logs, rows])
    assert all(isinstance(tool, FunctionTool) for tool in tools)
    agent = OpenAIAgent(name="payments", model=Scripted(), tools=tools)
    assert (await Runner.run(agent, QUESTION)).final_output == "The issuer declined it."
    check(shown["logs"], shown["rows"], shown["read_result"])
    assert counted(data_folder, "openai-agents") == (2, 1, 1)


async def test_fastmcp(data_folder: Path) -> None:
    server: FastMCP[Any] = FastMCP("shop")
    server.add_middleware(CondensingServerMiddleware())

    @server.tool
    def logs(service: str) -> str:
        return LARGE

    @server.tool
    def rows() -> dict[str, str]:
        return {"said": SMALL}

    async with Client(server) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        assert sorted(tools) == ["logs", "read_result", "rows"]
        large = await client.call_tool("logs", {"service": "payments card declined"})
        small = await client.call_tool("rows", {})
        page = await client.call_tool(
            "read_result", {"handle": handle_in(large.content[0].text), "pattern": "/cart/1234 "}
        )
        wrong = await client.call_tool("read_result", {"handle": "r_nothere000000000"})
    check(large.content[0].text, small.content[0].text, page.content[0].text)
    assert large.meta is not None and any("handle" in key for key in large.meta)
    assert SECRET not in json.dumps(small.structured_content) and "said" in (small.structured_content or {})
    assert "r_nothere000000000" in wrong.content[0].text
    assert counted(data_folder, "fastmcp") == (2, 1, 1)


async def test_plain_functions(data_folder: Path) -> None:
    own = ResultCondenser(name="mine", budget=300, threshold=500)

    async def logs(service: str) -> str:
        return LARGE

    def rows(number: int) -> Any:
        return [{"said": SMALL}, 3, object(), [{"line": line} for line in LARGE.splitlines()]][number]

    shown = await wrap(logs, condenser=own)("payments card declined")
    assert NEEDLE in shown and O200K.count(shown) <= 300
    assert "GET /cart/1234 200" in own.read_now({"handle": handle_in(shown), "pattern": "/cart/1234 "})
    again = wrap(rows, condenser=own)
    assert again.__name__ == "rows"
    assert SECRET not in str(again(0)) and isinstance(again(0), dict)
    assert again(1) == 3 and type(again(2)) is object
    assert NEEDLE in again(number=3) and SECRET not in again(number=3)
    with pytest.raises(InputError, match="budget"):
        ResultCondenser(budget=5_000, threshold=100)
    assert counted(data_folder, "mine")[1:] == (3, 1)


def test_a_result_is_shown_although_nothing_can_be_kept(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERSELY_DATABASE_URL", "postgresql://nobody@127.0.0.1:9/none")
    shown = wrap(lambda: LARGE)()
    assert "could not be kept" in shown and NEEDLE in shown
    assert "unavailable" in ResultCondenser().read_now({"handle": "r_0000000000000000"})


@pytest.mark.process
@pytest.mark.parametrize("program", [one for one in EXAMPLES if one.stem != "shop"], ids=lambda one: one.stem)
def test_an_example_runs(program: Path) -> None:
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, timeout=120)
    assert "card declined by issuer 4711" in done.stdout and "Shortened from" in done.stdout
    if program.stem.endswith("_agent"):
        assert "2026-11-15T10:20:00Z ERROR payments" in done.stdout
        assert "The issuer declined it (4711)." in done.stdout


def test_the_block_of_the_how_to_runs() -> None:
    page = (EXAMPLES[0].parents[2] / "docs" / "how-to" / "frameworks.md").read_text("utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["middleware"].condenser.scope == "user:anna"
