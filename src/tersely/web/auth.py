"""Who is asking, and what they may do.

On loopback, with nothing configured, everybody is the local user. Elsewhere a
request carries a bearer token, the cookie that a browser got for one, or, from
an address that the operator named, a proxy's word about the user.

Tokens are known by their digests only. The cookie is signed, not stored: any
replica with the same configuration understands it, and it ends with its token.
Which routes need what is said where the routes are.
"""

import base64
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import Scope

from tersely.errors import ConfigError
from tersely.http.auth import find_token_owner, is_loopback
from tersely.settings.model import Settings
from tersely.web.problems import Refusal

Right = Literal["submit", "read", "admin"]

COOKIE = "tersely_login"
COOKIE_SECONDS = 12 * 3600

_ALL: frozenset[str] = frozenset(("submit", "read", "admin"))
_LONGEST_TOKEN = 4_096
_LONGEST_NAME = 200


@dataclass(frozen=True)
class Principal:
    """Somebody who may ask."""

    name: str
    """`local`, `token:NAME` or `user:NAME`; sessions belong to it."""

    rights: frozenset[str]
    by: Literal["loopback", "token", "cookie", "proxy"]
    until: float | None = None
    """When a cookie runs out, in seconds since 1970; whoever stays longer than a request has to look."""

    def may(self, *rights: Right) -> bool:
        """Whether one of these rights is theirs; who administers may do everything."""
        return "admin" in self.rights or not self.rights.isdisjoint(rights)


LOCAL = Principal("local", _ALL, "loopback")


@dataclass(frozen=True)
class KnownToken:
    name: str
    digest: bytes
    rights: frozenset[str]


class Authenticator:
    """Finds out who is asking."""

    def __init__(
        self,
        tokens: Sequence[KnownToken] = (),
        *,
        proxies: Iterable[str] = (),
        user_header: str = "",
        user_rights: Iterable[str] = (),
        secret: bytes = b"",
    ) -> None:
        self._tokens = tuple(tokens)
        self._user_rights = frozenset(user_rights)
        self._proxies = tuple(ipaddress.ip_network(address, strict=False) for address in proxies)
        self._user_header = user_header.lower().encode("latin-1")
        # Whoever can read the digests of the tokens, but not the rest of the configuration, must not be able to sign.
        self._key = hashlib.sha256(b"tersely login cookie\0" + secret).digest()

    @property
    def required(self) -> bool:
        """Whether a request must say whose it is."""
        return bool(self._tokens or self._proxies)

    @property
    def mode(self) -> Literal["none", "tokens", "proxy"]:
        if self._tokens:
            return "tokens"
        return "proxy" if self._proxies else "none"

    def identify(self, scope: Scope) -> Principal | None:
        """Who is asking; None where they do not say.

        Raises:
            Refusal: They say something that is not true (any more).
        """
        if not self.required:
            return LOCAL
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if given:
            scheme, _, token = given[0].partition(b" ")
            known = self._known(token.strip()) if len(given) == 1 and scheme.lower() == b"bearer" else None
            if known is None:
                raise unauthenticated("The bearer token is not known here.")
            return Principal(f"token:{known.name}", known.rights, "token")
        if cookie := HTTPConnection(scope).cookies.get(COOKIE):
            # One that has run out counts as none, so that the page with the login can still be had.
            return self._by_cookie(cookie)
        return self._by_proxy(scope)

    def login(self, token: str) -> tuple[Principal, str]:
        """The cookie for a token.

        Raises:
            Refusal: The token is not known.
        """
        known = self._known(token.strip().encode("utf-8", "replace"))
        if known is None:
            raise unauthenticated("This token is not known here.")
        until = int(time.time()) + COOKIE_SECONDS
        name = base64.urlsafe_b64encode(known.name.encode()).decode().rstrip("=")
        return Principal(
            f"token:{known.name}", known.rights, "cookie"
        ), f"{name}.{until}.{self._signature(known, until)}"

    def _known(self, token: bytes) -> KnownToken | None:
        if not token or len(token) > _LONGEST_TOKEN:
            return None
        return find_token_owner(token, ((known, known.digest) for known in self._tokens))

    def _by_cookie(self, cookie: str) -> Principal | None:
        name, _, rest = cookie.partition(".")
        until, _, signature = rest.partition(".")
        if not (
            until.isascii() and until.isdigit() and len(until) < 16 and int(until) > time.time() and signature.isascii()
        ):
            return None
        for known in self._tokens:
            if base64.urlsafe_b64encode(known.name.encode()).decode().rstrip("=") == name and hmac.compare_digest(
                signature, self._signature(known, int(until))
            ):
                return Principal(f"token:{known.name}", known.rights, "cookie", float(until))
        return None

    def _signature(self, known: KnownToken, until: int) -> str:
        # The token's digest is part of it: a token that was replaced takes its cookies along.
        said = b"\0".join((known.name.encode(), known.digest, str(until).encode()))
        return hmac.new(self._key, said, hashlib.sha256).hexdigest()

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
        if not users[0].isprintable() or len(users[0]) > _LONGEST_NAME:
            raise unauthenticated("The proxy sent no usable name.")
        return Principal(f"user:{users[0]}", self._user_rights, "proxy")


def unauthenticated(message: str) -> Refusal:
    return Refusal(401, message, headers={"WWW-Authenticate": 'Bearer realm="tersely"'})


def build_authenticator(settings: Settings, host: str) -> Authenticator:
    """Who may come in when we listen on this address.

    Raises:
        ConfigError: Others could reach it, and nothing says who they are.
    """
    auth = settings.auth
    tokens = [KnownToken(token.name, bytes.fromhex(token.sha256), frozenset(token.scopes)) for token in auth.tokens]
    proxies = auth.trusted_proxies
    found = Authenticator(
        tokens,
        proxies=proxies.addresses,
        user_header=proxies.user_header,
        user_rights=proxies.scopes,
        secret=settings.store.url.encode(),
    )
    if not found.required and not is_loopback(host):
        raise ConfigError(
            f"Listening on {host} lets others in, and nothing says who they are. Set auth.tokens or "
            "auth.trusted_proxies "
            "in tersely.yaml, or listen on 127.0.0.1."
        )
    return found


def asking(connection: HTTPConnection) -> Principal:
    """Who asks, as the door found out.

    Raises:
        Refusal: Nobody said.
    """
    principal: Principal | None = connection.scope["state"].get("principal")
    if principal is None:
        raise unauthenticated("Say who you are: send `Authorization: Bearer TOKEN`, or log in at /login.")
    return principal


def needs(*rights: Right) -> Callable[[HTTPConnection], Principal]:
    """A dependency: who asks, if one of these rights is theirs."""

    def allowed(connection: HTTPConnection) -> Principal:
        principal = asking(connection)
        if not principal.may(*rights):
            wanted = " or ".join(rights)
            raise Refusal(
                403,
                f"This needs the scope {wanted}; {principal.name} has {', '.join(sorted(principal.rights)) or 'none'}.",
            )
        return principal

    return allowed


Submits = Depends(needs("submit"))
Reads = Depends(needs("read"))
Administers = Depends(needs("admin"))
