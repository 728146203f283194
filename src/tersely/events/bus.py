"""Event fan-out: every stored event exactly once, in order, without back-pressure from slow viewers.

A subscription has a position in the log instead of a queue that could overflow. Stored
events after its position come from the recent events that all subscriptions of a channel
share or, if it is further behind, page by page from the store. Transient events are
state, not messages: a subscription that has caught up gets whatever changed since it was
last served. So a slow viewer costs one page of memory, gets the same stored events as
every other viewer, gets fewer and larger chunks, and delays no one.

Everything runs on one event loop. `publish`, `chunk` and `progress` never block.
Events of other processes arrive through a relay, see `events.replicas`.
"""

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import anyio

from tersely.errors import InputError, StoreUnavailable
from tersely.events.types import Effect, StreamChunk, effect_of, encode_transient
from tersely.store import events
from tersely.store.database import Database
from tersely.store.events import SESSIONS, Logged

logger = logging.getLogger(__name__)

RECENT_EVENTS = 256
RECENT_CHARACTERS = 1024 * 1024
"""Recent events kept in memory per channel that has viewers."""

GROWING_EVENTS = 2_000
GROWING_CHARACTERS = 256 * 1024
"""Text of a streaming event kept for viewers that join later; of a longer one the end is kept."""

ALL_GROWING_CHARACTERS = 32 * 1024 * 1024
LATEST = 64
"""Progress messages kept per channel."""

POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0


class Relay(Protocol):
    """Passes what is published here to other processes, without blocking."""

    def stored(self, logged: Logged) -> None: ...

    def chunk(self, session_id: str, event_id: str, offset: int, delta: str, attempt: int) -> None: ...

    def progress(self, channel: str, key: str, payload: str) -> None: ...


@dataclass
class Growing:
    """The text of a streaming event, as far as this process has it."""

    attempt: int
    base: int = 0
    """Offset of `text` in the content; what precedes it was not received, or was dropped."""

    text: str = ""
    life: int = 0
    """Generation; incremented when the content starts over."""

    @property
    def end(self) -> int:
        return self.base + len(self.text)


class _Channel:
    """The state that the subscriptions of one channel share."""

    def __init__(self, recent_events: int) -> None:
        self.subscriptions: set[Subscription] = set()
        self.head = 0
        self._recent_events = recent_events
        self._recent: OrderedDict[int, tuple[str, Effect]] = OrderedDict()
        self._characters = 0

    def add(self, seq: int, payload: str, effect: Effect) -> None:
        if seq not in self._recent:
            self._recent[seq] = (payload, effect)
            self._characters += len(payload)
            while len(self._recent) > self._recent_events or (
                self._characters > RECENT_CHARACTERS and len(self._recent) > 1
            ):
                _, (old, _) = self._recent.popitem(last=False)
                self._characters -= len(old)
        self.advance(seq)

    def advance(self, seq: int) -> None:
        """Note that the log has reached this number; subscriptions read from the store what they lack."""
        self.head = max(self.head, seq)
        self.wake()

    def recent(self, seq: int) -> tuple[str, Effect] | None:
        return self._recent.get(seq)

    def wake(self) -> None:
        for subscription in self.subscriptions:
            subscription._wake.set()


