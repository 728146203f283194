"""The gateway behind StreamableHTTP: `/mcp`, `/health` and `/metrics` as one ASGI application.

The Host and Origin headers are checked on every address, a bearer token where
one is configured, and bodies are bounded. Listening is `tersely.http.listen`'s.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tersely.http.auth import token_digest
from tersely.http.guesses import TokenGuard
from tersely.http.hosts import HostGuard
from tersely.http.limits import BodyLimit
from tersely.http.metrics import CONTENT_TYPE
from tersely.servers.bearer_tokens import BearerTokens
from tersely.servers.gateway.counting import format_gateway_metrics
from tersely.servers.gateway.protocol import GONE, Gateway
from tersely.servers.gateway.streams import Departure, ResumableSessions, connection_gone
from tersely.settings.model import Settings

MAX_SESSIONS = 1_000
"""Sessions of clients of the older protocol at a time; each holds about 35 kB. An idle one ends after half an hour."""


def gateway_tokens(settings: Settings) -> BearerTokens | None:
    """The bearer tokens that may connect; None without authentication."""
    digests = token_digests(settings)
    return BearerTokens(digests) if digests else None


def token_digests(settings: Settings) -> dict[str, bytes]:
    """The digests of the tokens by the name of their owner."""
    digests = {token.name: bytes.fromhex(token.sha256) for token in settings.auth.tokens}
    if (shared := settings.summarizer.token) is not None:
        digests["bearer"] = token_digest(shared.get_secret_value().encode())
    return digests


def build_gateway_app(
    gateway: Gateway,
    *,
    verifier: BearerTokens | None,
    allowed_hosts: Sequence[str],
    max_body_bytes: int,
    stateless: bool = False,
) -> Starlette:
    """The gateway as an ASGI application: `/mcp`, `/health` and `/metrics`.

    Args:
        stateless: No sessions for clients of the older protocol either, so that any replica can answer. Such clients
            then get neither requests nor notifications outside of a response.
    """
    manager = ResumableSessions(
        gateway.protocol,
        streams=gateway.streams,
        stateless=stateless,
        max_sessions=MAX_SESSIONS,
        # HostGuard checks instead: it accepts the configured names too.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # Replaces the library's limit, whose response does not say what to do.
    manager.asgi_app = BodyLimit(manager.asgi_app.app, max_body_bytes)  # type: ignore[assignment]

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            try:
                yield
            finally:
                for transport in list(manager._server_instances.values()):
                    # Terminated, so that streams end properly instead of breaking off.
                    await transport.terminate()

    def with_auth(app: ASGIApp) -> ASGIApp:
        return RequireAuthMiddleware(app, []) if verifier else app

    mcp = with_auth(DisconnectWatch(StreamableHTTPASGIApp(manager)))
    return Starlette(
        routes=[
            Route("/mcp", endpoint=mcp),
            Route("/health", endpoint=health),
            Route("/metrics", endpoint=with_auth(MetricsEndpoint(gateway))),
        ],
        middleware=[
            Middleware(HostGuard, allowed_hosts=allowed_hosts),
            *((Middleware(TokenGuard), *verifier.middleware()) if verifier else ()),
            Middleware(MessagesFirst, path="/mcp", endpoint=mcp),
        ],
        lifespan=lifespan,
    )


class MessagesFirst:
    """ASGI middleware: hands the one path that is called all the time to its endpoint, past the router."""

    def __init__(self, app: ASGIApp, path: str, endpoint: ASGIApp) -> None:
        self.app = app
        self.path = path
        self.endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_message = scope["type"] == "http" and scope["path"] == self.path
        await (self.endpoint if is_message else self.app)(scope, receive, send)


class MetricsEndpoint:
    """ASGI endpoint: this gateway's metrics for Prometheus."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counting = self.gateway.counting
        await counting.count()
        connections = [
            connection for pool in self.gateway.upstreams.pools.values() for connection in pool.connections.values()
        ]
        up = {connection.name: connection.status().state == "ready" for connection in connections}
        response = PlainTextResponse(format_gateway_metrics(counting.total, up), media_type=CONTENT_TYPE)
        await response(scope, receive, send)


class DisconnectWatch:
    """ASGI middleware: notes in the scope when the client disconnects, so that work for it can be cancelled."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = Departure()
        scope[GONE] = gone
        connection_gone.set(gone)

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        await self.app(scope, watched, send)
