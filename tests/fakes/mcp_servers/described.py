"""Describes its tools as its argument says, as JSON; every tool returns its name."""

import json
import sys

from tests.fakes.mcp_servers.plain import Handler, Message, PlainServer, text


def named(name: str) -> Handler:
    def answer(server: PlainServer, request: Message) -> Message:
        return text(name)

    return answer


if __name__ == "__main__":
    definitions = json.loads(sys.argv[1])
    PlainServer({one["name"]: named(one["name"]) for one in definitions}, definitions).serve()
