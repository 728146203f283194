"""Which Host and Origin headers a server that programs call accepts."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Scope

from tersely.http.hosts import HostGuard

SERVED = Starlette(
    routes=[Route("/", lambda request: PlainTextResponse("in"), methods=["GET", "POST"])],
    middleware=[Middleware(HostGuard, allowed_hosts=["gateway", "*.corp.example"])],
)


async def status(host: str, origin: str = "", *, method: str = "GET", address: str = "10.1.2.3", **more: str) -> int:
    given = {"host": host, "origin": origin, **more}
    headers = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in given.items() if value or name == "host"
    ]
    scope: Scope = {"type": "http", "method": method, "path": "/", "query_string": b"", "headers": headers}
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


@pytest.mark.parametrize(
    ("origin", "method", "more", "expected"),
    [
        ("", "GET", {"sec_fetch_site": "cross-site"}, 403),
        ("", "POST", {"sec_fetch_site": "cross-site"}, 403),
        ("", "POST", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 403),
        ("", "GET", {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, 200),  # a link is followed
        ("", "GET", {"sec_fetch_site": "same-origin"}, 200),
        ("http://localhost:6274", "POST", {"sec_fetch_site": "cross-site"}, 200),  # a page on this machine
    ],
)
async def test_what_a_browser_calls_cross_site_is_refused_unless_it_names_a_known_page(
    origin: str, method: str, more: dict[str, str], expected: int
) -> None:
    assert await status("127.0.0.1:8008", origin, method=method, **more) == expected
