"""Bearer tokens that MCP servers over HTTP accept.

Uses the protocol's library, not FastMCP, which takes as much memory as the rest of the gateway's own code.
"""

from collections.abc import Mapping

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from mcp.server.auth.provider import AccessToken
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware

from tersely.http.auth import find_token_owner


class BearerTokens:
    """Bearer tokens, given as SHA-256 digests by the name of their owner."""

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self._digests = dict(digests)

    def replace(self, digests: Mapping[str, bytes]) -> None:
        """Accept these tokens from now on."""
        self._digests = dict(digests)

    async def verify_token(self, token: str) -> AccessToken | None:
        owner = find_token_owner(token.encode(), self._digests.items())
        return None if owner is None else AccessToken(token="", client_id=owner, scopes=[])

    def middleware(self) -> list[Middleware]:
        """What identifies the caller of a request; routes decide whether they need one."""
        return [
            Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(self)),
            Middleware(AuthContextMiddleware),
        ]
