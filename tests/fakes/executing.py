"""Tool calls through the agent's executor and a real pipeline, in one call."""

from typing import Any

from tersely.agent.tool_executor import Observation, Registry, Step, ToolExecutor, run_now
from tersely.llm.client import LLM
from tersely.llm.messages import ToolCall
from tersely.masking.mask import Masker
from tersely.pipeline.process import Intent, Pipeline, Scope
from tersely.results.kept import KeptResults
from tersely.results.read_back import ReadBack

NO_LIMIT = 10**9
"""A window that no test fills."""


def tool_executor(registry: Registry, results: KeptResults, **pipeline: Any) -> ToolExecutor:
    return ToolExecutor(registry=registry, results=results, pipeline=Pipeline(results=results, **pipeline))


def read_back(kept: KeptResults, *, key: bytes | None = None, llm: LLM | None = None, **options: Any) -> ReadBack:
    seconds = {"condense_seconds": options.pop("condense_seconds")} if "condense_seconds" in options else {}
    return ReadBack(kept, summarize=Pipeline(**seconds).summarizer(Masker(key=key), llm), **options)


async def execute(
    executor: ToolExecutor,
    call: ToolCall,
    *,
    scope: Scope,
    llm: LLM | None = None,
    intent: Intent = Intent(),  # noqa: B008 — frozen
    window: int = NO_LIMIT,
    step: Step = run_now,
) -> Observation:
    """Both steps of a call, as an agent makes them."""
    fetched = await step("call", lambda: executor.fetch(call, scope))
    return await step(
        "condense", lambda: executor.observe(call, fetched, scope=scope, llm=llm, intent=intent, window=window)
    )
