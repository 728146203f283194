"""Every request to a provider and its outcome, reported to the observer of the current work.

The observer is a context variable: tasks inherit it, and layers between the one that
records and the one that sends need not pass it on. An exchange is reported as soon as
it is over, also if it failed or was cancelled; answers from a cache are reported too,
so that the record of a summary has no holes.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from tersely.errors import LLMError
from tersely.llm.messages import Completion, Message, Usage

Outcome = Literal["answered", "stopped", "failed", "cancelled", "cached"]
"""`stopped`: the reader had enough and closed the stream. `cached`: no request was sent."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request to a provider. What the model wrote is not masked."""

    provider: str
    model: str
    messages: Sequence[Message]
    outcome: Outcome
    text: str = ""
    """The answer, or as much of it as was received."""

    answer: Completion | None = None
    error: LLMError | None = None
    usage: Usage = field(default_factory=Usage)
    """As the provider reports it. A failed request costs nothing; that of a stopped or cancelled one is estimated."""

    attempt: int = 1
    """From 1 for each model; further attempts follow failures."""

    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    duration_ms: int = 0


OnExchange = Callable[[Exchange], Awaitable[None]]

_observer: ContextVar[OnExchange | None] = ContextVar("exchange_observer", default=None)


@contextmanager
def observed(on_exchange: OnExchange) -> Iterator[None]:
    """Report the exchanges within the block, and of tasks that it starts, to `on_exchange`."""
    token = _observer.set(on_exchange)
    try:
        yield
    finally:
        _observer.reset(token)


async def report(exchange: Exchange) -> None:
    if (on_exchange := _observer.get()) is not None:
        await on_exchange(exchange)
