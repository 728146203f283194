"""Sends ten thousand unrequested messages, and announces changes all the time."""

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

listings = 0


class Flooding(PlainServer):
    def list_tools(self, params: Message) -> Message:
        global listings
        listings += 1
        return super().list_tools(params)


def flood(server: PlainServer, request: Message) -> Message:
    for number in range(10_000):
        server.notify("notifications/message", level="info", data=f"number {number}")
    return text("done")


def storm(server: PlainServer, request: Message) -> Message:
    for _ in range(300):
        server.notify("notifications/tools/list_changed")
    return text("done")


def ask_for_models(server: PlainServer, request: Message) -> Message:
    for number in range(3_000):
        server.write(
            {
                "jsonrpc": "2.0",
                "id": f"s{number}",
                "method": "sampling/createMessage",
                "params": {"messages": [], "maxTokens": 1},
            }
        )
    return text("done")


def count_listings(server: PlainServer, request: Message) -> Message:
    return text(str(listings))


if __name__ == "__main__":
    handlers = [flood, storm, ask_for_models, count_listings]
    Flooding({handler.__name__: handler for handler in handlers}).serve()
