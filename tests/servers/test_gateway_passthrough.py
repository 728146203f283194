"""The gateway over real HTTP, in both protocol eras: what passes unchanged between client and server."""

import json
from typing import Any

import anyio
import pytest
from fastmcp import Client
from mcp_types import PromptReference, TextContent, TextResourceContents

from tests.fakes.gateways import ERAS, Library, Noticeboard, at, by_command, gateway, post, subscribed, text_of
from tests.fakes.mcp_servers.web import Honest, Rude
from tests.servers.chatty import SECRET

# What passes as it is


@pytest.mark.parametrize("era", ERAS)
async def test_small_results_equal_the_servers_own(era: Any) -> None:
    async with Honest().listening() as url, gateway(at(url)) as ours:
        async with Client(url, mode=era) as direct, Client(ours.url, mode=era) as client:
            for tool, arguments in (
                ("echo", {"text": "héllo\nthere"}),
                ("add", {"a": 1, "b": 2}),
                ("picture", {}),
                ("fail", {}),
            ):
                assert await client.call_tool_mcp(tool, arguments) == await direct.call_tool_mcp(tool, arguments)


async def test_what_the_library_does_not_know_passes_byte_for_byte() -> None:
    """Unknown parts, unknown fields, null and nesting: the answer is the server's, not a model's dump of it."""
    odd = {
        "content": [
            {"type": "hologram", "x": [1, None, {"y": 0.5}]},
            {"type": "text", "text": "ok", "annotations": {"priority": 0.2}},
        ],
        "structuredContent": {"a": None, "ü": "ß"},
        "_meta": {"server/own": [1, 2]},
        "futureField": {"b": False},
        "isError": False,
    }
    async with Rude(lambda message, request: odd).listening() as url, gateway(at(url)) as ours:
        answer = await post(ours.url, "tools/call", {"name": "call", "arguments": {}})
    result = answer["result"]
    assert result.pop("resultType") == "complete"
    assert result["_meta"].pop("io.modelcontextprotocol/serverInfo") == {"name": "rude", "version": "1"}
    assert json.dumps(result) == json.dumps(odd)


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_one_server_is_shown_as_itself_with_its_instructions(era: Any) -> None:
    async with Library().listening() as url, gateway(at(url)) as ours, Client(ours.url, mode=era) as client:
        info = client.server_info
        assert info is not None and info.name == "library"
        assert client.instructions == "Ask the library."


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_resources_and_templates_pass(era: Any) -> None:
    async with Library().listening() as url, gateway(at(url)) as ours, Client(ours.url, mode=era) as client:
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
        assert [str(resource.uri) for resource in await client.list_resources()] == ["library://note"]
        assert [template.uri_template for template in await client.list_resource_templates()] == [
            "library://page/{number}"
        ]
        (page,) = await client.read_resource("library://page/7")
        assert isinstance(page, TextResourceContents) and page.text == "page 7 of library"
        message = (await client.get_prompt("greet", {"who": "Ada"})).messages[0].content
        assert isinstance(message, TextContent) and message.text.startswith(
            "Say hello to Ada from library; password=[MASKED:"
        )


@pytest.mark.parametrize("era", ERAS)
async def test_four_clients_at_once_get_their_own_progress(era: Any) -> None:
    async with Honest().listening() as url, gateway(at(url)) as ours:
        told: dict[str, list[str | None]] = {label: [] for label in "abcd"}

        async def call(label: str) -> None:
            async def hear(progress: float, total: float | None, message: str | None) -> None:
                told[label].append(message)

            async with Client(ours.url, mode=era) as client:
                for _ in range(5):
                    assert (
                        text_of(await client.call_tool_mcp("steps", {"label": label}, progress_handler=hear)) == label
                    )

        async with anyio.create_task_group() as tasks:
            for label in told:
                tasks.start_soon(call, label)
        assert told == {label: [f"{label}{number}" for number in (1, 2, 3)] * 5 for label in told}


@pytest.mark.parametrize("era", ERAS)
async def test_a_question_of_the_server_reaches_the_client_and_its_answer_the_server(era: Any) -> None:
    """The older protocol asks in the middle of a call; the newer is called again with the answer."""
    asked: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return {"value": "green"}

    async with Library().listening() as url, gateway(at(url)) as ours:
        async with Client(ours.url, mode=era, elicitation_handler=answer) as client:
            result = await client.call_tool_mcp("ask", {})
    if era == "legacy":
        assert asked == ["Which colour?"] and text_of(result) == "accept: green"
    else:
        async with Library().listening() as url, Client(url, mode=era, elicitation_handler=answer) as direct:
            assert text_of(result) == text_of(await direct.call_tool_mcp("ask", {})), "as without us"


@pytest.mark.process
async def test_what_a_server_wants_a_model_to_read_reaches_it_masked() -> None:
    """Sampling of the older protocol: the question goes to the client's model."""
    asked: list[str] = []

    async def answer(messages: Any, params: Any, context: Any) -> str:
        asked.append(messages[0].content.text)
        return "said it"

    async with gateway(by_command("asks")) as ours, Client(ours.url, mode="legacy", sampling_handler=answer) as client:
        assert text_of(await client.call_tool_mcp("sample", {})) == "said it"
    assert asked[0].startswith("Say it: password=[MASKED:")


