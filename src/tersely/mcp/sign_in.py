"""Log in at a remote server: OAuth authorization code with PKCE, in the browser of the user.

Discovery (RFC 9728, RFC 8414), dynamic registration (RFC 7591), PKCE and the exchange of the code are the
SDK's. This module provides the loopback address that the browser returns to (RFC 8252), refuses
unencrypted authorization servers, and turns the outcome into a `Login`. `mcp.connect.tokens` uses it later.
"""

import hmac
import logging
import time
from collections.abc import Callable
from html import escape
from typing import Any
from urllib.parse import parse_qs, urljoin, urlsplit

import anyio
import anyio.abc
import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.exceptions import OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl, SecretStr, ValidationError

from tersely.errors import SignInFailed
from tersely.mcp.connect.tokens import post_form
from tersely.mcp.logins import Login, canonical

_LOCAL = ("localhost", "127.0.0.1", "::1")
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tersely", "version": "0"},
    },
}
_HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

# The SDK logs the traceback of every failed flow; the command prints one sentence.
logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL)


class _Memory:
    """The SDK's storage for the duration of one login."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Provider(OAuthClientProvider):
    extra_scope: str = ""

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        metadata = self.context.oauth_metadata
        for endpoint in (metadata.authorization_endpoint, metadata.token_endpoint) if metadata else ():
            _check_encrypted(str(endpoint))
        if self.extra_scope:
            # The SDK asks for what the server advertises; there is no public way to ask for more.
            self.context.client_metadata.scope = union_scopes(self.context.client_metadata.scope, self.extra_scope)
        return await super()._perform_authorization_code_grant()


def _check_encrypted(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
        raise SignInFailed(f"The authorization server's address {address} is not https, so no login is sent to it.")


async def sign_in(
    url: str,
    *,
    show: Callable[[str], None],
    scope: str = "",
    client_id: str = "",
    client_secret: str = "",
    port: int = 0,
    patience: float = 300,
) -> Login:
    """Log in and return the tokens.

    Args:
        show: Called with the address that the user has to open in a browser.
        scope: Scopes to ask for in addition to those that the server names.
        client_id: A client that was registered by hand, for servers without dynamic registration.
        port: Port of the loopback address that the browser returns to; 0 for a free one.
        patience: Seconds to wait for the user.

    Raises:
        SignInFailed: The server needs no login, or it did not succeed.
    """
    _check_encrypted(url)
    async with await _listen(port) as listener:
        at = listener.extra(anyio.abc.SocketAttribute.local_port)
        redirect = f"http://127.0.0.1:{at}/callback"
        browser = _Browser(listener, show)
        metadata = OAuthClientMetadata(
            client_name="Tersely",
            redirect_uris=[AnyUrl(redirect)],
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method="client_secret_post" if client_secret else "none",
        )
        known = None
        if client_id:
            known = OAuthClientInformationFull(
                client_id=client_id,
                client_secret=client_secret or None,
                redirect_uris=[AnyUrl(redirect)],
                token_endpoint_auth_method="client_secret_post" if client_secret else "none",
            )
        memory = _Memory(known)
        provider = _Provider(url, metadata, memory, browser.redirect, browser.answer)
        provider.extra_scope = scope
        answer: httpx2.Response | None = None
        with anyio.move_on_after(patience):
            answer = await _probe(url, provider)
    if answer is None:
        raise SignInFailed(f"Nobody logged in within {patience:g} s.")
    return _login(url, provider, memory, answer)


async def _probe(url: str, provider: _Provider) -> httpx2.Response:
    """Send a request that the server refuses without a login; the SDK then performs it."""
    try:
        async with (
            httpx2.AsyncClient(auth=provider, timeout=30, follow_redirects=False) as client,
            client.stream("POST", url, json=_INITIALIZE, headers=_HEADERS) as response,
        ):
            return response
    except SignInFailed:
        raise
    except OAuthRegistrationError as problem:
        raise SignInFailed(
            f"The authorization server does not register clients by itself ({_short(problem)}). Register one there, "
            "with a redirect to http://127.0.0.1:PORT/callback, and pass --client-id and --port."
        ) from None
    except (OAuthFlowError, OAuthTokenError, ValidationError) as problem:
        raise SignInFailed(f"The login failed: {_short(problem)}.") from None
    except (httpx2.TransportError, httpx2.StreamError) as problem:
        raise SignInFailed(f"{url} cannot be reached: {_short(problem)}.") from None


def _login(url: str, provider: _Provider, memory: _Memory, answer: httpx2.Response) -> Login:
    tokens, client, context = memory.tokens, memory.client, provider.context
    if tokens is None or client is None:
        if answer.status_code < 400:
            raise SignInFailed(f"{canonical(url)} answers without a login; none is needed.")
        raise SignInFailed(f"{canonical(url)} answered HTTP {answer.status_code} and offers no login.")
    if answer.status_code in (401, 403):
        raise SignInFailed(f"The server refuses the token that its own login gave (HTTP {answer.status_code}).")
    metadata = context.oauth_metadata
    origin = context.get_authorization_base_url(url)
    revocation = metadata.revocation_endpoint if metadata else None
    return Login(
        url=canonical(url),
        access_token=SecretStr(tokens.access_token),
        refresh_token=SecretStr(tokens.refresh_token) if tokens.refresh_token else None,
        expires_at=time.time() + tokens.expires_in if tokens.expires_in else None,
        scope=tokens.scope,
        resource=context.get_resource_url()
        if context.should_include_resource_param(context.protocol_version)
        else None,
        client_id=client.client_id or "",
        client_secret=SecretStr(client.client_secret) if client.client_secret else None,
        token_endpoint_auth_method=client.token_endpoint_auth_method,
        token_endpoint=str(metadata.token_endpoint) if metadata else urljoin(origin, "/token"),
        revocation_endpoint=str(revocation) if revocation else None,
        issuer=str(metadata.issuer) if metadata else origin,
    )


async def revoke(login: Login) -> bool:
    """Tell the authorization server that the tokens are no longer used; False if it cannot be told."""
    if not login.revocation_endpoint:
        return False
    token = login.refresh_token or login.access_token
    # The empty secret of a public client: servers built with the SDK require the field.
    form = {"token": token.get_secret_value(), "client_secret": ""}
    status, _ = await post_form(login, login.revocation_endpoint, form)
    return status == 200


# The way back from the browser


async def _listen(port: int) -> anyio.abc.Listener[anyio.abc.SocketStream]:
    try:
        multi = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
    except OSError as problem:
        raise SignInFailed(f"Cannot listen on 127.0.0.1:{port}: {problem.strerror}. Try another --port.") from None
    (listener,) = multi.listeners
    return listener


class _Browser:
    """Sends the user to the authorization server, and receives the code on the loopback address."""

    def __init__(self, listener: anyio.abc.Listener[anyio.abc.SocketStream], show: Callable[[str], None]) -> None:
        self._listener = listener
        self._show = show
        self._state = ""

    async def redirect(self, address: str) -> None:
        _check_encrypted(address)
        self._state = parse_qs(urlsplit(address).query)["state"][0]
        self._show(address)

    async def answer(self) -> AuthorizationCodeResult:
        found: dict[str, str] = {}
        done = anyio.Event()

        async def handle(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                try:
                    with anyio.fail_after(10):
                        query = await _query(stream)
                        # Requests with another state are not the answer to this login; whoever sent them cannot end it.
                        is_ours = query is not None and _is_same(query.get("state") or "", self._state)
                        error = escape((query or {}).get("error_description") or (query or {}).get("error") or "")
                        if not is_ours:
                            await _page(stream, 400, "This is not the answer to the login that is waiting here.")
                        elif error:
                            await _page(stream, 200, f"The login was refused: {error}")
                        else:
                            await _page(stream, 200, "You are logged in. You can close this window.")
                except (TimeoutError, OSError, anyio.BrokenResourceError, anyio.EndOfStream):
                    return
            if is_ours and query is not None and not done.is_set():
                found.update(query)
                done.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listener.serve, handle)
            await done.wait()
            await anyio.sleep(0.05)  # the page is still on its way
            tasks.cancel_scope.cancel()
        if "code" not in found:
            reason = found.get("error_description") or found.get("error") or "no code"
            raise SignInFailed(f"The login was refused: {_short(reason)}.")
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


async def _query(stream: anyio.abc.SocketStream) -> dict[str, str] | None:
    """The query of a GET for the callback; None for any other request."""
    head = b""
    while b"\r\n\r\n" not in head and len(head) < 32_768:
        head += await stream.receive()
    method, _, rest = head.partition(b" ")
    target = rest.partition(b" ")[0].decode("ascii", "replace")
    if method != b"GET" or urlsplit(target).path != "/callback":
        return None
    return {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()}


async def _page(stream: anyio.abc.SocketStream, status: int, text: str) -> None:
    body = f"<!doctype html><meta charset=utf-8><title>Tersely</title><p>{text}</p>".encode()
    head = (
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Bad Request'}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nContent-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n"
    )
    await stream.send(head.encode() + body)


def _short(problem: Any) -> str:
    text = " ".join(str(problem).split()) or type(problem).__name__
    return "".join(char for char in text if char.isprintable())[:200].rstrip(". ")


def _is_same(given: str, secret: str) -> bool:
    """Compare in constant time: other programs on this machine can call the port, and guess."""
    return bool(secret) and hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())
