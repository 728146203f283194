"""Figures for Prometheus, in its text form; and whether this process lives and should be sent requests.

What is stored is counted where it is stored, so every replica tells the same about
sessions, the queue and tools. Sessions can become fewer when old ones are deleted: a
gauge. What only grows is a counter, and each process has its own for what it did.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from fastapi import APIRouter, Response

from tersely.errors import StoreUnavailable
from tersely.llm.meter import METER, Meter
from tersely.store import overview
from tersely.web.auth import Principal, Reads
from tersely.web.dependencies import WebDependencies
from tersely.web.live import Live
from tersely.web.schemas import ERRORS, HealthOut, ReadyOut
from tersely.web.version import VERSION

logger = logging.getLogger(__name__)

ENDS = ("completed", "failed", "cancelled", "timed_out")
STATUSES = ("pending", "in_progress", "cancelling", *ENDS)

Sample = tuple[Mapping[str, str], float]


def routes(parts: WebDependencies, live: Live) -> APIRouter:
    router = APIRouter(tags=["running it"], responses=ERRORS)

    @router.get("/health")
    async def health() -> HealthOut:
        """Whether the process answers at all."""
        return HealthOut(status="ok", version=VERSION)

    @router.get("/ready", responses={503: {"model": ReadyOut, "description": "Not ready; `reasons` says why"}})
    async def ready(response: Response) -> ReadyOut:
        """Whether requests should be sent here, and why not."""
        reasons = await _reasons(parts)
        if reasons:
            response.status_code = 503
        return ReadyOut(status="not_ready" if reasons else "ready", reasons=reasons)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics(principal: Principal = Reads) -> Response:
        """Figures in Prometheus' text form."""
        async with parts.database.reading() as db:
            seen = await overview.look(db)
        age = max(0.0, (datetime.now(UTC) - seen.oldest_pending).total_seconds()) if seen.oldest_pending else 0.0
        lines = [
            *_told(
                "tersely_sessions",
                "gauge",
                "Stored sessions by status.",
                [({"status": name}, seen.sessions.get(name, 0)) for name in STATUSES],
            ),
            *_told("tersely_queue_depth", "gauge", "Sessions that wait.", [({}, seen.sessions.get("pending", 0))]),
            *_told("tersely_queue_oldest_seconds", "gauge", "For how long the oldest of them has waited.", [({}, age)]),
            *_told(
                "tersely_sessions_ended_total",
                "counter",
                "Sessions that came to an end in this process.",
                [({"status": name}, parts.bus.ended[name]) for name in ENDS],
            ),
            *_models(METER),
            *_told(
                "tersely_tool_calls_total",
                "counter",
                "Tool calls.",
                [({"door": use.door, "server": use.server}, use.calls) for use in seen.tools],
            ),
            *_told(
                "tersely_tool_errors_total",
                "counter",
                "Tool calls that failed.",
                [({"door": use.door, "server": use.server}, use.errors) for use in seen.tools],
            ),
            *_told(
                "tersely_tool_tokens_total",
                "counter",
                "Tokens (o200k_base) of tool results: as they came, and as they went into conversations.",
                [
                    ({"door": use.door, "server": use.server, "stage": stage}, count)
                    for use in seen.tools
                    for stage, count in (("before", use.tokens_before), ("after", use.tokens_after))
                ],
            ),
            *_told(
                "tersely_websocket_connections", "gauge", "Viewers connected to this process.", [({}, live.connections)]
            ),
            *_told(
                "tersely_websocket_subscriptions", "gauge", "Channels that they follow.", [({}, live.subscriptions)]
            ),
            *_told(
                "tersely_websocket_messages_total",
                "counter",
                "Messages sent to viewers by this process.",
                [({}, live.sent)],
            ),
            *_told(
                "tersely_websocket_dropped_total",
                "counter",
                "Viewers dropped because they were too slow.",
                [({}, live.dropped)],
            ),
        ]
        if parts.gauges:
            for name, value in sorted(parts.gauges().items()):
                plain = name.removeprefix("tersely_")
                lines += _told(f"tersely_{plain}", "gauge", plain.replace("_", " ").capitalize() + ".", [({}, value)])
        return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8")

    return router


def _models(meter: Meter) -> list[str]:
    """What this process asked models for."""
    models = sorted(meter.answered.keys() | meter.failed.keys())
    named = {model: {"provider": model[0], "model": model[1]} for model in models}
    return [
        *_told(
            "tersely_model_calls_total",
            "counter",
            "Calls to models by this process; each try counts.",
            [
                ({**named[model], "outcome": outcome}, counts[model])
                for outcome, counts in (("answered", meter.answered), ("failed", meter.failed))
                for model in models
            ],
        ),
        *_told(
            "tersely_model_tokens_total",
            "counter",
            "Tokens of these calls, as the providers counted them.",
            [
                ({**named[model], "direction": direction}, counts[model])
                for direction, counts in (("input", meter.input_tokens), ("output", meter.output_tokens))
                for model in models
            ],
        ),
        *_told(
            "tersely_price_usd_total",
            "counter",
            "What they cost; models whose price nobody lists are missing.",
            [(named[model], float(meter.price[model])) for model in models if model in meter.price],
        ),
    ]


async def _reasons(parts: WebDependencies) -> list[str]:
    reasons: list[str] = []
    try:
        async with parts.database.reading() as db:
            await overview.answers(db)
    except StoreUnavailable as problem:
        logger.warning("not_ready", extra={"problem": str(problem)})
        reasons.append("The database does not answer.")
    if parts.not_ready:
        reasons += await parts.not_ready()
    return reasons


def _told(name: str, kind: str, words: str, samples: Iterable[Sample]) -> list[str]:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(
            f"{name}{{{shown}}} {value:g}"
            if shown and isinstance(value, float)
            else f"{name}{f'{{{shown}}}' if shown else ''} {value}"
        )
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
