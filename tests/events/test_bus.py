"""Every viewer gets every stored event once and in order, whenever it joins and however slow it is."""

import inspect
import json
import tracemalloc
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tersely.errors import InputError, SessionNotFound
from tersely.events.bus import GROWING_CHARACTERS, Bus
from tersely.events.log import append, complete_timeline_event, create_timeline_event, end_session
from tersely.events.types import InteractionCreated, stored_row
from tersely.store import events, sessions
from tersely.store.claims import SessionEnd
from tersely.store.database import Database
from tersely.store.events import EventRow, Logged
from tersely.store.timeline import NewTimelineEvent, TimelineCompletion
from tests.fakes.begun import NOON, begun, log, pending


class Story:
    """A session that things happen to, and what its streaming events' texts were."""

    def __init__(self, database: Database, bus: Bus, session_id: str) -> None:
        self.database, self.bus, self.session_id = database, bus, session_id
        self.head = 2
        self.steps = 0
        self.texts: dict[str, str] = {}
        """Of the events that are streaming."""

        self.history: defaultdict[str, set[str]] = defaultdict(set)
        self.created_at: dict[str, int] = {}
        self.completed_at: dict[str, int] = {}

    def id_of(self, name: str) -> str:
        return sessions.derived_id(self.session_id, name)

    async def store(self) -> Logged:
        self.steps += 1
        event = InteractionCreated(interaction_id=str(self.steps), interaction_type="mcp")
        async with self.database.transaction() as db:
            logged = await append(db, self.session_id, 1, f"step {self.steps}", event, now=NOON)
        assert logged is not None
        self.head = logged.seq
        return logged

    async def open(self, name: str) -> None:
        id_ = self.id_of(name)
        if id_ in self.created_at:
            return
        async with self.database.transaction() as db:
            logged = await create_timeline_event(
                db,
                self.session_id,
                1,
                name,
                NewTimelineEvent(event_id=id_, event_type="llm_response", metadata={}),
                now=NOON,
            )
        assert logged is not None
        self.head = self.created_at[id_] = logged.seq
        self.texts[id_] = ""
        self.history[id_].add("")
        self.bus.publish(logged)

    def chunk(self, name: str, text: str) -> None:
        id_ = self.id_of(name)
        if id_ in self.texts:
            offset = len(self.texts[id_])
            self.texts[id_] += text
            self.history[id_].add(self.texts[id_])
            self.bus.chunk(self.session_id, id_, offset=offset, delta=text, attempt=1)

    def restart(self, name: str) -> None:
        id_ = self.id_of(name)
        if self.texts.get(id_):
            self.texts[id_] = ""
            self.bus.chunk(self.session_id, id_, offset=0, delta="", attempt=1)

    async def complete(self, name: str) -> None:
        id_ = self.id_of(name)
        if self.texts.pop(id_, None) is None:
            return
        async with self.database.transaction() as db:
            logged = await complete_timeline_event(
                db,
                self.session_id,
                1,
                name,
                TimelineCompletion(event_id=id_, event_type="llm_response", content="all", metadata={}),
                now=NOON,
            )
        assert logged is not None
        self.head = self.completed_at[id_] = logged.seq
        # One that comes too late, as it may from another process.
        self.bus.publish(logged)
        self.bus.chunk(self.session_id, id_, offset=3, delta="too late", attempt=1)


class Viewer:
    """Reads as many payloads as it is allowed to, and remembers them."""

    def __init__(self, after: int, *, at_will: bool = True) -> None:
        self.after = after
        self.allowed = 0
        self.at_will = at_will
        self.payloads: list[str] = []
        self.changed = anyio.Event()
        self.waiting = False

    async def watch(self, bus: Bus, channel: str, after: int | None, *, task_status: Any) -> None:
        async with bus.subscribe(channel, after) as subscription:
            self.after = subscription.position
            task_status.started()
            while True:
                while not self.at_will and not self.allowed:
                    self.changed = anyio.Event()
                    await self.changed.wait()
                self.waiting = True
                payload = await anext(subscription)
                self.waiting = False
                self.payloads.append(payload)
                self.allowed = max(self.allowed - 1, 0)

    def allow(self, number: int) -> None:
        self.allowed += number
        self.changed.set()

    @property
    def stored(self) -> list[str]:
        return [payload for payload in self.payloads if "seq" in json.loads(payload)]

    @property
    def place(self) -> int:
        return int(json.loads(self.stored[-1])["seq"]) if self.stored else self.after


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await anyio.wait_all_tasks_blocked()


