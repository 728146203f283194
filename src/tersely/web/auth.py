"""Authentication: who sends a request, and which scopes they have.

On loopback without configuration, every request comes from the local user.
Otherwise a request carries a bearer token, the login cookie issued for one, or,
from a configured proxy address, a header with the user's name.

Tokens are known by their digests only. The cookie is signed, not stored, with a
random key from the database: every replica accepts it for twelve hours, and it
becomes invalid as soon as its token or the token's scopes change. Which scope a
route needs is in `web.access`.
"""

import base64
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import Scope

from tersely.http.auth import find_token_owner, refuse_open
from tersely.settings.model import Settings
from tersely.web.problems import ApiError

AccessScope = Literal["submit", "override", "read", "admin"]

COOKIE = "tersely_login"
COOKIE_SECONDS = 12 * 3600

_ALL_SCOPES: frozenset[str] = frozenset(("submit", "override", "read", "admin"))
_MAX_TOKEN_BYTES = 4_096
_MAX_USER_NAME = 200


@dataclass(frozen=True)
class Principal:
    """The authenticated sender of a request."""

    name: str
    """`local`, `token:NAME` or `user:NAME`; the author of the sessions it submits."""

    scopes: frozenset[str]
    method: Literal["loopback", "token", "cookie", "proxy"]
    expires_at: float | None = None
    """When the cookie expires, in seconds since 1970; connections that outlive a request have to check it."""

    def has_scope(self, *scopes: AccessScope) -> bool:
        """Whether it has one of these scopes; `admin` includes all others."""
        return "admin" in self.scopes or not self.scopes.isdisjoint(scopes)


LOCAL = Principal("local", _ALL_SCOPES, "loopback")


@dataclass(frozen=True)
class KnownToken:
    name: str
    digest: bytes
    scopes: frozenset[str]


class Authenticator:
    """Identifies the sender of a request."""

    def __init__(
        self,
        tokens: Sequence[KnownToken] = (),
        *,
        proxies: Iterable[str] = (),
        user_header: str = "",
        user_scopes: Iterable[str] = (),
        login_key: bytes = b"",
    ) -> None:
        self._tokens = tuple(tokens)
        self._user_scopes = frozenset(user_scopes)
        self._proxies = tuple(ipaddress.ip_network(address, strict=False) for address in proxies)
        self._user_header = user_header.lower().encode("latin-1")
        # Without a key from the database, cookies are valid in this process only.
        self._key = login_key or secrets.token_bytes(32)

    @property
    def required(self) -> bool:
        """Whether requests must authenticate."""
        return bool(self._tokens or self._proxies)

    @property
    def mode(self) -> Literal["none", "tokens", "proxy"]:
        if self._tokens:
            return "tokens"
        return "proxy" if self._proxies else "none"

    def identify(self, scope: Scope) -> Principal | None:
        """The sender of a request; None without credentials.

        Raises:
            ApiError: The credentials are invalid.
        """
        if not self.required:
            return LOCAL
        values = [value for name, value in scope["headers"] if name == b"authorization"]
        if values:
            scheme, _, token = values[0].partition(b" ")
            known = self._find(token.strip()) if len(values) == 1 and scheme.lower() == b"bearer" else None
            if known is None:
                raise unauthenticated("Unknown bearer token.")
            return Principal(f"token:{known.name}", known.scopes, "token")
        if cookie := HTTPConnection(scope).cookies.get(COOKIE):
            # An expired cookie counts as no credentials, so that the login page is still served.
            return self._by_cookie(cookie)
        return self._by_proxy(scope)

    def login(self, token: str) -> tuple[Principal, str]:
        """The principal and the login cookie for a token.

        Raises:
            ApiError: The token is unknown.
        """
        known = self._find(token.strip().encode("utf-8", "replace"))
        if known is None:
            raise unauthenticated("Unknown token.")
        expires_at = int(time.time()) + COOKIE_SECONDS
        principal = Principal(f"token:{known.name}", known.scopes, "cookie")
        return principal, f"{_cookie_name(known)}.{expires_at}.{self._signature(known, expires_at)}"

    def _find(self, token: bytes) -> KnownToken | None:
        if not token or len(token) > _MAX_TOKEN_BYTES:
            return None
        return find_token_owner(token, ((known, known.digest) for known in self._tokens))

    def _by_cookie(self, cookie: str) -> Principal | None:
        name, _, rest = cookie.partition(".")
        expiry, _, signature = rest.partition(".")
        if not (expiry.isascii() and expiry.isdigit() and len(expiry) < 16 and signature.isascii()):
            return None
        expires_at = int(expiry)
        if not 0 < expires_at - time.time() <= COOKIE_SECONDS:
            return None
        for known in self._tokens:
            if _cookie_name(known) == name and hmac.compare_digest(signature, self._signature(known, expires_at)):
                return Principal(f"token:{known.name}", known.scopes, "cookie", float(expires_at))
        return None

    def _signature(self, known: KnownToken, expires_at: int) -> str:
        # Includes the token's digest and scopes, so that changing either invalidates its cookies.
        scopes = ",".join(sorted(known.scopes)).encode()
        signed = b"\0".join((known.name.encode(), known.digest, scopes, str(expires_at).encode()))
        return hmac.new(self._key, signed, hashlib.sha256).hexdigest()

    def _by_proxy(self, scope: Scope) -> Principal | None:
        if not self._proxies or not scope.get("client"):
            return None
        try:
            peer = ipaddress.ip_address(scope["client"][0].partition("%")[0])
        except ValueError:
            return None
        if isinstance(peer, ipaddress.IPv6Address) and peer.ipv4_mapped:
            peer = peer.ipv4_mapped
        if not any(peer in network for network in self._proxies):
            return None
        users = [value.decode("latin-1").strip() for name, value in scope["headers"] if name == self._user_header]
        if len(users) != 1 or not users[0]:
            return None
        if not users[0].isprintable() or len(users[0]) > _MAX_USER_NAME:
            raise unauthenticated("The proxy sent an invalid user name.")
        return Principal(f"user:{users[0]}", self._user_scopes, "proxy")


