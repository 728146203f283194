"""Returns whatever result it is asked for, byte for byte: invalid UTF-8, NULs, half characters, no JSON at all."""

import base64

from tests.fakes.mcp_servers.plain import Message, PlainServer


def shape(server: PlainServer, request: Message) -> None:
    result = base64.b64decode(request["params"]["arguments"]["result"])
    server.write_bytes(b'{"jsonrpc": "2.0", "id": %d, "result": %s}' % (request["id"], result))


if __name__ == "__main__":
    PlainServer({"shape": shape}).serve()
