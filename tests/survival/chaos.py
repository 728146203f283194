"""Every fault that sessions have to survive, in real houses, with a report.

    python -m tests.survival.chaos kills              make kills: real kills only
    python -m tests.survival.chaos all                make chaos: everything, within an hour on two processors
    python -m tests.survival.chaos some F05 F20       parts by row (or word: cancel, retention), --scale 0.2 for a small
    run
    python -m tests.survival.chaos figures            put the last report into docs/survival.md

Each part has a cluster, a seed and a time limit of its own; a part that hangs is
stopped there and counts as violated. Parts whose times are promised run alone,
then the others two by two. The report has a line for each as soon as it is over,
and the histories stay where it says. Exit code 1 when anything was violated.
"""

import argparse
import concurrent.futures
import functools
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from bench.bars import Bars
from tests.survival import scenarios
from tests.survival.checker import Violation, again, check, resumed_after
from tests.survival.fork_server import ForkServer, fork_server
from tests.survival.simulation import play_on_all_cores
from tests.survival.stores import postgresql

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "chaos"
DOCS = ROOT / "docs" / "survival.md"
BEGIN, END = "<!-- figures: make chaos writes from here -->", "<!-- figures: to here -->"
MINUTES = 60.0
SIMULATED = 60
VIEWERS = 300
"""Seconds for F35, F36 and F38 at their scale."""

LARGE_RESULTS = {"max_result_bytes": 200_000_000, "timeout": 60}
"""By default so much is refused before it is read, which takes the event loop longer than the usual lease of 2 s."""

OLDER = "9fdf08a"
"""The commit that is updated to this one: before 0.1.0, its records have fields that were removed since."""


@dataclass(frozen=True)
class Part:
    rows: str
    what: str
    store: str
    scenario: Any
    seconds: int
    """What it takes about, on two processors that are free; it is stopped after three times that and a minute."""

    settings: dict[str, Any] = field(default_factory=dict)
    alone: bool = False
    """Nothing else runs beside it: it is measured."""

    needs: str = ""
    """`server`: it does something to PostgreSQL; `disk`: a small file system."""

    missing: str = ""
    """Why it cannot run here."""

    number: int = 0


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


