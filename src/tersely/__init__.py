"""Tool results that fit: masked, kept whole, and handed to the model in the size and with the emphasis it needs.

The names below stay. They are resolved when first used, so that importing `tersely` costs nothing.
"""

import sys

# For those who run the source without installing it.
if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(f"Tersely needs Python 3.11 or newer; this is Python {sys.version.split()[0]}.")

TYPE_CHECKING = False  # Not from `typing`, which takes longer to import than a hook may live.
if TYPE_CHECKING:
    from tersely.api import mcp_call, summarize, summarize_for_extraction
    from tersely.condensing.account import Account, Lost
    from tersely.condensing.budget import Condensed
    from tersely.masking.mask import mask
    from tersely.pipeline.core import condense
    from tersely.text.chunks import Chunk, chunk
    from tersely.text.tokens import count_tokens

__all__ = [
    "Account",
    "Chunk",
    "Condensed",
    "Lost",
    "chunk",
    "condense",
    "count_tokens",
    "mask",
    "mcp_call",
    "summarize",
    "summarize_for_extraction",
]

_HOMES = {
    "Account": "tersely.condensing.account",
    "Chunk": "tersely.text.chunks",
    "Condensed": "tersely.condensing.budget",
    "Lost": "tersely.condensing.account",
    "chunk": "tersely.text.chunks",
    "condense": "tersely.pipeline.core",
    "count_tokens": "tersely.text.tokens",
    "mask": "tersely.masking.mask",
    "mcp_call": "tersely.api",
    "summarize": "tersely.api",
    "summarize_for_extraction": "tersely.api",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'tersely' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
