"""Asks its client a question before it answers."""

import json
import sys

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

QUESTION = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}


def ask(server: PlainServer, request: Message) -> Message:
    server.write({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": QUESTION})
    answer = json.loads(sys.stdin.buffer.readline())
    return text(json.dumps(answer.get("result") or answer["error"]["code"]))


class Asking(PlainServer):
    def respond(self, request: Message) -> Message | None:
        if request["method"] == "initialize":
            self.may_ask = sorted(request["params"]["capabilities"])
        return super().respond(request)


if __name__ == "__main__":
    Asking({"ask": ask, "may_i": lambda server, request: text(" ".join(server.may_ask))}).serve()  # type: ignore[attr-defined]
