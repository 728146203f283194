"""Calls that were in flight when a process ended, and results that could not be stored: nothing is done twice."""

import json
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import pytest
import sqlalchemy as sa
from fastmcp import FastMCP
from mcp_types import ToolAnnotations

from tersely.sessions.durable import engine_url
from tersely.sessions.worker import RESTARTED, RESUMED
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
        self.holds: Container[str] = ()
        self._meanwhile = meanwhile

    async def _called(self, who: str) -> str:
        self.made[who] += 1
        self._meanwhile()
        while who in self.holds:
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
            "agents": {"one": {"llm_provider": "main"}, "boss": {"llm_provider": "main", "sub_agents": ["one"]}},
            "chains": {
                "plain": {"alert_types": ["plain"], "stages": [{"name": "look", "agent": "one"}]},
                "team": {"alert_types": ["team"], "stages": [{"name": "look", "agent": "boss"}]},
            },
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
    effects.holds = CALLS
    async with effects.listening() as tools, FakeLLMServer(answer).listening() as model:
        configured = configuration(tools, model.url)
        async with flow_service(url, tmp_path, configured, providers=()) as home:
            session_id = await home.web.submit(data={"alertname": "x"}, alert_type="plain")
            with anyio.fail_after(60):
                while effects.made.total() < len(CALLS):
                    await anyio.sleep(0.02)
        effects.holds = ()
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


SECRET = "password=hunter2-Walnut!orbit42"
HELD = ("held 1", "held 2", "held 3")
Turns = Sequence[Sequence[tuple[str, str]]]
"""For each turn of a model, its calls: tool and argument."""

BEFORE: Mapping[str, Turns] = {
    "restarted": [
        [
            ("ask__bump", SECRET),
            ("ask__bump", SECRET),  # Refused, so it is never made.
            ("skip__bump", "b"),
            ("repeat__bump", "c"),
            ("ask__put", "d"),
            ("ask__bump", ""),  # Does not fit.
        ],
        [("ask__bump", "held 1")],
    ],
    "resumed": [[("ask__bump", "a")], [("ask__bump", "e")], [("ask__bump", "held 2")]],
    "handing": [[("ask_agent", "a task to hand out")], [("ask__bump", "held 3")]],
    "a task to hand out": [[("ask__bump", "f")]],
}
AFTER: Mapping[str, Turns] = {
    "restarted": [
        [
            ("ask__bump", "new"),
            ("ask__bump", SECRET),
            ("skip__bump", "b"),
            ("repeat__bump", "c"),
            ("ask__put", "d"),
            ("ask__bump", ""),
            ("ask__bump", "held 1"),
            ("skip__bump", "new too"),
        ],
        [("ask__bump", SECRET)],
        [("ask__bump", "new")],
    ],
    "resumed": [
        [],  # Stored.
        [("skip__bump", "e"), ("ask__bump", "e"), ("ask__bump", "held 2")],
        [("ask__bump", "a")],
    ],
    "handing": [[("ask__bump", "f")]],
}


def follow(script: Mapping[str, Turns], bodies: list[Body], said_first: str) -> Callable[[Body], Reply]:
    """A model whose calls depend on the alert and on how often it answered before."""

    def answer(body: Body) -> Reply:
        bodies.append(body)
        turns = next(turns for mark, turns in reversed([*script.items()]) if f"{mark}." in said(body))
        number = sum(message["role"] == "assistant" for message in body["messages"])
        if number >= len(turns):
            return Reply("It is over.")
        made = [
            {"id": f"{tool} {who}", "type": "function", "function": {"name": tool, "arguments": json.dumps(given)}}
            for tool, who in turns[number]
            for given in [{"agent": "one", "task": f"{who}."} if tool == "ask_agent" else {"who": who} if who else {}]
        ]
        return Reply(text=f"{said_first} {number}.", tool_calls=tuple(made), finish="tool_calls")

    return answer


def make_unreadable(url: str, session_id: str, number: int) -> None:
    """Let a later version of Tersely have stored a turn of the session's model; `number` counts from 0."""
    engine = sa.create_engine(engine_url(url).replace("postgresql:", "postgresql+psycopg:"))
    table = "operation_outputs" if url.startswith("sqlite") else "dbos.operation_outputs"
    theirs = f"FROM {table} WHERE workflow_uuid = :session AND output LIKE '%model_turn%'"
    with engine.begin() as db:
        found = db.scalars(sa.text(f"SELECT function_id {theirs} ORDER BY 1"), {"session": session_id}).all()
        spoil = sa.text(f"UPDATE {table} SET output = :output WHERE workflow_uuid = :session AND function_id = :step")
        stored = json.dumps({"$is": "model_turn", "v": 9, "of": {}})
        assert db.execute(spoil, {"output": stored, "session": session_id, "step": found[number]}).rowcount == 1
    engine.dispose()


