"""The summarizer over real HTTP, in both protocol eras, with a scripted model behind it."""

import contextlib
import io
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from fastmcp import Client
from fastmcp.client.auth import BearerAuth
from mcp_types import CallToolResult, TextContent

from tersely.app.summarizer import Summarizer, summarizer_app
from tersely.http.guesses import ALLOWED
from tersely.llm.limits import RetryPolicy
from tersely.logging_setup import JsonFormatter
from tersely.servers.http_app import build_fastmcp_app
from tersely.servers.summarizer import build_summarizer_server
from tersely.settings.model import Settings
from tersely.text.tokens import O200K
from tests.condensing.test_summarize import pages
from tests.fakes.asking import model_at
from tests.fakes.llm_server import Body, FakeLLMServer, Reply, serving

ERAS = ["legacy", "2026-07-28"]

LONG = pages(58)
"""About 7,500 tokens: more than the default target, less than one chunk."""


@asynccontextmanager
async def service(
    llm: FakeLLMServer | None = None, retry_policy: RetryPolicy | None = None, **environment: str
) -> AsyncIterator[str]:
    """The address of a running service; its model is the fake one, if there is one."""
    settings = Settings.load({"TERSELY_SUMMARY_CACHE": "no", **environment})
    async with contextlib.AsyncExitStack() as stack:
        parts = await stack.enter_async_context(summarizer_app(settings))
        model = (
            await stack.enter_async_context(model_at(llm.url, retry_policy=retry_policy or RetryPolicy(delays=())))
            if llm
            else None
        )
        server = build_summarizer_server(
            Summarizer(settings, model, parts.summarizer.pipeline, parts.summarizer.masker)
        )
        options = settings.summarizer
        app = build_fastmcp_app(server, allowed_hosts=options.allowed_hosts, max_body_bytes=options.max_body_bytes)
        yield await stack.enter_async_context(serving(app, lifespan="on"))


def text_of(result: CallToolResult) -> str:
    (only,) = result.content
    assert isinstance(only, TextContent)
    return only.text


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_text_comes_back_as_a_summary_with_its_account(era: Any) -> None:
    async with FakeLLMServer(lambda body: "The gist.").listening() as llm, service(llm) as address:
        async with Client(f"{address}/mcp", mode=era) as client:
            result = await client.call_tool_mcp(
                "summarize", {"content": LONG, "max_output_tokens": 500, "focus_areas": "entries"}
            )
    assert text_of(result) == "The gist."
    assert result.structured_content is None, "the text comes once"
    meta = result.meta or {}
    assert meta["status"] == "summarized"
    assert meta["input_tokens"] == O200K.count(LONG) and meta["output_tokens"] == O200K.count("The gist.")
    assert meta["compression_ratio"] > 1000 and meta["num_chunks"] == 1 and meta["levels"] == 0 and meta["gaps"] == []
    assert meta["model"] == "openai/gpt-4o-mini" and meta["price_usd"] > 0 and meta["cache_hit"] is False
    assert "entries" in llm.prompt(0)


@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_told_for_every_finished_part(era: Any) -> None:
    told: list[tuple[float, float | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total))

    async with (
        FakeLLMServer(lambda body: "Part.").listening() as llm,
        service(llm, DEFAULT_CHUNK_SIZE_TOKENS="1000") as address,
    ):
        async with Client(f"{address}/mcp", mode=era) as client:
            await client.call_tool_mcp(
                "summarize", {"content": LONG, "max_output_tokens": 500}, progress_handler=listen
            )
    calls = len(llm.requests)
    assert calls > 8
    assert told == [(done, calls) for done in range(1, calls + 1)]


