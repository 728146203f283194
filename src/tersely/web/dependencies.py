"""What the web application needs; the composition root passes it in, and nothing is built here."""

from collections.abc import Callable, Mapping
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
    login_key: bytes = b""
    """Signs login cookies; `store.keys` has it. Without it, cookies are valid in this process only."""

    not_ready: Callable[[], list[str]] | None = None
    """Reasons for `/ready` to answer 503, besides an unavailable database."""

    gauges: Callable[[], Mapping[str, float]] | None = None
    """More gauges for `/metrics`, by name."""
