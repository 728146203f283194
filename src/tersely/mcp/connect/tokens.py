"""The bearer token of a stored login, refreshed when it expires or is refused.

Never starts a login: that needs a person and happens in `tersely gateway login`. When one is needed, the
request fails with a sentence that names the command.
"""

import json
import time
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
from pydantic import SecretStr

from tersely.cpu.run import run_in_thread
from tersely.errors import ConfigError
from tersely.mcp.connect.wire import TransportProblem
from tersely.mcp.logins import LOGIN_COMMAND, Login, LoginStore, canonical

EARLY = 30.0
"""Seconds before its end at which a token is refreshed."""

_LARGEST_RESPONSE = 256 * 1024


def login_needed(url: str, why: str, *, status: int = 401) -> TransportProblem:
    return TransportProblem("login", f"{why}: run `{LOGIN_COMMAND} {canonical(url)}`", status=status)


class RefreshFailed(Exception):
    def __init__(self, problem: TransportProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class StoredLogin:
    """The login at one server's address, as far as there is one."""

    def __init__(self, store: LoginStore, url: str) -> None:
        self._store = store
        self._url = url
        self._login: Login | None = None
        self._version = -1
        self._lock = anyio.Lock()

    async def token(self, refused: str = "") -> str:
        """The current access token; empty if there is no login.

        Args:
            refused: The token that the server refused just now. It is not returned again.

        Raises:
            RefreshFailed: The token has expired and cannot be refreshed; the problem says what to do.
        """
        if self._login is None and self._store.version(self._url) == self._version:
            return ""
        async with self._lock:
            await self._read()
            login = self._login
            if login is None:
                return ""
            current = login.access_token.get_secret_value()
            if current != refused and not login.expires_within(EARLY):
                return current
            if login.refresh_token is None:
                if refused:
                    raise RefreshFailed(login_needed(self._url, "its login has expired"))
                return current
            async with self._store.locked(self._url):
                await self._read()  # another process may have refreshed it meanwhile
                if self._login is not None and self._login.access_token.get_secret_value() != current:
                    return self._login.access_token.get_secret_value()
                self._login = await self._refreshed(login)
                # If it cannot be stored it is used from memory; the next start may then need a new login.
                with suppress(ConfigError):
                    await run_in_thread(self._store.save, self._login)
                self._version = self._store.version(self._url)
                return self._login.access_token.get_secret_value()

    async def _read(self) -> None:
        if (version := self._store.version(self._url)) != self._version:
            self._login = await run_in_thread(self._store.get, self._url) if version else None
            self._version = version

    async def _refreshed(self, login: Login) -> Login:
        assert login.refresh_token
        form = {"grant_type": "refresh_token", "refresh_token": login.refresh_token.get_secret_value()}
        if login.resource:
            form["resource"] = login.resource
        status, answer = await post_form(login, login.token_endpoint, form)
        if status in (400, 401, 403):
            raise RefreshFailed(login_needed(self._url, "its login has expired"))
        token = answer.get("access_token")
        if status != 200 or not isinstance(token, str) or not token:
            why = f"HTTP {status}" if status else "no connection"
            raise RefreshFailed(TransportProblem("not_sent", f"its login could not be refreshed ({why})"))
        lifetime = answer.get("expires_in")
        renewed = answer.get("refresh_token")
        return login.model_copy(
            update={
                "access_token": SecretStr(token),
                # A server that does not rotate refresh tokens leaves it out (RFC 6749, section 6).
                "refresh_token": SecretStr(renewed) if isinstance(renewed, str) and renewed else login.refresh_token,
                "expires_at": time.time() + float(lifetime) if isinstance(lifetime, int | float) else None,
                "scope": answer.get("scope") if isinstance(answer.get("scope"), str) else login.scope,
            }
        )


async def post_form(login: Login, address: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """Send a form to the authorization server as the registered client. Status 0: it could not be reached."""
    secret = login.client_secret.get_secret_value() if login.client_secret else ""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    form = {**form, "client_id": login.client_id}
    auth: httpx2.Auth = httpx2.Auth()
    if secret and login.token_endpoint_auth_method == "client_secret_basic":
        auth = httpx2.BasicAuth(quote(login.client_id, safe=""), quote(secret, safe=""))
    elif secret:
        form["client_secret"] = secret
    try:
        async with (
            httpx2.AsyncClient(timeout=20, follow_redirects=False) as client,
            client.stream("POST", address, data=form, headers=headers, auth=auth) as response,
        ):
            body = b""
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > _LARGEST_RESPONSE:
                    return response.status_code, {}
    except (httpx2.TransportError, httpx2.InvalidURL):
        return 0, {}
    try:
        answer = json.loads(body or b"{}")
    except ValueError:
        answer = {}
    return response.status_code, answer if isinstance(answer, dict) else {}
