"""Long results behind the gateway: condensed, kept, read back."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Client
from mcp_types import ImageContent, TextContent, TextResourceContents

from tersely.results.kept import user_scope
from tersely.text.tokens import O200K
from tests.fakes.gateways import ERAS, Library, at, gateway, post, text_of
from tests.fakes.llm_server import FakeLLMServer
from tests.fakes.mcp_servers.web import Honest, Rude
from tests.servers.chatty import SECRET, Chatty, log


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_result_arrives_condensed_and_its_whole_is_one_call_away(era: Any) -> None:
    async with Chatty().listening() as url, gateway(at(url)) as ours, Client(ours.url, mode=era) as client:
        result = await client.call_tool_mcp("logs", {"looking_for": "declined payments"})
        text, meta = text_of(result), result.meta or {}
        assert O200K.count(text) <= 1_000 and "payment" in text and "card declined" in text
        assert result.structured_content == {"result": text} and not result.is_error
        assert meta["tersely/status"] == "structural" and meta["tersely/input_tokens"] == O200K.count(log())
        assert meta["tersely/output_tokens"] == O200K.count(text)
        handle = meta["tersely/handle"]
        assert f"read_result(handle='{handle}'" in text
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
        (kept,) = await (await ours.gateway.backend()).read_back.kept.list(user_scope())
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
    assert "[2000 pods; status: Running ×1999, CrashLoopBackOff ×1]" in condensed.text, "counts of what is left out"


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


@pytest.mark.parametrize(
    "mirror",
    [
        lambda text: {"content": text},
        lambda text: {"output": {"text": text}},
        lambda text: {"content": [{"type": "text", "text": text}]},
        lambda text: {"lines": text.split("\n")},
        lambda text: text,
    ],
)
async def test_a_mirror_of_the_text_is_kept_once_whatever_it_is_called(mirror: Any) -> None:
    both = {"content": [{"type": "text", "text": log()}], "structuredContent": mirror(log())}
    async with (
        Rude(lambda message, request: both).listening() as url,
        gateway(at(url)) as ours,
        Client(ours.url) as client,
    ):
        result = await client.call_tool_mcp("call", {})
        assert "tersely/structured_handle" not in (result.meta or {}) and len(result.content) == 1
        assert len(await (await ours.gateway.backend()).read_back.kept.list(user_scope())) == 1


async def test_a_picture_and_its_mirror_pass_as_they_are() -> None:
    """Base64 was condensed into junk text, and searched for secrets for seconds."""
    picture = {"type": "image", "data": "iVBORw0KGgo" * 40_000, "mimeType": "image/png"}
    both = {"content": [picture], "structuredContent": {"content": [picture]}}
    async with Rude(lambda message, request: both).listening() as url, gateway(at(url)) as ours:
        result = (await post(ours.url, "tools/call", {"name": "call", "arguments": {}}))["result"]
    assert (result["content"], result["structuredContent"]) == (both["content"], both["structuredContent"])


async def test_typed_clients_keep_typed_data_and_accept_a_condensed_result() -> None:
    """Both libraries validate results against the listed schema, and fail without structured content."""
    server = Chatty()

    @server.server.tool
    def rows(number: int) -> list[dict[str, int]]:
        return [{"n": n, "square": n * n} for n in range(number)]

    @dataclass
    class Row:
        n: int
        name: str

    @server.server.tool
    def row(size: int) -> Row:
        return Row(n=7, name="word " * size)

    async with server.listening() as url, gateway(at(url)) as ours, Client(ours.url) as client:
        assert (await client.call_tool("rows", {"number": 2})).data == [{"n": 0, "square": 0}, {"n": 1, "square": 1}]
        assert (await client.call_tool("row", {"size": 1})).data.n == 7
        for name, arguments in (("rows", {"number": 2_000}), ("row", {"size": 9_000})):
            long = await client.call_tool(name, arguments)
            assert (
                isinstance(long.content[0], TextContent)
                and (long.structured_content or {})["result"] == long.content[0].text
            )
            assert O200K.count(long.content[0].text) <= 1_000


async def test_a_text_within_the_threshold_repeated_as_structured_content_is_not_condensed() -> None:
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
        assert isinstance(note, TextResourceContents) and O200K.count(note.text) <= 1_000 and "handle='r_" in note.text


@pytest.mark.slow
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
        assert "You condense the output of a tool" in llm.prompt(0), "the prompts for technical output"
        assert asked == 1 and (first.meta or {})["tersely/model_input_tokens"] > 0


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