def parts(kills: int, scale: float = 1.0) -> list[Part]:
    """Every row of the fault matrix that concerns sessions."""
    found: list[Part] = []

    def times(count: int) -> int:
        return max(1, round(count * scale))

    def part(
        rows: str,
        what: str,
        store: str,
        seconds: int,
        scenario: Any,
        settings: dict[str, Any] | None = None,
        /,
        **more: Any,
    ) -> None:
        about = {name: more.pop(name) for name in ("alone", "needs", "missing") if name in more}
        scenario = functools.partial(scenario, **more)
        found.append(Part(rows, what, store, scenario, seconds, settings or {}, number=len(found), **about))

    pg, lite = "postgresql", "sqlite"
    # Whose times are promised.
    part(
        "F05",
        "loops stand still for 0.3 leases, two processors busy",
        pg,
        45,
        scenarios.standing_still,
        {"lease": 6.0},
        hogs=2,
        alone=True,
    )
    part(
        "F07",
        f"SIGTERM with work in flight, {times(12)} times, every fourth twice",
        pg,
        120,
        scenarios.leaving,
        count=times(12),
        alone=True,
    )
    listeners = "(query LIKE '%LISTEN%' OR query LIKE '%pg_notify%')"
    what = "the connections for notices cut every second"
    part("F11", what, pg, 45, scenarios.cuts, seconds=times(20), only=listeners, alone=True, needs="server")
    part("cancel", "cancelled through any of three replicas", pg, 20, scenarios.cancelling, replicas=3, alone=True)
    what = f"{times(1000)} alerts within {10 * scale:g} s, {times(300)} may wait"
    flood = {"alerts": times(1000), "pending": times(300), "seconds": 10 * scale, "alone": True}
    part("F38", what, pg, 120, scenarios.flood, {"looks": 0, "limit": 8}, **flood)
    what = f"kill -9, {times(20)} times, two replicas, default lease"
    part("takeover", what, pg, 120, scenarios.takeover, {"lease": 30.0}, count=times(20), alone=True)
    what = f"kill -9, {times(20)} times, one process, default lease"
    part("takeover", what, lite, 120, scenarios.takeover, {"lease": 30.0}, count=times(20), replicas=1, alone=True)
    # The long ones, side by side.
    older = _older_version()
    what = f"kill -9, {kills} times, tools with side effects, an update and an outage"
    # An older version may lack the lock of workers, so its sessions are resumed after a lease.
    first = {"first_version": older}
    middle = {"outage": True, "missing": "" if older else f"git has no commit {OLDER}"}
    part(
        "F01 F15",
        f"{what}; each time a copy is looked at",
        lite,
        60 + 4 * kills,
        scenarios.kills,
        first,
        count=kills,
        **middle,
    )
    part(
        "F01",
        f"{what}; three replicas",
        pg,
        60 + 4 * kills,
        scenarios.kills,
        # Workers die by signals here, never by silence: on a slow machine 2 s of it are no sign of a hang.
        {**first, "lease": 6.0},
        count=kills,
        replicas=3,
        needs="server",
        **middle,
    )
    rounds = times(3)
    what = f"ends itself at every named point, up to {rounds} times in 4 minutes"
    part("F02", what, lite, 240, scenarios.every_point, times=rounds, seconds=240)
    part("F02", "the same, two replicas", pg, 270, scenarios.every_point, times=rounds, replicas=2, seconds=240)
    what = f"PostgreSQL stopped as by a crash, {times(12)} times, 0 to 2 s away"
    part("F09", what, pg, 90, scenarios.restarts, count=times(12), needs="server")
    part("F03", f"SIGSTOP for 2.5 leases, then SIGCONT, {times(12)} times", pg, 100, scenarios.zombies, count=times(12))
    part(
        "F17–F28",
        "models and tools that misbehave, and a kill",
        lite,
        120,
        scenarios.bad_models_and_tools,
        each=times(3),
    )
    part("F17–F28", "the same, two replicas", pg, 120, scenarios.bad_models_and_tools, each=times(3), replicas=2)
    part("F13", f"both files locked for 5 s, {times(6)} times", lite, 45, scenarios.locked, times=times(6))
    part("F08", f"rolling restart of three replicas, {times(4)} times", pg, 80, scenarios.rolling, rounds=times(4))
    part(
        "F04",
        f"a session whose result ends its process, among {times(30)} good ones",
        lite,
        90,
        scenarios.poison,
        good=times(30),
    )
    part("F04", "the same, three replicas", pg, 90, scenarios.poison, good=times(30), replicas=3)
    what = f"the network holds everything for 2.5 leases, {times(6)} times, and cuts it every other time"
    part("F09 F10", what, pg, 60, scenarios.held, count=times(6))
    part("F10", "all connections cut every second", pg, 60, scenarios.cuts, seconds=times(30), needs="server")
    part(
        "F10",
        f"{times(20)} s with 10 connections for three replicas",
        pg,
        60,
        scenarios.crowded,
        seconds=times(20),
        needs="server",
    )
    what = "one commit in twenty fails with 40001 or 40P01"
    part("F12", what, pg, 90, scenarios.conflicts, commits=times(1500), needs="server")
    part(
        "F14",
        f"the disk is full for 4 s, {times(6)} times",
        lite,
        45,
        scenarios.full,
        times=times(6),
        needs="disk",
        missing=_no_disk(),
    )
    part(
        "F06",
        "a result of 100 MB, and a process that takes 100 MB more than at its start is killed",
        lite,
        180,
        scenarios.no_memory,
        {"lease": 10.0, "ops": LARGE_RESULTS},
    )
    part("F06", "the same, two replicas", pg, 180, scenarios.no_memory, {"lease": 10.0, "ops": LARGE_RESULTS})
    part(
        "cancel",
        "cancelled just after its worker was killed",
        pg,
        40,
        scenarios.cancelling,
        replicas=2,
        kill=True,
        count=times(5),
    )
    part(
        "retention",
        "ended sessions are swept away every second while others run",
        lite,
        40,
        scenarios.retention,
        seconds=times(20),
    )
    part("retention", "the same, three replicas", pg, 40, scenarios.retention, seconds=times(20))
    missing = "" if shutil.which("cc") else "there is no C compiler"
    what = "the replicas' clocks are 10 minutes apart and jump by an hour, four times"
    part("F40", what, pg, 60, scenarios.clocks, missing=missing)
    part("F16", "a second server on the same file", lite, 25, scenarios.two_on_one_file)
    return found


