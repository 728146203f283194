"""Returns as much as it is asked for; with the id at the end of the message, if asked to."""

import json

from tests.fakes.mcp_servers.plain import Message, PlainServer, text


def give(server: PlainServer, request: Message) -> Message:
    return text("x" * request["params"]["arguments"]["bytes"])


def give_with_the_id_last(server: PlainServer, request: Message) -> None:
    result = json.dumps(text("x" * request["params"]["arguments"]["bytes"]))
    server.write_bytes(b'{"jsonrpc": "2.0", "result": %s, "id": %d}' % (result.encode(), request["id"]))


if __name__ == "__main__":
    PlainServer({"give": give, "give_with_the_id_last": give_with_the_id_last}).serve()
