"""The door itself: whose name was called, where the page came from, how much is brought in, what a browser may do with
the answer.

Outermost of all, on HTTP and WebSocket alike, whatever the address we listen on:
a web page elsewhere can make a browser call loopback, under a name of its own.
Says who is asking (`auth`), and leaves it to the routes what that person may do.
"""

import logging
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tersely.http.limits import declares_too_much, drain_refused, limit_body
from tersely.web.auth import Authenticator
from tersely.web.problems import Problem, Refusal, unexpected

logger = logging.getLogger(__name__)

MAX_BODY_BYTES = 2**20

PROBES = ("/health", "/ready")
"""Asked by address rather than by name, by those who start and stop us. They tell nothing."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
    "'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Names:
    """The names under which we may be called, and the pages that may call us."""

    def __init__(self, host: str, allowed: Iterable[str] = (), public_url: str = "") -> None:
        public = urlsplit(public_url)
        named = [name.strip().lower() for name in allowed]
        self._any = "*" in named
        self._tails = tuple(name[1:] for name in named if name.startswith("*.") and len(name) > 2)
        self._names = {
            *_LOOPBACK,
            host.strip("[]").lower(),
            *(_hostname(name) for name in named if not name.startswith("*")),
        }
        if public.hostname:
            self._names.add(public.hostname)
        self._public = _origin(public_url)

    def knows(self, host: str) -> bool:
        """Whether the Host header is one of ours; the port does not matter."""
        name = _hostname(host)
        return bool(name) and (self._any or name in self._names or name.endswith(self._tails or "\0"))

    def is_ours(self, origin: str, host: str) -> bool:
        """Whether a page of this origin is one that we served under this host."""
        found = _origin(origin)
        if found is None:
            return False
        if found == self._public:
            return True
        # Which of the two schemes is the proxy's business, the rest must be the same.
        return found[1:] == (_origin(f"{found[0]}://{host}") or ("",))[1:]


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


class AccessMiddleware:
    """An ASGI middleware; see the module."""

    def __init__(self, app: ASGIApp, *, names: Names, authenticator: Authenticator) -> None:
        self.app = app
        self.names = names
        self.authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            started = started or message["type"] != "websocket.http.response.body"
            await send(message)

        try:
            scope.setdefault("state", {})["principal"] = self._checked(scope)
        except Refusal as refused:
            if refused.status_code == 413:
                await drain_refused(scope, receive)
            await _answer(
                scope,
                receive,
                sending,
                Problem(refused.status_code, refused.code, refused.detail, headers=refused.headers),
            )
            return
        try:
            if scope["type"] == "http":
                receive = limit_body(receive, MAX_BODY_BYTES, _too_large)
            await self.app(scope, receive, sending)
        except Exception as problem:
            # The one broad catch of this door: what nobody foresaw is answered in our shape and logged under a number.
            answer = unexpected(problem, f"{scope.get('method', 'WebSocket')} {scope['path']}")
            if not started:
                await _answer(scope, receive, sending, answer)
            elif scope["type"] == "http":
                raise  # Half an answer must not look like a whole one: the connection is cut.

    def _checked(self, scope: Scope) -> Any:
        headers = scope["headers"]
        host = _single(headers, b"host")
        if scope["path"] not in PROBES and (host is None or not self.names.knows(host)):
            raise Refusal(
                421,
                (
                    f"Nobody here is called {(host or '')[:100]!a}. Use localhost, or name the host in "
                    "TERSELY_ALLOWED_HOSTS on the server."
                ),
            )
        for name, value in headers:
            if name == b"origin" and not self.names.is_ours(value.decode("latin-1"), host or ""):
                raise Refusal(
                    403, f"Pages of {value.decode('latin-1')[:100]!a} may not ask here.", code="unknown_origin"
                )
        if declares_too_much(headers, MAX_BODY_BYTES):
            raise _too_large()
        principal = self.authenticator.identify(scope)
        if (
            principal is not None
            and principal.by in ("cookie", "proxy")
            and scope.get("method", "GET") not in ("GET", "HEAD", "OPTIONS")
        ):
            # Sent by a browser without being asked: such a request has to say which page it comes from.
            site = _single(headers, b"sec-fetch-site")
            if (
                _single(headers, b"origin") is None
                and site != "same-origin"
                and (principal.by == "cookie" or site is not None)
            ):
                raise Refusal(403, "A request with a login cookie must carry its Origin.", code="unknown_origin")
        return principal


def _single(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    found = [value.decode("latin-1") for name, value in headers if name == wanted]
    return found[0] if len(found) == 1 else None


def _too_large() -> Refusal:
    message = f"The request is larger than {MAX_BODY_BYTES:,} bytes. Send what matters of it, or a link to the rest."
    return Refusal(413, message, headers={"Connection": "close"})


async def _answer(scope: Scope, receive: Receive, send: Send, problem: Problem) -> None:
    if scope["type"] == "http":
        await problem(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send(
            {"type": "websocket.http.response.start", "status": problem.status_code, "headers": problem.raw_headers}
        )
        await send({"type": "websocket.http.response.body", "body": problem.body})
    else:
        await send({"type": "websocket.close", "code": 1008})
