"""Shorthand for tests that ask a model over the wire."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tersely.llm.limits import LimitedLLM, RetryPolicy, build_llm
from tersely.llm.messages import Message
from tersely.llm.providers import ModelSpec
from tersely.llm.wire import Timeouts
from tersely.masking.masked import assume_masked

QUICK = RetryPolicy(delays=(0.01, 0.02, 0.04), circuit_open_for=0.2)
"""The production retry policy without the waiting."""


def say(text: str) -> list[Message]:
    return [Message("user", assume_masked(text))]


@asynccontextmanager
async def model_at(
    *urls: str,
    retry_policy: RetryPolicy = QUICK,
    timeouts: Timeouts | None = None,
    model: str = "openai/gpt-4o-mini",
    **spec: Any,
) -> AsyncIterator[LimitedLLM]:
    """A model behind each address; the first is asked, the others are its fallbacks."""
    specs = [ModelSpec(model=model, base_url=url, api_key="test", **spec) for url in urls]
    llm = build_llm(specs, retry_policy=retry_policy, timeouts=timeouts)
    try:
        yield llm
    finally:
        await llm.aclose()
