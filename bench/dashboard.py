"""The dashboard in a real Chromium: how much the first view weighs, and what a session of 5,000 events does to the page.

    python -m bench.dashboard [--events 5000]

The marks: a first view under 150 kB; while 5,000 events stream no task over 100 ms and, afterwards, less than 150 MB in the
page's heap. Measured through the browser's own protocol, once following the end and once as a page that is opened later.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import anyio
from playwright.async_api import Browser, CDPSession, Page

from tests.browser.chromium import chromium, find_chromium
from tests.browser.long_session import MEASURE, long_work
from tests.web.running import Running, running

FIRST_VIEW, LONGEST_MS, HEAP_MB = 150_000, 100, 150


async def first_view(browser: Browser, door: Running, path: str) -> int:
    """Bytes over the wire until the page is at rest."""
    page = await browser.new_page()
    wire = await page.context.new_cdp_session(page)
    await wire.send("Network.enable")
    sizes: list[int] = []
    wire.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    await page.goto(door.address + path)
    await page.wait_for_load_state("networkidle")
    await page.close()
    return sum(sizes)


async def heap(wire: CDPSession) -> dict[str, Any]:
    await wire.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in (await wire.send("Performance.getMetrics"))["metrics"]}
    return {"heap_mb": metrics["JSHeapUsedSize"] / 1e6, "nodes": int(metrics["Nodes"])}


async def opened(browser: Browser, address: str) -> tuple[Page, CDPSession]:
    page = await browser.new_page(viewport={"width": 1280, "height": 860})
    await page.add_init_script(f"({MEASURE})()")
    wire = await page.context.new_cdp_session(page)
    await wire.send("Performance.enable")
    await page.goto(address)
    return page, wire


async def drawn(page: Page, count: int, seconds: float) -> None:
    there = "(count) => Number(document.querySelector('.timeline')?.dataset.cards ?? 0) >= count"
    await page.wait_for_function(there, arg=count, timeout=seconds * 1000, polling=500)


def tell(what: str, tasks: list[float], measured: dict[str, Any]) -> bool:
    longest = max(tasks, default=0.0)
    fine = longest <= LONGEST_MS and measured["heap_mb"] < HEAP_MB
    print(
        f"{what:<22} longest task {longest:5.0f} ms ({len(tasks)} over 50 ms)   heap {measured['heap_mb']:5.1f} MB   "
        f"{measured['nodes']:,} nodes   {'ok' if fine else 'OVER THE MARK'}"
    )
    return fine


async def main(events: int) -> bool:
    path = find_chromium()
    if path is None:
        print("dashboard: there is no Chromium on this machine, so nothing is measured")
        return True
    begin = anyio.Event()
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder) / 'tersely.db'}"
        async with running(store, work=long_work(events, begin)) as door, chromium(path) as browser:
            weights = {name: await first_view(browser, door, where) for name, where in {"sessions": "/", "submit": "/submit"}.items()}
            session = await door.submit()
            weights["session"] = await first_view(browser, door, f"/sessions/{session}")
            for name, weight in weights.items():
                print(f"first view, {name:<10} {weight / 1000:6.1f} kB   {'ok' if weight < FIRST_VIEW else 'OVER THE MARK'}")
            page, wire = await opened(browser, f"{door.address}/sessions/{session}")
            await page.locator("#link-state[data-state=live]").wait_for()
            begin.set()
            shown = 3 * (events // 4) + 1  # summaries are part of their call's card
            await drawn(page, shown, 600)
            good = tell(f"{events:,} events, followed", await page.evaluate("window.tasks"), await heap(wire))
            await page.close()
            page, wire = await opened(browser, f"{door.address}/sessions/{session}")
            await drawn(page, shown, 120)
            good &= tell(f"{events:,} events, opened", await page.evaluate("window.tasks"), await heap(wire))
            return good and max(weights.values()) < FIRST_VIEW


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--events", type=int, default=5_000)
    raise SystemExit(0 if anyio.run(main, options.parse_args().events) else 1)