async def test_content_within_the_target_is_returned_unchanged_without_a_model_call() -> None:
    """MS-1. The caller's own bytes, secrets included: it is the caller's text."""
    content = "password=hunter2-Walnut!42\r\n\tshort\u00a0enough"
    async with FakeLLMServer([]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp("summarize", {"content": content})
        empty = await client.call_tool_mcp("summarize", {"content": ""})
        extraction = await client.call_tool_mcp(
            "summarize_for_extraction", {"content": content, "schema_hint": "passwords"}
        )
    assert text_of(result) == text_of(extraction) == content and (result.meta or {})["status"] == "passthrough"
    assert text_of(empty) == ""


async def test_extraction_without_a_target_aims_at_five_to_one() -> None:
    """MS-2: at least 5:1 once the content is over the default target."""
    async with (
        FakeLLMServer(lambda body: "fact. " * 600).listening() as llm,
        service(llm) as address,
        Client(f"{address}/mcp") as client,
    ):
        result = await client.call_tool_mcp(
            "summarize_for_extraction", {"content": LONG, "schema_hint": "entries with numbers"}
        )
    meta = result.meta or {}
    assert meta["output_tokens"] <= meta["input_tokens"] // 5
    assert "entries with numbers" in llm.prompt(0) and "extract" in llm.prompt(0)


async def test_at_the_services_defaults_a_large_text_ends_as_one_summary() -> None:
    """F7: with an output cap of 4,096 for every model, two halves were returned side by side."""

    def script(body: Body) -> str:
        return "One summary." if "Merge" in str(body["messages"][0]) else "Part."

    content = pages(500)
    async with (
        FakeLLMServer(script).listening() as llm,
        service(llm) as address,
        Client(f"{address}/mcp") as client,
    ):
        result = await client.call_tool_mcp("summarize", {"content": content})
    assert text_of(result) == "One summary."
    assert (result.meta or {})["num_chunks"] == len(llm.requests) - 1 > 5, "chunks of the configured size"
    assert llm.prompt(-1).count("Part.") == len(llm.requests) - 1, "the last call sees everything"


async def test_a_summary_that_was_cut_says_so_in_its_text_and_its_account() -> None:
    """F8: only agents were told."""
    cut = Reply("Entry 12 is long. " * 300 + "And then", finish="length")
    async with FakeLLMServer([cut]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp("summarize", {"content": LONG, "max_output_tokens": 500})
    meta = result.meta or {}
    assert meta["status"] == "summarized" and "cut" in meta["cut"][0]
    assert "The summary was cut at its size limit" in text_of(result) and meta["output_tokens"] <= 500


async def test_what_a_summary_made_up_is_named_and_marked() -> None:
    answer = "Entry 50 is about pod api-7f9c, 4711 words (derived) in all [lines 3-9]."
    async with (
        FakeLLMServer([answer, answer]).listening() as llm,
        service(llm) as address,
        Client(f"{address}/mcp") as client,
    ):
        result = await client.call_tool_mcp("summarize", {"content": LONG, "max_output_tokens": 500})
    meta = result.meta or {}
    assert meta["invented"] == {"count": 1, "examples": ["api-7f9c"]} and meta["unverified"] is True
    assert meta["derived"] == {"count": 1, "examples": ["4711"]} and meta["cited"] == [{"lines": [3, 9]}]
    assert meta["checked"] == 4 and "Unverified: 1 of 4" in text_of(result)


async def test_documents_have_prompts_of_their_own_and_extraction_covers_every_field() -> None:
    async with (
        FakeLLMServer(lambda body: "The gist.").listening() as llm,
        service(llm, DEFAULT_CHUNK_SIZE_TOKENS="2000") as address,
        Client(f"{address}/mcp") as client,
    ):
        await client.call_tool_mcp("summarize", {"content": LONG, "max_output_tokens": 500})
        asked = len(llm.requests)
        await client.call_tool_mcp(
            "summarize_for_extraction", {"content": LONG, "schema_hint": "npcs, factions", "max_output_tokens": 500}
        )
    first, second = llm.requests[:asked], llm.requests[asked:]
    assert all("cookie notices" in str(body) or "coherent summary" in str(body) for body in first)
    assert len(second) > 2 and all(
        "Cover EVERY field" in str(body) and "npcs, factions" in str(body) for body in second
    )


async def test_when_the_model_fails_for_good_the_original_comes_back_unchanged() -> None:
    """MS-6: better to attempt extraction on too large content than to lose it."""
    content = LONG + "\napi_key=sk-proj-abcdefghijklmnopqrstuvwx0123456789"
    async with (
        FakeLLMServer(lambda body: 503).listening() as llm,
        service(llm) as address,
        Client(f"{address}/mcp") as client,
    ):
        result = await client.call_tool_mcp("summarize", {"content": content, "max_output_tokens": 500})
    meta = result.meta or {}
    assert text_of(result) == content and not result.is_error
    assert (meta["status"], meta["returned"]) == ("fallback", "original") and "503" in meta["reason"]


async def test_a_partial_summary_names_its_gaps() -> None:
    def script(body: Body) -> str | int:
        return 500 if "Entry 40:" in str(body["messages"][-1]["content"]) else "Fine."

    async with FakeLLMServer(script).listening() as llm, service(llm, DEFAULT_CHUNK_SIZE_TOKENS="1000") as address:
        async with Client(f"{address}/mcp") as client:
            result = await client.call_tool_mcp("summarize", {"content": LONG, "max_output_tokens": 500})
    meta = result.meta or {}
    assert meta["status"] == "partial"
    assert len(meta["gaps"]) == 1 and "lines" in meta["gaps"][0]


async def test_without_a_key_the_structure_decides_and_the_result_says_so() -> None:
    async with service() as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp(
            "summarize", {"content": LONG, "max_output_tokens": 400, "focus_areas": "Entry 55"}
        )
    meta = result.meta or {}
    assert meta["status"] == "structural" and "OPENROUTER_API_KEY" in meta["note"]
    assert meta["output_tokens"] <= 400 and "Entry 55" in text_of(result)


@pytest.mark.parametrize("focus", ["NPCs, factions", ["NPCs", "factions"]])
async def test_focus_areas_may_be_a_string_or_a_list(focus: Any) -> None:
    async with FakeLLMServer(["Gist."]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        await client.call_tool_mcp("summarize", {"content": LONG, "max_output_tokens": 500, "focus_areas": focus})
    assert "NPCs, factions" in llm.prompt(0)


async def test_an_unknown_strategy_is_semantic_and_the_result_says_so() -> None:
    async with FakeLLMServer(["Gist."]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        arguments = {"content": LONG, "max_output_tokens": 500, "strategy": "../../etc/passwd"}
        result = await client.call_tool_mcp("summarize", arguments)
    meta = result.meta or {}
    assert meta["strategy"] == "semantic" and "Unknown strategy" in meta["strategy_note"]
    assert "passwd" not in llm.prompt(0) and "passwd" not in json.dumps(meta)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"content": LONG, "max_output_tokens": -1}, "16 to 1,000,000"),
        ({"content": LONG, "max_output_tokens": 99999999999}, "16 to 1,000,000"),
        ({"content": LONG, "max_output_tokens": "many"}, "max_output_tokens: Input should be a valid integer"),
        ({"content": LONG, "focus_areas": "x" * 300_000}, "focus_areas has 300,000 characters; at most 20,000"),
        ({"max_output_tokens": 100}, "content: Missing required argument"),
        ({"content": LONG, "colour": "red"}, "colour: Unexpected keyword argument"),
    ],
)
async def test_an_invalid_argument_is_an_error_that_names_the_range_without_a_model_call(
    arguments: dict[str, Any], says: str
) -> None:
    async with FakeLLMServer([]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp("summarize", arguments)
    assert result.is_error and says in text_of(result)
    assert "Entry 1" not in text_of(result), "the error does not quote what was sent"


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_closes_its_stream_stops_the_work(era: Any) -> None:
    """F34: in both protocol eras; nothing is left behind. The model would take half a minute to answer."""
    async with FakeLLMServer(lambda body: Reply("late", delay=3600)).listening() as llm:
        async with service(llm, DEFAULT_CHUNK_SIZE_TOKENS="1000") as address:
            async with anyio.create_task_group() as tasks:

                async def ask() -> None:
                    async with Client(f"{address}/mcp", mode=era) as client:
                        await client.call_tool_mcp("summarize", {"content": LONG, "max_output_tokens": 500})

                tasks.start_soon(ask)
                with anyio.fail_after(300):
                    while llm.in_flight < 5:
                        await anyio.sleep(0.01)
                tasks.cancel_scope.cancel()
            with anyio.fail_after(300):
                while llm.in_flight:
                    await anyio.sleep(0.01)
            asked = len(llm.requests)
            await anyio.sleep(0.2)
            assert len(llm.requests) == asked


@pytest.mark.slow
async def test_a_hundred_clients_that_hang_up_leave_nothing_behind() -> None:
    """F34: closed at random moments, raw, as a killed client would."""
    async with FakeLLMServer(lambda body: Reply("late", delay=3600)).listening() as llm, service(llm) as address:
        call = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "summarize", "arguments": {"content": LONG, "max_output_tokens": 500}},
        }
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        async with httpx2.AsyncClient() as client, anyio.create_task_group() as tasks:

            async def hang_up(after: float) -> None:
                with anyio.move_on_after(after):
                    await client.post(f"{address}/mcp", json=call, headers=headers)

            for number in range(100):
                tasks.start_soon(hang_up, 0.05 + number * 0.004)
        with anyio.fail_after(300):
            while llm.in_flight:
                await anyio.sleep(0.01)
        async with Client(f"{address}/mcp") as after:
            assert len(await after.list_tools()) == 2


