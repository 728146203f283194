"""Runs calls as tasks of 2025-11-25: one tool requires it, the other allows it."""

from typing import Any

from tests.fakes.mcp_servers.plain import Message, PlainServer, text, tool

LONG = "\n".join(f"2026-11-15T08:00:00Z INFO step {number} of the research is done" for number in range(2_000))


class WithTasks(PlainServer):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.results: dict[str, Message] = {}
        self.cancelled: list[str] = []

    def introduction(self) -> Message:
        able: Message = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {"capabilities": {"tools": {}, "tasks": able}, "serverInfo": {"name": "tasks", "version": "1"}}

    def task(self, name: str) -> Message:
        return {"taskId": name, "status": "completed", "createdAt": "2026-11-15T08:00:00Z", "ttl": 60_000}

    def respond(self, request: Message) -> Message | None:
        params = request.get("params") or {}
        match request["method"]:
            case "tools/call" if "task" in params:
                name = f"task-{len(self.results) + 1}"
                self.results[name] = text(LONG if params["arguments"].get("long") else "found")
                return {"task": self.task(name)}
            case "tools/call" if params["name"] == "research":
                return text("needs a task") | {"isError": True}
            case "tools/call":
                return text("at once")
            case "tasks/get":
                status = self.task(params["taskId"]) | {"statusMessage": "password=hunter2-is-secret"}
                self.notify("notifications/tasks/status", **status)
                return self.task(params["taskId"])
            case "tasks/result":
                return self.results[params["taskId"]]
            case "tasks/list":
                return {"tasks": [self.task(name) for name in ["somebody-else", *self.results]]}
            case "tasks/cancel":
                return self.task(params["taskId"]) | {"status": "cancelled"}
        return super().respond(request)


if __name__ == "__main__":
    WithTasks(
        {},
        [tool("research", execution={"taskSupport": "required"}), tool("quick", execution={"taskSupport": "optional"})],
    ).serve()
