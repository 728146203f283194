"""The one writer of `_meta`, log fields and statistics.

Every entry point describes a condensed result with the same keys, among them those
that clients rely on (`input_tokens`, `output_tokens`, `compression_ratio`,
`num_chunks`, `strategy`, `model`). In another server's `_meta` they have a prefix,
so that they cannot collide with its own keys.
"""

from collections.abc import Mapping
from typing import Any

from tersely.condensing.budget import Condensed, ModelWork
from tersely.text.chunks import STRATEGIES

PREFIX = "tersely/"
LISTED = 50
"""Maximum length of `left_out`; `left_out_total` is the total."""

# Only sizes and names, because reasons and gaps may quote the content.
_LOGGED = (
    "status",
    "returned",
    "input_tokens",
    "output_tokens",
    "compression_ratio",
    "num_chunks",
    "levels",
    "strategy",
    "model",
    "cache_hit",
    "checked",
    "unverified",
    "folded_tokens",
    "model_input_tokens",
    "price_usd",
    "handle",
)


def describe(condensed: Condensed, *, strategy: str = "semantic", handle: str | None = None) -> dict[str, Any]:
    """The `_meta` entries of a condensed result."""
    work = condensed.work
    meta: dict[str, Any] = {
        "status": condensed.status,
        "input_tokens": condensed.tokens_before,
        "output_tokens": condensed.tokens_after,
        "compression_ratio": round(condensed.tokens_before / max(condensed.tokens_after, 1), 1),
        "encoding": condensed.encoding,
        "strategy": strategy if strategy in STRATEGIES else "semantic",
        "num_chunks": work.chunks if work else 0,
        "levels": work.levels if work else 0,
        "model": work.model if work else None,
        "gaps": [str(lost) for lost in condensed.lost] if condensed.status == "partial" else [],
        "cache_hit": is_cached(condensed),
        "price_usd": float(work.price_usd) if work and work.price_usd is not None else None,
        "cleaned": condensed.cleaned,
        "handle": handle,
    }
    if strategy not in STRATEGIES:
        meta["strategy_note"] = f"Unknown strategy; used 'semantic'. Known: {', '.join(STRATEGIES)}."
    if work and condensed.status in ("summarized", "partial"):
        meta |= _checks(work, condensed, handle)
    if condensed.status == "fallback":
        meta["returned"] = condensed.returned or "cut"
        meta["reason"] = condensed.reason
    if condensed.status == "structural" or (condensed.status == "fallback" and condensed.returned != "original"):
        meta["left_out"] = [str(lost) for lost in condensed.lost[:LISTED]]
        meta["left_out_total"] = len(condensed.lost)
    if condensed.kind:
        meta["kind"] = condensed.kind
    return meta


def _checks(work: ModelWork, condensed: Condensed, handle: str | None) -> dict[str, Any]:
    """What is known about the reliability of a summary; empty for one without remarks."""
    cited = [{"handle": handle, "lines": lines} if handle else {"lines": lines} for lines in work.cited[:LISTED]]
    found: dict[str, Any] = {
        "checked": work.checked,
        "invented": {"count": len(work.invented), "examples": work.invented[:10]} if work.invented else None,
        "derived": {"count": len(work.derived), "examples": work.derived[:10]} if work.derived else None,
        "unverified": work.unverified,
        "cited": cited,
        "cut": [str(lost) for lost in condensed.lost] if work.cut else None,
        "folded_tokens": work.folded_tokens,
        "model_input_tokens": work.input_tokens,
    }
    return {name: value for name, value in found.items() if value}


def is_cached(condensed: Condensed) -> bool:
    """Whether all model answers for the summary came from the cache."""
    work = condensed.work
    return bool(work and work.calls and work.cache_hits == work.calls)


def prefixed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The entries for another server's `_meta`: prefixed, without empty values."""
    return {f"{PREFIX}{name}": value for name, value in meta.items() if value not in (None, [], 0, "")}


def log_fields(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The log fields of a result: sizes and names, never content."""
    return {name: meta[name] for name in _LOGGED if meta.get(name) is not None} | {"gaps": len(meta["gaps"])}


def tally(condensed: Condensed | None) -> dict[str, Any]:
    """The figures of one result for the statistics; empty if it was not condensed."""
    if condensed is None:
        return {}
    return {
        "tokens_before": condensed.tokens_before,
        "tokens_after": condensed.tokens_after,
        "condensed": True,
        "cached": is_cached(condensed),
    }
