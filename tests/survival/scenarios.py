"""Faults, each done to a real house under load. A scenario injects; whether all went well is the checker's to say.

Each returns what it counted; its history is complete when it returns.
"""

import random
import re
import signal
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio

from tests.survival.checker import ENDS, was_given_up
from tests.survival.house import ROOT, House, Replica, house
from tests.survival.proxy import Proxy
from tests.survival.stores import PostgreSQL

Counted = dict[str, Any]
Scenario = Callable[[House, random.Random], Awaitable[Counted]]


async def kills(it: House, draw: random.Random, *, count: int = 5, replicas: int = 1, load: int = 8) -> Counted:
    """F01: kill -9 at random moments while sessions run; the killed process is started again."""
    await it.start_all(replicas)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, load)
        for _ in range(count):
            victim = await _one_at_work(it, draw)
            await anyio.sleep(draw.uniform(0.2, 3.0))
            it.kill(victim)
            again = it.start_again(victim)
            if replicas == 1:
                await again.ready()
        feeding.cancel()
        for replica in it.replicas:
            await replica.ready()
        await it.settled(240)
    return {"kills": count}


async def every_point(it: House, draw: random.Random, *, times: int = 1, replicas: int = 1) -> Counted:
    """F02: the process ends itself at each named point in turn. The points are those that the code passes, and no others."""
    points = await _passed(it)
    missed: list[str] = []
    for slot in range(1, replicas):
        await it.start(slot).ready()
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 4)
        for point in points * times:
            crashing = it.start(0, environment={"FAULT_AT": f"{point}:{1 if 'requeue' in point else draw.randint(1, 2)}"})
            with anyio.move_on_after(40) as late:
                if "requeue" in point and replicas > 1:
                    # Only survivors queue again, and one at a time: this one has to be the only one.
                    await crashing.ready()
                    other = next(one for one in it.replicas if one.slot == 1)
                    it.kill(other)
                while crashing.is_running:
                    await anyio.sleep(0.05)
            if late.cancelled_caught:
                missed.append(point)
                it.kill(crashing)
            else:
                it.history.note("fault", what=f"crash {point}", executor=crashing.executor)
            if replicas > 1 and not all(one.is_running for one in it.replicas if one.slot):
                await it.start(1).ready()
        await it.start(0).ready()
        feeding.cancel()
        await it.settled(240)
    return {"points": len(points), "crashes": len(points) * times - len(missed), "not reached": missed}


async def _passed(it: House) -> list[str]:
    """The names of the points, as a process writes them down that works, is killed and goes on."""
    file = it.folder / "points"
    listing = {"FAULT_LIST": str(file)}
    for _ in range(2):
        replica = it.start(0, environment=listing)
        await replica.ready()
        session = await it.submit()
        assert session
        await it.until(session, "in_progress")
        it.kill(replica)
    replica = it.start(0, environment=listing)
    await replica.ready()
    await it.settled(120)
    it.kill(replica)
    passed = sorted(set(file.read_text().splitlines()))
    written = {name for name in _NAMED.findall("".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))) if "{" not in name}
    for name in sorted(written - set(passed) - {"after claim"}):
        it.history.note("left", session="", where=f"the point {name!r} is never passed")
    return passed


_NAMED = re.compile(r'crash_point\(f?"([^"]+)"\)')


async def bad_models_and_tools(it: House, draw: random.Random, *, replicas: int = 1) -> Counted:
    """F17 to F28 inside sessions, while a process is killed and others go on."""
    await it.start_all(replicas)
    ends = {"f25": "failed", "f26": "completed|failed", "f21": "completed|failed"}
    for row in [f"f{number}" for number in range(17, 29)] * 2:
        it.sent += 1
        await it.submit(f"case-{it.sent:04d}{row}", expected=ends.get(row, "completed"))
    await anyio.sleep(draw.uniform(1, 4))
    victim = draw.choice(it.replicas)
    it.kill(victim)
    await it.start_again(victim).ready()
    await it.settled(240)
    ended: dict[str, str] = {}
    for session_id, case in it.cases.items():
        detail = (await it.get(f"/api/v1/sessions/{session_id}")).json()
        ended[case[-3:].upper()] = detail["status"] + (f" ({detail['reason'][:80]})" if detail["status"] == "failed" else "")
        if detail["status"] == "failed" and (not detail["reason"] or "Traceback" in detail["reason"]):
            it.history.note("left", session=session_id, where="no plain reason")
    # Calls that a misbehaving model or tool has to be asked again are not repeated steps.
    it.history.note("fault", what="misbehaviour", interrupts=True, times=100)
    return ended


