"""The gateway behind StreamableHTTP: who may come in, how much they bring, and what stands beside `/mcp`.

Host and Origin are checked on every address, a bearer token where one is set,
bodies are bounded, and `/health` and `/metrics` answer too.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.http import HostOriginGuardMiddleware
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tersely.servers.gateway.counting import prometheus
from tersely.servers.gateway.protocol import GONE, Gateway
from tersely.servers.http import BodyLimit
from tersely.settings.model import Settings


class Tokens(TokenVerifier):
    """Bearer tokens by the name of who holds them, compared in constant time. Only digests are known here."""

    def __init__(self, digests: Mapping[str, str]) -> None:
        super().__init__()
        self._digests = dict(digests)

    async def verify_token(self, token: str) -> AccessToken | None:
        digest = hashlib.sha256(token.encode()).hexdigest()
        holder = None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known.lower()):
                holder = name
        return AccessToken(token="", client_id=holder, scopes=[]) if holder else None


def tokens(settings: Settings) -> Tokens | None:
    """Who may come in; None when everybody may."""
    digests = {token.name: token.sha256 for token in settings.auth.tokens}
    if (one := settings.summarizer.token) is not None:
        digests["bearer"] = hashlib.sha256(one.get_secret_value().encode()).hexdigest()
    return Tokens(digests) if digests else None


def http_app(
    door: Gateway,
    *,
    verifier: TokenVerifier | None,
    allowed_hosts: Sequence[str],
    max_body_bytes: int,
    stateless: bool = False,
) -> Starlette:
    """The gateway as an ASGI application: `/mcp`, `/health` and `/metrics`.

    Args:
        stateless: No sessions for clients of the older protocol either, so that any replica can answer. They can then
            neither be
            asked nor told anything outside of an answer.
    """
    manager = StreamableHTTPSessionManager(
        door.protocol,
        stateless=stateless,
        # The guard before it knows more names than the library's.
        security_settings=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # The library's limit answers with a bare sentence; ours says what to do.
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
                    # Told that it is over, so that streams end and are not torn off.
                    await transport.terminate()

    def private(app: ASGIApp) -> ASGIApp:
        return RequireAuthMiddleware(app, []) if verifier else app

    return Starlette(
        routes=[
            Route("/mcp", endpoint=private(HangUps(StreamableHTTPASGIApp(manager)))),
            Route("/health", endpoint=health),
            Route("/metrics", endpoint=private(Metrics(door))),
        ],
        middleware=[
            Middleware(HostOriginGuardMiddleware, allowed_hosts=list(allowed_hosts), mode="strict"),
            *(verifier.get_middleware() if verifier else ()),
        ],
        lifespan=lifespan,
    )


class Metrics:
    """What went through, for Prometheus."""

    def __init__(self, door: Gateway) -> None:
        self.door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.door.counting.count()
        connections = [
            connection for pool in self.door.upstreams.pools.values() for connection in pool.connections.values()
        ]
        up = {connection.name: connection.status().state == "ready" for connection in connections}
        text = prometheus(self.door.counting.total, up)
        await PlainTextResponse(text, media_type="text/plain; version=0.0.4")(scope, receive, send)


class HangUps:
    """Notices when a client closes its request, so that the work for it can end."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = anyio.Event()
        scope[GONE] = gone

        async def watched() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                gone.set()
            return message

        await self.app(scope, watched, send)
