"""A long session to be watched: thoughts and answers that stream, tool calls with large results and summaries."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import anyio
import anyio.lowlevel

from tersely.events.recorder import SessionRecorder
from tersely.masking.masked import assume_masked
from tersely.results.kept import KeptResults
from tersely.sessions.worker import SessionOutcome
from tersely.store.results import Origin
from tersely.store.sessions import Session

RESULT = assume_masked(
    "".join(
        f"2026-11-15T08:{n % 60:02d}:00Z INFO request={n:08x} path=/api/v1/items/{n} took {n}ms\n" for n in range(120)
    )
)
SUMMARY = assume_masked("- 118 requests were answered, two failed: /api/v1/items/7 and /api/v1/items/9\n" * 12)
THOUGHT = "The error rate rises after the deployment; I compare both versions before I look at the database. "
ANSWER = (
    "Both versions answer **equally** fast, so the deployment is not the cause. Next: `connections` of the "
    "pool.\n\n- one\n- two\n"
)

Work = Callable[[Session, SessionRecorder, KeptResults], Awaitable[SessionOutcome]]


def long_work(events: int, begin: anyio.Event) -> Work:
    """As many events as that, once the gate opens."""

    async def work(session: Session, recorder: SessionRecorder, kept: KeptResults) -> SessionOutcome:
        (stage,) = await recorder.plan(["look"])
        await recorder.stage_status(stage, "in_progress")
        origin = Origin(server="cluster", tool="get_logs", arguments={"service": "web"}, called_at=datetime.now(UTC))
        inner = recorder.within(stage, "e")
        await begin.wait()
        for number in range(events // 4):
            async with inner.opened(f"{number}/thought", "llm_thinking") as event:
                for _ in range(4):
                    event.delta(assume_masked(THOUGHT))
                    await anyio.lowlevel.checkpoint()
                await event.complete(assume_masked(THOUGHT * 4))
            async with inner.opened(f"{number}/answer", "llm_response") as event:
                for _ in range(4):
                    event.delta(assume_masked(ANSWER))
                    await anyio.lowlevel.checkpoint()
                await event.complete(assume_masked(ANSWER * 4))
            handle = await kept.keep(RESULT, scope=session.results_scope, origin=origin)
            about = {
                "server_name": "cluster",
                "tool_name": "get_logs",
                "arguments": {"service": "web", "number": number},
            }
            async with inner.opened(f"{number}/call", "llm_tool_call", metadata=about) as event:
                await event.complete(RESULT, {"duration_ms": 12, "original_tokens": 6_000, "handle": handle})
            told = {**about, "handle": handle, "original_tokens": 6_000}
            async with inner.opened(f"{number}/summary", "mcp_tool_summary", metadata=told) as event:
                await event.complete(
                    SUMMARY,
                    {
                        "summary_tokens": 300,
                        "status": "structural",
                        "lost": [{"what": "118 rows", "lines": [[1, 118]]}],
                    },
                )
        await inner.record("analysis", "final_analysis", assume_masked("All is well."))
        await recorder.stage_status(stage, "completed")
        return SessionOutcome(status="completed", analysis=assume_masked("All is well."))

    return work


MEASURE = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.tasks.push(entry.duration); })
    .observe({ type: 'longtask', buffered: true });
}"""
