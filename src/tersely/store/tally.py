"""Sums of tool calls that are not stored yet.

Without SQLAlchemy: the gateway counts from its first call on, and opens the database
when it first has to keep a result. `store.usage` stores the sums.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

Door = Literal["gateway", "session", "run", "hook"]
Key = tuple[date, str, str, str]
"""Day, entry point, server, tool."""

EDGES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 2_000_000_000)
"""Upper bounds of the latency buckets, in milliseconds."""

SUMS = ("calls", "errors", "condensed", "cached", "read_backs", "tokens_before", "tokens_after", "milliseconds")


@dataclass
class Tally:
    """Sums that are not stored yet."""

    sums: defaultdict[Key, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    latency: defaultdict[Key, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def call(
        self,
        key: Key,
        *,
        milliseconds: float,
        tokens_before: int = 0,
        tokens_after: int = 0,
        is_error: bool = False,
        condensed: bool = False,
        cached: bool = False,
    ) -> None:
        self.sums[key].update(
            calls=1,
            errors=int(is_error),
            condensed=int(condensed),
            cached=int(cached),
            tokens_before=tokens_before,
            tokens_after=tokens_after,
            milliseconds=round(milliseconds),
        )
        self.latency[key][next(edge for edge in EDGES if milliseconds <= edge or edge == EDGES[-1])] += 1

    def read_back(self, key: Key) -> None:
        """Count a read of a kept result of this tool."""
        self.sums[key].update(read_backs=1)

    def add(self, other: "Tally") -> None:
        for key, sums in other.sums.items():
            self.sums[key].update(sums)
        for key, buckets in other.latency.items():
            self.latency[key].update(buckets)

    def rows(self) -> list[dict[str, Any]]:
        """The sums as JSON values."""
        return [
            {"key": [key[0].isoformat(), *key[1:]], "sums": dict(sums), "latency": dict(self.latency.get(key, ()))}
            for key, sums in self.sums.items()
        ]

    @classmethod
    def from_rows(cls, rows: Iterable[dict[str, Any]]) -> "Tally":
        """The sums that `rows` returned; what someone else wrote is left out."""
        tally = cls()
        for row in rows:
            try:
                day, door, server, tool = row["key"]
                key = (date.fromisoformat(day), str(door), str(server), str(tool))
                sums = {name: int(row["sums"].get(name, 0)) for name in SUMS}
                latency = {edge: int(row["latency"].get(str(edge), 0)) for edge in EDGES}
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
                continue
            tally.sums[key].update(sums)
            tally.latency[key].update({edge: calls for edge, calls in latency.items() if calls})
        return tally

    def __bool__(self) -> bool:
        return bool(self.sums)
