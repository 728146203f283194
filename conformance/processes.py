"""Start servers as separate processes, read their address, and stop them."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
TERSELY = [sys.executable, "-m", "tersely"]
FIXTURE = [sys.executable, "-m", "conformance.fixture"]
PROXY = [sys.executable, "-m", "conformance.proxy"]
SETTINGS = ("OPENROUTER_", "LLM_", "TERSELY_", "DEFAULT_", "MCP_")


@dataclass(frozen=True)
class Listening:
    address: str
    pid: int


def own_environment(data: str) -> dict[str, str]:
    """Our environment without variables that configure Tersely, and with a separate data folder."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)},
        "TERSELY_DATA_DIR": data,
    }


def local_listener(port: int = 0) -> socket.socket:
    """A listening socket with the options that uvicorn's own have: answers are not held back by Nagle's algorithm."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(2048)
    return listener


@contextmanager
def listening(command: list[str]) -> Iterator[Listening]:
    """Start a server that logs its address as JSON on stderr, and stop it afterwards."""
    reader: threading.Thread | None = None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=own_environment(folder), cwd=ROOT)
        try:
            assert process.stderr is not None
            before = []
            for line in process.stderr:
                said = json.loads(line) if line.startswith("{") else {}
                if said.get("event") == "listening":
                    break
                before.append(line)
            else:
                raise SystemExit(f"{' '.join(command)} did not start:\n{''.join(before)}")
            reader = threading.Thread(target=process.stderr.read, daemon=True)
            reader.start()
            yield Listening(said["address"], process.pid)
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if reader is not None:
                reader.join(timeout=5)
            assert process.stderr is not None
            process.stderr.close()
