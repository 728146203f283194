"""Compressed responses: Brotli or gzip, whichever the client accepts, for texts of at least a kilobyte.

Files of the dashboard are compressed once and kept; what the API answers is compressed as it is sent, in a thread if it
is large. Images, downloads and everything that is already encoded pass unchanged.
"""

import gzip
import zlib
from typing import Literal

import brotli
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tersely.cpu.run import run_in_thread

_SMALLEST = 1_000
_IN_THREAD = 32_000
_MOST_KEPT = 200
_TYPES = ("application/json", "text/", "image/svg+xml", "application/javascript")

ContentCoding = Literal["br", "gzip"]


def accepted_coding(header: str) -> ContentCoding | None:
    """The best coding that an Accept-Encoding header allows."""
    allowed: set[str] = set()
    for part in header.lower().split(","):
        name, _, weight = part.partition(";")
        if weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000"):
            allowed.add(name.strip())
    return "br" if "br" in allowed else "gzip" if "gzip" in allowed or "*" in allowed else None


class CompressionMiddleware:
    """ASGI middleware; see the module."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._files: dict[tuple[str, str, str], bytes] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        coding = None
        if scope["type"] == "http" and scope["method"] == "GET":
            coding = accepted_coding(Headers(scope=scope).get("accept-encoding", ""))
        if coding is None:
            await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, _Sender(scope["path"], coding, send, self._files))


class _Sender:
    """Compresses the body of one response."""

    def __init__(self, path: str, coding: ContentCoding, send: Send, files: dict[tuple[str, str, str], bytes]) -> None:
        self.path, self.coding, self.send, self.files = path, coding, send, files
        self.start: Message | None = None
        self.stream: zlib._Compress | None = None
        self.body = b""
        self.passes = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self.passes:
            headers = MutableHeaders(scope=message)
            self.passes = (
                message["status"] != 200
                or "content-encoding" in headers
                or not headers.get("content-type", "").startswith(_TYPES)
            )
            if not self.passes:
                self.start = message
                headers.add_vary_header("Accept-Encoding")
                return
        if self.passes or message["type"] != "http.response.body":
            await self.send(message)
            return
        await self._body(message.get("body", b""), more=message.get("more_body", False))

    async def _body(self, body: bytes, *, more: bool) -> None:
        assert self.start is not None
        headers = MutableHeaders(scope=self.start)
        etag = headers.get("etag", "")
        if etag and (more or self.body):
            # A file: its chunks are collected and compressed once.
            self.body += body
            if more:
                return
            body = self.body
        if self.stream is None and not more:
            if len(body) >= _SMALLEST:
                body = await self._whole(body, etag)
                headers["Content-Encoding"] = self.coding
            headers["Content-Length"] = str(len(body))
            await self.send(self.start)
            await self.send({"type": "http.response.body", "body": body})
            return
        if self.stream is None:
            # Of unknown length: gzip, piece by piece.
            self.stream = zlib.compressobj(5, zlib.DEFLATED, 31)
            headers["Content-Encoding"] = "gzip"
            del headers["Content-Length"]
            await self.send(self.start)
        compressed = self.stream.compress(body) + (b"" if more else self.stream.flush())
        await self.send({"type": "http.response.body", "body": compressed, "more_body": more})

    async def _whole(self, body: bytes, etag: str) -> bytes:
        key = (self.path, etag, self.coding)
        if etag and key in self.files:
            return self.files[key]
        if len(body) < _IN_THREAD:
            compressed = _compressed(body, self.coding, bool(etag))
        else:
            compressed = await run_in_thread(_compressed, body, self.coding, bool(etag))
        if etag:
            if len(self.files) >= _MOST_KEPT:
                self.files.clear()
            self.files[key] = compressed
        return compressed


def _compressed(body: bytes, coding: ContentCoding, lasting: bool) -> bytes:
    if coding == "br":
        return bytes(brotli.compress(body, quality=9 if lasting else 4))
    return gzip.compress(body, 9 if lasting else 5, mtime=0)
