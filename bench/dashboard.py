"""The dashboard in a real Chromium: size of the first view, and the cost of a session with 5,000 events.

    python -m bench.dashboard [--events 5000] [--viewers 50] [--smoke]

Targets: a first view of at most 120 kB; while 5,000 events stream to 50 viewers, no task over 70 ms; afterwards less
than 150 MB in the page's heap. One viewer is a page in Chromium, measured with the browser's DevTools protocol, once
while following the end and once when opened later; the others follow over WebSockets, and each has to get every event.

The wall-clock duration of a task includes the time it waits for a CPU, so a busy machine makes every task longer. Hence
three figures: the longest task by wall-clock time, the longest by CPU time of its thread (the browser's trace has
both), and the longest of an empty page that only does a few milliseconds of arithmetic now and then. If the empty page
exceeds the target too, the wall-clock time measures the machine and not the page; then the CPU time decides, and the
verdict says so.
"""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import Browser, CDPSession, Page

from bench.arguments import parser
from bench.bars import Bars
from tests.browser.chromium import chromium, find_chromium
from tests.browser.long_session import MEASURE, long_work
from tests.web.running import Running, running

FIRST_VIEW, LONGEST_MS, HEAP_MB = 120_000, 70, 150
IDLE_MS = 8
"""Work of the empty page at a time: about as much as the dashboard draws in a frame."""

IDLE = """(busy) => {
  window.longest = window.sum = 0;
  const work = (rounds) => {
    const start = performance.now();
    for (let round = 0; round < rounds; round++) window.sum += Math.sqrt(round);
    return performance.now() - start;
  };
  // The speed without interruptions.
  let fastest = Infinity;
  for (let tries = 0; tries < 60; tries++) fastest = Math.min(fastest, work(20_000));
  const rounds = Math.round((20_000 * busy) / Math.max(fastest, 0.05));
  setInterval(() => (window.longest = Math.max(window.longest, work(rounds))), 120);
}"""


@dataclass
class Tasks:
    """Durations of the main thread's tasks in milliseconds: wall-clock time and CPU time."""

    clock: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@asynccontextmanager
async def traced(browser: Browser, page: Page) -> AsyncIterator[Tasks]:
    """Record the page's tasks for the duration of the block."""
    wire = await browser.new_browser_cdp_session()
    events: list[dict[str, Any]] = []
    over = anyio.Event()
    wire.on("Tracing.dataCollected", lambda part: events.extend(part["value"]))
    wire.on("Tracing.tracingComplete", lambda _: over.set())
    kinds = ["disabled-by-default-devtools.timeline", "blink.user_timing"]
    config = {"includedCategories": kinds, "excludedCategories": ["*"], "recordMode": "recordAsMuchAsPossible"}
    await wire.send("Tracing.start", {"traceConfig": config, "transferMode": "ReportEvents"})
    tasks = Tasks()
    yield tasks
    await page.evaluate("performance.mark('tersely-bench')")
    await wire.send("Tracing.end")
    with anyio.fail_after(900):
        await over.wait()
    await wire.detach()
    ours = next((one["pid"], one["tid"]) for one in events if one["name"] == "tersely-bench")
    for one in events:
        if one["name"] == "RunTask" and (one["pid"], one["tid"]) == ours:
            tasks.clock.append(one.get("dur", 0) / 1000)
            tasks.cpu.append(one.get("tdur", 0) / 1000)


async def first_view(browser: Browser, service: Running, path: str) -> int:
    """Bytes over the wire until the page is at rest."""
    page = await browser.new_page()
    wire = await page.context.new_cdp_session(page)
    await wire.send("Network.enable")
    sizes: list[int] = []
    wire.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    await page.goto(service.address + path)
    await page.wait_for_load_state("networkidle")
    await page.close()
    return sum(sizes)


async def heap(wire: CDPSession) -> dict[str, Any]:
    await wire.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in (await wire.send("Performance.getMetrics"))["metrics"]}
    return {"heap_mb": metrics["JSHeapUsedSize"] / 1e6, "nodes": int(metrics["Nodes"])}


async def opened(browser: Browser) -> tuple[Page, CDPSession]:
    page = await browser.new_page(viewport={"width": 1280, "height": 860})
    await page.add_init_script(f"({MEASURE})()")
    wire = await page.context.new_cdp_session(page)
    await wire.send("Performance.enable")
    return page, wire


async def drawn(page: Page, count: int, seconds: float) -> None:
    there = "(count) => Number(document.querySelector('.timeline')?.dataset.cards ?? 0) >= count"
    await page.wait_for_function(there, arg=count, timeout=seconds * 1000, polling=500)


