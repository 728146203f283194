"""Listening: one socket, until SIGINT or SIGTERM. Viewers are told to come again (1012) the moment it ends."""

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from tersely.web.live import LARGEST_MESSAGE

GRACE_SECONDS = 5
"""What requests in flight get to finish; viewers get none, they come again by themselves."""


def server(app: ASGIApp) -> uvicorn.Server:
    """How the application is served, wherever it listens."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        lifespan="off",
        # Who asks is decided by the address that really asks; see `auth`.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws_max_size=4 * LARGEST_MESSAGE,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        # Compressing the same event for every viewer costs more than it spares.
        ws_per_message_deflate=False,
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """
    Raises:
        OSError: The address is taken or not ours.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # From here on connections queue, so that whoever reads the address can use it.
    except OSError:
        listener.close()
        raise
    return listener


async def serve(app: ASGIApp, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. `on_ready` gets the address, with the real port where 0 was asked for.

    Raises:
        OSError: The address is taken or not ours.
    """
    listener = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    on_ready(f"http://{shown}:{listener.getsockname()[1]}")
    await server(app).serve(sockets=[listener])
