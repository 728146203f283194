"""Faults, each done to a real cluster under load. A scenario injects; whether all went well is the checker's to say.

Each returns what it counted; its history is complete when it returns.
"""

import json
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import yaml

from tersely.store.database import Database
from tests.fakes.slack_server import FakeSlack
from tests.survival import audit, wrong_clock
from tests.survival.checker import ENDS, slowest_event, was_given_up
from tests.survival.cluster import ROOT, Cluster, Replica, cluster
from tests.survival.history import lines_of
from tests.survival.model import HALF
from tests.survival.proxy import Proxy
from tests.survival.stores import PostgreSQL

Counted = dict[str, Any]
Scenario = Callable[[Cluster, random.Random], Awaitable[Counted]]


async def kills(
    it: Cluster,
    draw: random.Random,
    *,
    count: int = 5,
    replicas: int = 1,
    load: int = 8,
    outage: bool = False,
    server: PostgreSQL | None = None,
) -> Counted:
    """F01: kill -9 at random moments while sessions run; the killed process is started again. If the first processes
    run an older version, all are killed and updated first.

    Args:
        outage: In the middle of it, the store is away for some seconds.
    """
    it.effects = True
    counted: Counted = {"kills": count}
    for slot in range(replicas):
        it.start(slot, source=it.first_version)
    for replica in it.replicas:
        await replica.ready()
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, load)
        if it.first_version:
            counted["open at the update"] = await _updated(it, draw)
        for number in range(count):
            if outage and number == count // 2:
                for replica in it.replicas:
                    await replica.ready()  # A process does not start without its store.
                await _away(it, server)
                counted["outages"] = 1
            victim = await _one_at_work(it, draw)
            await anyio.sleep(draw.uniform(0.2, 3.0))
            it.kill(victim)
            if it.is_sqlite:
                await anyio.to_thread.run_sync(_copy_is_whole, it)
            again = it.start_again(victim)
            if replicas == 1:
                await again.ready()
        feeding.cancel()
        for replica in it.replicas:
            await replica.ready()
        await it.settled(240)
    return counted


async def _updated(it: Cluster, draw: random.Random) -> int:
    """Kill all processes while they work, and start them again in this version; returns how many sessions were open."""
    await _one_at_work(it, draw)
    await anyio.sleep(draw.uniform(1, 3))
    for replica in list(it.replicas):
        it.kill(replica)
    counts = await it.counts()
    if not it.is_sqlite:
        await Database.migrate(it.url)
    for replica in list(it.replicas):
        it.start_again(replica)
    for replica in it.replicas:
        await replica.ready()
    return sum(count for status, count in counts.items() if status not in ENDS)


async def _away(it: Cluster, server: PostgreSQL | None) -> None:
    """The store does not answer for longer than anything waits for it: PostgreSQL crashes, files are locked."""
    it.history.note("fault", what="outage")
    if server:
        await anyio.to_thread.run_sync(server.stop)
        await anyio.sleep(4)
        await anyio.to_thread.run_sync(server.start)
    elif it.is_sqlite:
        with (
            closing(sqlite3.connect(it.file, isolation_level=None, timeout=30)) as one,
            closing(sqlite3.connect(it.engine_file, isolation_level=None, timeout=30)) as two,
        ):
            one.execute("BEGIN IMMEDIATE")
            two.execute("BEGIN IMMEDIATE")
            await anyio.sleep(12)


async def takeover(it: Cluster, draw: random.Random, *, count: int = 10, replicas: int = 2) -> Counted:
    """F01 with the default lease: how long sessions stand still until another replica, or the only one after its
    restart, resumes them.
    """
    await it.start_all(replicas)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(count):
            victim = await _one_at_work(it, draw)
            await anyio.sleep(draw.uniform(0.2, 1.0))
            await _all_progressed(it)
            it.kill(victim)
            await it.start_again(victim).ready()
        feeding.cancel()
        await it.settled(120)
    return {"kills": count, "lease": it.lease}