async def zombies(it: House, draw: random.Random, *, count: int = 3) -> Counted:
    """F03: SIGSTOP for two leases, so that others take over, then SIGCONT."""
    await it.start_all(3)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(count):
            await anyio.sleep(draw.uniform(0.5, 2))
            victim = draw.choice(it.replicas)
            it.signal(victim, signal.SIGSTOP)
            await anyio.sleep(2 * it.lease + 1)
            it.signal(victim, signal.SIGCONT, interrupts=False)
        feeding.cancel()
        await it.settled(120)
    return {"zombies": count}


async def poison(it: House, draw: random.Random, *, good: int = 10, replicas: int = 1) -> Counted:
    """F04: one session whose result kills whoever reads it, among good ones."""
    await it.start_all(replicas)
    bad = await it.submit("case-poison", expected="failed")
    async with anyio.create_task_group() as group:
        group.start_soon(_supervised, it)
        for _ in range(good):
            await it.submit()
        await it.settled(240)
        group.cancel_scope.cancel()
    detail = (await it.get(f"/api/v1/sessions/{bad}")).json()
    return {"reason": detail["reason"], "deaths": len(it.history.of("fault"))}


async def leaving(it: House, draw: random.Random, *, count: int = 3) -> Counted:
    """F07: SIGTERM with work in flight; what was running is picked up elsewhere."""
    await it.start_all(2)
    took: list[float] = []
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(count):
            await anyio.sleep(draw.uniform(0.5, 2))
            victim = draw.choice(it.replicas)
            it.signal(victim, signal.SIGTERM)
            began = anyio.current_time()
            with anyio.fail_after(40):
                while victim.is_running:
                    await anyio.sleep(0.02)
            took.append(anyio.current_time() - began)
            if victim.process.returncode:
                it.history.note("left", session="", where=f"SIGTERM ended with {victim.process.returncode}")
            await it.start_again(victim).ready()
        victim = draw.choice(it.replicas)
        it.signal(victim, signal.SIGTERM)
        await anyio.sleep(0.3)
        victim.process.send_signal(signal.SIGTERM)
        began = anyio.current_time()
        with anyio.fail_after(40):
            while victim.is_running:
                await anyio.sleep(0.02)
        at_once = anyio.current_time() - began
        await it.start_again(victim).ready()
        feeding.cancel()
        await it.settled(120)
    return {"slowest exit": round(max(took), 1), "after a second SIGTERM": round(at_once, 1)}


async def rolling(it: House, draw: random.Random, *, rounds: int = 1) -> Counted:
    """F08: three replicas are restarted one after the other under load."""
    await it.start_all(3)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(rounds):
            for replica in sorted(it.replicas, key=lambda one: one.slot):
                it.signal(replica, signal.SIGTERM)
                with anyio.fail_after(40):
                    while replica.is_running:
                        await anyio.sleep(0.05)
                await it.start_again(replica).ready()
        feeding.cancel()
        await it.settled(120)
    return {"restarts": 3 * rounds}


async def restarts(it: House, draw: random.Random, *, server: PostgreSQL, count: int = 3, down: float = 2.0) -> Counted:
    """F09: PostgreSQL is stopped as if by a crash, is away for a while, and comes back; no process of ours may end."""
    await it.start_all(3)
    processes = [replica.process.pid for replica in it.replicas]
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(count):
            await anyio.sleep(draw.uniform(2, 4))
            await anyio.to_thread.run_sync(server.stop)
            it.history.note("fault", what="PostgreSQL stopped")
            await it.submit(patient=False)
            await anyio.sleep(draw.uniform(0, down))
            await anyio.to_thread.run_sync(server.start)
        feeding.cancel()
        await it.settled(180)
    _all_alive(it, processes)
    return {"restarts": count}