class Bus:
    """One per process; `events.replicas.open_bus` opens one with its background tasks."""

    def __init__(
        self,
        database: Database,
        *,
        recent_events: int = RECENT_EVENTS,
        page_events: int = events.PAGE_EVENTS,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._recent_events = recent_events
        self._page_events = page_events
        self._clock = clock
        self._channels: dict[str, _Channel] = {}
        self._growing: OrderedDict[str, Growing] = OrderedDict()
        self._latest: dict[str, OrderedDict[str, tuple[int, str]]] = {}
        self._versions = 0
        self.relay: Relay | None = None
        self.ended: Counter[str] = Counter()
        """Sessions that ended in this process, by status."""

    # Publishing

    def publish(self, *stored: Logged) -> None:
        """Publish stored events; call it after their transaction."""
        for logged in stored:
            effect = effect_of(logged.payload)
            self._add_stored(logged.channel, logged.seq, logged.payload, effect)
            if logged.channel == SESSIONS and effect.session_end:
                self.ended[effect.session_end] += 1
            if self.relay:
                self.relay.stored(logged)

    def chunk(self, session_id: str, event_id: str, *, offset: int, delta: str, attempt: int) -> None:
        """Publish that a streaming event grew by `delta` after `offset` characters; offset 0 starts over."""
        self.receive_chunk(session_id, event_id, offset, delta, attempt)
        if self.relay:
            self.relay.chunk(session_id, event_id, offset, delta, attempt)

    def progress(self, channel: str, key: str, payload: str) -> None:
        """Publish a transient event; it replaces the previous one with the same key."""
        self.receive_progress(channel, key, payload)
        if self.relay:
            self.relay.progress(channel, key, payload)

    # Receiving, from this process or from a relay

    def receive_stored(self, channel: str, seq: int, payload: str | None, *, closed: str | None = None) -> None:
        """Take over an event that another process stored.

        Args:
            payload: None if it was too large to be sent; subscriptions then read it from the store.
            closed: The timeline event that stops streaming, if `payload` is None.
        """
        if payload is not None:
            self._add_stored(channel, seq, payload, effect_of(payload))
            return
        if closed:
            self._growing.pop(closed, None)
        if (shared := self._channels.get(channel)) is not None:
            shared.advance(seq)

    def _add_stored(self, channel: str, seq: int, payload: str, effect: Effect) -> None:
        if effect.closed:
            self._growing.pop(effect.closed, None)
        if channel != SESSIONS and effect.session_end:
            self._latest.pop(channel, None)
            if of_all := self._latest.get(SESSIONS):
                of_all.pop(channel.removeprefix("session:"), None)
        if (shared := self._channels.get(channel)) is not None:
            shared.add(seq, payload, effect)

    def receive_chunk(self, session_id: str, event_id: str, offset: int, delta: str, attempt: int) -> None:
        growing = self._growing.get(event_id)
        if growing is None:
            growing = self._growing[event_id] = Growing(attempt, base=offset)
            # Drop events whose end never arrives: their worker died, or the chunk arrived after the end.
            while (
                len(self._growing) > GROWING_EVENTS
                or sum(len(one.text) for one in self._growing.values()) > ALL_GROWING_CHARACTERS
            ):
                self._growing.popitem(last=False)
        if attempt < growing.attempt:
            return  # From a worker that lost the session and does not know it yet.
        if offset != growing.end or attempt > growing.attempt:
            # Started over, or a chunk was lost: viewers get this one with its offset.
            growing.attempt, growing.base, growing.text = attempt, offset, ""
            growing.life += 1
        growing.text += delta
        if len(growing.text) > GROWING_CHARACTERS:
            growing.base, growing.text = growing.end - GROWING_CHARACTERS // 2, growing.text[-GROWING_CHARACTERS // 2 :]
        if (shared := self._channels.get(events.channel_of(session_id))) is not None:
            shared.wake()

    def receive_progress(self, channel: str, key: str, payload: str) -> None:
        self._versions += 1
        latest = self._latest.setdefault(channel, OrderedDict())
        latest[key] = (self._versions, payload)
        latest.move_to_end(key)
        while len(latest) > LATEST:
            latest.popitem(last=False)
        if (shared := self._channels.get(channel)) is not None:
            shared.wake()

    # Subscribing

    @asynccontextmanager
    async def subscribe(self, channel: str, after: int | None = None) -> "AsyncIterator[Subscription]":
        """Deliver everything stored after number `after` (None: from now on), then everything new, inside the block.

        Raises:
            InputError: There is no such channel.
            SessionNotFound: There is no such session.
            StoreUnavailable: The position of the channel could not be read.
        """
        if channel != SESSIONS and not channel.startswith("session:"):
            raise InputError(
                f"There is no channel {channel[:80]!r}: {SESSIONS!r} covers all sessions, 'session:<id>' one."
            )
        shared = self._channels.setdefault(channel, _Channel(self._recent_events))
        subscription = Subscription(self, channel, shared)
        # Before the store is read: events published in between must not be missed.
        shared.subscriptions.add(subscription)
        try:
            await subscription._begin(after)
            yield subscription
        finally:
            subscription._close()
            shared.subscriptions.discard(subscription)
            if not shared.subscriptions and self._channels.get(channel) is shared:
                del self._channels[channel]

    @property
    def watched(self) -> dict[str, int]:
        """The number of subscriptions per channel."""
        return {name: len(channel.subscriptions) for name, channel in self._channels.items()}

    async def poll(self) -> None:
        """Read the last number of each channel with viewers, to find stored events that did not arrive here."""
        ids = [name.removeprefix("session:") for name in self._channels if name != SESSIONS]
        if not self._channels:
            return
        async with self._database.reading(light=True) as db:
            found = {events.channel_of(id_): head for id_, head in (await events.heads(db, ids)).items()} if ids else {}
            if SESSIONS in self._channels:
                found[SESSIONS] = await events.feed_head(db)
        for name, head in found.items():
            if (shared := self._channels.get(name)) is not None and head > shared.head:
                shared.advance(head)

    async def poll_forever(self) -> None:
        """Poll once a second until cancelled."""
        while True:
            await anyio.sleep(POLL_SECONDS)
            try:
                await self.poll()
            except StoreUnavailable as problem:
                logger.warning("viewers_wait_for_store", extra={"reason": str(problem)})


class Subscription:
    """One viewer of one channel: an iterator over payloads that ends when its block is left."""

    def __init__(self, bus: Bus, channel: str, shared: _Channel) -> None:
        self._bus = bus
        self._channel = channel
        self._shared = shared
        self._wake = anyio.Event()
        self._page: deque[Logged] = deque()
        self._streaming: dict[str, _Sent] = {}
        self._seen: dict[str, int] = {}
        self._read_to = 0
        self._closed = False
        self.position = 0
        """The number of the last stored event that was delivered."""

    async def _begin(self, after: int | None) -> None:
        async with self._bus._database.reading(light=True) as db:
            if self._channel == SESSIONS:
                head = await events.feed_head(db)
            else:
                head, streaming = await events.position(db, self._channel.removeprefix("session:"))
                self._streaming = {event_id: _Sent() for event_id in streaming}
        self._shared.advance(head)
        # A number beyond the head comes from another database; the viewer gets what is stored next.
        self.position = head if after is None else min(max(after, 0), head)

    def _close(self) -> None:
        self._closed = True
        self._wake.set()

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> str:
        while not self._closed:
            self._wake = anyio.Event()
            if (payload := self._next_stored()) is not None:
                return payload
            if self._is_behind():
                await self._load_page()
            elif (payload := self._next_transient()) is not None:
                return payload
            else:
                await self._wake.wait()
        raise StopAsyncIteration

    def _is_behind(self) -> bool:
        return self.position < self._shared.head and self._read_to < self._shared.head

    def _next_stored(self) -> str | None:
        if self._page:
            logged = self._page.popleft()
            return self._deliver(logged.seq, logged.payload, effect_of(logged.payload))
        recent = self._shared.recent(self.position + 1)
        return None if recent is None else self._deliver(self.position + 1, *recent)

    def _deliver(self, seq: int, payload: str, effect: Effect) -> str:
        self.position = seq
        if effect.opened:
            self._streaming[effect.opened] = _Sent()
        elif effect.closed:
            self._streaming.pop(effect.closed, None)
        return payload

    async def _load_page(self) -> None:
        head = self._shared.head
        try:
            async with self._bus._database.reading(light=True) as db:
                if self._channel == SESSIONS:
                    page = await events.feed_page(db, after=self.position, limit=self._bus._page_events)
                else:
                    page = await events.page(
                        db, self._channel.removeprefix("session:"), after=self.position, limit=self._bus._page_events
                    )
        except StoreUnavailable:
            await anyio.sleep(RETRY_SECONDS)
            return
        self._page.extend(page)
        if not page:
            # The events were deleted; do not read again until something new is stored.
            self._read_to = head

    def _next_transient(self) -> str | None:
        for event_id, sent in self._streaming.items():
            growing = self._bus._growing.get(event_id)
            if growing is not None and (chunk := sent.next_chunk(event_id, growing)) is not None:
                return encode_transient(chunk, self._channel.removeprefix("session:"), self._bus._clock())
        latest = self._bus._latest.get(self._channel)
        if latest:
            for key, (version, payload) in latest.items():
                if self._seen.get(key) != version:
                    self._seen = {one: seen for one, seen in self._seen.items() if one in latest}
                    self._seen[key] = version
                    return payload
        return None


@dataclass
class _Sent:
    """How much of a streaming event was sent to a viewer."""

    end: int = 0
    life: int = field(default=-1)

    def next_chunk(self, event_id: str, growing: Growing) -> StreamChunk | None:
        """The text that was not sent yet."""
        started_over = self.life != growing.life and self.life != -1
        start = growing.base if self.life != growing.life else max(self.end, growing.base)
        delta = growing.text[start - growing.base :]
        if not delta and not (started_over and self.end > start):
            return None
        self.end, self.life = growing.end, growing.life
        return StreamChunk(event_id=event_id, offset=start, delta=delta)
