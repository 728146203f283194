"""From those who tell to those who watch: nothing missing, nothing twice, and nobody waits for anybody.

A subscription has no queue that could overflow; it has a place. What was stored
after its place it takes from the last few events that all subscriptions of a
channel share, or, if it is further behind, page by page from the store. What is
not stored is a state rather than a message: a subscription that has caught up is
sent what grew since it was last sent something, be that one word or a paragraph.
So a slow viewer costs a page of memory, gets the same events as everybody, fewer
and larger chunks, and delays no one.

Everything happens on one event loop. `publish`, `chunk` and `progress` never wait.
Other processes' events come in through a relay, see `events.replicas`.
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
from tersely.events import types
from tersely.store import events
from tersely.store.database import Database
from tersely.store.events import SESSIONS, Logged

logger = logging.getLogger(__name__)

RECENT_EVENTS = 256
RECENT_CHARACTERS = 1024 * 1024
"""What a channel that is watched keeps at hand of its last events."""

GROWING_EVENTS = 2_000
GROWING_CHARACTERS = 256 * 1024
"""How much of a streaming event is kept for those who come late; of a longer one its end."""

ALL_GROWING_CHARACTERS = 32 * 1024 * 1024
LATEST = 64
"""Lines of progress kept per channel."""

POLL_SECONDS = 1.0
RETRY_SECONDS = 1.0


class Relay(Protocol):
    """How other processes hear of what is told here. Neither waits."""

    def stored(self, logged: Logged) -> None: ...

    def chunk(self, session_id: str, event_id: str, offset: int, delta: str, attempt: int) -> None: ...

    def progress(self, channel: str, key: str, payload: str) -> None: ...


@dataclass
class Growing:
    """A streaming event's text, as far as it is known here."""

    attempt: int
    base: int = 0
    """Where the text begins: what stands before was not heard, or let go."""

    text: str = ""
    life: int = 0
    """Counts how often it began anew."""

    @property
    def end(self) -> int:
        return self.base + len(self.text)


class _Channel:
    """What the subscriptions of one channel share."""

    def __init__(self, recent_events: int) -> None:
        self.subscriptions: set[Subscription] = set()
        self.head = 0
        self._recent_events = recent_events
        self._recent: OrderedDict[int, str] = OrderedDict()
        self._characters = 0

    def add(self, seq: int, payload: str | None) -> None:
        self.head = max(self.head, seq)
        if payload is not None and seq not in self._recent:
            self._recent[seq] = payload
            self._characters += len(payload)
            while len(self._recent) > self._recent_events or (
                self._characters > RECENT_CHARACTERS and len(self._recent) > 1
            ):
                _, old = self._recent.popitem(last=False)
                self._characters -= len(old)
        self.wake()

    def recent(self, seq: int) -> str | None:
        return self._recent.get(seq)

    def wake(self) -> None:
        for subscription in self.subscriptions:
            subscription._wake.set()


