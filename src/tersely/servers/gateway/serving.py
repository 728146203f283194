"""A gateway that runs: built from the settings, behind StreamableHTTP or on standard input and output.

Over HTTP: Host and Origin are checked on every address, a bearer token where one
is set, bodies are bounded, and `/health` and `/metrics` stand beside `/mcp`.
"""

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.http import HostOriginGuardMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, RequireAuthMiddleware
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tersely.config import Settings
from tersely.runtime import kept_results, masking_key, runtime
from tersely.servers.gateway.counting import Counting, prometheus
from tersely.servers.gateway.door import GONE, Gateway
from tersely.servers.gateway.offers import Intent
from tersely.servers.gateway.road import Road
from tersely.servers.gateway.seen import SeenTools
from tersely.servers.http import BodyLimit
from tersely.tools.kept import user_scope
from tersely.tools.mask import Masker
from tersely.tools.read_back import ReadBack
from tersely.tools.servers import Server

SERVICE_ID = "mcp_gateway"
SEEN_FILE = "gateway_tools.json"


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


def scope_of(request: Request | None) -> str:
    """Whose results these are: the token's holder's, or the user's who runs this."""
    user = request.scope.get("user") if request is not None else None
    return f"principal:{user.access_token.client_id}" if isinstance(user, AuthenticatedUser) else user_scope()


@asynccontextmanager
async def gateway(
    settings: Settings, servers: Sequence[Server], *, strict: bool = False, models: bool = False, wait: float = 8.0
) -> AsyncIterator[Gateway]:
    """A gateway before these servers, for as long as the block lasts.

    Args:
        models: Ask the configured model where no policy says otherwise; without it, only where one says so.

    Raises:
        ConfigError, StoreUnavailable: The database cannot be used.
    """
    asks_model = models or any(_asks_model(server) for server in servers)
    async with kept_results(settings) as kept, _model(settings, asks_model) as (llm, cache):
        key = masking_key(settings.store.data_dir)
        counting = Counting(kept.database)
        options = settings.gateway
        door = Gateway(
            list(servers),
            road=Road(kept, llm=llm, cache=cache, models_by_default=models, key=key),
            read_back=ReadBack(kept, masker=Masker(key=key), llm=llm if models else None, cache=cache),
            counting=counting,
            seen=SeenTools(settings.store.data_dir / SEEN_FILE),
            scope=scope_of,
            intent=Intent(options.intent_argument, options.intent_description),
            strict=strict,
            wait=wait,
        )
        async with door.running():
            yield door


def _asks_model(server: Server) -> bool:
    policies = server.options.tool_policies.values()
    return bool(server.options.summarization.use_model) or any(policy.summarization.use_model for policy in policies)


@asynccontextmanager
async def _model(settings: Settings, is_asked: bool) -> AsyncIterator[tuple[Any, Any]]:
    # Only where somebody wants one: loading the providers' libraries takes seconds.
    if not is_asked:
        yield None, None
        return
    async with runtime(settings, fallback="structural") as parts:
        yield parts.llm, parts.summarizer.cache


async def serve_stdio(door: Gateway) -> None:
    """Until standard input ends. The servers are started when the client has said which protocol it speaks."""
    async with stdio_server() as (read, write):
        await door.protocol.run(read, write, door.protocol.create_initialization_options())


def http_app(
    door: Gateway, *, verifier: TokenVerifier | None, allowed_hosts: Sequence[str], max_body_bytes: int, stateless: bool = False
) -> Starlette:
    """The gateway as an ASGI application: `/mcp`, `/health` and `/metrics`.

    Args:
        stateless: No sessions for clients of the older protocol either, so that any replica can answer. They can then neither be
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
        connections = [connection for pool in self.door.upstreams.pools.values() for connection in pool.connections.values()]
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
