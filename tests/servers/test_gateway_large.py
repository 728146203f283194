"""Results over `max_result_bytes`, which the gateway condenses in parts."""

import json
import re
import tracemalloc
from typing import Any, Literal

import pytest
from fastmcp import Client, FastMCP
from starlette.responses import JSONResponse

from tersely.mcp.connect.spool import MessageSpool, SpooledAnswer
from tersely.results.kept import user_scope
from tersely.servers.gateway import large_results
from tests.fakes.gateways import at, by_command, gateway, text_of
from tests.fakes.llm_server import serving
from tests.fakes.mcp_servers.web import Rude

LIMITS: dict[str, Any] = {"max_result_bytes": 100_000, "max_spooled_bytes": 2_000_000}
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcw\n" * 20 + "-----END PRIVATE KEY-----\n"


def log(lines: int) -> str:
    said = [f"2026-11-15T10:00:{n % 60:02d}Z INFO api GET /cart/{n} 200 in {n % 311} ms\n" for n in range(lines)]
    said[lines // 2] = "2026-11-15T10:00:00Z ERROR api lost its database db-7: connection refused\n"
    said[lines // 3] = "2026-11-15T10:00:00Z INFO api password=hunter2hunter2 set\n"
    return "".join(said)


@pytest.mark.process
@pytest.mark.parametrize("way", ["stdio", "events", "json", "sse"])
async def test_a_result_over_the_limit_is_condensed_in_parts_that_can_be_read_back(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_results, "PART_BYTES", 200_000)
    text, server = log(9_000), FastMCP("large")

    @server.tool
    def lines(count: int) -> str:
        return text if count < 20_000 else text * 5

    def answer(message: Any, request: Any) -> Any:
        count = message["params"]["arguments"]["count"]
        result = {"content": [{"type": "text", "text": text * (5 if count >= 20_000 else 1)}]}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def check(upstream: Any, tool: str) -> None:
        async with gateway(upstream) as ours, Client(ours.url) as client:
            result = await client.call_tool_mcp(tool, {"count": 9_000})
            shown = text_of(result)
            assert not result.is_error and "lost its database db-7: connection refused" in shown, shown[:2_000]
            heads = re.findall(r"\[Part (\d): lines ([\d,]+)–([\d,]+)\]", shown)
            assert [int(number) for number, _, _ in heads] == list(range(1, len(heads) + 1)) and len(heads) >= 3
            numbers = [int(one.replace(",", "")) for head in heads for one in head[1:]]
            assert numbers[0] == 1 and numbers[-1] == 9_000, "every line belongs to one part"
            assert all(end + 1 == begin for end, begin in zip(numbers[1::2], numbers[2::2], strict=False))
            assert len(shown) < 40_000 and "hunter2" not in shown
            handles = (result.meta or {})["tersely/handles"]
            store = (await ours.gateway.backend()).read_back.kept
            kept = [await store.load(one, user_scope()) for one in handles]
            assert len(kept) == len(heads) and sum(one.count("\n") for one in kept) in (8_999, 9_000)
            assert "hunter2" not in "".join(kept)
            refused = await client.call_tool_mcp(tool, {"count": 40_000})
            assert refused.is_error and "`max_spooled_bytes`" in text_of(refused)
            again = await client.call_tool_mcp(tool, {"count": 9_000})
            assert not again.is_error, "the connection survives"

    if way == "stdio":
        await check(by_command("large", **LIMITS), "lines")
    elif way == "json":
        async with Rude(answer).listening() as url:
            await check(at(url, **LIMITS), "call")
    else:
        transport: Literal["sse", "http"] = "sse" if way == "sse" else "http"
        async with serving(server.http_app(transport=transport), lifespan="on") as address:
            upstream = at(f"{address}/{'sse' if way == 'sse' else 'mcp'}", **LIMITS)
            if way == "sse":
                options = upstream.options.model_copy(
                    update={"transport": upstream.options.transport.model_copy(update={"type": "sse"})}
                )
                upstream = upstream.model_copy(update={"options": options})
            await check(upstream, "lines")


@pytest.mark.parametrize("step", [1, 2, 7, 4096])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_message_is_read_in_pieces_of_any_size(step: int, ascii_only: bool) -> None:
    text = 'héllo "quoted" \\ back\n\ttab 😀 \u2028 ]}{[,: end\n' * 3
    rest = {"isError": False, "_meta": {"k": 1}}
    parts: list[dict[str, Any]] = [
        {"type": "text", "text": text, "annotations": {"a": [1, {"text": "x"}]}},
        {"text": "two", "type": "text"},
    ]
    message = {
        "jsonrpc": "2.0",
        "result": {"content": parts, "structuredContent": {"result": [{"a": 'b"}'}, [1]], "text": text}, **rest},
        "id": "c-5",
    }
    short, answer = _spooled(message, step, ascii_only)
    assert short["id"] == "c-5" and "".join(answer.spooled.parts(40)) == f"{text}\ntwo"
    assert answer == {"content": [{**parts[0], "text": ""}, {"text": "", "type": "text"}], **rest}
    answer.spooled.close()


def _spooled(message: Any, step: int, ascii_only: bool) -> tuple[Any, Any]:
    raw, spool = json.dumps(message, ensure_ascii=ascii_only).encode(), MessageSpool(10**9)
    for start in range(0, len(raw), step):
        spool.feed(raw[start : start + step])
    short = json.loads(spool.finish())
    return short, SpooledAnswer.of(short.get("result", {}))


def test_memory_does_not_depend_on_the_size_and_a_key_is_never_cut() -> None:
    raw = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": log(1_000)}]}}
    ).encode()
    middle = raw.index(b"INFO")
    spool = MessageSpool(10**9)
    tracemalloc.start()
    spool.feed(raw[:middle])
    for _ in range(400):
        spool.feed(b"x" * 79_998 + b"\\n")
    spool.feed(raw[middle:])
    answer = SpooledAnswer.of(json.loads(spool.finish())["result"])
    assert answer is not None and answer.spooled.size > 32_000_000
    largest = max(map(len, answer.spooled.parts(1_000_000)))
    assert largest < 1_300_000 and tracemalloc.get_traced_memory()[1] < 6_000_000
    tracemalloc.stop()
    answer.spooled.close()
    for size in range(1_000, 1_400, 7):
        _, cut = _spooled(
            {"id": 1, "result": {"content": [{"text": "line\n" * 120 + KEY + "line\n" * 200}]}}, 4096, True
        )
        for part in cut.spooled.parts(size):
            assert part.count("BEGIN PRIVATE") == part.count("END PRIVATE")
        cut.spooled.close()


def test_what_is_large_and_not_text_is_refused_and_a_reference_cannot_be_forged() -> None:
    picture = {"id": 3, "result": {"content": [{"type": "image", "data": "A" * 2_000_000}]}}
    refused, answer = _spooled(picture, 65_536, True)
    assert refused["id"] == 3 and "error" in refused and answer is None
    spool = MessageSpool(10**6)
    spool.feed(b'{"id": 1, "result": {"content": [{"text": "small"}]}}')
    result = json.loads(spool.finish())["result"]
    (name,) = result["_meta"]
    assert SpooledAnswer.of({"content": [], "_meta": {name: "guessed"}}) is None
    taken = SpooledAnswer.of(result)
    assert taken is not None and SpooledAnswer.of(result) is None, "it can be taken once"
    taken.spooled.close()


async def test_a_text_that_is_over_the_limit_only_with_its_mirror_is_condensed_as_a_whole() -> None:
    text = log(1_500)

    def answer(message: Any, request: Any) -> Any:
        result = {"content": [{"type": "text", "text": text}], "structuredContent": {"content": text}}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    limits: dict[str, Any] = {"max_result_bytes": len(text) + 1, "max_spooled_bytes": len(text) + 5_000}
    async with Rude(answer).listening() as url, gateway(at(url, **limits)) as ours, Client(ours.url) as client:
        result = await client.call_tool_mcp("call", {})
    assert not result.is_error and "db-7: connection refused" in text_of(result) and "[Part" not in text_of(result)
    assert (result.meta or {})["tersely/handle"]
