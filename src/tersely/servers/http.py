"""An MCP server behind HTTP: who may come in, how much they may bring, and how it ends.

Shared by the doors that speak StreamableHTTP. Host and Origin are checked on
every address, bodies are bounded before they are read, and the process closes
its streams when it is told to stop.
"""

import hashlib
import hmac
import ipaddress
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc
import uvicorn
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.exceptions import ValidationError as FastMCPValidationError
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.http import StarletteWithLifespan, StreamableHTTPASGIApp
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp_types import CallToolRequestParams
from pydantic import ValidationError as PydanticValidationError
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger(__name__)


class OneToken(TokenVerifier):
    """A single bearer token, compared in constant time."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._digest = hashlib.sha256(token.encode()).digest()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(hashlib.sha256(token.encode()).digest(), self._digest):
            return None
        return AccessToken(token="", client_id="bearer", scopes=[])


class PlainErrors(Middleware):
    """Wrong arguments are answered in words a caller can act on, without quoting what was sent."""

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        try:
            return await call_next(context)
        except (FastMCPValidationError, PydanticValidationError) as wrong:
            cause = wrong if isinstance(wrong, PydanticValidationError) else wrong.__cause__
            if not isinstance(cause, PydanticValidationError):
                raise
            logger.info("request_refused", extra={"reason": "wrong arguments"})
            mistakes = [
                f"{'.'.join(map(str, error['loc'][:1]))}: {error['msg']}" for error in cause.errors(include_url=False)
            ]
            raise ToolError("Wrong arguments. " + "; ".join(dict.fromkeys(mistakes)), log_level=logging.DEBUG) from None


class BodyLimit:
    """Read a request's body up to a limit, and refuse it beyond, before anybody else sees it."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self.limit:
            await self._refuse(scope, receive, send)
            return
        body: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body.append(message.get("body", b""))
            size += len(body[-1])
            more = message.get("more_body", False)
            if size > self.limit:
                await self._refuse(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": b"".join(body), "more_body": False}]
        body.clear()

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = (
            f"The request is larger than {self.limit:,} bytes. Send less, or raise TERSELY_MAX_BODY_BYTES on the "
            "server."
        )
        await JSONResponse({"error": text}, status_code=413)(scope, receive, send)


def http_app(server: FastMCP, *, allowed_hosts: Sequence[str], max_body_bytes: int) -> StarletteWithLifespan:
    """The server as an ASGI application at `/mcp`. No state between requests, so any replica can answer any of them."""
    app = server.http_app(
        path="/mcp", stateless_http=True, host_origin_protection=True, allowed_hosts=list(allowed_hosts)
    )
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(starlette: object):  # type: ignore[no-untyped-def]
        async with inner(app):
            # The session manager is built in the lifespan, with a limit of 4 MiB that FastMCP does not let us choose.
            manager = _endpoint(app).session_manager
            assert manager is not None
            manager.asgi_app = BodyLimit(manager.asgi_app.app, max_body_bytes)  # type: ignore[assignment]
            yield

    app.router.lifespan_context = lifespan
    return app


def _endpoint(app: StarletteWithLifespan) -> StreamableHTTPASGIApp:
    for route in app.routes:
        if isinstance(route, Route) and route.path == "/mcp":
            endpoint = route.endpoint
            while isinstance(endpoint, RequireAuthMiddleware):
                endpoint = endpoint.app
            assert isinstance(endpoint, StreamableHTTPASGIApp)
            return endpoint
    raise AssertionError("the application serves /mcp")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve(app: ASGIApp, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; a second one ends at once. `on_ready` gets the address, with the real port where 0
    was asked for.

    Raises:
        OSError: The address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(2048)  # from here on connections queue, so that whoever reads the address can use it
    except OSError:
        listener.close()
        raise
    # Quiet, because what happens is logged where it happens; short grace, because clients retry elsewhere.
    config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=5)
    shown = f"[{host}]" if ":" in host else host
    server = _Server(config)

    async def stop_when_told(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                server.force_exit = server.should_exit
                server.should_exit = True

    async with anyio.create_task_group() as tasks:
        await tasks.start(stop_when_told)
        on_ready(f"http://{shown}:{listener.getsockname()[1]}")
        await server.serve(sockets=[listener])
        tasks.cancel_scope.cancel()


class _Server(uvicorn.Server):
    """Without its own handling of signals, which raises them again at the end: then nothing around it would be closed
    in order.
    """

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
