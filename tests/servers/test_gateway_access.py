"""Tokens, redefined tools and statistics of the gateway."""

import hashlib
import logging
import re
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from fastmcp import Client

from tersely.http.guesses import ALLOWED
from tersely.servers.gateway import web
from tersely.servers.gateway.call_limits import CallLimit, CallLimits, TooManyCalls
from tersely.store import audit, usage
from tests.fakes.gateways import Library, at, by_command, gateway, post, text_of
from tests.fakes.mcp_servers.web import Honest, Rude
from tests.servers.chatty import Chatty, log

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


@pytest.mark.process
async def test_a_redefined_tool_is_reported_and_withheld_in_strict_mode(caplog: pytest.LogCaptureFixture) -> None:
    """F31: also when it changed between two runs."""
    caplog.set_level(logging.WARNING)
    async with gateway(by_command("changes"), strict=True) as ours, Client(ours.url) as client:
        assert text_of(await client.call_tool_mcp("get", {})) == "got"
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(300):
            while not ours.gateway.upstreams.redefined:
                await anyio.sleep(0.02)
        assert ours.gateway.upstreams.redefined == {"one.get"}
        names = [tool.name for tool in await client.list_tools()]
        assert "get" not in names and "new" in names
        refused = (await post(ours.url, "tools/call", {"name": "get", "arguments": {}}))["error"]
        assert "withheld" in refused["message"]
    assert any(record.getMessage() == "tool_redefined" for record in caplog.records)
    pins = ours.gateway.upstreams._pins
    pins.accept(ours.gateway.upstreams.servers, {"one": {"get": "another fingerprint"}})
    async with gateway(by_command("changes"), strict=True) as ours, Client(ours.url) as client:
        assert "get" not in [tool.name for tool in await client.list_tools()]
    async with gateway(by_command("changes")) as ours, Client(ours.url) as client:
        assert "get" in [tool.name for tool in await client.list_tools()], "without strict it is reported only"


# Access and statistics


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


async def test_an_address_that_guesses_tokens_is_logged_and_has_to_wait(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        Honest().listening() as url,
        gateway(at(url), TERSELY_TOKEN="s3cret") as ours,
        httpx2.AsyncClient() as client,
    ):
        for number in range(ALLOWED):
            guess = {"authorization": f"Bearer wrong{number}!"}
            assert (await client.post(ours.url, json={}, headers=guess)).status_code == 401
        refused = await client.post(ours.url, json={}, headers={"authorization": "Bearer s3cret"})
        assert refused.status_code == 429 and 0 < int(refused.headers["Retry-After"]) <= 60
        assert (await client.get(f"{ours.root}/health")).status_code == 200
    logged = [record for record in caplog.records if record.getMessage() == "wrong_token"]
    assert len(logged) == ALLOWED and "wrong1" not in str([vars(record) for record in logged])


async def test_only_so_many_sessions_of_the_older_protocol_are_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MAX_SESSIONS", 1)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    headers = {"accept": "application/json, text/event-stream"}
    async with Honest().listening() as url, gateway(at(url)) as ours, httpx2.AsyncClient(headers=headers) as client:
        assert [(await client.post(ours.url, json=opening)).status_code for _ in range(3)] == [200, 503, 503]


async def test_holders_of_different_tokens_do_not_read_each_others_results() -> None:
    digests = [f"{name}:{hashlib.sha256(name.encode()).hexdigest()}:read" for name in ("ada", "bob")]
    async with Chatty().listening() as url, gateway(at(url), TERSELY_AUTH_TOKENS=",".join(digests)) as ours:
        async with Client(ours.url, auth="ada") as ada, Client(ours.url, auth="bob") as bob:
            handle = ((await ada.call_tool_mcp("logs", {})).meta or {})["tersely/handle"]
            assert not (await ada.call_tool_mcp("read_result", {"handle": handle})).is_error
            denied = await bob.call_tool_mcp("read_result", {"handle": handle})
            assert denied.is_error and "No kept result" in text_of(denied)
        async with (await ours.gateway.backend()).read_back.kept.database.reading() as db:
            entries = [stored.entry for stored in await audit.page(db)]
    assert [(entry.action, entry.method, entry.target, entry.status) for entry in entries] == [
        ("read_result", "mcp", handle, 200),
        ("read_result", "mcp", handle, 404),
    ]
    assert "ada" in entries[0].principal and "bob" in entries[1].principal and entries[0].address == "127.0.0.1"


async def test_a_token_has_its_own_limits_and_a_call_over_them_is_refused_with_a_sentence(tmp_path: Path) -> None:
    digests = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("ada", "bob")}
    file = tmp_path / "tersely.yaml"
    file.write_text(
        "gateway: {calls_per_minute: 2}\nauth:\n  tokens:\n"
        f"    - {{name: ada, sha256: {digests['ada']}}}\n"
        f"    - {{name: bob, sha256: {digests['bob']}, calls_per_minute: 0, concurrent_calls: 1}}\n"
    )
    honest = Honest()
    async with honest.listening() as url, gateway(at(url), file=file) as ours:
        async with Client(ours.url, auth="ada") as ada, Client(ours.url, auth="bob") as bob:
            texts = [text_of(await ada.call_tool_mcp("echo", {"text": "in"})) for _ in range(3)]
            assert texts[:2] == ["in", "in"] and honest.calls == 2
            assert re.fullmatch(r"Too many calls: this client may make 2 per minute\. Try again in \d\d s\.", texts[2])
            for _ in range(4):
                assert text_of(await bob.call_tool_mcp("echo", {"text": "in"})) == "in"
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: bob.call_tool_mcp("hang", {}))
                with anyio.fail_after(60):
                    while not ours.waiting:
                        await anyio.sleep(0.01)
                refused = await bob.call_tool_mcp("echo", {"text": "in"})
                tasks.cancel_scope.cancel()
            assert refused.is_error and text_of(refused).startswith("Too many calls at once: this client may have 1")


def test_calls_are_counted_over_the_last_minute() -> None:
    times = iter((0.0, 30.0, 60.0, 90.0, 90.0, 90.0))
    limits = CallLimits(CallLimit(per_minute=2), clock=lambda: next(times))
    for _ in range(4):
        with limits.slot("ada"):
            pass
    with pytest.raises(TooManyCalls, match=r"Try again in 30 s"), limits.slot("ada"):
        pass
    with limits.slot("bob"):
        pass


async def test_what_went_through_is_counted_stored_and_shown() -> None:
    async with Chatty().listening() as url, gateway(at(url)) as ours:
        async with Client(ours.url) as client:
            await client.call_tool_mcp("echo", {"text": "one two three"})
            handle = ((await client.call_tool_mcp("logs", {})).meta or {})["tersely/handle"]
            await client.call_tool_mcp("read_result", {"handle": handle})
            await client.call_tool_mcp("fail", {})
        async with httpx2.AsyncClient() as web:
            metrics = (await web.get(f"{ours.root}/metrics")).text
        await ours.gateway.counting.store()
        async with (await ours.gateway.backend()).read_back.kept.database.reading() as db:
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
        await ours.gateway.counting.store()
        async with (await ours.gateway.backend()).read_back.kept.database.reading() as db:
            stored = {row.tool: row for row in await usage.used(db, door="gateway")}
    read = stored["resources/read"]
    assert (read.calls, read.condensed, stored["prompts/get"].calls) == (2, 1, 1)
    assert read.tokens_before > 50_000 > 1_100 > read.tokens_after > 0 and stored["prompts/get"].tokens_after > 0
