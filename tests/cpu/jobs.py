"""Functions that worker processes call in the tests."""

import os
import signal
import time
from pathlib import Path


class Awkward(Exception):
    """Can be pickled, and not be read again."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def die_while_missing(path: str) -> int:
    """Kill the process at the first call, return its id at the second."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def die() -> None:
    os.abort()


def wait_for(started: str, gate: str) -> str:
    """Wait until a file appears."""
    Path(started).write_text(str(os.getpid()), "ascii")
    while not Path(gate).exists():
        time.sleep(0.005)
    return started


def write(log: str, word: str) -> None:
    with Path(log).open("a", encoding="ascii") as file:
        file.write(f"{word}\n")
    print("not a reply")


def fail_awkwardly() -> None:
    raise Awkward("a secret", "text")


def environment() -> dict[str, str]:
    return dict(os.environ)