def check(story: Story, viewer: Viewer, whole_log: list[Logged]) -> None:
    assert viewer.stored == [logged.payload for logged in whole_log if logged.seq > viewer.after]
    texts: dict[str, str] = {}
    place = viewer.after
    for payload in viewer.payloads:
        event = json.loads(payload)
        if event["type"] == "stream.chunk":
            id_ = event["event_id"]
            assert place >= story.created_at[id_], "a chunk came before its event"
            assert place < story.completed_at.get(id_, 10**9), "a chunk came after the end"
            texts[id_] = texts.get(id_, "")[: event["offset"]] + event["delta"]
            assert len(texts.get(id_, "")) >= event["offset"]
            assert texts[id_] in story.history[id_], "a text that never was"
        elif "seq" in event:
            assert event["seq"] == place + 1
            place = event["seq"]
    for id_, text in story.texts.items():
        assert texts.get(id_, "") == text, "a text that is not up to date"


ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["store", "store unpublished", "store swapped", "look"])),
    st.tuples(st.sampled_from(["open", "restart", "complete"]), st.sampled_from("aab")),
    st.tuples(st.just("chunk"), st.sampled_from("aab"), st.text("xyz€😀", min_size=1, max_size=4)),
    st.tuples(st.just("chunk"), st.just("a"), st.just("word")),
    st.tuples(st.just("join"), st.one_of(st.none(), st.integers(-1, 20)), st.booleans()),
    st.tuples(st.just("read"), st.integers(0, 5), st.integers(1, 4)),
    st.tuples(st.just("settle")),
)


