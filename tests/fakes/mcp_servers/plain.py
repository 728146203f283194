"""An MCP server on standard input and output, written out by hand: it starts in no time and can break any rule.

Run `python -m tests.fakes.mcp_servers.NAME`, or by path. Each of its neighbours has one bad habit.
"""

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

Message = dict[str, Any]
Handler = Callable[["PlainServer", Message], Any]


def text(content: str) -> Message:
    return {"content": [{"type": "text", "text": content}]}


def tool(name: str, **more: Any) -> Message:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": {"type": "object"}, **more}


class PlainServer:
    """Answers one message after the other. A handler returns a result, or None after it has written its answer
    itself.
    """

    def __init__(self, tools: Mapping[str, Handler], definitions: list[Message] | None = None) -> None:
        self.tools = dict(tools)
        self.definitions = definitions if definitions is not None else [tool(name) for name in tools]
        self.is_modern = "--modern" in sys.argv

    def write(self, message: Message) -> None:
        self.write_bytes(json.dumps(message).encode())

    def write_bytes(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def notify(self, method: str, **params: Any) -> None:
        self.write({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request: Message, result: Message) -> None:
        if self.is_modern:
            result = {"resultType": "complete", **result}
        self.write({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def list_tools(self, params: Message) -> Message:
        return {"tools": self.definitions}

    def heard(self, message: Message) -> None:
        """A notification came."""

    def answered(self, message: Message) -> None:
        """The answer came to something that was asked on the side."""

    def introduction(self) -> Message:
        return {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "plain", "version": "1"}}

    def respond(self, request: Message) -> Message | None:
        match request["method"]:
            case "initialize":
                return {"protocolVersion": request["params"]["protocolVersion"], **self.introduction()}
            case "server/discover" if self.is_modern:
                return {"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private", **self.introduction()}
            case "tools/list":
                listing = self.list_tools(request.get("params") or {})
                return {**listing, "ttlMs": 0, "cacheScope": "private"} if self.is_modern else listing
            case "tools/call":
                result: Message | None = self.tools[request["params"]["name"]](self, request)
                return result
            case method:
                self.write(
                    {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": f"no {method}"}}
                )
                return None

    def serve(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if "id" not in message:
                self.heard(message)
            elif "method" not in message:
                self.answered(message)
            elif (result := self.respond(message)) is not None:
                self.answer(message, result)
