"""What this door stands on: whoever starts it hands the parts in. Nothing is built here."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from tersely.events.bus import Bus
from tersely.mcp.registry import ToolRegistry
from tersely.results.kept import KeptResults
from tersely.sessions.intake import AlertIntake
from tersely.settings.model import Settings
from tersely.store.database import Database


@dataclass(frozen=True, kw_only=True)
class WebDependencies:
    settings: Settings
    intake: AlertIntake
    database: Database
    bus: Bus
    kept: KeptResults
    registry: ToolRegistry
    not_ready: Callable[[], Awaitable[list[str]]] | None = None
    """Why this process should get no requests at the moment, besides what the door sees itself."""

    gauges: Callable[[], Mapping[str, float]] | None = None
    """More figures for `/metrics`, by name."""
