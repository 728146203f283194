"""What went through the gateway: added up in memory, stored every few seconds, and shown as Prometheus text.

A call costs no write and no counting of tokens: small results are counted when
the sums are stored, off the event loop.
"""

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime

import anyio
import anyio.to_thread

from tersely.errors import StoreUnavailable
from tersely.store.database import Database
from tersely.store.usage import EDGES, Key, Tally, add
from tersely.text.tokens import O200K

logger = logging.getLogger(__name__)

EVERY_SECONDS = 5.0
_MOST_WAITING = 4_000_000
"""Characters that wait to be counted; beyond them sizes are estimated."""


def _today() -> date:
    return datetime.now(UTC).date()


class Counting:
    """Sums of this process.

    Args:
        database: Where they go; None keeps them in memory.
    """

    def __init__(self, database: Database | None = None, *, today: Callable[[], date] = _today) -> None:
        self.total = Tally()
        self._database = database
        self._today = today
        self._new = Tally()
        self._uncounted: list[tuple[Key, str]] = []
        self._waiting = 0

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
        """One call; `text` is a result that passed as it was, whose tokens are counted later."""
        key = (self._today(), "gateway", server, tool)
        if text and self._waiting + len(text) > _MOST_WAITING:
            tokens_before = tokens_after = len(text) // 4
        elif text:
            self._waiting += len(text)
            self._uncounted.append((key, text))
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

    def read_back(self, server: str, tool: str) -> None:
        key = (self._today(), "gateway", server, tool)
        for tally in (self.total, self._new):
            tally.read_back(key)

    async def keep_storing(self) -> None:
        """Until cancelled, store every few seconds."""
        while True:
            await anyio.sleep(EVERY_SECONDS)
            await self.store()

    async def store(self) -> None:
        """Store what is new. What cannot be stored now is stored later."""
        await self.count()
        if not self._new or self._database is None:
            return
        new, self._new = self._new, Tally()
        try:
            async with self._database.transaction() as db:
                await add(db, new)
        except StoreUnavailable as problem:
            logger.warning("usage_not_stored", extra={"problem": str(problem)})
            for key, sums in new.sums.items():
                self._new.sums[key].update(sums)
            for key, buckets in new.latency.items():
                self._new.latency[key].update(buckets)

    async def count(self) -> None:
        """Count the tokens of small results that wait for it."""
        if not self._uncounted:
            return
        waiting, self._uncounted, self._waiting = self._uncounted, [], 0
        counts = await anyio.to_thread.run_sync(lambda: [O200K.count(text) for _, text in waiting])
        for (key, _), tokens in zip(waiting, counts, strict=True):
            for tally in (self.total, self._new):
                tally.sums[key].update(tokens_before=tokens, tokens_after=tokens)


_COUNTERS = {
    "calls": ("tersely_tool_calls_total", "Tool calls."),
    "errors": ("tersely_tool_errors_total", "Tool calls that failed."),
    "condensed": ("tersely_results_condensed_total", "Results that were condensed."),
    "cached": ("tersely_summaries_cached_total", "Summaries that were paid for before."),
    "read_backs": ("tersely_read_backs_total", "Reads in kept results."),
    "tokens_before": ("tersely_tokens_in_total", "Tokens that servers returned, as o200k_base counts."),
    "tokens_after": ("tersely_tokens_out_total", "Tokens that clients got."),
}


def prometheus(tally: Tally, up: dict[str, bool]) -> str:
    """The sums of this process since it started, and which servers are there."""
    by_tool: dict[tuple[str, str], list[Key]] = {}
    for key in tally.sums:
        by_tool.setdefault(key[2:], []).append(key)
    lines: list[str] = []
    for name, (metric, words) in _COUNTERS.items():
        lines += [f"# HELP {metric} {words}", f"# TYPE {metric} counter"]
        lines += [
            f"{metric}{_labels(*tool)} {sum(tally.sums[key][name] for key in keys)}"
            for tool, keys in sorted(by_tool.items())
        ]
    metric = "tersely_tool_seconds"
    lines += [
        f"# HELP {metric} How long calls took, with everything done to their results.",
        f"# TYPE {metric} histogram",
    ]
    for tool, keys in sorted(by_tool.items()):
        calls = 0
        for edge in EDGES[:-1]:
            calls += sum(tally.latency[key][edge] for key in keys)
            lines.append(f"{metric}_bucket{_labels(*tool, le=f'{edge / 1000:g}')} {calls}")
        everything = sum(tally.sums[key]["calls"] for key in keys)
        lines.append(f"{metric}_bucket{_labels(*tool, le='+Inf')} {everything}")
        lines.append(f"{metric}_sum{_labels(*tool)} {sum(tally.sums[key]['milliseconds'] for key in keys) / 1000:g}")
        lines.append(f"{metric}_count{_labels(*tool)} {everything}")
    lines += ["# HELP tersely_server_up Whether a server is connected.", "# TYPE tersely_server_up gauge"]
    lines += [f"tersely_server_up{{server={_quoted(name)}}} {int(is_up)}" for name, is_up in sorted(up.items())]
    return "\n".join(lines) + "\n"


def _labels(server: str, tool: str, **more: str) -> str:
    named = {"server": server, "tool": tool, **more}
    return "{" + ",".join(f"{name}={_quoted(value)}" for name, value in named.items()) + "}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
