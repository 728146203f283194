"""Request bodies are bounded before anything reads them.

A declared size is checked first; a body without one is counted while it arrives.
The rest of a refused body is read and dropped for a moment, because a client that
is cut off while it is still sending never sees the response.
"""

from collections.abc import Callable, Iterable

import anyio
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

DRAIN_BYTES = 16 * 2**20
DRAIN_SECONDS = 3.0
BODY_SECONDS = 30.0
"""How long a body may take to arrive. Slow senders would hold connections and memory."""


def declares_too_much(headers: Iterable[tuple[bytes, bytes]], limit: int) -> bool:
    """Whether `Content-Length` exceeds the limit, or is not a number."""
    sizes = [value for name, value in headers if name == b"content-length"]
    return any(not size.isdigit() or int(size[:20]) > limit for size in sizes)


def limit_body(
    receive: Receive, limit: int, too_large: Callable[[], Exception], too_slow: Callable[[], Exception]
) -> Receive:
    """`receive`, which raises `too_large()` as soon as the body exceeds the limit, after draining the rest, and
    `too_slow()` when it has not arrived in time.
    """
    size = 0
    deadline = anyio.current_time() + BODY_SECONDS
    is_complete = False

    async def limited() -> Message:
        nonlocal size, is_complete
        if is_complete:
            return await receive()
        try:
            with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
                message = await receive()
        except TimeoutError:
            raise too_slow() from None
        is_complete = not message.get("more_body")
        size += len(message.get("body", b""))
        if size > limit:
            if message.get("more_body"):
                await drain(receive)
            raise too_large()
        return message

    return limited


async def drain_refused(scope: Scope, receive: Receive) -> None:
    """Drain the body of a refused request, unless the client waits for `100 Continue` and sends none."""
    if not any(name == b"expect" for name, _ in scope["headers"]):
        await drain(receive)


async def drain(receive: Receive) -> None:
    """Read and drop the rest of a body, up to `DRAIN_BYTES` and for at most `DRAIN_SECONDS`."""
    size = 0
    with anyio.move_on_after(DRAIN_SECONDS):
        while size < DRAIN_BYTES:
            message = await receive()
            size += len(message.get("body", b""))
            if message["type"] != "http.request" or not message.get("more_body"):
                return


class BodyTooLarge(Exception):
    """The request body exceeds the limit."""


class BodyTooSlow(Exception):
    """The request body did not arrive in time."""


class BodyLimit:
    """ASGI middleware: reads the whole body up to a limit before the application sees the request; beyond it, 413."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app = app
        self.limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if declares_too_much(scope["headers"], self.limit):
            await drain_refused(scope, receive)
            await self._refuse(scope, receive, send)
            return
        limited = limit_body(receive, self.limit, BodyTooLarge, BodyTooSlow)
        chunks: list[bytes] = []
        more = True
        while more:
            try:
                message = await limited()
            except BodyTooLarge:
                await self._refuse(scope, receive, send)
                return
            except BodyTooSlow:
                text = f"The request's body did not arrive within {BODY_SECONDS:.0f} s."
                refused = JSONResponse({"error": text}, status_code=408, headers={"Connection": "close"})
                await refused(scope, receive, send)
                return
            if message["type"] == "http.disconnect":
                return
            chunks.append(message.get("body", b""))
            more = message.get("more_body", False)
        whole: list[Message] = [{"type": "http.request", "body": b"".join(chunks), "more_body": False}]
        chunks.clear()

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        text = (
            f"The request is larger than {self.limit:,} bytes. Send less, or raise TERSELY_MAX_BODY_BYTES on the "
            "server."
        )
        response = JSONResponse({"error": text}, status_code=413, headers={"Connection": "close"})
        await response(scope, receive, send)
