"""Statistics of `tersely run` and hooks: taken from the spool, and only what a client really used.

A hook cannot know whether the client accepted its answer. The client's transcript says so:
a result that stands there without our note was not shortened, and saves nothing.
"""

import time
from datetime import UTC, datetime
from typing import Any

from tersely.coding.dialects import DIALECTS
from tersely.coding.transcripts import has_result
from tersely.results.spool import ResultSpool
from tersely.store.tally import Tally

UNDECIDED_SECONDS = 24 * 3600
"""How long a result is waited for that is not in its transcript yet."""


def spooled_tally(spool: ResultSpool) -> Tally:
    """The statistics in the spool, which are gone from it afterwards; results that are still awaited stay."""
    tally = Tally()
    for use in spool.take_uses():
        try:
            is_applied = _is_applied(use)
            called_at = datetime.fromtimestamp(use["at"], UTC)
            if is_applied is None and time.time() - use["at"] < UNDECIDED_SECONDS:
                spool.count(**use)
                continue
            before, after = (use["before"], use["after"]) if is_applied else (0, 0)
            tally.call(
                (
                    called_at.date(),
                    str(use["door"]),
                    "shell" if use["door"] == "run" else str(use.get("client", "claude-code")),
                    str(use["tool"]),
                ),
                milliseconds=float(use.get("milliseconds", 0)),
                tokens_before=int(before),
                tokens_after=int(after),
                condensed=before > after > 0,
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            continue  # a line that someone else wrote
    return tally


def _is_applied(use: dict[str, Any]) -> bool | None:
    """Whether the reader got our text; None if that cannot be said yet."""
    dialect = DIALECTS.get(str(use.get("client", "")))
    if use["door"] != "hook" or not use["before"] or (dialect is not None and dialect.applies):
        return True
    if not isinstance(use.get("transcript"), str) or not isinstance(use.get("tool_use_id"), str):
        return False
    sign = use["handle"] or f"[Shortened from {use['before']:,} tokens."
    return has_result(use["transcript"], use["tool_use_id"], sign)