def _copy_is_whole(it: Cluster) -> None:
    """F15: what a power cut would have left, copied between death and restart: it is in order, and has every
    acknowledged alert.
    """
    copies = it.folder / "copies"
    copies.mkdir(exist_ok=True)
    for file in (it.file, it.engine_file):
        with closing(sqlite3.connect(file, timeout=30)) as held:
            # The last process that closes the file writes its log into it; while we have it open, no other is the last
            # while it is copied.
            held.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            for part in ("", "-wal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{file}{part}", copies / f"{file.name}{part}")
        with closing(sqlite3.connect(copies / file.name)) as copy:
            said = "; ".join(row[0] for row in copy.execute("PRAGMA integrity_check"))
            known = {row[0] for row in copy.execute("SELECT id FROM sessions")} if file == it.file else set(it.cases)
        missing = set(it.cases) - known
        if said != "ok" or missing:
            it.history.note("left", session="", where=f"in the copy of {file.name}: {said}, missing {missing}")
    shutil.rmtree(copies)


async def every_point(
    it: Cluster, draw: random.Random, *, times: int = 1, replicas: int = 1, seconds: float = 600
) -> Counted:
    """F02: the process ends itself at each named point in turn; all of them once, and again as long as there is time.

    The points are those that the code passes, and no others. Messages to people have points, so there is a channel.
    """
    async with FakeSlack().listening() as slack:
        written = yaml.safe_load(it.config.read_text())
        written["slack"] = {"token": slack.token, "channel": slack.channels[0], "api_url": slack.url}
        it.config.write_text(yaml.safe_dump(written))
        return await _every_point(it, draw, times, replicas, seconds)


async def _every_point(it: Cluster, draw: random.Random, times: int, replicas: int, seconds: float) -> Counted:
    until = anyio.current_time() + seconds
    points = await _passed(it)
    crashes = 0
    missed: list[str] = []
    for slot in range(1, replicas):
        await it.start(slot).ready()
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 4)
        for number, point in enumerate(points * times):
            if number >= len(points) and anyio.current_time() > until:
                break
            crashing = it.start(
                0, environment={"FAULT_AT": f"{point}:{1 if 'requeue' in point else draw.randint(1, 2)}"}
            )
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
                crashes += 1
                it.history.note("fault", what=f"crash {point}", executor=crashing.executor)
            if replicas > 1 and not all(one.is_running for one in it.replicas if one.slot):
                await it.start(1).ready()
        await it.start(0).ready()
        feeding.cancel()
        await it.settled(240)
    if never := set(points) - {fault["what"].removeprefix("crash ") for fault in it.history.of("fault")}:
        it.history.note("left", session="", where=f"no process ended at {sorted(never)}")
    return {"points": len(points), "crashes": crashes, "not reached": ", ".join(missed) or "none"}


async def _passed(it: Cluster) -> list[str]:
    """The names of the points, as recorded by a process that works, is killed and resumes."""
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
    written = {
        name
        for name in _NAMED.findall("".join(path.read_text() for path in (ROOT / "src").rglob("*.py")))
        if "{" not in name
    }
    for name in sorted(written - set(passed) - {"after claim"}):
        it.history.note("left", session="", where=f"the point {name!r} is never passed")
    return passed


_NAMED = re.compile(r'on_point\(f?"([^"]+)"\)')


