"""`tersely demo`: start a real `tersely serve`, call it with a real MCP client, show before and after."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from tersely.demo.sample import Sample, draw

BUDGET = 600


def show(*, seed: int | None, tokens: int) -> int:
    """Run the demonstration; the exit code is 0 when the cause survived the condensing."""
    console = Console(highlight=False)
    seed = random.randrange(1_000_000) if seed is None else seed
    sample = draw(seed, tokens)
    console.print(
        f"\n[bold]A shop's log[/], drawn with seed {seed}: {sample.text.count(chr(10)):,} lines. Somewhere in it is the answer to:"
    )
    console.print(f"  [italic]{sample.question}?[/]\n")
    console.print(Panel(Text(_glimpse(sample.text)), title="before", title_align="left", border_style="dim"))
    with _server() as address:
        console.print(f"[dim]tersely serve is up at {address}; calling its tool `summarize` over MCP …[/]\n")
        began = time.perf_counter()
        text, account = anyio.run(_call, address, sample)
        seconds = time.perf_counter() - began
    console.print(Panel(Text(text), title="after", title_align="left", border_style="green"))
    sizes = f"{account['input_tokens']:,} → {account['output_tokens']:,} tokens"
    console.print(f"[bold]{sizes}[/] · {account['status']} · {seconds:.1f} s · no model, no key")
    found = [said for said in sample.cause.lines if _essence(said) in text]
    if found:
        console.print(f"The cause was: [bold]{sample.cause.name}[/]. It is in the result.\n")
        return 0
    console.print(f"The cause was: [bold]{sample.cause.name}[/]. It is NOT in the result; please report seed {seed}.\n")
    return 1


def _essence(said: str) -> str:
    """The message without level and service, which a condenser may say once for many lines."""
    return said.split(None, 2)[2]


def _glimpse(text: str) -> str:
    lines = text.splitlines()
    middle = len(lines) // 2
    return "\n".join([*lines[:3], f"… {middle - 3:,} lines …", *lines[middle : middle + 2], f"… {len(lines) - middle - 2:,} lines …"])


async def _call(address: str, sample: Sample) -> tuple[str, dict[str, int | str]]:
    from fastmcp import Client
    from mcp_types import TextContent

    async with Client(address) as client:
        arguments = {"content": sample.text, "max_output_tokens": BUDGET, "focus_areas": sample.question}
        result = await client.call_tool_mcp("summarize", arguments)
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text, dict(result.meta or {})


@contextmanager
def _server() -> Iterator[str]:
    """A `tersely serve` of its own process on a free port, for as long as the block lasts."""
    # The demonstration is the same for everybody: keys are not spent on it, and settings of one's own do not disturb it.
    ours = ("OPENROUTER_", "LLM_", "ANTHROPIC_", "GOOGLE_", "TERSELY_", "DEFAULT_", "MCP_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    command = [sys.executable, "-m", "tersely", "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            said = json.loads(line)
            if said["event"] == "listening":
                break
        else:
            raise RuntimeError(f"tersely serve ended with exit code {process.wait()}")
        # Read on, or the server would wait for us once the pipe is full.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield said["address"]
    finally:
        process.terminate()
        process.wait(timeout=10)