def _cookie_name(known: KnownToken) -> str:
    return base64.urlsafe_b64encode(known.name.encode()).decode().rstrip("=")


def unauthenticated(message: str) -> ApiError:
    return ApiError(401, message, headers={"WWW-Authenticate": 'Bearer realm="tersely"'})


def build_authenticator(settings: Settings, host: str, *, login_key: bytes = b"") -> Authenticator:
    """The authenticator for a listener on `host`.

    Args:
        login_key: Signs login cookies; the same on every replica.

    Raises:
        ConfigError: Other machines can reach the address, and no authentication is configured.
    """
    auth = settings.auth
    tokens = [KnownToken(token.name, bytes.fromhex(token.sha256), frozenset(token.scopes)) for token in auth.tokens]
    proxies = auth.trusted_proxies
    authenticator = Authenticator(
        tokens,
        proxies=proxies.addresses,
        user_header=proxies.user_header,
        user_scopes=proxies.scopes,
        login_key=login_key,
    )
    refuse_open(
        host,
        has_authentication=authenticator.required,
        allow_open=settings.allow_open,
        remedy="Set auth.tokens or auth.trusted_proxies in tersely.yaml",
    )
    return authenticator


def current_principal(connection: HTTPConnection) -> Principal:
    """The principal that `AccessMiddleware` identified.

    Raises:
        ApiError: The request has no credentials.
    """
    principal: Principal | None = connection.scope["state"].get("principal")
    if principal is None:
        raise unauthenticated("Authentication required: send `Authorization: Bearer TOKEN`, or log in at /login.")
    return principal


def check_scope(principal: Principal, *scopes: AccessScope) -> None:
    """
    Raises:
        ApiError: The principal has none of these scopes.
    """
    if not principal.has_scope(*scopes):
        granted = ", ".join(sorted(principal.scopes)) or "none"
        raise ApiError(403, f"This needs the scope {' or '.join(scopes)}; {principal.name} has {granted}.")


Caller = Depends(current_principal)
"""A dependency: the authenticated sender."""
