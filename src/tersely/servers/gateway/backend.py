"""What keeps results: the store, the condenser, the read-back tool.

Importing this module takes longer than the rest of a start, and as much memory. So
`protocol` loads it for the first result that has to be condensed, or that is read back.
"""

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio

from tersely.app.summarizer import kept_results
from tersely.condensing.summarize.cache import NoCache, SummaryCache
from tersely.cpu.pool import WorkerDied
from tersely.cpu.run import LARGE, run_cpu, run_in_thread
from tersely.errors import ConfigError, StoreUnavailable
from tersely.llm.client import LLM
from tersely.masking.mask import Masker
from tersely.mcp.servers import Server
from tersely.pipeline.process import Pipeline
from tersely.results.read_back import ReadBack
from tersely.servers.gateway.condensing import LargeResults
from tersely.servers.gateway.counting import Counting
from tersely.servers.gateway.frequent_tools import LEAST_CALLS, MOST_FREQUENT, WITHIN_DAYS, save_frequent
from tersely.servers.gateway.policies import Policies
from tersely.settings.model import Settings
from tersely.store.audit import AuditEntry, record
from tersely.store.database import Database, make_database
from tersely.store.sqlite_files import file_of
from tersely.store.summaries import SummaryFile
from tersely.store.usage import most_used, take_in

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Backend:
    condenser: LargeResults
    read_back: ReadBack

    async def audit(self, action: str, scope: str, handle: str, *, address: str, status: int) -> None:
        """Record who read which kept result."""
        entry = AuditEntry(
            action=action, principal=scope, method="mcp", address=address, target=handle[:200], status=status
        )
        await record(self.read_back.kept.database, entry)


@asynccontextmanager
async def open_backend(
    settings: Settings, servers: Sequence[Server], policies: Policies, counting: Counting, *, models: bool
) -> AsyncIterator[Backend]:
    """Open the store, for the duration of the block.

    Args:
        counting: Stores its sums here, for the duration of the block.
        models: Summarize with the configured model unless a policy forbids it; otherwise only where a policy asks
            for it.

    Raises:
        ConfigError, StoreUnavailable: The database cannot be used.
    """
    is_lazy = bool(settings.gateway.lazy_above) or any(server.options.lazy for server in servers)
    asks_models = models or any(uses_model(server) for server in servers)
    await _make_database(settings)
    async with kept_results(settings) as kept, _summarizers(settings, asks_models) as (llm, cache):
        pipeline = Pipeline(results=kept, cache=cache)
        summarize = pipeline.summarizer(Masker(key=policies.key), llm(None) if models else None)
        backend = Backend(
            condenser=LargeResults(pipeline, policies, llm=llm, models_by_default=models),
            read_back=ReadBack(kept, summarize=summarize),
        )
        await _take_in(kept.database, settings)
        async with anyio.create_task_group() as tasks, counting.stored_in(kept.database):
            if is_lazy:
                tasks.start_soon(_remember_frequent, kept.database, settings.store.data_dir)
            try:
                yield backend
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True), anyio.move_on_after(5):
                    await counting.store()
                    if is_lazy:
                        await _remember_frequent(kept.database, settings.store.data_dir)


async def _make_database(settings: Settings) -> None:
    """Make the file of the database in another process if there is none yet."""
    file = file_of(settings.store.url)
    if file is not None and (not file.exists() or not file.stat().st_size):
        # Whatever goes wrong, `kept_results` reports.
        with suppress(ConfigError, StoreUnavailable, WorkerDied, OSError):
            await run_cpu(make_database, settings.store.url, size=LARGE)


async def _take_in(database: Database, settings: Settings) -> None:
    """Store what gateways counted that never opened the database."""
    try:
        await take_in(database, settings.store.spool)
    except StoreUnavailable as problem:
        logger.warning("usage_not_stored", extra={"problem": str(problem)})


async def _remember_frequent(database: Database, folder: Path) -> None:
    """Write the most used tools of the last weeks for the next start; those of this one are listed already."""
    since = datetime.now(UTC).date() - timedelta(days=WITHIN_DAYS)
    try:
        async with database.transaction() as db:
            tools = await most_used(db, door="gateway", since=since, least=LEAST_CALLS, most=MOST_FREQUENT)
    except StoreUnavailable as problem:
        logger.warning("frequent_tools_not_read", extra={"problem": str(problem)})
        return
    await run_in_thread(save_frequent, folder, tools)


def uses_model(server: Server) -> bool:
    options = server.options
    return bool(options.summarization.use_model) or any(
        options.policy(pattern)[0].use_model for pattern in options.tool_policies
    )


@asynccontextmanager
async def _summarizers(
    settings: Settings, asks_models: bool
) -> AsyncIterator[tuple[Callable[[str | None], LLM | None], SummaryCache]]:
    """A function from the provider a policy names to the model with its fallbacks, and the cache of summaries."""
    if not asks_models:
        # Importing the providers' libraries takes seconds.
        yield (lambda named: None), NoCache()
        return
    from tersely.sessions.models import Models

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
