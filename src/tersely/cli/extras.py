"""Which command needs which extra. Commands that are not listed run with `pip install tersely` alone."""

from __future__ import annotations

COMMAND_EXTRAS = {
    "condense --llm": "llm",
    "serve": "serve",
    "gateway": "gateway",
    "gateway check": "gateway",
    "gateway install": "gateway",
    "gateway login": "gateway",
    "gateway logout": "gateway",
    "up": "up",
    "work": "up",
    "suspects": "up",
    "ask": "up",
    "investigate": "up",
    "watch": "up",
    "chat": "up",
    "search": "up",
    "rate": "up",
    "triage": "up",
    "rerun": "up",
    "compare": "up",
    "export": "up",
    "audit": "up",
    "research": "up",
    "doctor": "up",
    "demo": "up",
    "read --sql": "query",
}


def check_extra(command: str) -> None:
    """Called first by each command (or option) of the table.

    Raises:
        MissingExtra: Its extra is not installed.
    """
    from tersely.extras import require_extra

    require_extra(COMMAND_EXTRAS[command], f"tersely {command}")
