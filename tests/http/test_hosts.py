"""Which Host and Origin headers a server that programs call accepts."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Scope

from tersely.http.hosts import HostGuard

SERVED = Starlette(
    routes=[Route("/", lambda request: PlainTextResponse("in"))],
    middleware=[Middleware(HostGuard, allowed_hosts=["gateway", "*.corp.example"])],
)


async def status(host: str, origin: str = "", *, address: str = "10.1.2.3") -> int:
    headers = [(b"host", host.encode()), *([(b"origin", origin.encode())] if origin else [])]
    scope: Scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    await SERVED({**scope, "scheme": "http", "server": (address, 8008)}, receive, send)
    return int(sent[0]["status"])


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8008", 200),
        ("localhost", 200),
        ("[::1]:8008", 200),
        ("gateway:8008", 200),
        ("a.corp.example", 200),
        ("10.1.2.3:8008", 200),  # the address that was connected to
        ("10.1.2.4", 421),
        ("corp.example", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
async def test_only_known_names_are_answered(host: str, expected: int) -> None:
    assert await status(host) == expected


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("127.0.0.1:8008", "http://127.0.0.1:8008", 200),
        ("127.0.0.1:8008", "http://localhost:6274", 200),  # a page on this machine
        ("gateway:8008", "https://gateway:8008", 200),  # behind a proxy with TLS
        ("gateway:8008", "http://localhost:6274", 403),
        ("gateway:8008", "http://gateway:9", 403),
        ("127.0.0.1:8008", "https://evil.example", 403),
        ("127.0.0.1:8008", "null", 403),
        ("127.0.0.1:8008", "http://localhost@evil.example", 403),
    ],
)
async def test_pages_of_strangers_are_refused(host: str, origin: str, expected: int) -> None:
    assert await status(host, origin) == expected
