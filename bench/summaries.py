"""What a summary costs: calls, input, cached share, time and price, for conversations and results of several sizes.

    python -m bench.summaries [--smoke]

A scripted provider enforces the window and the output cap, caches prompts and counts every token. Each case is run in
three ways: ours, through the pipeline as an agent does; the seeds' way, one call with the whole conversation, which the
provider rejects when it does not fit; and the way of version 0.1, parts of 8,000 tokens that each carry the
conversation. Of the agent's next turn, the share of the prompt that came from the provider's cache is shown.

Input is compared with content + conversation, of which the model gets at most a quarter of its window. The ideal
schedule is max(calls ÷ limit, longest chain) × latency.
"""

import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import anyio
import httpx2

from bench.arguments import parser
from bench.bars import Bars
from bench.map_reduce import corpus
from tersely.condensing.summarize.map_reduce import SummaryRequest, summarize_text
from tersely.condensing.summarize.source import folded_source
from tersely.errors import LLMError
from tersely.llm import facts
from tersely.llm.limits import LimitedLLM, RetryPolicy, build_llm
from tersely.llm.messages import Message, ToolSpec
from tersely.llm.providers import ModelSpec
from tersely.masking.mask import Masker
from tersely.masking.masked import assume_masked
from tersely.pipeline.policy import Policy
from tersely.pipeline.process import Intent, Pipeline, Scope
from tersely.text.tokens import O200K

MODEL = "openai/gpt-4o-mini"
LATENCY = 3.0
LIMIT = 32
TARGET = 1_000
CONVERSATIONS = {"short": 0.02, "medium": 0.1, "long": 0.25}
"""Shares of the window."""

SIZES = (0.2, 0.8, 2.0, 10.0)
"""Results, in windows."""

WINDOWS = {8_192: ("medium",), 32_768: ("short", "medium", "long"), 131_072: ("medium",)}
FITS, SPLITS = 1.10, 1.15
"""Largest input: of content + conversation in one call, and of the content beside one conversation otherwise."""

TOOLS = [ToolSpec("ops__logs", "Read the logs of a service.", {"type": "object", "properties": {}})]


@dataclass
class Cost:
    calls: int
    tokens: int
    cached: int
    price: Decimal | None
    seconds: float
    levels: int = 0
    rejected: bool = False
    next_turn: float = 0.0
    """Cached share of the agent's next turn."""

    def ratio(self, whole: int) -> str:
        return "rejected" if self.rejected else f"{self.tokens / whole:.2f}"

    def ideal(self, latency: float) -> float:
        return max(self.calls / LIMIT, self.levels + 1) * latency


