"""Asks its client a question before it answers; with `--roots` also for its folders, as soon as it may and when they
change.
"""

import json
import sys
from typing import Any

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

QUESTION = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}


def ask(server: PlainServer, request: Message) -> Message:
    server.write({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": QUESTION})
    answer = json.loads(sys.stdin.buffer.readline())
    return text(json.dumps(answer.get("result") or answer["error"]["code"]))


def ask_on_a_page(server: PlainServer, request: Message) -> Message:
    """Elicitation in URL mode."""
    question = {"mode": "url", "message": "Log in", "url": "https://example.com/login", "elicitationId": "e2"}
    server.write({"jsonrpc": "2.0", "id": "q4", "method": "elicitation/create", "params": question})
    answer = json.loads(sys.stdin.buffer.readline())
    return text(json.dumps(answer.get("result") or answer["error"]["code"]))


def sample(server: PlainServer, request: Message) -> Message:
    said = {"role": "user", "content": {"type": "text", "text": "Say it: password=hunter2-is-secret"}}
    server.write(
        {
            "jsonrpc": "2.0",
            "id": "q2",
            "method": "sampling/createMessage",
            "params": {"messages": [said], "maxTokens": 9},
        }
    )
    answer = json.loads(sys.stdin.buffer.readline())
    return text(answer["result"]["content"]["text"])


def ask_elsewhere(server: PlainServer, request: Message) -> None:
    server.answer(request, text("asked"))
    server.notify("notifications/elicitation/complete", elicitationId="e1")


class Asking(PlainServer):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.folders = "nobody asked"

    def heard(self, message: Message) -> None:
        if "--roots" in sys.argv and message["method"] in (
            "notifications/initialized",
            "notifications/roots/list_changed",
        ):
            self.write({"jsonrpc": "2.0", "id": "q3", "method": "roots/list"})

    def answered(self, message: Message) -> None:
        self.folders = (
            " ".join(root["uri"] for root in message["result"]["roots"]) if "result" in message else "refused"
        )

    def respond(self, request: Message) -> Message | None:
        if request["method"] == "initialize":
            self.may_ask = sorted(request["params"]["capabilities"])
            self.declared = request["params"]["capabilities"]
        if request["method"] == "tools/call" and request["params"]["name"] not in self.tools:
            return {**text(f"There is no tool called {request['params']['name']}."), "isError": True}
        return super().respond(request)


if __name__ == "__main__":
    Asking(
        {
            "ask": ask,
            "ask_on_a_page": ask_on_a_page,
            "ask_elsewhere": ask_elsewhere,
            "sample": sample,
            "folders": lambda server, request: text(server.folders),
            "may_i": lambda server, request: text(" ".join(server.may_ask)),
            "declared": lambda server, request: text(json.dumps(server.declared)),
        }
    ).serve()