async def bad_models_and_tools(
    it: Cluster, draw: random.Random, *, replicas: int = 1, each: int = 2, kill: bool = True
) -> Counted:
    """F17 to F28 inside sessions, while a process is killed and others go on."""
    await it.start_all(replicas)
    ends = {"f25": "failed", "f26": "failed"}
    rows = [f"f{number}" for number in range(17, 29) if number != 20] * each
    # F20: cut after 0 to 20 chunks, at the end of a line and in the middle of one.
    rows += [f"k{chunks:02d}{where}f20" for chunks in range(21) for where in ("a", "b")[: 1 + (chunks % 3 == 0)]]
    draw.shuffle(rows)
    for row in rows:
        it.sent += 1
        await it.submit(f"case-{it.sent:04d}{row}", expected=ends.get(row[-3:], "completed"))
    if kill:
        await anyio.sleep(draw.uniform(1, 4))
        victim = draw.choice(it.replicas)
        it.kill(victim)
        await it.start_again(victim).ready()
    await it.settled(300)
    ended: dict[str, Counter[str]] = {}
    for session_id, case in it.cases.items():
        detail = (await it.get(f"/api/v1/sessions/{session_id}")).json()
        ended.setdefault(case[-3:].upper(), Counter())[detail["status"]] += 1
        if detail["status"] == "failed" and (not detail["reason"] or "Traceback" in detail["reason"]):
            it.history.note("left", session=session_id, where="no plain reason")
        told = await it.rows(f"SELECT payload FROM event_log WHERE session_id = '{session_id}'")
        if any(
            HALF in payload and '"status":"completed"' in payload.replace(" ", "") for (payload,) in told
        ) or HALF in str(detail):
            it.history.note("left", session=session_id, where="part of an answer counts as one")
    _tries_are_shorter(it)
    # Calls that a misbehaving model or tool has to be asked again are not repeated steps.
    it.history.note("fault", what="misbehaviour", interrupts=True, times=100)
    return {
        row: ", ".join(f"{count} {status}" for status, count in found.items()) for row, found in sorted(ended.items())
    }


def _tries_are_shorter(it: Cluster) -> None:
    """F24: a conversation that is too long for the model is sent again shorter each time, and three times at most."""
    sizes: dict[str, list[int]] = {}
    for line in lines_of(it.folder / "model.log"):
        if line["what"] == "model" and line["case"].endswith("f24") and line["number"] == 2:
            sizes.setdefault(line["case"], []).append(len(line["asked"]))
    for case, sent in sizes.items():
        # One try more where a kill came between an answer and its being stored.
        if len(sent) > 4 or any(later > earlier for earlier, later in pairwise(sent)) or sent[0] == sent[-1]:
            it.history.note("left", session=case, where=f"too long, and then sent with {sent} characters")


async def zombies(it: Cluster, draw: random.Random, *, count: int = 3) -> Counted:
    """F03: SIGSTOP for two leases, so that others take over, then SIGCONT. Whoever lost a session writes nothing for
    it (`audit`).
    """
    it.audited = True
    await it.start_all(3)
    await anyio.to_thread.run_sync(audit.begin, it.url)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6)
        for _ in range(count):
            await anyio.sleep(draw.uniform(0.5, 2))
            victim = await _one_at_work(it, draw)
            it.signal(victim, signal.SIGSTOP)
            await anyio.sleep(2 * it.lease + 1)
            it.signal(victim, signal.SIGCONT, interrupts=False)
        feeding.cancel()
        await it.settled(120)
    return {"zombies": count, "writers' rows": (await it.rows("SELECT count(*) FROM audit"))[0][0]}


async def poison(it: Cluster, draw: random.Random, *, good: int = 10, replicas: int = 1) -> Counted:
    """F04: one session whose result kills its worker, among good ones."""
    await it.start_all(replicas)
    bad = await it.submit("case-poison", expected="given up")
    async with anyio.create_task_group() as group:
        group.start_soon(_supervised, it)
        for _ in range(good):
            await it.submit()
        await it.settled(240)
        group.cancel_scope.cancel()
    detail = (await it.get(f"/api/v1/sessions/{bad}")).json()
    # The third is the child process of a worker.
    if (crashes := len(it.history.of("fault"))) != 2:
        it.history.note("left", session=bad, where=f"{crashes} workers died, not 2")
    return {"reason": detail["reason"], "workers that died": crashes}


