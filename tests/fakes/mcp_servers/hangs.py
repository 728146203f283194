"""Does not answer, or answers after the caller has left. Remembers which calls were cancelled."""

import time

from tests.fakes.mcp_servers.plain import Message, PlainServer, text

waiting: list[Message] = []
cancelled: list[object] = []


def hang(server: PlainServer, request: Message) -> None:
    waiting.append(request)


def what_hangs(server: PlainServer, request: Message) -> Message:
    return text(str(len(waiting)))


def what_was_cancelled(server: PlainServer, request: Message) -> Message:
    return text(str(len(cancelled)))


def answer_late(server: PlainServer, request: Message) -> Message:
    """First the answers to all that was asked before, then its own."""
    for late in waiting:
        server.answer(late, text("too late"))
    return text("in time")


def play_dead(server: PlainServer, request: Message) -> None:
    while True:
        time.sleep(60)


def work(server: PlainServer, request: Message) -> Message:
    time.sleep(request["params"]["arguments"]["seconds"])
    return text("done")


class Hanging(PlainServer):
    def heard(self, message: Message) -> None:
        if message["method"] == "notifications/cancelled":
            cancelled.append(message["params"]["requestId"])


if __name__ == "__main__":
    handlers = [hang, what_hangs, what_was_cancelled, answer_late, play_dead, work]
    Hanging({handler.__name__: handler for handler in handlers}).serve()
