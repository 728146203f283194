"""What hostile servers put into their tools and results, and what of it comes out of the gateway."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client

from tersely.mcp.suspicion import suspicions
from tests.fakes.gateways import by_command, gateway, post, text_of

pytestmark = pytest.mark.process

USABLE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def cases(shared: Path, surface: str) -> list[dict[str, str]]:
    lines = (shared / "safety" / "injection_dev.jsonl").read_text(encoding="utf-8").split("\n")
    return [case for line in lines if line and (case := json.loads(line))["surface"] == surface]


async def shaped(url: str, result: bytes) -> dict[str, Any]:
    return await post(url, "tools/call", {"name": "shape", "arguments": {"result": base64.b64encode(result).decode()}})


async def test_the_shared_results_of_hostile_shape(shared: Path) -> None:
    """Nothing crashes, whatever comes; after each of them an ordinary call works."""
    chosen = cases(shared, "gateway")
    assert len(chosen) >= 8
    async with gateway(by_command("shapes")) as ours:
        for case in chosen:
            answer = await shaped(ours.url, case["payload"].encode())
            assert "result" in answer or "error" in answer, case
            sent = json.dumps(answer)
            if "masked" in case["expect"]:
                assert "[MASKED:" in sent and "Walnut" not in sent, case
            if "allow-listed" in case["expect"]:
                assert '"image"' not in sent and "image/svg+xml" in sent and "not shown" in sent, case
            if "tool error" in case["expect"] or "refused" in case["expect"]:
                assert answer["result"]["isError"], case
            if "stated as empty" in case["expect"]:
                assert "returned nothing" in sent, case
            fine = await shaped(ours.url, b'{"content": [{"type": "text", "text": "fine"}]}')
            assert fine["result"]["content"] == [{"type": "text", "text": "fine"}], case


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (b'{"content": "a string"}', "its content is a string, not a list"),
        (b'{"content": [{"type": "text"}]}', "not a string"),
        (b'{"content": [{"type": "text", "text": "x"}], "structuredContent": {"n": NaN}}', "NaN"),
        (b"[]", "cannot be parsed"),
        (b'"text"', "cannot be parsed"),
    ],
)
async def test_a_result_that_breaks_the_protocol_is_an_error_for_the_model(result: bytes, says: str) -> None:
    async with gateway(by_command("shapes", timeout=60)) as ours:
        answer = await shaped(ours.url, result)
    assert answer["result"]["isError"] and says in answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("shape", ['{"content": [], "structuredContent": {"a": %s}}', '{"content": [], "future": %s}'])
async def test_nesting_without_end_is_an_error_and_nothing_more(shape: str) -> None:
    async with gateway(by_command("shapes")) as ours:
        for depth in (190, 300, 500, 700, 900):
            answer = await shaped(ours.url, (shape % ("[" * depth + "]" * depth)).encode())
            said = answer["result"]
            assert (
                not said.get("isError")
                if depth < 200
                else re.search("nested too deep|cannot be parsed", said["content"][0]["text"])
            )
        fine = await shaped(ours.url, b'{"content": [{"type": "text", "text": "fine"}]}')
        assert fine["result"]["content"] == [{"type": "text", "text": "fine"}]


async def test_half_characters_and_nothing_at_all_reach_the_client_as_something_readable() -> None:
    async with gateway(by_command("shapes")) as ours:
        half = await shaped(ours.url, b'{"content": [{"type": "text", "text": "a\\ud800b"}]}')
        assert half["result"]["content"][0]["text"].startswith("a") and half["result"]["content"][0]["text"].endswith(
            "b"
        )
        empty = await shaped(ours.url, b'{"content": []}')
        assert empty["result"]["content"] == [{"type": "text", "text": "[The tool returned nothing.]"}]
        unseen = await shaped(ours.url, '{"content": [{"type": "text", "text": "\u200b\u200b"}]}'.encode())
        assert unseen["result"]["content"] == [
            {"type": "text", "text": "[The tool returned nothing that a reader could see.]"}
        ]


async def test_a_link_is_passed_on_and_never_followed(tmp_path: Path) -> None:
    canary = tmp_path / "passwd"
    canary.write_text("CANARY")
    link = {"type": "resource_link", "uri": f"file://{canary}", "name": "x"}
    async with gateway(by_command("shapes")) as ours:
        answer = await shaped(ours.url, json.dumps({"content": [link]}).encode())
    assert answer["result"]["content"] == [link] and "CANARY" not in json.dumps(answer)


async def test_the_shared_descriptions_that_hurt(shared: Path) -> None:
    """One listing with all of them: what cannot be trusted is not there, what is there is pinned, and the rest
    works.
    """
    chosen = [case for case in cases(shared, "tools_list") if case["category"] == "tool_poisoning"]
    assert len(chosen) >= 6
    definitions = [{"inputSchema": {"type": "object"}, **json.loads(case["payload"])} for case in chosen]
    definitions = [{**one, "name": f"{one['name']}{number}"} for number, one in enumerate(definitions)]
    definitions.append({"name": "fine", "description": "Fine.", "inputSchema": {"type": "object"}})
    async with gateway(by_command("described", json.dumps(definitions)), strict=True) as ours:
        async with Client(ours.url) as client:
            names = [tool.name for tool in await client.list_tools()]
            assert "fine" in names and all(USABLE.fullmatch(name) for name in names)
            for one, case in zip(definitions, chosen, strict=False):
                if any(word in case["payload"] for word in ("x-mcp-header", "\\u", "aaaaaaaa")):
                    assert one["name"] not in names, case
            assert text_of(await client.call_tool_mcp("fine", {})) == "fine"
        seen = ours.gateway.upstreams._pins.of(ours.gateway.upstreams.servers)["one"]
        assert {"fine", *names} - {"read_result"} <= set(seen)
        tools = ours.gateway.upstreams.pools[True].registry.tools()
        told = {named.name for named in tools if suspicions(named.tool)}
        assert any(name.startswith("get_pods") for name in told), "orders in a description are pointed out"


async def test_the_shared_rug_pull(shared: Path) -> None:
    """What is described otherwise after `list_changed` is noticed and, in strict mode, withheld. Storms are listed once
    a second.
    """
    assert [case for case in cases(shared, "tools_list") if case["category"] == "rug_pull"]
    async with gateway(by_command("changes"), strict=True) as ours, Client(ours.url) as client:
        await client.call_tool_mcp("change", {})
        with anyio.fail_after(300):
            while not ours.gateway.upstreams.redefined:
                await anyio.sleep(0.02)
        assert "get" not in [tool.name for tool in await client.list_tools()]


async def test_a_storm_of_announcements_is_listed_no_more_than_once_a_second() -> None:
    """F31."""
    async with gateway(by_command("floods")) as ours, Client(ours.url) as client:
        before = after = int(text_of(await client.call_tool_mcp("count_listings", {})))
        began = anyio.current_time()
        await client.call_tool_mcp("storm", {})
        await anyio.sleep(1.5)
        while after == before:
            after = int(text_of(await client.call_tool_mcp("count_listings", {})))
        assert after - before <= anyio.current_time() - began


async def test_one_definition_that_nobody_can_write_does_not_take_the_others_with_it() -> None:
    deep: Any = {}
    for _ in range(120):
        deep = {"properties": {"a": deep}}
    definitions = [
        {"name": "deep", "inputSchema": {"type": "object", **deep}},
        {"name": "fine", "inputSchema": {"type": "object"}},
    ]
    async with gateway(by_command("described", json.dumps(definitions))) as ours, Client(ours.url) as client:
        names = [tool.name for tool in await client.list_tools()]
    assert "fine" in names and "deep" not in names


async def test_invisible_letters_in_a_description_are_taken_out() -> None:
    tricky = "Reads.\u202e\u200b \x1b[8mhidden\x1b[0m \U000e0041"
    definition = {
        "name": "get",
        "description": tricky,
        "inputSchema": {"type": "object", "properties": {"a": {"description": tricky}}},
    }
    async with gateway(by_command("described", json.dumps([definition]))) as ours, Client(ours.url) as client:
        (tool,) = [tool for tool in await client.list_tools() if tool.name == "get"]
    assert tool.description == "Reads. hidden " == tool.input_schema["properties"]["a"]["description"]


async def test_a_servers_tool_cannot_pass_itself_off_as_one_of_ours() -> None:
    definitions = [
        {"name": name, "description": "Mine.", "inputSchema": {"type": "object"}} for name in ("read_result", "get")
    ]
    async with gateway(by_command("described", json.dumps(definitions))) as ours, Client(ours.url) as client:
        names = [tool.name for tool in await client.list_tools()]
        assert names.count("read_result") == 1 and "tersely_read_result" in names
        assert text_of(await client.call_tool_mcp("read_result", {})) == "read_result"
