"""The helper process: answers events of hooks with everything loaded, and ends when it is idle.

One process per installation and user, started by the first hook that finds none. Each event
is answered in a fork of it, so that no event can harm another, and events of several
agents are answered at the same time.
"""

import fcntl
import gc
import os
import signal
import socket
from collections.abc import Mapping

from tersely.coding.hook import answer_to, parse_hook
from tersely.coding.results import ResultShortener
from tersely.coding.warm import helper_folder, socket_path

IDLE_SECONDS = 900.0
_LARGEST_REQUEST = 64 * 2**20


def serve_hooks(environment: Mapping[str, str], idle: float = IDLE_SECONDS) -> int:
    """Answer events until none has come for a while."""
    folder = helper_folder(environment)
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    known = os.lstat(folder)
    if known.st_uid != os.getuid() or known.st_mode & 0o077:
        return 1
    path = socket_path(environment)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return 0  # Another helper was faster.
    _load(environment)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        if os.path.exists(path):  # noqa: PTH110
            os.unlink(path)  # noqa: PTH108
        listener.bind(path)
        os.chmod(path, 0o600)  # noqa: PTH101
        listener.listen(128)
        listener.settimeout(idle)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        gc.freeze()  # Forks share the memory of what is loaded.
        try:
            while True:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    return 0
                if os.fork() == 0:
                    listener.close()
                    _answer_one(connection)
                connection.close()
        finally:
            os.unlink(path)  # noqa: PTH108


def _load(environment: Mapping[str, str]) -> None:
    """Run one large text through the pipeline, so that modules, patterns and vocabulary are loaded."""
    from tersely.coding.notes import ShellNoteWriter
    from tersely.pipeline.one_shot import process_once

    shortener = ResultShortener(environment)
    lines = [f"2026-11-16 07:00:{at % 60:02} INFO request {at} served, token=abc{at}" for at in range(1000)]
    process_once(
        "\n".join(lines),
        masker=shortener.masker,
        threshold=1000,
        budget=1000,
        looking_for="errors",
        call="cat log",
        keep=lambda text, tokens: None,
        note=ShellNoteWriter,
    )


def _answer_one(connection: socket.socket) -> None:
    """Answer one request, in the fork, and end it; without an answer, the hook does the work itself."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with connection, connection.makefile("rb") as stream:
            connection.settimeout(10)
            sizes = [int(size) for size in stream.readline(64).split()]
            if sum(sizes) <= _LARGEST_REQUEST:
                head, raw = (stream.read(size) for size in sizes)
                words, _, variables = head.decode("utf-8", "surrogateescape").partition("\0\0")
                environment = dict(one.split("=", 1) for one in variables.split("\0") if "=" in one)
                options = parse_hook(words.split("\0"), environment)
                if options is not None:
                    signal.setitimer(signal.ITIMER_REAL, max(0.05, options.seconds))
                    answer = answer_to(raw, options, environment)
                    connection.sendall(b"%d\n" % len(answer) + answer)
    finally:
        os._exit(0)
