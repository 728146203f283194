"""The tasks extension of the fixture (SEP-2663): calls that return a task, whose result is requested later.

The SDK negotiates extensions but does not implement this one; this is the minimum that the suite checks. Tasks are kept
in memory and end with the process.
"""

import secrets
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.abc
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

Call = ServerRequestContext[Any, Any]

EXTENSION = "io.modelcontextprotocol/tasks"
REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


def _entry(name: str, description: str, /, **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


TASKS = [
    _entry("greet", "Greets at once", name={"type": "string"}),
    _entry("slow_compute", "Sleeps, then answers", seconds={"type": "number"}),
    _entry("failing_job", "Fails after a while, as a task only"),
    _entry("protocol_error_job", "Breaks"),
    _entry("confirm_delete", "Asks before it goes on", filename={"type": "string"}),
    _entry("multi_input", "Asks two things at once"),
    _entry("test_tool_with_task", "Asks, then becomes a task"),
]
ONLY_AS_TASK = ("failing_job", "test_tool_with_task")


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _saying(said: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], **more}


class TaskParams(types.RequestParams):
    task_id: str = ""
    input_responses: dict[str, Any] | None = None


@dataclass
class Task:
    work: Callable[["Task"], Awaitable[dict[str, Any]]]
    id: str = field(default_factory=lambda: f"task-{secrets.token_hex(8)}")
    status: str = "working"
    created: str = field(default_factory=_now)
    updated: str = field(default_factory=_now)
    outcome: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)
    answered: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    def become(self, status: str, **outcome: Any) -> None:
        self.status, self.updated, self.outcome = status, _now(), outcome

    async def run(self) -> None:
        with self.scope:
            try:
                self.become("completed", result=await self.work(self))
            except MCPError as broken:
                self.become("failed", error={"code": broken.code, "message": broken.message})
        if self.scope.cancelled_caught:
            self.become("cancelled")

    async def ask(self, **requests: Any) -> dict[str, Any]:
        """Wait until every input request is answered."""
        self.asked = dict(requests)
        self.answered = anyio.Event()
        self.become("input_required")
        await self.answered.wait()
        self.become("working")
        return self.answers

    def answer(self, answers: dict[str, Any]) -> None:
        for key in [key for key in answers if key in self.asked]:
            self.answers[key] = answers[key]
            del self.asked[key]
        if self.status == "input_required" and not self.asked:
            self.become("working")
            self.answered.set()

    def shown(self) -> dict[str, Any]:
        shown = {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            "ttlMs": 60_000,
            "pollIntervalMs": 100,
            **self.outcome,
        }
        return {**shown, "inputRequests": dict(self.asked)} if self.status == "input_required" else shown


class Tasks:
    def __init__(self, **helpers: Any) -> None:
        self._help = helpers
        self._tasks: dict[str, Task] = {}
        self._group: anyio.abc.TaskGroup | None = None

    def offer(self, server: Server[Any]) -> None:
        server.extensions[EXTENSION] = {}
        for method, handler in (
            ("tasks/get", self._get),
            ("tasks/update", self._update),
            ("tasks/cancel", self._cancel),
        ):
            server.add_request_handler(method, TaskParams, handler)
        inner = server.lifespan

        @asynccontextmanager
        async def lifespan(of: Any):  # type: ignore[no-untyped-def]
            async with inner(of) as state, anyio.create_task_group() as self._group:
                yield state
                self._group.cancel_scope.cancel()

        server.lifespan = lifespan

    async def call(self, call: Call, name: str, arguments: dict[str, Any], able: dict[str, Any]) -> dict[str, Any]:
        if name == "greet":
            return _saying(f"Hello, {arguments.get('name')}!")
        negotiated = EXTENSION in (able.get("extensions") or {})
        if not negotiated and name in ONLY_AS_TASK:
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool runs as a task only", REQUIRED)
        gathered = None
        if name == "test_tool_with_task":
            answer = self._help["answered"](call, "user_name")
            if answer is None:
                return self._help["wanted"]({"user_name": self._help["ask"]("What is your name?", "name")})  # type: ignore[no-any-return]
            gathered = (answer.get("content") or {}).get("name")
        task = Task(work=lambda task: self._work(task, name, arguments, gathered))
        if not negotiated:
            if name in ("confirm_delete", "multi_input"):
                return _saying("Nobody can be asked: the client did not declare the tasks extension.", isError=True)
            return await task.work(task)
        assert self._group is not None
        self._tasks[task.id] = task
        self._group.start_soon(task.run)
        return {"resultType": "task", **task.shown()}

    async def _work(self, task: Task, name: str, arguments: dict[str, Any], gathered: str | None) -> dict[str, Any]:
        match name:
            case "slow_compute":
                await anyio.sleep(float(arguments.get("seconds") or 0))
                return _saying("Computed.")
            case "failing_job":
                await anyio.sleep(1)
                return _saying("The job failed.", isError=True)
            case "protocol_error_job":
                raise MCPError(types.INTERNAL_ERROR, "The job broke")
            case "confirm_delete":
                await task.ask(confirm=self._help["ask"](f"Delete {arguments.get('filename')}?", "confirm", "boolean"))
                return _saying(f"Deleted {arguments.get('filename')}.")
            case "multi_input":
                await task.ask(first=self._help["ask"]("First?", "name"), second=self._help["ask"]("Second?", "name"))
                return _saying("Both answered.")
        return _saying(f"Done for {gathered}.")

    def _task(self, call: Call, params: TaskParams) -> Task:
        if EXTENSION not in (self._help["declared"](call).get("extensions") or {}):
            raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "The tasks extension was not declared", REQUIRED)
        named = call.request.headers.get("mcp-name") if call.request is not None else None
        if call.request is not None and named != params.task_id:
            raise MCPError(types.HEADER_MISMATCH, f"Mcp-Name is {named!r}, the task is {params.task_id!r}")
        if params.task_id not in self._tasks:
            raise MCPError(types.INVALID_PARAMS, f"No such task: {params.task_id}")
        return self._tasks[params.task_id]

    async def _get(self, call: Call, params: TaskParams) -> dict[str, Any]:
        return {"resultType": "complete", **self._task(call, params).shown()}

    async def _update(self, call: Call, params: TaskParams) -> dict[str, Any]:
        self._task(call, params).answer(params.input_responses or {})
        return {"resultType": "complete"}

    async def _cancel(self, call: Call, params: TaskParams) -> dict[str, Any]:
        self._task(call, params).scope.cancel()
        return {"resultType": "complete"}