# Not shrunk: a failure hangs, and every attempt would wait for its deadline.
@pytest.mark.slow
@settings(
    max_examples=100,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(actions=st.lists(ACTIONS, min_size=10, max_size=50))
async def test_no_viewer_misses_or_doubles_anything_whatever_happens_in_between(
    lite: Database, actions: list[Any]
) -> None:
    session_id = await begun(lite)
    bus = Bus(lite, recent_events=3, page_events=2)
    story = Story(lite, bus, session_id)
    viewers: list[Viewer] = []
    async with anyio.create_task_group() as group:

        async def store_swapped() -> None:
            first, second = await story.store(), await story.store()
            bus.publish(second)
            bus.publish(first)

        async def join(after: int | None, at_will: bool) -> None:
            viewers.append(Viewer(0, at_will=at_will))
            await group.start(viewers[-1].watch, bus, f"session:{session_id}", after)

        def read(which: int, number: int) -> None:
            if which < len(viewers):
                viewers[which].allow(number)

        async def store() -> None:
            bus.publish(await story.store())

        steps: dict[str, Callable[..., Any]] = {
            "store": store,
            "store unpublished": story.store,
            "store swapped": store_swapped,
            "look": bus.poll,
            "open": story.open,
            "restart": story.restart,
            "complete": story.complete,
            "chunk": story.chunk,
            "join": join,
            "read": read,
            "settle": settle,
        }
        for action, *values in actions:
            done = steps[action](*values)
            if inspect.isawaitable(done):
                await done
        for viewer in viewers:
            viewer.at_will = True
            viewer.changed.set()
        await bus.poll()
        with anyio.fail_after(300):
            while not all(viewer.place == story.head and viewer.waiting for viewer in viewers):
                await anyio.sleep(0.001)
        await settle()
        whole_log = await log(lite, session_id)
        for viewer in viewers:
            check(story, viewer, whole_log)
        group.cancel_scope.cancel()
    assert bus.watched == {}


@pytest.fixture
async def lite(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Database]:
    async with Database.open(f"sqlite:///{tmp_path_factory.mktemp('bus') / 'tersely.db'}") as database:
        yield database


@asynccontextmanager
async def watching(bus: Bus, channel: str, after: int | None = 0) -> AsyncIterator[Viewer]:
    viewer = Viewer(0)
    async with anyio.create_task_group() as group:
        await group.start(viewer.watch, bus, channel, after)
        yield viewer
        group.cancel_scope.cancel()


async def until(condition: Any) -> None:
    with anyio.fail_after(300):
        while not condition():
            await anyio.sleep(0.002)


@pytest.mark.slow
async def test_a_viewer_who_does_not_read_costs_little_memory_and_delays_nobody(lite: Database) -> None:
    session_id = await begun(lite)
    bus = Bus(lite)
    async with bus.subscribe(f"session:{session_id}", 0) as slow, watching(bus, f"session:{session_id}") as quick:
        assert json.loads(await anext(slow))["seq"] == 1
        tracemalloc.start()
        try:
            for _ in range(5):
                logged = await many_steps(lite, session_id, 1_000, size=4_000)
                for one in logged:
                    bus.publish(one)
                last = logged[-1].seq
                del logged, one
                with anyio.fail_after(300):
                    while quick.place < last:
                        await anyio.sleep(0.002)
                quick.payloads[:-1] = []
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # 20 MB were published; the bus holds the channel's last megabyte and a tail of the rest.
        assert held < 5_000_000
        await until(lambda: quick.place == 5_002)
        seqs = [json.loads(await anext(slow))["seq"] for _ in range(5_001)]
        assert seqs == list(range(2, 5_003))


_batches = iter(range(10**9))


async def many_steps(database: Database, session_id: str, number: int, *, size: int) -> list[Logged]:
    batch = next(_batches)
    rows: list[EventRow] = [
        stored_row(f"{batch}/{one}", InteractionCreated(interaction_id="x" * size, interaction_type="mcp"))
        for one in range(number)
    ]
    async with database.transaction() as db:
        row = await events.advance(db, session_id, 1, by=number)
        assert row is not None
        return await events.write(db, session_id, row.last_seq, rows, now=NOON)


async def test_live_later_and_from_the_store_an_event_is_the_same_text(database: Database) -> None:
    session_id = await begun(database)
    bus = Bus(database, recent_events=2)
    story = Story(database, bus, session_id)
    async with watching(bus, f"session:{session_id}") as live:
        await story.open("a")
        bus.publish(await story.store())
        await story.complete("a")
        await until(lambda: live.place == story.head)
    async with watching(bus, f"session:{session_id}") as late:
        await until(lambda: late.place == story.head)
    assert live.stored == late.stored == [one.payload for one in await log(database, session_id)]


async def test_the_channel_of_all_sessions_tells_of_each(database: Database) -> None:
    bus = Bus(database)
    first = await begun(database)
    async with watching(bus, "sessions") as everything, watching(bus, "sessions", None) as from_now_on:
        async with database.transaction() as db:
            bus.publish(*await end_session(db, first, 1, SessionEnd(status="failed", reason="it broke"), now=NOON))
        second = await pending(database)
        await bus.poll()
        await until(lambda: everything.place == from_now_on.place == 4)
    told = [(event["session_id"], event["status"], event["seq"]) for event in map(json.loads, everything.payloads)]
    assert told == [(first, "pending", 1), (first, "in_progress", 2), (first, "failed", 3), (second, "pending", 4)]
    assert from_now_on.payloads == everything.payloads[2:]


async def test_a_late_viewer_gets_the_text_so_far_in_one_piece(lite: Database) -> None:
    session_id = await begun(lite)
    bus = Bus(lite)
    story = Story(lite, bus, session_id)
    await story.open("a")
    for word in ("The ", "pod ", "is ", "gone."):
        story.chunk("a", word)
    async with watching(bus, f"session:{session_id}", 3) as viewer:
        await until(lambda: viewer.payloads)
    (chunk,) = map(json.loads, viewer.payloads)
    assert list(chunk) == ["type", "v", "session_id", "timestamp", "event_id", "offset", "delta"]
    assert (chunk["offset"], chunk["delta"]) == (0, "The pod is gone.")


async def test_of_an_endless_event_only_the_end_is_kept_and_the_offset_says_so(lite: Database) -> None:
    session_id = await begun(lite)
    bus = Bus(lite)
    story = Story(lite, bus, session_id)
    await story.open("a")
    for number in range(10):
        story.chunk("a", str(number) * (GROWING_CHARACTERS // 4))
    async with watching(bus, f"session:{session_id}", 3) as viewer:
        await until(lambda: viewer.payloads)
    (chunk,) = map(json.loads, viewer.payloads)
    whole = story.texts[story.id_of("a")]
    assert 0 < len(chunk["delta"]) <= GROWING_CHARACTERS and whole == whole[: chunk["offset"]] + chunk["delta"]


async def test_a_worker_that_lost_the_session_reaches_no_viewer(lite: Database) -> None:
    session_id = await begun(lite)
    bus = Bus(lite)
    story = Story(lite, bus, session_id)
    await story.open("a")
    id_ = story.id_of("a")
    async with watching(bus, f"session:{session_id}", 3) as viewer:
        bus.chunk(session_id, id_, offset=0, delta="old ", attempt=1)
        await until(lambda: len(viewer.payloads) == 1)
        bus.chunk(session_id, id_, offset=0, delta="new ", attempt=2)
        bus.chunk(session_id, id_, offset=4, delta="zombie ", attempt=1)
        bus.chunk(session_id, id_, offset=4, delta="words", attempt=2)
        await until(lambda: len(viewer.payloads) == 2)
    assert [(one["offset"], one["delta"]) for one in map(json.loads, viewer.payloads)] == [
        (0, "old "),
        (0, "new words"),
    ]


async def test_of_progress_only_the_last_word_counts_and_it_ends_with_the_session(lite: Database) -> None:
    session_id = await begun(lite)
    bus = Bus(lite)
    channel = f"session:{session_id}"
    for number in range(1_000):
        bus.progress(channel, "execution/e", f"line {number}")
    bus.progress(channel, "session", "stage 1 of 2")
    async with watching(bus, channel, 2) as viewer:
        await until(lambda: len(viewer.payloads) == 2)
        assert viewer.payloads == ["line 999", "stage 1 of 2"]
    async with lite.transaction() as db:
        bus.publish(*await end_session(db, session_id, 1, SessionEnd(status="completed"), now=NOON))
    async with watching(bus, channel, 2) as late:
        await until(lambda: late.payloads)
        await settle()
        assert [json.loads(payload)["type"] for payload in late.payloads] == ["session.status"]


async def test_a_viewer_of_a_deleted_session_waits_instead_of_asking_on_and_on(lite: Database) -> None:
    session_id = await begun(lite)
    bus = Bus(lite, recent_events=1)
    async with lite.transaction() as db:
        told = await end_session(db, session_id, 1, SessionEnd(status="completed"), now=NOON)
    async with bus.subscribe(f"session:{session_id}", 0) as subscription:
        async with lite.transaction() as db:
            await sessions.delete(db, session_id)
        bus.publish(*told)
        with anyio.move_on_after(0.2):
            await anext(subscription)
            pytest.fail("nothing is left to tell")


async def test_channels_and_sessions_that_do_not_exist_are_refused(lite: Database) -> None:
    bus = Bus(lite)
    with pytest.raises(InputError, match="There is no channel 'session'"):
        async with bus.subscribe("session"):
            pass
    with pytest.raises(SessionNotFound):
        async with bus.subscribe(f"session:{uuid.uuid4()}"):
            pass
    assert bus.watched == {}