async def no_memory(
    it: Cluster, draw: random.Random, *, times: int = 2, good: int = 6, mebibytes: int = 100
) -> Counted:
    """F06: a result of 100 MB, which may be read here, in a process that is killed when it takes `mebibytes` more than
    it had; the others go on.
    """
    await it.start_all(1 if it.is_sqlite else 2)
    async with anyio.create_task_group() as group:
        group.start_soon(_supervised, it)
        group.start_soon(_memory_watched, it, mebibytes)
        large = [
            await it.submit(f"case-{number}large", expected="completed|failed|given up") for number in range(times)
        ]
        for _ in range(good):
            await it.submit()
        await it.settled(500)
        group.cancel_scope.cancel()
    ended = [(await it.get(f"/api/v1/sessions/{session}")).json() for session in large]
    asked = Counter(
        line["case"] for line in lines_of(it.folder / "tools.log") if line["number"] == 1 and "large" in line["case"]
    )
    if max(asked.values(), default=0) > 6:
        it.history.note("left", session="", where=f"the large result was asked for {max(asked.values())} times")
    if not it.history.of("fault"):
        it.history.note("left", session="", where="no process was ended: nothing was shown")
    return {
        "ended": ", ".join(sorted({one["status"] for one in ended})),
        "processes ended": len(it.history.of("fault")),
        "asked for at most": f"{max(asked.values(), default=0)} times",
    }


async def _memory_watched(it: Cluster, mebibytes: int) -> None:
    """End a replica that uses that much more memory than when it was ready, as the kernel does in a container."""
    first: dict[int, int] = {}
    while True:
        for replica in list(it.replicas):
            pid = replica.process.pid
            with suppress(OSError):
                used = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
                if pid not in first and await replica.answers() == 200:
                    first[pid] = used
                elif used > first.get(pid, used) + mebibytes * 2**20:
                    replica.process.kill()
        await anyio.sleep(0.005)


async def leaving(it: Cluster, draw: random.Random, *, count: int = 3) -> Counted:
    """F07: SIGTERM with work in flight, every fourth time twice; what was running is picked up elsewhere."""
    await it.start_all(2)
    took: list[float] = []
    at_once: list[float] = []
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
        for number in range(count):
            victim = await _one_at_work(it, draw)
            await anyio.sleep(draw.uniform(0.2, 1))
            it.signal(victim, signal.SIGTERM)
            began, told = anyio.current_time(), time.time()
            twice = number % 4 == 3
            if twice:
                await anyio.sleep(0.3)
                victim.process.send_signal(signal.SIGTERM)
            with anyio.fail_after(300):
                while victim.is_running:
                    if not twice and anyio.current_time() - began > 1 and await victim.answers() == 200:
                        it.history.note("left", session="", where="ready although it was told to leave a second ago")
                    await anyio.sleep(0.02)
            (at_once if twice else took).append(anyio.current_time() - began)
            if victim.process.returncode and not twice:
                it.history.note("left", session="", where=f"SIGTERM ended with {victim.process.returncode}")
            late = [at for at in _claims(victim) if at > told + 1]
            if late:
                it.history.note(
                    "left", session="", where=f"it took a session {late[0] - told:.1f} s after it was told to leave"
                )
            await it.start_again(victim).ready()
        feeding.cancel()
        await it.settled(120)
    counted = {"SIGTERM": count, "slowest exit": round(max(took), 1)}
    return counted | ({"after a second SIGTERM": round(max(at_once), 1)} if at_once else {})


def _claims(replica: Replica) -> list[float]:
    claims = (line for line in lines_of(replica.log) if line.get("event") == "session_claimed")
    return [datetime.fromisoformat(line["timestamp"]).timestamp() for line in claims]


