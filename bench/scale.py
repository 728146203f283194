"""What a session costs, and how many a minute one, two and four replicas on one PostgreSQL can do.

    python -m bench.scale [--replicas 1,2,4] [--in-flight 60] [--seconds 30] [--latency 2] [--viewers 8] [--json FILE]

A model server of fixed latency, an MCP server per replica, PostgreSQL and the replicas (`tersely up`) are separate
processes. As many sessions as the replicas may run are kept in flight; each makes three model calls and two tool calls.
Printed per number of replicas: sessions a minute, CPU seconds per session of the replicas and of PostgreSQL, events a
second to viewers, commits, rows and bytes per session, write-ahead log, and what PostgreSQL's connections waited for
(`pg_stat_activity`, sampled). All of it runs on the cores of one machine, so sessions a minute stop growing when those
are busy: the CPU seconds per session are what carries over to other machines, and docs/explanation/sizing.md uses them.
"""

import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, LiteralString

import anyio
import psutil
import psycopg

from bench.arguments import parser
from bench.investigations import Heard, Service, databases, process, service, watch
from tersely.store.database import Database

SAMPLE_SECONDS = 0.1


@dataclass(frozen=True)
class Figures:
    replicas: int
    sessions: int
    per_minute: float
    replica_cpu: float
    database_cpu: float
    cores_used: float
    events_per_session: float
    deliveries_per_second: float
    commits: float
    rows: dict[str, float]
    bytes: float
    log_bytes: float
    waits: dict[str, float]
    """Share of the samples of busy connections, by what they waited for."""


