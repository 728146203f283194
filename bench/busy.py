"""How a busy service behaves: `/health`, small requests and throughput under many large summaries at once.

    python -m bench.busy [--smoke] [--against PYTHON …]

`tersely serve` gets 50 summaries of 50,000 tokens at once, without a model. Meanwhile another process calls `/health`
every 20 ms, and a small summary is asked for twice a second. In one run: with worker processes, the default, and with
threads only (`TERSELY_CPU_WORKERS=0`); with `--against`, also the Tersely of another interpreter. CPU time is that of
the service and its worker processes during the load.

Target: p95 of `/health` under 100 ms, and no less throughput than with threads.
"""

import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from fastmcp import Client

from bench.arguments import parser
from bench.bars import Bars
from tersely.text.tokens import O200K

MOST_P95 = 0.1
LEAST_THROUGHPUT = 0.95
"""Of that with threads; runs on one machine differ by a few per cent."""

PING = """
import json, sys, threading, time, urllib.request
done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
took = []
while not done.is_set():
    began = time.perf_counter()
    urllib.request.urlopen(sys.argv[1], timeout=60).read()
    took.append(time.perf_counter() - began)
    done.wait(0.02)
print(json.dumps(took))
"""


@dataclass
class Measured:
    health: list[float]
    small: list[float]
    seconds: float
    cpu_seconds: float
    count: int

    @property
    def throughput(self) -> float:
        return self.count / self.seconds

    def row(self, name: str) -> str:
        return (
            f"{name:<36} {_percentile(self.health, 50) * 1e3:8.0f} {_percentile(self.health, 95) * 1e3:8.0f} "
            f"{max(self.health) * 1e3:8.0f} {_percentile(self.small, 50) * 1e3:10.0f} {max(self.small) * 1e3:8.0f} "
            f"{self.seconds:8.1f} {self.cpu_seconds:8.1f} {self.throughput:8.2f}"
        )


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1] if len(values) > 1 else values[0]


