"""Models that do not come to an end: each call does, within its limits, and says why."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from tersely.errors import LLMUnavailable
from tersely.llm.limits import CircuitOpen, LimitedLLM, RetryPolicy, build_llm
from tersely.llm.messages import Completion
from tersely.llm.providers import ModelSpec
from tersely.llm.wire import Timeouts
from tersely.text.tokens import O200K
from tests.fakes.asking import QUICK, say
from tests.fakes.endless_model import WORDS, EndlessModel

pytestmark = pytest.mark.slow

PROVIDERS = pytest.mark.parametrize("provider", ["openrouter", "anthropic"])


@asynccontextmanager
async def endless(
    provider: str, mode: str, *, timeouts: Timeouts | None = None, retry_policy: RetryPolicy = QUICK
) -> AsyncIterator[tuple[LimitedLLM, EndlessModel]]:
    async with EndlessModel().listening() as server:
        address = server.url if provider == "anthropic" else f"{server.url}/v1"
        spec = ModelSpec(model=mode, provider=provider, base_url=address, api_key="k", output_cap=2_000)
        llm = build_llm([spec], retry_policy=retry_policy, timeouts=timeouts)
        try:
            with anyio.fail_after(60):
                yield llm, server
        finally:
            await llm.aclose()


async def ask(llm: LimitedLLM, *, streaming: bool = True, max_tokens: int = 500) -> Completion:
    if not streaming:
        return await llm.complete(say("hello"), max_tokens=max_tokens)
    deltas: list[Any] = [delta async for delta in llm.stream(say("hello"), max_tokens=max_tokens)]
    assert isinstance(deltas[-1], Completion)
    return deltas[-1]


@PROVIDERS
@pytest.mark.parametrize(("mode", "cap"), [("endless", 500), ("calling", 500), ("thinking", 2_000)])
async def test_an_endless_stream_is_stopped_at_the_output_cap(provider: str, mode: str, cap: int) -> None:
    """As if the provider had stopped it: `length`. Thoughts may be as long as the model can write, answers as asked."""
    async with endless(provider, mode) as (llm, server):
        answer = await ask(llm)
        while server.in_flight:
            await anyio.sleep(0.01)
        assert llm.in_use == 0 and len(server.asked) == 1
    written = {"endless": answer.text, "thinking": answer.thinking}.get(mode) or answer.tool_calls[0].arguments
    assert answer.finish == "length" and WORDS * 100 in written
    assert cap < O200K.count(written) < cap * 2
    assert answer.usage.output_tokens >= cap and answer.usage.input_tokens > 0


@PROVIDERS
@pytest.mark.parametrize(
    ("mode", "streaming", "calls", "limit", "reason"),
    [
        ("silent", True, 2, {"first_byte": 1}, "paused for 1 s"),
        ("silent", False, 2, {"first_byte": 1}, "paused for 1 s"),
        ("falls-silent", True, 2, {"between_bytes": 0.2}, "paused for 0.2 s"),
        ("drip", True, 1, {"total": 0.6}, "took over 0.6 s"),
        ("drip", False, 1, {"total": 0.6}, "took over 0.6 s"),
    ],
)
async def test_a_silent_model_is_asked_once_more_and_a_slow_one_is_not(
    provider: str, mode: str, streaming: bool, calls: int, limit: dict[str, float], reason: str
) -> None:
    """Whoever gave no answer in the time allowed gives none at the fourth try either; that was 4 × 600 s."""
    # The other limits are out of reach, so that a busy machine does not meet one of them first.
    timeouts = Timeouts(**{"first_byte": 60, "between_bytes": 60, "total": 120, **limit})
    async with endless(provider, mode, timeouts=timeouts) as (llm, server):
        with pytest.raises(LLMUnavailable, match=reason):
            await ask(llm, streaming=streaming)
        assert len(server.asked) == calls and llm.in_use == 0


@PROVIDERS
async def test_a_demand_for_an_hour_is_named_and_closes_the_provider_for_its_cap_only(provider: str) -> None:
    policy = RetryPolicy(delays=(0.01, 0.02, 0.04), longest_retry_after=2)
    async with endless(provider, "hour", retry_policy=policy) as (llm, server):
        with pytest.raises(LLMUnavailable, match=r"429.*slow down.*wait of 3600 s"):
            await ask(llm)
        with pytest.raises(CircuitOpen, match="wait of 3600 s") as refused:
            await ask(llm)
        assert len(server.asked) == 1
        assert refused.value.retry_after and refused.value.retry_after <= 2
        await anyio.sleep(2)
        with pytest.raises(LLMUnavailable, match=r"429.*wait of 3600 s"):
            await ask(llm)
        assert len(server.asked) == 2
