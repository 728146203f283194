"""Does not leave when asked or told to, and has a child of its own that does not either. Its argument: a file for their
ids.

With `--obedient` it leaves when asked to, and leaves its child behind.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.fakes.mcp_servers.plain import PlainServer, text

STAY = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); time.sleep(600)"

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", STAY], stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
    PlainServer({"hello": lambda server, request: text("hello")}).serve()
    while "--obedient" not in sys.argv:
        signal.pause()
