"""The Host, Origin and Sec-Fetch-Site headers that a server accepts, on every listening address.

Loopback included: any web page can make a browser call it under a host name of its own (DNS
rebinding).
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class AllowedHosts:
    """The host names this service answers to, and the origins whose pages may call it."""

    def __init__(self, host: str, allowed: Iterable[str] = (), public_url: str = "") -> None:
        public = urlsplit(public_url)
        allowed = [name.strip().lower() for name in allowed]
        self._any = "*" in allowed
        self._suffixes = tuple(name[1:] for name in allowed if name.startswith("*.") and len(name) > 2)
        self._names = {
            *_LOOPBACK,
            host.strip("[]").lower(),
            *(_hostname(name) for name in allowed if not name.startswith("*")),
        }
        if public.hostname:
            self._names.add(public.hostname)
        self._public = _origin(public_url)

    def allows_host(self, host: str) -> bool:
        """Whether this Host header is allowed; the port does not matter."""
        name = _hostname(host)
        return bool(name) and (self._any or name in self._names or name.endswith(self._suffixes or "\0"))

    def allows_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin were served by us under this host."""
        parsed = _origin(origin)
        if parsed is None:
            return False
        if parsed == self._public:
            return True
        # A proxy may have changed the scheme; host and port must be the same.
        return parsed[1:] == (_origin(f"{parsed[0]}://{host}") or ("",))[1:]


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _origin(address: str) -> tuple[str, str, int] | None:
    try:
        parts = urlsplit(address)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or parts.username is not None:
            return None
        return parts.scheme, parts.hostname.rstrip("."), parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError:
        return None


class HostGuard:
    """ASGI middleware for servers that programs call: refuses requests under other names, or from other pages."""

    def __init__(self, app: ASGIApp, allowed_hosts: Iterable[str] = ()) -> None:
        self.app = app
        self._allowed = AllowedHosts("localhost", allowed_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        # The address that was connected to cannot be the name of a page.
        address = (scope.get("server") or ("",))[0]
        if not self._allowed.allows_host(host) and (not address or _hostname(host) != address.lower()):
            return PlainTextResponse("Misdirected Request", status_code=421)
        if not origin:
            is_foreign = is_cross_site(scope["method"], scope["headers"])
            return PlainTextResponse("Forbidden Site", status_code=403) if is_foreign else None
        if self._allowed.allows_origin(origin, host):
            return None
        # Tools for developers are pages on this machine, on a port of their own.
        if _is_loopback(_hostname(host)) and _is_loopback((_origin(origin) or ("", ""))[1]):
            return None
        return PlainTextResponse("Forbidden Origin", status_code=403)


def is_cross_site(method: str, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a browser says that a page of another site asks; to follow a link from there is allowed."""
    headers = list(headers)
    if single_header(headers, b"sec-fetch-site") != "cross-site":
        return False
    return not (method in ("GET", "HEAD") and single_header(headers, b"sec-fetch-mode") == "navigate")


def single_header(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """The value of a header that a request has once."""
    values = [value.decode("latin-1") for name, value in headers if name == wanted]
    return values[0] if len(values) == 1 else None


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
