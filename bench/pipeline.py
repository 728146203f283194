"""The result pipeline (clean, mask, keep, condense) on a text in memory: time, and memory as a multiple of the text.

    python -m bench.pipeline                    10 kB, 1 MB and 100 MB, each in a process of its own
    python -m bench.pipeline --size 1000000     one size, in this process, as JSON
    python -m bench.pipeline --smoke            10 kB and 100 kB

Targets at 100 MB: 60 s, and 8 × the text above what the process has before it starts.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from bench.arguments import parser
from bench.bars import Bars

if TYPE_CHECKING:
    from tersely.agent.tool_executor import Observation
    from tersely.store.database import Database

SIZES = (10_000, 1_000_000, 100_000_000)
SMOKE_SIZES = (10_000, 100_000)
QUESTION = "why does checkout fail"
ANSWER = "pool orders-primary exhausted"


def text_of(size: int) -> str:
    """A log with a secret in every thousandth line and one line that answers the question."""
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
    lines[len(lines) // 2] = f"2026-11-15T10:30:00Z ERROR api checkout failed: {ANSWER} (20 of 20)"
    return "\n".join(lines)


async def process(text: str, database: "Database") -> "Observation":
    """Send one text through the pipeline. The only function here that knows its interface."""
    from tersely.agent.tool_executor import ToolExecutor
    from tersely.llm.messages import ToolCall
    from tersely.mcp.raw import ContentPart, RawResult, Tool
    from tersely.mcp.servers import Server, ServerOptions
    from tersely.pipeline.process import Intent, Pipeline, Scope
    from tersely.results.kept import KeptResults

    class OneResult:
        def resolve(self, name: str) -> Tool:
            return Tool(server="bench", name="log", input_schema={}, fingerprint="", raw={})

        def server(self, name: str) -> Server:
            return Server(name="bench", options=ServerOptions.model_validate({"transport": {"command": "true"}}))

        async def call(self, tool: Tool, arguments: object, **options: object) -> RawResult:
            return RawResult(parts=(ContentPart(kind="text", text=text),))

    kept = KeptResults(database, max_bytes=2**33)
    executor = ToolExecutor(registry=OneResult(), results=kept, pipeline=Pipeline(results=kept))
    call, scope = ToolCall("c1", "bench__log"), Scope("user:bench")
    fetched = await executor.fetch(call, scope)
    return await executor.observe(call, fetched, scope=scope, window=10**9, intent=Intent(looking_for=QUESTION))


async def measure(size: int) -> dict[str, float]:
    from tersely.store.database import Database

    with tempfile.TemporaryDirectory() as folder:
        async with Database.open(f"sqlite:///{folder}/bench.db") as database:
            await process(text_of(10_000), database)  # Loads what is loaded once.
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            text = text_of(size)
            began = time.perf_counter()
            observation = await process(text, database)
            seconds = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "size": len(text),
        "seconds": seconds,
        "times": max(0, peak - before) * 1024 / len(text),
        "tokens": observation.tokens_before,
        "left": observation.tokens_after,
        "found": ANSWER in observation.text,
    }


def main(sizes: tuple[int, ...], to: Path | None = None) -> int:
    bars = Bars()
    print("\nThe pipeline (clean, mask, keep, condense) on a text in memory")
    found_all = fast = True
    for size in sizes:
        run = subprocess.run(
            [sys.executable, "-m", "bench.pipeline", "--size", str(size)], stdout=subprocess.PIPE, text=True, check=True
        )
        row = json.loads(run.stdout)
        found_all &= row["found"]
        fast &= size < SIZES[-1] or (row["seconds"] <= 60 and row["times"] <= 8)
        speed = row["size"] / 1e6 / row["seconds"]
        group, last = (
            f"{row['size'] / 1e6:,.0f} MB" if size >= 1e6 else f"{row['size'] / 1e3:,.0f} kB",
            size == SIZES[-1],
        )
        bars.add("Time", group, "tersely", row["seconds"], unit="s", most=60 if last else None)
        bars.add("Additional memory", group, "tersely", row["times"], unit="times the text", most=8 if last else None)
        print(
            f"  {row['size'] / 1e6:>7.2f} MB · {row['tokens']:>11,} → {row['left']:>5,} tokens · "
            f"{row['seconds']:6.2f} s ({speed:5.1f} MB/s) · "
            f"memory +{row['times']:.1f} × the text · the answer is {'there' if row['found'] else 'LOST'}"
        )
    bars.write(to)
    if SIZES[-1] in sizes:
        print(f"  at 100 MB within 60 s and 8 × the text: {'met' if fast else 'NOT met'}")
    return 0 if found_all and fast else 1


if __name__ == "__main__":
    options = parser(__doc__, figures=True)
    options.add_argument("--size", type=int, help="measure one size in this process and print JSON")
    given = options.parse_args()
    if given.size:
        print(json.dumps(anyio.run(measure, given.size)))
    else:
        sys.exit(main(SMOKE_SIZES if given.smoke else SIZES, given.json))