async def rolling(it: Cluster, draw: random.Random, *, rounds: int = 1) -> Counted:
    """F08: three replicas are restarted one after the other under load."""
    await it.start_all(3)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
        for _ in range(rounds):
            for replica in sorted(it.replicas, key=lambda one: one.slot):
                it.signal(replica, signal.SIGTERM)
                with anyio.fail_after(300):
                    while replica.is_running:
                        await anyio.sleep(0.05)
                await it.start_again(replica).ready()
        feeding.cancel()
        await it.settled(120)
    return {"restarts": 3 * rounds}


async def restarts(
    it: Cluster, draw: random.Random, *, server: PostgreSQL, count: int = 3, down: float = 2.0
) -> Counted:
    """F09: PostgreSQL is stopped as if by a crash, is away for a while, and comes back; no process of ours may end."""
    await it.start_all(3)
    processes = [replica.process.pid for replica in it.replicas]
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
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


async def cuts(
    it: Cluster, draw: random.Random, *, server: PostgreSQL, seconds: int = 8, only: str = "true"
) -> Counted:
    """F10, F11: connections are ended by the server, every second."""
    await it.start_all(3)
    processes = [replica.process.pid for replica in it.replicas]
    ended = 0
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
        for _ in range(seconds):
            await anyio.sleep(1)
            ended += await anyio.to_thread.run_sync(server.cut_all, only)
            it.history.note("fault", what="connections cut")
        feeding.cancel()
        await it.settled(120)
    _all_alive(it, processes)
    if only == "true":
        return {"connections cut": ended}
    await it.look_back()
    slowest = slowest_event(it.history)
    if slowest > 2:
        it.history.note("left", session="", where=f"a viewer got an event {slowest:.1f} s after it was stored")
    return {"connections cut": ended, "slowest event": f"{slowest:.1f} s"}


async def crowded(
    it: Cluster, draw: random.Random, *, server: PostgreSQL, connections: int = 10, seconds: int = 20
) -> Counted:
    """F10: for a while PostgreSQL has fewer connections than three replicas want, and they hold each other up."""
    it.environment["TERSELY_DATABASE_URL"] = await anyio.to_thread.run_sync(server.as_guest, it.url)
    await it.start_all(3)
    replicas, processes = list(it.replicas), [replica.process.pid for replica in it.replicas]
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
        await anyio.sleep(3)
        ((wanted,),) = await it.rows("SELECT count(*) FROM pg_stat_activity WHERE usename = 'guest'")
        # Three more are kept for us, who look on.
        await anyio.to_thread.run_sync(server.allow, connections + 3)
        it.history.note("fault", what="crowded")
        await anyio.sleep(seconds)
        feeding.cancel()
        await anyio.to_thread.run_sync(server.allow, 100)
        it.history.note("fault", what="room again")
        began = anyio.current_time()
        for replica in it.replicas:
            await replica.ready(60)
        ready = anyio.current_time() - began
        await it.settled(180)
    refused = sum("store_unavailable" in line for replica in replicas for line in replica.log.read_text().splitlines())
    _all_alive(it, processes)
    return {
        "connections": f"{connections} of {wanted}",
        "times refused": refused,
        "ready again after": f"{ready:.1f} s",
    }


async def conflicts(it: Cluster, draw: random.Random, *, server: PostgreSQL, commits: int = 1000) -> Counted:
    """F12: one transaction in twenty ends at its commit with a serialization failure or a deadlock, in both schemas."""
    await it.start_all(3)
    await anyio.to_thread.run_sync(server.fail_commits, it.url, 5)
    processes = [replica.process.pid for replica in it.replicas]
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
        with anyio.move_on_after(90):
            while (await it.rows("SELECT last_value FROM commits_tried"))[0][0] < commits:
                await anyio.sleep(0.5)
        feeding.cancel()
        await it.settled(120)
    ((tried, failed),) = await it.rows("SELECT t.last_value, f.last_value FROM commits_tried AS t, commits_failed AS f")
    await anyio.to_thread.run_sync(server.fail_commits, it.url, 0)
    _all_alive(it, processes)
    # A step whose result was not stored is not done again, it is stored again; but a session may be begun again at its
    # last stored step.
    it.history.note("fault", what="failed commits", times=failed)
    return {"commits": tried, "failed": failed}


