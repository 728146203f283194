"""Starts only when a file exists, like a command that has to be downloaded first; then says where it runs."""

import os
import sys
import time
from pathlib import Path

from tests.fakes.mcp_servers.plain import PlainServer, text

if __name__ == "__main__":
    print("downloading, password=hunter2-is-secret", file=sys.stderr, flush=True)
    while not Path(sys.argv[1]).exists():
        time.sleep(0.01)
    PlainServer({"pid": lambda server, request: text(str(os.getpid()))}).serve()