async def test_health_is_open_and_says_ok() -> None:
    async with service(TERSELY_TOKEN="s3cret") as address, httpx2.AsyncClient() as client:
        response = await client.get(f"{address}/health")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_a_token_is_asked_for_where_one_is_set() -> None:
    async with service(TERSELY_TOKEN="s3cret") as address:
        async with httpx2.AsyncClient() as client:
            assert (await client.post(f"{address}/mcp", json={})).status_code == 401
            assert (
                await client.post(f"{address}/mcp", json={}, headers={"authorization": "Bearer wrong"})
            ).status_code == 401
        async with Client(f"{address}/mcp", auth=BearerAuth("s3cret")) as client_with_token:
            assert len(await client_with_token.list_tools()) == 2
        async with httpx2.AsyncClient(headers={"authorization": "Bearer guess"}) as client:
            answers = [(await client.post(f"{address}/mcp", json={})).status_code for _ in range(ALLOWED)]
        assert answers == [401] * (ALLOWED - 1) + [429], "the first wrong one is above"


async def test_requests_with_a_foreign_host_or_origin_are_refused() -> None:
    """DNS rebinding: Host and Origin are checked, also where no auth is set."""
    async with service(TERSELY_ALLOWED_HOSTS="mcp-summarizer") as address, httpx2.AsyncClient() as client:
        assert (await client.post(f"{address}/mcp", json={}, headers={"host": "evil.example"})).status_code == 421
        assert (
            await client.post(f"{address}/mcp", json={}, headers={"origin": "https://evil.example"})
        ).status_code == 403
        assert (
            await client.post(f"{address}/mcp", json={}, headers={"sec-fetch-site": "cross-site"})
        ).status_code == 403
        assert (
            await client.post(f"{address}/mcp", json={}, headers={"host": "mcp-summarizer:8007"})
        ).status_code not in (403, 421)