async def clocks(it: Cluster, draw: random.Random) -> Counted:
    """F40: the replicas' clocks are ten minutes apart, and one after the other jumps by an hour, either way."""
    it.audited = True
    it.history.of("run")[0]["clocks_differ"] = True
    offsets = [0, -600, 600]
    library = await anyio.to_thread.run_sync(wrong_clock.built, it.folder)
    for slot, offset in enumerate(offsets):
        wrong_clock.set_to(it.folder / f"clock-{slot}", offset)
        it.start(slot, environment={"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(it.folder / f"clock-{slot}")})
    for replica in it.replicas:
        await replica.ready()
    await anyio.to_thread.run_sync(audit.begin, it.url)
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed")
        for jump in (3600, -3600, -3600, 3600):
            await anyio.sleep(3)
            slot = draw.randrange(len(offsets))
            offsets[slot] += jump
            wrong_clock.set_to(it.folder / f"clock-{slot}", offsets[slot])
            it.history.note("fault", what=f"the clock of replica {slot} jumps by {jump} s", interrupts=False)
        await anyio.sleep(3)
        feeding.cancel()
        await it.settled(120)
    if taken := _taken_over(it):
        it.history.note("left", session="", where=f"taken over although all lived: {taken[0][:200]}")
    own = [
        datetime.fromisoformat(next(iter(lines_of(replica.log)))["timestamp"]).timestamp() - time.time()
        for replica in it.replicas
    ]
    return {"jumps": 4, "taken over": len(taken), "clocks apart by": f"{(max(own) - min(own)) / 60:.0f} min"}


async def retention(it: Cluster, draw: random.Random, *, seconds: int = 15) -> Counted:
    """Ended sessions are made old and swept away every second while others run."""
    it.environment |= {"TERSELY_SWEEP_MINUTES": "0.02", "TERSELY_KEEP_SESSIONS_DAYS": "1"}
    await it.start_all(1 if it.is_sqlite else 3)
    aged = 0
    ends = "('completed', 'failed', 'cancelled', 'timed_out')"
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 6, expected="completed", watched=True)
        for _ in range(seconds):
            await anyio.sleep(1)
            old = "datetime(ended_at, '-3 days')" if it.is_sqlite else "ended_at - interval '3 days'"
            aged += await it.change(
                f"UPDATE sessions SET ended_at = {old} WHERE status IN {ends} AND ended_at > {_yesterday(it)}"
            )
        feeding.cancel()
        await it.settled(120)
        with anyio.move_on_after(20):
            while await it.rows(f"SELECT 1 FROM sessions WHERE ended_at < {_yesterday(it)} LIMIT 1"):
                await anyio.sleep(0.2)
    kept = {row[0] for row in await it.rows("SELECT id FROM sessions")}
    gone = set(it.cases) - kept
    for session in gone:
        # No replica can be asked any more; what its viewers saw has to do.
        frames = [json.loads(frame["payload"]) for frame in it.history.of("live") if frame["session"] == session]
        it.history.records = [record for record in it.history.records if record.get("session") != session]
        del it.cases[session]
        if (
            not frames
            or frames[-1].get("status") != "completed"
            or [frame["seq"] for frame in frames] != list(range(1, len(frames) + 1))
        ):
            it.history.note("left", session=session, where=f"swept, and its viewer saw {len(frames)} events and no end")
    for table in ("event_log", "timeline_events", "stages", "executions", "interactions", "feed"):
        left = {row[0] for row in await it.rows(f"SELECT DISTINCT session_id FROM {table}")} - kept
        if left:
            it.history.note("left", session="", where=f"{len(left)} swept sessions have rows in {table}")
    left = {row[0] for row in await it.rows("SELECT workflow_uuid FROM workflow_status", engine=True)} & gone
    if left:
        it.history.note("left", session="", where=f"{len(left)} swept sessions are known to the engine")
    return {"made old": aged, "swept": len(gone)}


def _yesterday(it: Cluster) -> str:
    return "datetime('now', '-1 day')" if it.is_sqlite else "now() - interval '1 day'"


async def held(it: Cluster, draw: random.Random, *, count: int = 3) -> Counted:
    """F09, F10: the network between the replicas and PostgreSQL holds everything for two leases, or cuts it; nobody is
    told.
    """
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


async def cancelling(it: Cluster, draw: random.Random, *, replicas: int, kill: bool = False, count: int = 5) -> Counted:
    """Cancel sessions through any replica; with `kill`, just after their worker died."""
    await it.start_all(replicas)
    slowest = 0.0
    for _ in range(count):
        session = await it.submit(expected="cancelled")
        assert session
        await it.until(session, "in_progress")
        if kill:
            (executor,) = [row[0] for row in await it.rows(f"SELECT executor FROM sessions WHERE id = '{session}'")]
            victim = next((one for one in it.replicas if one.executor == executor), it.replicas[0])
            it.kill(victim)
            it.start_again(victim)
        began = anyio.current_time()
        await it.cancel(session)
        await it.until(session, *ENDS)
        slowest = max(slowest, anyio.current_time() - began)
    most = it.lease + 6 if kill else 2.0
    if slowest > most:
        it.history.note("left", session="", where=f"cancelled after {slowest:.1f} s, {most:g} s are promised")
    return {"cancelled": count, "slowest": f"{slowest:.1f} s"}


async def standing_still(it: Cluster, draw: random.Random, *, hogs: int = 0) -> Counted:
    """F05: the loop blocks for almost a third of a lease, again and again; no other replica takes a session over."""
    it.environment["STAND_STILL_SECONDS"] = str(it.lease * 0.3)
    await it.start_all(3)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(hogs)]  # noqa: ASYNC220
    try:
        async with anyio.create_task_group() as group:
            feeding = await _fed(it, group, 4, expected="completed")
            for _ in range(5):
                await anyio.sleep(it.lease / 2)
                for replica in it.replicas:
                    replica.process.send_signal(signal.SIGUSR1)
            feeding.cancel()
            await it.settled(120)
    finally:
        for hog in busy:
            hog.kill()
            hog.wait()
    if taken := _taken_over(it):
        it.history.note("left", session="", where=f"taken over although all lived: {taken[0][:200]}")
    return {"stalls": 15, "taken over": len(taken)}


