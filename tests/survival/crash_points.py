"""Crash points: places named in the code at which a test ends the process.

`FAULT_AT="after claim:3"` kills the process, as SIGKILL does, the third time it
passes `after claim`. `FAULT_LIST=FILE` writes the name of every point that is
passed to a file, so that no list has to be maintained: a new step is a new point.

Only the processes that tests start (`tests.survival.replica`) read these variables.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path


def crash_points(environment: Mapping[str, str]) -> Callable[[str], None]:
    """The `on_point` that these variables ask for."""
    crash_at, _, nth = environment.get("FAULT_AT", "").partition(":")
    listing = environment.get("FAULT_LIST", "")
    passed: Counter[str] = Counter()

    def on_point(name: str) -> None:
        passed[name] += 1
        if listing and passed[name] == 1:
            with Path(listing).open("a") as file:
                file.write(f"{name}\n")
        if name == crash_at and passed[name] == int(nth or 1):
            os.kill(os.getpid(), signal.SIGKILL)

    return on_point
