"""A whole service for the flows: the real application and its web application on a free port, with real MCP servers and
queues.

Only the models are scripted, on the wire. All sessions share them; which script
answers is told by a mark that the alert carries (`case-7.`) and that stands in
every request about it, a summary's included.
"""

import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tersely.app.sessions import sessions_app
from tersely.settings.model import Settings
from tersely.store.database import Database
from tersely.web.app import build_web_app
from tersely.web.dependencies import WebDependencies
from tests.fakes.google_server import FakeGoogle
from tests.fakes.llm_server import Body, FakeLLMServer, Reply
from tests.web.running import Running, serving

ROOT = Path(__file__).resolve().parents[2]
Scripted = Sequence["Reply | str | int"] | Callable[[Body], "Reply | str | int"]
_MARK = re.compile(r"case-\d+\.")


@dataclass
class Case:
    """One alert's story: what the models answer, by provider, and what they were asked."""

    mark: str
    scripts: dict[str, Any]
    asked: dict[str, list[Body]] = field(default_factory=dict)

    def requests(self, provider: str = "main") -> list[Body]:
        return self.asked.get(provider, [])

    def prompt(self, index: int, provider: str = "main") -> str:
        """All that was said to the model in its request `index`."""
        return said(self.requests(provider)[index])

    def alert(self, **more: Any) -> dict[str, Any]:
        return {"alertname": "PodRestarts", "summary": f"api-0 restarts, {self.mark}", "namespace": "prod", **more}


def said(body: Body) -> str:
    return "\n".join(str(message["content"]) for message in body["messages"])


def calls(*names: str, text: str = "", **arguments: Any) -> Reply:
    """The model asks for tools, all with the same arguments."""
    asked = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, name in enumerate(names)
    ]
    return Reply(text=text, tool_calls=tuple(asked), finish="tool_calls")


def acts(tool: str, thought: str = "Let me look.", **arguments: Any) -> Reply:
    """The same as ReAct writes it."""
    return Reply(f"Thought: {thought}\nAction: {tool}\nAction Input: {json.dumps(arguments)}")


def is_summary(body: Body) -> bool:
    """Whether a model is asked for a summary rather than for the next move."""
    return "You investigate an alert" not in str(body["messages"][0]["content"])


@dataclass
class Story:
    """Everything that can be read of a session afterwards."""

    session: dict[str, Any]
    timeline: list[dict[str, Any]]
    events: list[dict[str, Any]]
    trace: list[dict[str, Any]]

    def shown(self, event_type: str) -> list[dict[str, Any]]:
        return [item for item in self.timeline if item["event_type"] == event_type]

    def traced(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.trace if one["interaction_type"] == kind]


@dataclass
class FlowService:
    web: Running
    settings: Settings
    models: dict[str, FakeLLMServer]
    google: FakeGoogle
    cases: dict[str, Case] = field(default_factory=dict)
    folder: Path = Path()

    def case(self, **scripts: Scripted) -> Case:
        """A story to be told; providers without a script must not be asked."""
        mark = f"case-{len(self.cases) + 1}."
        given = {name: script if callable(script) else list(script) for name, script in scripts.items()}
        self.cases[mark] = case = Case(mark, given)
        return case

    async def submit(self, case: Case, **fields: Any) -> str:
        return await self.web.submit(**{"data": case.alert(), "alert_type": "plain", **fields})

    async def investigate(self, case: Case, status: str = "completed", **fields: Any) -> Story:
        """Submit, wait for the end, read everything."""
        return await self.story(await self.submit(case, **fields), status)

    async def story(self, session_id: str, status: str = "completed") -> Story:
        session = await self.web.until(session_id, status)
        return Story(
            session=session,
            timeline=await self.all(f"/sessions/{session_id}/timeline"),
            events=await self.all(f"/sessions/{session_id}/events"),
            trace=await self.all(f"/sessions/{session_id}/trace"),
        )

    async def all(self, path: str) -> list[dict[str, Any]]:
        """Every item of a list, page by page."""
        items: list[dict[str, Any]] = []
        query: dict[str, Any] = {}
        while True:
            page = await self.web.get(path, **query)
            items += page["items"]
            if page["next_cursor"] is None:
                return items
            query["cursor" if path.endswith("trace") else "after"] = page["next_cursor"]

    def _answer(self, provider: str) -> Callable[[Body], Any]:
        def answer(body: Body) -> Any:
            marks = _MARK.findall(said(body))
            case = self.cases[marks[0]]
            case.asked.setdefault(provider, []).append(body)
            script = case.scripts.get(provider)
            if callable(script):
                return script(body)
            assert script, f"{case.mark} unscripted request to {provider}: {said(body)[-400:]}"
            return script.pop(0)

        return answer


def server_of(module: str, *argv: str, **options: Any) -> dict[str, Any]:
    """One of tests/fakes/mcp_servers, on standard input and output."""
    transport = {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-m", f"tests.fakes.mcp_servers.{module}", *argv],
        "env": {"PYTHONPATH": str(ROOT)},
    }
    return {"transport": transport, "start_timeout": 300, **options}


@asynccontextmanager
async def flow_service(
    url: str,
    folder: Path,
    configuration: Callable[[Mapping[str, str]], Mapping[str, Any]],
    *,
    providers: Sequence[str] = ("main", "spare", "summarist"),
    wait_for_servers: float = 8.0,
    **environment: str,
) -> AsyncIterator[FlowService]:
    """The service, as `configuration` (given the models' addresses) describes it in a file."""
    if not url.startswith("sqlite"):
        await Database.migrate(url)
    async with AsyncExitStack() as stack:
        models = {name: FakeLLMServer([]) for name in providers}
        google = FakeGoogle()
        for model in models.values():
            await stack.enter_async_context(model.listening())
        await stack.enter_async_context(google.listening())
        addresses = {name: model.url for name, model in models.items()} | {"google": google.url}
        file = folder / "tersely.yaml"
        file.write_text(json.dumps(configuration(addresses)), encoding="utf-8")  # JSON is YAML
        settings = Settings.load(
            {"TERSELY_DATABASE_URL": url, "TERSELY_DATA_DIR": str(folder), **environment}, file=file
        )
        parts = await stack.enter_async_context(
            sessions_app(settings, version="test", wait_for_servers=wait_for_servers)
        )
        shown = WebDependencies(
            settings=settings,
            intake=parts.intake,
            database=parts.database,
            bus=parts.bus,
            kept=parts.kept,
            registry=parts.registry,
            not_ready=parts.not_ready,
            gauges=parts.gauges,
        )
        address, stop = await stack.enter_async_context(serving(build_web_app(shown)))
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=address, trust_env=False, timeout=300))
        built = FlowService(Running(address, http, shown, stop), settings, models, google)
        for name, model in models.items():
            model.script = built._answer(name)
        google.answer = built._answer("google")
        yield built
