"""The outermost middleware: Host and Origin checks, body limits, authentication, audit log and security headers.

It applies to HTTP and WebSocket on every listening address, loopback included:
any web page can make a browser call loopback under a host name of its own (DNS
rebinding). It identifies the principal (`auth`); the routes check its scopes.
"""

from collections.abc import Awaitable, Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tersely.http.guesses import TOO_MANY, WrongTokens, client_address
from tersely.http.hosts import AllowedHosts, is_cross_site, single_header
from tersely.http.limits import BODY_SECONDS, declares_too_much, drain_refused, limit_body
from tersely.store.audit import AuditEntry
from tersely.web.access import access_of
from tersely.web.auth import Authenticator, Principal
from tersely.web.problems import ApiError, ErrorResponse, unexpected_error

MAX_BODY_BYTES = 2**20

PROBES = ("/health", "/ready")
"""Orchestrators call these by IP address, so their Host header is not checked. They reveal nothing."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types "
    "'none'"
)
_SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class AccessMiddleware:
    """ASGI middleware; see the module."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        allowed_hosts: AllowedHosts,
        authenticator: Authenticator,
        audit: Callable[[AuditEntry], Awaitable[None]],
    ) -> None:
        self.app = app
        self.allowed_hosts = allowed_hosts
        self.authenticator = authenticator
        self.audit = audit
        self._wrong_tokens = WrongTokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                await self._after(scope, message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            started = started or message["type"] != "websocket.http.response.body"
            await send(message)

        try:
            scope.setdefault("state", {})["principal"] = self._check(scope)
        except ApiError as refused:
            if refused.status_code == 413:
                await drain_refused(scope, receive)
            await _respond(scope, receive, send_with_headers, refused.response())
            return
        try:
            if scope["type"] == "http":
                receive = limit_body(receive, MAX_BODY_BYTES, _too_large, _too_slow)
            await self.app(scope, receive, send_with_headers)
        except Exception as problem:
            # The one broad catch: an unexpected error gets the common error body and is logged under an id.
            response = unexpected_error(problem, f"{scope.get('method', 'WebSocket')} {scope['path']}")
            if not started:
                await _respond(scope, receive, send_with_headers, response)
            elif scope["type"] == "http":
                raise  # Closes the connection: a partial response must not look complete.

    def _check(self, scope: Scope) -> Principal | None:
        """
        Raises:
            ApiError: The request is refused.
        """
        headers = scope["headers"]
        host = single_header(headers, b"host")
        if scope["path"] not in PROBES and (host is None or not self.allowed_hosts.allows_host(host)):
            raise ApiError(
                421,
                f"The host {(host or '')[:100]!a} is not allowed. Use localhost, or add the host to "
                "TERSELY_ALLOWED_HOSTS on the server.",
            )
        for name, value in headers:
            if name == b"origin" and not self.allowed_hosts.allows_origin(value.decode("latin-1"), host or ""):
                raise ApiError(
                    403,
                    f"Requests from pages of {value.decode('latin-1')[:100]!a} are not allowed.",
                    code="unknown_origin",
                )
        if is_cross_site(scope["method"] if scope["type"] == "http" else "", headers):
            raise ApiError(403, "Requests from pages of other sites are not allowed.", code="unknown_origin")
        if declares_too_much(headers, MAX_BODY_BYTES):
            raise _too_large()
        if self.authenticator.mode == "tokens" and _sends_token(scope):
            seconds = self._wrong_tokens.seconds_to_wait(client_address(scope))
            if seconds:
                raise ApiError(
                    429,
                    TOO_MANY,
                    headers={"Retry-After": str(seconds)},
                )
        principal = self.authenticator.identify(scope)
        if (
            principal is not None
            and principal.method in ("cookie", "proxy")
            and scope.get("method", "GET") not in ("GET", "HEAD", "OPTIONS")
        ):
            # Browsers attach these credentials by themselves (CSRF), so the request has to name the page it comes from.
            site = single_header(headers, b"sec-fetch-site")
            if (
                single_header(headers, b"origin") is None
                and site != "same-origin"
                and (principal.method == "cookie" or site is not None)
            ):
                raise ApiError(403, "A request with a login cookie must have an Origin header.", code="unknown_origin")
        return principal

    async def _after(self, scope: Scope, status: int) -> None:
        """Count a wrong token, and record what the audit log is about, before the answer is sent."""
        access = access_of(scope.get("endpoint"))
        is_wrong_token = status == 401 and _sends_token(scope)
        if is_wrong_token:
            self._wrong_tokens.note(scope)
        if not is_wrong_token and (access is None or not access.audit):
            return
        state = scope.get("state", {})
        principal: Principal | None = state.get("principal")
        path = scope.get("path_params", {})
        entry = AuditEntry(
            action=(access.audit if access else "") or "wrong_token",
            principal=principal.name if principal else "",
            method=principal.method if principal else "",
            address=client_address(scope),
            target=state.get("audited")
            or "/".join(str(path[name]) for name in ("session_id", "handle") if name in path),
            status=status,
        )
        await self.audit(entry)


def _sends_token(scope: Scope) -> bool:
    """Whether a request comes with a token of its own: in its header, or in the body of a login."""
    is_login = scope["path"] == "/login" and scope.get("method") == "POST"
    return is_login or any(name == b"authorization" for name, _ in scope["headers"])


def _too_large() -> ApiError:
    message = f"The request is larger than {MAX_BODY_BYTES:,} bytes. Send the relevant part, or a link to the rest."
    return ApiError(413, message, headers={"Connection": "close"})


def _too_slow() -> ApiError:
    message = f"The request's body did not arrive within {BODY_SECONDS:.0f} s."
    return ApiError(408, message, headers={"Connection": "close"})


async def _respond(scope: Scope, receive: Receive, send: Send, response: ErrorResponse) -> None:
    if scope["type"] == "http":
        await response(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await send(
            {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
        )
        await send({"type": "websocket.http.response.body", "body": response.body})
    else:
        await send({"type": "websocket.close", "code": 1008})
