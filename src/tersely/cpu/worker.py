"""A worker process: calls functions that `cpu.pool` names, one at a time, and returns their results.

Requests come on stdin, replies go to stdout, both as pickles of our own processes. It ends
with its parent, in the middle of its work too, and when it has grown. Signals for the whole
process group are left to the parent, which needs results while it stops.
"""

import os
import pickle
import queue
import signal
import threading
from pathlib import Path
from typing import IO, Any

from tersely.cpu.frames import read_frame, write_frame

MOST_BYTES = 768 * 2**20
"""A process that still has more memory after its work ends, and gives it back."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What a function prints must not get among the replies.
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    while True:
        is_good, value = _answer(requests.get())
        is_leaving = _memory() > MOST_BYTES
        _reply(replies, is_good, value, is_leaving)
        if is_leaving:
            os._exit(0)


def _receive(requests: "queue.SimpleQueue[bytes]") -> None:
    stream = os.fdopen(0, "rb", closefd=False)
    while (request := read_frame(stream)) is not None:
        requests.put(request)
    os._exit(0)


def _answer(request: bytes) -> tuple[bool, Any]:
    try:
        function, arguments = pickle.loads(request)
        return True, function(*arguments)
    except Exception as problem:  # noqa: BLE001 — the caller gets it
        return False, problem


def _reply(stream: IO[bytes], is_good: bool, value: Any, is_leaving: bool) -> None:
    try:
        reply = pickle.dumps((is_good, value, is_leaving), pickle.HIGHEST_PROTOCOL)
        if not is_good:
            pickle.loads(reply)  # An exception with arguments of its own may be written and not be read.
    except Exception:  # noqa: BLE001 — reported by its type, because its text may quote content
        problem = RuntimeError(f"{type(value).__name__} cannot be returned by a worker process")
        reply = pickle.dumps((False, problem, is_leaving))
    write_frame(stream, reply)


def _memory() -> int:
    """Bytes of memory in use; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


if __name__ == "__main__":
    main()
