"""The HTTP client that all providers' SDKs talk through: bounded in time and in size.

`httpx2` knows one read timeout for everything. A thinking model may take two
minutes to its first byte and must then not fall silent for half of one, and an
answer (decompressed) must not fill the memory; so sending and reading go
through here. SDKs see ordinary httpx2 errors.
"""

import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2


@dataclass(frozen=True)
class Timeouts:
    """How long one call may take, in seconds."""

    connect: float = 10.0
    first_byte: float = 120.0
    """Thinking models are silent for long."""

    between_bytes: float = 30.0
    total: float = 600.0
    """Against a server that drips a byte now and then."""


LARGEST_ANSWER = 16 * 2**20
"""Bytes, decompressed. No model writes as much; what comes with more is not an answer."""


class AnswerTooLarge(httpx2.DecodingError):
    """The answer, decompressed, is over `LARGEST_ANSWER`."""


class WebPage(httpx2.DecodingError):
    """The answer is a page for people: of a proxy, or of a server that is no API."""


class BoundedHTTPClient(httpx2.AsyncClient):
    def __init__(self, patience: Timeouts, **options: Any) -> None:
        super().__init__(
            timeout=httpx2.Timeout(None, connect=patience.connect, pool=patience.total),
            # Identity, so that nothing has to be decompressed where the server is polite.
            headers={"Accept-Encoding": "identity"},
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            **options,
        )
        self.patience = patience

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        began = anyio.current_time()
        # The SDKs put timeouts of their own on each request; ours replace all but the connecting.
        request.extensions["timeout"] = {"connect": self.patience.connect, "pool": self.patience.total}
        with anyio.move_on_after(self.patience.first_byte) as scope:
            response = await super().send(request, stream=True, **options)
        if scope.cancelled_caught:
            raise httpx2.ReadTimeout(f"no answer within {self.patience.first_byte:g} s", request=request)
        if response.is_success and response.headers.get("content-type", "").lower().startswith("text/html"):
            # Where a stream was asked for, it would be read as one without a word in it.
            await response.aclose()
            raise WebPage("a web page", request=request)
        response.stream = _BoundedStream(response, self.patience, began)
        if not stream:
            await response.aread()
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, patience: Timeouts, began: float) -> None:
        self.response = response
        self.patience = patience
        self.began = began
        self.inner = response.stream
        self.inflate: Any = None
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            # Decompressed here, where the size can be watched, instead of by httpx2 afterwards.
            self.inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            del response.headers["content-encoding"]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self.inner, httpx2.AsyncByteStream)
        chunks = aiter(self.inner)
        seen = 0
        limit = self.patience.first_byte
        while True:
            deadline = min(anyio.current_time() + limit, self.began + self.patience.total)
            with anyio.CancelScope(deadline=deadline) as scope:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
            if scope.cancelled_caught:
                raise httpx2.ReadTimeout(
                    f"the answer stopped for {limit:g} s, or took over {self.patience.total:g} s in all"
                )
            limit = self.patience.between_bytes
            if self.inflate:
                chunk = self.inflate.decompress(chunk, LARGEST_ANSWER + 1 - seen)
            seen += len(chunk)
            if seen > LARGEST_ANSWER or (self.inflate and self.inflate.unconsumed_tail):
                raise AnswerTooLarge(f"the answer is larger than {LARGEST_ANSWER // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        assert isinstance(self.inner, httpx2.AsyncByteStream)
        await self.inner.aclose()
