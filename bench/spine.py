"""The spine on a text in hand: clean, mask, keep, condense. Time, and memory as a multiple of the text.

    python -m bench.spine            10 kB, 1 MB and 100 MB, each in a process of its own
    python -m bench.spine 1000000    one size, in this process

The marks to beat at 100 MB: 60 s, and 8 × the text above what the process has before it starts.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import anyio

SIZES = (10_000, 1_000_000, 100_000_000)


def text_of(size: int) -> str:
    """A log with a secret now and then and one line that matters."""
    lines = []
    length = number = 0
    while length < size:
        at = f"2026-11-15T10:{number // 6000 % 60:02d}:{number // 100 % 60:02d}Z"
        line = f"{at} INFO api GET /cart/{number} 200 in {number % 97} ms user={number % 5000}"
        if number % 1000 == 999:
            line = f"2026-11-15T10:00:00Z WARN auth retry with password=S3cr3t{number:06d}xQ for user={number % 5000}"
        lines.append(line)
        length += len(line) + 1
        number += 1
    lines[len(lines) // 2] = "2026-11-15T10:30:00Z ERROR api checkout failed: pool orders-primary exhausted (20 of 20)"
    return "\n".join(lines)


async def measure(size: int) -> dict[str, float]:
    from tersely.agent.tool_executor import ToolExecutor
    from tersely.llm.messages import ToolCall
    from tersely.mcp.raw import ContentPart, RawResult, Tool
    from tersely.mcp.servers import Server, ServerOptions
    from tersely.pipeline.process import Intent, Scope
    from tersely.results.kept import KeptResults
    from tersely.store.database import Database

    class InHand:
        def __init__(self, text: str) -> None:
            self.text = text

        def resolve(self, name: str) -> Tool:
            return Tool(server="bench", name="log", input_schema={}, fingerprint="", raw={})

        def server(self, name: str) -> Server:
            return Server(name="bench", options=ServerOptions.model_validate({"transport": {"command": "true"}}))

        async def call(
            self, tool: Tool, arguments: Mapping[str, Any], *, on_progress: Callable[..., Any] | None = None
        ) -> RawResult:
            return RawResult(parts=(ContentPart(kind="text", text=self.text),))

    with tempfile.TemporaryDirectory() as folder:
        async with Database.open(f"sqlite:///{folder}/bench.db") as database:
            small = ToolExecutor(registry=InHand(text_of(10_000)), results=KeptResults(database))
            await small.execute(ToolCall("warm", "bench__log"), scope=Scope("user:bench"))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            text = text_of(size)
            began = time.perf_counter()
            executor = ToolExecutor(registry=InHand(text), results=KeptResults(database, max_bytes=2**33))
            observation = await executor.execute(
                ToolCall("c1", "bench__log"),
                scope=Scope("user:bench"),
                intent=Intent(looking_for="why does checkout fail"),
            )
            seconds = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = size < 20_000 or "pool orders-primary exhausted" in observation.text
    return {
        "size": len(text),
        "seconds": seconds,
        "times": max(0, peak - before) * 1024 / len(text),
        "tokens": observation.tokens_before,
        "left": observation.tokens_after,
        "found": found,
    }


def main() -> int:
    if len(sys.argv) > 1:
        print(json.dumps(anyio.run(measure, int(sys.argv[1]))))
        return 0
    print("\nThe spine (clean, mask, keep, condense) on a text in hand")
    met = True
    for size in SIZES:
        run = subprocess.run(
            [sys.executable, "-m", "bench.spine", str(size)], capture_output=True, text=True, check=True
        )
        row = json.loads(run.stdout)
        met &= row["found"] and (size < SIZES[-1] or (row["seconds"] <= 60 and row["times"] <= 8))
        speed = row["size"] / 1e6 / row["seconds"]
        print(
            f"  {row['size'] / 1e6:>7.2f} MB · {row['tokens']:>11,} → {row['left']:>5,} tokens · "
            f"{row['seconds']:6.2f} s ({speed:5.1f} MB/s) · "
            f"memory +{row['times']:.1f} × the text · the line that matters {'is there' if row['found'] else 'is LOST'}"
        )
    print(f"  at 100 MB within 60 s and 8 × the text: {'met' if met else 'NOT met'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
