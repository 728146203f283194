"""Some pods, their logs, and a tool nobody should be allowed to call. `page` says what stands in the file that argv
names.
"""

import sys
from pathlib import Path

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

NAMESPACE = {
    "type": "object",
    "properties": {"namespace": {"type": "string"}},
    "required": ["namespace"],
    "additionalProperties": False,
}
NOTHING = {"type": "object", "properties": {}}
READING = {"readOnlyHint": True}
calls: list[str] = []


def pods_list(server: PlainServer, request: Message) -> Message:
    namespace = request["params"]["arguments"]["namespace"]
    return text(
        f"NAME READY STATUS RESTARTS\napi-0 0/1 CrashLoopBackOff 17\nweb-0 1/1 Running 0\nnamespace {namespace}"
    )


def logs(server: PlainServer, request: Message) -> Message:
    lines = [
        f"2026-11-15T08:{n // 60 % 60:02d}:{n % 60:02d}Z INFO request {n} served in {n % 37} ms" for n in range(250)
    ]
    lines[120] = "2026-11-15T08:02:00Z ERROR api-0 cannot reach database db-1: connection refused"
    return text("\n".join(lines))


def page(server: PlainServer, request: Message) -> Message:
    return text(Path(sys.argv[1]).read_text(encoding="utf-8"))


def say(server: PlainServer, request: Message) -> Message:
    asked = str(request["params"]["arguments"]["text"])
    return text(str(request["params"].get("_meta", {}).get("traceparent")) if asked == "which trace?" else asked)


def measure(server: PlainServer, request: Message) -> Message:
    return text(f"{len(request['params']['arguments']['text'])} characters")


def fail(server: PlainServer, request: Message) -> Message:
    return {**text("the backend is on fire"), "isError": True}


def count(server: PlainServer, request: Message) -> Message:
    calls.append("count")
    return text(f"called {len(calls)} times")


def pods_delete(server: PlainServer, request: Message) -> Message:
    return text("DELETED")


DEFINITIONS = [
    {
        "name": "pods_list",
        "description": "List the pods of a namespace with their state.",
        "inputSchema": NAMESPACE,
        "annotations": READING,
    },
    {
        "name": "logs",
        "description": "Logs of all pods of the last hour.",
        "inputSchema": NOTHING,
        "annotations": READING,
    },
    {"name": "page", "description": "A page of the handbook.", "inputSchema": NOTHING, "annotations": READING},
    {
        "name": "say",
        "description": "Says a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["text"],
        },
    },
    {
        "name": "measure",
        "description": "Measures a text.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    },
    {
        "name": "login",
        "description": "Log in as password=hunter2-Walnut!orbit42 says.",
        "inputSchema": {
            "type": "object",
            "properties": {"user": {"type": "string", "description": "or password=hunter2-Walnut!orbit43"}},
        },
    },
    {"name": "fail", "description": "Always fails.", "inputSchema": NOTHING, "annotations": READING},
    {"name": "count", "description": "Counts its calls.", "inputSchema": NOTHING, "annotations": READING},
    {
        "name": "pods_delete",
        "description": "Deletes a pod.",
        "inputSchema": {"type": "object"},
        "annotations": {"destructiveHint": True},
    },
]

if __name__ == "__main__":
    handlers = [pods_list, logs, page, say, measure, fail, count, pods_delete]
    PlainServer({handler.__name__: handler for handler in handlers}, DEFINITIONS).serve()