def _taken_over(it: Cluster) -> list[str]:
    return [
        line
        for log in it.folder.glob("replica-*.log")
        for line in log.read_text().splitlines()
        if '"taken_over"' in line
    ]


async def locked(it: Cluster, draw: random.Random, *, times: int = 3) -> Counted:
    """F13: another process holds both files locked for five seconds, again and again."""
    await it.start_all(1)
    slowest = 0.0
    async with anyio.create_task_group() as group:
        feeding = await _fed(it, group, 3)
        for _ in range(times):
            with (
                closing(sqlite3.connect(it.file, isolation_level=None)) as one,
                closing(sqlite3.connect(it.engine_file)) as two,
            ):
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


async def full(it: Cluster, draw: random.Random, *, times: int = 2) -> Counted:
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


async def two_on_one_file(it: Cluster, draw: random.Random, *, times: int = 3) -> Counted:
    """F16: a second server on the same file does not start."""
    await it.start_all(1)
    for _ in range(times):
        await it.submit()
        second = it.start(7)
        with anyio.fail_after(300):
            while second.is_running:
                await anyio.sleep(0.05)
        said = second.log.read_text()
        it.replicas.remove(second)
        if "Another tersely process uses" not in said:
            it.history.note("left", session="", where=f"the second said {said[-300:]}")
    await it.settled()
    return {"tries": times, "exit code": second.process.returncode}


