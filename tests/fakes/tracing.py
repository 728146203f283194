"""How much work something is, told by what Python executes: the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def count_steps(work: Callable[[], object]) -> int:
    """Return how many lines, calls and returns of Python are executed."""
    taken = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal taken
        taken += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        work()
    finally:
        sys.settrace(before)
    return taken
