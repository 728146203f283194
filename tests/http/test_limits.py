"""Bodies are bounded before the application reads them."""

from typing import Any

import pytest

from tersely.http import limits
from tersely.http.limits import BodyLimit, declares_too_much

LIMIT = 10


async def request(*chunks: bytes, headers: tuple[tuple[bytes, bytes], ...] = ()) -> tuple[int, bytes, list[bytes]]:
    """Status, the body the application read, and the chunks left unread."""
    left = list(chunks)
    sent: list[Any] = []
    seen = b""

    async def receive() -> Any:
        return {"type": "http.request", "body": left.pop(0) if left else b"", "more_body": bool(left)}

    async def send(message: Any) -> None:
        sent.append(message)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal seen
        message = await receive()
        assert not message["more_body"], "the application gets the body in one piece"
        seen = message["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})

    await BodyLimit(app, LIMIT)({"type": "http", "headers": list(headers)}, receive, send)
    return sent[0]["status"], seen, left


async def test_a_body_within_the_limit_reaches_the_application_whole() -> None:
    assert await request(b"12345", b"", b"67890") == (200, b"1234567890", [])


async def test_a_body_without_a_declared_size_is_refused_as_soon_as_it_is_too_large() -> None:
    assert await request(b"12345", b"678901", b"rest") == (413, b"", []), "the rest is drained"


@pytest.mark.parametrize("size", [b"11", b"9" * 5_000, b"-1", b"ten", b"\xb2", b""])
async def test_a_declared_size_beyond_the_limit_is_refused_and_the_body_drained(size: bytes) -> None:
    assert await request(b"x", b"y", headers=((b"content-length", size),)) == (413, b"", [])


async def test_a_client_that_waits_for_continue_is_refused_without_reading_its_body() -> None:
    headers = ((b"content-length", b"99"), (b"expect", b"100-continue"))
    assert await request(b"not sent yet", headers=headers) == (413, b"", [b"not sent yet"])


async def test_draining_stops_at_its_own_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DRAIN_BYTES", 20)
    status, _, left = await request(b"x" * 11, *[b"y" * 10] * 10)
    assert status == 413
    assert len(left) == 8


def test_a_request_without_a_declared_size_passes_the_first_check() -> None:
    assert not declares_too_much([(b"host", b"localhost")], LIMIT)
    assert not declares_too_much([(b"content-length", b"10")], LIMIT)
