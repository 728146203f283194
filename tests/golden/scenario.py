"""The sessions in the golden database: their configuration, their MCP servers and what the scripted model answers.

`make_golden` runs the scenario with `hold=True`: each open session stops inside one model or tool call, and the
process is killed there. The tests run it again with `hold=False` on a copy of the files, and compare which calls
are made. Nothing here imports `tersely`: a renamed class or module does not change this file.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from fastmcp import FastMCP
from mcp_types import ToolAnnotations

from tests.fakes.llm_server import Body, FakeLLMServer, Reply, serving
from tests.flows.service import acts, calls, is_summary

READ_ONLY = ToolAnnotations(read_only_hint=True)
SECRET = "password=hunter2-Walnut!orbit42"
PODS = """\
NAME   READY  STATUS            RESTARTS
api-0  0/1    CrashLoopBackOff  17
web-0  1/1    Running           0
"""
SUMMARY = "Almost all lines are served requests; api-0 cannot reach database db-1: connection refused."
TOPICS = {"people": "Who works in the harbour?", "ships": "Which ships come to the harbour?"}
SCHEMA = {
    "properties": {
        "people": {"type": "array", "items": {"properties": {"name": {"type": "string"}, "work": {"type": "string"}}}}
    }
}
SITE = "https://harbour.example"

OPEN = ("calling", "react", "summary", "survey", "research", "search", "two", "tool")
"""Sessions that are inside a call when the process is killed."""

ENDED = {"done": "completed", "refused": "failed", "unsearchable": "failed", "searched": "completed"}
PENDING = "waiting"
SESSIONS = (*ENDED, *OPEN, PENDING)
"""Every session in the order of submission; the name is also the alert type."""

MARKS = {name: f"case-{number}." for number, name in enumerate(SESSIONS, start=1)}


def namespace(name: str) -> str:
    """Tells the tool servers which session calls."""
    return f"ns-{name}"


def submission(name: str) -> dict[str, Any]:
    """The body of `POST /alerts`."""
    if name in ("research", "search", "searched", "unsearchable"):
        subject = f"The harbour of Velm {MARKS[name]}"
        data: Any = {"subject": subject, "topics": TOPICS, "schema": SCHEMA, "options": {"pages": 2, "tokens": 1_000}}
    else:
        data = {
            "alertname": "PodRestarts",
            "summary": f"api-0 restarts, {MARKS[name]}",
            "namespace": namespace(name),
            "service": "api",
        }
    return {"alert_type": name, "data": data}


def log_lines() -> str:
    lines = [
        f"2026-11-15T08:{n // 60 % 60:02d}:{n % 60:02d}Z INFO request {n} served in {n % 37} ms" for n in range(250)
    ]
    lines[120] = f"2026-11-15T08:02:00Z ERROR api-0 cannot reach database db-1: connection refused, {SECRET}"
    return "\n".join(lines)


def page(number: int) -> str:
    """About 1,300 tokens."""
    names = ("Ada Holm", "Bo Lind", "Cleo Marsh", "Dag Wren")
    facts = [
        f"- {names[number]} repairs boat {row} of quay {number} and was paid {row * 7 + number} crowns."
        for row in range(60)
    ]
    return "\n".join(
        [f"# Quay {number} of the harbour", "", f"{names[number]} is the keeper of quay {number}.", "", *facts]
    )


@dataclass
class ToolServers:
    """Two MCP servers over HTTP that record every call as (session or URL, tool)."""

    hold: bool
    calls: list[tuple[str, str]] = field(default_factory=list)
    held: set[str] = field(default_factory=set)
    """Sessions inside a call that does not return."""

    async def _called(self, session: str, tool: str, *, holds: bool = False) -> None:
        self.calls.append((session, tool))
        if self.hold and holds:
            self.held.add(session)
            await anyio.sleep_forever()

    def ops(self) -> FastMCP:
        server: FastMCP = FastMCP(name="ops")

        @server.tool(annotations=READ_ONLY, output_schema=None)
        async def list_pods(namespace: str) -> str:
            """List the pods of a namespace with their state."""
            session = namespace.removeprefix("ns-")
            await self._called(session, "list_pods", holds=session == "tool")
            return f"{PODS}\n{SECRET}\n"

        @server.tool(annotations=READ_ONLY, output_schema=None)
        async def logs(namespace: str) -> str:
            """Logs of all pods of a namespace."""
            await self._called(namespace.removeprefix("ns-"), "logs")
            return log_lines()

        @server.tool(annotations=READ_ONLY, output_schema=None)
        async def pod_describe(namespace: str, pod: str) -> str:
            """Describe one pod: its events and its state."""
            session = namespace.removeprefix("ns-")
            await self._called(session, "pod_describe", holds=session == "survey")
            return f"Name: {pod}\nEvents: Warning BackOff: back-off restarting failed container api in pod {pod}"

        return server

    def web(self) -> FastMCP:
        server: FastMCP = FastMCP(name="web")

        @server.tool(annotations=READ_ONLY, output_schema=None)
        async def search(query: str, limit: int = 8) -> str:
            """Search the web."""
            session = next(name for name, mark in MARKS.items() if mark in query)
            await self._called(session, "search")
            first = 2 if "ships" in query.lower() else 0
            return "\n\n".join(
                f"{n + 1}. Quay {n}\n   {SITE}/{session}/{n}\n   Quay {n}" for n in range(first, first + 2)
            )

        @server.tool(annotations=READ_ONLY, output_schema=None)
        async def crawl(url: str) -> str:
            """Read one page."""
            session, number = url.removeprefix(f"{SITE}/").split("/")
            await self._called(session, f"crawl {number}", holds=session == "search" and number == "2")
            return page(int(number)) + f"\n\nThis copy was made for {session}."

        @server.tool(annotations=READ_ONLY, output_schema=None)
        async def summarize_for_extraction(content: str, schema_hint: str, max_output_tokens: int = 0) -> str:
            """Summarize content for extraction."""
            session = next(name for name, mark in MARKS.items() if mark in schema_hint)
            await self._called(session, "summarize_for_extraction")
            return "\n".join(content.split("\n")[:9])

        return server

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[dict[str, str]]:
        async with (
            serving(self.ops().http_app(), lifespan="on") as ops,
            serving(self.web().http_app(), lifespan="on") as web,
        ):
            yield {"ops": f"{ops}/mcp", "web": f"{web}/mcp"}

    def made(self, session: str) -> Counter[str]:
        return Counter(tool for name, tool in self.calls if name == session)


def configuration(servers: Mapping[str, str], model: str) -> Callable[[Mapping[str, str]], dict[str, Any]]:
    """The settings file, given the addresses of the MCP servers and of the model."""

    def configured(models: Mapping[str, str]) -> dict[str, Any]:
        quick = {"size_threshold_tokens": 2_000, "summary_max_token_limit": 500}
        main = {
            "type": "openrouter",
            "model": "test/main",
            "base_url": model,
            "api_key": "k",
            "context_window": 100_000,
        }
        # Without a key, this provider cannot be used: its agents work without a model.
        none = {"type": "openrouter", "model": "test/none", "base_url": "https://openrouter.ai/api/v1"}
        agents: dict[str, dict[str, Any]] = {
            "caller": {"mcp_servers": ["ops"], "llm_provider": "main"},
            "reactor": {"mcp_servers": ["ops"], "llm_provider": "main", "controller": "react"},
            "surveyor": {"mcp_servers": ["ops"], "llm_provider": "none"},
            "researcher": {"mcp_servers": ["web"], "llm_provider": "main"},
            "searcher": {"mcp_servers": ["web"], "llm_provider": "none"},
        }
        chosen = {
            "react": "reactor",
            "survey": "surveyor",
            "research": "researcher",
            "search": "searcher",
            "searched": "searcher",
        }
        chains: dict[str, dict[str, Any]] = {
            name: {"alert_types": [name], "stages": [{"name": "look", "agent": chosen.get(name, "caller")}]}
            for name in SESSIONS
        }
        for name in ("research", "search", "searched", "unsearchable"):
            chains[name]["kind"] = "research"
        chains["two"]["stages"].append({"name": "close", "agent": "caller", "task": "Say what to do."})
        return {
            "llm_providers": {"main": main, "none": none},
            "mcp_servers": {
                "ops": {"transport": {"url": servers["ops"]}, "summarization": quick},
                "web": {"transport": {"url": servers["web"]}},
            },
            "agents": agents,
            "chains": chains,
            "defaults": {"alert_type": "done", "llm_provider": "main", "verdict": False},
            "queue": {"max_concurrent_sessions": len(OPEN), "poll": 0.05, "grace": 1},
            "store": {"keep_days": 36_500},
            "retention": {"sessions_days": 36_500},
        }

    return configured


@dataclass
class ScriptedModel:
    """Answers by what the conversation shows; with `hold`, one request of each open session is never answered."""

    hold: bool
    held: set[str] = field(default_factory=set)
    requests: dict[str, list[Body]] = field(default_factory=dict)
    """By session."""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with FakeLLMServer(self._answer).listening() as server:
            yield server.url

    def _answer(self, body: Body) -> "Reply | str | int":
        name = session_of(body)
        self.requests.setdefault(name, []).append(body)
        if is_summary(body) and name != "research":
            return self._hold(name, SUMMARY) if name == "summary" else SUMMARY
        reply: Reply | str | int = getattr(self, f"_{name}", self._done)(body)
        return reply

    def _hold(self, name: str, reply: "Reply | str") -> "Reply | str":
        if not self.hold:
            return reply
        self.held.add(name)
        return Reply(delay=3_600)

    def _looks(self, name: str, body: Body) -> "Reply | None":
        """The first answer of most sessions: call two tools."""
        if results(body):
            return None
        return calls("ops__list_pods", "ops__logs", text="Pods and logs.", namespace=namespace(name))

    def _done(self, body: Body) -> "Reply | str":
        name = session_of(body)
        return self._looks(name, body) or f"It is db-1, says {name}."

    def _refused(self, body: Body) -> int:
        return 401

    def _calling(self, body: Body) -> "Reply | str":
        return self._looks("calling", body) or self._hold("calling", "It is db-1, says calling.")

    def _summary(self, body: Body) -> "Reply | str":
        return self._looks("summary", body) or "It is db-1, says summary."

    def _react(self, body: Body) -> "Reply | str":
        said = [str(message["content"]) for message in body["messages"]]
        observed = sum("Observation:" in text for text in said[2:])
        if observed == 0:
            return acts("ops.logs", namespace=namespace("react"))
        if observed == 1:
            return acts("search_result", handle=handle_in(said[-1]), pattern="ERROR")
        final = (
            "Thought: The log names the cause, and nothing else is left to look at.\nFinal Answer: It is db-1, "
            "says react."
        )
        if not self.hold:
            return final

        async def forever() -> None:
            self.held.add("react")
            await anyio.sleep_forever()

        return Reply(text=final, halfway=forever)

    def _two(self, body: Body) -> "Reply | str":
        if "Say what to do." in said_in(body):
            return self._hold("two", "Restart db-1, says two.")
        return self._looks("two", body) or "It is db-1, says two."

    def _tool(self, body: Body) -> "Reply | str":
        if results(body):
            return "It is db-1, says tool."
        return calls("ops__list_pods", namespace=namespace("tool"))

    def _research(self, body: Body) -> "Reply | str":
        system = str(body["messages"][0]["content"])
        if system.startswith("You extract facts"):
            source = {"page": "P1", "quote": "Ada Holm is the keeper of quay 0."}
            fact = {"path": "people", "value": {"name": "Ada Holm", "work": "keeper"}, "sources": [source]}
            return json.dumps({"facts": [fact]})
        first = 2 if "ships" in str(body["messages"][1]["content"]).lower().split("the subject:")[0] else 0
        found = results(body)
        if not found:
            query = f"The harbour of Velm {MARKS['research']} {'ships' if first else 'people'}"
            return calls("web__search", query=query)
        if len(found) == 1:
            return calls("web__crawl", url=f"{SITE}/research/{first}")
        notes = f"Notes: quay {first} was read."
        return self._hold("research", notes) if first else notes


def said_in(body: Body) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def session_of(body: Body) -> str:
    return next(name for name, mark in MARKS.items() if mark in said_in(body))


def results(body: Body) -> list[str]:
    """What the tools returned so far."""
    return [str(message["content"]) for message in body["messages"] if message["role"] == "tool"]


def handle_in(text: str) -> str:
    start = text.index("r_", text.index("read_result("))
    return text[start : start + 18]
