"""Everything at once: `python -m tests.survival.chaos kills` (make kills) and `… all` (make chaos), with a report.

Each part runs in a house of its own, with a seed of its own; the report has a line for
each, and the histories stay where it says. Exit code 1 when anything was violated.
"""

import argparse
import functools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from tests.survival import scenarios
from tests.survival.checker import Violation, again, check, resumed_after
from tests.survival.simulation import play_on_all_cores
from tests.survival.stores import PostgreSQL, postgresql

BUILD = Path(__file__).parents[2] / "build" / "chaos"


@dataclass(frozen=True)
class Part:
    rows: str
    what: str
    store: str
    scenario: Any
    settings: dict[str, Any]


@dataclass(frozen=True)
class Line:
    part: Part
    seed: int
    counted: dict[str, Any]
    sessions: int
    faults: int
    twice: int
    resumed: list[float]
    violations: list[Violation]
    seconds: float


def parts(server: PostgreSQL, kills: int) -> Iterator[Part]:
    """Every row of the fault matrix that concerns sessions."""

    def part(rows: str, what: str, store: str, scenario: Any, settings: dict[str, Any] | None = None, **given: Any) -> Part:
        return Part(rows, what, store, functools.partial(scenario, **given), settings or {})

    pg, lite = "postgresql", "sqlite"
    yield part("F01 F15", f"kill -9, {kills} times", lite, scenarios.kills, count=kills, load=8)
    yield part("F01", f"kill -9, {kills} times, three replicas", pg, scenarios.kills, count=kills, replicas=3, load=8)
    yield part("F16", "a second server on the same file", lite, scenarios.two_on_one_file)
    yield part("F03", "SIGSTOP for two leases, then SIGCONT", pg, scenarios.zombies, count=5)
    yield part("F04 F06", "a session whose result ends its process, among 20 good ones", lite, scenarios.poison, good=20)
    yield part("F04 F06", "the same, three replicas", pg, scenarios.poison, good=20, replicas=3)
    yield part("F05", "loops stand still for 0.3 leases", pg, scenarios.standing_still, {"lease": 6.0})
    yield part("F07", "SIGTERM with work in flight; the last time twice", pg, scenarios.leaving, count=5)
    yield part("F08", "rolling restart of three replicas", pg, scenarios.rolling, rounds=2)
    yield part("F09", "PostgreSQL stopped as by a crash, 0 to 2 s away", pg, scenarios.restarts, server=server, count=6)
    yield part("F10", "all connections cut every second", pg, scenarios.cuts, server=server, seconds=30)
    listeners = "query LIKE '%LISTEN%' OR query LIKE '%pg_notify%'"
    yield part("F11", "the connections for notices cut every second", pg, scenarios.cuts, server=server, seconds=20, only=f"({listeners})")
    yield part("F09 F10", "the network holds everything for 2.5 leases, and cuts it every other time", pg, scenarios.held, count=4)
    yield part("F13", "both files locked for 5 s", lite, scenarios.locked, times=4)
    if small := _small_disk():
        yield part("F14", "the disk is full for 4 s", lite, scenarios.full, {"disk": small}, times=3)
    yield part("cancel", "cancelled through any of three replicas", pg, scenarios.cancelling, replicas=3)
    yield part("cancel", "cancelled just after its worker was killed", pg, scenarios.cancelling, replicas=2, kill=True)
    yield part("F17–F28", "models and tools that misbehave, and a kill", lite, scenarios.bad_models_and_tools)
    yield part("F17–F28", "the same, two replicas", pg, scenarios.bad_models_and_tools, replicas=2)
    yield part("F38", "300 alerts at once, 100 may wait", pg, scenarios.flood)
    yield part("F02", "ends itself at every named point", lite, scenarios.every_point)
    yield part("F02", "the same, two replicas", pg, scenarios.every_point, replicas=2)