async def test_a_question_in_an_answer_is_masked_and_its_state_stays_as_it_is() -> None:
    """The newer protocol: the client brings the state back, and the server knows it by its letters."""
    form = {
        "mode": "form",
        "message": SECRET,
        "requestedSchema": {"type": "object", "properties": {"password": {"type": "string"}}},
    }
    unfinished = {
        "resultType": "input_required",
        "inputRequests": {"q": {"method": "elicitation/create", "params": form}},
        "requestState": SECRET,
    }
    async with Rude(lambda message, request: unfinished).listening() as url, gateway(at(url)) as ours:
        result = (await post(ours.url, "tools/call", {"name": "call", "arguments": {}}))["result"]
    shown = result["inputRequests"]["q"]["params"]
    assert shown.pop("message").startswith("password=[MASKED:") and shown == {key: form[key] for key in shown}
    assert (result["resultType"], result["requestState"]) == ("input_required", SECRET)


@pytest.mark.process
async def test_a_client_that_cannot_be_asked_is_not_asked() -> None:
    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return {}

    async with gateway(by_command("asks")) as ours:
        async with Client(ours.url, mode="legacy", elicitation_handler=answer) as client:
            assert json.loads(text_of(await client.call_tool_mcp("ask", {})))["action"] == "accept"
        async with Client(ours.url, mode="legacy") as client:
            refused = text_of(await client.call_tool_mcp("ask", {}))
            assert refused == "-32601", "a client that cannot be asked is not asked"


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("era", ERAS)
async def test_what_a_server_logs_reaches_the_caller_masked(era: Any) -> None:
    heard: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(str(message.data))

    async with (
        Library().listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url, mode=era, log_handler=listen) as client,
    ):
        if era == "legacy":
            await client.set_logging_level("debug")
        await client.call_tool_mcp("talk", {}, meta={"io.modelcontextprotocol/logLevel": "debug"})
        with anyio.fail_after(300):
            while not heard:
                await anyio.sleep(0.01)
    assert "working on it" in heard[0] and "[MASKED:" in heard[0] and "hunter2" not in heard[0]


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
async def test_a_new_tool_is_announced_and_listed(era: Any) -> None:
    async with gateway(by_command("changes")) as ours, Client(ours.url, mode=era) as client:
        assert "new" not in [tool.name for tool in await client.list_tools()]
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(300):
            while "new" not in [tool.name for tool in await client.list_tools()]:
                await anyio.sleep(0.05)
        names = [tool.name for tool in await client.list_tools()]
        assert "gone" not in names
        assert text_of(await client.call_tool_mcp("new", {})) == "got"


@pytest.mark.process
async def test_clients_that_stay_hear_that_the_tools_changed() -> None:
    heard: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with (
        gateway(by_command("changes")) as ours,
        Client(ours.url, mode="legacy", message_handler=listen) as client,
    ):
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(300):
            while "notifications/tools/list_changed" not in heard:
                await anyio.sleep(0.05)


@pytest.mark.process
async def test_a_name_too_long_for_models_is_offered_shortened_and_both_can_be_called() -> None:
    long = "get_" + "x" * 90
    async with gateway(
        by_command("described", json.dumps([{"name": long, "inputSchema": {"type": "object"}}]))
    ) as ours:
        async with Client(ours.url) as client:
            shown = (await client.list_tools())[0].name
            assert len(shown) <= 64 and shown.startswith("get_xx")
            for name in (shown, long):
                assert text_of(await client.call_tool_mcp(name, {})) == long


async def test_prompts_of_a_server_that_was_not_known_yet_are_announced() -> None:
    """Else a client would believe, for as long as it stays, that there are no resources and no prompts."""
    heard: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with (
        Library().listening() as url,
        gateway(at(url), wait=0) as ours,
        Client(ours.url, mode="legacy", message_handler=listen) as client,
    ):
        names = [prompt.name for prompt in await client.list_prompts()]
        with anyio.fail_after(300):
            while not names and "notifications/prompts/list_changed" not in heard:
                await anyio.sleep(0.01)
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]
    assert "notifications/resources/list_changed" not in heard, "nobody has listed resources"


# What clients want to hear


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("era", ERAS)
async def test_subscribers_of_a_resource_are_notified_when_it_changes(era: Any) -> None:
    async with Noticeboard().listening() as board, gateway(at(board.url)) as ours:
        heard: list[str] = []

        async def listen(message: Any) -> None:
            if message.method == "notifications/resources/updated":
                heard.append(str(message.params.uri))

        async with Client(ours.url, mode=era, message_handler=listen) as client:
            async with subscribed(client, "board://note"):
                await board.change()
                with anyio.fail_after(300):
                    while not heard:
                        await anyio.sleep(0.01)
            assert heard == ["board://note"]
        with anyio.fail_after(300):
            while ours.gateway._watches:
                await anyio.sleep(0.01)


@pytest.mark.parametrize("era", ERAS)
async def test_completions_pass(era: Any) -> None:
    async with Noticeboard().listening() as board, gateway(at(board.url), at(board.url, "two")) as ours:
        async with Client(ours.url, mode=era) as client:
            completed = await client.complete(
                PromptReference(type="ref/prompt", name="two__greet"), {"name": "who", "value": "A"}
            )
    assert completed.values == ["Ada", "Alan"]