@pytest.mark.slow
async def test_a_body_over_the_limit_is_refused_with_the_limit_in_the_text() -> None:
    """F39: announced or in chunks, before it is buffered; under it, more than the 4 MiB of the SDK go through."""
    async with service() as address, httpx2.AsyncClient(timeout=300) as client:
        announced = await client.post(f"{address}/mcp", content=b"x" * (16 * 2**20 + 1))
        assert announced.status_code == 413 and "16,777,216" in announced.text

        async def endless() -> AsyncIterator[bytes]:
            for _ in range(1000):
                yield b"x" * 2**20

        try:
            status = (await client.post(f"{address}/mcp", content=endless())).status_code
        except (httpx2.WriteError, httpx2.ReadError):
            status = 413  # it hung up on us before we had sent the gigabyte, which is the point
        assert status == 413
        async with Client(f"{address}/mcp") as big:
            result = await big.call_tool_mcp(
                "summarize", {"content": "12345 abc \n" * 700_000, "max_output_tokens": 100}
            )
        assert (result.meta or {})["status"] == "structural"


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{" + b",".join(b'"k%d":1' % n for n in range(200_000)) + b"}",
        b"\x1f\x8b\x08\x00garbage",
        b"\xff\xfe\x00",
        b"",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"summarize","arguments":{"content":"\\ud800"}}}',
    ],
)
async def test_hostile_bodies_get_a_client_error_and_the_service_goes_on(body: bytes) -> None:
    """F39."""
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with service() as address, httpx2.AsyncClient(timeout=300) as client:
        response = await client.post(f"{address}/mcp", content=body, headers=headers)
        assert response.status_code < 500
        assert (await client.get(f"{address}/health")).status_code == 200