def play(part: Part, server: PostgreSQL, seed: int) -> Line:
    folder = BUILD / f"{part.rows.split()[0].replace('–', '-')}-{part.store}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    settings = dict(part.settings)
    place = settings.pop("disk", folder)
    url = server.empty() if part.store == "postgresql" else f"sqlite:///{place / 'tersely.db'}"
    began = time.monotonic()
    run = functools.partial(scenarios.played, part.scenario, folder, url, seed=seed, what=part.what, **settings)
    try:
        house, counted = anyio.run(_in_time, run, 300 + 20 * part.scenario.keywords.get("count", 10))
    except Exception as problem:
        # Whatever it is: the report says so, and the other parts go on.
        first: BaseException = problem
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        broken = [Violation("run", f"{type(first).__name__}: {str(first)[-1500:]}")]
        return Line(part, seed, {}, 0, 0, 0, [], broken, time.monotonic() - began)
    history = house.history
    return Line(
        part,
        seed,
        counted,
        len(house.cases),
        len(history.of("fault")),
        again(history),
        resumed_after(history),
        check(history),
        time.monotonic() - began,
    )


async def _in_time(run: Any, seconds: float) -> Any:
    with anyio.fail_after(seconds):
        return await run()


def told(line: Line) -> str:
    resumed = f"{statistics.median(line.resumed):.1f} / {line.resumed[-1]:.1f} s" if line.resumed else "–"
    counted = ", ".join(f"{name} {value}" for name, value in line.counted.items())
    verdict = "holds" if not line.violations else f"**{len(line.violations)} violations**"
    cells = [
        line.part.rows,
        line.part.store,
        line.part.what,
        str(line.sessions),
        str(line.faults),
        str(line.twice),
        resumed,
        counted,
        verdict,
    ]
    return "| " + " | ".join([*cells, str(line.seed), f"{line.seconds:.0f} s"]) + " |"


HEAD = (
    "| rows | store | injected | sessions | faults | made twice | gone on after (median / most) | counted | invariants | seed | took |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


@contextmanager
def _said(report: Path) -> Iterator[Any]:
    report.parent.mkdir(parents=True, exist_ok=True)
    with report.open("w") as out:

        def say(text: str) -> None:
            print(text, flush=True)
            out.write(text + "\n")
            out.flush()

        yield say


def _small_disk() -> Path | None:
    """A file system of 24 MB, where this machine lets us have one."""
    folder = Path(tempfile.gettempdir()) / f"tersely-small-{os.getpid()}"
    folder.mkdir(exist_ok=True)
    try:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], capture_output=True, check=False)
    except OSError:
        return None
    return folder if mounted.returncode == 0 else None


def _no_small_disk() -> None:
    folder = Path(tempfile.gettempdir()) / f"tersely-small-{os.getpid()}"
    if folder.exists():
        subprocess.run(["umount", str(folder)], capture_output=True, check=False)
        folder.rmdir()


def main() -> int:
    # What was started is stopped, also when we are told to end.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["kills", "all"])
    arguments.add_argument("--kills", type=int, help="Per store  [default: 20, all: 200]")
    arguments.add_argument("--minutes", type=float, default=45.0, help="No new part begins after this time.")
    arguments.add_argument("--only", default="", help="Parts whose rows contain this.")
    arguments.add_argument("--store", default="", help="Only on this store.")
    arguments.add_argument("--seed", type=int, default=20_261_115)
    arguments.add_argument("--report", type=Path, default=BUILD / "report.md")
    given = arguments.parse_args()
    began, bad = time.monotonic(), 0
    with postgresql() as server, _said(given.report) as say:
        say(HEAD)
        try:
            for number, part in enumerate(parts(server, given.kills or (20 if given.what == "kills" else 200))):
                if (given.what == "kills" and "F01" not in part.rows) or given.only not in part.rows or given.store not in part.store:
                    continue
                if time.monotonic() - began > given.minutes * 60:
                    say(f"| {part.rows} | {part.store} | {part.what} | not run: no time was left |")
                    continue
                line = play(part, server, given.seed + number)
                say(told(line))
                for violation in line.violations[:5]:
                    say(f"\n{violation}\n")
                bad += len(line.violations)
        finally:
            _no_small_disk()
        if given.what == "all" and not given.only:
            played = play_on_all_cores(60, given.seed)
            say(f"\nSimulation, 60 s: {played.runs} runs, {played.sessions} sessions, {played.faults} faults, {len(played.bad)} violated")
            bad += len(played.bad)
        say(f"\n{bad} violations in {(time.monotonic() - began) / 60:.1f} minutes. Histories: {BUILD}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