async def cuts(it: House, draw: random.Random, *, server: PostgreSQL, seconds: int = 8, only: str = "true") -> Counted:
    """F10, F11: connections are ended by the server, every second."""
    await it.start_all(3)
    processes = [replica.process.pid for replica in it.replicas]
    ended = 0
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(seconds):
            await anyio.sleep(1)
            ended += await anyio.to_thread.run_sync(server.cut_all, only)
            it.history.note("fault", what="connections cut")
        feeding.cancel()
        await it.settled(120)
    _all_alive(it, processes)
    return {"connections cut": ended}


async def held(it: House, draw: random.Random, *, count: int = 3) -> Counted:
    """F09, F10: the network between the replicas and PostgreSQL holds everything for two leases, or cuts it; nobody is told."""
    async with Proxy(it.url).listening() as between:
        it.environment["TERSELY_DATABASE_URL"] = between.url
        await it.start_all(3)
        processes = [replica.process.pid for replica in it.replicas]
        async with anyio.create_task_group() as group:
            feeding = await _fed(it, group, 6)
            for number in range(count):
                await anyio.sleep(draw.uniform(1, 2))
                between.hold()
                it.history.note("fault", what="held")
                await anyio.sleep(2 * it.lease + 1)
                if number % 2:
                    between.cut()
                between.go_on()
            feeding.cancel()
            await it.settled(120)
        _all_alive(it, processes)
        await it.look_back()
        for replica in it.replicas:
            replica.process.kill()
            replica.process.wait()
    return {"held": count, "taken from the living": len(it.history.of("takeover"))}


async def cancelling(it: House, draw: random.Random, *, replicas: int, kill: bool = False) -> Counted:
    """Cancel sessions through any replica; with `kill`, just after their worker died."""
    await it.start_all(replicas)
    slowest = 0.0
    for _ in range(3):
        session = await it.submit(expected="cancelled")
        assert session
        await it.until(session, "in_progress")
        if kill:
            (executor,) = [row[0] for row in await it.rows(f"SELECT executor FROM sessions WHERE id = '{session}'")]
            victim = next((one for one in it.replicas if one.executor == executor), it.replicas[0])
            it.kill(victim)
            it.start_again(victim)
        await it.cancel(session)
        began = anyio.current_time()
        await it.until(session, *ENDS)
        slowest = max(slowest, anyio.current_time() - began)
    return {"slowest": round(slowest, 1)}


async def standing_still(it: House, draw: random.Random) -> Counted:
    """F05: the loop stands still for almost a third of a lease, again and again; nobody takes anything over."""
    it.environment["STAND_STILL_SECONDS"] = str(it.lease * 0.3)
    await it.start_all(3)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 4)
        for _ in range(4):
            await anyio.sleep(it.lease / 2)
            for replica in it.replicas:
                replica.process.send_signal(signal.SIGUSR1)
        feeding.cancel()
        await it.settled(120)
    taken = [line for log in it.folder.glob("replica-*.log") for line in log.read_text().splitlines() if '"taken_over"' in line]
    if taken:
        it.history.note("left", session="", where=f"taken over although all lived: {taken[0][:200]}")
    return {"taken over": len(taken)}


async def locked(it: House, draw: random.Random, *, times: int = 3) -> Counted:
    """F13: another process holds both files locked for five seconds, again and again."""
    await it.start_all(1)
    slowest = 0.0
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 3)
        for _ in range(times):
            with closing(sqlite3.connect(it.file, isolation_level=None)) as one, closing(sqlite3.connect(it.engine_file)) as two:
                one.execute("BEGIN IMMEDIATE")
                two.execute("BEGIN IMMEDIATE")
                began = anyio.current_time()
                async with anyio.create_task_group() as waiting:
                    waiting.start_soon(it.submit)
                    await anyio.sleep(5)
                    one.rollback()
                    two.rollback()
                slowest = max(slowest, anyio.current_time() - began)
            await anyio.sleep(draw.uniform(0.5, 1))
        feeding.cancel()
        await it.settled(120)
    return {"slowest submission": round(slowest, 1)}


