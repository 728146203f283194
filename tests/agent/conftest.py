"""An agent's workplace: a model on the wire, real MCP servers, a real store, and a recorder that remembers."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tersely.agent.assignment import Assignment, Report
from tersely.agent.loop import investigate
from tersely.agent.options import AgentOptions
from tersely.agent.tool_executor import Step, ToolExecutor, run_now
from tersely.llm.client import LLM
from tersely.llm.limits import LimitedLLM
from tersely.llm.providers import NativeTools
from tersely.masking.masked import assume_masked
from tersely.mcp.registry import ToolRegistry, registered
from tersely.mcp.servers import Server, ServerOptions
from tersely.results.kept import KeptResults
from tersely.store.database import Database
from tests.fakes.executing import read_back, tool_executor
from tests.fakes.recorder import MemoryRecorder

T = TypeVar("T")
KEY = b"k" * 32
ROOT = Path(__file__).resolve().parents[2]


def ops(name: str = "ops", page: Path | None = None, **options: Any) -> Server:
    """The server of `tests.fakes.mcp_servers.ops`."""
    transport = {
        "command": sys.executable,
        "args": ["-m", "tests.fakes.mcp_servers.ops", *([str(page)] if page else [])],
        "env": {"PYTHONPATH": str(ROOT)},
    }
    return Server(
        name=name, options=ServerOptions.model_validate({"transport": transport, "start_timeout": 300, **options})
    )


def call(name: str, arguments: str = "{}", id: str = "c1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


@dataclass
class Workplace:
    registry: ToolRegistry
    executor: ToolExecutor
    recorder: MemoryRecorder = field(default_factory=MemoryRecorder)

    async def work(
        self,
        llm: LimitedLLM | None,
        *,
        summarizer: LimitedLLM | None = None,
        summarizers: dict[str, LLM] | None = None,
        step: Step = run_now,
        controller: str = "function_calling",
        alert: str = "api-0 in namespace prod restarts all the time",
        native_tools: NativeTools | None = None,
        instructions: str = "",
        **more: Any,
    ) -> Report:
        given: dict[str, Any] = {
            "session_id": "s1",
            "stage_id": "st1",
            "execution_id": "e1",
            "stage": "look",
            "task": "",
            "agent_name": "agent",
            "agent": AgentOptions(controller=controller, instructions=instructions),  # type: ignore[arg-type]
            "alert": assume_masked(alert),
            "alert_type": "PodCrash",
            "runbook": assume_masked(""),
            "servers": tuple(self.registry.connections),
            "native_tools": native_tools or NativeTools(),
            "max_iterations": 8,
            "key": KEY,
            **more,
        }
        return await investigate(
            Assignment(**given),
            llm=llm,
            summarizer=summarizer,
            summarizers=summarizers,
            executor=self.executor,
            read_back=read_back(self.executor.results, key=KEY, llm=summarizer),
            recorder=self.recorder,
            step=step,
        )


Enter = Callable[..., Any]


@pytest.fixture
def workplace(tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def at(*servers: Server, **executor: Any) -> AsyncIterator[Workplace]:
        async with (
            Database.open(f"sqlite:///{tmp_path / 'tersely.db'}") as database,
            registered(servers or (ops(),), wait=60) as registry,
        ):
            yield Workplace(registry, tool_executor(registry, KeptResults(database), **executor))

    return at


class Recorder:
    """A step that remembers what each piece of work returned; with `replay` it hands that out instead of working
    again.
    """

    def __init__(self, replay: dict[str, Any] | None = None) -> None:
        self.results: dict[str, Any] = dict(replay or {})
        self.worked: list[str] = []

    async def __call__(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        if name in self.results:
            kept: T = self.results[name]
            return kept
        self.worked.append(name)
        self.results[name] = result = await work()
        return result
