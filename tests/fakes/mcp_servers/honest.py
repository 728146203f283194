"""No bad habit: says what it was given, what it sees of the environment, and how often it was called."""

import os
import time

from tests.fakes.mcp_servers.plain import Message, PlainServer, text, tool

calls = 0


def echo(server: PlainServer, request: Message) -> Message:
    return text(request["params"]["arguments"].get("text", ""))


def environment(server: PlainServer, request: Message) -> Message:
    return text("\n".join(f"{name}={value}" for name, value in os.environ.items()))


def count(server: PlainServer, request: Message) -> Message:
    global calls
    calls += 1
    return text(str(calls))


def steps(server: PlainServer, request: Message) -> Message:
    token = request["params"]["_meta"]["progressToken"]
    label = request["params"]["arguments"].get("label", "")
    for number in range(1, 4):
        server.notify(
            "notifications/progress", progressToken=token, progress=number, total=3, message=f"{label}{number}"
        )
    return text("done")


def pid(server: PlainServer, request: Message) -> Message:
    return text(str(os.getpid()))


def greet_loudly(server: PlainServer, request: Message) -> Message:
    server.write_bytes(b"DEBUG: this is no message")
    server.write_bytes(b"")
    print("password=hunter2-on-stderr", file=__import__("sys").stderr, flush=True)
    return text("hello")


def two_answers(server: PlainServer, request: Message) -> Message:
    server.answer({"id": 987_654}, text("for somebody else"))
    server.answer(request, text("first"))
    time.sleep(0.01)
    return text("second")


if __name__ == "__main__":
    handlers = [echo, environment, count, steps, pid, greet_loudly, two_answers]
    named = {handler.__name__: handler for handler in handlers}
    PlainServer(named, [tool(name, annotations={"readOnlyHint": name in ("echo", "pid")}) for name in named]).serve()