def log_of(tokens: int, seed: int) -> str:
    """Lines of a log, all different."""
    words = ("request", "failed", "timeout", "connection", "database", "order", "payment", "user", "upstream", "retry")
    chance = random.Random(seed)
    lines: list[str] = []
    for number in range(tokens // 36):
        said = " ".join(chance.choice(words) for _ in range(12))
        level = "ERROR" if number % 97 == 0 else "INFO"
        at = f"2026-11-15T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        lines.append(f"{at} {level} service-{number % 7} {said} id={chance.randrange(10**9)}")
    return "\n".join(lines)


@contextmanager
def service(python: str, workers: str) -> Iterator[tuple[str, int]]:
    """The address and the process id of a running `tersely serve`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("TERSELY_", "LLM_"))}
    with tempfile.TemporaryDirectory() as folder:
        environment |= {"TERSELY_DATA_DIR": folder, "TERSELY_CPU_WORKERS": workers}
        process = subprocess.Popen(
            [python, "-m", "tersely", "serve", "--port", "0"], stderr=subprocess.PIPE, env=environment, cwd=folder
        )
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if found := re.search(rb'"address": ?"(http://[^"]+)/mcp"', line):
                    break
            else:
                raise RuntimeError("tersely serve did not start.")
            # Its log is not needed; a full pipe would stop it.
            subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
            yield found[1].decode(), process.pid
        finally:
            process.terminate()
            process.wait()


async def measured(python: str, workers: str, *, at_once: int, tokens: int) -> Measured:
    texts = [log_of(tokens, seed) for seed in range(at_once)]
    little = log_of(min(3_000, tokens), 1000)
    small: list[float] = []
    has_small = anyio.Event()
    with service(python, workers) as (address, process_id):
        async with Client(f"{address}/mcp") as client:
            async with anyio.create_task_group() as warming:
                for text in texts[: 2 * (os.cpu_count() or 1)]:
                    given = {"content": text, "max_output_tokens": 1000}
                    warming.start_soon(partial(client.call_tool, "summarize", given))
            used = _cpu_of(process_id)
            pinger = _pinging(address)
            began = time.perf_counter()

            async def summarize(text: str) -> None:
                result = await client.call_tool(
                    "summarize", {"content": text, "max_output_tokens": 1000, "focus_areas": "payment"}
                )
                answer = result.content[0].text
                assert O200K.count(answer) <= 1000 < O200K.count(text)

            async def ask_little() -> None:
                async with Client(f"{address}/mcp") as other:
                    while True:
                        asked = time.perf_counter()
                        await other.call_tool("summarize", {"content": little, "max_output_tokens": 500})
                        small.append(time.perf_counter() - asked)
                        has_small.set()
                        await anyio.sleep(0.5)

            async with anyio.create_task_group() as beside:
                beside.start_soon(ask_little)
                async with anyio.create_task_group() as load:
                    for text in texts:
                        load.start_soon(summarize, text)
                seconds = time.perf_counter() - began
                used = _cpu_of(process_id) - used
                await has_small.wait()
                beside.cancel_scope.cancel()
            health = json.loads(pinger.communicate()[0])
    return Measured(health, small, seconds, used, at_once)


def _pinging(address: str) -> "subprocess.Popen[bytes]":
    """A process that calls `/health` until its input is closed."""
    command = [sys.executable, "-c", PING, f"{address}/health"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _cpu_of(process_id: int) -> float:
    """CPU seconds of a process, its children, and those that ended."""
    children = [
        int(child)
        for task in Path(f"/proc/{process_id}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split() for one in (process_id, *children)]
    return sum(int(ticks) for one in fields for ticks in one[11:15]) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    arguments = parser(__doc__, figures=True)
    arguments.add_argument("--against", nargs="*", default=[], help="interpreters with another Tersely")
    arguments.add_argument("--at-once", type=int, default=50)
    arguments.add_argument("--tokens", type=int, default=50_000)
    given = arguments.parse_args()
    at_once, tokens = (3, 12_000) if given.smoke else (given.at_once, given.tokens)
    print(f"{at_once} summaries of {tokens:,} tokens at once, {os.cpu_count()} cores; ms, then s, then summaries/s")
    names = ("health p50", "p95", "most", "small p50", "most", "all", "CPU", "rate")
    print(" " * 34 + "".join(f"{name:>{width}}" for name, width in zip(names, (11, 9, 9, 11, 9, 9, 9, 9), strict=True)))
    runs = [("worker processes", sys.executable, ""), ("threads", sys.executable, "0")]
    runs += [(f"threads of {python}"[:36], python, "0") for python in given.against]
    found: dict[str, Measured] = {}
    bars = Bars()
    for name, python, workers in runs:
        found[name] = anyio.run(partial(measured, python, workers, at_once=at_once, tokens=tokens))
        print(found[name].row(name), flush=True)
        one, way = found[name], "tersely, worker processes" if name == "worker processes" else name
        for group, percent in (("p50", 50), ("p95", 95)):
            most = MOST_P95 * 1e3 if percent == 95 else None
            bars.add("/health", group, way, _percentile(one.health, percent) * 1e3, unit="ms", most=most)
        bars.add("A small summary meanwhile", "p50", way, _percentile(one.small, 50) * 1e3, unit="ms")
        bars.add("Throughput", "", way, one.throughput, unit="summaries a second")
        bars.add("CPU", "", way, one.cpu_seconds, unit="s")
    bars.write(given.json)
    if given.smoke:
        return
    ours, threads = found["worker processes"], found["threads"]
    p95, share = _percentile(ours.health, 95), ours.throughput / threads.throughput
    target = f"target: under {MOST_P95 * 1e3:.0f}"
    print(f"\n/health p95 {p95 * 1e3:.0f} ms ({target}), throughput {share:.2f} of that of threads")
    if p95 >= MOST_P95 or share < LEAST_THROUGHPUT:
        sys.exit(1)


if __name__ == "__main__":
    main()
