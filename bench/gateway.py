"""Compare the gateway with a direct connection and with FastMCP's proxy: latency, throughput, start, tokens, memory.

    python -m bench.gateway [--smoke]

Everything is measured direct, through the gateway and through `create_proxy` in turns, so that other load on the
machine affects all three; both protocol eras. Targets:

    a small call           p50 at most 1.6 × direct; on 2026-07-28 at least 4 × faster than `create_proxy`
    20 callers at once     at least 0.35 × the calls per second of a direct connection
    start                  answer to `initialize` at most 1.8 × the import of `mcp.server`
    tokens                 at most 150, and 12 for each tool, more than the server's own list
    memory                 at most 90 MB before and 165 MB after the first condensed result; level over 10,000 calls

Then four concurrent clients, each of which must get its own progress messages; then 1,000 calls with 50 in flight,
after which memory and processes must be back at their initial level.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import anyio
import psutil
from fastmcp import Client

from bench.arguments import parser
from bench.bars import Bars
from conformance.processes import PROXY, ROOT, TERSELY, Listening, listening, own_environment
from tersely.text.tokens import O200K

UPSTREAM = [sys.executable, "-m", "bench.gateway_upstream"]
GATEWAY = [*TERSELY, "gateway", "--http", "--port", "0"]
ERAS = {"2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
WARM, ROUNDS = 20, 100
DIRECT, OURS, THEIRS = "direct", "tersely gateway", "create_proxy"
CLIENTS, STEPS = 4, 25
CALLS, AT_ONCE = 1000, 50
CALLERS, CALLS_OF_ALL, THROUGHPUT_ROUNDS = 20, 200, 3
MANY_CALLS, STARTS = 10_000, 5
MOST_RATIO, LEAST_THROUGHPUT, MOST_START = 1.6, 0.35, 1.8
OWN_TOKENS, TOKENS_PER_TOOL = 150, 12
MOST_MB, MOST_MB_CONDENSING = 90, 165
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


def report_latency(took: dict[str, list[float]], era: str, bars: Bars) -> bool:
    p50 = {way: statistics.median(seconds) * 1000 for way, seconds in took.items()}
    p95 = {way: statistics.quantiles(seconds, n=20)[-1] * 1000 for way, seconds in took.items()}
    print(f"  {era}")
    for way in took:
        ratio = (
            "" if way == DIRECT else f" · {p50[way] / p50[DIRECT]:5.2f} × direct (p95 {p95[way] / p95[DIRECT]:5.2f} ×)"
        )
        print(f"    {way:<16} p50 {p50[way]:6.1f} ms · p95 {p95[way]:6.1f} ms{ratio}")
        bars.add("A small call, p50", era, way, p50[way], unit="ms", most=MOST_RATIO * p50[DIRECT])
    near = p50[OURS] <= MOST_RATIO * p50[DIRECT]
    print(f"    at most {MOST_RATIO} × direct: {'met' if near else 'NOT met'}")
    faster = p50[THEIRS] / p50[OURS]
    if era != "2026-07-28":
        print(f"    {faster:.1f} × faster than create_proxy")
        return near
    print(f"    at least 4 × faster than create_proxy: {faster:.1f} ×, {'met' if faster >= 4 else 'NOT met'}")
    return near and faster >= 4


async def throughput(addresses: dict[str, str], era: str, callers: int, calls: int, rounds: int, bars: Bars) -> bool:
    """Calls per second of clients that call at once, one way after the other, round by round."""
    rates: dict[str, list[float]] = {way: [] for way in addresses}

    async def rate(address: str) -> float:
        async with Client(address, mode=ERAS[era]) as client:
            await client.call_tool("small", {"number": 0})

            async def call(caller: int) -> None:
                for number in range(caller, calls, callers):
                    await client.call_tool("small", {"number": number})

            began = time.perf_counter()
            async with anyio.create_task_group() as group:
                for caller in range(callers):
                    group.start_soon(call, caller)
            return calls / (time.perf_counter() - began)

    for _ in range(rounds):
        for way, address in addresses.items():
            rates[way].append(await rate(address))
    median = {way: statistics.median(found) for way, found in rates.items()}
    share = median[OURS] / median[DIRECT]
    for way, found in median.items():
        bars.add(
            f"{callers} callers at once",
            era,
            way,
            found,
            unit="calls a second",
            least=LEAST_THROUGHPUT * median[DIRECT],
        )
    good = share >= LEAST_THROUGHPUT
    shown = " · ".join(f"{way} {rate:,.0f} a second" for way, rate in median.items())
    print(
        f"  {era}: {shown} · {share:.2f} × direct (create_proxy {median[THEIRS] / median[DIRECT]:.2f}), at least "
        f"{LEAST_THROUGHPUT}: {'met' if good else 'NOT met'}"
    )
    return good


def start(rounds: int, bars: Bars) -> bool:
    """Seconds from the start of a process on standard input and output to its answer to `initialize`."""
    upstream = [*UPSTREAM, "--stdio"]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
    proxy = (
        "import sys; from fastmcp.server import create_proxy; from fastmcp.client.transports import StdioTransport; "
        "create_proxy(StdioTransport(sys.argv[1], sys.argv[2:])).run('stdio', show_banner=False)"
    )
    commands = {
        DIRECT: upstream,
        OURS: [*TERSELY, "gateway", "--", *upstream],
        THEIRS: [sys.executable, "-c", proxy, *upstream],
    }
    took: dict[str, list[float]] = {way: [] for way in ("import", *commands)}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for _ in range(rounds):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import mcp.server"], check=True)
            took["import"].append(time.perf_counter() - began)
            for way, command in commands.items():
                began = time.perf_counter()
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    cwd=ROOT,
                    env=own_environment(folder),
                )
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(request)
                process.stdin.flush()
                answer = process.stdout.readline()
                took[way].append(time.perf_counter() - began)
                assert b'"result"' in answer, f"{way} answered {answer!r}"
                process.stdin.close()
                process.wait()
    median = {way: statistics.median(seconds) for way, seconds in took.items()}
    ratio = median[OURS] / median["import"]
    for way, seconds in median.items():
        name = "import mcp.server" if way == "import" else way
        print(f"    {name:<18} {seconds:5.2f} s · {seconds / median['import']:.2f} ×")
        bars.add("From start to first answer", "stdio", name, seconds, unit="s", most=MOST_START * median["import"])
    print(f"    at most {MOST_START} × the import: {'met' if ratio <= MOST_START else 'NOT met'}")
    return ratio <= MOST_START


async def tokens(addresses: dict[str, str], bars: Bars) -> bool:
    """Tokens of the list of tools, as a client sends it to a model with every turn."""
    costs: dict[str, int] = {}
    tools = 0
    for way, address in addresses.items():
        async with Client(address) as client:
            listed = await client.list_tools()
        tools = len(listed) if way == DIRECT else tools
        functions = [
            {"name": one.name, "description": one.description or "", "parameters": one.input_schema} for one in listed
        ]
        costs[way] = sum(O200K.count(json.dumps({"type": "function", "function": one})) for one in functions)
    added = {way: cost - costs[DIRECT] for way, cost in costs.items()}
    most = OWN_TOKENS + TOKENS_PER_TOOL * tools
    for way in (OURS, THEIRS):
        bars.add("Tokens added to the list of tools", f"{tools} tools", way, added[way], most=most)
    good = added[OURS] <= most
    print(
        f"  {tools} tools, {costs[DIRECT]} tokens: {OURS} +{added[OURS]}, {THEIRS} +{added[THEIRS]} · at most +{most}: "
        f"{'met' if good else 'NOT met'}"
    )
    return good


async def memory(ours: Listening, theirs: Listening, calls: int, at_once: int, bars: Bars) -> bool:
    """Memory before and after the first condensed result, and after many calls."""

    def megabytes(process: Listening) -> float:
        # Without children: those of the gateway are workers for the processor, which end when idle.
        return float(psutil.Process(process.pid).memory_info().rss / 1e6)

    async def call(process: Listening, count: int) -> None:
        async with Client(process.address, mode=ERAS["2026-07-28"]) as client:

            async def some(number: int) -> None:
                for _ in range(number):
                    await client.call_tool("small", {"number": number})

            async with anyio.create_task_group() as group:
                for _ in range(at_once):
                    group.start_soon(some, count // at_once)

    async def condense(process: Listening) -> None:
        async with Client(process.address, mode=ERAS["2026-07-28"]) as client:
            await client.call_tool("long", {})

    met = True
    for way, process in ((OURS, ours), (THEIRS, theirs)):
        await call(process, 10 * at_once)
        before = megabytes(process)
        await condense(process)
        condensing = megabytes(process)
        await call(process, calls)
        after = megabytes(process)
        for when, found, most in (
            ("before a long result", before, MOST_MB),
            ("after it", condensing, MOST_MB_CONDENSING),
            (f"after {calls:,} more calls", after, MOST_MB_CONDENSING + ROOM_MB),
        ):
            bars.add("Memory of the process", when, way, found, unit="MB", most=most)
        level = after <= condensing + ROOM_MB
        good = before <= MOST_MB and condensing <= MOST_MB_CONDENSING and level
        target = f" · at most {MOST_MB} and {MOST_MB_CONDENSING}, level: {'met' if good else 'NOT met'}"
        print(
            f"    {way:<16} {before:.0f} MB, {condensing:.0f} after a long result, {after:.0f} after {calls:,} more"
            f"{target if way == OURS else ''}"
        )
        met &= good or way == THEIRS
    return met


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


def main(*, smoke: bool = False, to: Path | None = None) -> int:
    bars = Bars()
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
            met &= report_latency(took, era, bars) or smoke
        print(f"\n{CALLERS} callers at once")
        callers, calls, turns = (4, 8, 1) if smoke else (CALLERS, CALLS_OF_ALL, THROUGHPUT_ROUNDS)
        for era in ERAS:
            ways = {DIRECT: upstream.address, OURS: ours.address, THEIRS: theirs.address}
            met &= anyio.run(throughput, ways, era, callers, calls, turns, bars) or smoke
        print("\nWhat the list of tools costs a model")
        met &= anyio.run(tokens, ways, bars)
        print(f"\n{CLIENTS} clients at once, {STEPS} progress messages each")
        for era in ERAS:
            met &= anyio.run(progress, ours.address, era)
    print("\nFrom the start of a process to its first answer, over stdio")
    met &= start(1 if smoke else STARTS, bars) or smoke
    with ExitStack() as running:
        upstream = running.enter_context(listening(UPSTREAM))
        ours = running.enter_context(listening([*GATEWAY, "--upstream", upstream.address]))
        theirs = running.enter_context(listening([*PROXY, upstream.address]))
        print("\nMemory")
        met &= anyio.run(memory, ours, theirs, 20 if smoke else MANY_CALLS, 5 if smoke else 20, bars) or smoke
    with listening([*GATEWAY, "--", *UPSTREAM, "--stdio"]) as gateway:
        print("\nConcurrent load, with a server over stdio behind the gateway")
        for era in ERAS:
            met &= anyio.run(load, gateway.address, gateway.pid, era, count, at_once)
    bars.write(to)
    return 0 if met else 1


if __name__ == "__main__":
    given = parser(__doc__, figures=True).parse_args()
    sys.exit(main(smoke=given.smoke, to=given.json))
