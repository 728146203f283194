"""Replicas that start in a second: forked from a process that has imported everything and done nothing else.

Two hundred starts of a fresh interpreter spend half an hour on imports and find nothing that five do not find;
`make test` and `make demo-kill` use fresh interpreters. A forked replica is an ordinary process with its own log and
environment, and SIGKILL ends it. Linux only: it is watched through a pidfd, because it is not our child.
"""

import atexit
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
LATER = (
    "openai.types.chat",
    "psycopg",
    "pydantic_ai.direct",
    "pydantic_ai.models.openai",
    "pydantic_ai.profiles.openai",
    "pydantic_ai.providers.openai_compatible",
    "sqlalchemy.dialects.postgresql.psycopg",
    "uvicorn",
)
"""What `tersely` imports lazily."""


class Forked:
    """A process of the fork server, with the part of the interface of `subprocess.Popen` that a cluster uses."""

    def __init__(self, pid: int, ended: Path) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended
        try:
            self._descriptor: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._descriptor = None  # It has ended already.

    def poll(self) -> int | None:
        if self.returncode is None and (self._descriptor is None or select.select([self._descriptor], [], [], 0)[0]):
            deadline = time.monotonic() + 10
            while not self._ended.exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            self.returncode = int(self._ended.read_text() or -9) if self._ended.exists() else -9
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self._descriptor is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float = 60) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode


class ForkServer:
    """Use `fork_server`."""

    def __init__(self, server: "subprocess.Popen[str]", folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._turn = threading.Lock()

    def start(self, words: Sequence[str], environment: Mapping[str, str], log: Path) -> Forked:
        assert self._server.stdin and self._server.stdout
        with self._turn:
            self._server.stdin.write(
                json.dumps({"words": list(words), "environment": dict(environment), "log": str(log)}) + "\n"
            )
            self._server.stdin.flush()
            pid = int(self._server.stdout.readline())
        return Forked(pid, self._folder / str(pid))


@contextmanager
def fork_server(folder: Path) -> Iterator[ForkServer | None]:
    """A fork server, or None where the system has no pidfd; its children end with it."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    command = [sys.executable, "-m", "tests.survival.fork_server", str(folder)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as server:
        try:
            yield ForkServer(server, folder)
        finally:
            assert server.stdin
            server.stdin.close()


# The server process


def main() -> None:
    folder = Path(sys.argv[1])
    import tersely

    for module in pkgutil.walk_packages(tersely.__path__, "tersely."):
        if not module.name.endswith("__main__") and ".migrations" not in module.name:
            with suppress(ImportError):  # An extra that is not installed.
                importlib.import_module(module.name)
    for name in LATER:
        importlib.import_module(name)
    assert threading.active_count() == 1, "nothing but one thread survives a fork"
    children: set[int] = set()

    def buried(*_: object) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                children.discard(found[0])
                (folder / f".{found[0]}").write_text(str(os.waitstatus_to_exitcode(found[1])))
                (folder / f".{found[0]}").rename(folder / str(found[0]))

    signal.signal(signal.SIGCHLD, buried)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # On Ctrl-C the parent closes our input.
    for line in sys.stdin:
        asked = json.loads(line)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        pid = os.fork()
        if pid == 0:
            _become(asked["words"], asked["environment"], Path(asked["log"]))
        children.add(pid)
        (folder / str(pid)).unlink(missing_ok=True)
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _become(words: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Go on as a replica; does not return."""
    code = 1
    try:
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        os.setsid()
        for descriptor, file in (
            (0, _opened(Path(os.devnull), "rb")),
            (1, _opened(log, "ab")),
            (2, _opened(log, "ab")),
        ):
            os.dup2(file.fileno(), descriptor)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, buffering=1) for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        sys.argv = ["replica", *words]
        runpy.run_module("tests.survival.replica", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # Whatever it is: it belongs into the replica's log, and the server must not go on twice.
        sys.excepthook(*sys.exc_info())
    finally:
        # As an interpreter ends: wait for threads, run exit functions.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        os._exit(code)


def _opened(file: Path, mode: str) -> IO[bytes]:
    return file.open(mode, buffering=0)


if __name__ == "__main__":
    main()
