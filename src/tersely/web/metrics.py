"""`/metrics` for Prometheus, and the probes `/health` and `/ready`.

Sessions, the queue and tools are counted from the database, so every replica
reports the same numbers. Sessions are a gauge, because deleting old ones lowers
their number. What only grows is a counter; some are kept per process.
"""

import logging
from datetime import UTC, datetime

from fastapi import APIRouter, Response

from tersely.http.metrics import CONTENT_TYPE, MetricSample, format_metric
from tersely.llm.meter import METER, Meter
from tersely.store import overview
from tersely.store.overview import Overview
from tersely.store.statuses import ENDS, STATUSES
from tersely.web.dependencies import WebDependencies
from tersely.web.live import Live
from tersely.web.schemas import ERRORS, HealthOut, ReadyOut
from tersely.web.version import VERSION

logger = logging.getLogger(__name__)


def metrics_routes(deps: WebDependencies, live: Live) -> APIRouter:
    router = APIRouter(tags=["running it"], responses=ERRORS)

    @router.get("/health")
    async def health() -> HealthOut:
        """Whether the process responds."""
        return HealthOut(status="ok", version=VERSION)

    @router.get("/ready", responses={503: {"model": ReadyOut, "description": "Not ready; `reasons` lists why"}})
    async def ready(response: Response) -> ReadyOut:
        """Whether this process should receive requests, and if not, why."""
        reasons = _not_ready_reasons(deps)
        if reasons:
            response.status_code = 503
        return ReadyOut(status="not_ready" if reasons else "ready", reasons=reasons)

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics() -> Response:
        """Metrics in Prometheus' text format."""
        async with deps.database.reading() as db:
            stored = await overview.look(db)
        text = (
            _stored_metrics(stored)
            + format_metric(
                "tersely_sessions_ended_total",
                "counter",
                "Sessions that ended in this process.",
                [MetricSample({"status": name}, deps.bus.ended[name]) for name in ENDS],
            )
            + _model_metrics(METER)
            + _viewer_metrics(live)
        )
        for name, value in sorted(deps.gauges().items()) if deps.gauges else ():
            name = name.removeprefix("tersely_")
            description = name.replace("_", " ").capitalize() + "."
            text += format_metric(f"tersely_{name}", "gauge", description, [MetricSample({}, value)])
        return Response(text, media_type=CONTENT_TYPE)

    return router


def _stored_metrics(stored: Overview) -> str:
    """Sessions, the queue and tools, from the database."""
    oldest = stored.oldest_pending
    age = max(0.0, (datetime.now(UTC) - oldest).total_seconds()) if oldest else 0.0
    tools = [({"door": use.door, "server": use.server}, use) for use in stored.tools]
    return (
        format_metric(
            "tersely_sessions",
            "gauge",
            "Stored sessions by status.",
            [MetricSample({"status": name}, stored.sessions.get(name, 0)) for name in STATUSES],
        )
        + format_metric(
            "tersely_queue_depth", "gauge", "Pending sessions.", [MetricSample({}, stored.sessions.get("pending", 0))]
        )
        + format_metric(
            "tersely_queue_oldest_seconds", "gauge", "Age of the oldest pending session.", [MetricSample({}, age)]
        )
        + format_metric(
            "tersely_tool_calls_total",
            "counter",
            "Tool calls.",
            [MetricSample(labels, use.calls) for labels, use in tools],
        )
        + format_metric(
            "tersely_tool_errors_total",
            "counter",
            "Tool calls that failed.",
            [MetricSample(labels, use.errors) for labels, use in tools],
        )
        + format_metric(
            "tersely_tool_tokens_total",
            "counter",
            "Tokens (o200k_base) of tool results, before and after condensing.",
            [
                MetricSample({**labels, "stage": stage}, count)
                for labels, use in tools
                for stage, count in (("before", use.tokens_before), ("after", use.tokens_after))
            ],
        )
    )


def _model_metrics(meter: Meter) -> str:
    """Model calls of this process."""
    models = sorted(meter.answered.keys() | meter.failed.keys() | meter.cancelled.keys())
    labels = {model: {"provider": model[0], "model": model[1]} for model in models}
    return (
        format_metric(
            "tersely_model_calls_total",
            "counter",
            "Model calls by this process; each try counts.",
            [
                MetricSample({**labels[model], "outcome": outcome}, counts[model])
                for outcome, counts in (
                    ("answered", meter.answered),
                    ("failed", meter.failed),
                    ("cancelled", meter.cancelled),
                )
                for model in models
            ],
        )
        + format_metric(
            "tersely_model_tokens_total",
            "counter",
            "Tokens of these calls, as counted by the providers; of cancelled calls an estimate.",
            [
                MetricSample({**labels[model], "direction": direction}, counts[model])
                for direction, counts in (("input", meter.input_tokens), ("output", meter.output_tokens))
                for model in models
            ],
        )
        + format_metric(
            "tersely_model_cached_tokens_total",
            "counter",
            "Input tokens of these calls that providers read from their prompt caches.",
            [MetricSample(labels[model], meter.cached_tokens[model]) for model in models],
        )
        + format_metric(
            "tersely_price_usd_total",
            "counter",
            "Cost of these calls; models without a known price are missing.",
            [MetricSample(labels[model], float(meter.price[model])) for model in models if model in meter.price],
        )
    )


def _viewer_metrics(live: Live) -> str:
    """WebSocket viewers of this process."""
    return (
        format_metric(
            "tersely_websocket_connections",
            "gauge",
            "Viewers connected to this process.",
            [MetricSample({}, live.connections)],
        )
        + format_metric(
            "tersely_websocket_subscriptions", "gauge", "Channels they follow.", [MetricSample({}, live.subscriptions)]
        )
        + format_metric(
            "tersely_websocket_messages_total",
            "counter",
            "Messages sent to viewers by this process.",
            [MetricSample({}, live.sent)],
        )
        + format_metric(
            "tersely_websocket_dropped_total",
            "counter",
            "Viewers dropped because they were too slow.",
            [MetricSample({}, live.dropped)],
        )
    )


def _not_ready_reasons(deps: WebDependencies) -> list[str]:
    """Known at once: a probe must not wait for the database."""
    problem = deps.database.health.problem
    return [*([problem] if problem else []), *(deps.not_ready() if deps.not_ready else [])]
