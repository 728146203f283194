"""Usage of the gateway: counted in memory, stored every few seconds, exported for Prometheus.

A call neither writes nor counts tokens: the tokens of small results are counted when the
sums are stored, off the event loop. Until the gateway has to keep a result, there is no
database and no vocabulary, which together take more memory than the rest of the gateway:
the sums go to the spool, and these tokens are estimated. Savings are always exact, because what
passes unchanged saves nothing.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import anyio

from tersely.cpu.run import run_in_thread
from tersely.errors import StoreUnavailable
from tersely.http.metrics import MetricSample, format_metric
from tersely.results.spool import ResultSpool
from tersely.store.tally import EDGES, Key, Tally
from tersely.text.estimate import estimated_tokens

if TYPE_CHECKING:
    from tersely.store.database import Database

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
SPOOL_SECONDS = 60.0
"""Each time adds a line for each tool, and nobody may look at the statistics for months."""

OWN_SERVER, OWN_TOOLS = "tersely", "own tools"
"""Under these names, the statistics have the cost of what the gateway adds to the list of tools."""

_MAX_UNCOUNTED = 4_000_000
"""Characters whose tokens are not counted yet; beyond this, token counts are estimated."""


def _today() -> date:
    return datetime.now(UTC).date()


class Counting:
    """Usage of this process.

    Args:
        spool: Where the sums are written while there is no database; None keeps them in memory.
    """

    def __init__(self, spool: ResultSpool | None = None, *, today: Callable[[], date] = _today) -> None:
        self.total = Tally()
        self._spool = spool
        self._database: Database | None = None
        self._today = today
        self._new = Tally()
        self._uncounted: list[tuple[Key, str, int]] = []
        """Texts, and how often each counts as what a server returned: 1, or 0 for what was read back."""

        self._own: Counter[tuple[str, ...]] = Counter()
        self._uncounted_size = 0
        self._storing = anyio.Lock()
        """The database is closed when the last `store` returns, so none may be at work in another task."""

    def call(
        self,
        server: str,
        tool: str,
        *,
        milliseconds: float,
        text: str = "",
        tokens_before: int = 0,
        tokens_after: int = 0,
        is_error: bool = False,
        condensed: bool = False,
        cached: bool = False,
    ) -> None:
        """Count one call; `text` is a result that was passed on unchanged, whose tokens are counted later."""
        key = (self._today(), "gateway", server, tool)
        if text and self._uncounted_size + len(text) > _MAX_UNCOUNTED:
            tokens_before = tokens_after = len(text) // 4
        elif text:
            self._uncounted_size += len(text)
            self._uncounted.append((key, text, 1))
        for tally in (self.total, self._new):
            tally.call(
                key,
                milliseconds=milliseconds,
                tokens_before=tokens_before,
                tokens_after=tokens_after,
                is_error=is_error,
                condensed=condensed,
                cached=cached,
            )

    def read_back(self, server: str, tool: str, text: str) -> None:
        """Count one reading of a kept result; what it returned is a cost of having condensed it."""
        key = (self._today(), "gateway", server, tool)
        for tally in (self.total, self._new):
            tally.read_back(key)
        self._uncounted.append((key, text, 0))

    def own_tools(self, texts: tuple[str, ...]) -> None:
        """Count what our own definitions cost a model in the turn of one call; they are sent with every turn."""
        self._own[texts] += 1

    def _added(self, key: Key, tokens: int) -> None:
        for tally in (self.total, self._new):
            tally.sums[key].update(tokens_after=tokens)

    @asynccontextmanager
    async def stored_in(self, database: "Database") -> AsyncIterator[None]:
        """Use a database for the duration of the block."""
        self._database = database
        try:
            yield
        finally:
            self._database = None

    async def keep_storing(self) -> None:
        """Store every few seconds until cancelled."""
        waited = 0.0
        while True:
            await anyio.sleep(EVERY_SECONDS)
            waited += EVERY_SECONDS
            if self._database is not None or waited >= SPOOL_SECONDS:
                waited = 0.0
                await self.store()

    async def store(self) -> None:
        """Store the new sums; if the database is unavailable, they are stored next time."""
        async with self._storing:
            await self._store()

    async def _store(self) -> None:
        await self.count()
        if not self._new:
            return
        new, self._new = self._new, Tally()
        if self._database is None:
            if self._spool is None or not await run_in_thread(self._spool.add_sums, new.rows()):
                self._new.add(new)
            return
        from tersely.store.usage import add

        try:
            async with self._database.transaction() as db:
                await add(db, new)
        except StoreUnavailable as problem:
            logger.warning("usage_not_stored", extra={"problem": str(problem)})
            self._new.add(new)

    async def count(self) -> None:
        """Count the tokens of the results that were passed on unchanged."""
        tokens_of = self._tokens_of()
        own, self._own = self._own, Counter()
        if own:
            costs = await run_in_thread(lambda: {texts: sum(map(tokens_of, texts)) for texts in own})
            key = (self._today(), "gateway", OWN_SERVER, OWN_TOOLS)
            self._added(key, sum(costs[texts] * turns for texts, turns in own.items()))
        if not self._uncounted:
            return
        uncounted, self._uncounted, self._uncounted_size = self._uncounted, [], 0
        counts = await run_in_thread(lambda: [tokens_of(text) for _, text, _ in uncounted])
        for (key, _, returned), tokens in zip(uncounted, counts, strict=True):
            for tally in (self.total, self._new):
                tally.sums[key].update(tokens_before=returned * tokens, tokens_after=tokens)

    def _tokens_of(self) -> Callable[[str], int]:
        if self._database is None:
            return estimated_tokens
        from tersely.text.tokens import O200K

        return O200K.count


_COUNTERS = {
    "calls": ("tersely_tool_calls_total", "Tool calls."),
    "errors": ("tersely_tool_errors_total", "Tool calls that failed."),
    "condensed": ("tersely_results_condensed_total", "Results that were condensed."),
    "cached": ("tersely_summaries_cached_total", "Summaries taken from the cache."),
    "read_backs": ("tersely_read_backs_total", "Reads of kept results."),
    "tokens_before": ("tersely_tokens_in_total", "Tokens (o200k_base) of results as servers returned them."),
    "tokens_after": ("tersely_tokens_out_total", "Tokens (o200k_base) of results as clients received them."),
}


def format_gateway_metrics(tally: Tally, up: Mapping[str, bool]) -> str:
    """The counters of this process since it started, and which servers are connected."""
    by_tool: dict[tuple[str, str], list[Key]] = {}
    for key in tally.sums:
        by_tool.setdefault(key[2:], []).append(key)
    tools = [({"server": tool[0], "tool": tool[1]}, keys) for tool, keys in sorted(by_tool.items())]
    metrics = [
        format_metric(
            metric,
            "counter",
            description,
            [MetricSample(labels, sum(tally.sums[key][name] for key in keys)) for labels, keys in tools],
        )
        for name, (metric, description) in _COUNTERS.items()
    ]
    latencies = [sample for labels, keys in tools for sample in _latency_samples(tally, labels, keys)]
    return "".join(
        [
            *metrics,
            format_metric(
                "tersely_tool_seconds", "histogram", "Latency of tool calls, processing of results included.", latencies
            ),
            format_metric(
                "tersely_server_up",
                "gauge",
                "Whether a server is connected.",
                [MetricSample({"server": name}, int(is_up)) for name, is_up in sorted(up.items())],
            ),
        ]
    )


def _latency_samples(tally: Tally, labels: Mapping[str, str], keys: Sequence[Key]) -> Iterator[MetricSample]:
    within = 0
    for edge in EDGES[:-1]:
        within += sum(tally.latency[key][edge] for key in keys)
        yield MetricSample({**labels, "le": f"{edge / 1000:g}"}, within, "_bucket")
    calls = sum(tally.sums[key]["calls"] for key in keys)
    yield MetricSample({**labels, "le": "+Inf"}, calls, "_bucket")
    yield MetricSample(labels, sum(tally.sums[key]["milliseconds"] for key in keys) / 1000, "_sum")
    yield MetricSample(labels, calls, "_count")
