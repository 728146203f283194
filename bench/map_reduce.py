"""Map-reduce with a model server of fixed latency: distance from the ideal schedule, and cost in tokens.

    python -m bench.map_reduce [--smoke]

The ideal is max(calls ÷ limit, longest chain) × latency. A tree ends in a last merge that nobody can run beside
anything, so no schedule gets below (calls + limit - 1) ÷ limit: that bound is printed too.
"""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import anyio

from bench.arguments import parser
from bench.bars import Bars
from tersely.condensing.summarize.map_reduce import SummaryRequest, summarize_text
from tersely.llm.limits import RetryPolicy, build_llm
from tersely.llm.messages import Message
from tersely.llm.providers import ModelSpec
from tersely.masking.masked import assume_masked
from tersely.text.tokens import O200K

TOKENS = 250_000
LATENCY = 2.0
LIMIT = 5
SIZES = (8000, 4000)

SERVER = """
import asyncio, json, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

latency, state = float(sys.argv[1]), {"now": 0, "most": 0, "calls": 0}

async def complete(request):
    body = await request.json()
    state["calls"] += 1
    state["now"] += 1
    state["most"] = max(state["most"], state["now"])
    await asyncio.sleep(latency)
    state["now"] -= 1
    text = "A statement with some words in it. " * max(1, int(body["max_tokens"] / 1.3 / 8))
    return JSONResponse({"id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})

async def counts(request):
    found = dict(state)
    state.update(most=0, calls=0)
    return JSONResponse(found)

app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"]), Route("/state", counts)])
config = uvicorn.Config(app, port=0, log_level="error")
server = uvicorn.Server(config)

async def main():
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    print(server.servers[0].sockets[0].getsockname()[1], flush=True)
    await task

asyncio.run(main())
"""


def corpus(tokens: int) -> str:
    draw = random.Random(1)
    words = ["".join(draw.choice("abcdefghiklmnoprstu") for _ in range(draw.randint(3, 9))) for _ in range(2000)]
    paragraphs = []
    size = 0
    while size < tokens:
        paragraphs.append(" ".join(draw.choice(words) for _ in range(60)) + ".")
        size += O200K.count(paragraphs[-1]) + 1
    return "\n\n".join(paragraphs)


async def measure(text: str, port: int, chunk_size: int, latency: float, bars: Bars) -> bool:
    import httpx2

    llm = build_llm(
        [ModelSpec(model="openai/gpt-4o-mini", base_url=f"http://127.0.0.1:{port}/v1", api_key="none")],
        retry_policy=RetryPolicy(concurrency=LIMIT),
    )
    async with httpx2.AsyncClient() as client:
        await llm.complete([Message("user", assume_masked("warm up"))], max_tokens=16)
        await client.get(f"http://127.0.0.1:{port}/state")
        began = time.perf_counter()
        read = _counted(llm)
        condensed = await summarize_text(
            assume_masked(text), request=SummaryRequest(target=5000, chunk_size=chunk_size), llm=llm
        )
        wall = time.perf_counter() - began
        state = (await client.get(f"http://127.0.0.1:{port}/state")).json()
    await llm.aclose()
    assert condensed.work is not None
    calls = state["calls"]
    ideal = max(calls / LIMIT, condensed.work.levels + 1) * latency
    bound = max((calls + LIMIT - 1) / LIMIT, condensed.work.levels + 1) * latency
    share = read[0] / condensed.tokens_before
    group = f"parts of {chunk_size:,}"
    bars.add("Time, of the ideal schedule", group, "tersely", wall / ideal, unit="times", most=1.1)
    bars.add("Input, of the content", group, "tersely", share, unit="times", most=1.15)
    print(
        f"  parts of {chunk_size:>5}: {calls:>3} calls, {condensed.work.levels} row of merges · {wall:5.2f} s = "
        f"{wall / ideal:.2f} × ideal "
        f"({wall / bound:.2f} × the bound) · model input {share:.2f} × content · at most {state['most']} at once "
        f"(limit {LIMIT})"
    )
    return wall <= 1.10 * ideal and share <= 1.15 and state["most"] == LIMIT


def _counted(llm: object) -> list[int]:
    """Input tokens of the model, counted when they are sent."""
    read = [0]
    ask = llm.complete  # type: ignore[attr-defined]

    async def counting(messages, **options):  # type: ignore[no-untyped-def]
        read[0] += sum(O200K.count(message.text) for message in messages)
        return await ask(messages, **options)

    llm.complete = counting  # type: ignore[attr-defined]
    return read


def main(*, smoke: bool = False, to: Path | None = None) -> int:
    bars = Bars()
    tokens, latency, sizes = (20_000, 0.01, (2000,)) if smoke else (TOKENS, LATENCY, SIZES)
    text = corpus(tokens)
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(latency)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        port = json.loads(server.stdout.readline())
        print(
            f"\nMap-reduce over {O200K.count(text):,} tokens, every answer takes {latency:g} s, summary of at most "
            "5,000 tokens"
        )
        met = [anyio.run(measure, text, port, size, latency, bars) for size in sizes]
    finally:
        server.terminate()
        server.wait()
    bars.write(to)
    for size, is_met in zip(sizes, met, strict=True):
        print(
            f"  parts of {size}: wall ≤ 1.10 × ideal, input ≤ 1.15 × content, peak = limit: "
            f"{'met' if is_met else 'NOT met'}"
        )
    return 0


if __name__ == "__main__":
    given = parser(__doc__, figures=True).parse_args()
    sys.exit(main(smoke=given.smoke, to=given.json))