def tell(what: str, tasks: Tasks, long_tasks: list[float], beside: float, measured: dict[str, Any], bars: Bars) -> bool:
    clock, cpu = max(long_tasks, default=max(tasks.clock, default=0.0)), max(tasks.cpu, default=0.0)
    for way, found in (("wall clock", clock), ("CPU", cpu), (f"an empty page's {IDLE_MS} ms beside it", beside)):
        bars.add("Longest task", what, way, found, unit="ms", most=LONGEST_MS)
    bars.add("Heap of the page", what, "tersely", measured["heap_mb"], unit="MB", most=HEAP_MB)
    busy = beside > LONGEST_MS
    fine = measured["heap_mb"] < HEAP_MB and cpu <= LONGEST_MS and (busy or clock <= LONGEST_MS)
    verdict = (
        "TARGET MISSED"
        if not fine
        else "ok"
        if clock <= LONGEST_MS
        else "ok by CPU time; the machine was too busy for wall-clock time"
    )
    print(
        f"{what:<22} longest task {clock:4.0f} ms wall clock ({sum(one > 50 for one in tasks.clock)} over 50 ms), "
        f"{cpu:4.1f} ms of CPU "
        f"({sum(one > 50 for one in tasks.cpu)} over 50 ms), {sum(tasks.cpu) / 1000:.1f} s total   "
        f"heap {measured['heap_mb']:.1f} MB   {measured['nodes']:,} nodes   {verdict}\n"
        f"{'':<22} empty page for comparison: {IDLE_MS} ms of arithmetic took up to {beside:.0f} ms; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    return fine


async def followed(service: Running, session: str, joined: anyio.Event, received: list[int]) -> None:
    """Follow a session to its end as any other viewer does; how many stored events arrived."""
    count = 0
    async with service.viewer() as viewer:
        await viewer.say(action="subscribe", channel=f"session:{session}")
        joined.set()
        async for text in viewer.socket:
            count += '"seq":' in str(text)
            if '"type":"session.status"' in str(text) and '"status":"completed"' in str(text):
                break
    received.append(count)


async def main(events: int, viewers: int, to: Path | None = None) -> bool:
    bars = Bars()
    path = find_chromium()
    if path is None:
        print("dashboard: skipped, no Chromium on this machine")
        return True
    begin = anyio.Event()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'tersely.db'}"
        # A viewer that waits for its turn on a busy machine is not a slow one.
        service_of = running(store, work=long_work(events, begin), slow_seconds=600)
        async with service_of as service, chromium(path) as browser:
            weights = {
                name: await first_view(browser, service, where)
                for name, where in {"sessions": "/", "submit": "/submit"}.items()
            }
            session = await service.submit()
            weights["session"] = await first_view(browser, service, f"/sessions/{session}")
            for name, weight in weights.items():
                bars.add("First view", name, "tersely", weight / 1000, unit="kB", most=FIRST_VIEW / 1000)
                print(
                    f"first view, {name:<10} {weight / 1000:6.1f} kB   "
                    f"{'ok' if weight <= FIRST_VIEW else 'OVER THE MARK'}"
                )
            idle = await (await browser.new_context()).new_page()
            await idle.evaluate(IDLE, IDLE_MS)
            address = f"{service.address}/sessions/{session}"
            shown = 3 * (events // 4) + 1  # summaries are part of their call's card

            page, wire = await opened(browser)
            await page.goto(address)
            await page.locator("#link-state[data-state=live]").wait_for()
            received: list[int] = []
            async with anyio.create_task_group() as others:
                for _ in range(viewers - 1):
                    joined = anyio.Event()
                    others.start_soon(followed, service, session, joined, received)
                    await joined.wait()
                await idle.evaluate("window.longest = 0")
                async with traced(browser, page) as tasks:
                    begin.set()
                    await drawn(page, shown, 1_800)
                beside = await idle.evaluate("window.longest")
            good = tell(
                f"{events:,} events, {viewers} viewers",
                tasks,
                await page.evaluate("window.tasks"),
                beside,
                await heap(wire),
                bars,
            )
            await page.close()
            stored = (await service.get(f"/sessions/{session}"))["last_seq"]
            missed = sum(count < stored for count in received)
            print(f"{'':<22} {len(received)} other viewers, each with {stored:,} events; {missed} of them missed some")
            good &= not missed

            page, wire = await opened(browser)
            await idle.evaluate("window.longest = 0")
            async with traced(browser, page) as tasks:
                await page.goto(address)
                await drawn(page, shown, 120)
            beside = await idle.evaluate("window.longest")
            good &= tell(
                f"{events:,} events, opened", tasks, await page.evaluate("window.tasks"), beside, await heap(wire), bars
            )
            bars.write(to)
            return good and max(weights.values()) <= FIRST_VIEW


if __name__ == "__main__":
    options = parser(__doc__, figures=True)
    options.add_argument("--events", type=int, help="events of the long session (5,000; smoke: 200)")
    options.add_argument("--viewers", type=int, help="viewers of it at once (50; smoke: 5)")
    given = options.parse_args()
    events, viewers = (200, 5) if given.smoke else (5_000, 50)
    met = anyio.run(main, given.events or events, given.viewers or viewers, given.json)
    raise SystemExit(0 if met or given.smoke else 1)