@functools.cache
def _older_version() -> Path | None:
    """An older version, installed from its wheel, whose sessions this one has to resume."""
    folder = BUILD / f"tersely-{OLDER}"
    installed = folder / "installed"
    if not installed.exists():
        source = folder / "source"
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", OLDER], cwd=ROOT, capture_output=True, check=False)
        if archive.returncode:
            return None
        subprocess.run(["tar", "-x"], cwd=source, input=archive.stdout, check=True)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=source, capture_output=True, check=True)
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(folder / "unpacked")
        (folder / "unpacked").rename(installed)
    return installed


async def play(part: Part, cradle: ForkServer | None, seed: int, most: float) -> Line:
    name = "-".join([*part.rows.split(), part.store, str(part.number)])
    folder = BUILD / name.replace("–", "-")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()
    try:
        with ExitStack() as stack, anyio.fail_after(most):
            scenario, place = part.scenario, folder
            if part.needs == "disk":
                place = stack.enter_context(_SmallDisk())
            url = f"sqlite:///{place / 'tersely.db'}"
            if part.store == "postgresql":
                server = stack.enter_context(postgresql())
                url = server.empty()
                if part.needs == "server":
                    scenario = functools.partial(scenario, server=server)
            cluster, counted = await scenarios.played(
                scenario, folder, url, seed=seed, what=part.what, fork_server=cradle, **part.settings
            )
    except Exception as problem:
        # Whatever it is: the report says so, and the other parts go on.
        first: BaseException = problem
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        (folder / "problem").write_text("".join(traceback.format_exception(problem)))
        over = time.monotonic() - began >= most
        said = f"it took longer than {most:.0f} s" if over else f"{type(first).__name__}: {str(first)[-1500:]}"
        return Line(part, seed, {}, 0, 0, 0, [], [Violation("run", said)], time.monotonic() - began)
    history = cluster.history
    return Line(
        part,
        seed,
        counted,
        len(cluster.cases),
        len(history.of("fault")),
        again(history),
        resumed_after(history),
        check(history),
        time.monotonic() - began,
    )