async def flood(
    it: Cluster, draw: random.Random, *, alerts: int = 300, pending: int = 100, seconds: float = 0
) -> Counted:
    """F38: many more alerts than may wait, within some seconds, from many clients."""
    it.environment["TERSELY_MAX_PENDING"] = str(pending)
    await it.start_all(1 if it.is_sqlite else 3)
    limiter = anyio.CapacityLimiter(20)

    async def send(after: float) -> None:
        await anyio.sleep(after)
        async with limiter:
            await it.submit(patient=False)

    it.took.clear()
    async with anyio.create_task_group() as group:
        for number in range(alerts):
            group.start_soon(send, seconds * number / alerts)
    accepted = len(it.cases)
    took = sorted(it.took)
    await it.settled(600)
    if accepted == alerts:
        it.history.note("left", session="", where=f"all of {alerts} were accepted where {pending} may wait")
    return {
        "sent": alerts,
        "accepted": accepted,
        "95 % answered within": f"{took[len(took) * 95 // 100] * 1000:.0f} ms",
    }


# How


def _fill(file: Path) -> None:
    """Take what space there is."""
    with file.open("wb", buffering=0) as out:
        for size in (2**20, 2**12, 1):
            with suppress(OSError):
                while True:
                    out.write(b"x" * size)


async def _fed(
    it: Cluster,
    group: anyio.abc.TaskGroup,
    at_a_time: int,
    *,
    expected: str = "completed",
    watched: bool = False,
) -> anyio.CancelScope:
    """Keep a few more sessions open than may run, half of them watched, until the scope is cancelled."""
    scope = anyio.CancelScope()

    async def one_more() -> None:
        session = await it.submit(expected=expected)
        if session and (watched or it.sent % 2):
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


async def _one_at_work(it: Cluster, draw: random.Random) -> Replica:
    """A replica that has taken something since it was started, and is not the only one that is there; any, if none has
    for a while.
    """
    with anyio.move_on_after(2 if len(it.replicas) == 1 else 30):
        while True:
            there = [replica for replica in it.replicas if replica.is_running and replica.listens]
            working = [replica for replica in there if replica.executor]
            if working and len(there) > min(1, len(it.replicas) - 1):
                return draw.choice(working)
            await anyio.sleep(0.05)
    return draw.choice(it.replicas)


async def _all_progressed(it: Cluster) -> None:
    """No session stands where it stood when its last worker died: the next kill makes none a suspect, which would wait
    on purpose.
    """
    with anyio.move_on_after(30):
        while await it.rows("SELECT 1 FROM sessions WHERE status = 'in_progress' AND last_seq <= seq_at_death"):
            await anyio.sleep(0.1)


async def _supervised(it: Cluster) -> None:
    """Start again whatever ends."""
    while True:
        for replica in list(it.replicas):
            if not replica.is_running:
                it.history.note("fault", what="ended by itself", executor=replica.executor)
                await it.start_again(replica).ready()
        await anyio.sleep(0.05)


def _all_alive(it: Cluster, processes: list[int]) -> None:
    for replica in it.replicas:
        if not replica.is_running or replica.process.pid not in processes:
            it.history.note("left", session="", where=f"a process ended: {replica.log.read_text()[-500:]}")


async def played(
    scenario: Scenario, folder: Path, url: str, *, seed: int, what: str, **settings: Any
) -> tuple[Cluster, Counted]:
    """A scenario in a cluster of its own, and its whole history."""
    async with cluster(folder, url, seed=seed, what=what, **settings) as it:
        counted = await scenario(it, random.Random(seed))
        if not it.history.of("end"):
            await it.look_back()
    if given_up := sum(was_given_up(end) for end in it.history.of("end")):
        counted["given up"] = given_up
    return it, counted
