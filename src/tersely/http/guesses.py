"""Wrong tokens are logged and counted by the client's address; an address with many has to wait."""

import logging
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

TOO_MANY = "Too many wrong tokens from this address. Try again later."

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

    def note(self, scope: Scope) -> None:
        """Log and count the wrong token of a request; the token itself is not logged."""
        address = client_address(scope)
        extra = {"address": address, "path": scope["path"], "lately": self.add(address)}
        logger.warning("wrong_token", extra=extra)

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


class TokenGuard:
    """ASGI middleware for servers that programs call with a bearer token: limits how many an address can try."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._wrong_tokens = WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not any(name == b"authorization" for name, _ in scope["headers"]):
            await self.app(scope, receive, send)
            return
        if seconds := self._wrong_tokens.seconds_to_wait(client_address(scope)):
            refusal = PlainTextResponse(TOO_MANY, status_code=429, headers={"Retry-After": str(seconds)})
            await refusal(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._wrong_tokens.note(scope)
            await send(message)

        await self.app(scope, receive, noting)


def client_address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""
