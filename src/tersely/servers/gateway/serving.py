"""A gateway that runs: built from the settings; on standard input and output, or for `web` to put behind HTTP."""

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
from tersely.condensing.cache import NoCache, SummaryCache
from tersely.llm.client import LLM
from tersely.masking.mask import Masker
from tersely.mcp.servers import Server
from tersely.pipeline.process import Pipeline
from tersely.results.kept import user_scope
from tersely.results.read_back import ReadBack
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


def scope_of(request: Request | None) -> str:
    """Whose results these are: the token's holder's, or the user's who runs this."""
    user = request.scope.get("user") if request is not None else None
    return f"principal:{user.access_token.client_id}" if isinstance(user, AuthenticatedUser) else user_scope()


@asynccontextmanager
async def gateway(
    settings: Settings, servers: Sequence[Server], *, strict: bool = False, models: bool = False, wait: float = 8.0
) -> AsyncIterator[Gateway]:
    """A gateway before these servers, for as long as the block lasts.

    Args:
        models: Ask the configured model where no policy says otherwise; without it, only where one says so.

    Raises:
        ConfigError, StoreUnavailable: The database cannot be used.
    """
    asks_model = models or any(_asks_model(server) for server in servers)
    async with kept_results(settings) as kept, _summarizers(settings, asks_model) as (llm, cache):
        key = masking_key(settings.store.data_dir)
        counting = Counting(kept.database)
        pipeline = Pipeline(results=kept, cache=cache)
        options = settings.gateway
        door = Gateway(
            list(servers),
            results=ResultTranslator(pipeline, llm=llm, models_by_default=models, key=key),
            read_back=ReadBack(kept, summarize=pipeline.summarizer(Masker(key=key), llm(None) if models else None)),
            counting=counting,
            seen=ToolPins(settings.store.data_dir / SEEN_FILE),
            scope=scope_of,
            intent=IntentParameter(options.intent_argument, options.intent_description),
            strict=strict,
            wait=wait,
        )
        async with door.running():
            yield door


def _asks_model(server: Server) -> bool:
    options = server.options
    return bool(options.summarization.use_model) or any(
        options.policy(pattern)[0].use_model for pattern in options.tool_policies
    )


@asynccontextmanager
async def _summarizers(
    settings: Settings, is_asked: bool
) -> AsyncIterator[tuple[Callable[[str | None], LLM | None], SummaryCache]]:
    """Who summarizes: the provider a policy names, then the default and its fallbacks."""
    if not is_asked:
        # Loading the providers' libraries takes seconds.
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


async def serve_stdio(door: Gateway) -> None:
    """Until standard input ends. The servers are started when the client has said which protocol it speaks."""
    async with stdio_server() as (read, write), anyio.create_task_group() as tasks:

        async def stop_when_told() -> None:
            with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                async for number in signals:
                    await door.stop()
                    # A thread waits for standard input and cannot be called back; everything else has ended.
                    os._exit(128 + number)

        tasks.start_soon(stop_when_told)
        await door.protocol.run(read, write, door.protocol.create_initialization_options())
        tasks.cancel_scope.cancel()