@dataclass
class Provider:
    port: int
    latency: float
    window: int = 0

    async def use(self, window: int) -> None:
        self.window = window
        async with httpx2.AsyncClient() as client:
            limits = {"window": window, "output_cap": min(16_384, window // 2)}
            await client.post(f"http://127.0.0.1:{self.port}/limits", json=limits)

    async def usage(self) -> dict[str, Any]:
        async with httpx2.AsyncClient() as client:
            return dict((await client.get(f"http://127.0.0.1:{self.port}/usage")).json())

    def model(self) -> LimitedLLM:
        spec = ModelSpec(
            model=MODEL,
            base_url=f"http://127.0.0.1:{self.port}/v1",
            api_key="none",
            window=self.window,
            output_cap=min(16_384, self.window // 2),
        )
        return build_llm([spec], retry_policy=RetryPolicy(concurrency=LIMIT, delays=()))

    async def measured(self, work: Callable[[], Awaitable[int]]) -> Cost:
        """Run the work, which returns the levels of merging."""
        await self.usage()
        began = time.perf_counter()
        try:
            levels = await work()
        except LLMError:
            return Cost(0, 0, 0, None, 0.0, rejected=True)
        seconds = time.perf_counter() - began
        used = (await self.usage())["usage"]
        tokens = sum(one["prompt_tokens"] for one in used)
        cached = sum(one["prompt_tokens_details"]["cached_tokens"] for one in used)
        wrote = sum(one["completion_tokens"] for one in used)
        price = facts.price("openrouter", MODEL, tokens, wrote, cached=cached)
        return Cost(len(used), tokens, cached, price, seconds, levels)


def conversation_of(tokens: int) -> list[Message]:
    """A question and results of about 300 tokens each."""
    said = [Message("user", assume_masked("Find out why checkout is slow."))]
    text = corpus(tokens)
    paragraphs = text.split("\n\n")
    each = max(1, 300 // max(1, O200K.count(paragraphs[0])))
    for start in range(0, len(paragraphs), each):
        said.append(Message("assistant", assume_masked(f"I look at part {start}.")))
        said.append(Message("user", assume_masked("Observation: " + "\n".join(paragraphs[start : start + each]))))
    return said


async def ours(provider: Provider, text: str, said: list[Message]) -> Cost:
    llm = provider.model()
    system = Message("system", assume_masked("You investigate."))
    intent = Intent(looking_for="slow requests", question="Why is checkout slow?", conversation=said, called="ops.logs")
    policy = Policy(masker=Masker(key=b"k" * 32), keep="never")
    pipeline = Pipeline()
    summary = ""

    async def summarize() -> int:
        nonlocal summary
        condensed = await pipeline.condense(
            assume_masked(text), policy, intent, handle=None, budget=TARGET, llm=llm, scope=Scope("bench")
        )
        assert condensed.status == "summarized", (condensed.status, condensed.reason)
        assert condensed.work is not None
        summary = condensed.text
        return condensed.work.levels

    try:
        await llm.complete([system, *said], max_tokens=64, tools=TOOLS)
        cost = await provider.measured(summarize)
        await llm.complete(
            [system, *said, Message("user", assume_masked(f"Observation: {summary}"))], max_tokens=64, tools=TOOLS
        )
        (turn,) = (await provider.usage())["usage"]
    finally:
        await llm.aclose()
    cost.next_turn = turn["prompt_tokens_details"]["cached_tokens"] / turn["prompt_tokens"]
    return cost


async def seeds_way(provider: Provider, text: str, said: list[Message]) -> Cost:
    llm = provider.model()
    context = "\n".join(f"{message.role}: {message.text}" for message in said)
    prompt = [
        Message("system", assume_masked("Summarize the output of the tool for the investigation.")),
        Message("user", assume_masked(f"{context}\n\n{text}")),
    ]

    async def ask() -> int:
        await llm.complete(prompt, max_tokens=TARGET)
        return 0

    try:
        return await provider.measured(ask)
    finally:
        await llm.aclose()


async def first_way(provider: Provider, text: str, said: list[Message]) -> Cost:
    """Every prompt has the conversation, which the brief of a request is for here."""
    llm = provider.model()
    left, lines = provider.window // 4, []
    for message in reversed(said):
        line = f"{message.role}: {message.text}"
        left -= O200K.count(line) + 1
        if left < 0:
            break
        lines.append(line)
    request = SummaryRequest(target=TARGET, brief="\n".join(reversed(lines)), chunk_size=8_000, family="technical")

    async def summarize() -> int:
        condensed = await summarize_text(assume_masked(text), request=request, llm=llm)
        assert condensed.work is not None
        return condensed.work.levels

    try:
        return await provider.measured(summarize)
    finally:
        await llm.aclose()


async def compare(provider: Provider, window: int, name: str, size: float, bars: Bars) -> bool:
    """Print one row and return whether the input is within its target."""
    await provider.use(window)
    said = conversation_of(int(window * CONVERSATIONS[name]))
    text = corpus(int(window * size))
    content = O200K.count(text)
    talk = min(O200K.count("\n".join(message.text for message in said)), window // 4)
    mine, seeds, first = [await way(provider, text, said) for way in (ours, seeds_way, first_way)]
    # The conversation gives way to the content of a single call.
    whole = content + min(talk, max(0, window - content)) if mine.calls == 1 else content + talk
    limit = FITS * whole if mine.calls == 1 else SPLITS * content + talk
    is_met = mine.tokens <= limit
    case = f"{window // 1024}k, {name}, {size:g} windows"
    for way, cost, of in (("tersely", mine, whole), ("version 0.1", first, content + talk)):
        if not cost.rejected:
            bars.add(
                "Input, of content and conversation", case, way, cost.tokens / of, unit="times", most=limit / whole
            )
            bars.add("Price", case, way, 100 * float(cost.price or 0), unit="cents")
    print(
        f"  {window:>7,}  {name:<6} {size:>4} w  {mine.calls:>3} calls {mine.ratio(whole):>5} "
        f"{'' if is_met else 'NOT met'}"
        f" cached {mine.cached / mine.tokens:>4.0%} (next turn {mine.next_turn:.0%}), "
        f"{mine.seconds / mine.ideal(provider.latency):.2f} × ideal, ${mine.price or 0:.4f}"
        f" | seeds: {seeds.ratio(content + talk)} ${seeds.price or 0:.4f}"
        f" | 0.1: {first.calls} calls {first.ratio(content + talk)} ${first.price or 0:.4f}"
    )
    return is_met or window < 32_768


def fold_rows(count: int) -> list[str]:
    """What folding saves before a model reads the text."""
    container = {"name": "web", "image": "registry.example.com/web:1.2.3", "limits": {"cpu": "500m", "memory": "1Gi"}}
    pods = [{"metadata": {"name": f"web-{n}", "labels": {"app": "web"}}, "spec": container} for n in range(count)]
    log = [
        f"2026-11-15T10:{n // 60 % 60:02}:{n % 60:02}Z INFO GET /cart 200 in {n * 7 % 97} ms" for n in range(count * 8)
    ]
    rows = []
    for name, text in (("JSON, pods", json.dumps({"items": pods}, indent=2)), ("log", "\n".join(log))):
        source = folded_source(text)
        before, after = O200K.count(text), O200K.count(source.preamble) + O200K.count(source.text)
        rows.append(f"  folding, {name}: {before:,} → {after:,} tokens ({after / before:.0%})")
    return rows


async def run(port: int, latency: float, smoke: bool, bars: Bars) -> bool:
    provider = Provider(port, latency)
    await provider.use(32_768)
    warm = provider.model()
    await warm.complete([Message("user", assume_masked("warm up"))], max_tokens=16)
    await warm.aclose()
    windows = {32_768: ("short",)} if smoke else WINDOWS
    met = [
        await compare(provider, window, name, size, bars)
        for window, names in windows.items()
        for name in names
        for size in ((0.2, 2.0) if smoke else SIZES)
    ]
    return all(met)


def main(*, smoke: bool = False, to: Path | None = None) -> int:
    bars = Bars()
    latency = 0.05 if smoke else LATENCY
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.summaries_model", str(latency)], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        port = int(server.stdout.readline())
        print(f"\nSummaries of at most {TARGET:,} tokens; every answer takes {latency:g} s; {LIMIT} calls at once")
        print(
            "   window  conversation, result: ours | the seeds' way | the way of 0.1 (input ÷ content + conversation)"
        )
        is_met = anyio.run(run, port, latency, smoke, bars)
    finally:
        server.terminate()
        server.wait()
    bars.write(to)
    print("\n".join(fold_rows(30 if smoke else 300)))
    print(
        f"  input ≤ {FITS} × (content + conversation) in one call, ≤ {SPLITS} × content + conversation otherwise, for "
        f"windows from 32k: {'met' if is_met else 'NOT met'}"
    )
    return 0 if is_met else 1


if __name__ == "__main__":
    given = parser(__doc__, figures=True).parse_args()
    sys.exit(main(smoke=given.smoke, to=given.json))
