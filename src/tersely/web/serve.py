"""Listening: one socket, until SIGINT or SIGTERM. Viewers are told to come again (1012) the moment it ends."""

import signal
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
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
    return _Server(config)


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


class _Server(uvicorn.Server):
    """Signals are ours: there is something to be done before the door closes."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; a second one ends at once.

    Args:
        on_ready: Gets the address, with the real port where 0 was asked for.
        on_stop: Done after the signal and before the door closes, while questions are still answered.

    Raises:
        OSError: The address is taken or not ours.
    """
    listener = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    serving = server(app)
    async with anyio.create_task_group() as group:

        async def stop_on_signal() -> None:
            with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
                async for _ in signals:
                    if serving.should_exit or stopping.is_set():
                        serving.force_exit = serving.should_exit = True
                        return
                    stopping.set()
                    group.start_soon(stop)

        async def stop() -> None:
            if on_stop:
                await on_stop()
            serving.should_exit = True

        stopping = anyio.Event()
        group.start_soon(stop_on_signal)
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        await serving.serve(sockets=[listener])
        group.cancel_scope.cancel()