async def test_each_request_is_one_log_line_with_every_field_and_no_content(caplog: pytest.LogCaptureFixture) -> None:
    """MS-6, and the injections of log lines: whatever is sent, one record is one line of JSON."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(JsonFormatter("mcp_summarizer"))
    logging.getLogger().addHandler(handler)
    caplog.set_level(logging.INFO)
    hostile = 'x\n{"level":"info","msg":"login ok","user":"admin"}\r\nX-Injected: 1 %0d%0a' + "a" * 5000
    try:
        async with FakeLLMServer(lambda body: "Gist.").listening() as llm, service(llm) as address:
            async with Client(f"{address}/mcp") as client:
                arguments = {
                    "content": "CANARY-CONTENT " + LONG,
                    "focus_areas": hostile,
                    "strategy": hostile,
                    "max_output_tokens": 500,
                }
                await client.call_tool_mcp("summarize", arguments)
                await client.call_tool_mcp(
                    "summarize", {"content": "CANARY-CONTENT", "max_output_tokens": "CANARY-NUMBER"}
                )
                with contextlib.suppress(Exception):
                    await client.call_tool_mcp(hostile, {})
    finally:
        logging.getLogger().removeHandler(handler)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert all(line["service_id"] == "mcp_summarizer" for line in lines)
    (served,) = [line for line in lines if line["event"] == "request_served"]
    assert {"input_tokens", "output_tokens", "compression_ratio", "num_chunks", "strategy", "model"} <= served.keys()
    assert "CANARY" not in out.getvalue() and "login ok" not in out.getvalue().replace("\\", "")
    assert max(len(line) for line in out.getvalue().splitlines()) < 10_000


async def test_secrets_reach_neither_the_model_nor_the_cache(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with FakeLLMServer(lambda body: "Gist.").listening() as llm:
        environment = {
            "OPENROUTER_BASE_URL": llm.url,
            "TERSELY_DATA_DIR": str(tmp_path),
            "DEFAULT_CHUNK_SIZE_TOKENS": "1000",
        }
        async with summarizer_app(Settings.load(environment)) as parts:
            condensed = await parts.summarizer.summarize(
                f"token: {secret}\n" + LONG, max_output_tokens=500, focus_areas=f"password={secret}"
            )
    assert condensed.status == "summarized"
    assert all(secret not in json.dumps(body) for body in llm.requests)
    assert "[MASKED:" in llm.prompt(0)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    assert files and all(secret.encode() not in path.read_bytes() for path in files)


async def test_any_replica_can_answer_any_request_of_a_conversation() -> None:
    """Behind a load balancer each request may land elsewhere; in the 2025 era too, which knows sessions."""
    headers = {"accept": "application/json, text/event-stream"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "summarize", "arguments": {"content": "short"}}
    async with service() as one, service() as other, httpx2.AsyncClient(headers=headers) as client:

        async def post(address: str, method: str, params: dict[str, Any], **more: Any) -> httpx2.Response:
            versioned = {} if method == "initialize" else {"mcp-protocol-version": "2025-11-25"}
            return await client.post(
                f"{address}/mcp", json={"jsonrpc": "2.0", "method": method, "params": params, **more}, headers=versioned
            )

        greeted = await post(one, "initialize", hello, id=1)
        assert greeted.status_code == 200 and "mcp-session-id" not in greeted.headers
        assert (await post(other, "notifications/initialized", {})).status_code == 202
        assert '"text":"short"' in (await post(one, "tools/call", call, id=2)).text
        assert '"text":"short"' in (await post(other, "tools/call", call, id=3)).text


async def test_what_a_provider_quotes_back_reaches_neither_log_nor_caller(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key = "sk-or-v1-" + "0123456789abcdef" * 4

    def script(body: Body) -> Reply:
        return Reply(
            status=401, error=f"Incorrect API key {key}; prompt was: {str(body['messages'][-1]['content'])[-60:]}"
        )

    async with FakeLLMServer(script).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp("summarize", {"content": LONG + " CANARY-END", "max_output_tokens": 500})
    assert (result.meta or {})["status"] == "fallback" and key not in json.dumps(result.meta)
    ours = [record for record in caplog.records if record.name.startswith("tersely")]
    said = " ".join(str(vars(record)) for record in ours)
    assert ours and key not in said and "CANARY" not in said


async def test_a_text_that_fits_once_its_secrets_are_masked_is_not_called_unchanged() -> None:
    secret = (
        "-----BEGIN PRIVATE KEY-----\n"
        + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 60
        + "-----END PRIVATE KEY-----\n"
    )
    content = "the key:\n" + secret
    async with FakeLLMServer([]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp("summarize", {"content": content, "max_output_tokens": 200})
    meta = result.meta or {}
    assert (
        meta["status"] == "structural"
        and meta["input_tokens"] == O200K.count(content)
        and "MIIEvQ" not in text_of(result)
    )


async def test_white_space_only_is_answered_with_nothing() -> None:
    async with FakeLLMServer([]).listening() as llm, service(llm) as address, Client(f"{address}/mcp") as client:
        result = await client.call_tool_mcp("summarize", {"content": " " * 500_000, "max_output_tokens": 16})
    assert text_of(result) == "" and not result.is_error


async def test_the_shared_cases_of_hostile_parameters(shared: Path) -> None:
    cases = [
        json.loads(line)
        for line in (shared / "safety" / "injection_dev.jsonl").read_text(encoding="utf-8").split("\n")
        if line
    ]
    chosen = [case for case in cases if case["surface"] == "tool_params" and case["category"].startswith("param_")]
    assert len(chosen) >= 5
    async with (
        FakeLLMServer(lambda body: "Gist.").listening() as llm,
        service(llm) as address,
        Client(f"{address}/mcp") as client,
    ):
        for case in chosen:
            name = case["category"].removeprefix("param_")
            tool = "summarize_for_extraction" if name == "schema_hint" else "summarize"
            arguments = {"content": LONG, "max_output_tokens": 500, name: case["payload"]}
            llm.requests.clear()
            result = await client.call_tool_mcp(tool, arguments)
            if name == "max_output_tokens":
                assert result.is_error and "1,000,000" in text_of(result) and not llm.requests
            elif name == "content":
                assert text_of(result) == case["payload"] and not llm.requests
            elif name == "strategy":
                assert case["payload"] not in llm.prompt(0) and (result.meta or {})["strategy"] == "semantic"
            else:
                assert case["payload"] not in llm.requests[0]["messages"][0]["content"], (
                    "delimited apart from the system text"
                )