class Bus:
    """One per process; `events.replicas.bus` opens one with everything that belongs to it."""

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
        """Sessions that came to an end in this process, by how."""

    # Telling

    def publish(self, *told: Logged) -> None:
        """Tell what was stored; only after its transaction is over."""
        for logged in told:
            self.hear_stored(logged.channel, logged.seq, logged.payload)
            if logged.channel != SESSIONS and (end := types.session_end(logged.payload)):
                self.ended[end] += 1
            if self.relay:
                self.relay.stored(logged)

    def chunk(self, session_id: str, event_id: str, *, offset: int, delta: str, attempt: int) -> None:
        """A streaming event grew by `delta`, which stands behind `offset` characters; offset 0 begins anew."""
        self.hear_chunk(session_id, event_id, offset, delta, attempt)
        if self.relay:
            self.relay.chunk(session_id, event_id, offset, delta, attempt)

    def progress(self, channel: str, key: str, payload: str) -> None:
        """What is going on; of each key only the last word counts."""
        self.hear_progress(channel, key, payload)
        if self.relay:
            self.relay.progress(channel, key, payload)

    # Hearing, from this process or another

    def hear_stored(self, channel: str, seq: int, payload: str | None, *, ended: str | None = None) -> None:
        """Something was stored. Without its payload it is read from the store by whoever needs it."""
        ended = ended or (types.ends(payload) if payload else None)
        if ended:
            self._growing.pop(ended, None)
        if payload and channel != SESSIONS and _is_last(payload):
            self._latest.pop(channel, None)
            if of_all := self._latest.get(SESSIONS):
                of_all.pop(channel.removeprefix("session:"), None)
        if (watched := self._channels.get(channel)) is not None:
            watched.add(seq, payload)

    def hear_chunk(self, session_id: str, event_id: str, offset: int, delta: str, attempt: int) -> None:
        growing = self._growing.get(event_id)
        if growing is None:
            growing = self._growing[event_id] = Growing(attempt, base=offset)
            # Those that never end: of workers that died, or heard after their end.
            while (
                len(self._growing) > GROWING_EVENTS
                or sum(len(one.text) for one in self._growing.values()) > ALL_GROWING_CHARACTERS
            ):
                self._growing.popitem(last=False)
        if attempt < growing.attempt:
            return  # Of a worker that lost the session and does not know it yet.
        if offset != growing.end or attempt > growing.attempt:
            # Begun anew, or something was lost in between: viewers are told where this piece stands.
            growing.attempt, growing.base, growing.text = attempt, offset, ""
            growing.life += 1
        growing.text += delta
        if len(growing.text) > GROWING_CHARACTERS:
            growing.base, growing.text = growing.end - GROWING_CHARACTERS // 2, growing.text[-GROWING_CHARACTERS // 2 :]
        if (watched := self._channels.get(events.channel_of(session_id))) is not None:
            watched.wake()

    def hear_progress(self, channel: str, key: str, payload: str) -> None:
        self._versions += 1
        latest = self._latest.setdefault(channel, OrderedDict())
        latest[key] = (self._versions, payload)
        latest.move_to_end(key)
        while len(latest) > LATEST:
            latest.popitem(last=False)
        if (watched := self._channels.get(channel)) is not None:
            watched.wake()

    # Watching

    @asynccontextmanager
    async def subscribe(self, channel: str, after: int | None = None) -> "AsyncIterator[Subscription]":
        """Everything stored after number `after` (None: from now on), and then everything as it happens, until the
        block is left.

        Raises:
            InputError: There is no such channel.
            SessionNotFound: There is no such session.
            StoreUnavailable: The store does not say where the channel stands.
        """
        if channel != SESSIONS and not channel.startswith("session:"):
            raise InputError(
                f"There is no channel {channel[:80]!r}: {SESSIONS!r} tells of all sessions, 'session:<id>' of one."
            )
        watched = self._channels.setdefault(channel, _Channel(self._recent_events))
        subscription = Subscription(self, channel, watched)
        # Before the store is asked: what is told in between must not be missed.
        watched.subscriptions.add(subscription)
        try:
            await subscription._begin(after)
            yield subscription
        finally:
            subscription._close()
            watched.subscriptions.discard(subscription)
            if not watched.subscriptions and self._channels.get(channel) is watched:
                del self._channels[channel]

    @property
    def watched(self) -> dict[str, int]:
        """How many watch which channel."""
        return {name: len(channel.subscriptions) for name, channel in self._channels.items()}

    async def look(self) -> None:
        """Ask the store how far the watched channels are: what was stored and never told here is found."""
        ids = [name.removeprefix("session:") for name in self._channels if name != SESSIONS]
        if not self._channels:
            return
        async with self._database.reading(light=True) as db:
            found = {events.channel_of(id_): head for id_, head in (await events.heads(db, ids)).items()} if ids else {}
            if SESSIONS in self._channels:
                found[SESSIONS] = await events.feed_head(db)
        for name, head in found.items():
            if (watched := self._channels.get(name)) is not None and head > watched.head:
                watched.add(head, None)

    async def keep_looking(self) -> None:
        """Look once a second, for as long as it is not cancelled."""
        while True:
            await anyio.sleep(POLL_SECONDS)
            try:
                await self.look()
            except StoreUnavailable as problem:
                logger.warning("Viewers wait for the database", extra={"reason": str(problem)})


