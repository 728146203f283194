"""The HTTP client of all providers' SDKs: bounded in time and in size.

`httpx2` has one read timeout for everything. A thinking model may take two minutes
to its first byte, but must not pause for half a minute after that, and a response
(decompressed) must not fill the memory. So requests and responses pass through this
client. SDKs see ordinary httpx2 errors.
"""

import zlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2

from tersely.tls import tls_context


@dataclass(frozen=True)
class Timeouts:
    """Timeouts of one call, in seconds."""

    connect: float = 10.0
    first_byte: float = 120.0
    """Thinking models take long to begin."""

    between_bytes: float = 30.0
    total: float = 600.0
    """For servers that keep a response alive with single bytes."""


LARGEST_ANSWER = 16 * 2**20
"""Bytes, decompressed. No model writes this much."""


class TimedOut(httpx2.ReadTimeout):
    """The server accepted the request and did not answer in time."""

    most_retries = 1
    """A server that was silent once may have lost the request; twice, it has a problem that takes longer."""


class TookTooLong(TimedOut):
    """The answer was not complete within `Timeouts.total`."""

    most_retries = 0


class AnswerTooLarge(httpx2.DecodingError):
    """The response, decompressed, exceeds `LARGEST_ANSWER`."""


class WebPage(httpx2.DecodingError):
    """The response is HTML, from a proxy or from a server that is not an API."""


class BoundedHTTPClient(httpx2.AsyncClient):
    def __init__(
        self,
        timeouts: Timeouts,
        *,
        headers: Mapping[str, str] | None = None,
        ca_file: str | None = None,
        **options: Any,
    ) -> None:
        """
        Args:
            headers: Sent with every request.
            ca_file: Certificates of authorities to trust, instead of the system's.

        Raises:
            ConfigError: The file cannot be read, or has no certificates.
        """
        if ca_file:
            options["verify"] = tls_context(ca_file=ca_file)
        super().__init__(
            timeout=httpx2.Timeout(None, connect=timeouts.connect, pool=timeouts.total),
            # Identity, so that most responses need no decompression.
            headers={"Accept-Encoding": "identity", **(headers or {})},
            limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
            **options,
        )
        self.timeouts = timeouts

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        began = anyio.current_time()
        # The SDKs set timeouts on each request; these replace them.
        request.extensions["timeout"] = {"connect": self.timeouts.connect, "pool": self.timeouts.total}
        with anyio.move_on_after(self.timeouts.first_byte) as scope:
            response = await super().send(request, stream=True, **options)
        if scope.cancelled_caught:
            raise TimedOut(f"no response within {self.timeouts.first_byte:g} s", request=request)
        if response.is_success and response.headers.get("content-type", "").lower().startswith("text/html"):
            # As a stream it would be parsed as one without content.
            await response.aclose()
            raise WebPage("the response is a web page", request=request)
        response.stream = _BoundedStream(response, self.timeouts, began)
        if not stream:
            await response.aread()
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response, timeouts: Timeouts, began: float) -> None:
        self.response = response
        self.timeouts = timeouts
        self.began = began
        self.wrapped = response.stream
        self.inflate: Any = None
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            # Decompressed here, where the size is checked, instead of by httpx2.
            self.inflate = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
            del response.headers["content-encoding"]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        assert isinstance(self.wrapped, httpx2.AsyncByteStream)
        chunks = aiter(self.wrapped)
        received = 0
        limit = self.timeouts.first_byte
        while True:
            in_all = self.began + self.timeouts.total
            deadline = min(anyio.current_time() + limit, in_all)
            with anyio.CancelScope(deadline=deadline) as scope:
                try:
                    chunk = await anext(chunks)
                except StopAsyncIteration:
                    return
            if scope.cancelled_caught:
                if deadline == in_all:
                    raise TookTooLong(f"the response took over {self.timeouts.total:g} s")
                raise TimedOut(f"the response paused for {limit:g} s")
            limit = self.timeouts.between_bytes
            if self.inflate:
                chunk = self.inflate.decompress(chunk, LARGEST_ANSWER + 1 - received)
            received += len(chunk)
            if received > LARGEST_ANSWER or (self.inflate and self.inflate.unconsumed_tail):
                raise AnswerTooLarge(f"the response is larger than {LARGEST_ANSWER // 2**20} MiB")
            yield chunk

    async def aclose(self) -> None:
        assert isinstance(self.wrapped, httpx2.AsyncByteStream)
        await self.wrapped.aclose()
