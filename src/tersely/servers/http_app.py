"""What the MCP servers behind HTTP share: bearer tokens, readable argument errors, and a FastMCP server as an ASGI app.

The Host and Origin headers are checked on every address, and bodies are bounded
before they are read. Listening is `tersely.http.listen`'s.
"""

import logging
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.exceptions import ValidationError as FastMCPValidationError
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.http import StarletteWithLifespan, StreamableHTTPASGIApp
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from mcp.server.auth.middleware.bearer_auth import RequireAuthMiddleware
from mcp_types import CallToolRequestParams
from pydantic import ValidationError as PydanticValidationError
from starlette.middleware import Middleware as StarletteMiddleware
from starlette.routing import Route

from tersely.http.guesses import TokenGuard
from tersely.http.hosts import HostGuard
from tersely.http.limits import BodyLimit
from tersely.servers.bearer_tokens import BearerTokens

logger = logging.getLogger(__name__)


class FastMCPTokens(TokenVerifier):
    """Bearer tokens for a FastMCP server, which insists on a class of its own."""

    def __init__(self, tokens: BearerTokens) -> None:
        super().__init__()
        self._tokens = tokens

    async def verify_token(self, token: str) -> AccessToken | None:
        known = await self._tokens.verify_token(token)
        return None if known is None else AccessToken(token="", client_id=known.client_id, scopes=[])


class ArgumentErrors(Middleware):
    """Answers invalid arguments with an error the caller can act on, without quoting the values."""

    async def on_call_tool(
        self, context: MiddlewareContext[CallToolRequestParams], call_next: CallNext[Any, Any]
    ) -> Any:
        try:
            return await call_next(context)
        except (FastMCPValidationError, PydanticValidationError) as invalid:
            cause = invalid if isinstance(invalid, PydanticValidationError) else invalid.__cause__
            if not isinstance(cause, PydanticValidationError):
                raise
            logger.info("request_refused", extra={"reason": "wrong arguments"})
            problems = [
                f"{'.'.join(map(str, error['loc'][:1]))}: {error['msg']}" for error in cause.errors(include_url=False)
            ]
            raise ToolError("Wrong arguments. " + "; ".join(dict.fromkeys(problems)), log_level=logging.DEBUG) from None


def build_fastmcp_app(server: FastMCP, *, allowed_hosts: Sequence[str], max_body_bytes: int) -> StarletteWithLifespan:
    """The server as an ASGI application at `/mcp`; stateless, so that any replica can answer any request."""
    app = server.http_app(
        path="/mcp",
        stateless_http=True,
        host_origin_protection=False,  # HostGuard checks more.
        middleware=[StarletteMiddleware(HostGuard, allowed_hosts=allowed_hosts), StarletteMiddleware(TokenGuard)],
    )
    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(starlette: object):  # type: ignore[no-untyped-def]
        async with inner(app):
            # FastMCP builds the session manager in the lifespan, with a fixed limit of 4 MiB.
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
