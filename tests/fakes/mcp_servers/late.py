"""Is silent until a file appears, named by its argument; then it answers like any other."""

import sys
import time
from pathlib import Path

from tests.fakes.mcp_servers.plain import Message, PlainServer, text, tool


def look(server: PlainServer, request: Message) -> Message:
    return text("the queue is full")


if __name__ == "__main__":
    while not Path(sys.argv[1]).exists():
        time.sleep(0.02)
    PlainServer({"look": look}, [tool("look", annotations={"readOnlyHint": True})]).serve()
