"""Condensed tool results inside agent frameworks: one module per framework, each in an extra of the same name.

Everything runs through the pipeline that the gateway and the agents use; `condenser` is what the modules share.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tersely.integrations.condenser import ResultCondenser, wrap

__all__ = ["ResultCondenser", "wrap"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'tersely.integrations' has no attribute {name!r}")
    from tersely.integrations import condenser

    return getattr(condenser, name)
