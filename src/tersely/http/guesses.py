"""Wrong tokens are counted by the client's address; an address with many has to wait."""

import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

ALLOWED = 20
"""Wrong tokens per address and window; people mistype, programs guess."""

WINDOW_SECONDS = 60.0
MAX_ADDRESSES = 10_000
"""Addresses remembered at a time; beyond that the one that was wrong longest ago is forgotten."""


class WrongTokens:
    """How often each address sent a wrong token lately."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str) -> int:
        """Count a wrong token; returns how many there were within the window."""
        times = self._times.setdefault(address, deque(maxlen=ALLOWED))
        self._times.move_to_end(address)
        times.append(self._clock())
        if len(self._times) > MAX_ADDRESSES:
            self._times.popitem(last=False)
        self._forget(times)
        return len(times)

    def seconds_to_wait(self, address: str) -> int:
        """After how many seconds another token of this address is looked at; 0 for at once."""
        times = self._times.get(address)
        if times is None:
            return 0
        self._forget(times)
        if len(times) < ALLOWED:
            return 0
        return max(1, math.ceil(times[0] + WINDOW_SECONDS - self._clock()))

    def _forget(self, times: deque[float]) -> None:
        while times and times[0] <= self._clock() - WINDOW_SECONDS:
            times.popleft()
