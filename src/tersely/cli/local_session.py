"""Shows a session of this process in the terminal until it ends."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from tersely.app.sessions import SessionsApp


async def show_session(
    sessions: SessionsApp, session_id: str, console: Console, *, without: Collection[str] = ()
) -> None:
    """
    Args:
        without: Timeline events that are not shown.
    """
    from rich.live import Live

    from tersely.store.events import channel_of
    from tersely.store.statuses import ENDS
    from tersely.terminal import Screen

    screen = Screen(console)
    async with sessions.bus.subscribe(channel_of(session_id), 0) as events:
        with Live(console=console, get_renderable=screen.growing, refresh_per_second=8, transient=True):
            async for payload in events:
                event = json.loads(payload)
                if event.get("event_type") not in without:
                    screen.take(event)
                if event["type"] == "session.status" and event["status"] in ENDS:
                    break
    screen.close()
