"""Dies in the middle of a call, by its own hand; with a file as its argument it remembers the calls it got."""

import os
import signal
import sys
from pathlib import Path

from tests.fakes.mcp_servers.plain import Message, PlainServer, text, tool


def note(request: Message) -> int:
    path = Path(sys.argv[1])
    before = path.read_text().split() if path.exists() else []
    path.write_text(" ".join([*before, request["params"]["name"]]))
    return len(before)


def die(server: PlainServer, request: Message) -> Message:
    note(request)
    os.kill(os.getpid(), signal.SIGKILL)
    return text("never")


def die_once(server: PlainServer, request: Message) -> Message:
    if note(request) == 0:
        print("Traceback: api_key=sk-live-0123456789abcdef0123456789abcdef", file=sys.stderr, flush=True)
        os._exit(3)
    return text("alive")


def pid(server: PlainServer, request: Message) -> Message:
    print("pid was asked", file=sys.stderr, flush=True)
    return text(str(os.getpid()))


if __name__ == "__main__":
    harmless = {"readOnlyHint": True}
    definitions = [tool("die"), tool("die_once"), tool("die_once_harmlessly", annotations=harmless), tool("pid")]
    PlainServer({"die": die, "die_once": die_once, "die_once_harmlessly": die_once, "pid": pid}, definitions).serve()
