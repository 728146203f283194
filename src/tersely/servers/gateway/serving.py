"""Builds a gateway from the settings, and serves it on standard input and output; `web` serves it over HTTP."""

import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.stdio import stdio_server
from starlette.requests import Request

from tersely.app.summarizer import kept_results, masking_key
from tersely.condensing.summarize.cache import NoCache, SummaryCache
from tersely.llm.client import LLM
from tersely.masking.mask import Masker
from tersely.mcp.servers import Server
from tersely.pipeline.process import Pipeline
from tersely.results.kept import user_scope
from tersely.results.read_back import ReadBack
from tersely.servers.gateway.call_limits import CallLimits, limits_from
from tersely.servers.gateway.catalogue import IntentParameter
from tersely.servers.gateway.counting import Counting
from tersely.servers.gateway.protocol import Gateway
from tersely.servers.gateway.results import ResultTranslator
from tersely.servers.gateway.tool_pins import SEEN_FILE, ToolPins
from tersely.sessions.models import Models
from tersely.settings.model import Settings
from tersely.store.summaries import SummaryFile

logger = logging.getLogger(__name__)

SERVICE_ID = "mcp_gateway"


def request_scope(request: Request | None) -> str:
    """The scope that results are kept in: the token owner's, or that of the user who runs the gateway."""
    user = request.scope.get("user") if request is not None else None
    return f"principal:{user.access_token.client_id}" if isinstance(user, AuthenticatedUser) else user_scope()


@asynccontextmanager
async def running_gateway(
    settings: Settings, servers: Sequence[Server], *, strict: bool = False, models: bool = False, wait: float = 8.0
) -> AsyncIterator[Gateway]:
    """A gateway in front of these servers, running inside the block.

    Args:
        models: Summarize with the configured model unless a policy forbids it; otherwise only where a policy asks
            for it.

    Raises:
        ConfigError, StoreUnavailable: The database cannot be used.
    """
    uses_model = models or any(_uses_model(server) for server in servers)
    async with kept_results(settings) as kept, _summarizers(settings, uses_model) as (llm, cache):
        key = masking_key(settings.store.data_dir)
        counting = Counting(kept.database)
        pipeline = Pipeline(results=kept, cache=cache)
        options = settings.gateway
        gateway = Gateway(
            list(servers),
            results=ResultTranslator(pipeline, llm=llm, models_by_default=models, key=key),
            read_back=ReadBack(kept, summarize=pipeline.summarizer(Masker(key=key), llm(None) if models else None)),
            counting=counting,
            pins=ToolPins(settings.store.data_dir / SEEN_FILE),
            scope=request_scope,
            intent=IntentParameter(options.intent_argument, options.intent_description),
            strict=strict,
            wait=wait,
            logins=settings.store.logins,
            limits=CallLimits(*limits_from(settings)),
        )
        async with gateway.running():
            yield gateway


def _uses_model(server: Server) -> bool:
    options = server.options
    return bool(options.summarization.use_model) or any(
        options.policy(pattern)[0].use_model for pattern in options.tool_policies
    )


@asynccontextmanager
async def _summarizers(
    settings: Settings, uses_model: bool
) -> AsyncIterator[tuple[Callable[[str | None], LLM | None], SummaryCache]]:
    """A function from the provider a policy names to the model with its fallbacks, and the cache of summaries."""
    if not uses_model:
        # Importing the providers' libraries takes seconds.
        yield (lambda named: None), NoCache()
        return
    default = settings.summarizing()
    providers = Models(settings.llm_providers, concurrency=settings.model.concurrency)
    cache: SummaryCache = NoCache()
    if settings.store.summary_cache:
        cache = SummaryFile(settings.store.data_dir / "summaries.db", max_bytes=settings.store.summary_cache_mb * 2**20)
    if not settings.llm_providers:
        logger.warning(
            "no_model_configured",
            extra={"consequence": "results are condensed structurally", "set": settings.model.missing()},
        )

    def summarizer(named: str | None) -> LLM | None:
        return providers.of((named, *default) if named else default)

    try:
        yield summarizer, cache
    finally:
        await providers.aclose()


async def serve_stdio(gateway: Gateway) -> None:
    """Serve until standard input ends. The servers start when the client has sent its protocol version."""
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for number in signals:
                    await gateway.stop()
                    # A thread blocks on standard input and cannot be cancelled; everything else has stopped.
                    os._exit(128 + number)

        tasks.start_soon(stop_on_signal)
        await gateway.protocol.run(read, write, gateway.protocol.create_initialization_options())
        tasks.cancel_scope.cancel()