async def full(it: House, draw: random.Random, *, times: int = 2) -> Counted:
    """F14: the disk is full for a while. The file system is a small one of its own; something else fills it."""
    await it.start_all(1)
    ballast = it.file.with_name("ballast")
    refused = 0
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 3)
        for _ in range(times):
            await anyio.sleep(draw.uniform(1, 2))
            _fill(ballast)
            it.history.note("fault", what="disk full")
            with anyio.move_on_after(4):
                while True:
                    if await it.submit(patient=False) is None:
                        refused += 1
                    await anyio.sleep(0.2)
            ballast.unlink()
        feeding.cancel()
        await it.settled(120)
    if not it.replicas[0].is_running:
        it.history.note("left", session="", where="the process ended when the disk was full")
    return {"refused": refused}


async def two_on_one_file(it: House, draw: random.Random) -> Counted:
    """F16: a second server on the same file does not start."""
    await it.start_all(1)
    second = it.start(7)
    with anyio.fail_after(60):
        while second.is_running:
            await anyio.sleep(0.05)
    said = second.log.read_text()
    it.replicas.remove(second)
    if "Another tersely works on" not in said:
        it.history.note("left", session="", where=f"the second said {said[-300:]}")
    await it.submit()
    await it.settled()
    return {"exit code": second.process.returncode}


async def flood(it: House, draw: random.Random, *, alerts: int = 300, pending: int = 100) -> Counted:
    """F38: many more alerts than may wait, at once, from many clients."""
    it.environment["TERSELY_MAX_PENDING"] = str(pending)
    await it.start_all(1 if it.is_sqlite else 3)
    limiter = anyio.CapacityLimiter(20)

    async def send() -> None:
        async with limiter:
            await it.submit(patient=False)

    async with anyio.create_task_group() as group:
        for _ in range(alerts):
            group.start_soon(send)
    accepted = len(it.cases)
    await it.settled(600)
    return {"sent": alerts, "accepted": accepted}


# How


def _fill(file: Path) -> None:
    """Take what space there is."""
    with file.open("wb", buffering=0) as out:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    out.write(b"x" * size)


async def _fed(it: House, group: anyio.abc.TaskGroup, at_a_time: int) -> anyio.CancelScope:
    """Keep a few more sessions open than may run, half of them watched, until the scope is cancelled."""
    scope = anyio.CancelScope()

    async def one_more() -> None:
        # Whoever kills often enough hits the same session three times before it gets any further.
        session = await it.submit(expected="completed|given up")
        if session and it.sent % 2:
            group.start_soon(it.watch, session)

    async def feed() -> None:
        with scope:
            while True:
                open_ones = sum(count for status, count in (await it.counts()).items() if status not in ENDS)
                for _ in range(at_a_time - open_ones):
                    await one_more()
                await anyio.sleep(0.1)

    if any(replica.is_running for replica in it.replicas):
        for _ in range(at_a_time):
            await one_more()
    group.start_soon(feed)
    return scope


async def _one_at_work(it: House, draw: random.Random) -> Replica:
    """A replica that has taken something since it was started, and is not the only one that is there; any, if none has for a while."""
    with anyio.move_on_after(30):
        while True:
            there = [replica for replica in it.replicas if replica.is_running and replica.listens]
            working = [replica for replica in there if replica.executor]
            if working and len(there) > min(1, len(it.replicas) - 1):
                return draw.choice(working)
            await anyio.sleep(0.05)
    return draw.choice(it.replicas)


async def _supervised(it: House) -> None:
    """Start again whatever ends."""
    while True:
        for replica in list(it.replicas):
            if not replica.is_running:
                it.history.note("fault", what="ended by itself", executor=replica.executor)
                await it.start_again(replica).ready()
        await anyio.sleep(0.05)


def _all_alive(it: House, processes: list[int]) -> None:
    for replica in it.replicas:
        if not replica.is_running or replica.process.pid not in processes:
            it.history.note("left", session="", where=f"a process ended: {replica.log.read_text()[-500:]}")


async def played(scenario: Scenario, folder: Path, url: str, *, seed: int, what: str, **settings: Any) -> tuple[House, Counted]:
    """A scenario in a house of its own, and its whole history."""
    async with house(folder, url, seed=seed, what=what, **settings) as it:
        counted = await scenario(it, random.Random(seed))
        if not it.history.of("end"):
            await it.look_back()
    if given_up := sum(was_given_up(end) for end in it.history.of("end")):
        counted["given up"] = given_up
    return it, counted