async def test_a_session_that_an_update_rewinds_repeats_no_call_silently(url: str, tmp_path: Path) -> None:
    """After a rewind the model answers anew: other calls come under the names of earlier steps, and earlier calls
    under other names."""
    effects, ids, bodies = Effects(), dict[str, str](), list[Body]()
    effects.holds = HELD
    model = FakeLLMServer(follow(BEFORE, [], "At first"))
    async with effects.listening() as tools, model.listening():
        configured = configuration(tools, model.url)
        async with flow_service(url, tmp_path, configured, providers=()) as home:
            for name in ("restarted", "resumed", "handing"):
                kind = "team" if name == "handing" else "plain"
                ids[name] = await home.web.submit(data={"alertname": f"{name}."}, alert_type=kind)
            with anyio.fail_after(60):
                while not set(HELD) <= set(effects.made):
                    await anyio.sleep(0.02)
        before = Counter(effects.made)
        effects.made.clear()
        effects.holds = ()
        for name, number in (("restarted", 0), ("resumed", 1), ("handing", 0)):
            make_unreadable(url, ids[name], number)
        model.script = follow(AFTER, bodies, "Then")
        async with flow_service(url, tmp_path, configured, providers=()) as home:
            stories = {name: await home.story(session_id) for name, session_id in ids.items()}

    assert before == Counter([SECRET, "b", "c", "d", "a", "e", "f", *HELD])
    # Made again: what is harmless or allowed, and what the agent repeats after it was told, or knowing the result.
    assert effects.made == Counter({"new": 2, SECRET: 1, "c": 1, "d": 1, "new too": 1, "e": 1, "a": 1})
    restarted, resumed = stories["restarted"], stories["resumed"]

    def told(name: str) -> list[tuple[str, str]]:
        last = [body for body in bodies if f"{name}." in said(body)][-1]["messages"]
        return [(one["tool_call_id"], str(one["content"])) for one in last if one["role"] == "tool"]

    def warned(name: str) -> list[str]:
        return [id_ for id_, text in told(name) if CHECK in text]

    assert len(warned("restarted")) == 2 and warned("restarted")[1] == "ask__bump held 1"
    assert warned("resumed") == ["ask__bump e", "ask__bump held 2"]
    assert warned("handing") == ["ask__bump f"]
    assert "is not repeated" in dict(told("restarted"))["skip__bump b"]
    assert "was not called" in dict(told("restarted"))["ask__bump "]
    notices = [one["content"] for one in restarted.shown("notice")]
    assert notices[0] == RESTARTED and resumed.shown("notice")[0]["content"] == RESUMED
    shown = [(one["metadata"]["server_name"], one["metadata"]["interrupted"]) for one in restarted.shown("notice")[1:]]
    assert sorted(shown) == [("ask", "ask"), ("ask", "ask"), ("repeat", "repeat"), ("skip", "skip")]

    # What the model said and did after the rewind is shown after what it did before.
    assert [one["content"] for one in restarted.shown("llm_response")] == [
        *("At first 0.", "At first 1.", "Then 0.", "Then 1.", "Then 2.", "It is over.")
    ]
    assert [one["content"] for one in resumed.shown("llm_response")] == [
        *("At first 0.", "At first 1.", "At first 2.", "Then 1.", "Then 2.", "It is over.")
    ]
    for story in stories.values():
        assert not [one for one in story.timeline if one["status"] == "streaming"]
    assert len(restarted.shown("final_analysis")) == len(resumed.shown("final_analysis")) == 1
    calls = [(one["metadata"]["arguments"].get("who"), one["status"]) for one in resumed.shown("llm_tool_call")]
    assert calls[:3] == [("a", "completed"), ("e", "completed"), ("held 2", "cancelled")]
    assert sorted(calls[3:]) == [(who, "completed") for who in ("a", "e", "e", "held 2")]
    traced = [one["request"]["arguments"] for one in restarted.traced("mcp")]
    assert traced.count({"who": "new"}) == 2 and traced.count({"who": "d"}) == 2


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
