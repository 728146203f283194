"""The gateway over real HTTP, in both protocol eras, in front of real servers."""

import hashlib
import json
import logging
from pathlib import Path
from typing import Annotated, Any

import anyio
import httpx2
import pytest
from fastmcp import Client
from mcp_types import ImageContent, PromptReference, TextContent, TextResourceContents
from pydantic import Field
from starlette.responses import JSONResponse

from tersely.store import usage
from tersely.text.tokens import O200K
from tests.fakes.gateways import ERAS, Library, Noticeboard, at, by_command, gateway, post, subscribed, text_of
from tests.fakes.llm_server import FakeLLMServer
from tests.fakes.mcp_servers.web import Honest, Rude

SECRET = "password=hunter2-is-secret"


def log(lines: int = 3_000) -> str:
    """About 24 tokens a line; every 500th is what somebody looks for."""
    return "\n".join(
        f"2026-11-15T08:00:00Z ERROR payment {number} failed: card declined"
        if number % 500 == 0
        else f"2026-11-15T08:{number % 60:02d}:00Z INFO request {number} served in {number % 97} ms"
        for number in range(1, lines)
    )


class Chatty(Honest):
    """An honest server with a long log."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.seen: list[dict[str, Any]] = []

        @self.server.tool
        def logs(lines: int = 3_000, service: str = "") -> str:
            self.seen.append({"lines": lines, "service": service})
            return log(lines)

        @self.server.tool
        def length(text: str) -> int:
            return len(text)


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


async def test_on_a_pipe_nobody_is_asked_while_it_is_not_clear_who_is_meant() -> None:
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
        with anyio.fail_after(20):
            while not heard:
                await anyio.sleep(0.01)
    assert "working on it" in heard[0] and "[MASKED:" in heard[0] and "hunter2" not in heard[0]


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_that_appears_is_told_of_and_listed(era: Any) -> None:
    async with gateway(by_command("changes")) as ours, Client(ours.url, mode=era) as client:
        assert "new" not in [tool.name for tool in await client.list_tools()]
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(20):
            while "new" not in [tool.name for tool in await client.list_tools()]:
                await anyio.sleep(0.05)
        names = [tool.name for tool in await client.list_tools()]
        assert "gone" not in names
        assert text_of(await client.call_tool_mcp("new", {})) == "got"


async def test_clients_that_stay_hear_that_the_tools_changed() -> None:
    heard: list[str] = []

    async def listen(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with (
        gateway(by_command("changes")) as ours,
        Client(ours.url, mode="legacy", message_handler=listen) as client,
    ):
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(20):
            while "notifications/tools/list_changed" not in heard:
                await anyio.sleep(0.05)


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


async def test_a_single_server_is_waited_for_because_there_is_nothing_to_say_without_it() -> None:
    """Else a client would learn, for as long as it stays, that there are no resources and no prompts."""
    async with (
        Library().listening() as url,
        gateway(at(url), wait=0) as ours,
        Client(ours.url, mode="legacy") as client,
    ):
        assert [prompt.name for prompt in await client.list_prompts()] == ["greet"]


# Several servers


@pytest.mark.parametrize("era", ERAS)
async def test_several_servers_keep_out_of_each_others_way(era: Any) -> None:
    async with Library("red").listening() as red, Library("blue").listening() as blue:
        async with gateway(at(red, "red"), at(blue, "blue")) as ours, Client(ours.url, mode=era) as client:
            names = [tool.name for tool in await client.list_tools()]
            assert {"red__talk", "blue__talk", "read_result"} <= set(names)
            assert [prompt.name for prompt in await client.list_prompts()] == ["red__greet", "blue__greet"]
            message = (await client.get_prompt("blue__greet", {"who": "Ada"})).messages[0].content
            assert isinstance(message, TextContent) and "from blue" in message.text
            assert {str(one.uri) for one in await client.list_resources()} == {"red://note", "blue://note"}
        # A resource nobody has listed yet is found by whose template fits.
        async with gateway(at(red, "red"), at(blue, "blue")) as ours, Client(ours.url, mode=era) as client:
            (page,) = await client.read_resource("blue://page/7")
            assert isinstance(page, TextResourceContents) and page.text == "page 7 of blue"


async def test_a_server_that_dies_takes_nobody_with_it_and_comes_back(tmp_path: Path) -> None:
    async with (
        Honest().listening() as url,
        gateway(at(url, "web"), by_command("dies", str(tmp_path / "calls"), name="mortal")) as ours,
    ):
        async with Client(ours.url) as client:
            before = text_of(await client.call_tool_mcp("mortal__pid", {}))
            dead = await client.call_tool_mcp("mortal__die", {})
            assert dead.is_error and "closed the connection" in text_of(dead)
            assert text_of(await client.call_tool_mcp("web__echo", {"text": "still here"})) == "still here"
            with anyio.fail_after(20):
                while (again := await client.call_tool_mcp("mortal__pid", {})).is_error:
                    await anyio.sleep(0.05)
            assert text_of(again) != before


# What callers are looking for


@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_gains_an_argument_that_never_reaches_the_server(era: Any) -> None:
    server = Chatty()
    async with server.listening() as url, gateway(at(url)) as ours, Client(ours.url, mode=era) as client:
        tool = next(tool for tool in await client.list_tools() if tool.name == "logs")
        assert tool.input_schema["properties"]["looking_for"]["type"] == "string"
        assert "looking_for" not in tool.input_schema.get("required", [])
        assert tool.output_schema is None
        await client.call_tool_mcp("logs", {"lines": 3, "service": "api", "looking_for": "errors"})
    assert server.seen == [{"lines": 3, "service": "api"}]


async def test_the_argument_is_called_otherwise_where_its_name_is_taken_or_the_operator_says_so() -> None:
    server = Honest()
    got: list[str] = []

    @server.server.tool
    def find(looking_for: str) -> str:
        got.append(looking_for)
        return "found"

    async with server.listening() as url:
        async with gateway(at(url)) as ours, Client(ours.url) as client:
            tool = next(tool for tool in await client.list_tools() if tool.name == "find")
            assert set(tool.input_schema["properties"]) == {"looking_for", "looking_for_"}
            await client.call_tool_mcp("find", {"looking_for": "the server's own", "looking_for_": "ours"})
        async with gateway(at(url), TERSELY_INTENT_ARGUMENT="why", TERSELY_INTENT_DESCRIPTION="Because.") as ours:
            async with Client(ours.url) as client:
                tool = next(tool for tool in await client.list_tools() if tool.name == "echo")
                assert tool.input_schema["properties"]["why"]["description"] == "Because."
    assert got == ["the server's own"]


async def test_where_nothing_may_be_condensed_a_tool_is_offered_as_it_is() -> None:
    async with Honest().listening() as url:
        policy = {"add": {"summarization": {"enabled": False}}}
        async with gateway(at(url, tool_policies=policy)) as ours, Client(url) as direct, Client(ours.url) as client:
            (own,) = [tool for tool in await direct.list_tools() if tool.name == "add"]
            (shown,) = [tool for tool in await client.list_tools() if tool.name == "add"]
            assert shown.model_dump() == own.model_dump() and shown.output_schema


# What is condensed


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_result_arrives_condensed_and_its_whole_is_one_call_away(era: Any) -> None:
    async with Chatty().listening() as url, gateway(at(url)) as ours, Client(ours.url, mode=era) as client:
        result = await client.call_tool_mcp("logs", {"looking_for": "declined payments"})
        text, meta = text_of(result), result.meta or {}
        assert O200K.count(text) <= 1_000 and "payment" in text and "card declined" in text
        assert result.structured_content is None and not result.is_error
        assert meta["tersely/status"] == "structural" and meta["tersely/input_tokens"] == O200K.count(log())
        assert meta["tersely/output_tokens"] == O200K.count(text)
        handle = meta["tersely/handle"]
        assert f'read_result("{handle}"' in text
        read = await client.call_tool_mcp("read_result", {"handle": handle, "start_line": 500, "end_line": 500})
        assert "2026-11-15T08:00:00Z ERROR payment 500 failed: card declined" in text_of(read)
        found = await client.call_tool_mcp("search_result", {"handle": handle, "pattern": "payment 1500"})
        assert "1500: 2026" in text_of(found)


async def test_a_handle_stands_for_the_whole_result_in_another_tools_arguments() -> None:
    async with Chatty().listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        handle = ((await client.call_tool_mcp("logs", {})).meta or {})["tersely/handle"]
        assert text_of(await client.call_tool_mcp("length", {"text": f"result:{handle}"})) == str(len(log()))
        wrong = await client.call_tool_mcp("length", {"text": "result:r_0000000000000000"})
        assert wrong.is_error and "No kept result" in text_of(wrong)


async def test_the_same_result_again_has_the_same_handle_and_small_ones_are_not_kept() -> None:
    async with Chatty().listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        handles = {((await client.call_tool_mcp("logs", {})).meta or {})["tersely/handle"] for _ in range(2)}
        await client.call_tool_mcp("echo", {"text": "small"})
        assert len(handles) == 1
        (kept,) = await ours.door._read_back.kept.list(ours.door._scope(None))
        assert kept.handle in handles and kept.origin.tool == "logs"


async def test_a_policy_for_one_tool_decides_when_and_how_far() -> None:
    policy = {"echo": {"summarization": {"size_threshold_tokens": 200, "summary_max_token_limit": 100}}}
    async with (
        Chatty().listening() as url,
        gateway(at(url, tool_policies={**policy, "logs": {"summarization": {"enabled": False}}})) as ours,
    ):
        async with Client(ours.url) as client:
            short = await client.call_tool_mcp("echo", {"text": "word " * 400})
            assert (short.meta or {})["tersely/input_tokens"] == 401 and O200K.count(text_of(short)) <= 100
            assert text_of(await client.call_tool_mcp("logs", {})) == log(), "never condensed"


async def test_an_error_stays_an_error_and_pictures_stand_beside_the_condensed_text() -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    long = {
        "content": [picture, {"type": "text", "text": log()}, link, {"type": "text", "text": "the end"}],
        "isError": True,
    }
    async with (
        Rude(lambda message, request: long).listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url) as client,
    ):
        result = await client.call_tool_mcp("call", {})
    assert result.is_error and (result.meta or {})["tersely/handle"].startswith("r_")
    assert [part.type for part in result.content] == ["image", "text", "resource_link"]
    assert isinstance(result.content[0], ImageContent) and result.content[0].data == "iVBORw0KGgo="


async def test_structured_content_that_is_too_long_is_condensed_even_beside_a_short_text() -> None:
    rows = [{"pod": f"web-{number}", "status": "Running", "restarts": 0} for number in range(2_000)]
    rows[777]["status"] = "CrashLoopBackOff"
    long = {"content": [{"type": "text", "text": "2000 pods"}], "structuredContent": {"pods": rows}}
    async with (
        Rude(lambda message, request: long).listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url) as client,
    ):
        result = await client.call_tool_mcp("call", {})
    assert result.structured_content is None and text_of(result) == "2000 pods"
    condensed = result.content[1]
    assert (
        isinstance(condensed, TextContent)
        and "CrashLoopBackOff" in condensed.text
        and O200K.count(condensed.text) <= 1_000
    )


async def test_structured_content_that_says_more_than_a_condensed_text_is_kept_beside_it() -> None:
    both = {"content": [{"type": "text", "text": log()}], "structuredContent": {"failed": [500, 1000]}}
    async with (
        Rude(lambda message, request: both).listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url) as client,
    ):
        result = await client.call_tool_mcp("call", {})
        handle = (result.meta or {})["tersely/structured_handle"]
        assert result.structured_content is None
        assert '{"failed": [500, 1000]}' in text_of(await client.call_tool_mcp("read_result", {"handle": handle}))


async def test_a_text_within_the_threshold_is_not_too_long_for_being_said_twice() -> None:
    """FastMCP repeats texts in a structure, where every line end takes more tokens."""
    text = '\n\t"a"' * 1_100
    assert O200K.count(text) <= 5_000 < O200K.count(json.dumps({"result": text}))
    async with Honest().listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        result = await client.call_tool_mcp("echo", {"text": text})
    assert text_of(result) == text and result.structured_content == {"result": text}


async def test_resources_and_prompts_that_are_too_long_are_condensed_too() -> None:
    library = Library()
    library.text = log()
    async with library.listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        (note,) = await client.read_resource("library://note")
        assert isinstance(note, TextResourceContents) and O200K.count(note.text) <= 1_000 and "kept as r_" in note.text


async def test_a_model_summarizes_only_where_a_policy_says_so_and_is_paid_once() -> None:
    policy = {"logs": {"summarization": {"use_model": True}}}
    async with FakeLLMServer(lambda body: "Some payments failed.").listening() as llm, Chatty().listening() as url:
        async with gateway(
            at(url, tool_policies=policy), OPENROUTER_BASE_URL=llm.url, LLM_CONTEXT_WINDOW="1000000"
        ) as ours:
            async with Client(ours.url) as client:
                first = await client.call_tool_mcp("logs", {"looking_for": f"payments; {SECRET}"})
                asked = len(llm.requests)
                again = await client.call_tool_mcp("logs", {"looking_for": f"payments; {SECRET}"})
        assert text_of(first).startswith("Some payments failed.") and text_of(first) == text_of(again)
        assert asked == len(llm.requests) > 0
        assert (first.meta or {})["tersely/status"] == "summarized" and (again.meta or {})["tersely/cache_hit"]
        assert "payments" in llm.prompt(0) and "hunter2" not in llm.prompt(0)


async def test_a_policy_names_the_provider_that_summarizes(tmp_path: Path) -> None:
    server = Chatty()

    @server.server.tool
    def more_logs() -> str:
        return log(2_000)

    async with (
        FakeLLMServer(lambda body: "The usual one.").listening() as usual,
        FakeLLMServer(lambda body: "The one that was named.").listening() as named,
        server.listening() as url,
    ):
        file = tmp_path / "tersely.yaml"
        provider = "type: openrouter, model: m, context_window: 1000000"
        file.write_text(
            f"llm_providers:\n  usual: {{{provider}, base_url: '{usual.url}'}}\n  named: {{{provider}, base_url: "
            f"'{named.url}'}}\n"
            "defaults: {llm_provider: usual}\n",
            encoding="utf-8",
        )
        policy = {"logs": {"summarization": {"llm_provider": "named"}}}
        upstream = at(url, summarization={"use_model": True}, tool_policies=policy)
        async with gateway(upstream, file=file) as ours:
            async with Client(ours.url) as client:
                first = await client.call_tool_mcp("logs", {"looking_for": None})
                second = await client.call_tool_mcp("more_logs", {"looking_for": ["payments", "delays"]})
    assert text_of(first).startswith("The one that was named.") and text_of(second).startswith("The usual one.")
    assert "None" not in named.prompt(0), "null is what models send for what they leave out"
    assert "payments, delays" in usual.prompt(0)


async def test_a_model_that_fails_gives_way_to_the_structure() -> None:
    async with FakeLLMServer(lambda body: 401).listening() as llm, Chatty().listening() as url:
        async with gateway(at(url), models=True, OPENROUTER_BASE_URL=llm.url, LLM_CONTEXT_WINDOW="1000000") as ours:
            async with Client(ours.url) as client:
                result = await client.call_tool_mcp("logs", {})
    meta = result.meta or {}
    assert (meta["tersely/status"], meta["tersely/returned"]) == (
        "fallback",
        "structural",
    ) and "card declined" in text_of(result)


async def test_when_condensing_fails_the_masked_text_is_cut_to_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a condenser stumbled")

    monkeypatch.setattr("tersely.condensing.ladder.condense_structurally", broken)
    async with Honest().listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        result = await client.call_tool_mcp("echo", {"text": f"{SECRET}\n{log()}"})
    text, meta = text_of(result), result.meta or {}
    assert 4_000 < O200K.count(text) <= 5_000 and meta["tersely/handle"] in text
    assert (meta["tersely/status"], meta["tersely/returned"]) == ("fallback", "cut")
    assert "hunter2" not in text and not result.is_error


# Masking


@pytest.mark.parametrize("era", ERAS)
async def test_secrets_and_deceptions_are_taken_out_of_everything(era: Any) -> None:
    secret = {"type": "text", "text": f"{SECRET} \x1b[31mred\u202e"}
    answer = {
        "content": [secret, {"type": "resource", "resource": {"uri": "x://y", "text": SECRET}}],
        "structuredContent": {"password": "hunter2-is-secret", "n": 1},
        "_meta": {"own/note": SECRET},
    }
    async with (
        Rude(lambda message, request: answer).listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url, mode=era) as client,
    ):
        result = await client.call_tool_mcp("call", {})
    said = result.model_dump_json()
    assert "hunter2" not in said and said.count("[MASKED:password:") == 4
    assert text_of(result).endswith(" red") and (result.structured_content or {})["n"] == 1


class Careless(Library):
    """A server whose words for its readers hold a password."""

    def __init__(self) -> None:
        super().__init__()

        @self.server.tool(description=f"Log in with {SECRET}.")
        def login(
            user: Annotated[str, Field(description=f"For tests: {SECRET}", examples=["description"])], title: str = "Dr"
        ) -> str:
            return user

        @self.server.prompt(description=f"Use {SECRET}")
        def confess() -> str:
            return "?"

        @self.server.resource("library://key", description=f"It is {SECRET}")
        def key() -> str:
            return "-"


@pytest.mark.parametrize("several", [False, True])
async def test_what_a_server_says_of_its_tools_prompts_and_resources_is_masked_and_the_rest_stays(
    several: bool,
) -> None:
    async with Careless().listening() as url, Honest().listening() as other:
        servers = [at(url, "one"), at(other, "two")] if several else [at(url)]
        async with gateway(*servers) as ours, Client(ours.url) as client:
            tools, prompts, resources = (
                await client.list_tools(),
                await client.list_prompts(),
                await client.list_resources(),
            )
            login = next(tool for tool in tools if tool.name.endswith("login"))
            listed = [
                login,
                *(one for one in prompts if "confess" in one.name),
                *(one for one in resources if "key" in str(one.uri)),
            ]
    said = [one.model_dump_json() for one in listed]
    assert len(said) == 3 and "hunter2" not in str(said) and str(said).count("[MASKED:password:") == 4
    properties = login.input_schema["properties"]
    assert properties["user"]["examples"] == ["description"] and properties["title"]["default"] == "Dr"


async def test_masking_can_be_turned_off_for_a_tool() -> None:
    policy = {"echo": {"data_masking": {"enabled": False}}}
    async with Honest().listening() as url, gateway(at(url, tool_policies=policy)) as ours, Client(ours.url) as client:
        assert text_of(await client.call_tool_mcp("echo", {"text": SECRET})) == SECRET


async def test_what_cannot_be_masked_goes_nowhere(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no idea")

    async with Honest().listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        monkeypatch.setattr("tersely.masking.mask.find_secrets", broken)
        result = await client.call_tool_mcp("echo", {"text": "CANARY"})
    assert result.is_error and "could not be checked for secrets" in text_of(result)
    assert "CANARY" not in result.model_dump_json() and "CANARY" not in caplog.text


# Failures


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_hangs_up_cancels_its_call_at_the_server(era: Any) -> None:
    """F34: in both eras."""
    server = Honest()
    async with server.listening() as url, gateway(at(url)) as ours:
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                async with Client(ours.url, mode=era) as client:
                    await client.call_tool_mcp("hang", {})

            tasks.start_soon(call)
            with anyio.fail_after(20):
                while not ours.waiting:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(20):
            while not server.cancelled:
                await anyio.sleep(0.01)


async def test_an_older_client_that_only_closes_its_connection_cancels_too() -> None:
    """It neither says that it cancels nor ends its session, as when it is killed."""
    server = Honest()
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hang", "arguments": {}}}
    headers = {"accept": "application/json, text/event-stream"}
    async with (
        server.listening() as url,
        gateway(at(url)) as ours,
        httpx2.AsyncClient(headers=headers, timeout=20) as client,
    ):
        greeted = await client.post(ours.url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})
        session = {"mcp-session-id": greeted.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await client.post(ours.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        async with client.stream("POST", ours.url, json=call, headers=session):
            with anyio.fail_after(20):
                while not ours.waiting:
                    await anyio.sleep(0.01)
        with anyio.fail_after(20):
            while not server.cancelled:
                await anyio.sleep(0.01)


@pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
async def test_a_hundred_clients_that_hang_up_leave_nothing_behind(protocol: str) -> None:
    """F34: closed at random moments, raw, as a killed client would."""
    server = Honest()
    async with server.listening() as url, gateway(at(url), stateless=True) as ours:
        meta = {"io.modelcontextprotocol/protocolVersion": protocol, "io.modelcontextprotocol/clientCapabilities": {}}
        params = {"name": "hang", "arguments": {}, **({"_meta": meta} if protocol.startswith("2026") else {})}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": protocol}
        headers |= {"mcp-method": "tools/call", "mcp-name": "hang"} if protocol.startswith("2026") else {}
        await ours.door.upstreams.pool(is_modern=protocol.startswith("2026"))
        async with httpx2.AsyncClient() as client, anyio.create_task_group() as tasks:

            async def hang_up(after: float) -> None:
                with anyio.move_on_after(after):
                    await client.post(ours.url, json=call, headers=headers)

            for number in range(100):
                tasks.start_soon(hang_up, 0.3 + number * 0.005)
        with anyio.fail_after(20):
            while ours.waiting or not server.cancelled:
                await anyio.sleep(0.01)
        async with Client(ours.url) as after:
            assert text_of(await after.call_tool_mcp("echo", {"text": "fine"})) == "fine"


async def test_a_protocol_error_of_the_server_keeps_its_code_and_words() -> None:
    def refuse(message: Any, request: Any) -> Any:
        return JSONResponse(
            {
                "jsonrpc": "2.0",
                "id": message["id"],
                "error": {"code": -32042, "message": f"no: {SECRET}", "data": {"k": [1]}},
            }
        )

    async with Rude(refuse).listening() as url, gateway(at(url)) as ours:
        error = (await post(ours.url, "tools/call", {"name": "call", "arguments": {}}))["error"]
    assert (
        error["code"] == -32042 and error["message"].startswith("no: password=[MASKED:") and error["data"] == {"k": [1]}
    )


async def test_a_tool_nobody_knows_is_an_error_that_says_what_there_is() -> None:
    async with Honest().listening() as url, gateway(at(url)) as ours:
        error = (await post(ours.url, "tools/call", {"name": "ecko", "arguments": {}}))["error"]
    assert error["code"] == -32602 and "Did you mean 'echo'?" in error["message"]


# Trust


async def test_the_callers_authorization_and_headers_stay_with_us() -> None:
    headers: list[dict[str, str]] = []

    def hear(message: Any, request: Any) -> Any:
        headers.append(dict(request.headers))

    async with Rude(hear).listening() as url, gateway(at(url), TERSELY_TOKEN="s3cret") as ours:
        sent = {"authorization": "Bearer s3cret", "x-api-key": "mine", "cookie": "a=b"}
        answer = await post(ours.url, "tools/call", {"name": "call", "arguments": {}}, **sent)
    assert "result" in answer
    assert headers and not {"authorization", "x-api-key", "cookie"} & set(headers[0])


async def test_a_redefined_tool_is_reported_and_withheld_in_strict_mode(caplog: pytest.LogCaptureFixture) -> None:
    """F31: also when it changed between two runs."""
    caplog.set_level(logging.WARNING)
    async with gateway(by_command("changes"), strict=True) as ours, Client(ours.url) as client:
        assert text_of(await client.call_tool_mcp("get", {})) == "got"
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(20):
            while not ours.door.upstreams.redefined:
                await anyio.sleep(0.02)
        assert ours.door.upstreams.redefined == {"one.get"}
        names = [tool.name for tool in await client.list_tools()]
        assert "get" not in names and "new" in names
        refused = (await post(ours.url, "tools/call", {"name": "get", "arguments": {}}))["error"]
        assert "withheld" in refused["message"]
    assert any(record.getMessage() == "tool_redefined" for record in caplog.records)
    pins = ours.door.upstreams._pins
    pins.accept(ours.door.upstreams.servers, {"one": {"get": "another fingerprint"}})
    async with gateway(by_command("changes"), strict=True) as ours, Client(ours.url) as client:
        assert "get" not in [tool.name for tool in await client.list_tools()]
    async with gateway(by_command("changes")) as ours, Client(ours.url) as client:
        assert "get" in [tool.name for tool in await client.list_tools()], "without strict it is reported only"


# The door


async def test_a_token_is_asked_for_where_one_is_set_and_strangers_are_turned_away() -> None:
    async with (
        Honest().listening() as url,
        gateway(at(url), TERSELY_TOKEN="s3cret") as ours,
        httpx2.AsyncClient() as client,
    ):
        assert (await client.post(ours.url, json={})).status_code == 401
        assert (await client.get(f"{ours.root}/metrics")).status_code == 401
        assert (await client.get(f"{ours.root}/health")).json() == {"status": "ok"}
        assert (await client.get(f"{ours.root}/health", headers={"host": "evil.example"})).status_code == 421
        assert (await client.post(ours.url, json={}, headers={"origin": "https://evil.example"})).status_code == 403
        async with Client(ours.url, auth="s3cret") as friend:
            assert text_of(await friend.call_tool_mcp("echo", {"text": "in"})) == "in"


async def test_holders_of_different_tokens_do_not_read_each_others_results() -> None:
    digests = [f"{name}:{hashlib.sha256(name.encode()).hexdigest()}:read" for name in ("ada", "bob")]
    async with Chatty().listening() as url, gateway(at(url), TERSELY_AUTH_TOKENS=",".join(digests)) as ours:
        async with Client(ours.url, auth="ada") as ada, Client(ours.url, auth="bob") as bob:
            handle = ((await ada.call_tool_mcp("logs", {})).meta or {})["tersely/handle"]
            assert not (await ada.call_tool_mcp("read_result", {"handle": handle})).is_error
            denied = await bob.call_tool_mcp("read_result", {"handle": handle})
            assert denied.is_error and "No kept result" in text_of(denied)


async def test_what_went_through_is_counted_stored_and_shown() -> None:
    async with Chatty().listening() as url, gateway(at(url)) as ours:
        async with Client(ours.url) as client:
            await client.call_tool_mcp("echo", {"text": "one two three"})
            handle = ((await client.call_tool_mcp("logs", {})).meta or {})["tersely/handle"]
            await client.call_tool_mcp("read_result", {"handle": handle})
            await client.call_tool_mcp("fail", {})
        async with httpx2.AsyncClient() as web:
            metrics = (await web.get(f"{ours.root}/metrics")).text
        await ours.door.counting.store()
        async with ours.door._read_back.kept.database.reading() as db:
            stored = {row.tool: row for row in await usage.used(db, door="gateway")}
    assert 'tersely_tool_calls_total{server="one",tool="echo"} 1' in metrics
    assert 'tersely_tokens_out_total{server="one",tool="echo"} 3' in metrics
    assert 'tersely_server_up{server="one"} 1' in metrics
    assert (stored["echo"].calls, stored["echo"].tokens_before, stored["echo"].tokens_after) == (1, 3, 3)
    assert (stored["logs"].condensed, stored["logs"].read_backs) == (1, 1) and stored["logs"].tokens_before > 50_000
    assert stored["fail"].errors == 1


async def test_resources_and_prompts_that_were_read_are_counted_by_their_method() -> None:
    library = Library()
    async with library.listening() as url, gateway(at(url)) as ours:
        async with Client(ours.url) as client:
            await client.read_resource("library://page/7")
            library.text = log()
            await client.read_resource("library://note")
            prompt = (await client.list_prompts())[0]
            await client.get_prompt(prompt.name, {argument.name: "x" for argument in prompt.arguments or ()})
        await ours.door.counting.store()
        async with ours.door._read_back.kept.database.reading() as db:
            stored = {row.tool: row for row in await usage.used(db, door="gateway")}
    read = stored["resources/read"]
    assert (read.calls, read.condensed, stored["prompts/get"].calls) == (2, 1, 1)
    assert read.tokens_before > 50_000 > 1_100 > read.tokens_after > 0 and stored["prompts/get"].tokens_after > 0


# What clients want to hear


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("era", ERAS)
async def test_a_resource_that_changes_is_told_of_to_those_who_asked(era: Any) -> None:
    async with Noticeboard().listening() as board, gateway(at(board.url)) as ours:
        heard: list[str] = []

        async def listen(message: Any) -> None:
            if message.method == "notifications/resources/updated":
                heard.append(str(message.params.uri))

        async with Client(ours.url, mode=era, message_handler=listen) as client:
            async with subscribed(client, "board://note"):
                await board.change()
                with anyio.fail_after(20):
                    while not heard:
                        await anyio.sleep(0.01)
            assert heard == ["board://note"]
        with anyio.fail_after(20):
            while ours.door._watches:
                await anyio.sleep(0.01)


@pytest.mark.parametrize("era", ERAS)
async def test_completions_pass(era: Any) -> None:
    async with Noticeboard().listening() as board, gateway(at(board.url), at(board.url, "two")) as ours:
        async with Client(ours.url, mode=era) as client:
            completed = await client.complete(
                PromptReference(type="ref/prompt", name="two__greet"), {"name": "who", "value": "A"}
            )
    assert completed.values == ["Ada", "Alan"]
