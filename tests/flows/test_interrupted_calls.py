"""Calls that were in flight when a process ended, and results that could not be stored: nothing is done twice."""

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import FastMCP
from mcp_types import ToolAnnotations

from tests.fakes.llm_server import Body, FakeLLMServer, Reply, serving
from tests.flows.service import flow_service, said
from tests.survival.stores import postgresql

CHECK = "This call may have been made before a restart; check before repeating it"
POLICIES = ("ask", "repeat", "skip")
CALLS = ("ask__bump", "repeat__bump", "skip__bump", "ask__look", "ask__put", "plain__bump")


class Effects:
    """An MCP server that counts what it did."""

    def __init__(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.made: Counter[str] = Counter()
        self.holds = False
        self._meanwhile = meanwhile

    async def _called(self, who: str) -> str:
        self.made[who] += 1
        self._meanwhile()
        while self.holds:
            await anyio.sleep(0.02)
        return f"{who} was done"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        server: FastMCP = FastMCP(name="effects")

        @server.tool(output_schema=None)
        async def bump(who: str) -> str:
            """Change something."""
            return await self._called(who)

        @server.tool(annotations=ToolAnnotations(read_only_hint=True), output_schema=None)
        async def look(who: str) -> str:
            """Change nothing."""
            return await self._called(who)

        @server.tool(annotations=ToolAnnotations(idempotent_hint=True), output_schema=None)
        async def put(who: str) -> str:
            """Set something."""
            return await self._called(who)

        async with serving(server.http_app(), lifespan="on") as address:
            yield f"{address}/mcp"


def configuration(tools: str, model: str) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    def configured(models: Mapping[str, str]) -> dict[str, Any]:
        transport = {"transport": {"url": tools}}
        provider = {"type": "openrouter", "model": "test/main", "base_url": model, "api_key": "k"}
        servers: dict[str, Any] = {name: {**transport, "interrupted_calls": name} for name in POLICIES}
        return {
            "llm_providers": {"main": {**provider, "context_window": 100_000}},
            "mcp_servers": servers | {"plain": transport},
            "agents": {"one": {"llm_provider": "main"}},
            "chains": {"plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "one"}]}},
            "defaults": {"alert_type": "plain", "llm_provider": "main", "verdict": False},
            "queue": {"poll": 0.05, "grace": 0.2, "lease": 2},
        }

    return configured


def calling(names: tuple[str, ...]) -> Callable[[Body], Reply]:
    """A model that makes these calls in one answer, then concludes."""

    def answer(body: Body) -> Reply:
        if any(message["role"] == "tool" for message in body["messages"]):
            asked.append(body)
            return Reply("It is over.")
        made = [
            {"id": f"c{name}", "type": "function", "function": {"name": name, "arguments": json.dumps({"who": name})}}
            for name in names
        ]
        return Reply(text="All at once.", tool_calls=tuple(made), finish="tool_calls")

    asked: list[Body] = []
    answer.asked = asked  # type: ignore[attr-defined]
    return answer


async def test_a_call_in_flight_at_a_restart_is_repeated_only_where_that_is_harmless_or_allowed(
    url: str, tmp_path: Path
) -> None:
    effects, answer = Effects(), calling(CALLS)
    effects.holds = True
    async with effects.listening() as tools, FakeLLMServer(answer).listening() as model:
        configured = configuration(tools, model.url)
        async with flow_service(url, tmp_path, configured, providers=()) as home:
            session_id = await home.web.submit(data={"alertname": "x"}, alert_type="plain")
            with anyio.fail_after(60):
                while effects.made.total() < len(CALLS):
                    await anyio.sleep(0.02)
        effects.holds = False
        async with flow_service(url, tmp_path, configured, providers=()) as home:
            story = await home.story(session_id)
    assert effects.made == Counter(
        {
            "ask__bump": 1,
            "plain__bump": 1,
            "skip__bump": 1,
            "repeat__bump": 2,
            "ask__look": 2,
            "ask__put": 2,
        }
    )
    (body,) = answer.asked  # type: ignore[attr-defined]
    told = {one["tool_call_id"]: str(one["content"]) for one in body["messages"] if one["role"] == "tool"}
    assert {name for name in CALLS if CHECK in told[f"c{name}"]} == {"ask__bump", "plain__bump"}, said(body)
    assert told["cask__bump"] == f"ask.bump: {CHECK}"
    assert "is not repeated" in told["cskip__bump"]
    assert all(f"{name} was done" in told[f"c{name}"] for name in ("repeat__bump", "ask__look", "ask__put"))
    notices = {(one["metadata"]["server_name"], one["metadata"]["interrupted"]) for one in story.shown("notice")}
    assert notices == {("ask", "ask"), ("plain", "ask"), ("repeat", "repeat"), ("skip", "skip")}
    shown = {one["metadata"]["arguments"]["who"]: one for one in story.shown("llm_tool_call")}
    assert shown["ask__bump"]["content"] == CHECK and shown["ask__bump"]["metadata"]["interrupted"] == "ask"
    assert "interrupted" not in shown["ask__look"]["metadata"]


@pytest.mark.process
@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_a_result_that_cannot_be_stored_is_stored_later_and_its_call_is_not_repeated(
    store: str, tmp_path: Path
) -> None:
    """The store goes away during the call, and stays away for some time after it."""
    over = threading.Event()

    def lock_file() -> None:
        with closing(sqlite3.connect(tmp_path / "tersely.db", timeout=30, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            away.set()
            time.sleep(12)  # Longer than a writer waits.
        over.set()

    def restart() -> None:
        server.stop("immediate")
        away.set()
        time.sleep(3)
        server.start()
        over.set()

    away = threading.Event()

    def go_away() -> None:
        if not away.is_set():
            threading.Thread(target=lock_file if store == "sqlite" else restart, daemon=True).start()
            away.wait(30)

    effects, answer = Effects(go_away), calling(("plain__bump",))
    with postgresql() as server:
        url = f"sqlite:///{tmp_path / 'tersely.db'}" if store == "sqlite" else server.empty()
        async with (
            effects.listening() as tools,
            FakeLLMServer(answer).listening() as model,
            flow_service(url, tmp_path, configuration(tools, model.url), providers=()) as home,
        ):
            session_id = await home.web.submit(data={"alertname": "x"}, alert_type="plain")
            with anyio.fail_after(120):
                while not over.is_set():
                    await anyio.sleep(0.1)
            story = await home.story(session_id)
    assert effects.made == Counter({"plain__bump": 1})
    (body,) = answer.asked  # type: ignore[attr-defined]
    assert "plain__bump was done" in said(body)
    (call,) = story.shown("llm_tool_call")
    assert call["status"] == "completed" and "plain__bump was done" in call["content"]
    assert not story.shown("notice")
