"""Runbooks by address: https, on a host of the allow-list, public, and small.

A request never reaches an address inside of the network: the host's name is resolved
once, every address it has must be public, and the connection goes to that address. Each
redirect is checked in the same way. The token for GitHub is sent to GitHub's hosts only.
"""

import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urljoin, urlsplit

import anyio
import httpx2

from tersely.errors import InputError
from tersely.sessions.runbook_options import GITHUB_HOSTS, RunbookOptions

MOST_REDIRECTS = 4
MOST_CACHED = 200

_RAW_TYPE = "application/vnd.github.raw+json, text/plain;q=0.9, */*;q=0.1"


def is_public(address: str) -> bool:
    found = ip_address(address)
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_global and not found.is_multicast


async def resolved(host: str) -> list[str]:
    """The addresses of a host."""
    found = await anyio.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(one[4][0]) for one in found))


@dataclass(frozen=True)
class _Cached:
    text: str
    tag: str
    at: float


class Runbooks:
    """Reads runbooks; shared by all sessions of a process."""

    def __init__(
        self,
        options: RunbookOptions,
        *,
        resolve: Callable[[str], Awaitable[Sequence[str]]] = resolved,
        may_connect: Callable[[str], bool] = is_public,
        trust: ssl.SSLContext | None = None,
        port: int = 443,
    ) -> None:
        """
        Args:
            resolve: Returns the addresses of a host.
            may_connect: Whether a connection to this address is allowed.
            trust: The certificates that are trusted; the usual ones unless given.
        """
        self._options = options
        self._resolve, self._may_connect = resolve, may_connect
        self._trust: ssl.SSLContext | bool = True if trust is None else trust
        self._port = port
        self._cache: dict[str, _Cached] = {}

    def check(self, address: str) -> str:
        """The address from which a runbook is read; see `RunbookOptions.address`."""
        return self._options.address(address)

    async def read(self, address: str) -> str:
        """Read a runbook.

        Raises:
            InputError: The address is not allowed, does not answer with a text, or the text is too long.
        """
        url = self.check(address)
        cached = self._cache.get(url)
        if cached and time.monotonic() - cached.at < self._options.cache_seconds:
            return cached.text
        try:
            with anyio.fail_after(self._options.timeout):
                found = await self._follow(url, cached)
        except TimeoutError:
            raise InputError(f"The runbook did not come within {self._options.timeout:g} s.") from None
        except (httpx2.HTTPError, OSError) as problem:
            raise InputError(f"The runbook could not be read: {type(problem).__name__}.") from None
        self._cache.pop(url, None)
        self._cache[url] = found
        while len(self._cache) > MOST_CACHED:
            del self._cache[next(iter(self._cache))]
        return found.text

    async def _follow(self, url: str, cached: _Cached | None) -> _Cached:
        async with httpx2.AsyncClient(verify=self._trust, trust_env=False, follow_redirects=False) as http:
            for _ in range(MOST_REDIRECTS + 1):
                request = await self._request(http, url, cached)
                response = await http.send(request, stream=True)
                try:
                    if response.status_code == 304 and cached:
                        return _Cached(cached.text, cached.tag, time.monotonic())
                    if response.is_redirect:
                        url = self.check(urljoin(url, response.headers.get("location", "")))
                        continue
                    if response.status_code != 200:
                        raise InputError(f"The runbook could not be read: its host answered {response.status_code}.")
                    text = await self._text(response)
                    return _Cached(text, response.headers.get("etag", ""), time.monotonic())
                finally:
                    await response.aclose()
        raise InputError(f"The runbook could not be read: more than {MOST_REDIRECTS} redirects.")

    async def _request(self, http: httpx2.AsyncClient, url: str, cached: _Cached | None) -> httpx2.Request:
        """A request to the one address that was checked, whatever the host's name means a moment later."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        addresses = await self._resolve(host)
        if not addresses or not all(map(self._may_connect, addresses)):
            raise InputError(f"The runbook could not be read: {host} has an address that is not public.")
        headers = {"Host": host, "Accept": _RAW_TYPE, "User-Agent": "tersely"}
        if cached and cached.tag:
            headers["If-None-Match"] = cached.tag
        if (token := self._options.github_token) and host in GITHUB_HOSTS:
            headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        address = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
        target = parts._replace(netloc=f"{address}:{self._port}").geturl()
        return http.build_request("GET", target, headers=headers, extensions={"sni_hostname": host})

    async def _text(self, response: httpx2.Response) -> str:
        most = self._options.max_bytes
        read = bytearray()
        async for part in response.aiter_bytes():
            read += part
            if len(read) > most:
                raise InputError(f"The runbook is longer than {most:,} bytes.")
        if b"\0" in read:
            raise InputError("The runbook is not a text.")
        return read.decode("utf-8", "replace")