class Server:
    """PostgreSQL seen from outside: its own statistics, and the CPU time of its processes."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        row = self._connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        parent = psutil.Process(row[0]).parent()
        assert parent is not None
        self._postmaster = parent
        self._gone = 0.0
        self._last: dict[int, float] = {}

    def close(self) -> None:
        self._connection.close()

    def cpu(self) -> float:
        """CPU seconds of all its processes so far; of those that ended, as last seen."""
        now: dict[int, float] = {}
        for one in [self._postmaster, *self._postmaster.children()]:
            try:
                times = one.cpu_times()
            except psutil.NoSuchProcess:
                continue
            now[one.pid] = times.user + times.system
        self._gone += sum(seconds for pid, seconds in self._last.items() if pid not in now)
        self._last = now
        return self._gone + sum(now.values())

    def _one(self, query: LiteralString) -> Any:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return row[0]

    def commits(self) -> int:
        # A backend reports its statistics at most once a second, and when it is idle.
        return int(self._one("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"))

    def log_position(self) -> int:
        return int(self._one("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))

    def size(self) -> int:
        return int(self._one("SELECT pg_database_size(current_database())"))

    def rows(self) -> Counter[str]:
        found = self._connection.execute("SELECT schemaname || '.' || relname FROM pg_stat_user_tables").fetchall()
        counted: Counter[str] = Counter()
        for (name,) in found:
            row = self._connection.execute(f"SELECT count(*) FROM {name}").fetchone()
            assert row is not None
            counted[name] = row[0]
        return counted

    def waits(self) -> list[str]:
        """What each busy connection waits for at this moment; `running` for those that wait for nothing."""
        found = self._connection.execute(
            "SELECT coalesce(wait_event_type || ':' || wait_event, 'running') FROM pg_stat_activity "
            "WHERE state = 'active' AND pid <> pg_backend_pid() AND datname = current_database()"
        ).fetchall()
        return [name for (name,) in found]


async def measure(
    url: str, folder: Path, model: str, count: int, in_flight: int, seconds: float, viewers: int
) -> Figures:
    """Keep `count` replicas busy for `seconds`, and divide everything by the sessions that ended."""
    async with AsyncExitStack() as stack:
        ups: list[Service] = []
        for number in range(count):
            own = folder / f"{count}-{number}"
            own.mkdir()
            ups.append(await stack.enter_async_context(service(url, own, model, at_most=in_flight * count)))
        server = Server(url)
        stack.callback(server.close)
        ended: list[str] = []
        heard: list[Heard] = []
        stop, one_more = anyio.Event(), anyio.Event()
        waits: Counter[str] = Counter()
        is_measured = False

        async def keep_busy(number: int) -> None:
            """One place in the load: an alert at a time, each followed to its end on another replica than took it."""
            turn = number
            while not stop.is_set():
                taker, teller = ups[turn % count], ups[(turn + 1) % count]
                session_id, _ = await taker.submit(f"alert {number} {turn}")
                async with teller.viewer() as viewer:
                    one = Heard()
                    heard.append(one)
                    await watch(viewer, session_id, one)
                ended.append(session_id)
                if is_measured:
                    one_more.set()
                turn += 1

        async def extra_viewer(number: int) -> None:
            """Follows the list, as an open dashboard does."""
            one = Heard()
            heard.append(one)
            async with ups[number % count].viewer() as viewer:
                await viewer.send(json.dumps({"action": "subscribe", "channel": "sessions"}))
                async for text in viewer:
                    one.chunks += 1
                    if "seq" in json.loads(text):
                        one.seqs.append(0)

        async def sample() -> None:
            while True:
                waits.update(server.waits())
                server.cpu()
                await anyio.sleep(SAMPLE_SECONDS)

        async with anyio.create_task_group() as around:
            async with anyio.create_task_group() as load:
                for number in range(viewers):
                    around.start_soon(extra_viewer, number)
                for number in range(in_flight * count):
                    load.start_soon(keep_busy, number)
                await anyio.sleep(min(10.0, seconds / 2))
                around.start_soon(sample)
                rows, size, log = server.rows(), server.size(), server.log_position()
                commits, database_cpu = server.commits(), server.cpu()
                cpu, done = sum(up.cpu() for up in ups), len(ended)
                told = sum(len(one.seqs) for one in heard)
                began, is_measured = time.perf_counter(), True
                await anyio.sleep(seconds)
                await one_more.wait()
                took = time.perf_counter() - began
                sessions = len(ended) - done
                cpu = sum(up.cpu() for up in ups) - cpu
                database_cpu = server.cpu() - database_cpu
                commits = server.commits() - commits
                log, size = server.log_position() - log, server.size() - size
                told = sum(len(one.seqs) for one in heard) - told
                more = server.rows()
                more.subtract(rows)
                stop.set()
            around.cancel_scope.cancel()
        events = (await ups[0].get(f"/sessions/{ended[-1]}"))["last_seq"]
        samples = max(1, waits.total())
        return Figures(
            replicas=count,
            sessions=sessions,
            per_minute=sessions / took * 60,
            replica_cpu=cpu / sessions,
            database_cpu=database_cpu / sessions,
            cores_used=(cpu + database_cpu) / took,
            events_per_session=events,
            deliveries_per_second=told / took,
            commits=commits / sessions,
            rows={name: added / sessions for name, added in more.most_common() if added},
            bytes=size / sessions,
            log_bytes=log / sessions,
            waits={name: seen / samples for name, seen in waits.most_common(8)},
        )


def show(figures: Figures) -> None:
    print(f"  {figures.replicas} replicas: {figures.per_minute:,.0f} sessions a minute ({figures.sessions} measured)")
    print(
        f"    CPU per session: replicas {figures.replica_cpu * 1000:.0f} ms, PostgreSQL "
        f"{figures.database_cpu * 1000:.0f} ms; cores in use {figures.cores_used:.2f}"
    )
    print(
        f"    per session: {figures.events_per_session:.0f} events, {figures.commits:.0f} commits, "
        f"{figures.bytes / 1000:.0f} kB of tables, {figures.log_bytes / 1000:.0f} kB of write-ahead log; "
        f"{figures.deliveries_per_second:.0f} events a second to viewers"
    )
    print("    rows per session: " + ", ".join(f"{name} {added:.1f}" for name, added in figures.rows.items()))
    print(
        "    busy connections: " + ", ".join(f"{name} {share:.0%}" for name, share in figures.waits.items()), flush=True
    )


async def main(
    replicas: list[int], in_flight: int, seconds: float, latency: float, viewers: int, to: str | None
) -> int:
    found: list[Figures] = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as there,
        process("-m", "bench.investigations_model", str(latency), "1") as model,
        databases("postgresql", Path(there)) as each,
    ):
        assert model.stdout is not None
        address = model.stdout.readline().strip()
        for _, url in each:
            await Database.migrate(url)
            print(f"Scale, {os.cpu_count()} cores, a model that answers after {latency:g} s")
            for count in replicas:
                found.append(await measure(url, Path(there), address, count, in_flight, seconds, viewers))
                show(found[-1])
    if to:
        await anyio.Path(to).write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    options = parser(__doc__)
    options.add_argument("--replicas", default="1,2,4", help="numbers of replicas, one measurement each")
    options.add_argument("--in-flight", type=int, default=60, help="sessions kept running, per replica")
    options.add_argument("--seconds", type=float, default=30.0, help="how long each measurement takes")
    options.add_argument("--latency", type=float, default=2.0, help="seconds until the model answers")
    options.add_argument("--viewers", type=int, default=8, help="viewers of the list, besides one per session")
    options.add_argument("--json", help="write the figures to this file")
    given = options.parse_args()
    numbers = [1] if given.smoke else [int(one) for one in given.replicas.split(",")]
    seconds = 3.0 if given.smoke else given.seconds
    latency = 0.05 if given.smoke else given.latency
    in_flight = 4 if given.smoke else given.in_flight
    sys.exit(anyio.run(main, numbers, in_flight, seconds, latency, given.viewers, given.json))
