"""Results that are too large, malformed or unusual."""

import base64
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tersely.errors import ResultMalformed, ResultTooLarge, ToolRejected
from tersely.mcp.connect.supervisor import connected
from tersely.mcp.connect.wire import HalfCharacters, LineSplitter, TooLong, id_in
from tests.fakes.mcp_servers.plain import Message
from tests.fakes.mcp_servers.web import Honest, Rude, raw_answer
from tests.mcp.connections import (
    ERAS,
    HASTY,
    call,
    one,
    said,
    stdio,
    web,
)

# Too much


@pytest.mark.process
@pytest.mark.parametrize("how", ["give", "give_with_the_id_last"])
async def test_a_result_over_the_limit_is_refused_while_it_is_read_over_stdio(how: str) -> None:
    async with one(stdio("oversized", max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge, match=r"at most 100,000 bytes are read from server 'oversized'"):
            await call(connection, how, bytes=3_000_000)
        assert len(await said(connection, how, bytes=90_000)) == 90_000, "the connection is still good"
        assert connection.status().restarts == 0


@pytest.mark.parametrize("era", ERAS)
async def test_a_result_over_the_limit_is_refused_while_it_is_read_over_http(era: str) -> None:
    async with Honest().listening() as url, one(web(url, protocol=era, max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge):
            await call(connection, "big", bytes=1_000_000)
        assert len(await said(connection, "echo", text="x" * 10_000)) == 10_000


async def test_the_size_is_named_where_the_server_says_it() -> None:
    def much(message: Message, request: Request) -> Response:
        return raw_answer(message, b'{"content": [{"type": "text", "text": "%s"}]}' % (b"x" * 500_000))

    async with Rude(much).listening() as url, one(web(url, max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge, match=r"it has 500,\d\d\d bytes") as refused:
            await call(connection, "call")
        assert refused.value.size and refused.value.size > 500_000


async def test_a_body_of_unknown_size_is_read_up_to_the_limit_and_no_further() -> None:
    sent = 0

    def pour(message: Message, request: Request) -> Response:
        async def body() -> AsyncIterator[bytes]:
            nonlocal sent
            while sent < 50_000_000:
                sent += 10_000
                yield b"x" * 10_000
                await anyio.lowlevel.checkpoint()

        return StreamingResponse(body(), media_type="application/json")

    async with Rude(pour).listening() as url, one(web(url, max_result_bytes=100_000, timeout=60)) as connection:
        with pytest.raises(ResultTooLarge, match="larger than the limit"):
            await call(connection, "call")
    assert sent < 50_000_000


async def test_a_result_over_the_limit_is_refused_over_sse_and_the_next_call_works() -> None:
    async with Honest().listening("sse") as url, one(web(url, kind="sse", max_result_bytes=100_000)) as connection:
        with pytest.raises(ResultTooLarge):
            await call(connection, "big", bytes=1_000_000)
        assert await said(connection, "echo", text="x") == "x"
        assert len(await said(connection, "big", bytes=40_000)) == 40_000


@pytest.mark.process
async def test_ten_megabytes_arrive_over_every_transport() -> None:
    with anyio.fail_after(300):
        async with Honest().listening() as http, Honest().listening("sse") as sse:
            servers = [stdio("oversized", name="pipe"), web(http, "http"), web(sse, "sse", kind="sse")]
            async with connected(servers, backoff=HASTY) as connections:
                for name, how in (("pipe", "give"), ("http", "big"), ("sse", "big")):
                    assert len(await said(connections[name], how, bytes=10_000_000)) == 10_000_000, name


def test_lines_are_cut_without_keeping_what_is_too_long() -> None:
    lines = LineSplitter(limit=10)

    assert list(lines.feed(b"one\ntw")) == [b"one"]
    assert list(lines.feed(b"o\n\n")) == [b"two"]
    assert list(lines.feed(b"0123456789")) == []
    assert list(lines.feed(b"abc")) == [TooLong(b"0123456789abc", b"", None)]
    assert list(lines.feed(b"def\nnext\n")) == [TooLong(b"0123456789abc", b"abcdef", 16), b"next"]


# Strange


SHAPES = {
    "invalid UTF-8": (b'{"content": [{"type": "text", "text": "a\xff\xfeb"}]}', "a��b"),
    "a NUL": (b'{"content": [{"type": "text", "text": "a\\u0000b"}]}', "a\0b"),
    "half a character": (b'{"content": [{"type": "text", "text": "a\\ud83db"}]}', "a�b"),
    "duplicate keys": (b'{"content": [{"type": "text", "text": "a", "text": "b"}]}', "b"),
    "an unknown piece": (b'{"content": [{"type": "unknown-type", "x": 1}, {"type": "text", "text": "t"}]}', "t"),
    "a picture that is none": (
        b'{"content": [{"type": "image", "mimeType": "image/png", "data": "!!!notbase64"}]}',
        "",
    ),
    "nothing": (b'{"content": []}', ""),
    "a link": (b'{"content": [{"type": "resource_link", "uri": "file:///etc/passwd", "name": "x"}]}', ""),
    "a resource": (b'{"content": [{"type": "resource", "resource": {"uri": "a://b", "text": "inside"}}]}', "inside"),
}
BROKEN = {
    "a text for content": b'{"content": "a string"}',
    "no content": b"{}",
    "not a number": b'{"content": [], "structuredContent": {"result": NaN}}',
    "no type": b'{"content": [{"text": "x"}]}',
    "a number for a text": b'{"content": [{"type": "text", "text": 5}]}',
    "no JSON": b"{content: []}",
    "a list": b"[]",
    "a question for a person": b'{"resultType": "input_required", "inputRequests": {}}',
}


@asynccontextmanager
async def shaping(way: str) -> AsyncIterator[Callable[[bytes], Any]]:
    """A server that returns the given bytes as its result."""
    if way == "stdio":
        async with one(stdio("shapes", timeout=60)) as connection:
            yield lambda result: call(connection, "shape", result=base64.b64encode(result).decode())
    else:

        def react(message: Message, request: Request) -> Response:
            return raw_answer(message, base64.b64decode(message["params"]["arguments"]["result"]))

        async with Rude(react).listening() as url, one(web(url, timeout=60)) as connection:
            yield lambda result: call(connection, "call", result=base64.b64encode(result).decode())


@pytest.mark.parametrize("way", ["stdio", "http"])
async def test_strange_results_are_read_as_far_as_they_can_be_and_broken_ones_become_errors(way: str) -> None:
    async with shaping(way) as shaped:
        for name, (raw, expected) in SHAPES.items():
            assert "".join((await shaped(raw)).texts) == expected, name
        for name, raw in BROKEN.items():
            with pytest.raises((ResultMalformed, ToolRejected)):
                print(name, await shaped(raw))
        assert (await shaped(b'{"content": [{"type": "text", "text": "still here"}]}')).texts == ("still here",)


HALVES = st.lists(
    st.sampled_from(["\\ud83d", "\\uDE00", "\\\\", "\\n", "\\u0041", "ud800", "a", "é", '\\"']), max_size=30
)


@given(HALVES, st.lists(st.integers(0, 200), max_size=8))
def test_halves_of_characters_are_mended_wherever_the_stream_is_cut(pieces: list[str], cuts: list[int]) -> None:
    raw = f'["{"".join(pieces)}"]'.encode()
    mender = HalfCharacters()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]

    arrived = [mender.feed(raw[start:end]) for start, end in itertools.pairwise(edges)]

    mended = json.loads(b"".join(arrived))
    assert mended == [json.loads(raw)[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")]
    mended[0].encode()


def test_a_dropped_line_is_known_by_its_id_at_either_end() -> None:
    first = b'{"jsonrpc": "2.0", "id": 7, "result": {"content": [{"id": 8'
    last = b'{"jsonrpc": "2.0", "result": {"content": [{"id": 8'

    assert id_in(TooLong(first, b"", None)) == 7
    assert id_in(TooLong(last, b"", None)) is None
    assert id_in(TooLong(last, b'"id": 8}]}, "id": 9}', 100)) == 9