class _SmallDisk:
    """A file system of 24 MB, where this machine lets us have one."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tersely-small-"))

    def __enter__(self) -> Path:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(self.folder)], capture_output=True, check=True
        )
        return self.folder

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True, check=False)
        self.folder.rmdir()


@functools.cache
def _no_disk() -> str:
    try:
        with _SmallDisk():
            return ""
    except (OSError, subprocess.CalledProcessError):
        return "this machine lets us mount nothing"


# The report

HEAD = (
    "| rows | store | injected | sessions | faults | made twice | gone on after (median / most) | counted | "
    "invariants | seed | took |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def told(line: Line) -> str:
    resumed = f"{statistics.median(line.resumed):.1f} / {line.resumed[-1]:.1f} s" if line.resumed else "–"
    counted = "; ".join(f"{name}: {value}" for name, value in line.counted.items())
    verdict = "hold" if not line.violations else f"**{len(line.violations)} violations**"
    part = line.part
    cells = [
        part.rows,
        part.store,
        part.what,
        line.sessions,
        line.faults,
        line.twice,
        resumed,
        counted,
        verdict,
        line.seed,
    ]
    return "| " + " | ".join([*map(str, cells), f"{line.seconds:.0f} s"]) + " |"


@dataclass
class Report:
    file: Path
    lines: dict[int, Line] = field(default_factory=dict)
    not_run: dict[int, tuple[Part, str]] = field(default_factory=dict)
    after: list[str] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def add(self, line: Line) -> None:
        with self.turn:
            self.lines[line.part.number] = line
            print(told(line), flush=True)
            for violation in line.violations[:5]:
                print(f"\n{violation}\n", flush=True)
            self.write()

    def skip(self, part: Part, why: str) -> None:
        with self.turn:
            self.not_run[part.number] = (part, why)
            print(f"| {part.rows} | {part.store} | {part.what} | not run: {why} |", flush=True)
            self.write()

    def say(self, text: str) -> None:
        with self.turn:
            self.after.append(text)
            print(text, flush=True)
            self.write()

    @property
    def bad(self) -> int:
        return sum(len(line.violations) for line in self.lines.values())

    def bars(self) -> Bars:
        """How soon sessions went on after a fault, of the parts that count it."""
        bars = Bars()
        for _, line in sorted(self.lines.items()):
            name = f"{line.part.rows}, {line.part.store}"
            if line.resumed:
                bars.add("Went on after", name, "tersely, median", statistics.median(line.resumed), unit="s")
                bars.add("Went on after", name, "tersely, longest", line.resumed[-1], unit="s")
            bars.add("Faults, and calls made twice", name, "faults", line.faults)
            bars.add("Faults, and calls made twice", name, "tersely, calls made twice", line.twice)
            bars.add("Violations", name, "tersely", len(line.violations), most=0)
        return bars

    def write(self) -> None:
        """All that is known so far, in the order of the parts."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        rows = {number: told(line) for number, line in self.lines.items()}
        for number, (part, why) in self.not_run.items():
            rows[number] = f"| {part.rows} | {part.store} | {part.what} | | | | | **not run**: {why} | | | |"
        shown = [HEAD, *(rows[number] for number in sorted(rows)), "", *self.after]
        for line in self.lines.values():
            shown += [
                f"\n`{line.part.rows}` on {line.part.store}, seed {line.seed}:\n\n```text\n{one}\n```"
                for one in line.violations[:5]
            ]
        self.file.write_text("\n".join(shown) + "\n")


# Who runs when


@dataclass
class Lanes:
    """Plays parts, each in an event loop that can be left behind when it hangs."""

    cradle: ForkServer | None
    report: Report
    seed: int
    deadline: float
    stopping: bool = False
    hung: bool = False
    running: "set[concurrent.futures.Future[Line]]" = field(default_factory=set)

    def play_all(self, wanted: Sequence[Part]) -> None:
        able = [part for part in wanted if not part.missing]
        for part in wanted:
            if part.missing:
                self.report.skip(part, part.missing)
        self._lane(deque(part for part in able if part.alone))
        waiting = deque(sorted((part for part in able if not part.alone), key=lambda part: -part.seconds))
        lanes = [threading.Thread(target=self._lane, args=(waiting,), daemon=True) for _ in range(2)]
        for lane in lanes:
            lane.start()
        for lane in lanes:
            while lane.is_alive():
                lane.join(0.2)  # Not for ever at once: signals are heard in between.

    def stop(self) -> None:
        self.stopping = True
        for future in list(self.running):
            future.cancel()

    def _lane(self, waiting: "deque[Part]") -> None:
        while waiting and not self.stopping:
            portal = start_blocking_portal()
            self._on(portal.__enter__(), waiting)
            if not self.hung:
                portal.__exit__(None, None, None)

    def _on(self, portal: BlockingPortal, waiting: "deque[Part]") -> None:
        while not self.stopping:
            try:
                part = waiting.popleft()
            except IndexError:
                return
            left = self.deadline - time.monotonic()
            if left < part.seconds / 2:
                self.report.skip(part, "no time was left")
                continue
            most = min(60.0 + 3 * part.seconds, left)
            future = portal.start_task_soon(play, part, self.cradle, self.seed + part.number, most)
            self.running.add(future)
            try:
                self.report.add(future.result(timeout=most + 60))
            except concurrent.futures.CancelledError:
                return
            except concurrent.futures.TimeoutError:
                self.hung = True
                self.report.add(
                    Line(part, self.seed + part.number, {}, 0, 0, 0, [], [Violation("run", "it hangs")], most + 60)
                )
                return
            finally:
                self.running.discard(future)


