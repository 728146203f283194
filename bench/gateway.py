"""Compare the gateway with a direct connection and with FastMCP's proxy: latency, routing of messages, leaks.

    python -m bench.gateway [--smoke]

A small call direct, through the gateway and through `create_proxy`, alternating, so that other load on the machine
affects all three; both protocol eras. Targets: p50 at most 2.3 × direct, or direct + 8 ms; on 2026-07-28 at least 4 ×
faster than `create_proxy`. Then four concurrent clients, each of which must get its own progress messages; then 1,000
calls with 50 in flight, after which memory and processes must be back at their initial level.
"""

import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack

import anyio
import psutil
from fastmcp import Client

from bench.arguments import parser
from conformance.processes import PROXY, TERSELY, listening

UPSTREAM = [sys.executable, "-m", "bench.gateway_upstream"]
GATEWAY = [*TERSELY, "gateway", "--http", "--port", "0"]
ERAS = {"2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
WARM, ROUNDS = 20, 100
DIRECT, OURS, THEIRS = "direct", "tersely gateway", "create_proxy"
CLIENTS, STEPS = 4, 25
CALLS, AT_ONCE = 1000, 50
# Allocators do not return all memory; a leak over 1,000 calls would exceed this.
ROOM_MB = 16


async def latency(addresses: dict[str, str], era: str, warm: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of each call, one way after the other, round by round."""
    took: dict[str, list[float]] = {way: [] for way in addresses}
    async with AsyncExitStack() as opened:
        clients = {
            way: await opened.enter_async_context(Client(address, mode=ERAS[era])) for way, address in addresses.items()
        }
        for number in range(warm + rounds):
            for way, client in clients.items():
                began = time.perf_counter()
                result = await client.call_tool("small", {"number": number})
                seconds = time.perf_counter() - began
                assert f"number {number}: ok" in str(result.content), f"{way} answered {result.content}"
                if number >= warm:
                    took[way].append(seconds)
    return took


def report_latency(took: dict[str, list[float]], era: str) -> bool:
    p50 = {way: statistics.median(seconds) * 1000 for way, seconds in took.items()}
    p95 = {way: statistics.quantiles(seconds, n=20)[-1] * 1000 for way, seconds in took.items()}
    print(f"  {era}")
    for way in took:
        ratio = (
            "" if way == DIRECT else f" · {p50[way] / p50[DIRECT]:5.2f} × direct (p95 {p95[way] / p95[DIRECT]:5.2f} ×)"
        )
        print(f"    {way:<16} p50 {p50[way]:6.1f} ms · p95 {p95[way]:6.1f} ms{ratio}")
    near = p50[OURS] <= max(2.3 * p50[DIRECT], p50[DIRECT] + 8)
    print(f"    at most 2.3 × direct, or direct + 8 ms: {'met' if near else 'NOT met'}")
    faster = p50[THEIRS] / p50[OURS]
    if era != "2026-07-28":
        print(f"    {faster:.1f} × faster than create_proxy")
        return near
    print(f"    at least 4 × faster than create_proxy: {faster:.1f} ×, {'met' if faster >= 4 else 'NOT met'}")
    return near and faster >= 4


async def progress(address: str, era: str) -> bool:
    """Four concurrent clients whose calls are identical on the wire: each must get its own messages."""
    heard: dict[str, list[str]] = {f"client-{number}": [] for number in range(CLIENTS)}

    async def one(name: str) -> None:
        async def hear(done: float, total: float | None, message: str | None) -> None:
            heard[name].append(message or "")

        async with Client(address, mode=ERAS[era]) as client:
            await client.call_tool("steps", {"caller": name, "count": STEPS}, progress_handler=hear)

    async with anyio.create_task_group() as group:
        for name in heard:
            group.start_soon(one, name)
    strangers = sum(message != name for name, messages in heard.items() for message in messages)
    own = sum(message == name for name, messages in heard.items() for message in messages)
    good = not strangers and own == CLIENTS * STEPS
    print(
        f"  {era}: {own} of {CLIENTS * STEPS} progress messages reached their caller, {strangers} a "
        f"stranger{'' if good else ': NOT met'}"
    )
    return good


async def load(address: str, pid: int, era: str, count: int, at_once: int) -> bool:
    async def calls(count: int) -> int:
        failed = 0
        free = anyio.Semaphore(at_once)
        async with Client(address, mode=ERAS[era]) as client, anyio.create_task_group() as group:

            async def one(number: int) -> None:
                nonlocal failed
                try:
                    result = await client.call_tool("small", {"number": number}, raise_on_error=False)
                    failed += result.is_error or f"number {number}: ok" not in str(result.content)
                except Exception as problem:  # noqa: BLE001  any exception is a failed call
                    failed += 1
                    print(f"    call {number}: {problem!r}")
                finally:
                    free.release()

            for number in range(count):
                await free.acquire()
                group.start_soon(one, number)
        return failed

    async with Client(address, mode=ERAS[era]) as client:
        await client.call_tool(
            "long", {}
        )  # what is loaded once, when a result has to be condensed, is there before we look
    await calls(4 * at_once)
    await _settled(lambda: _quiet(pid))
    before = _state(pid)
    began = time.perf_counter()
    failed = await calls(count)
    seconds = time.perf_counter() - began
    await _settled(lambda: _back(pid, before))
    after = _state(pid)
    good = not failed and _is_back(before, after)
    print(
        f"  {era}: {count:,} calls, {at_once} in flight: {failed} failed, {count / seconds:,.0f} a second · memory "
        f"{before[0]:.0f} → {after[0]:.0f} MB · processes {before[1]} → {after[1]} · open files {before[2]} → "
        f"{after[2]}"
        f"{'' if good else ': NOT met'}"
    )
    return good


State = tuple[float, int, int]
"""Memory in megabytes, processes, open files and sockets of the gateway and its children."""


def _state(pid: int) -> State:
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return sum(one.memory_info().rss for one in family) / 1e6, len(family), sum(one.num_fds() for one in family)


def _is_back(before: State, after: State) -> bool:
    return after[0] <= before[0] + ROOM_MB and after[1] == before[1] and after[2] <= before[2]


async def _back(pid: int, before: State) -> bool:
    return _is_back(before, _state(pid))


async def _quiet(pid: int) -> bool:
    was = _state(pid)[2]
    await anyio.sleep(0.5)
    return _state(pid)[2] == was


async def _settled(condition: Callable[[], Awaitable[bool]]) -> None:
    with anyio.move_on_after(10):
        while not await condition():  # noqa: ASYNC110  processes do not signal that they are idle
            await anyio.sleep(0.1)


def main(*, smoke: bool = False) -> int:
    warm, rounds, count, at_once = (1, 3, 20, 5) if smoke else (WARM, ROUNDS, CALLS, AT_ONCE)
    met = True
    with ExitStack() as running:
        upstream = running.enter_context(listening(UPSTREAM))
        ours = running.enter_context(listening([*GATEWAY, "--upstream", upstream.address]))
        theirs = running.enter_context(listening([*PROXY, upstream.address]))
        print("\nA small call: direct, through the gateway, through FastMCP's create_proxy")
        for era in ERAS:
            ways = {DIRECT: upstream.address, OURS: ours.address, THEIRS: theirs.address}
            took = anyio.run(latency, ways, era, warm, rounds)
            met &= report_latency(took, era) or smoke
        print(f"\n{CLIENTS} clients at once, {STEPS} progress messages each")
        for era in ERAS:
            met &= anyio.run(progress, ours.address, era)
    with listening([*GATEWAY, "--", *UPSTREAM, "--stdio"]) as gateway:
        print("\nConcurrent load, with a server over stdio behind the gateway")
        for era in ERAS:
            met &= anyio.run(load, gateway.address, gateway.pid, era, count, at_once)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(smoke=parser(__doc__).parse_args().smoke))