class Subscription:
    """What one viewer is told on one channel: an iterator over payloads that ends when its block is left."""

    def __init__(self, bus: Bus, channel: str, watched: _Channel) -> None:
        self._bus = bus
        self._channel = channel
        self._watched = watched
        self._wake = anyio.Event()
        self._page: deque[Logged] = deque()
        self._streaming: dict[str, _Sent] = {}
        self._seen: dict[str, int] = {}
        self._asked = 0
        self._closed = False
        self.place = 0
        """The number of the last stored event that was delivered."""

    async def _begin(self, after: int | None) -> None:
        async with self._bus._database.reading(light=True) as db:
            if self._channel == SESSIONS:
                head = await events.feed_head(db)
            else:
                head, streaming = await events.where_it_stands(db, self._channel.removeprefix("session:"))
                self._streaming = {event_id: _Sent() for event_id in streaming}
        self._watched.add(head, None)
        # A number that was never given comes from another database; whoever brings it is shown what comes next.
        self.place = head if after is None else min(max(after, 0), head)

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
                await self._turn_page()
            elif (payload := self._next_transient()) is not None:
                return payload
            else:
                await self._wake.wait()
        raise StopAsyncIteration

    def _is_behind(self) -> bool:
        return self.place < self._watched.head and self._asked < self._watched.head

    def _next_stored(self) -> str | None:
        if self._page:
            logged = self._page.popleft()
            return self._delivered(logged.seq, logged.payload)
        payload = self._watched.recent(self.place + 1)
        return None if payload is None else self._delivered(self.place + 1, payload)

    def _delivered(self, seq: int, payload: str) -> str:
        self.place = seq
        if begun := types.begins(payload):
            self._streaming[begun] = _Sent()
        elif ended := types.ends(payload):
            self._streaming.pop(ended, None)
        return payload

    async def _turn_page(self) -> None:
        head = self._watched.head
        try:
            async with self._bus._database.reading(light=True) as db:
                if self._channel == SESSIONS:
                    page = await events.feed_page(db, after=self.place, limit=self._bus._page_events)
                else:
                    page = await events.page(
                        db, self._channel.removeprefix("session:"), after=self.place, limit=self._bus._page_events
                    )
        except StoreUnavailable:
            await anyio.sleep(RETRY_SECONDS)
            return
        self._page.extend(page)
        if not page:
            # What was there was deleted; asking again brings nothing until something new is told.
            self._asked = head

    def _next_transient(self) -> str | None:
        for event_id, sent in self._streaming.items():
            growing = self._bus._growing.get(event_id)
            if growing is not None and (piece := sent.piece(event_id, growing)) is not None:
                return types.transient(piece, self._channel.removeprefix("session:"), self._bus._clock())
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
    """How much of a streaming event a viewer has."""

    end: int = 0
    life: int = field(default=-1)

    def piece(self, event_id: str, growing: Growing) -> types.StreamChunk | None:
        """What it lacks."""
        anew = self.life != growing.life and self.life != -1
        start = growing.base if self.life != growing.life else max(self.end, growing.base)
        delta = growing.text[start - growing.base :]
        if not delta and not (anew and self.end > start):
            return None
        self.end, self.life = growing.end, growing.life
        return types.StreamChunk(event_id=event_id, offset=start, delta=delta)


def _is_last(payload: str) -> bool:
    return payload.startswith('{"type":"session.status"') and any(f'"status":"{end}"' in payload[:300] for end in _ENDS)


_ENDS = ("completed", "failed", "cancelled", "timed_out")