def chosen(every: Sequence[Part], words: Sequence[str], store: str) -> Iterator[Part]:
    for part in every:
        low, _, high = part.rows.partition("–")
        covers = (
            {f"F{number:02d}" for number in range(int(low[1:]), int(high[1:]) + 1)} if high else set(part.rows.split())
        )
        if store in part.store and (not words or covers & {word if word.islower() else word.upper() for word in words}):
            yield part


def put_into_docs(report: Path) -> None:
    """The last report takes the place of the one that is there."""
    page = DOCS.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(f"{before}{BEGIN}\n\n{report.read_text().strip()}\n\n{END}{after}")


def watch(report: Report) -> int:
    """F35, F36 and F38 at their scale, as the benchmark has them; whether a viewer missed or doubled something."""
    command = [sys.executable, "-m", "bench.investigations", "--only", "slow,flood,reconnects"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    report.say(
        f"Viewers (F35, F36) and a flood (F38) at their scale:\n\n```text\n{(ran.stdout or ran.stderr).strip()}\n```\n"
    )
    return int(ran.returncode != 0 or any("Not met" in line and "F36" in line for line in ran.stdout.splitlines()))


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", choices=["kills", "all", "some", "list", "figures"])
    arguments.add_argument(
        "rows", nargs="*", help="With `some`: rows of the fault matrix, or cancel, retention, viewers, simulation."
    )
    arguments.add_argument("--kills", type=int, help="Per store  [default: 20, all: 200]")
    arguments.add_argument("--scale", type=float, default=1.0, help="Of the other counts  [default: 1]")
    arguments.add_argument("--minutes", type=float, default=MINUTES, help=f"For all of it  [default: {MINUTES:g}]")
    arguments.add_argument("--store", default="", help="Only on this store.")
    arguments.add_argument("--seed", type=int, default=20_261_115)
    arguments.add_argument("--report", type=Path, default=BUILD / "report.md")
    arguments.add_argument("--json", type=Path, help="Write how soon sessions went on, for bench.plots.")
    given = arguments.parse_args()
    if given.what == "figures":
        put_into_docs(given.report)
        return 0
    every = parts(given.kills or (200 if given.what == "all" else 20), given.scale)
    words = {"kills": ["F01"], "some": given.rows}.get(given.what, [])
    wanted = list(chosen(every, words, given.store))
    if given.what == "list":
        for part in every:
            print(f"{part.rows:10} {part.store:11} {part.seconds:4} s  {'alone ' if part.alone else ''}{part.what}")
        return 0
    began = time.monotonic()
    report = Report(given.report)
    everything = given.what == "all" and not given.store
    simulates, watches = everything or "simulation" in given.rows, everything or "viewers" in given.rows
    afterwards = (SIMULATED + 30 if simulates else 0) + (VIEWERS if watches else 0)
    with fork_server(BUILD / "fork_server") as cradle:
        lanes = Lanes(cradle, report, given.seed, began + given.minutes * 60 - afterwards)

        def end(number: int, frame: object) -> None:
            # What was started is stopped, also when we are told to end.
            lanes.stop()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        print(HEAD, flush=True)
        lanes.play_all(wanted)
    for part in wanted:
        if part.number not in report.lines and part.number not in report.not_run:
            report.skip(part, "the run was stopped")
    report.bars().write(given.json)
    bad = report.bad
    if watches and not lanes.stopping:
        bad += watch(report)
    if simulates and not lanes.stopping:
        played = play_on_all_cores(SIMULATED, given.seed)
        report.say(
            f"Simulation, {SIMULATED} s: {played.runs} bad days (seeds from {given.seed}), {played.sessions} sessions, "
            f"{played.faults} faults, {len(played.bad)} days with a violation."
        )
        for seed, what in played.bad[:5]:
            report.say(f"\n    python -m tests.survival.simulation --seed {seed}: {what}")
        bad += len(played.bad)
    left_out = len(report.not_run)
    report.say(
        f"\n{bad} violations, {left_out} parts not run, in {(time.monotonic() - began) / 60:.1f} minutes "
        f"({time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {os.cpu_count()} processors)."
    )
    code = 1 if bad or lanes.stopping else 0
    if lanes.hung:
        os._exit(1)  # A normal exit would wait for a thread that never ends.
    return code


if __name__ == "__main__":
    sys.exit(main())
