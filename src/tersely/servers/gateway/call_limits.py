"""How many tool calls a client of the gateway may make: per minute, and at the same time.

A client is the owner of a token, or the local user. A call over a limit is refused at once, with a
sentence for the model; it is neither queued nor sent to the server.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tersely.errors import ToolError
from tersely.settings.model import Settings

_MINUTE = 60.0


class TooManyCalls(ToolError):
    """The client has used up its calls."""


@dataclass(frozen=True)
class CallLimit:
    per_minute: int = 0
    """0: no limit."""

    at_once: int = 0
    """0: no limit."""


@dataclass
class _Usage:
    began: deque[float] = field(default_factory=deque)
    """When the calls of the last minute began."""

    running: int = 0


class CallLimits:
    """Counts the calls of every client.

    Args:
        default: For clients that `by_client` does not name.
        by_client: By the name of the token.
    """

    def __init__(
        self,
        default: CallLimit = CallLimit(),  # noqa: B008 — frozen
        by_client: Mapping[str, CallLimit] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.default = default
        self.by_client = dict(by_client or {})
        self._clock = clock
        self._usage: dict[str, _Usage] = {}

    def set(self, default: CallLimit, by_client: Mapping[str, CallLimit]) -> None:
        """Replace the limits; calls that were counted stay counted."""
        self.default, self.by_client = default, dict(by_client)

    @contextmanager
    def slot(self, client: str) -> Iterator[None]:
        """Count one call for the duration of the block.

        Raises:
            TooManyCalls: It would exceed a limit.
        """
        limit = self.by_client.get(client, self.default)
        if not limit.per_minute and not limit.at_once:
            yield
            return
        usage = self._usage.setdefault(client, _Usage())
        now = self._clock()
        while usage.began and usage.began[0] <= now - _MINUTE:
            usage.began.popleft()
        if limit.at_once and usage.running >= limit.at_once:
            raise TooManyCalls(
                f"Too many calls at once: this client may have {limit.at_once} running. Wait for one to end."
            )
        if limit.per_minute and len(usage.began) >= limit.per_minute:
            wait = usage.began[len(usage.began) - limit.per_minute] + _MINUTE - now
            raise TooManyCalls(
                f"Too many calls: this client may make {limit.per_minute} per minute. "
                f"Try again in {max(1, wait):.0f} s."
            )
        usage.began.append(now)
        usage.running += 1
        try:
            yield
        finally:
            usage.running -= 1


def limits_from(settings: Settings) -> tuple[CallLimit, dict[str, CallLimit]]:
    """The default limit and those of single tokens."""
    options = settings.gateway
    default = CallLimit(options.calls_per_minute, options.concurrent_calls)
    by_client = {
        token.name: CallLimit(
            default.per_minute if token.calls_per_minute is None else token.calls_per_minute,
            default.at_once if token.concurrent_calls is None else token.concurrent_calls,
        )
        for token in settings.auth.tokens
    }
    return default, by_client


def client_name(request: Any) -> str:
    """The name of the token that came with an HTTP request; empty for the local user."""
    user = request.scope.get("user") if request is not None else None
    return str(getattr(getattr(user, "access_token", None), "client_id", ""))
